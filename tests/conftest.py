"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from synthscape.bank.store import ClipStore
from synthscape.spec import Spec, load_spec
from tests.scenes import make_backgrounds, make_bank, make_impulses

# what reads datasets back asks nobody, and leaves nothing in a home
os.environ |= {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": f"{tempfile.gettempdir()}/synthscape-hub"}

# Tests keep many objects, items by the ten thousand: looking for cycles among them so often took a seventh of the time.
gc.set_threshold(50_000, 20, 20)

settings.register_profile("synthscape", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("synthscape")

ROOT = Path(__file__).resolve().parent.parent


#: Modules that take half a minute and more, in the order in which they begin, so that all processes end at about the
#: same time. Those that compile for themselves come first: when they end, kernels are there for all others.
LONGEST = (
    "verification/test_purity.py",  # compiles kernels for two kinds of CPU
    "packaging/test_wheel.py",  # compiles them in an install
    "scale/test_ray.py",
    "tasks/test_planned_items.py",
    "tasks/test_rendered_items.py",
    "packaging/test_benchmarks.py",
    "verification/test_real_data.py",
    "scale/test_disks.py",
    "verification/test_demo_scenes.py",
    "tasks/test_tasks_on_real_banks.py",
    "tasks/test_leakage_harness.py",
    "tasks/test_rendered_items_truth.py",
    "tasks/test_rendered_items_files.py",
    "plan/test_processes.py",
    "plan/test_planner.py",
    "scale/test_many_scenes.py",
    "scale/test_kills.py",
    "known_faults/test_surroundings.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first."""
    place = {ROOT / "tests" / name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


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
