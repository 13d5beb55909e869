"""The mixer against the float64 reference, and its levels against measurements on the stems."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synthscape.bank.store import ClipStore
from synthscape.mix.batch import SceneBatch
from synthscape.mix.mixer import Mixer
from synthscape.mix.reference import reference_scene
from synthscape.plan.planner import Planner
from synthscape.spec import Spec
from synthscape_kernels import mix

SpecOf = Callable[..., Spec]
BUSY = ("events.rate=null", "events.count=6", "duration=2", "empty_share=0.1", "background.mix.probability=0.5")


def mixed(
    spec: Spec,
    bank: ClipStore,
    backgrounds: ClipStore,
    scenes: range = range(30),
    impulses: ClipStore | None = None,
) -> SceneBatch:
    """Planned and mixed with stems."""
    plan = Planner(spec, bank, backgrounds, impulses).plan(scenes)
    return Mixer(spec, bank, backgrounds, impulses).render(plan, stems=True)


def close_to_reference(
    spec: Spec, bank: ClipStore, backgrounds: ClipStore, scenes: range, impulses: ClipStore | None = None
) -> None:
    """Audio, stems, background and levels agree with the float64 reference to 1e-5 of full stem level."""
    batch = mixed(spec, bank, backgrounds, scenes, impulses)
    assert batch.failures is None
    assert batch.stems is not None
    assert batch.background is not None
    for i in range(len(batch.plan)):
        truth = reference_scene(batch.plan, i, spec, bank, backgrounds, impulses)
        e, n = batch.plan.events_of(i), len(truth.audio)
        scale = np.abs(truth.audio).max()
        assert np.abs(batch.background[i, :n] - truth.background).max() < 1e-5 * np.abs(truth.background).max()
        assert np.abs(batch.audio[i, :n] - truth.audio).max() < 1e-5 * scale
        for stem, true_stem in zip(batch.stems[e], truth.stems, strict=True):
            assert np.abs(stem[:n] - true_stem).max() < 1e-5 * np.abs(true_stem).max()
        pcm, true_pcm = np.rint(32768 * batch.audio[i, :n]), np.rint(32768 * truth.audio)
        assert np.abs(pcm - true_pcm).max() <= 1
        np.testing.assert_allclose(batch.snr_scene_db[e], truth.snr_scene_db, atol=1e-3)
        np.testing.assert_allclose(batch.snr_local_db[e], truth.snr_local_db, atol=1e-3)
        np.testing.assert_allclose(batch.snr_band_db[e], truth.snr_band_db, atol=1e-3)
        if spec.events.snr.reference == "loudness":
            np.testing.assert_allclose(batch.snr_loudness_db[e], truth.snr_loudness_db, atol=1e-3)
        assert batch.scene_gain_db[i] == pytest.approx(truth.scene_gain_db, abs=1 / 256)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    reference=st.sampled_from(["band", "local", "scene"]),
    edges=st.sampled_from(["inside", "truncate"]),
    resample=st.sampled_from(["1", "{choice: [0.5, 0.9, 1, 1.7]}", "{loguniform: [0.7, 1.5]}"]),
    reverse=st.sampled_from(["0", "0.5"]),
    fade=st.sampled_from(["0", "0.01", "0.3"]),
    background=st.sampled_from(["1", "1.25", "{choice: [0.8, 2]}"]),
    level=st.sampled_from(["{uniform: [-50, -30]}", "null", "-3"]),
    group=st.sampled_from(["none", "track"]),
    seed=st.integers(0, 2**32),
)
def test_kernels_are_the_reference(
    spec_of: SpecOf,
    bank: ClipStore,
    backgrounds: ClipStore,
    reference: str,
    edges: str,
    resample: str,
    reverse: str,
    fade: str,
    background: str,
    level: str,
    group: str,
    seed: int,
) -> None:
    """On random plans the mixer is the plain float64 mixer: relative error under 1e-5, PCM16 within 1 LSB."""
    if group == "track":  # tracks are longer than these scenes, and can't be reversed
        edges, reverse = "truncate", "0"
    spec = spec_of(
        *BUSY, f"seed={seed}", f"events.snr.reference={reference}", f"events.edges={edges}",
        f"events.resample={resample}", f"events.reverse={reverse}", f"events.fade_s={fade}",
        f"background.resample={background}", f"background.level_dbfs={level}", f"events.group={group}",
        "classes.per_scene=2",
    )  # fmt: skip
    close_to_reference(spec, bank, backgrounds, range(2))


@pytest.fixture(scope="module", params=["band", "local", "scene"])
def batch_of(
    request: pytest.FixtureRequest, spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore
) -> tuple[str, SceneBatch]:
    """A mixed batch for each SNR reference."""
    spec = spec_of(*BUSY, f"events.snr.reference={request.param}", "events.edges=truncate",
                   "events.resample={loguniform: [0.8, 1.25]}", "events.reverse=0.3")  # fmt: skip
    return request.param, mixed(spec, bank, backgrounds, range(150))


def third_octave(low: float, high: float) -> tuple[float, float]:
    """A band widened to a third octave about its geometric centre."""
    centre = (low * high) ** 0.5
    return min(low, centre * 2 ** (-1 / 6)), max(high, centre * 2 ** (1 / 6))


def test_achieved_snr_is_what_stems_show(batch_of: tuple[str, SceneBatch], bank: ClipStore) -> None:
    """Every achieved SNR in the batch can be measured again from stems, background and k within 0.05 dB."""
    _, batch = batch_of
    plan = batch.plan
    assert batch.stems is not None
    assert batch.background is not None
    clips = bank.clips
    for i in range(len(plan)):
        noise = batch.background[i, : plan.n_samples[i]].astype(float)
        for e in range(plan.events_of(i).start, plan.events_of(i).stop):
            part = slice(int(plan.onset[e]), int(plan.offset[e]))
            call, behind = batch.stems[e, part].astype(float), noise[part]
            k = batch.signal_share[e]
            assert k == clips["signal_share"].iloc[plan.clip[e]]
            scene_db = 10 * np.log10(k * np.mean(call**2) / np.mean(noise**2))
            local_db = 10 * np.log10(k * np.mean(call**2) / np.mean(behind**2))
            q_over_p = plan.ratio_q[plan.ratio[e]] / plan.ratio_p[plan.ratio[e]]
            row = clips.iloc[plan.clip[e]]
            low, high = third_octave(row.low_hz * q_over_p, row.high_hz * q_over_p)
            n = len(call)
            bins = np.arange(round(low * n / 16000), round(high * n / 16000) + 1)
            powers = [np.sum(np.abs(np.fft.fft(x)[bins]) ** 2) for x in (call, behind)]
            assert batch.snr_scene_db[e] == pytest.approx(scene_db, abs=0.05)
            assert batch.snr_local_db[e] == pytest.approx(local_db, abs=0.05)
            assert batch.snr_band_db[e] == pytest.approx(10 * np.log10(k * powers[0] / powers[1]), abs=0.05)


def test_achieved_is_asked(batch_of: tuple[str, SceneBatch]) -> None:
    """In the spec's own reference every ungrouped event has the SNR it was planned with."""
    reference, batch = batch_of
    achieved = {"band": batch.snr_band_db, "local": batch.snr_local_db, "scene": batch.snr_scene_db}[reference]

    assert len(achieved) > 500
    np.testing.assert_allclose(achieved, batch.plan.snr_db / 256, atol=0.01)


