"""The community table: its weights come out by month and hour, and what is wrong in it is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import PlanError, SpecError, StoreError
from synthscape.plan.community import read_community
from synthscape.plan.planner import Planner
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator

SpecOf = Callable[..., Spec]
Table = Callable[..., str]
A, B, C, D, E = (f"Genus species{k}" for k in range(5))
ONE = ("events.rate=null", "events.count=1", "empty_share=0", "classes.per_scene=1", "events.resample=1")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Write rows to a CSV and give the override that names it."""

    def write(*rows: str, header: str = "species,habitat,month,hour,weight", name: str = "community.csv") -> str:
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        return f"community.table={path}"

    return write


def shares(planner: Planner, n: int = 4000) -> tuple[Any, np.ndarray]:
    """The plan of n scenes of one event, and the class of each."""
    plan = planner.plan(range(n))
    assert plan.n_events == n
    return plan, plan.class_id


def test_weights_hold_by_month_and_hour(spec_of: SpecOf, table: Table, bank: ClipStore, backgrounds: ClipStore) -> None:
    """In each month and hour classes are as frequent as the rows that match weigh together (chi-square).

    Nulls match always, rows of another habitat never, and what is not in the table is not heard.
    """
    csv = table(f"{A},,,,1", f"{B},forest,5,,2", f"{B},,5,22,1.5", f"{C},,,22,0.5", f"{D},meadow,,,9", f"{C},,6,5,3")
    spec = spec_of(*ONE, csv, "community.habitat=forest", "community.hour={choice: [5, 22], weights: [1, 3]}",
                   "community.month={uniform_int: [5, 6]}")  # fmt: skip
    plan, classes = shares(Planner(spec, bank, backgrounds))
    expected = {
        (5, 5): [1, 2, 0, 0, 0],
        (5, 22): [1, 3.5, 0.5, 0, 0],
        (6, 5): [1, 0, 3, 0, 0],
        (6, 22): [1, 0, 0.5, 0, 0],
    }
    when = list(zip(plan.month.tolist(), plan.hour.tolist(), strict=True))

    assert set(when) == set(expected)
    counts = [when.count(time) for time in expected]
    assert scipy.stats.chisquare(counts, [500, 1500, 500, 1500]).pvalue > 1e-3
    for time, weights in expected.items():
        seen = np.bincount(classes[[one == time for one in when]], minlength=5)
        law = np.array(weights) / sum(weights) * seen.sum()
        assert (seen[law == 0] == 0).all()
        assert scipy.stats.chisquare(seen[law > 0], law[law > 0]).pvalue > 1e-3


def test_what_is_not_drawn_matches_all_rows(
    spec_of: SpecOf, table: Table, bank: ClipStore, backgrounds: ClipStore
) -> None:
    """Without habitat, month and hour all rows of a class add up, and a scene has no month or hour."""
    csv = table(f"{A},forest,1,,1", f"{A},meadow,2,3,2", f"{B},,12,,1")
    plan, classes = shares(Planner(spec_of(*ONE, csv), bank, backgrounds))

    assert scipy.stats.chisquare(np.bincount(classes), [3000, 1000]).pvalue > 1e-3
    assert (plan.month == -1).all()
    assert (plan.hour == -1).all()


def test_columns_that_are_not_there_match_all(
    spec_of: SpecOf, table: Table, bank: ClipStore, backgrounds: ClipStore
) -> None:
    """A table of species and weights alone holds in every month; other columns of a user's table are no matter."""
    csv = table(f"{A},x,1", f"{E},,3", header="species,remark,weight")
    plan, classes = shares(Planner(spec_of(*ONE, csv, "community.month={uniform_int: [1, 12]}"), bank, backgrounds))

    assert set(plan.month.tolist()) == set(range(1, 13))
    assert scipy.stats.chisquare(np.bincount(classes)[[0, 4]], [1000, 3000]).pvalue > 1e-3


def test_weights_become_whole_numbers(spec_of: SpecOf, table: Table) -> None:
    """The largest weighs 2^20, others in proportion, none over 0 less than 1."""
    csv = table(f"{A},,,,0.4", f"{B},,,,0.1", f"{C},,,,1e-12", f"{D},,,,0")
    made = read_community(spec_of(*ONE, csv))

    assert made is not None
    assert made.weights.tolist() == [[2**20, 2**18, 1, 0]]


