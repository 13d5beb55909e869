"""What labels say of source levels, distances, rooms, reverberation, loudness and noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from synthscape.labels.batches import join_measured, take_scenes
from synthscape.labels.tables import Catalogue, event_table, scene_table
from synthscape.plan.plan import NO_BACKGROUND, NO_LEVEL, NOISE, PROCEDURAL_TAIL
from tests.hand_built import RATE, SPECIES, hand_batch, hand_plan, make_backgrounds, make_bank
from tests.scenes import make_impulses


@pytest.fixture(scope="module")
def impulses(tmp_path_factory):
    """Two impulse responses, the second of another licence."""
    rows = [{"site": "hall"}, {"site": "cave", "licence": "CC-BY-SA-4.0"}]
    return make_impulses(tmp_path_factory.mktemp("labels") / "rooms", rows, rate=RATE)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory, impulses):
    """Of small stores, with rooms."""
    folder = tmp_path_factory.mktemp("labels")
    bank, backgrounds = make_bank(folder / "bank"), make_backgrounds(folder / "backgrounds")
    return Catalogue(bank, backgrounds, SPECIES, impulses=impulses, room_names=["cave", "hall"])


def columns(table: Any, *names: str) -> dict[str, list[Any]]:
    """Some columns as lists."""
    return {name: table[name].to_pylist() for name in names}


def test_events_that_are_dry_and_drawn_by_snr(catalogue):
    """Everything of propagation is null, and the tail is 0 s long."""
    table = event_table(hand_batch(hand_plan(({}, [{}]))), catalogue)

    for name in (
        "source_level_db",
        "distance_m",
        "impulse_id",
        "rt60_s",
        "direct_to_reverberant_db",
        "snr_loudness_db",
    ):
        assert table[name].to_pylist() == [None]
    assert columns(table, "tail_s", "snr_db") == {"tail_s": [0.0], "snr_db": [0.0]}


def test_events_at_a_distance(catalogue, impulses):
    """Millimetres and 1/256 dB become m and dB; there is no asked SNR where it is an outcome."""
    source = {"snr_db": NO_LEVEL, "source_level_db": 80 * 256 + 128, "distance_mm": 12345}
    made_up = {"impulse": PROCEDURAL_TAIL, "rt60_ms": 750, "drr_db": -512}
    plan = hand_plan(({}, [{**source, "impulse": 1}, {**source, **made_up}, {"source_level_db": 0}]))
    tails = np.array([RATE // 4, 3, 0])
    table = event_table(hand_batch(plan, tail_samples=tails), catalogue)

    assert columns(table, "snr_db", "source_level_db", "distance_m") == {
        "snr_db": [None, None, 0.0],
        "source_level_db": [80.5, 80.5, 0.0],
        "distance_m": [12.345, 12.345, None],
    }
    assert table["impulse_id"].to_pylist() == [impulses.clips["clip_id"][1], None, None]
    assert table["rt60_s"].to_pylist() == [None, 0.75, None]
    assert table["direct_to_reverberant_db"].to_pylist() == [None, -2.0, None]
    assert table["tail_s"].to_pylist() == [0.25, 3 / RATE, 0.0]


def test_what_was_not_measured_is_null(catalogue):
    """Loudness and band SNR are numbers where they were measured; without band SNR nobody knows what is audible."""
    batch = hand_batch(
        hand_plan(({}, [{}, {}])), snr_band_db=np.array([np.nan, 3.0]), snr_loudness_db=np.array([np.nan, -4.5])
    )
    table = event_table(batch, catalogue)

    assert columns(table, "snr_band_db", "audible", "snr_loudness_db") == {
        "snr_band_db": [None, 3.0],
        "audible": [None, True],
        "snr_loudness_db": [None, -4.5],
    }


def test_rooms_and_levels_of_scenes(catalogue):
    """The room by name if it is heard, LUFS where they were asked for, the absolute level where it is known."""
    wet = [{"impulse": 0}, {}]
    plan = hand_plan(
        ({"room": 1, "background_spl_db": 35 * 256}, wet), ({}, []), ({"room": 0}, wet), ({"room": 0}, [{}])
    )
    levels = np.array([-31.5, np.nan, np.nan, np.nan])
    table = scene_table(hand_batch(plan, level_lufs=levels), catalogue, ["a", "b", "c", "d"])

    assert columns(table, "room", "level_lufs", "background_spl_db") == {
        "room": ["hall", None, "cave", None],
        "level_lufs": [-31.5, None, None, None],
        "background_spl_db": [35.0, None, None, None],
    }


NOISES = [
    ({"background": (NOISE, NO_BACKGROUND), "noise_slope_db": (-768, 0)}, []),
    ({"background": (2, NOISE), "noise_slope_db": (0, 128), "n_samples": 2 * RATE}, []),
    ({"background": (0, 1)}, []),
]


def test_noise_among_backgrounds(catalogue):
    """A layer of noise has a slope; what files have is null, it is not looped, and has no licence that is unknown."""
    table = scene_table(hand_batch(hand_plan(*NOISES)), catalogue, ["a", "b", "c"])

    assert table["background_noise_slope_db"].to_pylist() == [[-3.0], [None, 0.5], [None, None]]
    assert table["background_recording_ids"].to_pylist() == [[None], ["bg-2", None], ["bg-0", "bg-1"]]
    assert table["background_resample"].to_pylist() == [[None], ["1/1", None], ["1/1", "1/1"]]
    assert table["background_looped"].to_pylist() == [[False], [True, False], [False, False]]
    assert table["licences"].to_pylist() == [[], ["CC0-1.0"], ["CC0-1.0"]]
    for name in ("background_clip_ids", "background_sites", "background_licences", "background_animal_score"):
        assert table[name].to_pylist()[0] == [None]


def test_noise_alone_without_a_store(tmp_path):
    """Tables are made without a store of backgrounds."""
    bare = Catalogue(make_bank(tmp_path / "bank"), None, SPECIES)
    table = scene_table(hand_batch(hand_plan(NOISES[0])), bare, ["a"])

    assert table["background_clip_ids"].to_pylist() == [[None]]
    assert table["background_noise_slope_db"].to_pylist() == [[-3.0]]


def test_licences_of_impulse_responses_count(catalogue):
    """What an event is heard through is part of the scene."""
    plan = hand_plan(({}, [{"impulse": 1, "clip": 1}]), ({}, [{"clip": 1}, {"impulse": PROCEDURAL_TAIL, "clip": 1}]))
    table = scene_table(hand_batch(plan), catalogue, ["a", "b"])

    assert table["licences"].to_pylist() == [["CC-BY-SA-4.0", "CC0-1.0"], ["CC0-1.0"]]


def test_new_columns_stay_with_their_scenes(catalogue):
    """Taking and joining scenes keeps every column of plan and batch with its scene or event."""
    plan = hand_plan(*(({"room": i % 2, "background_spl_db": i}, [{"distance_mm": 1000 * (i + 1)}]) for i in range(4)))
    parts = [take_scenes(plan, np.array(rows)) for rows in ([0, 1], [2, 3])]
    batches = [
        hand_batch(
            part, tail_samples=part.distance_mm * 1, level_lufs=-1.0 * part.scene, snr_loudness_db=part.scene / 4
        )
        for part in parts
    ]
    joined = join_measured(plan, batches)

    assert joined.tail_samples.dtype == np.int64
    assert joined.tail_samples.tolist() == plan.distance_mm.tolist()
    assert joined.level_lufs.tolist() == [-0.0, -1.0, -2.0, -3.0]
    assert joined.snr_loudness_db.tolist() == [0, 0.25, 0.5, 0.75]
    assert [part.room.tolist() for part in parts] == [[0, 1], [0, 1]]
    assert parts[1].background_spl_db.tolist() == [2, 3]
    assert parts[1].distance_mm.tolist() == [3000, 4000]
