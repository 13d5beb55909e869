"""Faults of time that users met in other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscape import ClipStore, SceneGenerator, Spec, load_spec
from synthscape.bank.activity import cut_window, find_windows
from synthscape.bank.writer import StoreWriter
from synthscape.plan.plan import DROP_REASONS
from synthscape.units import seconds_to_samples

RATE = 8000
SpecOf = Callable[..., Spec]


@given(samples=st.integers(0, 10**10), rate=st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000, 256_000]))
def test_seconds_give_their_samples_back(samples: int, rate: int) -> None:
    """There is one rounding, to the nearest: no time is a sample short (int() was, in several tools)."""
    assert seconds_to_samples(samples / rate, rate) == samples  # seconds in labels are samples / rate


def test_a_duration_is_rounded_not_cut(spec_of: SpecOf) -> None:
    """2.99999 s at 16 kHz are 48 000 samples, in the plan, the audio and the table (47 999 in scaper)."""
    batch = SceneGenerator(spec_of("duration=2.99999")).render([0, 1])

    assert batch.audio.shape == (2, 48_000)
    assert batch.scenes["n_samples"].tolist() == [48_000, 48_000]
    assert batch.scenes["duration_s"].tolist() == [3.0, 3.0]


def stores(folder: Path, call: np.ndarray, noise: np.ndarray, **columns: object) -> list[str]:
    """A bank of one call, a background, and the overrides of a spec for them."""
    with StoreWriter(folder / "bank", "pseudovox", RATE) as writer:
        band = {"low_hz": 400.0, "high_hz": 600.0, "min_ratio_index": 0, "signal_share": 1.0}
        writer.add(call, {"species": "a", **band, **columns})
    with StoreWriter(folder / "backgrounds", "backgrounds", RATE) as writer:
        writer.add(noise, {"recording_id": "b"})
    paths = [f"bank={folder / 'bank'}", f"backgrounds={folder / 'backgrounds'}", f"sample_rate={RATE}"]
    once = [
        "classes.per_scene=1",
        "background.mix.probability=0",
        "events.rate=null",
        "events.count=1",
        "empty_share=0",
    ]
    return [*paths, *once, "events.resample=1"]


def tone(seconds: float) -> np.ndarray:
    """500 Hz."""
    return np.sin(2 * np.pi * 500 * np.arange(round(seconds * RATE)) / RATE)


def test_calls_longer_than_the_scene(tmp_path: Path) -> None:
    """Stretched to 3 s in a scene of 2 s a call is cut by both edges, labelled as heard and flagged; where whole calls
    are asked for it is dropped as too long (negative starts in scaper).
    """
    noise = np.random.default_rng(1).standard_normal(5 * RATE)
    options = [*stores(tmp_path, tone(2), noise), "duration=2", "events.resample=1.5"]
    cut = SceneGenerator(load_spec("strong_detection", [*options, "events.edges=truncate"])).render(
        range(60), stems=True
    )
    events, n = cut.events, 2 * RATE
    both = events[(events["clip_onset"] < 0) & (events["clip_offset"] > n)]

    assert len(both) >= 5
    assert (both["onset"] == 0).all()
    assert (both["offset"] == n).all()
    assert events["truncated"].all()
    assert (events["onset"] >= 0).all()
    assert (events["offset"] <= n).all()
    for event, stem in zip(events.to_dict("records"), cut.stems, strict=True):  # type: ignore[arg-type]
        sounding = np.flatnonzero(stem)
        assert abs(sounding[0] - event["onset"]) <= 8
        assert abs(sounding[-1] + 1 - event["offset"]) <= 8
    plan = SceneGenerator(load_spec("strong_detection", options)).plan(range(20))
    assert plan.n_events == 0
    assert plan.drops[:, DROP_REASONS.index("longer_than_scene")].sum() == 20


def test_no_sound_without_a_label(spec_of: SpecOf) -> None:
    """What the scene cuts off is cut from audio and labels together: the mix is the background and the labelled
    events, also where calls of a track lie outside (scaper dropped labels and kept the sound).
    """
    options = ("events.group=track", "events.edges=truncate", "duration=1", "events.rate=2", "classes.per_scene=2")
    batch = SceneGenerator(spec_of(*options)).render(range(30), stems=True)
    assert batch.stems is not None
    assert batch.background is not None

    assert batch.plan.n_outside.sum() > 10
    for i, gain_db in enumerate(batch.scenes["scene_gain_db"]):
        labelled = batch.stems[batch.plan.events_of(i)].sum(axis=0, dtype=np.float64)
        rest = batch.audio[i] / 10 ** (gain_db / 20) - batch.background[i] - labelled
        assert np.abs(rest).max() < 1e-6
        assert all(np.any(stem) for stem in batch.stems[batch.plan.events_of(i)])


def test_short_backgrounds_are_looped_without_gap_or_click(tmp_path: Path) -> None:
    """A background of 1.3 s fills 10 s: no stretch is silent, no join jumps, and the level is steady."""
    slow = np.cumsum(np.random.default_rng(2).standard_normal(12_000))[1600:]
    slow -= np.linspace(slow[0], slow[-1] + 40 * slow.std(), len(slow))  # its ends are far apart: a bare join clicks
    options = [*stores(tmp_path, tone(0.2), slow / np.abs(slow).max()), "duration=10", "empty_share=1"]
    batch = SceneGenerator(load_spec("strong_detection", options)).render(range(8), stems=True)
    source = ClipStore.open(tmp_path / "backgrounds").audio(0)
    bare = abs(float(source[-1] - source[0]))
    for background in batch.background:  # type: ignore[union-attr]
        scale = np.abs(source).max() / np.abs(background).max()
        jump = np.abs(np.diff(background)).max() * scale
        levels = np.abs(background).reshape(-1, 1000).max(axis=1) * scale

        assert jump < bare / 20
        assert levels.min() > 0.02
    assert all(row == [True] for row in batch.scenes["background_looped"].map(list))


def test_backgrounds_begin_where_planned(tmp_path: Path) -> None:
    """A crop is the source's samples from the planned offset on, to the sample (audiomentations was off)."""
    noise = np.random.default_rng(3).standard_normal(20 * RATE)
    options = [*stores(tmp_path, tone(0.2), noise), "duration=2"]
    batch = SceneGenerator(load_spec("strong_detection", options)).render(range(10), stems=True)
    source = ClipStore.open(tmp_path / "backgrounds").audio(0)
    for i, background in enumerate(batch.background):  # type: ignore[arg-type]
        begin = int(batch.plan.background_offset[i, 0])
        crop = source[begin : begin + 2 * RATE]
        np.testing.assert_allclose(background / np.abs(background).max(), crop / np.abs(crop).max(), atol=1e-5)
    assert len(np.unique(batch.plan.background_offset[:, 0])) == 10


