"""Bands and levels by their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscape.mix.levels import band_bins, band_energies, reference_band, scene_gain_db

RATE = 16000


@given(n=st.integers(1, 700), seed=st.integers(0, 1000))
def test_all_bins_are_all_energy(n: int, seed: int) -> None:
    """Over the whole spectrum the energy is the sum of squares (Parseval), for any length, of both signals."""
    x, y = np.random.default_rng(seed).standard_normal((2, n)).astype(np.float32)
    energies = band_energies(x, 1e-3 * y, RATE, 0.0, RATE / 2)

    assert energies == pytest.approx((np.sum(x.astype(float) ** 2), 1e-6 * np.sum(y.astype(float) ** 2)), rel=1e-5)


@given(n=st.integers(2, 400), low=st.floats(0, 7000), width=st.floats(1, 4000), seed=st.integers(0, 1000))
def test_bins_are_those_nearest_to_the_edges(n: int, low: float, width: float, seed: int) -> None:
    """A band's energy is that of a plain two-sided DFT in the bins from nearest low to nearest high."""
    x, y = np.random.default_rng(seed).standard_normal((2, n)).astype(np.float32)
    high = min(low + width, RATE / 2)
    first, last = band_bins(n, RATE, low, high)
    keep = np.array([first <= min(k, n - k) <= last for k in range(n)])
    expected = [np.sum(np.abs(np.fft.fft(signal.astype(float)))[keep] ** 2) / n for signal in (x, y)]

    assert first <= last <= n // 2
    assert abs(first * RATE / n - low) <= RATE / n / 2 + 1e-9 or first == n // 2
    assert band_energies(x, y, RATE, low, high) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_tone_is_in_its_band_and_in_no_other() -> None:
    """A tone on a bin has all its energy in a band around it and none beside it."""
    tone = np.sin(2 * np.pi * 1000 * np.arange(1600) / RATE).astype(np.float32)
    silence = np.zeros_like(tone)

    assert band_energies(tone, silence, RATE, 900, 1100) == pytest.approx((800, 0), rel=1e-6, abs=1e-12)
    assert band_energies(silence, tone, RATE, 2000, 3000)[1] < 1e-6


def test_narrow_bands_are_widened_to_a_third_octave() -> None:
    """A band under a third octave is widened about its geometric centre; bands scale with 1/r and stop at Nyquist."""
    low, high = reference_band(1000.0, 1000.0, 1, 1, 8000.0)

    assert high / low == pytest.approx(2 ** (1 / 3))
    assert low * high == pytest.approx(1e6)
    assert reference_band(1000.0, 2000.0, 2, 1, 8000.0) == pytest.approx((500, 1000))
    assert reference_band(3000.0, 6000.0, 1, 2, 8000.0) == pytest.approx((6000, 8000))


@given(st.floats(1e-6, 100))
def test_scene_gain_holds_the_limit(peak: float) -> None:
    """The gain is 0 up to -1 dBFS; beyond, it brings the peak to at most that, wasting under 1/128 dB."""
    gain = scene_gain_db(peak)
    after_db = 20 * np.log10(peak) + gain

    assert gain * 256 == round(gain * 256)
    assert after_db <= -1 + 1e-9 or gain == 0
    if gain < 0:
        assert after_db > -1 - 1 / 128
    else:
        assert 20 * np.log10(peak) <= -1 + 1e-9
