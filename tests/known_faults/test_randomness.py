"""Faults of randomness that users met in other tools."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from synthscape import SceneGenerator, Spec, load_spec
from synthscape.bank.writer import StoreWriter

RATE = 8000
SpecOf = Callable[..., Spec]
DENSE = ("events.rate=null", "events.count=4", "duration=1", "empty_share=0", "classes.per_scene=2")


def test_workers_and_epochs_share_no_draw(spec_of: SpecOf) -> None:
    """Workers with numbers of their own, and epochs of one number, give other scenes; the same number the same scene,
    whichever worker makes it (identical draws in pytorch, transformers, NeMo, lhotse, Lightning, icefall).
    """
    generator = SceneGenerator(spec_of(*DENSE))
    workers = [pickle.loads(pickle.dumps(generator)) for _ in range(4)]
    numbers = [[epoch * 2**40 + 4 * i + w for epoch in range(3) for i in range(5)] for w in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda job: job[0].render(job[1]).scenes, zip(workers, numbers, strict=True)))
    hashes = [value for table in made for value in table["pcm_hash"]]

    assert len(set(hashes)) == len(hashes) == 60
    for worker in workers[1:]:
        assert worker.render(numbers[0]).scenes["pcm_hash"].tolist() == made[0]["pcm_hash"].tolist()


def test_global_random_state_is_neither_used_nor_moved(spec_of: SpecOf) -> None:
    """Seeding NumPy's and Python's generators changes no scene, and making scenes leaves their state as it was."""
    hashes = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        before = (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]  # noqa: NPY002
        hashes.append(SceneGenerator(spec_of(*DENSE)).render(range(5)).scenes["pcm_hash"].tolist())
        after = (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]  # noqa: NPY002

        assert after == before
    assert hashes[0] == hashes[1]


def test_a_retry_draws_anew(tmp_path: Path) -> None:
    """Of two clips one is from the only background's recording: every event finds the other (DRASDIC's retry drew the
    same clip again); of two events that can't overlap, the second finds the room that is left.
    """
    call = np.sin(2 * np.pi * 500 * np.arange(RATE) / RATE)
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        for name, size in (("b", RATE), ("c", RATE - 1)):
            band = {"low_hz": 400.0, "high_hz": 600.0, "signal_share": 1.0}
            writer.add(call[:size], {"species": "a", "recording_id": name, **band})
    with StoreWriter(tmp_path / "backgrounds", "backgrounds", RATE) as writer:
        writer.add(np.random.default_rng(1).standard_normal(9 * RATE), {"recording_id": "b"})
    stores = [f"bank={tmp_path / 'bank'}", f"backgrounds={tmp_path / 'backgrounds'}", f"sample_rate={RATE}"]
    once = ["classes.per_scene=1", "background.mix.probability=0", "events.rate=null", "empty_share=0"]
    generator = SceneGenerator(load_spec("strong_detection", [*stores, *once, "events.count=1", "events.resample=1"]))
    plan = generator.plan(range(2000))

    assert set(plan.clip.tolist()) == {1}
    assert plan.n_placed.sum() >= 0.995 * plan.n_asked.sum()  # 9 draws of a clip all fail in 1 of 512
    assert 800 < (plan.n_redrawn > 0).sum() < 1200
    tight = ["events.count=2", "duration=4", "events.resample=1"]
    pairs = SceneGenerator(load_spec("strong_detection", [*stores, *once, *tight])).plan(range(2000))
    assert (np.diff(pairs.event_offsets) == 2).mean() > 0.85  # 4/9 at the first try
    onsets = pairs.onset[pairs.event_offsets[:-1][np.diff(pairs.event_offsets) == 2]]
    assert len(np.unique(onsets)) > 1000
