"""What stands beside the audio in a container: an item with its scenes and events, in one row.

Where an item is a scene, the scene's columns and ``events``; where it is a question, the item's columns, ``scenes`` and
``events``. All columns are those of the tables, but for ``audio``: a container holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synthscape.labels.items import ITEMS_SCHEMA
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA, described, listed

_HUB_NAMES: Final = {"float": "float32", "double": "float64"}


@cache
def rows_schema(of_questions: bool) -> pa.Schema:
    """Columns of the rows; ``of_questions`` where an item is a question, else it is a scene."""
    own, scenes = _less(ITEMS_SCHEMA if of_questions else SCENES_SCHEMA, "audio"), _less(SCENES_SCHEMA, "audio")
    events = list(EVENTS_SCHEMA) if of_questions else _less(EVENTS_SCHEMA, "scene_id")
    if of_questions:
        own.append(described("scenes", listed(pa.struct(scenes)), "", "its scenes, in the order of scene_ids"))
    return pa.schema([*own, described("events", listed(pa.struct(events)), "", "the events of its scenes, by onset")])


def item_rows(tables: Mapping[str, pa.Table], of_questions: bool) -> pa.Table:
    """One row an item, of the events, scenes and items of some; columns of :func:`rows_schema`."""
    schema = rows_schema(of_questions)
    events, scenes, items = (tables[name] for name in ("events", "scenes", "items"))
    own, lists = scenes, {"events": (events, _offsets(scenes["n_events"]))}
    if of_questions:
        of_items = _offsets(pc.list_value_length(items["scene_ids"]))
        own, lists = items, {"scenes": (scenes, of_items), "events": (events, lists["events"][1][of_items])}
    columns = [
        _as_lists(*lists[field.name], field.type) if field.name in lists else own[field.name] for field in schema
    ]
    return pa.table(columns, schema=schema)


def hub_features(schema: pa.Schema, audio: Mapping[str, int]) -> dict[str, Any]:
    """Columns as the hub's ``datasets`` writes them into JSON.

    Args:
        schema: of the columns.
        audio: those that are audio, or lists of it, with their rate in Hz.
    """
    return {field.name: _feature(field.type, audio.get(field.name)) for field in schema}


def _feature(kind: pa.DataType, rate: int | None) -> Any:
    if pa.types.is_list(kind):
        return [_feature(kind.value_type, rate)]  # as every version of datasets reads it
    if rate is not None:
        return {"sampling_rate": rate, "_type": "Audio"}
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type, None) for field in kind.fields}
    return {"dtype": _HUB_NAMES.get(str(kind), str(kind)), "_type": "Value"}


def _less(schema: pa.Schema, name: str) -> list[pa.Field]:
    return [field for field in schema if field.name != name]


def _offsets(counts: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.append(0, np.cumsum(counts.to_numpy())).astype(np.int32)


def _as_lists(table: pa.Table, offsets: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    """The rows of a table, as lists of structs."""
    fields = kind.value_type.fields
    columns = [table[field.name].combine_chunks() for field in fields]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(columns, fields=fields), type=kind)
