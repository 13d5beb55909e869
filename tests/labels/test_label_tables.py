"""Events and scenes tables against plans written down by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.labels.batches import join_measured, take_scenes
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA
from synthscape.labels.table_hash import table_hash
from synthscape.labels.tables import Catalogue, event_table, max_polyphony, scene_id, scene_table
from tests.hand_built import RATE, SPECIES, hand_batch, hand_plan, make_backgrounds, make_bank

CLIPS = 4


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """Three species of four clips, four backgrounds."""
    folder = tmp_path_factory.mktemp("stores")
    bank, backgrounds = make_bank(folder / "bank"), make_backgrounds(folder / "backgrounds")
    return Catalogue(bank, backgrounds, SPECIES, audible_db=0.0, fingerprint="f" * 32)


def rows(table: pa.Table) -> list[dict]:
    """A table as rows."""
    return table.to_pylist()


def test_event_columns_stand_in_the_order_of_the_schema(catalogue):
    """The table has exactly the documented columns and types."""
    table = event_table(hand_batch(hand_plan(({}, [{}]))), catalogue)

    assert table.schema.equals(EVENTS_SCHEMA, check_metadata=True)


def test_times_are_samples_over_rate(catalogue):
    """Seconds are float64 of the samples, not rounded to anything coarser."""
    plan = hand_plan(({}, [{"onset": 1, "offset": 12345, "clip_onset": -7, "clip_offset": 20001}]))
    (row,) = rows(event_table(hand_batch(plan), catalogue))

    assert (row["onset"], row["offset"], row["clip_onset"], row["clip_offset"]) == (1, 12345, -7, 20001)
    assert (row["onset_s"], row["offset_s"]) == (1 / RATE, 12345 / RATE)


def test_frequencies_go_with_the_ratio_and_stop_at_nyquist(catalogue):
    """Played 3/2 as long, a clip sounds at 2/3 of its frequencies; beyond Nyquist edges stop and peaks are null."""
    plan = hand_plan(({}, [{"ratio": 1}, {"ratio": 2, "clip": 8}]), ratios=((1, 1), (3, 2), (1, 4)))
    low, high = rows(event_table(hand_batch(plan), catalogue))

    assert low["resample"] == "3/2"
    assert low["low_hz"] == pytest.approx(400 * 2 / 3)
    assert low["peak_hz"] == pytest.approx(500 * 2 / 3)
    assert (high["low_hz"], high["high_hz"]) == (RATE / 2, RATE / 2)  # 1200 and 1400 Hz, times 4
    assert high["peak_hz"] is None
    assert high["f0_hz"] is None


def test_unmeasured_frequencies_stay_null(tmp_path):
    """A clip without a band has null edges, not zero or Nyquist."""
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        writer.add(np.sin(np.arange(800.0)), {"species": "A b"})
    bare = Catalogue(ClipStore.open(tmp_path / "bank"), make_backgrounds(tmp_path / "bg"), ["A b"])
    (row,) = rows(event_table(hand_batch(hand_plan(({}, [{}])), snr_band_db=np.array([np.nan])), bare))

    assert row["low_hz"] is row["high_hz"] is row["peak_hz"] is None
    assert row["snr_band_db"] is None
    assert row["audible"] is None
    assert row["recording_id"] is None


def test_what_the_bank_says_of_the_clip_is_in_its_event(catalogue):
    """Each event has its own clip's biology, whatever the order of clips."""
    plan = hand_plan(({}, [{"clip": 9, "class_id": 2}, {"clip": 0}]), ({}, [{"clip": 6, "class_id": 1}]))
    table = rows(event_table(hand_batch(plan), catalogue))

    assert [row["species"] for row in table] == ["Turdus merula", "Corvus corax", "Parus major"]
    assert [row["class"] for row in table] == ["Turdus merula", "Corvus corax", "Parus major"]
    assert [row["recording_id"] for row in table] == ["rec-Turdus merula-1", "rec-Corvus corax-0", "rec-Parus major-2"]
    assert [row["call_type"] for row in table] == ["song", "call", "call"]
    assert [row["cluster"] for row in table] == ["1", "0", "0"]
    assert [(row["scene_id"], row["event_id"]) for row in table] == [
        ("s000000000", 0),
        ("s000000000", 1),
        ("s000000001", 0),
    ]


def test_speakers_count_per_species_by_first_onset(catalogue):
    """Callers are numbered from 1 within species and scene in order of first onset; no caller, no name."""
    corax, major = {"clip": 0}, {"clip": CLIPS}
    plan = hand_plan(
        (
            {},
            [{**corax, "speaker": 7}, {**major, "speaker": 3}, {**corax, "speaker": 2}, {**corax, "speaker": 7}, major],
        ),
        ({}, [{**corax, "speaker": 2}, {**major, "speaker": 7}]),
    )
    speakers = event_table(hand_batch(plan), catalogue)["speaker"].to_pylist()

    assert speakers[:5] == ["Corvus corax_1", "Parus major_1", "Corvus corax_2", "Corvus corax_1", None]
    assert speakers[5:] == ["Corvus corax_1", "Parus major_1"]


