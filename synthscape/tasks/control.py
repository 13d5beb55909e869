"""Noise in place of audio: what can still be answered then was not heard."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synthscape_kernels.control import CONTROL, energy, match_energy
from synthscape_kernels.noise import gaussian


def noise_like(pcm: NDArray[np.int16], seed: int, scene_number: int) -> NDArray[np.int16]:
    """White Gaussian noise of the same length and RMS level as some audio.

    The level is that of ``pcm`` to 0.01 dB wherever whole samples can have it (a few samples of a few steps can't; then
    it is the nearest that one gain gives); silence stays silence. Samples are limited to ±32767: up to -16.1 dBFS none
    is, as no number drawn lies beyond 6.34 standard deviations. Above, the highest peaks are, and the gain is raised
    until the level is right all the same: still white, no longer quite Gaussian, near full scale ±32767 at random.

    A pure function of its arguments, the same on every machine: of ``pcm`` only length and energy matter.

    Args:
        pcm: int16 [n], a scene as written.
        seed: the spec's, 0 to 2**64 - 1.
        scene_number: number of the scene in the plan; scenes with different numbers have independent noise.

    Returns:
        int16 [n].

    >>> noise_like(np.array([0, 0, 0], np.int16), 1, 2).tolist()
    [0, 0, 0]
    """
    noise = np.zeros(len(pcm), np.int16)
    target = energy(np.ascontiguousarray(pcm))
    if target == 0:
        return noise
    numbers = np.empty(len(pcm), np.float64)
    gaussian(np.uint64(seed), CONTROL, np.int64(scene_number), numbers)
    match_energy(numbers, np.int64(target), noise)
    return noise
