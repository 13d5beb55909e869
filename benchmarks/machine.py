"""What the machine is, and how busy it is."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

from synthscape.scale.render import available_workers

PACKAGES = ("synthscape", "numpy", "numba", "scipy", "soundfile", "pyarrow", "orjson")


def describe() -> list[tuple[str, str]]:
    """What figures depend on: (what, value)."""
    import soundfile

    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return [
        ("processor", f"{processor()}, {available_workers()} cores"),
        ("memory", f"{_memory_bytes() / 2**30:.0f} GiB"),
        ("system", f"{platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}"),
        ("packages", f"{packages}, libsndfile {soundfile.__libsndfile_version__}"),
    ]


def processor() -> str:
    """Model name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def idle(over_s: float) -> str:
    """How idle the machine is: the share of processor time nobody used, and the load average."""
    before = _times()
    time.sleep(over_s)
    spent = [b - a for a, b in zip(before, _times(), strict=True)]
    shares = ""
    if sum(spent):
        idle_ticks, stolen = spent[3] + spent[4], spent[7]
        shares = f"{100 * idle_ticks / sum(spent):.0f} % idle, {100 * stolen / sum(spent):.0f} % stolen, "
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    return f"{shares}load average {load}"


class Others:
    """How much of the processors everybody else took while the block ran, in percent: ``others.percent`` after it."""

    percent = 0.0

    def __enter__(self) -> Others:
        self._all, self._own = _times(), _own_s()
        return self

    def __exit__(self, *_: object) -> None:
        spent = [b - a for a, b in zip(self._all, _times(), strict=True)]
        if sum(spent):
            busy_s = (sum(spent) - spent[3] - spent[4]) / os.sysconf("SC_CLK_TCK")
            total_s = sum(spent) / os.sysconf("SC_CLK_TCK")
            self.percent = max(0.0, 100 * (busy_s - (_own_s() - self._own)) / total_s)


def filesystem(folder: Path) -> str:
    """Type of the file system a folder is on."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    real = folder.resolve()
    above = [(point, kind) for point, kind in mounts if real.is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def _own_s() -> float:
    """Processor time of this process and of those it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _times() -> list[int]:
    """Clock ticks: user, nice, system, idle, waiting, interrupts (2), stolen."""
    try:
        first = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
    except OSError:
        return [0] * 8
    return [int(value) for value in first.split()[1:9]]


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
