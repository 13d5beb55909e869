"""Noise as loud as given samples: 16 bit in, 16 bit out, the same on every machine."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from synthscape_kernels.jit import compiled

CONTROL: Final = np.int64(64)  # stream of the noise that stands in for audio

_TOLERANCE: Final = 2.3e-4  # of the energy: 0.001 dB
_GUESSES: Final = 4
_MOST_STEPS: Final = 100  # doublings and halvings of a gain: more than its bits


@compiled
def energy(pcm: Any) -> Any:
    """Sum of squares of int16 [n], exact for n < 2**33 (int64)."""
    total = np.int64(0)
    for i in range(len(pcm)):
        total += np.int64(pcm[i]) * np.int64(pcm[i])
    return total


@compiled
def scale_to(z: Any, gain: Any, out: Any) -> Any:
    """``out`` (int16 [n]) = z (float64 [n]) times gain, rounded half to even, within +-32767; its energy (int64)."""
    total = np.int64(0)
    for i in range(len(z)):
        value = np.int64(np.rint(min(max(z[i] * gain, -32767.0), 32767.0)))
        out[i] = value
        total += value * value
    return total


@compiled
def match_energy(z: Any, target: Any, out: Any) -> None:
    """Scale numbers to samples whose energy is ``target`` (int64 > 0), as nearly as one gain can.

    The energy of rounded, limited samples never falls as the gain rises, so a bracket is halved until the energy is
    within 0.001 dB, or no gain comes nearer. All comparisons are of whole numbers.
    """
    total = 0.0
    for i in range(len(z)):
        total += z[i] * z[i]
    gain = np.sqrt(np.float64(target) / total)
    low, high = 0.0, np.inf
    best, best_miss = gain, np.int64(2**62)
    for step in range(_MOST_STEPS):
        got = scale_to(z, gain, out)
        miss = abs(got - target)
        if miss < best_miss:
            best, best_miss = gain, miss
        if miss <= _TOLERANCE * np.float64(target):
            return
        if got < target:
            low = gain
        else:
            high = gain
        # Where samples are neither few steps high nor limited, the energy goes with the square of the gain.
        guess = gain * np.sqrt(np.float64(target) / np.float64(max(got, 1)))
        if step < _GUESSES and low < guess < high:
            after = guess
        elif high == np.inf:
            after = 2.0 * gain
        else:
            after = 0.5 * (low + high)
        if after == gain:
            break
        gain = after
    scale_to(z, best, out)
