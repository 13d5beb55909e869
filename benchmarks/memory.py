"""Peak memory of a render, by its number of scenes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.stores import make_backgrounds, make_calls, spec_over
from benchmarks.tables import Section, number
from synthscape.scale.render import render

ITEMS = (1_000, 20_000)
_WORKERS = 2


def run(folder: Path, quick: bool) -> Section:
    calls = make_calls(folder / "memory-calls", n=100, shortest_s=0.1, longest_s=0.1)
    backgrounds = make_backgrounds(folder / "memory-backgrounds", n=4, length_s=5.0)
    items = (20, 40) if quick else ITEMS
    section = Section(
        "Memory",
        f"Scenes of 1 s with 2 events, {_WORKERS} threads, 512 scenes a shard; each render in a process of its own.",
    )
    peaks, rows = [], []
    for n in items:
        out = folder / "memory-out"
        begin = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.memory", str(n), str(calls.path), str(backgrounds.path), str(out)]
        said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        seconds = time.perf_counter() - begin
        shutil.rmtree(out)
        peaks.append(said["peak_bytes"])
        rows.append([f"{n:,}".replace(",", " "), number(said["peak_bytes"] / 2**20, 4), number(seconds)])
    growth = peaks[-1] - peaks[0]
    rows.append(["growth", f"{100 * growth / peaks[0]:.1f} %", ""])
    rows.append(["growth, bytes per scene", number(growth / (items[-1] - items[0])), ""])
    section.add(["scenes", "peak resident set, MiB", "time, s"], rows)
    return section


def _render(items: str, calls: str, backgrounds: str, out: str) -> None:
    overrides = [f"items={items}", "duration=1", "events.count=2", "events.resample={choice: [0.9, 1.1]}"]
    render(spec_over(Path(calls), Path(backgrounds), [*overrides, f"output.dir={out}"]), workers=_WORKERS)
    print(json.dumps({"peak_bytes": peak_bytes()}))


def peak_bytes() -> int:
    """Most memory this process has held."""
    # ru_maxrss would include what the parent held when it started us
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


if __name__ == "__main__":
    _render(*sys.argv[1:])
