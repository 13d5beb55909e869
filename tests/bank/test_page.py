"""The page on stores names every column there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from synthscape.bank.schema import COLUMNS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bank.md"


def test_the_page_is_in_step_with_the_schema() -> None:
    """docs/bank.md has a cell for every column of a store."""
    cells = [line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`([a-z0-9_]+)`", cell)}

    assert named == set(COLUMNS)