def test_audible_needs_level_and_length(catalogue):
    """0 dB in the band over 20 ms is audible; a hair less of either is not."""
    shortest = RATE // 50
    events = [{"offset": 100 + shortest}, {"offset": 100 + shortest - 1}, {}]
    batch = hand_batch(hand_plan(({}, events)), snr_band_db=np.array([0.0, 20.0, -0.01]))

    assert event_table(batch, catalogue)["audible"].to_pylist() == [True, False, False]


def test_levels_are_those_planned_and_measured(catalogue):
    """Asked SNR in dB from steps of 1/256 dB; each measured column is its own, and so are flags and roles."""
    events = [{"snr_db": -640, "role": 1, "reversed": True}, {"snr_db": 1, "altered": True}, {"truncated": True}]
    names = ("gain_db", "signal_share", "snr_scene_db", "snr_local_db", "snr_band_db")
    measured = {name: np.array([0.1, 0.2, 0.3]) * (i + 1) for i, name in enumerate(names)}
    table = event_table(hand_batch(hand_plan(({}, events)), **measured), catalogue)

    assert table["snr_db"].to_pylist() == [-2.5, 1 / 256, 0.0]
    for name in names:
        assert table[name].to_pylist() == pytest.approx(measured[name].tolist())
    assert table["role"].to_pylist() == ["distractor", "target", "target"]
    assert table["reversed"].to_pylist() == [True, False, False]
    assert table["altered"].to_pylist() == [False, True, False]
    assert table["truncated"].to_pylist() == [False, False, True]
    scene = scene_table(hand_batch(hand_plan(({}, [])), level_dbfs=[-33.5], scene_gain_db=[-2.0]), catalogue, ["a"])
    assert (scene["level_dbfs"].to_pylist(), scene["scene_gain_db"].to_pylist()) == ([-33.5], [-2.0])


def test_no_number_in_a_table_is_infinite_or_nan(catalogue):
    """Ratios to a background that isn't there are null."""
    batch = hand_batch(
        hand_plan(({}, [{}, {}])), snr_local_db=np.array([np.inf, 1.0]), snr_band_db=np.array([-np.inf, 2.0])
    )
    table = event_table(batch, catalogue)

    assert table["snr_local_db"].to_pylist() == [None, 1.0]
    assert table["snr_band_db"].to_pylist() == [None, 2.0]


def test_a_scene_without_events_is_a_row_like_any_other(catalogue):
    """Empty scenes have their duration, background, licences and zero counts."""
    plan = hand_plan(({}, [{}]), ({"n_samples": 4000, "background": (1, 2)}, []), ({}, [{}]))
    table = scene_table(hand_batch(plan), catalogue, ["a", "b", "c"])
    row = rows(table)[1]

    assert table.schema.equals(SCENES_SCHEMA, check_metadata=True)
    assert (row["scene_id"], row["duration_s"], row["n_samples"], row["n_events"]) == ("s000000001", 0.5, 4000, 0)
    assert row["background_recording_ids"] == ["bg-1", "bg-2"]
    assert (row["n_species"], row["max_polyphony"], row["licences"]) == (0, 0, ["CC0-1.0"])


def test_backgrounds_of_a_scene(catalogue):
    """One or two backgrounds, with their ratio, score, and whether they were repeated."""
    plan = hand_plan(
        ({"background": (3, -1), "n_samples": RATE}, []),
        ({"background": (0, 2), "background_ratio": (1, 0), "n_samples": 2 * RATE}, []),
        ratios=((1, 1), (4, 3)),
    )
    one, two = rows(scene_table(hand_batch(plan), catalogue, ["a", "b"]))

    assert one["background_sites"] == ["site-3"]
    assert one["background_licences"] == [None]
    assert one["background_animal_score"] == [pytest.approx(0.3)]
    assert one["background_looped"] == [False]
    assert two["background_resample"] == ["4/3", "1/1"]
    assert two["background_looped"] == [False, True]  # 1.5 s played at 4/3 last 2 s


def test_licences_of_everything_in_the_scene(catalogue):
    """Clips' and backgrounds' licences, each once, sorted, the missing one as unknown."""
    plan = hand_plan(({"background": (3, -1)}, [{"clip": 1}, {"clip": 0}, {"clip": 2}]), ({}, [{"clip": 1}]))
    table = scene_table(hand_batch(plan), catalogue, ["a", "b"])

    assert table["licences"].to_pylist() == [["CC-BY-4.0", "CC0-1.0", "unknown"], ["CC0-1.0"]]


