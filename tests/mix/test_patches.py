"""Events that play a part of their clip, and scenes without a background."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.mix.batch import SceneBatch
from synthscape.mix.mixer import Mixer
from synthscape.mix.reference import reference_scene
from synthscape.plan.plan import NO_LEVEL, PATCH
from synthscape_kernels.ratios import UNITY
from tests.gpu.scenes import World, event, make_world, plan_of, scene
from tests.gpu.special_scenes import ASKED, excerpt, nothing_behind, special_plan
from tests.hand_built import RATE


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Clips of noise with k = 0.9, and SNRs against the samples behind an event."""
    return make_world(tmp_path_factory.mktemp("world"), "events.snr.reference=local")


def mixer_of(world: World) -> Mixer:
    """A new mixer."""
    return Mixer(world.spec, world.bank, world.backgrounds)


def rms_db(x: np.ndarray) -> float:
    """Level of samples."""
    return float(10 * np.log10(np.mean(x.astype(np.float64) ** 2)))


def is_the_reference(world: World, batch: SceneBatch) -> None:
    """Audio, background, stems and SNRs agree with the float64 reference, also where there are none."""
    assert batch.failures is None
    assert batch.stems is not None
    assert batch.background is not None
    for i in range(len(batch.plan)):
        truth = reference_scene(batch.plan, i, world.spec, world.bank, world.backgrounds)
        e, n = batch.plan.events_of(i), len(truth.audio)
        assert np.abs(batch.background[i, :n] - truth.background).max() <= 1e-5 * np.abs(truth.background).max()
        assert np.abs(batch.audio[i, :n] - truth.audio).max() <= 1e-5 * np.abs(truth.audio).max()
        for stem, true_stem in zip(batch.stems[e], truth.stems, strict=True):
            assert np.abs(stem[:n] - true_stem).max() < 1e-5 * np.abs(true_stem).max()
        for name in ("snr_scene_db", "snr_local_db", "snr_band_db"):
            np.testing.assert_allclose(getattr(batch, name)[e], getattr(truth, name), atol=1e-3, err_msg=name)
        assert batch.scene_gain_db[i] == pytest.approx(truth.scene_gain_db, abs=1 / 256)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_patch_is_its_stored_samples(world: World, backwards: bool) -> None:
    """Samples [200, 700) of the clip, faded, times one gain, at its place; nothing else of the clip."""
    patch = {"clip": 3, "clip_start": 200, "clip_end": 700, "clip_onset": 300, "clip_offset": 800, "onset": 300,
             "offset": 800, "fade_in": 40, "fade_out": 25, "snr_db": -2 * 256, "role": PATCH,
             "reversed": backwards}  # fmt: skip
    batch = mixer_of(world).render(plan_of((scene(1500, (0, 0, 1)), [patch])), stems=True)
    assert batch.stems is not None
    assert batch.background is not None

    stored = world.bank.pcm(3)[200:700].astype(np.float64) / 32768
    faded = stored[::-1].copy() if backwards else stored
    faded[:40] *= np.sin(np.pi / 2 * (np.arange(40) + 0.5) / 40) ** 2
    faded[-25:] *= np.sin(np.pi / 2 * (np.arange(25) + 0.5) / 25)[::-1] ** 2
    np.testing.assert_allclose(batch.stems[0, 300:800], faded * 10 ** (batch.gain_db[0] / 20), rtol=2e-5, atol=1e-9)
    assert not batch.stems[0, :300].any()
    assert not batch.stems[0, 800:].any()
    # all of a patch is what is asked for: it has no call whose share of it would be signal
    above_db = rms_db(batch.stems[0, 300:800]) - rms_db(batch.background[0, 300:800])
    assert above_db == pytest.approx(-2.0, abs=0.005)
    assert batch.snr_local_db[0] == pytest.approx(-2.0, abs=0.005)


@pytest.mark.parametrize("asked", ASKED)
def test_kernels_are_the_reference(tmp_path: Path, asked: str) -> None:
    """Excerpts at all ratios, reversed, cut, faded, from afar; bare scenes: the mixer is the plain float64 mixer."""
    world = make_world(tmp_path, *ASKED[asked])
    is_the_reference(world, mixer_of(world).render(special_plan(asked), stems=True))


def test_energies_of_whole_calls_are_not_those_of_excerpts(tmp_path: Path) -> None:
    """Where in-band energies of calls are kept, an excerpt of the same clip doesn't take them, nor leave its own."""
    world = make_world(tmp_path, "events.resample=1")
    whole = plan_of((scene(1500, (0, 0, 1)), [event(3, 100, 1500, UNITY)]))
    part = plan_of((scene(1500, (0, 0, 1)), [excerpt(3, 100, 400, 300, 1500, UNITY)]))
    mixer = mixer_of(world)
    first, between, again = (mixer.render(plan) for plan in (whole, part, whole))

    assert np.isfinite(mixer._known_bands.energy).sum() == 1
    assert between.gain_db.tolist() == mixer_of(world).render(part).gain_db.tolist()
    assert again.gain_db.tolist() == first.gain_db.tolist() != between.gain_db.tolist()


