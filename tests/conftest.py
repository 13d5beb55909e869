"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from synthscape.bank.store import ClipStore
from synthscape.spec import Spec, load_spec
from tests.scenes import make_backgrounds, make_bank, make_impulses

# what reads datasets back asks nobody, and leaves nothing in a home
os.environ |= {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": f"{tempfile.gettempdir()}/synthscape-hub"}

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


@pytest.fixture(scope="session")
def bank(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """A small bank made for tests."""
    return make_bank(tmp_path_factory.mktemp("bank") / "pseudovox")


@pytest.fixture(scope="session")
def backgrounds(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """Small backgrounds made for tests."""
    return make_backgrounds(tmp_path_factory.mktemp("backgrounds") / "backgrounds")


@pytest.fixture(scope="session")
def impulses(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """A few small impulse responses made for tests."""
    return make_impulses(tmp_path_factory.mktemp("impulses") / "impulses")


@pytest.fixture(scope="session")
def spec_of(bank: ClipStore, backgrounds: ClipStore) -> Callable[..., Spec]:
    """``strong_detection`` over the small stores, with overrides."""

    def load(*overrides: str) -> Spec:
        return load_spec("strong_detection", [f"bank={bank.path}", f"backgrounds={backgrounds.path}", *overrides])

    return load
