"""Excerpts and scenes without a background on a device: the float64 reference, and the CPU's mixer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.mix.mixer import Mixer
from synthscape.mix.reference import reference_scene
from tests.gpu.scenes import World, make_world, plan_of
from tests.gpu.special_scenes import ASKED, nothing_behind, special_plan
from tests.gpu.test_device_mixer import device_mixer, same_pcm
from tests.hand_built import RATE

LEVELS = (
    "scene_gain_db", "level_dbfs", "level_lufs", "gain_db", "snr_scene_db", "snr_local_db", "snr_band_db",
    "snr_loudness_db", "signal_share",
)  # fmt: skip


@pytest.mark.parametrize("asked", ["band", "loudness", "source"])
def test_scenes_are_those_of_the_reference_and_of_the_cpu(tmp_path: Path, device: str, asked: str) -> None:
    """Audio, stems and levels, also the NaN of what bare scenes don't have."""
    world = make_world(tmp_path, *ASKED[asked])
    plan = special_plan(asked)
    batch = device_mixer(world, device).render(plan, stems=True).to_host()
    cpu = Mixer(world.spec, world.bank, world.backgrounds).render(plan, stems=True)

    assert batch.failures is cpu.failures is None
    for name in LEVELS:
        np.testing.assert_allclose(getattr(batch, name), getattr(cpu, name), atol=1e-5, err_msg=name)
    for name in ("audio", "stems", "background"):
        assert same_pcm(getattr(batch, name), getattr(cpu, name)), name
    for i in range(len(plan)):
        truth = reference_scene(plan, i, world.spec, world.bank, world.backgrounds)
        n, e = len(truth.audio), plan.events_of(i)
        assert np.abs(batch.audio[i, :n] - truth.audio).max() < 1e-5 * np.abs(truth.audio).max()
        for stem, true_stem in zip(batch.stems[e], truth.stems, strict=True):
            assert np.abs(stem[:n] - true_stem).max() < 1e-5 * np.abs(true_stem).max()

    if asked == "band":  # streaming the clips, or filtering excerpts anew for the mix, changes no bit
        for options in ({"bank_limit_bytes": 0}, {"keep_pieces": False}):
            other = device_mixer(world, device, **options).render(plan)
            assert bytes(other.audio.cpu().numpy()) == bytes(batch.audio)


def test_failures_are_those_of_the_cpu(world: World, device: str, tmp_path: Path) -> None:
    """No level, or nothing heard: the scene fails by the same words; an empty bare scene is silence."""
    with StoreWriter(tmp_path / "half", "pseudovox", RATE) as writer:
        clip = np.random.default_rng(0).standard_normal(800)
        clip[:400] = 0
        writer.add(clip.astype(np.float32), {"species": "Half", "low_hz": 500.0, "high_hz": 900.0})
    half = replace(world, bank=ClipStore.open(tmp_path / "half"))
    silent = {"clip": 0, "clip_end": 800, "clip_onset": 0, "clip_offset": 800, "onset": 0, "offset": 300}
    sound = {**silent, "onset": 500, "offset": 700}
    plan = plan_of(
        (nothing_behind(900, np.inf), [sound]),
        (nothing_behind(900, -30), [silent]),
        (nothing_behind(900, -30), [sound]),
        (nothing_behind(900, np.inf), []),
    )
    batch = device_mixer(half, device).render(plan, pcm=True)
    cpu = Mixer(half.spec, half.bank, half.backgrounds).render(plan)

    assert batch.failures == cpu.failures
    assert list(batch.failures) == [0, 1]
    assert [bool(audio.any()) for audio in batch.audio] == [False, False, True, False]
    np.testing.assert_allclose(batch.gain_db, cpu.gain_db, atol=1e-5)
