"""docs/tasks.md says what the items schema says, and has a section on every task."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from synthscape.labels.items import ITEMS_SCHEMA
from synthscape.spec.schema import TASKS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Items\n")[1].split("\n## ")[0]


def rows(n_cells: int) -> list[list[str]]:
    """Rows of the section's tables that have so many cells."""
    cells = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| `")]
    return [row for row in cells if len(row) == n_cells]


def test_every_column_of_an_item_is_documented_as_it_is():
    """Name, type, unit and meaning, in the schema's order and nothing else."""
    expected = []
    for field in ITEMS_SCHEMA:
        kind = str(field.type)
        if pa.types.is_list(field.type):
            of = field.type.value_type
            kind = "list of structs" if pa.types.is_struct(of) else f"list<{of}>"
        unit, meaning = (field.metadata[name].decode() for name in (b"unit", b"description"))
        expected.append([f"`{field.name}`", kind + (", null" if field.nullable else ""), unit, meaning])

    assert rows(4) == expected


def test_every_field_of_its_structs_is_documented():
    """In their order."""
    structs = [field for field in ITEMS_SCHEMA if pa.types.is_list(field.type)]
    expected = [
        [f"`{field.name}`", ", ".join(f"`{one.name}`" for one in field.type.value_type)]
        for field in structs
        if pa.types.is_struct(field.type.value_type)
    ]

    assert sorted(rows(2)) == sorted(expected)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_described(task):
    """By its name, in the section of its own or of a task like it."""
    assert f"(`{task}`" in PAGE.split("## The tasks\n")[1].split("\n## ")[0]
