"""The table of known faults names tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| (?P<fault>.+?) \| (?:`(?P<path>[\w/]+\.py)::(?P<name>\w+)`|later: .+) \|$")
HEADINGS = ("| fault | test |", "|---|---|")


def test_every_known_fault_has_its_test() -> None:
    """Each row names a test that exists, or says what later part it belongs to."""
    lines = (TESTS / "known_faults" / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|") and line not in HEADINGS]
    named: dict[str, set[str]] = {}
    for line in rows:
        row = ROW.match(line)
        assert row, line
        if row["path"]:
            named.setdefault(row["path"], set()).add(row["name"])
    for path, names in named.items():
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert names <= defined, f"{path}: {sorted(names - defined)}"

    assert len(rows) > 57
