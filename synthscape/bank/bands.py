"""Energy in blocks of 50 ms and third-octave bands.

The table answers, without touching audio, how much energy a stretch of a clip holds in a band. Block length and band
edges depend on the sample rate only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from synthscape.bank.schema import BLOCK_S
from synthscape.units import seconds_to_samples

_BLOCKS_AT_ONCE: Final = 256


def block_samples(sample_rate: int) -> int:
    """Samples of a block: 50 ms."""
    return max(1, seconds_to_samples(BLOCK_S, sample_rate))


def band_edges_hz(sample_rate: int) -> NDArray[np.float64]:
    """Edges of the bands, float64 [n_bands + 1]: 0, third octaves around 1000 x 2**(n/3) Hz, Nyquist.

    The first band is [0, 22.1) Hz and the last one ends at Nyquist, so the bands share out all energy.
    """
    nyquist = sample_rate / 2
    inner = 1000.0 * 2.0 ** ((np.arange(-16, 40) - 0.5) / 3)
    return np.concatenate([[0.0], inner[inner < nyquist * (1 - 1e-9)], [nyquist]])


@lru_cache(maxsize=8)
def _shares(sample_rate: int) -> NDArray[np.float32]:
    # [bins, bands]: the part of each DFT bin, k +- 1/2 bins wide and cut at 0 and Nyquist, that lies in each band.
    size = block_samples(sample_rate)
    edges = band_edges_hz(sample_rate)
    width = sample_rate / size
    bins = np.arange(size // 2 + 1)
    low = np.maximum((bins - 0.5) * width, 0.0)[:, None]
    high = np.minimum((bins + 0.5) * width, sample_rate / 2)[:, None]
    overlap = np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0.0, None)
    one_sided = np.full(len(bins), 2.0)
    one_sided[0] = 1.0
    if size % 2 == 0:
        one_sided[-1] = 1.0
    shares: NDArray[np.float64] = overlap / (high - low) * one_sided[:, None] / size
    return shares.astype(np.float32)


def band_energy(samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
    """Energy (sum of squares) of each 50 ms block in each band.

    The last block is padded with zeros. A block's energy is shared out to bands as its spectrum under a Hann window is:
    without a window a band that holds nothing would seem to hold what leaks from one 45 dB louder. The sum over bands
    is the block's energy all the same.

    Args:
        samples: float32 [samples], at least one.
        sample_rate: Hz.

    Returns:
        float32 [ceil(samples / block_samples), n_bands].
    """
    size = block_samples(sample_rate)
    shares = _shares(sample_rate)
    window = np.sin(np.pi * (np.arange(size) + 0.5) / size).astype(np.float32) ** 2  # nowhere zero: no sample is lost
    n_blocks = -(-len(samples) // size)
    table = np.empty((n_blocks, shares.shape[1]), dtype=np.float32)
    for first in range(0, n_blocks, _BLOCKS_AT_ONCE):
        last = min(first + _BLOCKS_AT_ONCE, n_blocks)
        blocks = np.zeros((last - first) * size, dtype=np.float32)
        part = samples[first * size : last * size]
        blocks[: len(part)] = part
        whole = blocks.reshape(last - first, size)
        spectrum = scipy.fft.rfft(whole * window, axis=1)
        weighted = (spectrum.real**2 + spectrum.imag**2) @ shares
        energy = np.einsum("ij,ij->i", whole, whole, dtype=np.float64)
        seen = weighted.sum(axis=1, dtype=np.float64)
        table[first:last] = weighted * np.divide(energy, seen, out=np.zeros_like(energy), where=seen > 0)[:, None]
    return table
