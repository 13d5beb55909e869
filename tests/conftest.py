"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real recordings, beside the checkout: required in CI, optional elsewhere."""
    folder = ROOT.parent / "shared" / "data"
    if not (folder / "index.csv").is_file():
        if os.environ.get("CI"):
            pytest.fail(f"CI is set, but {folder} is missing: lay the test recordings beside the checkout")
        pytest.skip(f"no test recordings at {folder}")
    return folder
