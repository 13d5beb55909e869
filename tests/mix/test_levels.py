"""Bands and levels by their definitions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthscape.mix.levels import band_bins, band_energy, reference_band, scene_gain_db
from synthscape_kernels import band

RATE = 16000


def stepped_noise(
    n: int, at: float, step_db: float, rng: np.random.Generator, envelope: NDArray[np.float64] | float = 1.0
) -> NDArray[np.float32]:
    """Noise under an envelope, its spectrum falling by a step (or rising, if negative) at a share of it."""
    spectrum = np.fft.rfft(envelope * rng.standard_normal(n))
    edge = round(at * len(spectrum))
    weaker = slice(edge, None) if step_db > 0 else slice(0, edge)
    spectrum[weaker] *= 10 ** (-abs(step_db) / 20)
    return np.fft.irfft(spectrum, n).astype(np.float32)


def plain_energies(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """One-sided energy of each bin of a plain DFT."""
    n = len(x)
    weight = np.where((np.arange(n // 2 + 1) % n == 0) | (2 * np.arange(n // 2 + 1) == n), 1.0, 2.0)
    energy: NDArray[np.float64] = weight * np.abs(np.fft.rfft(x.astype(np.float64))) ** 2 / n
    return energy


def largest_error(x: NDArray[np.float32]) -> float:
    """What the root of any band's energy may be off by: the root of all noise that rounding to float32 makes.

    Samples x are multiplied by g, the inverse of the Fourier transform of a Kaiser-Bessel kernel, transformed, and
    weighed by the kernel, which multiplies them by 1 / g again. In between, noise is added: some 12 roundings (gain,
    passes of radix 4, unpacking, weights and their sum), one after the other and independent, each of at most 2 u =
    2**-23 (rms) of what passes. It has a share of the energy of g x, but is spread over all samples, so that 1 / g**2
    takes its mean off it: signals that are loud where g is large, at an end, have ten times the noise of others.

    By the triangle inequality the root of the energy of any bins is off by at most the root of the noise in them,
    wherever it is: that of the weights is near the strongest bins.
    """
    n = len(x)
    stretched = 2 * int(band.LENGTHS[band.sizes_for(np.array([n]))[0]])
    from_middle = (np.arange(n) - (n - 1) / 2) / stretched
    s = np.sqrt(band._BETA**2 - (np.pi * band.TAPS * from_middle) ** 2)
    g = s / np.sinh(s)
    return float(np.sqrt(12 * 2.0**-46 * np.sum((g * x) ** 2) * np.mean(1 / g**2)))


@given(
    n=st.integers(1, 20000),
    edges=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    kind=st.sampled_from(["band", "one bin", "lowest", "highest", "all"]),
    step_db=st.sampled_from([-80.0, -60.0, 0.0, 60.0, 80.0]),
    step_at=st.floats(0, 1),
    level_db=st.sampled_from([-100.0, -20.0, 60.0]),
    decay=st.sampled_from([-20.0, 0.0, 20.0]),
    seed=st.integers(0, 1000),
)
@example(2821, (0.0078125, 0.001953125), "band", 60.0, 0.001953125, -100.0, -20.0, 0)  # beside the strongest bins
def test_energies_are_those_of_the_plain_transform(n, edges, kind, step_db, step_at, level_db, decay, seed):
    """For any length, band and level, beside parts 80 dB stronger, and for signals that are loud at one end only."""
    envelope = 10 ** (level_db / 20) * np.exp(-abs(decay) * np.arange(n) / n)[:: -1 if decay < 0 else 1]
    x = stepped_noise(n, step_at, step_db, np.random.default_rng(seed), envelope)
    low, high = sorted(round(edge * (n // 2)) for edge in edges)
    first, last = {"one bin": (low, low), "lowest": (0, 0), "highest": (n // 2, n // 2), "all": (0, n // 2)}.get(
        kind, (low, high)
    )
    edges_hz = first * RATE / n, last * RATE / n
    assert band_bins(n, RATE, *edges_hz) == (first, last)
    bins = plain_energies(x)
    expected = float(bins[first : last + 1].sum())

    found = band_energy(x, RATE, *edges_hz)
    assert abs(np.sqrt(found) - np.sqrt(expected)) <= largest_error(x)


@pytest.mark.parametrize("n", [997, 16001, 65537, 100003])
def test_weak_bands_of_long_primes(n):
    """A band 60 dB under the rest has its energy to 1e-4, for lengths whose transforms are hard."""
    x = stepped_noise(n, 0.3, 60.0, np.random.default_rng(n))
    low_hz, high_hz = 0.35 * RATE / 2, 0.6 * RATE / 2
    first, last = band_bins(n, RATE, low_hz, high_hz)

    assert band_energy(x, RATE, low_hz, high_hz) == pytest.approx(plain_energies(x)[first : last + 1].sum(), rel=1e-4)


@pytest.mark.parametrize(("width", "most_db"), [(1, 0.1), (16, 0.01)])
def test_bins_beside_all_the_rest(width, most_db):
    """Right beside a step of 60 dB, where hardly anything is, single bins are within 0.1 dB, 16 within 0.01 dB."""
    rng = np.random.default_rng(width)
    errors_db = []
    for _ in range(200):
        n, at, step_db = int(rng.integers(800, 20000)), rng.uniform(0.05, 0.9), float(rng.choice([-60, 60]))
        x = stepped_noise(n, at, step_db, rng, np.exp(-float(rng.choice([-20, 0, 20])) * np.arange(n) / n))
        edge = round(at * (n // 2 + 1))
        first = edge if step_db > 0 else edge - width
        expected = plain_energies(x)[first : first + width].sum()
        found = band_energy(x, RATE, first * RATE / n, (first + width - 1) * RATE / n)
        errors_db.append(abs(10 * np.log10(found / expected)))

    assert max(errors_db) < most_db


@pytest.mark.parametrize("n", [600, 2048, 2925, 17554])
def test_what_is_found_in_an_empty_band_is_tiny(n):
    """The noise of the transform, at the lengths it stretches least, is under -122 dB of the signal's energy."""
    spectrum = np.fft.rfft(np.random.default_rng(n).standard_normal(n))
    spectrum[len(spectrum) // 2 :] = 0
    x = np.fft.irfft(spectrum, n).astype(np.float32)
    found = band_energy(x, RATE, 0.51 * RATE / 2, RATE / 2)

    assert 2 * found < 10**-12.2 * np.sum(x.astype(float) ** 2)


@pytest.mark.parametrize("power", [-80, -20, 20, 80])
def test_energies_scale_exactly(power):
    """Nothing over- or underflows: a signal times 2**k has exactly 4**k the energy."""
    x = stepped_noise(5003, 0.3, 60.0, np.random.default_rng(power % 7))
    loud = np.ldexp(x, power)

    assert band_energy(loud, RATE, 3000, 5000) == 4.0**power * band_energy(x, RATE, 3000, 5000)


def test_energies_do_not_depend_on_what_was_measured_before():
    """The room kept between calls leaves no trace, in any thread."""
    rng = np.random.default_rng(5)
    signals = [rng.standard_normal(n).astype(np.float32) for n in (40009, 3, 997, 16001, 1, 12000)]

    def measure(x):
        return band_energy(x, RATE, 1000, 4000), band_energy(x, RATE, 0, 8000)

    alone = [measure(x) for x in signals]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(measure, signals * 8)) == alone * 8
    assert [measure(x) for x in reversed(signals)] == alone[::-1]


