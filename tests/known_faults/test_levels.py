"""Faults of levels that users met in other tools, where mixing is what avoids them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from synthscape import ClipStore, SceneGenerator, Scenes, Spec, load_spec
from synthscape.bank.writer import StoreWriter
from synthscape.mix.mixer import Mixer
from synthscape.plan.plan import DROP_REASONS
from tests.hand_built import hand_plan

RATE = 8000
SpecOf = Callable[..., Spec]


def rms(x: NDArray[Any]) -> float:
    """Root of the mean square, float64."""
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def scenes_of(spec: Spec, n: int = 30) -> Scenes:
    """Rendered with stems."""
    return SceneGenerator(spec).render(range(n), stems=True)


def parts(batch: Scenes) -> list[tuple[dict[str, Any], NDArray[np.float32], NDArray[np.float32]]]:
    """Each event with its stem, and its scene's background, cut to the scene."""
    assert batch.stems is not None
    assert batch.background is not None
    number = {name: i for i, name in enumerate(batch.scenes["scene_id"])}
    found = []
    for event, stem in zip(batch.events.to_dict("records"), batch.stems, strict=True):
        i = number[event["scene_id"]]
        n = int(batch.plan.n_samples[i])
        found.append((event, stem[:n], batch.background[i, :n]))
    return found


def two_stores(folder: Path, calls: dict[str, NDArray[Any]], noise: NDArray[Any], **columns: Any) -> list[str]:
    """A bank of the calls, each a species active throughout, a background, and the spec's overrides for them."""
    with StoreWriter(folder / "bank", "pseudovox", RATE) as writer:
        for name, call in calls.items():
            writer.add(call, {"species": name, "low_hz": 20.0, "high_hz": 3900.0, **columns})
    with StoreWriter(folder / "backgrounds", "backgrounds", RATE) as writer:
        writer.add(noise, {"recording_id": "b"})
    stores = [f"bank={folder / 'bank'}", f"backgrounds={folder / 'backgrounds'}", f"sample_rate={RATE}"]
    return [*stores, "classes.per_scene=1", "background.mix.probability=0", "duration=3", "events.resample=1"]


def white(seed: int, n: int) -> NDArray[np.float64]:
    """White noise."""
    return np.random.default_rng(seed).standard_normal(n)


def test_levels_are_of_what_is_mixed(spec_of: SpecOf) -> None:
    """Cut by the scene's edge, faded, resampled and reversed, a call has the level asked for as it is then heard
    (scaper and DRASDIC measured before).
    """
    changed = ("events.edges=truncate", "events.fade_s=0.3", "events.resample={loguniform: [0.7, 1.4]}")
    dense = ("events.rate=null", "events.count=5", "duration=1", "events.reverse=0.5", "events.snr.reference=scene")
    batch = scenes_of(spec_of(*dense, *changed, "events.overlap.max_polyphony=null", "classes.per_scene=3"))
    cut = 0
    for event, stem, background in parts(batch):
        cut += event["truncated"]
        level = rms(stem[event["onset"] : event["offset"]]) * np.sqrt(event["signal_share"])
        assert 20 * np.log10(level / rms(background)) == pytest.approx(event["snr_db"], abs=0.01)

    assert cut > 10


def test_low_calls_are_not_weighted_away(tmp_path: Path) -> None:
    """A 30 Hz tone has the RMS asked for (K-weighting put it 11.7 dB off)."""
    tones = {name: np.sin(2 * np.pi * hz * np.arange(RATE) / RATE) for name, hz in (("low", 30), ("high", 1000))}
    stores = two_stores(tmp_path, tones, white(1, 5 * RATE), signal_share=1.0)
    batch = scenes_of(load_spec("strong_detection", [*stores, "events.snr.reference=scene", "events.snr.db=3"]))
    levels = {"low": [], "high": []}
    for event, stem, background in parts(batch):
        levels[event["species"]].append(20 * np.log10(rms(stem[event["onset"] : event["offset"]]) / rms(background)))

    np.testing.assert_allclose(levels["low"] + levels["high"], 3, atol=0.01)
    assert min(len(found) for found in levels.values()) > 3


def test_two_backgrounds_are_one_reference(spec_of: SpecOf) -> None:
    """With a second background the SNR asked for is against both together (it came out 2.85 dB low in scaper)."""
    spec = spec_of("background.mix.probability=1", "events.snr.reference=scene", "events.snr.subtract_noise=false")
    batch = scenes_of(spec)
    for event, stem, background in parts(batch):
        reached = 20 * np.log10(rms(stem[event["onset"] : event["offset"]]) / rms(background))
        assert reached == pytest.approx(event["snr_db"], abs=0.01)

    assert (batch.plan.background >= 0).all()
    planned = batch.plan.level_dbfs / 256
    both = [20 * np.log10(rms(row)) for row in batch.background]  # type: ignore[union-attr]
    np.testing.assert_allclose(both, planned, atol=0.01)


