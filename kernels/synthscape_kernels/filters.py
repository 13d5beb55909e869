"""Filter tables of the ratio grid.

Playing a clip at r = P/Q gives output sample n at input position n Q/P. Its integer part picks the input samples, its
fractional part - one of P exact phases - the row of the table:

    y[n] = sum_j x[floor(n Q/P) + j] h(j - frac(n Q/P)),    j = -H + 1 .. H

h is a sinc cut off at 0.895 of the lower of the two Nyquist frequencies, under a Kaiser window over |t| < H. A
transition band from 0.79 to 1.0 of that Nyquist needs (A - 7.95) / (2.285 x 0.21 pi) taps for A dB (Kaiser 1974): 48
for 80 dB. We take 54 for a margin; when r < 1 the lower Nyquist is the output's, and everything is 1/r as long.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

CUTOFF: Final = 0.895
HALF_TAPS: Final = 27
KAISER_BETA: Final = 8.6


def half_taps(p: int, q: int) -> int:
    """H of the formula above: taps on each side."""
    return math.ceil(HALF_TAPS * max(p, q) / p)


def filter_table(p: int, q: int) -> NDArray[np.float64]:
    """Taps of every phase of ratio p/q, float64 [p, 2 H]: column k is tap j = k - H + 1."""
    half = half_taps(p, q)
    cutoff = CUTOFF * min(1.0, p / q)  # of the input's Nyquist
    j = np.arange(-half + 1, half + 1)
    t = j[None, :] - np.arange(p)[:, None] / p
    window = np.i0(KAISER_BETA * np.sqrt(np.maximum(0.0, 1.0 - (t / half) ** 2))) / np.i0(KAISER_BETA)
    taps = cutoff * np.sinc(cutoff * t) * window
    return np.asarray(taps / taps.sum(axis=1, keepdims=True))  # every phase passes a constant as it is


class Filters(NamedTuple):
    """Ratios and their filter tables, as the kernels take them."""

    p: NDArray[np.int64]  # [ratios]
    q: NDArray[np.int64]
    taps: NDArray[np.float32]  # tables one after the other; each has p rows of 2 ``half`` taps
    table: NDArray[np.int64]  # [ratios] where one begins; -1 where it is not there
    half: NDArray[np.int64]  # [ratios]


class FilterBank:
    """Tables of the ratios in use, float32, packed into one array that grows.

    Ratio 1 needs none: it copies.
    """

    def __init__(self, ratio_p: NDArray[np.int32], ratio_q: NDArray[np.int32]):
        self._p = ratio_p
        self._q = ratio_q
        self.taps: NDArray[np.float32] = np.zeros(0, np.float32)
        self.offset: NDArray[np.int64] = np.full(len(ratio_p), -1, np.int64)  # [ratios] where a table starts
        self.half: NDArray[np.int64] = np.array(
            [half_taps(int(p), int(q)) for p, q in zip(ratio_p, ratio_q, strict=True)], np.int64
        )

    @property
    def filters(self) -> Filters:
        """The tables that are there."""
        return Filters(self._p.astype(np.int64), self._q.astype(np.int64), self.taps, self.offset, self.half)

    def require(self, ratios: NDArray[np.int16]) -> None:
        """Build the tables of these ratio indices that are not there yet."""
        missing = [i for i in np.unique(ratios) if self.offset[i] < 0 and self._p[i] != self._q[i]]
        tables = [filter_table(int(self._p[i]), int(self._q[i])).astype(np.float32).ravel() for i in missing]
        for i, table in zip(missing, tables, strict=True):
            self.offset[i] = len(self.taps)
            self.taps = np.concatenate([self.taps, table])