def test_stems_sum_to_the_mix(batch_of: tuple[str, SceneBatch]) -> None:
    """audio == (background + sum of stems) x scene gain, to float32 precision."""
    _, batch = batch_of
    assert batch.stems is not None
    assert batch.background is not None
    for i in range(len(batch.plan)):
        whole = batch.background[i].astype(float) + batch.stems[batch.plan.events_of(i)].astype(float).sum(axis=0)
        assert np.abs(whole * 10 ** (batch.scene_gain_db[i] / 20) - batch.audio[i]).max() < 5e-7


def test_stems_are_silent_outside_their_clip(batch_of: tuple[str, SceneBatch]) -> None:
    """A stem is zero before its clip's onset and from its offset on."""
    _, batch = batch_of
    plan = batch.plan
    assert batch.stems is not None
    for e in range(plan.n_events):
        assert not batch.stems[e, : max(0, int(plan.clip_onset[e]))].any()
        assert not batch.stems[e, int(plan.clip_offset[e]) :].any()


def test_background_level(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """The mixed background has the level asked, whatever it was recorded at and however many there are."""
    batch = mixed(spec_of(*BUSY, "background.level_dbfs={uniform: [-50, -40]}"), bank, backgrounds)
    assert batch.background is not None
    for i in range(len(batch.plan)):
        measured = 10 * np.log10(np.mean(batch.background[i].astype(float) ** 2))
        assert measured == pytest.approx(batch.plan.level_dbfs[i] / 256, abs=1e-3)
        assert batch.level_dbfs[i] == pytest.approx(measured + batch.scene_gain_db[i], abs=1e-3)


def test_background_as_recorded(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """With level_dbfs: null a background keeps the level of its recording (here: a peak of 0.05)."""
    spec = spec_of(*BUSY, "background.level_dbfs=null", "background.mix.probability=0", "duration=12")
    batch = mixed(spec, bank, backgrounds, range(8))
    assert batch.background is not None
    whole = batch.plan.background[:, 0] > 0  # the first one is short and looped

    peaks = np.abs(batch.background[whole]).max(axis=1)
    np.testing.assert_allclose(peaks, 0.05, rtol=1e-4)


def test_loud_scenes_are_scaled_not_clipped(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """A mix that would exceed -1 dBFS is scaled to it, and the gain is in the batch."""
    batch = mixed(spec_of(*BUSY, "events.snr.db=30", "background.level_dbfs=-20"), bank, backgrounds)
    peak_db = 20 * np.log10(np.abs(batch.audio).max(axis=1))

    assert (batch.scene_gain_db < 0).sum() > 20
    assert (peak_db <= -1).all()
    assert (peak_db[batch.scene_gain_db < 0] > -1.01).all()


def test_batches_of_any_size_give_the_same_audio(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Audio and levels are bit-identical in one go, one by one and in another order."""
    spec = spec_of(*BUSY, "events.resample={loguniform: [0.8, 1.25]}")
    planner, mixer = Planner(spec, bank, backgrounds), Mixer(spec, bank, backgrounds)
    whole = mixer.render(planner.plan(range(24)))
    backwards = Mixer(spec, bank, backgrounds).render(planner.plan(range(23, -1, -1)))
    for i in range(24):
        alone = Mixer(spec, bank, backgrounds).render(planner.plan([i]))
        assert alone.audio.tobytes() == whole.audio[i].tobytes() == backwards.audio[23 - i].tobytes()
        assert alone.snr_band_db.tobytes() == whole.snr_band_db[whole.plan.events_of(i)].tobytes()


def test_scenes_of_different_length_in_one_batch(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Shorter scenes of a batch are zero beyond their own end."""
    batch = mixed(spec_of("duration={uniform: [1, 3]}"), bank, backgrounds)

    assert len(set(batch.plan.n_samples.tolist())) > 20
    for i, n in enumerate(batch.plan.n_samples):
        assert not batch.audio[i, n:].any()
        assert batch.audio[i, :n].any()


def test_grouped_tracks_keep_their_relative_level(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Calls of a track keep their recorded levels to each other; its pooled active power has the SNR asked."""
    spec = spec_of("events.group=track", "events.rate=0.5", "duration=6", "events.snr.reference=local",
                   "events.edges=truncate")  # fmt: skip
    batch = mixed(spec, bank, backgrounds, range(40))
    plan = batch.plan
    assert batch.stems is not None
    assert batch.background is not None
    seen = 0
    for i in range(len(plan)):
        e = plan.events_of(i)
        for group in np.unique(plan.gain_group[e]):
            members = e.start + np.flatnonzero(plan.gain_group[e] == group)
            recorded_db = 20 * np.log10(bank.numbers("peak")[plan.clip[members]])
            assert np.ptp(batch.gain_db[members] - recorded_db) < 1e-6
            signal, noise = 0.0, 0.0
            for m in members:
                part = slice(int(plan.onset[m]), int(plan.offset[m]))
                signal += batch.signal_share[m] * np.sum(batch.stems[m, part].astype(float) ** 2)
                noise += np.sum(batch.background[i, part].astype(float) ** 2)
            assert 10 * np.log10(signal / noise) == pytest.approx(plan.snr_db[members[0]] / 256, abs=0.01)
            seen += len(members) > 1
    assert seen > 20


@pytest.mark.parametrize("n_events", [1, 6])
def test_a_scene_is_one_compiled_call(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, n_events: int) -> None:
    """Whatever is in it: with each call other threads get Python's lock, and it has to be waited for."""
    spec = spec_of(*BUSY, f"events.count={n_events}", "background.level_dbfs=-50")
    plan, mixer = Planner(spec, bank, backgrounds).plan(range(20)), Mixer(spec, bank, backgrounds)
    mixer.render(plan, pcm=True)  # makes tables
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and Path(frame.f_code.co_filename).parent == Path(mix.__file__).parent:
            calls[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        mixer.render(plan, pcm=True)
    finally:
        sys.setprofile(None)

    assert calls["mix_scene"] == 20
    assert sum(calls.values()) < 30


def test_stores_are_never_modified(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Mixing with fades leaves the stored audio as it was."""
    before = [bank.pcm(row).copy() for row in range(len(bank))]
    mixed(spec_of(*BUSY, "events.fade_s=0.2"), bank, backgrounds)

    assert all((bank.pcm(row) == clip).all() for row, clip in enumerate(before))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    heard=st.sampled_from(["distance", "room", "tail", "distance, room", "distance, tail"]),
    mode=st.sampled_from(["snr", "snr", "source"]),
    reference=st.sampled_from(["band", "local", "scene", "loudness"]),
    fade_shape=st.sampled_from(["linear", "raised_cosine"]),
    level=st.sampled_from(["level_dbfs=-30", "level_lufs={uniform: [-40, -20]}"]),
    noise=st.sampled_from(["0", "0.5", "1"]),
    group=st.sampled_from(["none", "track"]),
    edges=st.sampled_from(["inside", "truncate"]),
    seed=st.integers(0, 2**32),
)
def test_surroundings_are_the_reference(
    spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, impulses: ClipStore, heard: str, mode: str,
    reference: str, fade_shape: str, level: str, noise: str, group: str, edges: str, seed: int,
) -> None:  # fmt: skip
    """Distances, rooms, tails, source levels, loudness and noise: the mixer is the plain float64 mixer."""
    asked = [
        *BUSY, f"seed={seed}", f"events.fade_shape={fade_shape}", f"events.snr.reference={reference}",
        "background.level_dbfs=null", f"background.{level}", f"background.noise.probability={noise}",
        f"events.group={group}", "events.edges=truncate" if group == "track" else f"events.edges={edges}",
        "classes.per_scene=2", "events.resample={choice: [0.9, 1]}",
    ]  # fmt: skip
    if "distance" in heard or mode == "source":
        asked.append("events.propagation.distance_m={loguniform: [2, 300]}")
    if "room" in heard:
        asked.append(f"events.propagation.impulses={impulses.path}")
    if "tail" in heard:
        asked.append("events.propagation.tail.rt60_s={uniform: [0.1, 0.5]}")
    if mode == "source":
        asked += ["events.level.mode=source", "events.level.source_level_db={uniform: [70, 90]}"]
        asked.append("background.spl_db={uniform: [30, 50]}")
    else:
        asked.append("events.propagation.probability=0.7")
    close_to_reference(spec_of(*asked), bank, backgrounds, range(2), impulses if "room" in heard else None)