@pytest.mark.parametrize("fade_s", [0, 0.01, 5])
@pytest.mark.parametrize("samples", [1, 5, 40, 1600])
def test_fades_shrink_to_the_clip(tmp_path: Path, samples: int, fade_s: float) -> None:
    """A clip shorter than its fade is mixed, at the SNR asked for, with at most a tenth of it faded; 0 is no fade."""
    noise = np.random.default_rng(4).standard_normal(5 * RATE)
    call = tone(0.25)[3 : 3 + samples]
    options = [*stores(tmp_path, call, noise), "duration=1", f"events.fade_s={fade_s}", "events.snr.reference=local"]
    batch = SceneGenerator(load_spec("strong_detection", options)).render(range(3), stems=True)
    assert len(batch.events) == 3
    for event, stem in zip(batch.events.to_dict("records"), batch.stems, strict=True):  # type: ignore[arg-type]
        heard = stem[event["clip_onset"] : event["clip_offset"]] / 10 ** (event["gain_db"] / 20)
        stored = ClipStore.open(tmp_path / "bank").audio(0)
        changed = np.abs(heard - stored) > 1e-4

        assert changed.sum() <= (0.1 * samples if fade_s else 0)
        assert event["snr_local_db"] == pytest.approx(event["snr_db"], abs=0.01)


def test_cutting_windows_leaves_the_recording_alone() -> None:
    """Fades of one window don't reach the next: what they were cut from is not changed (fewshot faded in place)."""
    samples = (0.001 * np.random.default_rng(5).standard_normal(3 * RATE)).astype(np.float32)
    for begin in (4000, 7200, 10_400):
        samples[begin : begin + 1600] += tone(0.2).astype(np.float32)
    before = samples.copy()
    windows = find_windows(samples, RATE)
    cuts = [cut_window(samples, window) for window in windows]

    assert len(windows) == 3
    assert np.array_equal(samples, before)
    assert all(abs(float(cut[0])) < abs(before).max() / 100 for cut in cuts)
    assert not any(np.shares_memory(cut, samples) for cut in cuts)
