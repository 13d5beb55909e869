"""Rows of tables as JSON can hold them."""

from __future__ import annotations

from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from synthscape.errors import SynthscapeError


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows of a table as Python objects that can be written as JSON.

    Raises:
        SynthscapeError: a number is NaN or infinite, for which JSON has no word (and orjson would write null).
    """
    for name, column in zip(table.column_names, table.columns, strict=True):
        _check_finite(column, name)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _check_finite(column: pa.Array | pa.ChunkedArray, name: str) -> None:
    if pa.types.is_struct(column.type):
        for field, part in zip(column.type.fields, column.flatten(), strict=True):
            _check_finite(part, f"{name}.{field.name}")
    elif pa.types.is_list(column.type):
        _check_finite(pc.list_flatten(column), name)
    elif pa.types.is_floating(column.type) and not isfinite(pc.sum(column).as_py() or 0):  # nor is a sum with such
        raise SynthscapeError(f"column {name}: expected finite numbers or null, got NaN or an infinity; report this")
