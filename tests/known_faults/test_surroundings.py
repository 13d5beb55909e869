"""Distance and rooms: levels are measured after them, and labels follow the direct sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthscape import SceneGenerator, load_spec
from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import MixError
from synthscape.mix.surroundings import Surroundings
from synthscape.spec import Spec
from tests.scenes import RATE, make_impulses

SpecOf = Callable[..., Spec]
TONE_HZ, TONE_SAMPLES = 4000, 4800


def rendered(spec: Spec, n: int = 20) -> tuple[SceneGenerator, pd.DataFrame, np.ndarray, np.ndarray]:
    """The generator, events, stems and the background each is in front of (float64)."""
    generator = SceneGenerator(spec)
    scenes = generator.render(range(n), stems=True)
    assert scenes.stems is not None
    assert scenes.background is not None
    scene = np.repeat(np.arange(n), np.diff(scenes.plan.event_offsets))
    mix = scenes.audio.astype(float)
    summed = scenes.background.astype(float)
    np.add.at(summed, scene, scenes.stems.astype(float))
    gain = 10 ** (scenes.scenes["scene_gain_db"].to_numpy() / 20)
    assert np.abs(summed * gain[:, None] - mix).max() < 1e-5 * np.abs(mix).max()  # stems hold their reverberation too
    return generator, scenes.events, scenes.stems.astype(float), scenes.background.astype(float)[scene]


@pytest.mark.parametrize("reference", ["scene", "local"])
def test_the_snr_is_that_of_what_is_heard(spec_of: SpecOf, impulses: ClipStore, reference: str) -> None:
    """In rooms and from afar the SNR asked for is found on the stems, over the labelled samples."""
    spec = spec_of(
        "duration=4", "events.rate=null", "events.count=3", "events.propagation.distance_m={loguniform: [5, 200]}",
        f"events.propagation.impulses={impulses.path}", f"events.snr.reference={reference}",
    )  # fmt: skip
    _, events, stems, backgrounds = rendered(spec)
    assert len(events) > 40
    for row, stem, background in zip(events.itertuples(), stems, backgrounds, strict=True):
        part = slice(row.onset, row.offset)
        noise = background if reference == "scene" else background[part]
        snr_db = 10 * np.log10(row.signal_share * np.mean(stem[part] ** 2) / np.mean(noise**2))
        assert snr_db == pytest.approx(row.snr_db, abs=0.05)


def test_labels_follow_the_direct_sound(spec_of: SpecOf) -> None:
    """With a tail or without, a call stands at the same samples; the tail comes after, for as long as ``tail_s``."""
    asked = ("duration=6", "events.rate=null", "events.count=1", "events.snr.db=20", "classes.per_scene=1")
    _, dry, dry_stems, _ = rendered(spec_of(*asked))
    spec = spec_of(*asked, "events.propagation.tail.rt60_s=0.4", "events.propagation.tail.direct_to_reverberant_db=6")
    _, wet, wet_stems, _ = rendered(spec)

    for column in ("onset", "offset", "clip_onset", "clip_offset", "clip_id"):
        assert wet[column].tolist() == dry[column].tolist()
    assert (dry["tail_s"] == 0).all()
    np.testing.assert_allclose(wet["tail_s"], 0.4, atol=0.01)
    for row, a, b in zip(wet.itertuples(), dry_stems, wet_stems, strict=True):
        first = slice(row.clip_onset, row.clip_onset + 40)  # before anything of the tail
        direct = b[first] * np.dot(a[first], a[first]) / np.dot(a[first], b[first])
        np.testing.assert_allclose(direct, a[first], atol=1e-5 * np.abs(a).max())
        end = row.clip_offset + round(row.tail_s * RATE)
        assert not b[: row.clip_onset].any()
        assert not b[end:].any()
        if end <= len(b):
            assert b[row.clip_offset : end].any()


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """One clip: a tone, active throughout."""
    folder = tmp_path_factory.mktemp("tones") / "bank"
    tone = np.sin(2 * np.pi * TONE_HZ * np.arange(TONE_SAMPLES) / RATE)
    with StoreWriter(folder, "pseudovox", RATE) as writer:
        columns = {
            "species": "Tonus purus",
            "recording_id": "r",
            "low_hz": 3900.0,
            "high_hz": 4100.0,
            "medium": "air",
            "min_ratio_index": 0,
        }
        writer.add(tone.astype(np.float32), columns)
    return ClipStore.open(folder)


def test_a_source_level_gives_the_snr_that_physics_does(tones: ClipStore, backgrounds: ClipStore) -> None:
    """Level at the microphone: source level less 20 log10(distance) less absorption, against the background's level.

    4 kHz in air of 20 degrees and 70 %: 22.9 dB/km (ISO 9613-2, table 2: 22.9).
    """
    spec = load_spec(
        "strong_detection",
        [
            f"bank={tones.path}", f"backgrounds={backgrounds.path}", "duration=4", "events.rate=null", "events.count=2",
            "classes.per_scene=1", "events.level.mode=source", "events.level.source_level_db={uniform: [80, 100]}",
            "events.propagation.distance_m={loguniform: [2, 400]}", "background.spl_db={uniform: [20, 50]}",
            "events.fade_s=0", "events.resample=1",
        ],
    )  # fmt: skip
    generator, events, stems, behind = rendered(spec, 40)
    plan = generator.plan(range(40))
    spl_db = np.repeat(plan.background_spl_db / 256, np.diff(plan.event_offsets))
    level_db = events["source_level_db"] - 20 * np.log10(events["distance_m"]) - 22.9e-3 * events["distance_m"]
    found_db = []
    for row, stem, background in zip(events.itertuples(), stems, behind, strict=True):
        middle = slice(row.onset + 500, row.offset - 500)
        found_db.append(10 * np.log10(np.mean(stem[middle] ** 2) / np.mean(background**2)))

    assert len(events) > 60
    assert events["snr_db"].isna().all()
    np.testing.assert_allclose(found_db, level_db - spl_db, atol=0.15)
    np.testing.assert_allclose(events["snr_scene_db"], level_db - spl_db, atol=0.4)  # ... with the ends of the tone


def test_what_air_took_is_not_brought_back(tones: ClipStore, backgrounds: ClipStore) -> None:
    """Where over 60 dB of a call are absorbed, an SNR would be that of the clip's noise: the scene fails, and says why.

    As an outcome of a source level it is no fault.
    """
    asked = (f"bank={tones.path}", f"backgrounds={backgrounds.path}", "events={count: 1, rate: null}")
    asked = (*asked, "classes.per_scene=1", "empty_share=0")
    far = (*asked, "events.propagation.distance_m=10000")
    with pytest.raises(MixError, match=r"absorption takes \d+ dB over 10000 m.*lower events.propagation.distance_m"):
        SceneGenerator(load_spec("strong_detection", far)).render([0])
    SceneGenerator(load_spec("strong_detection", (*asked, "events.propagation.distance_m=500"))).render([0])
    source = ("events.level={mode: source, source_level_db: 80}", "background.spl_db=40")
    events = SceneGenerator(load_spec("strong_detection", (*far, *source))).render([0]).events
    assert (events["snr_band_db"] < -60).all()


def test_long_rooms_are_not_all_kept(spec_of: SpecOf, bank: ClipStore, tmp_path: Path) -> None:
    """The rooms kept take 128 MiB at most, however long they are, as 256 of a minute would take gigabytes."""
    with StoreWriter(tmp_path / "long", "impulses", RATE) as writer:
        decay = np.random.default_rng(1).standard_normal(60 * RATE) * 1e-3
        decay[0] = 1
        writer.add(decay.astype(np.float32), {"site": "cave"})
    store = ClipStore.open(tmp_path / "long")
    surroundings = Surroundings(spec_of(f"events.propagation.impulses={store.path}"), bank, store)
    assert surroundings._room.cache_parameters()["maxsize"] * 60 * RATE * 8 <= 2**27  # type: ignore[attr-defined]


def test_a_source_level_is_that_of_the_call_not_of_its_noise(bank: ClipStore, spec_of: SpecOf) -> None:
    """Next to the animal SNR is source level less background level, however much of a clip is noise of its own."""
    spec = spec_of(
        "events.rate=null", "events.count=3", "events.fade_s=0", "events.resample=1", "events.level.mode=source",
        "events.level.source_level_db={uniform: [50, 60]}", "events.propagation.distance_m=1", "background.spl_db=40",
    )  # fmt: skip
    _, events, _, _ = rendered(spec)
    assert events["signal_share"].min() < 0.8
    np.testing.assert_allclose(events["snr_scene_db"], events["source_level_db"] - 40, atol=0.01)


def test_a_silent_impulse_response_is_named(spec_of: SpecOf, tmp_path: Path) -> None:
    """One that lost its samples after the store was built: the scene fails and says which it was."""
    store = make_impulses(tmp_path / "impulses", [{"site": "hall"}])
    path = store.path / "audio-00000.i16"
    path.write_bytes(bytes(path.stat().st_size))
    generator = SceneGenerator(spec_of(f"events.propagation.impulses={store.path}", "empty_share=0"))
    with pytest.raises(MixError, match=r"impulse response 0 of .*impulses: .* is silent"):
        generator.render([0])


def test_a_room_that_is_not_heard_is_not_named(spec_of: SpecOf, impulses: ClipStore) -> None:
    """Scenes without events, or with dry ones only, have no room in their label; all others have."""
    spec = spec_of(
        "events.rate=null", "events.count=1", "empty_share=0.2", f"events.propagation.impulses={impulses.path}",
        "events.propagation.probability=0.5",
    )  # fmt: skip
    scenes = SceneGenerator(spec).render(range(40))
    heard = set(scenes.events["scene_id"][scenes.events["impulse_id"].notna()])
    assert 0 < len(heard) < 32
    assert set(scenes.scenes["scene_id"][scenes.scenes["room"].notna()]) == heard
