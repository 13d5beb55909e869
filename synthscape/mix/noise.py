"""Coloured noise as a background that no one recorded: a clip made of a seed, as a store would keep it."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synthscape_kernels.noise import COLOURED, NUMBERS_PER_STREAM, gaussian

CORNER_HZ: Final = 20.0  # flat below, so that falling slopes stay finite
_PEAK: Final = 32767
_DB_PER_OCTAVE: Final = 20 * math.log10(2)  # of an amplitude proportional to frequency


def coloured_noise(
    n: int, slope_db_per_octave: float, seed: int, scene: int, layer: int, sample_rate: int
) -> NDArray[np.int16]:
    """Gaussian noise whose power spectral density rises by ``slope`` dB per octave from 20 Hz on, and is flat below.

    0 is white, -3 pink, -6 red. Each bin of the spectrum is a complex Gaussian number of its own, so one transform
    makes it; bin 0 is empty. It is peak-normalised and rounded half to even, as clips are stored: where
    the density is more than about 110 dB under its largest (-12 dB from 10 kHz on), 16 bits hide the slope.

    It depends on its arguments only. The numbers are the same on every machine; the transform may differ in its last
    bit, and so a rare sample by one step.

    Args:
        n: samples, 1 or more. Another length is another noise, not a longer one.
        slope_db_per_octave: of the power spectral density.
        seed: 0 to 2**64 - 1.
        scene: scene number.
        layer: 0 to 2**24 - 1; layers of one scene are independent.
        sample_rate: Hz.

    Returns:
        int16 [n], the largest magnitude 32767.
    """
    import scipy.fft  # which takes 0.1 s to import, and few renders need it

    n_fft = scipy.fft.next_fast_len(max(n, 2), real=True)
    n_bins = n_fft // 2 + 1
    numbers = np.empty(2 * n_bins)
    stream = np.int64(COLOURED + NUMBERS_PER_STREAM * layer)
    gaussian(np.uint64(seed), stream, np.int64(scene), numbers)
    spectrum = numbers.view(np.complex128)
    spectrum[0] = 0
    if slope_db_per_octave != 0:
        hz = np.arange(n_bins) * (sample_rate / n_fft)
        spectrum *= np.maximum(hz / CORNER_HZ, 1.0) ** (slope_db_per_octave / _DB_PER_OCTAVE)
    noise = scipy.fft.irfft(spectrum, n_fft, overwrite_x=True)[:n]
    noise *= _PEAK / max(noise.max(), -noise.min())
    pcm: NDArray[np.int16] = np.rint(noise, out=noise).astype(np.int16)
    return pcm
