"""The command line. Heavy imports happen inside commands, so that ``synthscape --help`` answers at once."""

from __future__ import annotations

import sys

from synthscape.cli.app import app
from synthscape.errors import SynthscapeError

DONE, FOUND, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130


def main() -> None:
    """Run the command line; bad input gives one line and exit code 2, never a traceback."""
    try:
        app()
    except SynthscapeError as error:
        _fail(str(error), WRONG_INPUT)
    except OSError as error:  # a full disk, a read-only folder, a path that is no file
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", WRONG_INPUT)
    except MemoryError:
        _fail("out of memory: ask for shorter or fewer things at once; what is finished is kept", WRONG_INPUT)
    except KeyboardInterrupt:
        _fail("interrupted; the same command goes on from here", INTERRUPTED)


def _fail(message: str, code: int) -> None:
    print(f"synthscape: {message}", file=sys.stderr)
    sys.exit(code)
