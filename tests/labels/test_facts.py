"""The facts table against a separate computation from the rows of the events table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscape.labels.facts import FACTS_SCHEMA, facts_table
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA
from synthscape.labels.table_hash import table_hash
from synthscape.tasks.generator import SceneGenerator
from tests.labels.facts_by_hand import facts_by_hand
from tests.small_dataset import make_stores, small_spec

RATE, N = 1000, 3000
OF_EVENTS = [
    "scene_id", "onset", "offset", "clip_onset", "clip_offset", "tail_s", "species", "audible", "truncated", "altered",
    "f0_hz", "peak_hz", "low_hz", "high_hz", "snr_loudness_db", "snr_scene_db", "snr_band_db",
]  # fmt: skip
OF_SCENES = ["scene_id", "n_samples", "sample_rate"]


def tables(scenes: list[list[dict]]) -> tuple[pa.Table, pa.Table]:
    """Events and scenes tables with the columns that facts are made from."""
    events = [{**event, "scene_id": f"s{i}"} for i, rows in enumerate(scenes) for event in rows]
    of_scenes = [{"scene_id": f"s{i}", "n_samples": N, "sample_rate": RATE} for i in range(len(scenes))]
    fields = [EVENTS_SCHEMA.field(name) for name in OF_EVENTS], [SCENES_SCHEMA.field(name) for name in OF_SCENES]
    return tuple(
        pa.Table.from_pylist(rows, schema=pa.schema(schema))
        for rows, schema in zip((events, of_scenes), fields, strict=True)
    )


def call(onset: int, length: int, species: str | None = "A a", **columns) -> dict:
    """An event that is heard well."""
    event = {
        "onset": onset, "offset": onset + length, "clip_onset": onset, "clip_offset": onset + length, "tail_s": 0.0,
        "species": species, "audible": True, "truncated": False, "altered": False, "f0_hz": None, "peak_hz": 1000.0,
        "low_hz": 900.0, "high_hz": 1100.0, "snr_loudness_db": None, "snr_scene_db": 0.0, "snr_band_db": 6.0,
    }  # fmt: skip
    return {**event, **columns}


def facts_of(*events: dict) -> dict:
    """Facts of one scene."""
    return facts_table(*tables([list(events)])).to_pylist()[0]


def check(events: pa.Table, scenes: pa.Table) -> pa.Table:
    """Compare the facts of some scenes with those computed by hand, and give them."""
    table = facts_table(events, scenes)
    rows = events.to_pylist()
    for scene, facts in zip(scenes.to_pylist(), table.to_pylist(), strict=True):
        expected = facts_by_hand(scene, [row for row in rows if row["scene_id"] == scene["scene_id"]])

        assert facts == expected
    return table


frequencies = st.sampled_from([None, 1000.0, 1050.0, 1070.0, 2000.0])
levels = st.sampled_from([None, -3.0, 0.0, 1.0, 1.5, 9.0])


@st.composite
def some_events(draw: st.DrawFn) -> list[dict]:
    """Events of a scene, with ties and near-ties of every kind, and every kind of doubt."""
    doubt = draw(st.sampled_from([0, 0, 1, 2]))  # none, some, much
    rows = []
    for _ in range(draw(st.integers(0, 6))):
        onset = draw(st.sampled_from([0, 100, 149, 150, 151, 700, 900, 1000, 1900, 2000, 2001, 2500]))
        length = draw(st.sampled_from([20, 49, 51, 90, 100, 250, 300, 499]))
        wrong = draw(
            st.sampled_from([None] * (6 - 2 * doubt) + ["faint", "unmeasured", "cut", "altered", "nobody"] * doubt)
        )
        species = None if wrong == "nobody" else draw(st.sampled_from(["A a", "B b", "C c"]))
        audible = {"faint": False, "unmeasured": None}.get(wrong, True)
        measured = {
            name: draw(frequencies if name.endswith("hz") else levels)
            for name in ("peak_hz", "f0_hz", "snr_scene_db", "snr_loudness_db")
            if draw(st.booleans())
        }
        rows.append(
            call(
                onset,
                length,
                species,
                clip_offset=onset + length + draw(st.sampled_from([0, 30, 200])),
                tail_s=draw(st.sampled_from([0.0, 0.0, 0.2005])),
                audible=audible,
                truncated=wrong == "cut",
                altered=wrong == "altered",
                low_hz=draw(st.sampled_from([900.0, 950.0, 960.0, None])),
                snr_band_db=None if audible is None else draw(levels.filter(lambda value: value is not None)),
                **measured,
            )
        )
    return sorted(rows, key=lambda row: row["onset"])


@settings(max_examples=120)
@given(st.lists(some_events(), min_size=1, max_size=4))
def test_facts_are_those_computed_by_hand(scenes):
    """Scenes with ties, near-ties, doubtful calls and none at all."""
    check(*tables(scenes))


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> SceneGenerator:
    """The small spec, crowded, with scenes that cut calls."""
    folder: Path = tmp_path_factory.mktemp("facts")
    spec = small_spec(
        folder, make_stores(folder / "stores"), "events.edges=truncate", "events.count={uniform_int: [1, 7]}"
    )
    return SceneGenerator(spec)


def test_facts_of_rendered_scenes(rendered):
    """The same of real events tables; and there are facts that are clear, and facts that are not."""
    scenes = rendered.render(range(60))
    table = check(scenes.event_table, scenes.scene_table)
    unclear = Counter(name for flags in table["ambiguous"].to_pylist() for name in flags if flags[name])

    assert table.schema.equals(FACTS_SCHEMA, check_metadata=True)
    assert table["scene_id"].equals(scenes.scene_table["scene_id"])
    assert scenes.fact_table.equals(table)
    assert scenes.facts["n_calls"].tolist() == table["n_calls"].to_pylist()
    assert all(5 < unclear[field.name] < 55 for field in FACTS_SCHEMA.field("ambiguous").type)


def test_order_of_rows_changes_nothing(rendered):
    """Events in any order, scenes in any order: the same rows."""
    scenes = rendered.render(range(20))
    events, of_scenes = scenes.event_table, scenes.scene_table
    backwards = facts_table(events.take(list(range(len(events)))[::-1]), of_scenes.take(list(range(20))[::-1]))

    assert backwards.take(list(range(20))[::-1]).to_pylist() == scenes.fact_table.to_pylist()


def test_facts_are_the_same_read_back(rendered, tmp_path):
    """Parquet keeps every value, type and description."""
    table = rendered.render(range(20)).fact_table
    pq.write_table(table, tmp_path / "facts.parquet")
    back = pq.read_table(tmp_path / "facts.parquet")

    assert back.schema.equals(FACTS_SCHEMA, check_metadata=True)
    assert table_hash(back) == table_hash(table)


def test_every_fact_is_documented_as_it_is():
    """docs/labels.md has each column with its type, unit and meaning, and every fact has its flag."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "labels.md").read_text(encoding="utf-8")
    section = page.split("## Facts\n")[1].split("\n## ")[0]
    documented = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    kinds = {"ambiguous": "struct of bool"}
    expected = []
    for field in FACTS_SCHEMA:
        kind = kinds.get(field.name, str(field.type).replace("element: ", ""))
        unit, meaning = (field.metadata[key].decode() for key in (b"unit", b"description"))
        expected.append([f"`{field.name}`", kind + (", null" if field.nullable else ""), unit, meaning])
    facts = [name for name in FACTS_SCHEMA.names if name not in ("scene_id", "ambiguous")]

    assert documented == expected
    assert [field.name for field in FACTS_SCHEMA.field("ambiguous").type] == [
        name for name in facts if not name.endswith("_measure")
    ]