@pytest.mark.parametrize("asked", ASKED)
def test_a_bare_event_has_the_level_asked(tmp_path: Path, asked: str) -> None:
    """RMS over [onset, offset) of the audio, less the scene gain, is the level; around the clip all is 0; no SNR."""
    world = make_world(tmp_path, *ASKED[asked])
    events = [
        event(0, 200, 1500, fade_in=60, fade_out=60),
        event(1, -200, 1500, 1),  # cut by the edge, resampled
        event(3, 300, 1500, 2, reversed=True),
        event(2, 100, 1500),
    ]
    levels = [-20.0, -33.5, -42.25, -1.0]  # the last is beyond the peak limit
    for one in events:
        one["snr_db"] = NO_LEVEL
    plan = plan_of(*((nothing_behind(1500, level), [one]) for level, one in zip(levels, events, strict=True)))
    batch = mixer_of(world).render(plan, stems=True, pcm=False)

    assert batch.failures is None
    assert batch.background is not None
    assert not batch.background.any()
    for i, level in enumerate(levels):
        heard = batch.audio[i, plan.onset[i] : plan.offset[i]]
        assert rms_db(heard) - batch.scene_gain_db[i] == pytest.approx(level, abs=0.001)
        assert not batch.audio[i, : max(plan.clip_onset[i], 0)].any()
        assert not batch.audio[i, plan.clip_offset[i] :].any()
    assert (batch.scene_gain_db < 0).tolist() == [False, False, False, True]
    for name in ("level_dbfs", "level_lufs", "snr_scene_db", "snr_local_db", "snr_band_db", "snr_loudness_db"):
        assert np.isnan(getattr(batch, name)).all(), name
    assert np.isfinite(batch.gain_db).all()


def test_a_bare_group_shares_its_level(world: World) -> None:
    """Calls of one gain group keep their relative level; together they have the level asked, others have their own."""
    events = [event(0, 0, 3000, gain_group=4), event(1, 800, 3000, gain_group=4), event(2, 2000, 3000, gain_group=1)]
    batch = mixer_of(world).render(plan_of((nothing_behind(3000, -30), events)), stems=True)
    plan, stems = batch.plan, batch.stems
    assert stems is not None

    assert batch.gain_db[0] == batch.gain_db[1]
    active = [stems[e, plan.onset[e] : plan.offset[e]] for e in range(3)]
    assert rms_db(np.concatenate(active[:2])) == pytest.approx(-30, abs=0.001)
    assert rms_db(active[2]) == pytest.approx(-30, abs=0.001)


def test_a_bare_scene_without_events_is_silence(world: World) -> None:
    """Nothing at all: digital zero, no gain, no failure, also in 16 bits and without a level."""
    plan = plan_of((nothing_behind(500, -30), []), (nothing_behind(500, np.inf), []))
    batch, as_pcm = mixer_of(world).render(plan, stems=True), mixer_of(world).render(plan, pcm=True)

    assert batch.failures is as_pcm.failures is None
    assert as_pcm.pcm is not None
    assert not batch.audio.any()
    assert not as_pcm.pcm.any()
    assert batch.scene_gain_db.tolist() == [0, 0]


def test_what_has_no_power_fails_by_name(tmp_path: Path) -> None:
    """A silent clip, or no level at all, fails its bare scene and says so; others in the batch are delivered."""
    world = make_world(tmp_path)
    with StoreWriter(tmp_path / "half", "pseudovox", RATE) as writer:
        clip = np.random.default_rng(0).standard_normal(1200)
        clip[:600] = 0
        writer.add(clip.astype(np.float32), {"species": "Half", "low_hz": 500.0, "high_hz": 900.0})
    bank = ClipStore.open(tmp_path / "half")
    silent = {"clip": 0, "clip_end": 1200, "clip_onset": 0, "clip_offset": 1200, "onset": 0, "offset": 500}
    sound = {**silent, "onset": 600, "offset": 1100}
    plan = plan_of(
        (nothing_behind(1500, -30), [silent]),
        (nothing_behind(1500, -30), [sound]),
        (nothing_behind(9, np.inf), [sound]),
    )
    batch = Mixer(world.spec, bank, world.backgrounds).render(plan, stems=True)

    assert batch.failures is not None
    assert list(batch.failures) == [0, 2]
    assert (
        batch.failures[0] == f"scene 0: nothing is heard of clip 0 of {bank.path} in samples 0 to 500; exclude the clip"
    )
    assert batch.failures[2].startswith("scene 2 has neither a background nor a level")
    assert [bool(audio.any()) for audio in batch.audio] == [False, True, False]
    assert np.isnan(batch.gain_db).tolist() == [True, False, True]
