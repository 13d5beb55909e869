"""Ctrl-C, SIGTERM of schedulers, SIGHUP of closed terminals: a command ends in order; at a second one at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Final, NoReturn

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(BaseException):
    """We were asked to stop; ``code`` is the exit code that says so: 128 and the signal, so 130 after Ctrl-C."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise :class:`Stopped` in the block, in the main thread, at Ctrl-C, SIGTERM and SIGHUP.

    Signals that whoever started us has us ignore stay ignored.
    """

    def stop(number: int, _: object) -> NoReturn:
        for each in before:  # what is written at any moment is aside, or whole: to be killed does no harm
            signal.signal(each, signal.SIG_DFL)
        before.clear()
        raise Stopped(128 + number)

    before = {}
    if current_thread() is main_thread():
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        before = {number: was for number, was in before.items() if was not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)
