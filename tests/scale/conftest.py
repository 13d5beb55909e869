"""Stores that tests of rendering at scale share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scale.tiny import make_stores


@pytest.fixture(scope="session")
def tiny_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of six calls of 0.05 s, and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("tiny-stores"))


@pytest.fixture(scope="session")
def broken_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but one call is silent where it claims to be active: scenes with it can't be rendered."""
    return make_stores(tmp_path_factory.mktemp("broken-stores"), broken=True)
