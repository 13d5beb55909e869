"""Signals for programs that tests start."""

from __future__ import annotations

import signal


def unignored() -> None:
    """Heed signals again (``preexec_fn``) which the tests themselves were started to ignore, by nohup or ``&``."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