def test_scenes_have_all_classes_where_there_are_few(
    spec_of: SpecOf, table: Table, bank: ClipStore, backgrounds: ClipStore
) -> None:
    """Asked for three classes, an hour with one has that one; a note says so."""
    csv = table(f"{A},,,,1", *(f"{one},,,12,1" for one in (B, C, D)))
    spec = spec_of("events.rate=null", "events.count=12", "empty_share=0", "duration=60", "classes.per_scene=3", csv,
                   "community.hour={choice: [0, 12]}")  # fmt: skip
    planner = Planner(spec, bank, backgrounds)
    plan = planner.plan(range(200))
    n_classes = np.array([len(set(plan.class_id[plan.events_of(i)].tolist())) for i in range(200)])

    assert (n_classes[plan.hour == 0] == 1).all()
    assert n_classes[plan.hour == 12].mean() > 2.8
    assert n_classes.max() == 3
    assert any("at 1 of 2 times there are fewer classes (least: 1)" in note for note in planner.notes)


def test_unknown_species_are_counted_and_named(
    spec_of: SpecOf, table: Table, bank: ClipStore, backgrounds: ClipStore
) -> None:
    """Species the bank lacks are counted and named, so are classes that the table lacks."""
    csv = table(f"{A},,,,1", "Homo sapiens,,,,100", "Felis catus,,,,1")
    planner = Planner(spec_of(*ONE, csv), bank, backgrounds)

    assert planner.filtered["species or classes of community.table without a usable clip"] == 2
    assert any("2 of 3 have no usable clip: Felis catus, Homo sapiens" in note for note in planner.notes)
    assert any(f"4 classes are not in {csv.partition('=')[2]} and never drawn" in note for note in planner.notes)
    assert set(shares(planner, 50)[1].tolist()) == {0}


def test_a_time_without_species_is_refused(
    spec_of: SpecOf, table: Table, bank: ClipStore, backgrounds: ClipStore
) -> None:
    """A month and hour that can be drawn and have nothing are named; those that can't be are no matter."""
    csv = table(f"{A},,3,,1", f"{B},,4,7,1", "Felis catus,,4,8,1")
    with pytest.raises(PlanError, match="no class of the bank with a weight in month 4 and hour 8, which can be drawn"):
        Planner(spec_of(*ONE, csv, "community.month=4", "community.hour={choice: [7, 8]}"), bank, backgrounds)
    fine = spec_of(*ONE, csv, "community={month: 4, hour: {choice: [7, 8], weights: [1, 0]}}")
    assert set(shares(Planner(fine, bank, backgrounds), 20)[1].tolist()) == {1}
    with pytest.raises(PlanError, match="no class of the bank with a weight in month 5"):
        Planner(spec_of(*ONE, csv, "community.month={poisson: 4, clip: [3, 5]}"), bank, backgrounds)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (["x,1"], "name,weight", "expected a column 'species', got 'name', 'weight'; add it"),
        (["x,1"], "species,count", "expected a column 'weight', got 'species', 'count'"),
        ([f"{A},1", f"{B},-2"], "species,weight", "row 2: weight: expected a number from 0 on, got '-2'"),
        ([f"{A},"], "species,weight", "row 1: weight: expected a number from 0 on, got nan"),
        ([f"{A},inf"], "species,weight", "row 1: weight: expected a number from 0 on, got 'inf'"),
        ([f"{A},many"], "species,weight", "row 1: weight: expected a number from 0 on, got 'many'"),
        ([f"{A},0"], "species,weight", "weight: expected one over 0, got only 0"),
        ([",1"], "species,weight", "row 1: expected a species, got nothing"),
        (
            [f"{A},13,1"],
            "species,month,weight",
            "row 1: month: expected a whole number from 1 to 12, or nothing, got '13'",
        ),
        ([f"{A},0,1"], "species,month,weight", "row 1: month: expected a whole number from 1 to 12"),
        (
            [f"{A},24,1"],
            "species,hour,weight",
            "row 1: hour: expected a whole number from 0 to 23, or nothing, got '24'",
        ),
        ([f"{A},2.5,1"], "species,hour,weight", "row 1: hour: expected a whole number"),
        ([], "species,weight", "expected rows, got none"),
        ([f"{A},1,2,3"], "species,weight", "expected a CSV or Parquet table, got"),
    ],
)
def test_wrong_tables_are_refused(spec_of: SpecOf, table: Table, rows: list[str], header: str, message: str) -> None:
    """A column, row or value that is wrong is named with what was expected."""
    if len(rows) == 1 and rows[0].count(",") > header.count(","):
        rows = [f"{A},1", *rows]
    with pytest.raises(SpecError) as raised:
        read_community(spec_of(*ONE, table(*rows, header=header)))
    assert message in str(raised.value)
    assert "community.table" in str(raised.value)


