"""Run all benchmarks, and write their table: ``python -m benchmarks [--quick]``."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import (
    cluster,
    gpu,
    killed,
    machine,
    many,
    memory,
    planning,
    questions,
    scaling,
    scaper,
    stages,
    startup,
)
from benchmarks.tables import NotMeasuredError
from synthscape.scale.render import available_workers

PARTS = {
    "stages": stages.run,
    "scaling": scaling.run,
    "planning": planning.run,
    "questions": questions.run,
    "memory": memory.run,
    "many": many.run,
    "cluster": cluster.run,
    "startup": startup.run,
    "scaper": scaper.run,
    "gpu": gpu.run,
    "killed": killed.run,
}
NOT_QUICK = ("scaper", "killed")  # may have to install what it compares with; kills for minutes
ON_DEMAND = ("killed",)  # no speed
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    name = re.sub(r"[^a-z0-9]+", "-", machine.processor().lower()).strip("-")
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure synthscape on this machine.")
    parser.add_argument("--quick", action="store_true", help="a few scenes each: shows that it runs, measures nothing")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again")
    parser.add_argument("--name", help="name of the table (by default processor and cores; with --quick, -quick too)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to put the table (benchmarks/results)")
    parser.add_argument("--folder", type=Path, help="where to render: the disk that is measured (temporary files)")
    asked = parser.parse_args()
    asked.name = asked.name or f"{name}-{available_workers()}-cores{'-quick' if asked.quick else ''}"

    begin = time.perf_counter()
    head = [*machine.describe(), ("date", time.strftime("%Y-%m-%d"))]
    head.append(("before", machine.idle(0.2 if asked.quick else 3)))
    sections = []
    with tempfile.TemporaryDirectory(prefix="synthscape-benchmarks-", dir=asked.folder) as folder:
        head.append(("rendered on", machine.filesystem(Path(folder))))
        for part in asked.only or [part for part in PARTS if part not in (NOT_QUICK if asked.quick else ON_DEMAND)]:
            print(f"{part} ...", file=sys.stderr, flush=True)
            place = Path(folder) / part
            place.mkdir(exist_ok=True)
            try:
                with machine.Others() as others:
                    section = PARTS[part](place, asked.quick)
            except NotMeasuredError as missing:
                print(f"{part} is not measured: {missing}", file=sys.stderr, flush=True)
                sections.append(f"## {part.capitalize()}\n\nNot measured. {missing}.")
                continue
            section.text += f" Other processes took {others.percent:.0f} % of the processors meanwhile."
            sections.append(section.markdown())
    head.append(("took", f"{time.perf_counter() - begin:.0f} s"))
    title = f"# {asked.name}" + (" (quick: these figures mean nothing)" if asked.quick else "")
    lines = "\n".join(f"- {what}: {value}" for what, value in head)
    explained = "What the figures mean and what they must reach: [README](../README.md)."
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / f"{asked.name}.md"
    path.write_text("\n\n".join([title, lines, explained, *sections]) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
