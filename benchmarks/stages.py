"""Rendering to FLAC, stage by stage, beside the limit: encoding and writing the same samples and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.sinks import FORMATS, encode_into, write_all
from benchmarks.stores import BAND_NOT_MEASURED, RATE, known, make_backgrounds, make_calls, spec_over
from benchmarks.tables import Section, number, spread, verdict
from synthscape.labels.batches import take_scenes
from synthscape.labels.pcm import pcm_hash, to_pcm16
from synthscape.labels.tables import scene_ids
from synthscape.mix.batch import SceneBatch
from synthscape.output.audio import FLAC_LEVEL, encode
from synthscape.scale.render import render
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator
from synthscape.tasks.items import ItemPlan

DURATION_S, EVENTS = 10, 8
THREADS = (1, 2)


@dataclass(frozen=True)
class Case:
    """Scenes of one kind; ``target`` is the share of the limit's speed a render must reach, in percent."""

    ratios: str = "1"
    lengths: str = "1 s"
    measured: tuple[str, ...] = ("events.snr.reference=band",)
    target: float | None = None


_RATIOS = "{choice: [0.84, 0.92, 1.09, 1.19]}"
CASES = {
    "none resampled": Case(target=65),
    "all resampled": Case(_RATIOS, target=50),
    "none resampled, band SNR not measured": Case(measured=BAND_NOT_MEASURED, target=80),
    "all resampled, band SNR not measured": Case(_RATIOS, measured=BAND_NOT_MEASURED, target=60),
    "all resampled, any length": Case(_RATIOS, "0.8 to 1.2 s"),
}
_BATCH = 6  # scenes mixed at a time, as a render does with scenes of this length
_STAGES = ("plan", "mix", "PCM and hash", "encode", "write", "tables")
_DEFAULT = FORMATS[0]

Seconds = dict[tuple[str, int], list[float]]  # (what, threads) -> seconds a scene (set-up: in all) of each repeat
Pcm = NDArray[np.int16]
Item = TypeVar("Item")


def run(folder: Path, quick: bool) -> Section:
    n_scenes, n_staged, repeats = (12, 6, 1) if quick else (2048, 240, 3)
    calls = {
        "1 s": make_calls(folder / "calls", n=200, shortest_s=1.0, longest_s=1.0),
        "0.8 to 1.2 s": make_calls(folder / "calls-of-any-length", n=200, shortest_s=0.8, longest_s=1.2),
    }
    backgrounds = make_backgrounds(folder / "backgrounds")
    section = Section(
        "Rendering, stage by stage",
        f"Scenes of {DURATION_S} s at {RATE} Hz, {EVENTS} events of 1 s (before resampling), FLAC level {FLAC_LEVEL}: "
        f"{n_scenes}; single stages, and all of the last case (events of 0.8 to 1.2 s, {_DEFAULT} only), with "
        f"{n_staged}. All is synced to the disk. Medians (lowest to highest) of {repeats} repeats; in each, stages and "
        "limits in turn.",
    )
    cases = {name: case for name, case in CASES.items() if known(case.measured)}
    measured = {}
    for name, case in cases.items():
        n = dict.fromkeys(FORMATS, n_scenes) if case.target else {_DEFAULT: n_staged}
        overrides = [f"items={max(n.values())}", f"duration={DURATION_S}", f"events.count={EVENTS}", *case.measured]
        overrides.append(f"events.resample={case.ratios}")
        spec = spec_over(calls[case.lengths].path, backgrounds.path, overrides)
        measured[name] = _measure(spec, n, n_staged, folder, repeats)

    render_default = f"render {_DEFAULT}"
    section.add(
        [f"ms per scene, 1 thread, {_DEFAULT}", *measured],
        [[stage, *(_spread(t[stage, 1], 1000) for t in measured.values())] for stage in _STAGES]
        + [
            ["sum of stages", *(number(_sum(t) * 1000) for t in measured.values())],
            ["whole render", *(_spread(t[render_default, 1], 1000) for t in measured.values())],
            ["set-up in it, ms in all", *(_spread(t["set-up", 1], 1000) for t in measured.values())],
            ["planning, share of render", *(_percent(_ratio(t, "plan", render_default, 1)) for t in measured.values())],
        ],
    )
    for kind in FORMATS:
        limit, whole = f"limit {kind}", f"render {kind}"
        section.add(
            [f"{kind}, scenes per second", "mix", "limit: encode", "limit: encode, write", "whole render",
             "x real time", "render / encode", "render / encode, write"],
            [
                [
                    f"{name}, {_threads(threads)}",
                    *(_rate(t[what, threads]) for what in ("mix", "encode", limit, whole)),
                    number(DURATION_S / median(t[whole, threads])),
                    *(_percent(_ratio(t, what, whole, threads)) for what in ("encode", limit)),
                ]
                for name, t in measured.items()
                for threads in THREADS
                if (whole, threads) in t
            ],
        )  # fmt: skip
    section.add(
        ["target: render / limit", "at least", *(f"{kind}, {_threads(n)}" for kind in FORMATS for n in THREADS)],
        [
            [
                name,
                f"{case.target} %",
                *(_reached(measured[name], kind, n, case.target) for kind in FORMATS for n in THREADS),
            ]
            for name, case in cases.items()
            if case.target
        ],
    )
    both = [what for kind in FORMATS for what in (f"limit {kind}", f"render {kind}")]
    section.add(
        ["speed-up by 2 threads", *measured],
        [[what, *(_speed_up(t, what) for t in measured.values())] for what in ("mix", "encode", *both)],
    )
    return section


