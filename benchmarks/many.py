"""Very many tiny scenes without audio: what the machinery around them costs, and whether its memory grows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.memory import peak_bytes
from benchmarks.stores import make_backgrounds, make_calls, spec_over
from benchmarks.tables import Section, number
from synthscape.output.folder import DatasetFolder, ShardWriter
from synthscape.scale import render as rendering
from synthscape.scale import shard as shards
from synthscape.scale.render import render
from synthscape.tasks.generator import SceneGenerator

ITEMS = (20_000, 200_000)


def run(folder: Path, quick: bool) -> Section:
    calls = make_calls(folder / "calls", n=100, shortest_s=0.05, longest_s=0.05)
    backgrounds = make_backgrounds(folder / "backgrounds", n=4, length_s=5.0)
    items = (20, 40) if quick else ITEMS
    section = Section(
        "Very many scenes",
        "Scenes of 0.2 s with one event, tables only (`output.audio: none`), 512 a shard, one thread; each render in a "
        "process of its own. *Tables* are made, written and synced; *receipts* are looked up before, and read and "
        "summed up when all shards are there; *again* is the same render when all is there.",
    )
    said = [_said(folder / "out", n, calls.path, backgrounds.path) for n in items]
    rows = [["scenes/s", *(number(s["items"] / s["seconds"]) for s in said)]]
    rows.append(["peak resident set, MiB", *(number(s["peak_bytes"] / 2**20, 4) for s in said)])
    for part in ("plan", "mix", "tables", "receipts", "finish"):
        rows.append([f"{part}, share of time", *(f"{100 * s['parts'][part] / s['seconds']:.1f} %" for s in said)])
    rows.append(["again, s", *(number(s["again_s"]) for s in said)])
    section.add(["scenes", *(f"{n:,}".replace(",", " ") for n in items)], rows)
    growth = said[-1]["peak_bytes"] - said[0]["peak_bytes"]
    section.add(
        ["growth of the peak", ""],
        [
            ["%", f"{100 * growth / said[0]['peak_bytes']:.1f}"],
            ["bytes per scene", number(growth / (items[-1] - items[0]))],
        ],
    )
    return section


def _said(out: Path, items: int, calls: Path, backgrounds: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.many", str(items), str(calls), str(backgrounds), str(out)]
    said: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    shutil.rmtree(out)
    return said


def _render(items: str, calls: str, backgrounds: str, out: str) -> None:
    overrides = [f"items={items}", "duration=0.2", "events.count=1", "output.audio=none", f"output.dir={out}"]
    spec = spec_over(Path(calls), Path(backgrounds), overrides)
    parts: Counter[str] = Counter()

    def timed(owner: Any, name: str, part: str) -> None:
        do: Callable[..., Any] = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            try:
                return do(*arguments, **options)
            finally:
                parts[part] += time.perf_counter() - begin

        setattr(owner, name, watched)

    timed(SceneGenerator, "plan_items", "plan")
    timed(shards, "_mix_items", "mix")
    timed(shards, "_page", "tables")
    timed(ShardWriter, "add", "tables")
    timed(ShardWriter, "commit", "tables")
    timed(DatasetFolder, "kept", "receipts")
    timed(DatasetFolder, "finish", "finish")
    receipts = DatasetFolder.receipts

    def read(*arguments: Any) -> Any:
        found = receipts(*arguments)
        while True:
            begin = time.perf_counter()
            receipt = next(found, None)
            parts["receipts"] += time.perf_counter() - begin
            if receipt is None:
                return
            yield receipt

    DatasetFolder.receipts = read  # type: ignore[method-assign]
    timed(rendering._Totals, "add", "receipts")

    begin = time.perf_counter()
    render(spec, workers=1)
    seconds, found = time.perf_counter() - begin, dict(parts)
    begin = time.perf_counter()
    render(spec, workers=1)
    again_s = time.perf_counter() - begin
    said = {"items": spec.items, "seconds": seconds, "again_s": again_s, "parts": found, "peak_bytes": peak_bytes()}
    print(json.dumps(said))


if __name__ == "__main__":
    _render(*sys.argv[1:])