def test_a_scene_without_events():
    """Zero calls, empty lists, no first call; nothing about it is ambiguous."""
    facts = facts_of()

    assert (facts["n_calls"], facts["species"], facts["n_species"], facts["order"]) == (0, [], 0, [])
    assert (facts["any_overlap"], facts["overlapping"], facts["max_simultaneous"]) == (False, [], 0)
    for name in ("first", "last_third", "highest", "longest_s", "loudest", "most_frequent", "pitch_measure"):
        assert facts[name] is None
    assert not any(facts["ambiguous"].values())


def test_no_scenes_at_all():
    """A shard of which nothing could be rendered has a table without rows."""
    assert facts_table(*tables([])).equals(FACTS_SCHEMA.empty_table())
    empty = EVENTS_SCHEMA.empty_table(), SCENES_SCHEMA.empty_table()
    assert facts_table(*empty).equals(FACTS_SCHEMA.empty_table())


def test_a_clear_scene():
    """Two callers, apart in everything: every fact is there, none ambiguous."""
    facts = facts_of(
        call(100, 300, "B b", peak_hz=500.0, snr_scene_db=3.0, snr_band_db=9.0, low_hz=400.0, high_hz=600.0),
        call(200, 500, "A a", peak_hz=2000.0, low_hz=1500.0, high_hz=2500.0),
        call(2500, 200, "B b", peak_hz=520.0, low_hz=390.0, high_hz=600.0),
    )

    assert facts == {
        "scene_id": "s0",
        "n_calls": 3,
        "species": ["A a", "B b"],
        "n_species": 2,
        "calls_per_species": [{"species": "A a", "n_calls": 1}, {"species": "B b", "n_calls": 2}],
        "most_frequent": "B b",
        "order": ["B b", "A a"],
        "first": "B b",
        "last": "B b",
        "first_third": "start",
        "last_third": "end",
        "thirds": [{"species": "A a", "thirds": ["start"]}, {"species": "B b", "thirds": ["start", "end"]}],
        "any_overlap": True,
        "overlapping": [{"species": "A a", "other": "B b"}],
        "max_simultaneous": 2,
        "highest": "A a",
        "lowest": "B b",
        "longest": "A a",
        "longest_s": 0.5,
        "loudest": "B b",
        "frequency_ranges": [
            {"species": "A a", "low_hz": 1500.0, "high_hz": 2500.0},
            {"species": "B b", "low_hz": 390.0, "high_hz": 600.0},
        ],
        "pitch_measure": "peak_hz",
        "loudness_measure": "snr_scene_db",
        "ambiguous": dict.fromkeys(facts["ambiguous"], False),
    }


