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

__all__ = ["band_bins", "band_energies", "band_energy", "reference_band", "scene_gain_db"]


def band_bins(n: int, sample_rate: int, low_hz: float, high_hz: float) -> tuple[int, int]:
    """First and last DFT bin of a band: the bins nearest to its edges, so there is always at least one.

    Args:
        n: length of the transform, samples.
        low_hz, high_hz: the band, as :func:`reference_band` widens it.
    """
    top = n // 2
    first = min(math.floor(low_hz * n / sample_rate + 0.5), top)
    return first, max(first, min(math.floor(high_hz * n / sample_rate + 0.5), top))


def band_energies(
    x: NDArray[np.float32], y: NDArray[np.float32], sample_rate: int, low_hz: float, high_hz: float
) -> tuple[float, float]:
    """Energy (sum of squares) of two signals of one length in a band: their DFT, no window, no padding, one-sided.

    Args:
        x, y: float32 [samples].

    Over all bins this is the sum of squares of the samples (Parseval).

    Both come from one complex transform Z of x + iy: X[k] = (Z[k] + conj Z[-k]) / 2, Y[k] = (Z[k] - conj Z[-k]) / 2i.
    Lengths are whatever calls last, often primes, for which a transform of reals costs as much as a complex one.
    """
    n = len(x)
    both = np.empty(n, np.complex128)
    both.real, both.imag = x, y
    z = scipy.fft.fft(both, overwrite_x=True)
    first, last = band_bins(n, sample_rate, low_hz, high_hz)
    k = np.arange(first, last + 1)
    ahead, behind = z[k], np.conj(z[-k])
    weight = np.where((k == 0) | (2 * k == n), 0.25, 0.5)  # bins 0 and n / 2 have no mirror image
    energy_x, energy_y = (
        float((weight * (part.real**2 + part.imag**2)).sum()) / n for part in (ahead + behind, ahead - behind)
    )
    return energy_x, energy_y


def band_energy(x: NDArray[np.float32], sample_rate: int, low_hz: float, high_hz: float) -> float:
    """Energy of one signal in a band, as :func:`band_energies`."""
    n = len(x)
    first, last = band_bins(n, sample_rate, low_hz, high_hz)
    z = scipy.fft.rfft(x.astype(np.float64))[first : last + 1]
    energy = 2.0 * float((z.real**2 + z.imag**2).sum())
    if first == 0:
        energy -= abs(z[0]) ** 2
    if 2 * last == n:
        energy -= abs(z[-1]) ** 2
    return energy / n


def scene_gain_db(peak: float) -> float:
    """Gain, 0 or less, that keeps a peak at or under -1 dBFS: a whole number of 1/256 dB."""
    over_db = 20.0 * math.log10(peak) - PEAK_LIMIT_DB if peak > 0 else 0.0
    return -math.ceil(over_db * GAIN_STEPS) / GAIN_STEPS if over_db > 0 else 0.0
