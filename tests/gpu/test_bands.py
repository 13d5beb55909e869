"""Band energies on a device against the DFT by definition."""

from __future__ import annotations

import numpy as np
import pytest

from synthscape.mix.levels import band_bins

#: one sample, two, even, odd, primes, a power of two, a plain number.
LENGTHS = (1, 2, 3, 16, 97, 641, 997, 1024, 1500, 2039)


def test_ragged_bands_are_those_of_the_dft(device: str) -> None:
    """For any length and band, energies agree with the CPU's to 1e-4 dB, also of a background 60 dB weaker."""
    import torch

    from synthscape.mix.device_bands import band_batches
    from synthscape.mix.device_bands import band_energies as on_device

    rng = np.random.default_rng(0)
    bands = [(0.0, 4000.0), (500.0, 900.0), (3000.0, 4000.0), (1000.0, 1000.0)]
    cases = [(n, band_bins(n, 8000, *band), band) for n in LENGTHS for band in bands]
    n = np.array([case[0] for case in cases])
    first, last = np.array([case[1] for case in cases]).T.copy()
    start = np.cumsum(n) - n
    spans = rng.standard_normal((2, int(n.sum()))).astype(np.float32)
    spans[1] *= 1e-3
    first[5] = -1  # a clip without a band
    out = torch.full((2, len(cases)), np.nan, dtype=torch.float64, device=device)

    for batch in band_batches(start, n, first, last):
        on_device(torch.from_numpy(spans).to(device), torch.from_numpy(batch.table).to(device), batch, out=out)

    energies = out.cpu().numpy()
    assert np.isnan(energies[:, 5]).all()
    for k, (length, _, band) in enumerate(cases):
        if k == 5:
            continue
        low, high = band_bins(length, 8000, *band)
        power = np.abs(np.fft.fft(spans[:, start[k] : start[k] + length].astype(float))) ** 2 / length
        inside = [j for j in range(length) if low <= min(j, length - j) <= high]
        expected = power[:, inside].sum(axis=1)
        assert np.abs(10 * np.log10(energies[:, k] / expected)).max() < 1e-4, (length, band)


def test_a_band_is_what_a_plain_dft_says(device: str) -> None:
    """Without the CPU's shortcut: the two-sided DFT of each signal, summed over the band's bins."""
    import torch

    from synthscape.mix.device_bands import band_batches
    from synthscape.mix.device_bands import band_energies as on_device

    n = 331
    spans = np.random.default_rng(1).standard_normal((2, n)).astype(np.float32)
    out = torch.zeros((2, 1), dtype=torch.float64, device=device)
    (batch,) = band_batches(np.array([0]), np.array([n]), np.array([20]), np.array([50]))
    on_device(torch.from_numpy(spans).to(device), torch.from_numpy(batch.table).to(device), batch, out=out)
    keep = [k for k in range(n) if 20 <= min(k, n - k) <= 50]

    for energy, signal in zip(out[:, 0].tolist(), spans.astype(float), strict=True):
        assert energy == pytest.approx(np.sum(np.abs(np.fft.fft(signal)[keep]) ** 2) / n, rel=1e-9)


def test_transform_sizes_are_few_and_large_enough() -> None:
    """Sizes are 4 to 7 times a power of two, at least what is needed and at most a quarter more."""
    from synthscape.mix.device_bands import transform_sizes

    points = np.unique(np.concatenate([np.arange(1, 3000), np.random.default_rng(0).integers(3000, 2**24, 2000)]))
    sizes = transform_sizes(points)
    odd = sizes.copy()
    while (odd % 2 == 0).any():
        odd = np.where(odd % 2 == 0, odd // 2, odd)

    assert (sizes >= points).all()
    assert (sizes[points >= 64] <= 1.25 * points[points >= 64] + 1).all()
    assert set(odd.tolist()) <= {1, 3, 5, 7}
    assert sizes.min() == 64
