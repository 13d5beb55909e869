"""Made-up audio for the tests of the bank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

RATE = 16000


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(20240611)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file under ``tmp_path/source``; returns its path."""

    def written(name: str, samples: Any, rate: int = RATE, **options: Any) -> Path:
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.asarray(samples), rate, **options)
        return path

    return written