def test_media_weigh_as_their_classes_do_at_the_time(
    spec_of: SpecOf, table: Table, tmp_path: Path, backgrounds: ClipStore
) -> None:
    """At an hour of land animals alone all scenes are in air; at one of both, media are as frequent as they weigh."""
    rng = np.random.default_rng(1)
    stores = []
    for kind, rows in (
        ("pseudovox", [{"species": s, "medium": m, "low_hz": 900.0, "high_hz": 1100.0} for s, m in ("xa", "ya", "zw")]),
        ("backgrounds", [{"medium": m} for m in "awaw"]),
    ):
        with StoreWriter(tmp_path / kind, kind, 16000) as writer:
            for row in rows:
                writer.add((0.1 * rng.standard_normal(8000)).astype(np.float32), row)
        stores.append(ClipStore.open(tmp_path / kind))
    csv = table("x,,,,1", "y,,,,2", "z,,,9,6")
    spec = spec_of(*ONE, csv, "community.hour={uniform_int: [8, 9]}", "background.mix.probability=0", "duration=2")
    plan, classes = shares(Planner(spec, *stores))
    water = np.isin(plan.background[:, 0], [1, 3])

    assert (water == (classes == 2)).all()
    assert not water[plan.hour == 8].any()
    seen = np.bincount(classes[plan.hour == 9])
    assert scipy.stats.chisquare(seen, np.array([1, 2, 6]) / 9 * seen.sum()).pvalue > 1e-3
    assert (
        scipy.stats.binomtest(int((classes[plan.hour == 8] == 1).sum()), int((plan.hour == 8).sum()), 2 / 3).pvalue
        > 1e-3
    )


def test_a_missing_table_or_habitat_is_named(spec_of: SpecOf, table: Table, tmp_path: Path) -> None:
    """No file, no Parquet, no such habitat: refused by name."""
    with pytest.raises(SpecError, match=r"nothing.csv: expected a CSV or Parquet file, got: No such file"):
        read_community(spec_of(*ONE, "community.table=nothing.csv"))
    (tmp_path / "t.parquet").write_bytes(b"no parquet")
    with pytest.raises(SpecError, match=r"t.parquet: expected a CSV or Parquet"):
        read_community(spec_of(*ONE, f"community.table={tmp_path / 't.parquet'}"))
    csv = table(f"{A},forest,,,1", f"{A},meadow,,,1")
    with pytest.raises(SpecError, match="no row of habitat 'fen', it has forest, meadow"):
        read_community(spec_of(*ONE, csv, "community.habitat=fen"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"species,weight\n{A},1,7\n{B},2,8\n", "Expected 2 fields in line 2, saw 3"),  # pandas would shift the columns
        (f"species,weight,weight\n{A},1,2\n", "expected one column 'weight', got 2"),  # ... and rename the second
        (f"species,species,weight\n{A},{B},2\n", "expected one column 'species', got 2"),
        (f"species,weight,Month\n{A},1,5\n", "expected a column 'month', got 'Month'; rename it"),  # would match always
        (f"species, weight\n{A},1\n", "expected a column 'weight', got ' weight'; rename it"),
    ],
)
def test_no_column_is_guessed(spec_of: SpecOf, tmp_path: Path, text: str, message: str) -> None:
    """Rows longer than the header and columns given twice are refused, not shifted or renamed."""
    path = tmp_path / "community.csv"
    path.write_text(text)
    with pytest.raises(SpecError) as raised:
        read_community(spec_of(*ONE, f"community.table={path}"))
    assert message in str(raised.value)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.zip", "t.xz", "t.tar", "t.zst", "t.bz2"])
def test_a_file_is_read_as_it_is(spec_of: SpecOf, tmp_path: Path, name: str) -> None:
    """A name that ends like an archive's is no reason to unpack, which failed with errors of all kinds."""
    (tmp_path / name).write_bytes(b"\x1f\x8bjunk")
    with pytest.raises(SpecError, match=r"expected a CSV or Parquet table, got: .*; mend the file"):
        read_community(spec_of(*ONE, f"community.table={tmp_path / name}"))
    (tmp_path / name).write_text(f"species,weight\n{A},1\n")
    assert read_community(spec_of(*ONE, f"community.table={tmp_path / name}")).names == [A]  # type: ignore[union-attr]


