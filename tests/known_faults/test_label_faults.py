"""Labels: faults of other tools (empty scenes, durations, merged events, off-by-one exports)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from synthscape.labels.raven import raven_tables
from synthscape.labels.tables import Catalogue, event_table, scene_table
from synthscape.output.dataset import open_dataset
from synthscape.scale.render import render
from tests.hand_built import RATE, SPECIES, hand_batch, hand_plan, make_backgrounds, make_bank
from tests.small_dataset import make_stores, small_spec


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """What is known of hand-built clips."""
    folder = tmp_path_factory.mktemp("hand")
    return Catalogue(make_bank(folder / "bank"), make_backgrounds(folder / "backgrounds"), SPECIES)


def test_scenes_without_events_are_kept(stores, tmp_path):
    """Scenes without a call have audio, a row and a selection table (lost by loaders that read event lists)."""
    render(small_spec(tmp_path, stores, "empty_share=1", "items=5"))
    data = open_dataset(tmp_path / "out")

    assert data.scenes["n_events"].tolist() == [0] * 5
    assert len(data.events) == 0
    assert all(np.abs(data.audio(name)).max() > 0 for name in data.scenes["scene_id"])
    assert len(list((tmp_path / "out").glob("raven/*/*.txt"))) == 5


def test_durations_are_stored(stores, tmp_path):
    """The length of a scene is in its row and is that of its audio, not the end of its last event (ESP loaders)."""
    render(small_spec(tmp_path, stores, "items=8"))
    data = open_dataset(tmp_path / "out")
    lengths = [len(data.audio(name)) for name in data.scenes["scene_id"]]

    assert data.scenes["n_samples"].tolist() == lengths
    assert data.scenes["duration_s"].tolist() == [n / RATE for n in lengths]
    assert len(set(lengths)) > 1
    last = data.events.groupby("scene_id")["offset"].max()
    assert (data.scenes.set_index("scene_id")["n_samples"].loc[last.index] > last).any()


def test_offsets_are_exclusive_in_exports(catalogue):
    """A call of 100 samples lasts 100 samples in every table, up to the scene's very end (DRASDIC's last row)."""
    plan = hand_plan(({"n_samples": 1000}, [{"onset": 900, "offset": 1000, "clip_onset": 900, "clip_offset": 1000}]))
    table = event_table(hand_batch(plan), catalogue)
    (row,) = table.to_pylist()
    ((_, text),) = raven_tables(table, ["s000000000"], RATE)
    begin, end = (float(value) for value in text.splitlines()[1].split("\t")[3:5])

    assert row["offset"] - row["onset"] == 100
    assert row["offset_s"] == 1000 / RATE
    assert round((end - begin) * RATE) == 100
    assert round(end * RATE) == 1000


def test_events_are_never_merged_or_padded(catalogue):
    """Overlapping and touching calls of one class, and calls of one sample, stay what they are (DESED)."""
    times = [(100, 500), (300, 700), (700, 900), (905, 906)]
    plan = hand_plan(({}, [{"onset": on, "offset": off} for on, off in times]))
    table = event_table(hand_batch(plan), catalogue)
    ((_, text),) = raven_tables(table, ["s000000000"], RATE)

    assert list(zip(table["onset"].to_pylist(), table["offset"].to_pylist(), strict=True)) == times
    assert len(text.splitlines()) == 1 + len(times)
    assert scene_table(hand_batch(plan), catalogue, ["h"])["n_events"].to_pylist() == [4]


def test_times_are_not_cut_to_whole_seconds(catalogue):
    """A sample's time in float64 gives the sample back (NeMo wrote whole seconds)."""
    onsets = [1, 7999, 8001, 123_457]
    plan = hand_plan(({}, [{"onset": on, "offset": on + 1} for on in onsets]))
    seconds = event_table(hand_batch(plan), catalogue)["onset_s"].to_numpy()

    assert (np.rint(seconds * RATE) == onsets).all()
    assert seconds[0] > 0


def test_an_event_costs_tens_of_bytes(stores, tmp_path):
    """Labels are compact columns, not a megabyte of JSON a scene (scaper)."""
    render(small_spec(tmp_path, stores, "items=400", "output.items_per_shard=400", "duration=1", "output.raven=false"))
    data = open_dataset(tmp_path / "out")
    size = (tmp_path / "out/events/00000.parquet").stat().st_size
    overhead = 30_000  # names and meanings of the columns, once a file

    assert size - overhead < 100 * len(data.events)
