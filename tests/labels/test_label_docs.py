"""docs/labels.md says what the schema says."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA

PAGE = Path(__file__).resolve().parents[2] / "docs" / "labels.md"


@pytest.mark.parametrize(("heading", "schema"), [("## Events", EVENTS_SCHEMA), ("## Scenes", SCENES_SCHEMA)])
def test_every_column_is_documented_as_it_is(heading, schema):
    """Name, type, unit and meaning of each column, in the schema's order and nothing else."""
    section = PAGE.read_text(encoding="utf-8").split(f"{heading}\n")[1].split("\n## ")[0]
    documented = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    expected = []
    for field in schema:
        kind = "struct of int32" if str(field.type).startswith("struct") else str(field.type).replace("<element: ", "<")
        unit, meaning = field.metadata[b"unit"].decode(), field.metadata[b"description"].decode()
        expected.append([f"`{field.name}`", kind + (", null" if field.nullable else ""), unit, meaning])

    assert documented == expected


def test_every_column_has_a_meaning():
    """No description is empty."""
    assert all(field.metadata[b"description"] for schema in (EVENTS_SCHEMA, SCENES_SCHEMA) for field in schema)
