"""The ratio grid: what a call may be resampled by.

A ratio r = P/Q plays a clip r times as long and 1/r as high. The grid has steps of a 64th octave from 1/4 to 4, each
approximated by the fraction with Q <= 128 that is nearest to it. Bounded denominators keep filter tables small;
coprime sample rates never build a large one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_Q: Final = 128
STEPS_PER_OCTAVE: Final = 64
UNITY: Final = 128  # index of ratio 1 in the grid


def _grid() -> list[Fraction]:
    # 2**(k/64) is irrational unless 64 divides k, so it is never near a tie between two fractions,
    # and every libm gives the same fraction.
    return [Fraction(2.0 ** (k / STEPS_PER_OCTAVE)).limit_denominator(MAX_Q) for k in range(-UNITY, UNITY + 1)]


GRID: Final[tuple[Fraction, ...]] = tuple(_grid())
GRID_P: Final[NDArray[np.int32]] = np.array([ratio.numerator for ratio in GRID], dtype=np.int32)
GRID_Q: Final[NDArray[np.int32]] = np.array([ratio.denominator for ratio in GRID], dtype=np.int32)


def as_ratio(value: float) -> Fraction:
    """The fraction with Q <= 128 that a listed value stands for.

    >>> as_ratio(1.7)
    Fraction(17, 10)

    Raises:
        ValueError: the value is outside [1/4, 4], or no such fraction is within a cent of it.
    """
    if not 0.25 <= value <= 4:
        raise ValueError(f"a resample ratio must be between 1/4 and 4, got {value}")
    ratio = Fraction(value).limit_denominator(MAX_Q)
    if abs(np.log2(float(ratio) / value)) > 1 / 1200:
        raise ValueError(f"{value} is not near a fraction with a denominator up to {MAX_Q}; use {float(ratio)}")
    return ratio


def played_length(length: int, ratio: Fraction) -> int:
    """Samples a clip of ``length`` samples lasts at ``ratio``: ceil(length x P / Q)."""
    return -(-length * ratio.numerator // ratio.denominator)
