"""Where these tests run: on the CUDA device if there is one, else in Triton's interpreter.

    python -m pytest tests/gpu                # all that this machine can run
    python -m pytest tests/gpu -m gpu         # on a machine with a GPU: the larger tests that only a GPU runs

The interpreter is chosen when kernels are defined, so this must run before anything imports Triton: it does, as
pytest loads it while it collects, and nothing imports Triton before a mixer on a device is asked for.
``test_compiled.py`` needs no GPU and no interpreter: it compiles in a process of its own.
"""

from __future__ import annotations

import os
import sys

import pytest
import torch

from tests.gpu.scenes import World, make_world

CUDA = torch.cuda.is_available()

if not CUDA:
    if "triton" in sys.modules and not os.environ.get("TRITON_INTERPRET"):
        raise RuntimeError("Triton was imported before TRITON_INTERPRET could be set: import it inside functions")
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what only a GPU can run where there is none."""
    for item in items:
        if item.get_closest_marker("gpu") and not CUDA:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(scope="session")
def device() -> str:
    """The device the kernels run on: a GPU, or the interpreter."""
    return "cuda" if CUDA else "cpu"


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Small stores and a spec."""
    return make_world(tmp_path_factory.mktemp("world"))