def test_counts_and_reasons_of_dropped_events(catalogue):
    """Asked, placed and dropped are all in the row."""
    plan = hand_plan(
        (
            {"n_asked": 5, "n_placed": 2, "n_outside": 4, "drops": {"polyphony": 2, "silent_event": 1}, "n_redrawn": 9},
            [{}, {"clip": 5}],
        )
    )
    (row,) = rows(scene_table(hand_batch(plan), catalogue, ["a"]))

    assert (row["n_asked"], row["n_placed"], row["n_events"], row["n_species"]) == (5, 2, 2, 2)
    assert {reason: n for reason, n in row["drop_reasons"].items() if n} == {"polyphony": 2, "silent_event": 1}
    assert (row["n_redrawn"], row["n_outside"]) == (9, 4)


def test_scene_ids_tell_epochs_apart():
    """The epoch stands before the index."""
    assert scene_id(0) == "s000000000"
    assert scene_id(3 * 2**40 + 12) == "e3-s000000012"
    assert scene_id(2**40 - 1) == "s1099511627775"


intervals = st.lists(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=8), min_size=1, max_size=4)


@given(intervals)
def test_polyphony_against_counting_samples(scenes):
    """The sweep finds what counting the active events in every sample finds."""
    plan = hand_plan(
        *(({}, [{"onset": on, "offset": on + length} for on, length in sorted(events)]) for events in scenes)
    )
    counted = []
    for events in scenes:
        active = np.zeros(100, dtype=int)
        for on, length in events:
            active[on : on + length] += 1
        counted.append(active.max())

    assert max_polyphony(plan).tolist() == counted


@given(intervals, st.randoms(use_true_random=False))
def test_scenes_taken_from_a_plan_are_those_planned(scenes, random):
    """Taking scenes keeps each with its own events, in the order asked for."""
    plan = hand_plan(*(({}, [{"onset": on, "offset": on + length} for on, length in events]) for events in scenes))
    positions = [random.randrange(len(scenes)) for _ in range(5)]
    taken = take_scenes(plan, np.array(positions))

    assert taken.scene.tolist() == positions
    for i, position in enumerate(positions):
        assert taken.onset[taken.events_of(i)].tolist() == [on for on, _ in scenes[position]]


def test_failed_scenes_are_in_neither_table(catalogue):
    """What could not be rendered has no rows, and others keep theirs."""
    plan = hand_plan(({}, [{"onset": 1}]), ({}, [{"onset": 2}, {"onset": 3}]), ({}, []), ({}, [{"onset": 4}]))
    parts = [take_scenes(plan, np.array([0, 1])), take_scenes(plan, np.array([2, 3]))]
    batches = [hand_batch(parts[0], failures={1: "silent"}), hand_batch(parts[1], failures={0: "silent too"})]
    measured = join_measured(plan, batches)

    assert measured.failures == {1: "silent", 2: "silent too"}
    assert event_table(measured, catalogue)["onset"].to_pylist() == [1, 4]
    assert scene_table(measured, catalogue, ["a", "b"])["scene_number"].to_pylist() == [0, 3]


def test_tables_of_no_scenes(catalogue):
    """No scenes, no rows, the same columns."""
    plan = take_scenes(hand_plan(({}, [{}])), np.array([], dtype=np.int64))

    assert event_table(hand_batch(plan), catalogue).schema.equals(EVENTS_SCHEMA)
    assert len(scene_table(hand_batch(plan), catalogue, [])) == 0


def test_table_hash_sees_values_only(catalogue, tmp_path):
    """The hash is the same after Parquet and in any chunks, and another for any other value."""
    plan = hand_plan(({}, [{"onset": i} for i in range(20)]), ({"background": (1, 3)}, [{"clip": 5, "speaker": 1}]))
    batch = hand_batch(plan, snr_local_db=np.array([np.nan] * 5 + [1.0] * 16))
    for name, table in (("e", event_table(batch, catalogue)), ("s", scene_table(batch, catalogue, ["a", "b"]))):
        pq.write_table(table, tmp_path / name, row_group_size=3)
        pieces = pa.concat_tables([table.slice(0, 1), table.slice(1)])

        assert table_hash(pq.read_table(tmp_path / name)) == table_hash(table)
        assert table_hash(pieces) == table_hash(table)
        assert table_hash(table.slice(1)) != table_hash(table)
    names = [*SPECIES[:2], "Turdus pilaris"]
    renamed = pa.Table.from_pydict({"class": names})

    assert table_hash(renamed) != table_hash(pa.Table.from_pydict({"class": list(SPECIES)}))
    assert table_hash(pa.table({"a": ["ab", "c"]})) != table_hash(pa.table({"a": ["a", "bc"]}))
    assert table_hash(pa.table({"a": pa.array([[1], []])})) != table_hash(pa.table({"a": pa.array([[], [1]])}))
