"""How mixing and rendering grow: by threads, events of a scene, length of a scene, and clips of the bank."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.planning import CLIPS
from benchmarks.stores import RATE, make_backgrounds, make_calls, spec_over, tile_store
from benchmarks.tables import Section, number, spread
from synthscape.bank.store import ClipStore
from synthscape.labels.batches import take_scenes
from synthscape.plan.plan import ScenePlan
from synthscape.scale.render import available_workers, render
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator

DURATION_S, EVENTS = 10, 8
EVENTS_PER_SCENE = {1: 384, 8: 256, 64: 64, 512: 12}  # and how many scenes of it are made
LENGTHS_S = {1: 512, 10: 128, 60: 24, 600: 3}
THREADED = 2048  # scenes of the renders by threads: as many for each, so that set-up is little of it
SHARDS = (THREADED, 512)  # scenes of a shard
_RESAMPLED = "events.resample={choice: [0.84, 0.92, 1.09, 1.19]}"
_BATCH_SAMPLES = 2**20  # what a render mixes at a time

Seconds = dict[str, list[float]]  # what -> seconds of each repeat


@dataclass
class Case:
    """Scenes of one kind, and how long mixing and rendering all of them took."""

    spec: Spec
    threads: int
    seconds: Seconds

    @property
    def audio_s(self) -> float:
        """Audio of all scenes."""
        return self.spec.items * self.spec.duration.bounds()[0]

    def rate(self, what: str) -> str:
        """Scenes per second."""
        return spread([self.spec.items / s for s in self.seconds[what]])

    def real_time(self, what: str) -> str:
        """How many times faster than the audio plays."""
        return number(self.audio_s / median(self.seconds[what]))

    def scene_ms(self, what: str) -> float:
        """Time per scene; of a render, per scene after the first, with which it is set up."""
        seconds, n = median(self.seconds[what]), self.spec.items
        if what == "render":
            seconds, n = seconds - median(self.seconds["set-up"]), n - 1
        return 1000 * seconds / n


def run(folder: Path, quick: bool) -> Section:
    repeats, most = (1, 2) if quick else (3, None)
    calls = make_calls(folder / "calls", n=200, shortest_s=1.0, longest_s=1.0)
    short = make_calls(folder / "short", n=200, shortest_s=0.5, longest_s=0.5)
    backgrounds = make_backgrounds(folder / "backgrounds")
    section = Section(
        "Scaling",
        f"Scenes of {DURATION_S} s at {RATE} Hz with {EVENTS} events of 1 s, all resampled, SNR by band, one thread, "
        "but for what a table varies. Renders to FLAC; set-up, what a render of one scene takes, is in scenes/s and "
        "x real time, not in ms per scene. Threads are to be >= 1.7 x on two cores. Medians (lowest to highest) of "
        f"{repeats} repeats; in each, all rows of a table in turn.",
    )

    def cases(scenes: Mapping[int, int], spec: Callable[[int, int], Spec]) -> dict[int, Case]:
        wanted = dict(list(scenes.items())[:most])
        made = {value: Case(spec(value, min(n, 2) if quick else n), 1, {}) for value, n in wanted.items()}
        _measure(list(made.values()), folder, repeats)
        return made

    by_events = cases(EVENTS_PER_SCENE, lambda events, n: _spec(calls, backgrounds, n, DURATION_S, events))
    by_length = cases(LENGTHS_S, lambda length_s, n: _spec(short, backgrounds, n, length_s, length_s))
    for per_shard in SHARDS:
        section.add(*_by_threads(calls, backgrounds, 4 if quick else THREADED, per_shard, folder, repeats, most))
    speeds = ["mix, scenes/s", "render, scenes/s", "render, x real time", "mix, ms per scene", "render, ms per scene"]
    more = ["mix, µs per event more", "render, µs per event more"]
    section.add(["events per scene", *speeds, *more], _by_size(by_events, per_ms=1000))
    more = ["mix, ms per second more", "render, ms per second more"]
    section.add(["length, s, and events of 0.5 s", *speeds, *more], _by_size(by_length, per_ms=1))
    section.add(
        ["clips in the bank (of 0.05 s)", "plan, scenes/s", "mix, scenes/s", "render, scenes/s", "render, x real time",
         "set-up in it, s"],
        _by_clips(folder, backgrounds, CLIPS[:1] if quick else CLIPS, 4 if quick else 512, repeats),
    )  # fmt: skip
    return section


def _by_threads(
    calls: ClipStore,
    backgrounds: ClipStore,
    n_scenes: int,
    per_shard: int,
    folder: Path,
    repeats: int,
    most: int | None,
) -> tuple[list[str], list[list[str]]]:
    spec = _spec(calls, backgrounds, n_scenes, DURATION_S, EVENTS)
    spec = replace(spec, output=replace(spec.output, items_per_shard=per_shard))
    cases = [Case(spec, threads, {}) for threads in thread_counts(available_workers())[:most]]
    _measure(cases, folder, repeats)
    one = cases[0].seconds
    rows = [
        [
            str(case.threads),
            case.rate("mix"),
            case.rate("render"),
            case.real_time("render"),
            *(
                f"{median(a / b for a, b in zip(one[what], case.seconds[what], strict=True)):.2f}"
                for what in ("mix", "render")
            ),
        ]
        for case in cases
    ]
    head = [f"threads ({n_scenes} scenes, {per_shard} a shard)", "mix, scenes/s", "render, scenes/s",
            "render, x real time", "speed-up: mix", "render"]  # fmt: skip
    return head, rows


def thread_counts(cores: int) -> list[int]:
    """One, two, and on by doubling, up to all cores."""
    return [*(2**k for k in range(cores.bit_length()) if 2**k < cores), cores]


def _spec(calls: ClipStore, backgrounds: ClipStore, items: int, length_s: int, events: int) -> Spec:
    overrides = [f"items={items}", f"duration={length_s}", f"events.count={events}", "events.max_per_scene=1024"]
    return spec_over(calls.path, backgrounds.path, [*overrides, _RESAMPLED])


def _measure(cases: Sequence[Case], folder: Path, repeats: int) -> None:
    """Time all cases in turn, as often; each once before, which compiles, and reads the stores."""
    jobs: list[tuple[Case, str, Callable[[], object]]] = []
    out = folder / "out"
    for case in cases:
        scenes = SceneGenerator(case.spec)
        plan = scenes.plan(range(case.spec.items))
        parts = _parts(plan)
        scenes.mixer.render(parts[0])
        into = replace(case.spec, output=replace(case.spec.output, dir=str(out)))
        jobs.append((case, "plan", partial(scenes.plan, range(case.spec.items))))
        jobs.append((case, "mix", partial(_mix, scenes, parts, case.threads)))
        jobs.append((case, "set-up", partial(render, replace(into, items=1), workers=case.threads)))
        jobs.append((case, "render", partial(render, into, workers=case.threads)))
    for _ in range(repeats):
        for case, what, do in jobs:
            begin = time.perf_counter()
            do()
            case.seconds.setdefault(what, []).append(time.perf_counter() - begin)
            shutil.rmtree(out, ignore_errors=True)


def _parts(plan: ScenePlan) -> list[ScenePlan]:
    step = max(1, _BATCH_SAMPLES // int(plan.n_samples.max()))
    return [take_scenes(plan, np.arange(at, min(at + step, len(plan)))) for at in range(0, len(plan), step)]


def _mix(scenes: SceneGenerator, parts: Sequence[ScenePlan], threads: int) -> None:
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(scenes.mixer.render, parts):
            pass


def _by_size(cases: Mapping[int, Case], per_ms: float) -> list[list[str]]:
    """Rows by events or seconds of a scene; the last columns are slopes from the row above: all alike if linear."""
    rows = []
    before: tuple[int, Case] | None = None
    for size, case in cases.items():
        slopes = ["", ""]
        if before is not None:
            more = size - before[0]
            slopes = [
                number(per_ms * (case.scene_ms(what) - before[1].scene_ms(what)) / more) for what in ("mix", "render")
            ]
        speeds = [case.rate("mix"), case.rate("render"), case.real_time("render")]
        rows.append([str(size), *speeds, *(number(case.scene_ms(what)) for what in ("mix", "render")), *slopes])
        before = size, case
    return rows


def _by_clips(
    folder: Path, backgrounds: ClipStore, sizes: Sequence[int], n_scenes: int, repeats: int
) -> list[list[str]]:
    """One bank at a time, as the large one fills the disk."""
    few = make_calls(folder / "few", n=CLIPS[0], shortest_s=0.05, longest_s=0.05)
    rows = []
    for n_clips in sizes:
        bank = tile_store(few, folder / "tiled", n_clips // CLIPS[0])
        case = Case(_spec(bank, backgrounds, n_scenes, DURATION_S, EVENTS), 1, {})
        _measure([case], folder, repeats)
        shutil.rmtree(bank.path)
        speeds = [*(case.rate(what) for what in ("plan", "mix", "render")), case.real_time("render")]
        rows.append([f"{n_clips:,}".replace(",", " "), *speeds, spread(case.seconds["set-up"])])
    return rows
