"""Energies in bands on a device: transforms of any length, for many events at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from synthscape_kernels import triton_launch, triton_mix

_LANES: Final = 256
_MOST_ROWS: Final = 128  # of a batch of transforms


@dataclass(frozen=True)
class BandBatch:
    """Some events' transforms, of one size."""

    points: int
    count: int
    table: NDArray[np.int64]  # [5, rows]: start, n, first and last bin, event; rows beyond ``count`` are idle


def band_batches(
    start: NDArray[np.int64], n: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]
) -> list[BandBatch]:
    """Sort the transforms of events by size, for :func:`band_energies`.

    Args:
        start, n: where the samples of each event begin, and how many they are, int64 [e].
        first, last: bins of its band, int64 [e]; first < 0: it has none.

    Sizes are few, and each is transformed in batches of one fixed number of rows: an event's result doesn't depend on
    what else is in the batch.
    """
    size = transform_sizes(n + 2 * np.maximum(last, 0))
    batches = []
    for points in np.unique(size[first >= 0]).tolist():
        of_size = np.flatnonzero((size == points) & (first >= 0))
        rows = max(1, min(_MOST_ROWS, 2**22 // points))
        for begin in range(0, len(of_size), rows):
            some = of_size[begin : begin + rows]
            table = np.zeros((5, rows), np.int64)
            table[1] = 1
            table[:, : len(some)] = start[some], n[some], first[some], last[some], some
            batches.append(BandBatch(points, len(some), table))
    return batches


def band_energies(spans: torch.Tensor, table: torch.Tensor, batch: BandBatch, *, out: torch.Tensor) -> None:
    """Energies of pairs of signals in their bands: ``levels.band_energy`` for ragged pairs, on a device.

    Args:
        spans: float32 [2, samples]: the signals of an event are ``spans[:, start:start + n]``.
        table: that of ``batch``, on the device.
        out: float64 [2, e]; filled where the batch's events are.

    The transform of length n, whatever n is, as a convolution with a chirp (Bluestein 1970), in float64: with
    w[m] = exp(-i pi m**2 / n), Z[k] = w[k] sum_m z[m] w[m] conj w[k - m]. Chirps come from m**2 mod 2 n in integers, so
    they are exact for any length. Only bins up to ``last`` are wanted, on both sides, so n + 2 ``last`` points do.
    """
    start, n, _, last = table[:4, :, None]
    m = torch.arange(batch.points, device=spans.device)[None]
    angle = (m * m % (2 * n)).double() * (-math.pi / n.double())
    chirp = torch.polar(torch.ones_like(angle), angle)
    at = (start + m).clamp_max(spans.shape[1] - 1)
    z = torch.complex(spans[0][at].double(), spans[1][at].double()) * chirp
    z = torch.where(m < n, z, 0.0)
    lag = torch.where(m <= last, m, batch.points - m)
    kernel = torch.fft.fft(chirp.gather(1, lag).conj())
    z = torch.fft.ifft(torch.fft.fft(z).mul_(kernel))
    energy = torch.empty((2, batch.count), dtype=torch.float64, device=spans.device)
    rows = table.to(torch.int32)
    triton_launch.launch(
        triton_mix.band_sums, batch.count, torch.view_as_real(z), torch.view_as_real(chirp), rows[1], rows[2], rows[3],
        batch.points, energy, LANES=_LANES,
    )  # fmt: skip
    out[:, table[4, : batch.count]] = energy / n[: batch.count, 0].double()


def transform_sizes(points: NDArray[np.int64]) -> NDArray[np.int64]:
    """The next of 4, 5, 6, 7 times a power of two, at least 64."""
    points = np.maximum(points, 64)
    power = 2 ** np.maximum(np.ceil(np.log2(points)).astype(np.int64) - 3, 0)
    power = np.where(8 * power < points, 2 * power, power)
    return np.asarray(power * np.maximum(-(-points // power), 4))
