"""Fixtures shared by the verification."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthscape import make_demo_bank


@pytest.fixture(scope="session")
def demo_bank(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The demo's bank and backgrounds."""
    return make_demo_bank(tmp_path_factory.mktemp("verification") / "demo")