def test_events_do_not_mask_each_other(bank: ClipStore, backgrounds: ClipStore, spec_of: SpecOf) -> None:
    """An event's gain is against the background only: others beneath it, and their order, change nothing."""
    loud, soft = {"clip": 0, "snr_db": 30 * 256}, {"clip": 13, "snr_db": -5 * 256, "gain_group": 1}
    at = {"clip_onset": 2000, "onset": 2300, "offset": 3300}
    events = [{**event, **at, "clip_offset": 2000 + int(bank.lengths[event["clip"]])} for event in (loud, soft)]
    scene: dict[str, Any] = {"n_samples": 16000, "level_dbfs": -40 * 256}
    plans = [hand_plan((scene, chosen)) for chosen in ([events[0]], [events[1]], events, events[::-1])]
    mixer = Mixer(spec_of("events.snr.reference=local"), bank, backgrounds)
    alone, other, both, turned = (mixer.render(plan).gain_db for plan in plans)

    assert [*alone, *other] == both.tolist() == turned.tolist()[::-1]


def test_decibels_are_of_amplitude(tmp_path: Path) -> None:
    """6.02 dB is twice the amplitude, not four times (10 ** (snr / 10) on amplitude)."""
    tone = {"tone": np.sin(2 * np.pi * 500 * np.arange(RATE) / RATE)}
    stores = two_stores(tmp_path, tone, white(2, 5 * RATE), signal_share=1.0)
    asked = ("events.snr.reference=scene", f"events.snr.db={20 * np.log10(2)}")
    for event, stem, background in parts(scenes_of(load_spec("strong_detection", [*stores, *asked]), 5)):
        assert rms(stem[event["onset"] : event["offset"]]) == pytest.approx(2 * rms(background), rel=1e-3)


def test_each_event_has_an_snr_of_its_own(spec_of: SpecOf) -> None:
    """SNRs differ within scenes (lhotse drew one for a set); one number, and equal bounds, are distributions."""
    several = scenes_of(spec_of("events.rate=null", "events.count=4", "empty_share=0"), 10).events
    assert (several.groupby("scene_id")["snr_db"].nunique() == several.groupby("scene_id").size()).all()
    for written in ("5", "{uniform: [5, 5]}"):
        assert set(scenes_of(spec_of(f"events.snr.db={written}"), 10).events["snr_db"]) == {5.0}


def test_snr_is_of_power_not_of_peaks(tmp_path: Path) -> None:
    """A train of clicks and a steady tone of one SNR have one RMS, though their peaks are 15 dB apart."""
    clicks = white(3, RATE) * 0.01
    clicks[::100] = 1
    calls = {"clicks": clicks, "tone": np.sin(2 * np.pi * 500 * np.arange(RATE) / RATE)}
    stores = two_stores(tmp_path, calls, white(4, 5 * RATE), signal_share=1.0)
    asked = ("events.snr.reference=scene", "events.snr.db=0", "events.fade_s=0")
    peaks = {}
    for event, stem, background in parts(scenes_of(load_spec("strong_detection", [*stores, *asked]))):
        assert rms(stem[event["onset"] : event["offset"]]) == pytest.approx(rms(background), rel=1e-3)
        peaks[event["species"]] = np.abs(stem).max() / rms(background)

    assert 20 * np.log10(peaks["clicks"] / peaks["tone"]) > 15


def test_background_level_does_not_drift_with_snr(spec_of: SpecOf) -> None:
    """Louder events leave the background at the level drawn (SpeechBrain scaled both)."""
    soft, loud = (scenes_of(spec_of(f"events.snr.db={db}", "background.level_dbfs=-60"), 10) for db in (-10, 10))

    assert (loud.scenes["scene_gain_db"] == 0).all()
    assert np.array_equal(soft.background, loud.background)  # type: ignore[arg-type]
    np.testing.assert_allclose(loud.scenes["level_dbfs"], -60, atol=0.01)


@pytest.mark.parametrize("reference", ["band", "local", "scene"])
def test_nothing_is_placed_where_the_background_is_silent(tmp_path: Path, reference: str) -> None:
    """Dropouts of a background get no event whose SNR would be against nothing: it is put elsewhere or counted."""
    noise = white(5, 3 * RATE)
    noise[RATE : 2 * RATE] = 0
    tone = {"tone": np.sin(2 * np.pi * 500 * np.arange(RATE // 4) / RATE)}
    stores = two_stores(tmp_path, tone, noise, signal_share=1.0)
    spec = load_spec("strong_detection", [*stores, f"events.snr.reference={reference}", "events.rate=1"])
    batch = scenes_of(spec, 40)
    inside = batch.events["onset"].between(RATE + 400, 2 * RATE - RATE // 4 - 400)

    assert len(batch.events) > 60
    if reference == "scene":
        assert inside.any()
    else:
        assert not inside.any()
        assert batch.plan.n_redrawn.sum() > 0
    heard = batch.events[f"snr_{reference}_db"]
    np.testing.assert_allclose(heard.astype(float), batch.events["snr_db"], atol=0.01)


def test_silent_stretches_of_clips_are_not_labelled(tmp_path: Path) -> None:
    """A clip that is silent where it claims to be active is dropped as that, not mixed as a labelled silence."""
    rng = np.random.default_rng(6)
    half = np.concatenate([np.zeros(RATE // 2), rng.standard_normal(RATE // 2)])
    stores = two_stores(tmp_path, {"half": half}, white(7, 5 * RATE), active_start=0, active_end=RATE // 4)
    plan = SceneGenerator(load_spec("strong_detection", [*stores, "empty_share=0"])).plan(range(20))

    assert plan.n_events == 0
    assert plan.drops[:, DROP_REASONS.index("silent_event")].sum() == plan.n_asked.sum() > 0
