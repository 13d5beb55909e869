"""Faults of scale and loading that users met in other tools."""

from __future__ import annotations

import gc
import re
import tomllib
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from synthscape import ClipStore, SceneGenerator, Spec, StoreError
from synthscape.bank.writer import StoreWriter

ROOT = Path(__file__).resolve().parents[2]
RATE = 8000
SpecOf = Callable[..., Spec]


def test_an_excerpt_costs_an_excerpt(tmp_path: Path, spec_of: SpecOf, bank: ClipStore) -> None:
    """A second out of a background of ten minutes takes the memory of seconds (scaper decoded the whole file)."""
    rate = bank.sample_rate
    with StoreWriter(tmp_path / "long", "backgrounds", rate) as writer:
        writer.add(np.random.default_rng(1).standard_normal(600 * rate), {"recording_id": "b", "medium": "air"})
    options = (f"backgrounds={tmp_path / 'long'}", "background.mix.probability=0", "duration=1")
    generator = SceneGenerator(spec_of(*options))
    generator.render([0])
    tracemalloc.start()
    generator.render([1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2_000_000 < 2 * 600 * rate
    assert isinstance(generator.backgrounds.pcm(0), np.memmap)


def test_memory_is_flat_in_the_number_of_scenes(spec_of: SpecOf) -> None:
    """Making 320 more scenes leaves nothing more behind (lists, simulators and caches grew elsewhere).

    NumPy's store of small arrays is full after some hundreds: it takes up to 90 kB of its own.
    """
    generator = SceneGenerator(spec_of("duration=0.5", "events.resample={loguniform: [0.9, 1.1]}"))
    held = []
    tracemalloc.start()
    for first, last in ((0, 480), (480, 560), (560, 880)):
        for number in range(first, last, 8):
            assert len(generator.render(range(number, number + 8)).event_table) >= 0
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()

    assert held[2] - held[1] < 0.05 * held[0] + 50_000


def test_no_other_program_is_run() -> None:
    """Nothing shells out to sox, ffmpeg or anything else."""
    sources = [*(ROOT / "synthscape").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]
    pattern = re.compile(r"^\s*(import subprocess|from subprocess|import pexpect)|os\.(system|popen|exec|spawn)", re.M)
    found = [path.name for path in sources if pattern.search(path.read_text(encoding="utf-8"))]

    assert len(sources) > 40
    assert found == []


def test_current_releases_are_allowed() -> None:
    """No dependency is held below a version: NumPy 2 and pandas 3 are not locked out, as they break what caps them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    capped = [line for line in project["dependencies"] if re.search(r"<|==|~=", line)]

    assert capped == []
    assert int(np.__version__.split(".")[0]) >= 2


def test_a_coprime_rate_builds_no_giant(spec_of: SpecOf) -> None:
    """Any drawn ratio is one of the grid's, so filter tables stay small (a coprime pair built GiB elsewhere)."""
    generator = SceneGenerator(spec_of("events.resample={uniform: [0.5, 2]}", "events.rate=1", "duration=4"))
    plan = generator.plan(range(100))
    tracemalloc.start()
    generator.mixer._filters_for(plan)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert len(np.unique(plan.ratio)) > 60
    assert plan.ratio_q.max() <= 128
    assert size < 40_000_000


def test_a_damaged_clip_is_never_zeros_with_a_label(tmp_path: Path) -> None:
    """Audio that shrank under a store is refused by name when it is opened, not filled with zeros (DRASDIC)."""
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        writer.add(np.random.default_rng(2).standard_normal(RATE), {"species": "a"})
    audio = next((tmp_path / "bank").glob("audio-*.i16"))
    audio.write_bytes(audio.read_bytes()[:-1000])
    with pytest.raises(StoreError, match=audio.name):
        ClipStore.open(tmp_path / "bank")