def _measure(spec: Spec, n_of_format: dict[str, int], n_staged: int, folder: Path, repeats: int) -> Seconds:
    scenes = SceneGenerator(spec)
    numbers = range(spec.items)
    plan = scenes.plan(numbers)
    if plan.n_events != EVENTS * spec.items:
        raise RuntimeError(f"expected {EVENTS} events in each scene, {plan.n_events} in {spec.items} were placed")
    parts = [take_scenes(plan, np.arange(at, min(at + _BATCH, len(plan)))) for at in range(0, len(plan), _BATCH)]
    audio: list[NDArray[np.float32]] = []
    pcm: list[Pcm] = []
    for part in parts:  # which compiles what is not compiled yet
        batch = scenes.mixer.render(part).audio
        audio.extend(batch[: n_staged - len(audio)])
        pcm.extend(to_pcm16(scene) for scene in batch)
    staged = parts[: -(-n_staged // _BATCH)]
    items = scenes.plan_items(range(n_staged))
    measured = scenes.mixer.render(items.scenes)
    files = [_encode(scene) for scene in pcm[:n_staged]]
    sink = folder / "sink"
    jobs: dict[tuple[str, int], tuple[int, Callable[[], object]]] = {  # how many scenes, and what to do with them
        ("plan", 1): (spec.items, lambda: scenes.plan(numbers)),
        ("PCM and hash", 1): (n_staged, lambda: [pcm_hash(to_pcm16(scene)) for scene in audio]),
        ("write", 1): (n_staged, lambda: write_all(_DEFAULT, sink, files)),
        ("tables", 1): (n_staged, lambda: _tables(scenes, items, measured)),
    }
    into = replace(spec, output=replace(spec.output, dir=str(sink / "dataset")))
    jobs["set-up", 1] = 1, partial(render, replace(into, items=1), workers=1)
    for threads in THREADS:
        jobs["mix", threads] = n_staged, partial(_on_threads, threads, scenes.mixer.render, staged)
        jobs["encode", threads] = len(pcm), partial(_on_threads, threads, _encode, pcm)
        for kind, n in n_of_format.items():
            as_asked = replace(into, items=n, output=replace(into.output, format=kind))
            jobs[f"limit {kind}", threads] = n, partial(encode_into, kind, sink, _encode, pcm[:n], threads)
            jobs[f"render {kind}", threads] = n, partial(render, as_asked, workers=threads)
    seconds: Seconds = {job: [] for job in jobs}
    for _ in range(repeats):
        for job, (n, do) in jobs.items():
            sink.mkdir()
            begin = time.perf_counter()
            do()
            seconds[job].append((time.perf_counter() - begin) / n)
            _empty(sink)
            sink.rename(folder / f"emptied-{time.time_ns()}")
    return seconds


def _empty(folder: Path) -> None:
    """Free the space of all files, but leave them: where many were removed within minutes, ext4 makes new ones slowly.

    (It passes over inodes that were freed lately, one by one: a new file took 0.7 ms instead of 0.03.)
    """
    for path in folder.rglob("*"):
        if path.is_file():
            os.truncate(path, 0)


def _encode(pcm: Pcm) -> bytes:
    return encode(pcm, RATE, "flac")


def _tables(scenes: SceneGenerator, items: ItemPlan, measured: SceneBatch) -> None:
    names = scene_ids(measured.plan)
    tables = scenes.tables(items, measured, ["0" * 32] * len(names), names)
    for table in (tables.events, tables.scenes, tables.facts, tables.items):
        _ = table.num_rows  # which makes it
    tables.chat_lines()


def _on_threads(threads: int, do: Callable[[Item], object], items: Iterable[Item]) -> None:
    if threads == 1:
        for item in items:
            do(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(do, items):
            pass


def _threads(n: int) -> str:
    return f"{n} thread{'s'[: n > 1]}"


def _rate(seconds: list[float]) -> str:
    return spread([1 / s for s in seconds])


def _reached(t: Seconds, kind: str, threads: int, least: float) -> str:
    percent = 100 * median(_ratio(t, f"limit {kind}", f"render {kind}", threads))
    return f"{number(percent)} %: {verdict(percent, least)}"


def _speed_up(t: Seconds, what: str) -> str:
    if (what, 2) not in t:
        return ""
    return f"{median(a / b for a, b in zip(t[what, 1], t[what, 2], strict=True)):.2f}"


def _sum(t: Seconds) -> float:
    return sum(median(t[stage, 1]) for stage in _STAGES)


def _ratio(t: Seconds, above: str, below: str, threads: int) -> list[float]:
    return [a / b for a, b in zip(t[above, threads], t[below, threads], strict=True)]


def _percent(ratios: list[float]) -> str:
    return f"{spread([100 * ratio for ratio in ratios])} %"


def _spread(seconds: list[float], factor: float) -> str:
    return spread([value * factor for value in seconds])
