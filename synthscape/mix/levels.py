"""Power, bands and decibels: the definitions every level in a label rests on, in float64."""

from __future__ import annotations

import math
import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.spec.schema import Spec
from synthscape_kernels import band
from synthscape_kernels.place import reference_band

PEAK_LIMIT_DB: Final = -1.0
GAIN_STEPS: Final = 256  # scene gains are whole steps of 1/256 dB, rounded down, so the limit always holds
_KEPT_LENGTH: Final = 2**20  # longest transform whose tables and room are kept

__all__ = [
    "amplitudes",
    "band_bins",
    "band_energy",
    "band_tables",
    "reference_band",
    "scene_gain_db",
    "transform_room",
    "weights_in_groups",
]


def band_bins(n: int, sample_rate: int, low_hz: float, high_hz: float) -> tuple[int, int]:
    """First and last DFT bin of a band: the bins nearest to its edges, so there is always at least one.

    Args:
        n: length of the transform, samples.
        low_hz, high_hz: the band, as :func:`reference_band` widens it.
    """
    top = n // 2
    first = min(math.floor(low_hz * n / sample_rate + 0.5), top)
    return first, max(first, min(math.floor(high_hz * n / sample_rate + 0.5), top))


class _Workspace(threading.local):
    """Room for transforms, one per thread: allocating megabytes anew for each call costs as much as using them."""

    def __init__(self) -> None:
        self._room = np.empty(0, np.float32)

    def room(self, m: int) -> NDArray[np.float32]:
        """Room for transforms of length m; only moderate sizes are kept."""
        size = band.room_for(m)
        if size <= len(self._room):
            return self._room
        room = np.empty(size, np.float32)
        if m <= _KEPT_LENGTH:
            self._room = room
        return room


_workspace = _Workspace()
_kept: band.Tables | None = None


def transform_room(m: int) -> NDArray[np.float32]:
    """This thread's room for transforms up to length m."""
    return _workspace.room(m)


def band_tables(n: NDArray[np.int64]) -> tuple[NDArray[np.int64], band.Tables, int]:
    """What the transforms of signals of n samples take: the size of each, tables for all, and the greatest length."""
    global _kept
    sizes = band.sizes_for(n)
    # A grown copy replaces the kept tables whole, so threads may race. What is large is not kept.
    kept = _kept = band.with_tables(_kept, sizes[band.LENGTHS[sizes] <= _KEPT_LENGTH])
    return sizes, band.with_tables(kept, sizes), int(band.LENGTHS[sizes].max(initial=0))


def band_energy(x: NDArray[np.float32], sample_rate: int, low_hz: float, high_hz: float) -> float:
    """Energy (sum of squares) of a signal in a band: its DFT, no window, no padding, one-sided.

    Args:
        x: float32 [samples], contiguous, at least 1 sample.

    Over all bins this is the sum of squares of the samples (Parseval). Its root is off by at most that of the noise of
    the transform in these bins (:mod:`synthscape_kernels.band`). Of a wide band that holds -60 dB of the signal's
    energy it is exact to 1e-4 (0.0005 dB). Of a single bin with -110 dB of it, right beside all the rest, it may be
    off by 0.1 dB, of 16 such bins by 0.01 dB.
    """
    sizes, tables, longest = band_tables(np.array([len(x)]))
    first, last = band_bins(len(x), sample_rate, low_hz, high_hz)
    found: float = band.energy(x, first, last, int(sizes[0]), tables, transform_room(longest))
    return found


def weights_in_groups(spec: Spec, bank: ClipStore) -> NDArray[np.float64]:
    """Amplitude of each clip among those of its gain group, float64 [clips]: as recorded against as stored.

    Calls of a track keep their relative level by it; calls that are placed by themselves need none.
    """
    return bank.numbers("peak") if spec.events.group == "track" else np.ones(len(bank))


def amplitudes(level_db: NDArray[np.float64]) -> NDArray[np.float64]:
    """10 ** (dB / 20), one by one: NumPy's powers of arrays differ in the last bit between kinds of CPU."""
    return np.array([10.0 ** (db / 20.0) for db in level_db.tolist()], np.float64)


def scene_gain_db(peak: float) -> float:
    """Gain, 0 or less, that keeps a peak at or under -1 dBFS: a whole number of 1/256 dB."""
    over_db = 20.0 * math.log10(peak) - PEAK_LIMIT_DB if peak > 0 else 0.0
    return -math.ceil(over_db * GAIN_STEPS) / GAIN_STEPS if over_db > 0 else 0.0
