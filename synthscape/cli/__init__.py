"""The command line. Heavy imports happen inside commands, so that ``synthscape --help`` answers at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from synthscape.cli.app import app
from synthscape.cli.stopping import Stopped, stoppable
from synthscape.cli.words import said
from synthscape.errors import SynthscapeError

WRONG_INPUT, INTERRUPTED = 2, 130  # 0 is done, and 1 that some items failed or a check found something


def main() -> None:
    """Run the command line; bad input gives one line and exit code 2, never a traceback."""
    _settle_streams()
    try:
        with stoppable():
            app()
    except (SynthscapeError, OSError, MemoryError) as error:
        _fail(said(error), WRONG_INPUT)
    except Stopped as stop:
        _fail(said(stop), stop.code)
    except KeyboardInterrupt as stop:
        _fail(said(stop), INTERRUPTED)


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
