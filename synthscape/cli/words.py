"""How the command line says numbers and errors."""

from __future__ import annotations

import errno
import os
from typing import Final

from synthscape.errors import SynthscapeError

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def said(error: BaseException) -> str:
    """What a user is told of an error, or of an interruption and its notes."""
    if isinstance(error, SynthscapeError):
        return str(error)
    if isinstance(error, OSError):  # a full disk, a read-only folder, a path that is no file
        where = f"{error.filename}: " if error.filename else ""
        if error.errno in _FULL:  # of which libraries have words of their own
            return f"{where}{os.strerror(error.errno)}; free some space, and run the same command again"
        return f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "out of memory: ask for shorter or fewer things at once; what is finished is kept"
    return "; ".join(["interrupted", *getattr(error, "__notes__", ())])


def share(part: int, whole: int) -> str:
    """A share in percent, as text; a dash of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "-"
