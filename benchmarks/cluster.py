"""Rendering on Ray beside rendering inline: the same shards by the same code, in steady state."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.stores import RATE, make_backgrounds, make_calls, spec_over
from benchmarks.tables import NotMeasuredError, Section, number, spread, verdict
from synthscape.scale.render import render
from synthscape.spec import Spec

DURATION_S, EVENTS, PER_SHARD = 10, 8, 500
SHARDS = {1: 5, 2: 10}  # by actors: so that each renders as many
_MOST_OVERHEAD = 10.0  # percent


def run(folder: Path, quick: bool) -> Section:
    try:
        import ray  # noqa: F401
    except ImportError:
        raise NotMeasuredError("Ray is not installed: pip install synthscape[ray]") from None
    per_shard, repeats = (4, 1) if quick else (PER_SHARD, 3)
    calls = make_calls(folder / "calls", n=200, shortest_s=1.0, longest_s=1.0)
    backgrounds = make_backgrounds(folder / "backgrounds")
    out = folder / "out"

    def spec(shards: int) -> Spec:
        overrides = [f"items={shards * per_shard}", f"duration={DURATION_S}", f"events.count={EVENTS}"]
        overrides += ["events.resample={choice: [0.84, 0.92, 1.09, 1.19]}", f"output.items_per_shard={per_shard}"]
        return spec_over(calls.path, backgrounds.path, [*overrides, f"output.dir={out}"])

    engines = {
        "inline": lambda: _timed(spec(SHARDS[1]), 1),
        "Ray, 1 actor": lambda: _on_ray(spec(SHARDS[1]), 1),
        "threads, 2": lambda: _timed(spec(SHARDS[2]), 1, workers=2),
        "Ray, 2 actors": lambda: _on_ray(spec(SHARDS[2]), 2),
    }
    if quick:  # a Ray is enough
        del engines["Ray, 2 actors"]
    runs: dict[str, list[_Run]] = {name: [] for name in engines}
    for _ in range(repeats):
        for name, do in engines.items():
            runs[name].append(do())
            shutil.rmtree(out)
    section = Section(
        "Cluster",
        f"Shards of {per_shard} scenes of {DURATION_S} s at {RATE} Hz with {EVENTS} events, all resampled, FLAC in "
        "the default format; each engine alone on this machine. An actor has one processor and one thread. Scenes per "
        "second are those after every worker has rendered its first shard; start-up is what comes before: Ray's own, "
        "and until the first shard exists, without the time of a shard. "
        f"Medians (lowest to highest) of {repeats} repeats, engines in turn.",
    )
    rates = {name: [one.scenes_per_s for one in made] for name, made in runs.items()}
    section.add(
        ["engine", "scenes/s", "x real time", "Ray starts, s", "first shard late by, s"],
        [
            [
                name,
                spread(rates[name]),
                number(DURATION_S * median(rates[name])),
                "" if name in ("inline", "threads, 2") else spread([one.ray_s for one in made]),
                spread([one.late_s for one in made]),
            ]
            for name, made in runs.items()
        ],
    )
    overhead = [100 * (1 - a / b) for a, b in zip(rates["Ray, 1 actor"], rates["inline"], strict=True)]
    rows = [
        [
            "overhead of Ray, 1 actor, %",
            spread(overhead),
            f"< {_MOST_OVERHEAD:g} %: {verdict(-median(overhead), -_MOST_OVERHEAD)}",
        ]
    ]
    for name, target in (("threads, 2", 1.7), ("Ray, 2 actors", 0)):
        if name in rates:
            times = [a / b for a, b in zip(rates[name], rates["inline"], strict=True)]
            rows.append(
                [f"{name}, x", spread(times), f">= {target}: {verdict(median(times), target)}" if target else ""]
            )
    section.add(["beside inline", "", "target"], rows)
    return section


@dataclass
class _Run:
    """When shards came to exist, in seconds since the render was called: engines may tell of them later."""

    per_shard: int
    actors: int
    ray_s: float
    times: list[float]

    @property
    def scenes_per_s(self) -> float:
        first = self.actors - 1  # each has rendered one by then
        return self.per_shard * (len(self.times) - 1 - first) / (self.times[-1] - self.times[first])

    @property
    def late_s(self) -> float:
        return self.times[0] - self.actors * self.per_shard / self.scenes_per_s


def _timed(spec: Spec, actors: int, *, ray: str | None = None, workers: int = 1, ray_s: float = 0.0) -> _Run:
    begin = time.time()
    render(spec, ray=ray, workers=workers)
    receipts = Path(spec.output.dir, "receipts").iterdir()
    times = sorted(receipt.stat().st_mtime - begin for receipt in receipts)
    return _Run(spec.output.items_per_shard, actors, ray_s, times)


def _on_ray(spec: Spec, actors: int) -> _Run:
    with _ray(actors) as ray_s:
        return _timed(replace(spec, engine="ray"), actors, ray="local", ray_s=ray_s)


@contextmanager
def _ray(processors: int) -> Iterator[float]:
    """A Ray of so many processors on this machine, and the seconds it took to start."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    begin = time.perf_counter()
    ray.init(
        "local",
        num_cpus=processors,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=2**27,
    )
    try:
        yield time.perf_counter() - begin
    finally:
        ray.shutdown()
