"""Items that are questions: what casting and planning, mixing, encoding and tables of each task cost."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.tables import Section, spread
from synthscape.bank.demo import make_demo_bank
from synthscape.labels.pcm import pcm_hash
from synthscape.output.audio import encode
from synthscape.spec import load_spec
from synthscape.spec.schema import QUESTION_TASKS
from synthscape.tasks.generator import SceneGenerator

_STAGES = ("plan", "mix", "hash and encode", "tables and chat")


def run(folder: Path, quick: bool) -> Section:
    repeats, n = (1, 4) if quick else (3, 200)
    bank, backgrounds = make_demo_bank(folder / "demo")
    section = Section(
        "Questions",
        f"Shipped specs over the demo bank, one thread, {n} items. Medians (lowest to highest) of {repeats} repeats, "
        "ms an item; nothing is written to disk.",
    )
    rows = []
    for task in QUESTION_TASKS[:2] if quick else QUESTION_TASKS:
        scenes = SceneGenerator(load_spec(task, [f"bank={bank}", f"backgrounds={backgrounds}"]))
        _measured(scenes, range(4))  # compiles what is not compiled yet
        found = [_measured(scenes, range(n * k, n * (k + 1))) for k in range(1, repeats + 1)]
        total = [sum(times.values()) for times, _ in found]
        rows.append(
            [
                task,
                spread([seconds for _, seconds in found]),
                *(spread([1000 * times[stage] for times, _ in found]) for stage in _STAGES),
                spread([1 / seconds for seconds in total]),
                f"{spread([100 * times['plan'] / all_ for (times, _), all_ in zip(found, total, strict=True)])} %",
            ]
        )
    section.add(["task", "audio, s an item", *_STAGES, "items per second", "planning's share"], rows)
    return section


def _measured(scenes: SceneGenerator, numbers: range) -> tuple[dict[str, float], float]:
    """Seconds an item of each stage, and seconds of audio an item."""
    times = dict.fromkeys(_STAGES, 0.0)
    rate, format_ = scenes.sample_rate, scenes.spec.output.audio
    seconds = 0.0
    for first in range(0, len(numbers), 4):
        begin = time.perf_counter()
        items = scenes.plan_items(numbers[first : first + 4])
        planned = time.perf_counter()
        batch = scenes.mix_as_written(items.scenes)
        mixed = time.perf_counter()
        assert batch.pcm is not None
        lengths = items.scenes.n_samples.tolist()
        hashes = []
        for pcm, length in zip(batch.pcm, lengths, strict=True):
            hashes.append(pcm_hash(pcm[:length]))
            encode(pcm[:length], rate, format_)
        encoded = time.perf_counter()
        tables = scenes.tables(items, batch, hashes, items.scene_ids)
        _ = tables.facts, tables.items, tables.chat_lines()
        steps = (begin, planned, mixed, encoded, time.perf_counter())
        for stage, since, until in zip(_STAGES, steps, steps[1:], strict=False):
            times[stage] += (until - since) / len(numbers)
        seconds += sum(lengths) / rate / len(numbers)
    return times, seconds
