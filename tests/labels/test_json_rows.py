"""Rows as JSON can hold them."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from synthscape.errors import SynthscapeError
from synthscape.labels.json_rows import json_rows


def test_rows_are_those_of_the_table():
    """Nulls stay nulls, at every depth."""
    rows = [
        {"name": "a", "level": 0.1, "events": [{"low": 1.5, "parts": [None, 2.0]}, None]},
        {"name": None, "level": None, "events": None},
        {"name": "c", "level": -0.0, "events": []},
    ]

    assert json_rows(pa.Table.from_pylist(rows)) == rows
    assert json_rows(pa.Table.from_pylist(rows).slice(0, 0)) == []


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("level", lambda x: x),
        ("levels", lambda x: [0.0, x]),
        ("event.low", lambda x: {"low": x}),
        ("events.low", lambda x: [{"low": None}, {"low": x}]),
    ],
)
def test_no_number_that_json_lacks(number, column, value):
    """They are refused by the name of their column; orjson would make null of them."""
    name = column.partition(".")[0]
    table = pa.Table.from_pylist([{name: value(1.0)}, {name: None}, {name: value(number)}])

    with pytest.raises(SynthscapeError, match=rf"column {column}: expected finite"):
        json_rows(table)
