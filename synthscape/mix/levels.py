"""Power, bands and decibels: the definitions every level in a label rests on, in float64."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from synthscape_kernels.place import reference_band

PEAK_LIMIT_DB: Final = -1.0
GAIN_STEPS: Final = 256  # scene gains are whole steps of 1/256 dB, rounded down, so the limit always holds

__all__ = ["band_bins", "band_energy", "power_db", "reference_band", "scene_gain_db"]


def power_db(power: float) -> float:
    """Decibels of a power ratio; -inf for 0."""
    return 10.0 * math.log10(power) if power > 0 else -math.inf


def band_bins(n: int, sample_rate: int, low_hz: float, high_hz: float) -> tuple[int, int]:
    """First and last DFT bin of a band: the bins nearest to its edges, so there is always at least one.

    Args:
        n: length of the transform, samples.
        low_hz, high_hz: the band, as :func:`reference_band` widens it.
    """
    top = n // 2
    first = min(math.floor(low_hz * n / sample_rate + 0.5), top)
    return first, max(first, min(math.floor(high_hz * n / sample_rate + 0.5), top))


def band_energy(x: NDArray[np.float32], sample_rate: int, low_hz: float, high_hz: float) -> float:
    """Energy (sum of squares) of ``x`` in a band: its DFT, no window, no padding, one-sided.

    Args:
        x: float32 [samples].

    Over all bins this is the sum of squares of the samples (Parseval).
    """
    n = len(x)
    first, last = band_bins(n, sample_rate, low_hz, high_hz)
    spectrum = scipy.fft.rfft(x.astype(np.float64))[first : last + 1]
    energy = 2.0 * (spectrum.real**2 + spectrum.imag**2)
    if first == 0:
        energy[0] *= 0.5
    if n % 2 == 0 and last == n // 2:
        energy[-1] *= 0.5
    return float(energy.sum()) / n


def scene_gain_db(peak: float) -> float:
    """Gain, 0 or less, that keeps a peak at or under -1 dBFS: a whole number of 1/256 dB."""
    over_db = 20.0 * math.log10(peak) - PEAK_LIMIT_DB if peak > 0 else 0.0
    return -math.ceil(over_db * GAIN_STEPS) / GAIN_STEPS if over_db > 0 else 0.0
