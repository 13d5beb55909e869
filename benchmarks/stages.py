"""Rendering to FLAC, stage by stage, beside the limit: encoding and writing the same samples and nothing else."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores import RATE, make_backgrounds, make_calls, spec_over
from benchmarks.tables import Section, number, spread
from synthscape.labels.batches import take_scenes
from synthscape.labels.pcm import pcm_hash, to_pcm16
from synthscape.labels.tables import event_table, scene_ids, scene_table
from synthscape.mix.batch import SceneBatch
from synthscape.output.audio import FLAC_LEVEL, encode, write_synced
from synthscape.scale.render import render
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator

DURATION_S, EVENTS = 10, 8
THREADS = (1, 2)
_RATIOS = "{choice: [0.84, 0.92, 1.09, 1.19]}"
CASES = {
    "none resampled": ("1 s", "1"),
    "all resampled": ("1 s", _RATIOS),
    "all resampled, any length": ("0.8 to 1.2 s", _RATIOS),
}
_BATCH = 6  # scenes mixed at a time, as a render does with scenes of this length
_STAGES = ("plan", "mix", "PCM and hash", "encode", "write", "tables")

Seconds = dict[tuple[str, int], list[float]]  # (what, threads) -> seconds of each repeat
Pcm = NDArray[np.int16]
Item = TypeVar("Item")


def run(folder: Path, quick: bool) -> Section:
    n_scenes, repeats = (12, 1) if quick else (256, 5)
    calls = {
        "1 s": make_calls(folder / "calls", n=200, shortest_s=1.0, longest_s=1.0),
        "0.8 to 1.2 s": make_calls(folder / "calls-of-any-length", n=200, shortest_s=0.8, longest_s=1.2),
    }
    backgrounds = make_backgrounds(folder / "backgrounds")
    section = Section(
        "Rendering, stage by stage",
        f"{n_scenes} scenes of {DURATION_S} s at {RATE} Hz, {EVENTS} events of 1 s (before resampling; 0.8 to 1.2 s in "
        f"the last case), SNR by band, all three SNRs measured; FLAC level {FLAC_LEVEL}, each file synced to the disk. "
        f"Medians (lowest to highest) of {repeats} repeats; in each, all stages and limits are measured in turn.",
    )
    measured = {}
    for case, (lengths, ratios) in CASES.items():
        overrides = [f"items={n_scenes}", f"duration={DURATION_S}", f"events.count={EVENTS}"]
        spec = spec_over(calls[lengths].path, backgrounds.path, [*overrides, f"events.resample={ratios}"])
        measured[case] = _measure(spec, folder, repeats)

    per_scene = 1000 / n_scenes
    section.add(
        ["ms per scene, 1 thread", *CASES],
        [[stage, *(_spread(t[stage, 1], per_scene) for t in measured.values())] for stage in _STAGES]
        + [
            ["sum of stages", *(number(_sum(t) * per_scene) for t in measured.values())],
            ["whole render", *(_spread(t["render", 1], per_scene) for t in measured.values())],
            ["planning, share of render", *(_percent(_ratio(t, "plan", "render", 1)) for t in measured.values())],
        ],
    )
    rows = []
    for case, t in measured.items():
        for threads in THREADS:
            scenes_per_s = [n_scenes / seconds for seconds in t["render", threads]]
            rows.append(
                [
                    f"{case}, {threads} thread{'s'[: threads > 1]}",
                    spread([n_scenes / seconds for seconds in t["mix", threads]]),
                    spread([n_scenes / seconds for seconds in t["encode", threads]]),
                    spread([n_scenes / seconds for seconds in t["encode, write", threads]]),
                    spread(scenes_per_s),
                    number(median(scenes_per_s) * DURATION_S),
                    _percent(_ratio(t, "encode", "render", threads)),
                    _percent(_ratio(t, "encode, write", "render", threads)),
                ]
            )
    section.add(
        [
            "scenes per second", "mix", "limit: encode", "limit: encode, write", "whole render", "x real time",
            "render / encode", "render / encode, write",
        ],
        rows,
    )  # fmt: skip
    section.add(
        ["speed-up by 2 threads", *CASES],
        [
            [what, *(f"{median(a / b for a, b in zip(t[what, 1], t[what, 2], strict=True)):.2f}" for t in cases)]
            for cases in [list(measured.values())]
            for what in ("mix", "encode", "encode, write", "render")
        ],
    )
    return section


def _measure(spec: Spec, folder: Path, repeats: int) -> Seconds:
    scenes = SceneGenerator(spec)
    numbers = range(spec.items)
    plan = scenes.plan(numbers)
    if plan.n_events != EVENTS * spec.items:
        raise RuntimeError(f"expected {EVENTS} events in each scene, {plan.n_events} in {spec.items} were placed")
    parts = [take_scenes(plan, np.arange(at, min(at + _BATCH, len(plan)))) for at in range(0, len(plan), _BATCH)]
    audio = [scene for part in parts for scene in scenes.mixer.render(part).audio]  # compiles what is not compiled yet
    measured = scenes.mixer.render(plan)
    pcm = [to_pcm16(scene) for scene in audio]
    files = [_encode(scene) for scene in pcm]
    sink = folder / "sink"
    jobs: dict[tuple[str, int], Callable[[], object]] = {
        ("plan", 1): lambda: scenes.plan(numbers),
        ("PCM and hash", 1): lambda: [pcm_hash(to_pcm16(scene)) for scene in audio],
        ("write", 1): lambda: _write(sink, files),
        ("tables", 1): lambda: _tables(scenes, measured),
    }
    into = replace(spec, output=replace(spec.output, dir=str(sink / "dataset")))
    numbered = list(enumerate(pcm))
    for threads in THREADS:
        jobs["mix", threads] = partial(_on_threads, threads, scenes.mixer.render, parts)
        jobs["encode", threads] = partial(_on_threads, threads, _encode, pcm)
        jobs["encode, write", threads] = partial(_on_threads, threads, partial(_encode_and_write, sink), numbered)
        jobs["render", threads] = partial(render, into, workers=threads)
    seconds: Seconds = {job: [] for job in jobs}
    for _ in range(repeats):
        for job, do in jobs.items():
            sink.mkdir()
            begin = time.perf_counter()
            do()
            seconds[job].append(time.perf_counter() - begin)
            shutil.rmtree(sink)
    return seconds


def _encode(pcm: Pcm) -> bytes:
    return encode(pcm, RATE, "flac")


def _encode_and_write(folder: Path, item: tuple[int, Pcm]) -> None:
    position, pcm = item
    write_synced(folder / str(position), _encode(pcm))


def _write(folder: Path, files: list[bytes]) -> None:
    for position, file in enumerate(files):
        write_synced(folder / str(position), file)


def _tables(scenes: SceneGenerator, measured: SceneBatch) -> None:
    event_table(measured, scenes.catalogue)
    names = scene_ids(measured.plan)
    scene_table(measured, scenes.catalogue, ["0" * 32] * len(names), names)


def _on_threads(threads: int, do: Callable[[Item], object], items: list[Item]) -> None:
    if threads == 1:
        for item in items:
            do(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(do, items):
            pass


def _sum(t: Seconds) -> float:
    return sum(median(t[stage, 1]) for stage in _STAGES)


def _ratio(t: Seconds, above: str, below: str, threads: int) -> list[float]:
    return [a / b for a, b in zip(t[above, threads], t[below, threads], strict=True)]


def _percent(ratios: list[float]) -> str:
    return f"{spread([100 * ratio for ratio in ratios])} %"


def _spread(seconds: list[float], factor: float) -> str:
    return spread([value * factor for value in seconds])