def test_what_is_no_file_is_refused(spec_of: SpecOf, tmp_path: Path) -> None:
    """Folders, also of many Parquet files, and devices, which may have no end."""
    (tmp_path / "t.parquet").mkdir()
    for path in (tmp_path, tmp_path / "t.parquet", "/dev/zero"):
        with pytest.raises(SpecError, match=r"expected a CSV or Parquet file, got (a folder|no regular file)"):
            read_community(spec_of(*ONE, f"community.table={path}"))


@pytest.mark.parametrize("kind", ["bool", "datetime64[s]", "timedelta64[s]"])
@pytest.mark.parametrize("column", ["weight", "month"])
def test_times_and_flags_are_no_numbers(spec_of: SpecOf, tmp_path: Path, kind: str, column: str) -> None:
    """A Parquet column of another type is refused instead of counted in nanoseconds."""
    table = pd.DataFrame({"species": [A], "weight": [1], "month": [1]}).astype({column: kind})
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(SpecError, match=f"row 1: {column}: expected"):
        read_community(spec_of(*ONE, f"community.table={tmp_path / 't.parquet'}"))


def test_classes_other_than_species_are_named_as_such(
    spec_of: SpecOf, table: Table, bank: ClipStore, backgrounds: ClipStore
) -> None:
    """With classes.by: call_type the table has a column class with names of the class list."""
    csv = table(f"{A}: type0,1", f"{C}: type2,3", header="class,weight")
    planner = Planner(spec_of(*ONE, csv, "classes.by=call_type"), bank, backgrounds)
    names = np.array([entry.name for entry in planner.classes])[shares(planner)[1]]

    assert (
        scipy.stats.chisquare([np.sum(names == f"{A}: type0"), np.sum(names == f"{C}: type2")], [1000, 3000]).pvalue
        > 1e-3
    )
    with pytest.raises(
        SpecError, match=r"expected a column 'class', got 'species', 'weight'; classes.by is not species"
    ):
        read_community(spec_of(*ONE, table(f"{A},1", header="species,weight"), "classes.by=call_type"))


def test_the_fingerprint_is_of_what_the_table_says(spec_of: SpecOf, table: Table, tmp_path: Path) -> None:
    """Order of rows, other columns, the file's name and kind, and other habitats change nothing; a weight does."""
    rows = [f"{A},forest,5,,1", f"{B},,,3,2", f"{C},meadow,,,2"]
    habitat = "community.habitat=forest"
    base = spec_of(*ONE, table(*rows), habitat)

    def fingerprint(*overrides: str) -> str:
        return SceneGenerator(spec_of(*ONE, *overrides)).fingerprint

    want = SceneGenerator(base).fingerprint
    assert fingerprint(table(*rows[::-1], name="other.csv"), habitat) == want
    assert fingerprint(table(*rows[:2], f"{D},meadow,1,1,2", name="fen.csv"), habitat) == want
    pd.read_csv(tmp_path / "community.csv").assign(note="n").to_parquet(tmp_path / "t.parquet")
    assert fingerprint(f"community.table={tmp_path / 't.parquet'}", habitat) == want
    assert fingerprint(table(f"{A},forest,5,,1.5", *rows[1:], name="heavier.csv"), habitat) != want
    assert fingerprint(table(f"{A},forest,6,,1", *rows[1:], name="later.csv"), habitat) != want
    assert fingerprint(f"community.table={tmp_path / 'community.csv'}") != want
    assert fingerprint() != want


def test_labels_say_when_a_scene_is(spec_of: SpecOf, table: Table, tmp_path: Path, monkeypatch: Any) -> None:
    """The scenes table has month and hour, null where none is drawn; a generator moves to other processes."""
    import pickle

    table(f"{A},,,,1")
    monkeypatch.chdir(tmp_path)
    scenes = SceneGenerator(
        spec_of(*ONE, "duration=1", "community={table: community.csv, month: {uniform_int: [3, 4]}}")
    )
    monkeypatch.chdir(tmp_path.parent)
    batch = pickle.loads(pickle.dumps(scenes)).render(range(12))

    assert set(batch.scenes["month"]) == {3, 4}
    assert batch.scenes["month"].tolist() == batch.plan.month.tolist()
    assert batch.scenes["hour"].isna().all()
    (tmp_path / "community.csv").write_text(f"species,weight\n{B},1\n")
    with pytest.raises(StoreError, match=r"community.csv changed since the generator was made"):
        pickle.loads(pickle.dumps(scenes))
