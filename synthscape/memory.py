"""How much memory is free: what asks for more is refused with a message, instead of being killed halfway."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Final

_UNKNOWN: Final = 2**62
_CGROUPS: Final = Path("/sys/fs/cgroup")
_LITTLE: Final = 1 / 64  # of what was free
_RECENT_S: Final = 1.0
_last = (-math.inf, 0)  # when free memory was last looked up (s), and how much there was (bytes)


def short_of_memory(needed_bytes: float) -> str | None:
    """What to say if so much memory is not free, else None.

    >>> short_of_memory(1000)
    >>> short_of_memory(1e30)                           # doctest: +SKIP
    'it needs 1e+21 GB of memory, 12.3 GB are free'

    Asking the system takes half a millisecond, so a 64th of what was free within the last second is granted unasked.
    """
    global _last
    now = time.monotonic()
    looked_up, free = _last
    if needed_bytes <= _LITTLE * free and now - looked_up < _RECENT_S:
        return None
    free = available_bytes()
    _last = now, free
    if needed_bytes <= free:
        return None
    return f"it needs {needed_bytes / 1e9:.3g} GB of memory, {free / 1e9:.3g} GB are free"


def available_bytes() -> int:
    """Memory this process may still take: free or held by caches only, and within its limits. Huge if not known."""
    return max(0, min(_machine_bytes(), *_cgroup_bytes(), _limit_bytes()))


def _machine_bytes() -> int:
    info = _numbers(Path("/proc/meminfo"))
    if "MemAvailable" in info:
        return info["MemAvailable"] * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN


def _cgroup_bytes() -> list[int]:
    """What is left of the limits of containers and job schedulers (cgroup v2), from ours up to the outermost."""
    try:
        name = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
    except OSError:
        name = ""
    left = [_UNKNOWN]
    for folder in (_CGROUPS / name, *(_CGROUPS / name).parents):
        try:
            limit = int((folder / "memory.max").read_text())
            used = int((folder / "memory.current").read_text())
        except (OSError, ValueError):  # no such file, or "max": no limit
            continue
        caches = _numbers(folder / "memory.stat")
        left.append(limit - used + caches.get("inactive_file", 0) + caches.get("active_file", 0))
    return left


def _limit_bytes() -> int:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return _UNKNOWN
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return limit - pages * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return _UNKNOWN


def _numbers(path: Path) -> dict[str, int]:
    """Lines of ``name: number`` or ``name number``."""
    try:
        words = [line.replace(":", " ").split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}