@pytest.mark.parametrize(
    ("other", "flags"),
    [
        ({"onset": 160}, {"order", "first"}),
        ({"peak_hz": 1050.0}, {"highest", "lowest"}),
        ({"length": 470}, {"longest"}),
        ({"snr_scene_db": -1.0}, {"loudest"}),
        ({"onset": 980}, {"thirds", "last_third"}),
        ({"onset": 650}, {"any_overlap", "overlapping", "max_simultaneous"}),
    ],
)
def test_near_ties_are_ambiguous(other, flags):
    """50 ms, a semitone, a tenth, 1 dB, a border of thirds, a gap of no more than 50 ms: each flags its own facts."""
    one = call(120, 500, "B b", high_hz=1100.0)
    columns = {"onset": 1500, "length": 300, "peak_hz": 3000.0, "snr_scene_db": -6.0, "snr_band_db": 0.0, **other}
    facts = facts_of(one, call(columns.pop("onset"), columns.pop("length"), "A a", **columns))
    always = {"most_frequent"}  # a call each

    assert {name for name, unclear in facts["ambiguous"].items() if unclear} >= flags | always
    apart = {"onset": {"longest", "highest"}, "peak_hz": {"first", "longest"}}.get(next(iter(other)), {"highest"})
    assert not any(facts["ambiguous"][name] for name in apart)


def test_calls_that_may_not_be_heard():
    """What an inaudible, cut, unnamed or unmeasured call could change is ambiguous; what it can't, is not."""
    loud = [call(100, 300, "A a"), call(600, 300, "A a", snr_scene_db=5.0)]
    quiet = {"snr_scene_db": -20.0, "snr_band_db": -9.0, "audible": False}
    faint = facts_of(*loud, call(1200, 100, "A a", **quiet))
    other = facts_of(*loud, call(1200, 100, "B b", **quiet))
    cut = facts_of(*loud, call(2900, 100, "A a", truncated=True, clip_offset=3500))
    nobody = facts_of(*loud, call(1200, 100, None))
    unmeasured = facts_of(*loud, call(1200, 100, "B b", audible=None, snr_band_db=None))

    assert (faint["n_calls"], faint["ambiguous"]["n_calls"], faint["ambiguous"]["species"]) == (2, True, False)
    assert (other["species"], other["ambiguous"]["species"], other["ambiguous"]["first"]) == (["A a"], True, False)
    assert (cut["n_calls"], cut["longest_s"], cut["ambiguous"]["longest_s"]) == (3, 0.3, True)
    assert (cut["ambiguous"]["longest"], cut["ambiguous"]["last_third"]) == (False, True)
    assert (nobody["n_calls"], nobody["ambiguous"]["n_calls"]) == (3, False)
    assert (nobody["species"], nobody["ambiguous"]["species"], nobody["last"]) == (["A a"], True, None)
    assert (unmeasured["n_calls"], unmeasured["species"], unmeasured["first"]) == (None, None, "A a")
    assert not unmeasured["ambiguous"]["first"]


def test_pitch_is_compared_by_one_measure():
    """By f0 where all have it, by the peak otherwise; where they disagree, neither is asked about."""
    low, high = call(100, 300, "A a", f0_hz=300.0, peak_hz=3000.0), call(900, 300, "B b", f0_hz=900.0, peak_hz=1000.0)
    both, mixed = facts_of(low, high), facts_of(low, {**high, "f0_hz": None})
    neither = facts_of(low, {**high, "f0_hz": None, "peak_hz": None})

    assert (both["pitch_measure"], both["highest"], both["ambiguous"]["highest"]) == ("f0_hz", "B b", True)
    assert (mixed["pitch_measure"], mixed["highest"], mixed["ambiguous"]["highest"]) == ("peak_hz", "A a", False)
    assert (neither["pitch_measure"], neither["highest"], neither["ambiguous"]["highest"]) == (None, None, True)
