"""Loudness as the mixer uses it: one definition with the bank's column ``lufs``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.loudness import loudness_lufs
from synthscape.errors import MixError

__all__ = ["loudness_lufs", "lufs_gain_db"]


def lufs_gain_db(x: NDArray[np.floating[Any]], sample_rate: int, wanted_lufs: float) -> float:
    """The gain in dB that brings a signal to a loudness, see :func:`loudness_lufs`.

    Args:
        x: [samples], one or more.
        sample_rate: Hz.
        wanted_lufs: LUFS.

    Raises:
        MixError: the signal is silent.
    """
    measured = loudness_lufs(x, sample_rate)
    if math.isinf(measured):
        raise MixError(f"no gain brings silence ({len(x)} samples, all 0) to {wanted_lufs:g} LUFS: leave it out")
    return wanted_lufs - measured
