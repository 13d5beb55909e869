"""Loudness against the standard's own figures."""

from __future__ import annotations

import math

import numpy as np
import pyloudnorm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthscape.bank.loudness import _k_weighting
from synthscape.errors import MixError
from synthscape.mix.loudness import loudness_lufs, lufs_gain_db

Floats = NDArray[np.float64]
RATES = [2000, 4000, 8000, 11025, 16000, 22050, 44100, 48000, 96000, 250000, 384000]


def sine(hz: float, seconds: float, sample_rate: int) -> Floats:
    """Full scale."""
    return np.sin(2 * np.pi * hz * np.arange(round(seconds * sample_rate)) / sample_rate)


def k_weighting_db(hz: float) -> float:
    """The standard's two filters (BS.1770-4, tables 1 and 2, for 48 kHz) at a frequency."""
    z = np.exp(-2j * np.pi * hz / 48000)
    shelf = (1.53512485958697 - 2.69169618940638 * z + 1.19839281085285 * z**2) / (
        1 - 1.69065929318241 * z + 0.73248077421585 * z**2
    )
    high_pass = (1 - 2 * z + z**2) / (1 - 1.99004745483398 * z + 0.99007225036621 * z**2)
    return float(20 * np.log10(abs(shelf * high_pass)))


def test_filters_are_the_standards() -> None:
    """At 48 kHz: tables 1 and 2 of BS.1770-4."""
    shelf, high_pass = _k_weighting(48000)

    assert shelf[0] == pytest.approx(
        [1.53512485958697, -2.69169618940638, 1.19839281085285, 1, -1.69065929318241, 0.73248077421585], abs=1e-8
    )
    assert high_pass[0] == pytest.approx([1, -2, 1, 1, -1.99004745483398, 0.99007225036621], abs=1e-8)


def test_the_standards_check() -> None:
    """ "A 0 dB FS, 1 kHz (997 Hz) sine wave in the left channel reads -3.01 LKFS"; 20 dB less reads 20 less."""
    assert loudness_lufs(sine(997, 5, 48000), 48000) == pytest.approx(-3.01, abs=0.005)
    assert loudness_lufs(0.1 * sine(997, 5, 48000), 48000) == pytest.approx(-23.01, abs=0.005)


@pytest.mark.parametrize("sample_rate", RATES)
def test_weighting_is_that_of_48_khz_at_any_rate(sample_rate: int) -> None:
    """Within 0.16 dB up to 0.9 Nyquist (the filter alone is off by 5 dB, or unstable, at 2 kHz)."""
    for hz in (30.0, 100.0, 500.0, 900.0, 2600.0, 7000.0, 20000.0):
        if hz <= 0.45 * sample_rate:
            measured = loudness_lufs(sine(hz, 3, sample_rate), sample_rate)
            assert measured == pytest.approx(-0.691 + 10 * math.log10(0.5) + k_weighting_db(hz), abs=0.16)


@given(gain_db=st.floats(-120, 120), seed=st.integers(0, 50), n=st.integers(50, 30000))
@settings(max_examples=40)
def test_loudness_adds_up(gain_db: float, seed: int, n: int) -> None:
    """A gain of g dB is g LU, however quiet it gets: no absolute gate."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(n) * np.repeat(rng.uniform(0, 1, -(-n // 3000)), 3000)[:n]
    loud = loudness_lufs(noise, 16000)

    assert loudness_lufs(noise * 10 ** (gain_db / 20), 16000) == pytest.approx(loud + gain_db, abs=1e-6)


def test_programmes_are_gated_as_in_the_standard() -> None:
    """Minimum requirements of EBU Tech 3341 (tests 3 to 5): tones whose quiet parts the gates leave out."""
    rate = 48000

    def tones(*parts: tuple[float, float]) -> Floats:
        return np.concatenate([10 ** (level / 20) * sine(1000, seconds, rate) for level, seconds in parts])

    # stereo there, so 3.01 dB more than one channel
    stereo = 10 * math.log10(2)
    third = tones((-36, 10), (-23, 60), (-36, 10))
    fourth = tones((-72, 10), (-36, 10), (-23, 60), (-36, 10), (-72, 10))
    fifth = tones((-26, 20), (-20, 20.1), (-26, 20))
    for programme in (third, fourth, fifth):
        assert loudness_lufs(programme, rate) + stereo == pytest.approx(-23.0, abs=0.1)
        # pyloudnorm's gates, with the same filters
        meter = pyloudnorm.Meter(rate, filter_class="DeMan")
        assert loudness_lufs(programme, rate) == pytest.approx(meter.integrated_loudness(programme), abs=0.01)


def test_near_silence_does_not_lower_the_relative_gate() -> None:
    """Long pauses 80 dB down are left out first: what is 22 dB under the call is then gated too."""
    rate = 16000
    tone = sine(1000, 60, rate)
    recording = np.concatenate([0.2 * tone[:rate], 0.2 * 10 ** (-22 / 20) * tone[: 10 * rate], 2e-5 * tone])
    meter = pyloudnorm.Meter(rate, filter_class="DeMan")

    # two blocks hold a part of the call, so a little less than the call alone
    assert loudness_lufs(recording, rate) == pytest.approx(loudness_lufs(0.2 * tone[:rate], rate), abs=1)
    assert loudness_lufs(recording, rate) == pytest.approx(meter.integrated_loudness(recording), abs=0.01)


def test_low_calls_are_not_gated_away() -> None:
    """A 12 Hz call at -60 dBFS is at -80 LUFS: a number, where the absolute gate would leave nothing."""
    quiet = 1e-3 * sine(12, 4, 16000)
    expected = -0.691 + 10 * math.log10(0.5e-6) + k_weighting_db(12)

    assert expected < -75
    assert loudness_lufs(quiet, 16000) == pytest.approx(expected, abs=0.2)
    assert pyloudnorm.Meter(16000).integrated_loudness(quiet) == -math.inf


@pytest.mark.parametrize("n", [1, 2, 7, 100, 1000, 7999])
def test_short_sound_has_the_loudness_of_its_repetition(n: int) -> None:
    """Under 0.5 s it is that of pyloudnorm for as many whole repetitions as last half a second."""
    x = np.random.default_rng(n).standard_normal(n)
    repeated = np.tile(x, -(-8000 // n))
    expected = pyloudnorm.Meter(16000, filter_class="DeMan").integrated_loudness(repeated)

    assert loudness_lufs(x.astype(np.float32), 16000) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("n", [1, 100, 20000])
def test_silence_is_minus_infinity(n: int) -> None:
    """And no gain makes it loud."""
    assert loudness_lufs(np.zeros(n, np.float32), 16000) == -math.inf
    with pytest.raises(MixError, match="silence"):
        lufs_gain_db(np.zeros(n, np.float32), 16000, -23.0)


def test_the_gain_brings_the_loudness() -> None:
    """Applied, the loudness is the one asked for."""
    x = np.random.default_rng(3).standard_normal(50000)
    gain = lufs_gain_db(x, 22050, -31.5)

    assert loudness_lufs(x * 10 ** (gain / 20), 22050) == pytest.approx(-31.5, abs=1e-6)
