"""Renders that are killed at random moments, over and over, and gone on with: is the dataset the same?

``python -m benchmarks --only killed``
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from benchmarks.stores import make_backgrounds, make_calls, spec_over
from benchmarks.tables import NotMeasuredError, Section, number
from synthscape.files import ASIDE_PREFIX
from synthscape.output.folder import DATASET_FILE, ORIGIN_FILE
from synthscape.scale.render import render
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator

KILLS, ITEMS, PER_SHARD, THREADS = 300, 240, 40, 2
_PHASES = (
    "nothing is there yet",
    "no shard is there yet",
    "some shards are there",
    "all shards are there, not summed up",
)


def run(folder: Path, quick: bool) -> Section:
    if not hasattr(os, "fork"):
        raise NotMeasuredError("This system can't fork")
    kills = 5 if quick else KILLS
    calls = make_calls(folder / "calls", n=100, shortest_s=0.1, longest_s=0.1)
    backgrounds = make_backgrounds(folder / "backgrounds", n=4, length_s=5.0)
    overrides = [f"items={ITEMS}", "duration=1", "events.count=2", f"output.items_per_shard={PER_SHARD}"]
    spec = spec_over(calls.path, backgrounds.path, overrides)
    scenes = SceneGenerator(spec)
    scenes.render(range(2))  # what is compiled here is compiled in the renders too

    begin = time.perf_counter()
    out = folder / "out"  # is a part of what a dataset says
    _wait(_started(spec, out))
    whole_s = time.perf_counter() - begin
    expected = _content(out)
    shutil.rmtree(out)
    rng = random.Random(5)
    phases: Counter[str] = Counter()
    finished = same = leftovers = done = 0
    while done < kills:
        child = _started(spec, out)
        time.sleep(rng.uniform(0, whole_s) * rng.random())
        os.kill(child, signal.SIGKILL)
        if _wait(child) == -signal.SIGKILL:
            phases[_phase(out)] += 1
            done += 1
        if (out / DATASET_FILE).exists() or done == kills:
            _wait(_started(spec, out))
            finished += 1
            same += _content(out) == expected
            leftovers += sum(path.name.startswith(ASIDE_PREFIX) for path in out.rglob("*"))
            shutil.rmtree(out)
    section = Section(
        "Killed",
        f"A render of {ITEMS} scenes of 1 s, {PER_SHARD} a shard, on {THREADS} threads, which takes "
        f"{number(whole_s)} s; killed (SIGKILL) after a random time, the sooner the likelier, and started again until "
        "it is done; then compared, in samples and tables, with one that was left alone.",
    )
    section.add(["killed when", "times"], [[phase, str(phases[phase])] for phase in _PHASES])
    section.add(
        ["", "number"],
        [
            ["kills", str(done)],
            ["datasets that were finished", str(finished)],
            ["of them identical", str(same)],
            ["temporary files left in them", str(leftovers)],
        ],
    )
    return section


def _started(spec: Spec, out: Path) -> int:
    """A process that renders; a fork, as what is to be killed need not be imported and compiled each time."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        render(replace(spec, output=replace(spec.output, dir=str(out))), workers=THREADS)
        code = 0
    finally:
        os._exit(code)


def _wait(child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code > 0:
        raise RuntimeError(f"a render ended with {code}")
    return code


def _phase(out: Path) -> str:
    if not (out / ORIGIN_FILE).exists():
        return _PHASES[0]
    receipts = len(list((out / "receipts").glob("[0-9]*.json")))
    return _PHASES[1 if not receipts else 2 if receipts < ITEMS / PER_SHARD else 3]


def _content(out: Path) -> dict[str, object]:
    """All that a dataset says, and its files but for logs: names and bytes."""
    said = json.loads((out / DATASET_FILE).read_text(encoding="utf-8"))
    files = {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != ".lock" and path.parent.name != "log"
    }
    return {"content_hash": said["content_hash"], **files}
