"""Gaussian noise from counter-based random numbers: the same values on every machine, whatever part is asked first."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from synthscape_kernels.jit import compiled
from synthscape_kernels.philox import philox4x32_many
from synthscape_kernels.strict_math import exp, log, ndtri_centre, ndtri_tail

COLOURED, TAIL = (np.int64(i) for i in (32, 33))  # streams; those of the planner are below 32
NUMBERS_PER_STREAM: Final = 256  # the streams of layer or event n are these + 256 n

_COUNTERS: Final = 64  # side by side, four words each
_LOW: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)
_LN_1000: Final = 6.907755278982137


@compiled
def gaussian(seed: Any, stream: Any, scene: Any, out: Any) -> None:
    """Fill ``out`` (float64 [n], n < 2**34) with standard normal numbers: out[i] = ndtri(uniform(..., slot i)).

    In stretches of 256 numbers, each step a loop of its own over them, so that all but the logarithm of the 15 % in
    the tails is vector work.
    """
    number, key = np.uint64(scene), np.uint64(seed)
    w0, w1 = np.empty(_COUNTERS, np.uint64), np.empty(_COUNTERS, np.uint64)
    w2, w3 = np.empty(_COUNTERS, np.uint64), np.empty(_COUNTERS, np.uint64)
    q = np.empty(4 * _COUNTERS, np.float64)  # u - 1/2, exact
    z = np.empty(4 * _COUNTERS, np.float64)
    r = np.empty(4 * _COUNTERS, np.float64)
    tail = np.empty(4 * _COUNTERS + 1, np.int64)
    for begin in range(0, len(out), 4 * _COUNTERS):
        philox4x32_many(
            begin // 4, stream, number & _LOW, number >> _32, key & _LOW, key >> _32, w0, w1, w2, w3
        )  # fmt: skip
        for j in range(_COUNTERS):
            q[4 * j] = (np.float64(np.int64(w0[j])) + 0.5) * 2.0**-32 - 0.5
            q[4 * j + 1] = (np.float64(np.int64(w1[j])) + 0.5) * 2.0**-32 - 0.5
            q[4 * j + 2] = (np.float64(np.int64(w2[j])) + 0.5) * 2.0**-32 - 0.5
            q[4 * j + 3] = (np.float64(np.int64(w3[j])) + 0.5) * 2.0**-32 - 0.5
        for i in range(4 * _COUNTERS):
            z[i] = ndtri_centre(q[i])
        n_tail = 0
        for i in range(4 * _COUNTERS):  # no branch to be guessed wrong
            tail[n_tail] = i
            n_tail += abs(q[i]) > 0.425
        for k in range(n_tail):
            r[k] = -log(0.5 - abs(q[tail[k]]))
        for k in range(n_tail):
            r[k] = ndtri_tail(np.sqrt(r[k]))  # sqrt(-log(2**-33)) is 4.8, so under 5
        for k in range(n_tail):
            z[tail[k]] = -r[k] if q[tail[k]] < 0.0 else r[k]
        for i in range(min(4 * _COUNTERS, len(out) - begin)):
            out[begin + i] = z[i]


@compiled
def decay(x: Any, rt60_samples: Any, power: Any) -> None:
    """Give noise (float64 [n], in place) an envelope that falls 60 dB in so many samples, and an energy of ``power``.

    ``rt60_samples`` is float64 > 0, ``power`` the sum of squares.
    """
    factor = exp(-_LN_1000 / rt60_samples)
    envelope = 1.0
    total = 0.0
    for i in range(len(x)):
        x[i] *= envelope
        envelope *= factor
        total += x[i] * x[i]
    gain = np.sqrt(power / total)
    for i in range(len(x)):
        x[i] *= gain
