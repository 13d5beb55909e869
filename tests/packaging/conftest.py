"""The wheel, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.installs import build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))
