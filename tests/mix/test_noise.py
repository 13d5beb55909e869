"""Coloured noise: its slope, its distribution, and what it depends on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray
from scipy.signal import welch

from synthscape.mix.noise import coloured_noise

SECONDS = 40


def density_db(noise: NDArray[np.int16], sample_rate: int, low_hz: float, high_hz: float) -> tuple[NDArray, NDArray]:
    """Octaves and Welch's density in dB between two frequencies."""
    hz, power = welch(noise.astype(float), sample_rate, nperseg=sample_rate // 4)
    part = (hz >= low_hz) & (hz <= high_hz)
    return np.log2(hz[part]), 10 * np.log10(power[part])


@pytest.mark.parametrize("slope", [-12.0, -6.0, -3.0, -1.5, 0.0, 3.0, 6.0])
@pytest.mark.parametrize("sample_rate", [8000, 32000])
def test_slope_is_that_asked_for(slope: float, sample_rate: int) -> None:
    """A line through the spectrum, octaves of equal weight, within 0.3 dB per octave; half by half too."""
    noise = coloured_noise(SECONDS * sample_rate, slope, 3, 1, 0, sample_rate)
    top_hz = min(0.4 * sample_rate, 20 * 2 ** (100 / max(-slope, 1)))  # 16 bits hide what is 115 dB down
    octave, level = density_db(noise, sample_rate, 100.0, top_hz)
    middle = octave.mean()
    for part in (octave > 0, octave < middle, octave >= middle):
        weight = np.sqrt(2.0 ** -octave[part])  # as many bins as hertz in an octave
        fitted = np.polyfit(octave[part], level[part], 1, w=weight)[0]
        assert fitted == pytest.approx(slope, abs=0.3)


def test_low_frequencies_are_flat() -> None:
    """Below 20 Hz a slope of -12 dB stops rising: octaves of infrasound, and DC, are as strong as 20 Hz at most."""
    noise = coloured_noise(2**17, -12.0, 1, 2, 0, 2000).astype(float)
    power = np.abs(np.fft.rfft(noise)) ** 2
    hz = np.fft.rfftfreq(len(noise), 1 / 2000)
    below, at = power[(hz > 1) & (hz < 15)].mean(), power[(hz > 17) & (hz < 20)].mean()
    octave_up = power[(hz > 34) & (hz < 40)].mean()

    assert 10 * np.log10(below / at) == pytest.approx(0, abs=1)
    # the mean over 34 to 40 Hz of the fourth power law, against 1 at 20 Hz
    assert 10 * np.log10(octave_up / at) == pytest.approx(
        10 * np.log10(np.mean((20 / hz[(hz > 34) & (hz < 40)]) ** 4)), abs=1
    )
    assert abs(noise.mean()) < 0.01


@pytest.mark.parametrize("slope", [0.0, -3.0])
def test_it_is_gaussian(slope: float) -> None:
    """Skewness and kurtosis of a normal distribution, within 5 standard errors; white noise passes a test."""
    noise = coloured_noise(200_000, slope, 9, 4, 0, 16000).astype(float)
    whitened = noise if slope == 0 else noise[::50]

    assert scipy.stats.kurtosis(whitened) == pytest.approx(0, abs=5 * np.sqrt(24 / len(whitened)))
    assert scipy.stats.skew(whitened) == pytest.approx(0, abs=5 * np.sqrt(6 / len(whitened)))
    if slope == 0:
        assert scipy.stats.normaltest(noise).pvalue > 1e-4


def test_white_noise_is_white() -> None:
    """No sample tells the next ones: correlation over 50 lags within 5 standard errors."""
    noise = coloured_noise(100_000, 0.0, 9, 4, 1, 16000).astype(float)
    lagged = [np.corrcoef(noise[lag:], noise[:-lag])[0, 1] for lag in range(1, 51)]

    assert np.abs(lagged).max() < 5 / np.sqrt(len(noise))


def test_it_is_a_function_of_its_key() -> None:
    """Equal again in any order; layers, scenes, epochs and seeds are independent."""
    keys = [(seed, scene, layer) for seed in (0, 1, 2**64 - 1) for scene in (0, 1, 2**40) for layer in (0, 1)]
    first = [coloured_noise(20_000, 0.0, *key, 16000) for key in keys]
    again = [coloured_noise(20_000, 0.0, *key, 16000) for key in reversed(keys)][::-1]
    likeness = np.corrcoef(np.array(first, float))

    assert np.array_equal(first, again)
    assert np.abs(likeness - np.eye(len(keys))).max() < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 7919, 100_003])
@pytest.mark.parametrize("slope", [-12.0, 0.0, 6.0])
def test_any_length_is_peak_normalised(n: int, slope: float) -> None:
    """As clips in a store: int16, the largest magnitude 32767; primes too."""
    noise = coloured_noise(n, slope, 1, 1, 0, 16000)

    assert noise.shape == (n,)
    assert noise.dtype == np.int16
    assert np.abs(noise.astype(int)).max() == 32767