def test_one_sample():
    """One sample is one bin, and all its energy."""
    x = np.full(1, 0.5, np.float32)

    assert band_energy(x, RATE, 0, 8000) == pytest.approx(0.25, rel=1e-6)
    assert band_energy(-2 * x, RATE, 100, 200) == pytest.approx(1.0, rel=1e-6)


@given(n=st.integers(1, 700), seed=st.integers(0, 1000))
def test_all_bins_are_all_energy(n: int, seed: int) -> None:
    """Over the whole spectrum the energy is the sum of squares (Parseval), for any length."""
    x = np.random.default_rng(seed).standard_normal(n).astype(np.float32)

    assert band_energy(x, RATE, 0.0, RATE / 2) == pytest.approx(np.sum(x.astype(float) ** 2), rel=1e-6)


@given(n=st.integers(2, 400), low=st.floats(0, 7000), width=st.floats(1, 4000), seed=st.integers(0, 1000))
def test_bins_are_those_nearest_to_the_edges(n: int, low: float, width: float, seed: int) -> None:
    """A band's energy is that of a plain two-sided DFT in the bins from nearest low to nearest high."""
    x = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    high = min(low + width, RATE / 2)
    first, last = band_bins(n, RATE, low, high)
    keep = np.array([first <= min(k, n - k) <= last for k in range(n)])
    expected = np.sum(np.abs(np.fft.fft(x.astype(float)))[keep] ** 2) / n

    assert first <= last <= n // 2
    assert abs(first * RATE / n - low) <= RATE / n / 2 + 1e-9 or first == n // 2
    assert band_energy(x, RATE, low, high) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_tone_is_in_its_band_and_in_no_other() -> None:
    """A tone on a bin has all its energy in a band around it and none beside it."""
    tone = np.sin(2 * np.pi * 1000 * np.arange(1600) / RATE).astype(np.float32)

    assert band_energy(tone, RATE, 900, 1100) == pytest.approx(800, rel=1e-6)
    assert band_energy(tone, RATE, 2000, 3000) < 1e-9
    assert band_energy(np.zeros_like(tone), RATE, 900, 1100) == 0


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
