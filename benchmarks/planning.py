"""Planning: scenes per second by the size of a batch, and by the number of clips in the bank."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks.stores import make_backgrounds, make_calls, spec_over, tile_store
from benchmarks.tables import Section, number, spread
from synthscape.bank.store import ClipStore
from synthscape.plan.planner import Planner
from synthscape.spec import Spec

BATCHES = (1, 64, 1024)
CLIPS = (100, 10_000, 1_000_000)
_CASES = {
    "8 events, none resampled": ["events.count=8", "events.resample=1"],
    "8 events, all resampled": ["events.count=8", "events.resample={choice: [0.84, 0.92, 1.09, 1.19]}"],
    "strong_detection as shipped": None,
}


def run(folder: Path, quick: bool) -> Section:
    repeats, busy_s = (1, 0.05) if quick else (5, 0.5)
    short = make_calls(folder / "short", n=CLIPS[0], shortest_s=0.05, longest_s=0.05)
    backgrounds = make_backgrounds(folder / "planning-backgrounds")
    section = Section(
        "Planning",
        f"One thread; scenes of 10 s. Medians (lowest to highest) of {repeats} repeats of {busy_s:g} s, the sizes in "
        "turn. Clips of the second table are 100 different ones of 0.05 s, over and over (8 events, all resampled).",
    )
    rows = []
    for case, overrides in _CASES.items():
        spec = _spec(short, backgrounds, overrides)
        planner = Planner(spec, short, backgrounds)
        rates = _rates(planner, BATCHES, repeats, busy_s)
        rows.append([case, *(spread(rates[size]) for size in BATCHES)])
    section.add(["scenes per second in batches of", *map(str, BATCHES)], rows)

    rows = []
    for n_clips in CLIPS[:2] if quick else CLIPS:
        path = folder / "tiled"
        tile_store(short, path, n_clips // CLIPS[0])
        begin = time.perf_counter()
        bank = ClipStore.open(path)
        opened = time.perf_counter()
        planner = Planner(_spec(bank, backgrounds, _CASES["8 events, all resampled"]), bank, backgrounds)
        ready = time.perf_counter()
        rates = _rates(planner, (1, 64), repeats, busy_s)
        rows.append(
            [
                f"{n_clips:,}".replace(",", " "),
                number(1000 * (opened - begin)),
                number(1000 * (ready - opened)),
                spread(rates[1]),
                spread(rates[64]),
            ]
        )
        shutil.rmtree(path)
    section.add(["clips", "open, ms", "planner set up, ms", "scenes/s one by one", "scenes/s in batches of 64"], rows)
    return section


def _spec(bank: ClipStore, backgrounds: ClipStore, overrides: list[str] | None) -> Spec:
    if overrides is None:
        overrides = ["events.count=null", "events.rate={choice: [0.04, 0.06, 0.08, 0.17, 0.23, 0.33], per: class}",
                     "empty_share=0.1", "events.overlap={same_class: forbid, max_polyphony: 4}",
                     "background.mix.probability=0.5"]  # fmt: skip
    return spec_over(bank.path, backgrounds.path, overrides)


def _rates(planner: Planner, sizes: tuple[int, ...], repeats: int, busy_s: float) -> dict[int, list[float]]:
    planner.plan(range(8))  # compiles what is not compiled yet
    rates: dict[int, list[float]] = {size: [] for size in sizes}
    first = 0
    for _ in range(repeats):
        for size in sizes:
            planned = 0
            begin = time.perf_counter()
            while time.perf_counter() - begin < busy_s:
                planner.plan(range(first, first + size))
                planned += size
                first += size
            rates[size].append(planned / (time.perf_counter() - begin))
    return rates
