"""Faults of reverberation and loudness that users met in other tools."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from synthscape.bank.features import call_features
from synthscape.mix.loudness import loudness_lufs, lufs_gain_db
from synthscape.mix.propagation import absorption_air, absorption_kernel, combine, direct_and_tail, procedural_tail, wet
from synthscape.spec.schema import Snr

RATE = 16000
Floats = NDArray[np.float64]


def tone(hz: float, seconds: float) -> Floats:
    """Full scale."""
    return np.sin(2 * np.pi * hz * np.arange(round(seconds * RATE)) / RATE)


def hall(delay_s: float) -> Floats:
    """A room 6 m across and more: the sound is on its way for ``delay_s``, then come echoes for a second."""
    rng = np.random.default_rng(1)
    n = round(delay_s * RATE)
    tail = rng.standard_normal(RATE) * 10 ** (-3 * np.arange(RATE) / RATE) * 0.03
    return np.concatenate([rng.standard_normal(n) * 1e-4, [0.5], tail])


@pytest.mark.parametrize("delay_s", [0.0, 0.018, 0.3])
def test_a_room_does_not_move_a_call(delay_s: float) -> None:
    """DRASDIC labels the dry call while the wet one comes later: here the direct sound is where the dry call was."""
    call = np.zeros(2000, np.float32)
    call[700] = 1.0
    kernel, lead = direct_and_tail(hall(delay_s), RATE)
    absorbed = absorption_kernel(lambda hz: absorption_air(hz, 20, 50), 40.0, RATE)
    for arrived, before in (wet(call, kernel, lead), wet(call, *combine(absorbed, len(absorbed) // 2, kernel, lead))):
        assert np.argmax(np.abs(arrived)) - before == 700


def test_a_tail_is_neither_cut_nor_uncounted() -> None:
    """All of it arrives, and how long it lasts after the call is known: by then the rest is 60 dB down."""
    call = np.ones(100, np.float32)
    impulse = hall(0.1)
    kernel, lead = direct_and_tail(impulse, RATE)
    arrived, before = wet(call, kernel, lead)
    tail_samples = len(arrived) - before - len(call)
    whole = np.sum(impulse[1600 - lead :] ** 2)

    assert tail_samples == len(kernel) - lead - 1
    assert np.sum(impulse[1600 + tail_samples + 1 :] ** 2) <= 1e-6 * whole
    assert tail_samples > 0.9 * RATE  # and the second of echoes was not cut short


def test_a_level_can_be_measured_after_reverberation() -> None:
    """Scaper and DRASDIC level the dry call: in a room as strong as the direct sound a steady call is 3 dB louder."""
    call = np.random.default_rng(2).standard_normal(8 * RATE).astype(np.float32)
    arrived, lead = wet(call, procedural_tail(0.3, 0.0, RATE, 1, 2, 3), 0)
    heard = arrived[lead + RATE : lead + len(call)]

    assert 10 * np.log10(np.mean(heard.astype(float) ** 2) / np.mean(call.astype(float) ** 2)) == pytest.approx(
        3.01, abs=0.25
    )


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.1, 0.25, 0.39, 0.41, 0.5, 0.9, 3.0])
def test_short_calls_have_the_loudness_of_long_ones(seconds: float) -> None:
    """A constant, an error or a crash under 0.4 s elsewhere: here a whistle is as loud as a longer one of its level,
    and a gain to a loudness asked for is met.
    """
    whistle = 0.3 * tone(2000, seconds)
    quieter = whistle * 10 ** (-34 / 20)
    long = loudness_lufs(0.3 * tone(2000, 10), RATE)

    assert loudness_lufs(whistle, RATE) == pytest.approx(long, abs=0.1)
    assert loudness_lufs(quieter, RATE) == pytest.approx(long - 34, abs=0.1)
    assert lufs_gain_db(quieter, RATE, -20.0) == pytest.approx(-20 - (long - 34), abs=0.1)


def test_a_single_sample_has_a_loudness() -> None:
    """The shortest clip there is: a number, 20 dB less for a tenth of it."""
    one = loudness_lufs(np.array([0.5]), RATE)

    assert np.isfinite(one)
    assert loudness_lufs(np.array([0.05]), RATE) == pytest.approx(one - 20)


def test_loudness_is_nobodys_default() -> None:
    """K-weighting takes 9 dB off a call of 30 Hz, by the standard: it is for those who ask, levels are RMS."""
    low, high = tone(30, 2.0), tone(1000, 2.0)
    features = [call_features(call.astype(np.float32), RATE) for call in (low, high)]

    assert features[0]["rms_db"] == pytest.approx(features[1]["rms_db"], abs=0.1)
    assert loudness_lufs(high, RATE) - loudness_lufs(low, RATE) == pytest.approx(9.0, abs=0.1)
    assert Snr().reference != "loudness"
