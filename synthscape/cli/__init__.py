"""The command line. Heavy imports happen inside commands, so that ``synthscape --help`` answers at once."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys

from synthscape.cli.app import app
from synthscape.errors import SynthscapeError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WRONG_INPUT, INTERRUPTED = 2, 130  # 0 is done, and 1 that some items failed or a check found something


def main() -> None:
    """Run the command line; bad input gives one line and exit code 2, never a traceback."""
    _settle_streams()
    try:
        app()
    except SynthscapeError as error:
        _fail(str(error), WRONG_INPUT)
    except OSError as error:  # a full disk, a read-only folder, a path that is no file
        where = f"{error.filename}: " if error.filename else ""
        advice = "; free some space, and run the same command again" if error.errno in _FULL else ""
        _fail(f"{where}{error.strerror or error}{advice}", WRONG_INPUT)
    except MemoryError:
        _fail("out of memory: ask for shorter or fewer things at once; what is finished is kept", WRONG_INPUT)
    except KeyboardInterrupt:
        _fail("interrupted; the same command goes on from here", INTERRUPTED)


def _settle_streams() -> None:
    """Make standard streams safe to use, whatever we were started with."""
    with contextlib.suppress(AttributeError, ValueError):  # not on Windows
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends us as it ends other programs: silently
    for descriptor in range(3):  # a closed one would be given to the next file we open, and be written to
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115


def _fail(message: str, code: int) -> None:
    print(f"synthscape: {message}", file=sys.stderr)
    sys.exit(code)
