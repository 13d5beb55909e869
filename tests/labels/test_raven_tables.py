"""Selection tables, read back by what reads them."""

from __future__ import annotations

import io
from pathlib import Path

import crowsetta
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscape.labels.raven import COLUMNS, SUFFIX, raven_tables


def events(*rows: dict) -> pa.Table:
    """An events table of the columns that matter here."""
    full = [
        {"scene_id": "s0", "onset": 0, "offset": 1, "low_hz": 1.0, "high_hz": 2.0, "class": "a", **row} for row in rows
    ]
    names = ("scene_id", "onset", "offset", "low_hz", "high_hz", "class")
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.string())
    return pa.Table.from_pydict(
        {name: pa.array([row[name] for row in full], kind) for name, kind in zip(names, kinds, strict=True)}
    )


def one(table: pa.Table, rate: int) -> str:
    """The text of the only scene."""
    ((_, text),) = raven_tables(table, ["s0"], rate)
    return text


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # crowsetta 5.1 with pandas 3.1
def test_crowsetta_reads_what_was_labelled(tmp_path):
    """Times, bands and names come back through crowsetta as they were."""
    table = events(
        {"onset": 1234, "offset": 5678, "low_hz": 1000.5, "high_hz": 2000.25, "class": "Corvus corax"},
        {"onset": 2000, "offset": 9000, "low_hz": None, "high_hz": None, "class": 'the "loud" one, d\u2019été'},
    )
    path = tmp_path / f"s0{SUFFIX}"
    path.write_text(one(table, 16000), encoding="utf-8")
    first, second = crowsetta.formats.bbox.Raven.from_file(path, annot_col="Annotation").to_bbox()

    assert (first.onset, first.offset, first.label) == (1234 / 16000, 5678 / 16000, "Corvus corax")
    assert (first.low_freq, first.high_freq) == (1000.5, 2000.25)
    assert (second.low_freq, second.high_freq) == (0.0, 8000.0)
    assert second.label == 'the "loud" one, d\u2019été'


@given(st.integers(0, 3600 * 500_000), st.integers(1, 10**6), st.sampled_from([8000, 44100, 256_000, 500_000]))
def test_sample_positions_survive(onset, length, rate):
    """At any rate, the written times round to the sample they came from."""
    text = one(events({"onset": onset, "offset": onset + length}), rate)
    row = pd.read_csv(io.StringIO(text), sep="\t").iloc[0]

    assert round(row["Begin Time (s)"] * rate) == onset
    assert round(row["End Time (s)"] * rate) == onset + length


@given(st.text(min_size=1, max_size=20))
def test_no_name_breaks_a_table(name):
    """Tabs, newlines, quotes and backslashes in a name leave one row of eight columns, and nothing is lost."""
    text = one(events({"class": name}), 16000)
    read = pd.read_csv(io.StringIO(text), sep="\t", keep_default_na=False, dtype=str, lineterminator="\n")
    escaped = read["Annotation"][0]
    unescaped, rest = "", iter(escaped)
    for character in rest:
        unescaped += {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[next(rest)] if character == "\\" else character

    assert read.shape == (1, 8)
    assert unescaped == name


def test_every_scene_has_a_table(tmp_path):
    """Scenes without events get the header; what belongs to others stays there."""
    table = events({"scene_id": "s2", "onset": 5}, {"scene_id": "s0", "onset": 7})
    texts = dict(raven_tables(table, ["s0", "s1", "s2"], 1000))

    assert list(texts) == ["s0", "s1", "s2"]
    assert texts["s1"] == "\t".join(COLUMNS) + "\n"
    assert [len(pd.read_csv(io.StringIO(text), sep="\t")) for text in texts.values()] == [1, 0, 1]
    assert pd.read_csv(io.StringIO(texts["s0"]), sep="\t")["Begin Time (s)"].tolist() == [0.007]


def test_crowsetta_refuses_tables_without_rows(tmp_path):
    """Should crowsetta read empty tables one day, docs/labels.md is to be changed."""
    path = tmp_path / f"s1{SUFFIX}"
    ((_, text),) = raven_tables(events(), ["s1"], 1000)
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match="no rows"):
        crowsetta.formats.bbox.Raven.from_file(path)


def test_columns_are_those_of_raven():
    """Names as Raven writes them."""
    text = one(events({}), 16000)

    assert text.splitlines()[0] == (
        "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tHigh Freq (Hz)\tAnnotation"
    )
    assert np.isclose(float(text.splitlines()[1].split("\t")[3]), 0.0)
    assert Path(f"s0{SUFFIX}").suffix == ".txt"
