"""Absorption against published values, kernels and rooms against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthscape.errors import MixError
from synthscape.mix.propagation import (
    Absorption,
    absorption_air,
    absorption_kernel,
    absorption_water,
    combine,
    direct_and_tail,
    procedural_tail,
    received_level_db,
    spreading_db,
    wet,
)

Floats = NDArray[np.float64]

# ISO 9613-1:1993, table 1: °C, % relative humidity, third-octave number (1000 Hz is 0), dB/km at 101.325 kPa. The
# table is of exact midband frequencies, 1000 x 10**(k / 10) Hz (note 5), and rounded to three digits.
ISO_9613_1 = [
    (-20, 10, -13, 0.589), (-20, 10, -9, 1.20), (-20, 70, -9, 0.514), (-20, 50, 0, 9.14), (-20, 100, 0, 11.1),
    (-20, 10, 6, 3.86), (-20, 100, 6, 31.4), (-20, 70, 9, 27.8), (-15, 70, 6, 37.9), (-10, 10, -9, 1.86),
    (-10, 50, 0, 12.9), (-10, 70, 9, 86.2), (-5, 70, 6, 65.0), (0, 30, -9, 0.469), (0, 15, 0, 18.3), (0, 70, 0, 4.64),
    (0, 10, 9, 26.4), (5, 50, 0, 5.08), (10, 70, -9, 0.411), (10, 20, 0, 11.0), (10, 70, 0, 3.66), (10, 70, 6, 32.8),
    (10, 10, 9, 69.4), (15, 10, 6, 87.3), (15, 70, 0, 4.08), (20, 10, -13, 0.270), (20, 50, -10, 0.294),
    (20, 70, -9, 0.339), (20, 70, -7, 0.776), (20, 10, 0, 14.1), (20, 70, 0, 4.98), (20, 80, 0, 5.15),
    (20, 100, 6, 19.4), (20, 15, 8, 175.0), (20, 80, 10, 105.0), (25, 70, 0, 6.19), (30, 70, -9, 0.256),
    (30, 100, 0, 7.17), (30, 10, 6, 96.0), (35, 70, 0, 8.30), (40, 10, 0, 7.68), (50, 70, -10, 0.0913),
    (50, 70, 6, 48.2), (50, 10, 9, 155.0),
]  # fmt: skip


@pytest.mark.parametrize(("temperature_c", "humidity", "k", "db_per_km"), ISO_9613_1)
def test_absorption_in_air_is_that_of_the_standards_table(
    temperature_c: float, humidity: float, k: int, db_per_km: float
) -> None:
    """Three digits of ISO 9613-1's table 1, give or take one of the last."""
    absorption = 1000 * absorption_air(1000 * 10 ** (k / 10), temperature_c, humidity)

    assert float(absorption) == pytest.approx(db_per_km, rel=0.006)


@pytest.mark.parametrize(
    ("temperature_c", "humidity", "db_per_km"),
    [
        (10, 70, [0.1, 0.4, 1.0, 1.9, 3.7, 9.7, 32.8, 117]),
        (20, 70, [0.1, 0.3, 1.1, 2.8, 5.0, 9.0, 22.9, 76.6]),
        (30, 70, [0.1, 0.3, 1.0, 3.1, 7.4, 12.7, 23.1, 59.3]),
        (15, 20, [0.3, 0.6, 1.2, 2.7, 8.2, 28.2, 88.8, 202]),
        (15, 50, [0.1, 0.5, 1.2, 2.2, 4.2, 10.8, 36.2, 129]),
        (15, 80, [0.1, 0.3, 1.1, 2.4, 4.1, 8.3, 23.7, 82.8]),
    ],
)
def test_absorption_in_octave_bands(temperature_c: float, humidity: float, db_per_km: list[float]) -> None:
    """ISO 9613-2:1996, table 2: 63 Hz to 8 kHz, to its last digit (one value of 48 is not rounded but cut)."""
    hz = 1000 * 10 ** (np.arange(-12, 10, 3) / 10)

    assert 1000 * absorption_air(hz, temperature_c, humidity) == pytest.approx(db_per_km, rel=0.01, abs=0.052)


def test_thin_air_absorbs_as_the_scaling_law_says() -> None:
    """At equal vapour share, absorption per pressure depends on frequency per pressure only (ISO 9613-1, annex B)."""
    hz = np.geomspace(50, 50e3, 20)
    half = absorption_air(hz / 2, 20, 25, 101.325 / 2)  # half the pressure, half the humidity: the same share

    assert half * 2 == pytest.approx(absorption_air(hz, 20, 50), rel=1e-12)


def francois_garrison(khz: Floats, temperature_c: float, salinity: float, depth_m: float, ph: float) -> Floats:
    """dB/km of Francois & Garrison 1982, J. Acoust. Soc. Am. 72, 896-907 and 1879-1890."""
    t, s, d, f2 = temperature_c, salinity, depth_m, khz**2
    c = 1412 + 3.21 * t + 1.19 * s + 0.0167 * d
    f_boric = 2.8 * np.sqrt(s / 35) * 10 ** (4 - 1245 / (t + 273))
    f_sulphate = 8.17 * 10 ** (8 - 1990 / (t + 273)) / (1 + 0.0018 * (s - 35))
    water = 4.937e-4 - 2.59e-5 * t + 9.11e-7 * t**2 - 1.50e-8 * t**3
    if t > 20:
        water = 3.964e-4 - 1.146e-5 * t + 1.45e-7 * t**2 - 6.5e-10 * t**3
    boric = 8.86 / c * 10 ** (0.78 * ph - 5) * f_boric / (f2 + f_boric**2)
    sulphate = 21.44 * s / c * (1 + 0.025 * t) * (1 - 1.37e-4 * d + 6.2e-9 * d**2) * f_sulphate / (f2 + f_sulphate**2)
    return f2 * (boric + sulphate + water * (1 - 3.83e-5 * d + 4.9e-10 * d**2))


@pytest.mark.parametrize(
    ("temperature_c", "salinity", "depth_m", "ph"),
    [
        *[(t, 35, 0, 8.0) for t in (-5, 0, 4, 10, 20, 30)],
        *[(10, 35, 0, ph) for ph in (7.7, 8.3)],
        *[(10, s, 0, 8.0) for s in (5, 20, 40, 50)],
        *[(10, 35, d, 8.0) for d in (1000, 3000, 6000)],
    ],
)
def test_absorption_in_water_is_as_close_to_measurements_as_published(
    temperature_c: float, salinity: float, depth_m: float, ph: float
) -> None:
    """Ainslie & McColm state 10 % of Francois & Garrison from 100 Hz to 1 MHz over these ranges."""
    hz = np.geomspace(100, 1e6, 60)
    reference = francois_garrison(hz / 1000, temperature_c, salinity, depth_m, ph)

    assert 1000 * absorption_water(hz, temperature_c, salinity, depth_m, ph) == pytest.approx(reference, rel=0.1)


def test_absorption_in_deep_water() -> None:
    """Fisher & Simmons 1977, J. Acoust. Soc. Am. 62, table IV: 0.52 dB/km at 10 kHz, 5 °C, 35 ppt, 500 atm."""
    assert 1000 * absorption_water(10e3, 5, 35, 4940, 8.0) == pytest.approx(0.52, rel=0.1)


def test_fresh_water_absorbs_by_viscosity_only() -> None:
    """Without salt it grows with the square of frequency, from 0 Hz on."""
    hz = np.array([0.0, 1e3, 1e4, 1e5])

    assert absorption_water(hz, 10, 0, 0) == pytest.approx(absorption_water(1e5, 10, 0, 0) * (hz / 1e5) ** 2)


def test_spreading_is_spherical() -> None:
    """6.02 dB per doubling, none at 1 m."""
    assert spreading_db(1.0) == 0
    assert spreading_db(200.0) - spreading_db(100.0) == pytest.approx(6.0206, abs=1e-4)
    assert received_level_db(100.0, 100.0) == pytest.approx(60)


def gain_db(kernel: Floats, lead: int, hz: Floats, sample_rate: int) -> Floats:
    """Decibels of a kernel's response, by its sum; checks that a symmetric one delays nothing."""
    time = (np.arange(len(kernel)) - lead) / sample_rate
    response = np.exp(-2j * np.pi * hz[:, None] * time) @ kernel
    assert np.abs(response.imag).max() < 1e-12
    return 20 * np.log10(np.abs(response.real))


IN_AIR: dict[str, Absorption] = {
    "mild": lambda hz: absorption_air(hz, 20, 50),
    "dry and cold": lambda hz: absorption_air(hz, -10, 10),
    "moist and warm": lambda hz: absorption_air(hz, 35, 90),
}


@pytest.mark.parametrize("air", IN_AIR)
@pytest.mark.parametrize(
    ("sample_rate", "distance_m"), [(2000, 2000.0), (16000, 5.0), (16000, 100.0), (48000, 300.0), (384000, 20.0)]
)
def test_absorption_kernel_has_the_response_asked_for(air: str, sample_rate: int, distance_m: float) -> None:
    """Within 0.1 dB wherever the loss is under 60 dB, on nobody's grid of frequencies; no louder beyond."""
    kernel = absorption_kernel(IN_AIR[air], distance_m, sample_rate)
    hz = np.linspace(0, sample_rate / 2, 211)
    loss_db = IN_AIR[air](hz) * distance_m
    got = gain_db(kernel, len(kernel) // 2, hz, sample_rate)

    assert np.array_equal(kernel, kernel[::-1])
    assert np.abs(got + loss_db)[loss_db < 60].max() < 0.1
    assert got[loss_db >= 60].max(initial=-60.0) < -59.9


def test_absorption_kernel_in_water() -> None:
    """The same of an underwater click at 192 kHz over a kilometre."""
    kernel = absorption_kernel(lambda hz: absorption_water(hz, 10, 35, 100, 8.0), 1000.0, 192000)
    hz = np.linspace(0, 96000, 401)
    loss_db = absorption_water(hz, 10, 35, 100, 8.0) * 1000

    assert gain_db(kernel, len(kernel) // 2, hz, 192000) == pytest.approx(-loss_db, abs=0.1)


def test_no_distance_is_no_filter() -> None:
    """Over 0 m a kernel is a unit impulse."""
    assert absorption_kernel(IN_AIR["mild"], 0.0, 16000).tolist() == [1.0]


def test_absorption_beyond_any_filter_is_refused() -> None:
    """A response that jumps can't be met to 0.05 dB by any length."""
    with pytest.raises(MixError, match="absorption over 1 m"):
        absorption_kernel(lambda hz: np.where(hz > 1001.7, 20.0, 0.0), 1.0, 16000)


def room(sample_rate: int, delay: int, rt60_s: float = 0.4, seed: int = 0) -> Floats:
    """A delayed impulse, a decaying tail, and a little noise before and after."""
    n = delay + round(2 * rt60_s * sample_rate)
    rng = np.random.default_rng(seed)
    time = np.maximum(np.arange(n) - delay, 0) / sample_rate
    tail = 0.05 * rng.standard_normal(n) * 10 ** (-3 * time / rt60_s)
    tail[:delay] = 1e-5 * rng.standard_normal(delay)
    tail[delay] = -0.7
    return tail


@pytest.mark.parametrize(("sample_rate", "delay"), [(8000, 0), (8000, 7), (16000, 500), (48000, 3000)])
def test_a_rooms_delay_is_removed_and_its_direct_sound_has_unit_energy(sample_rate: int, delay: int) -> None:
    """The peak is at the lead, at most 2.5 ms come before it, and those around it hold an energy of 1."""
    impulse = room(sample_rate, delay)
    kernel, lead = direct_and_tail(impulse, sample_rate)
    near = round(0.0025 * sample_rate)

    assert lead == min(delay, near)
    assert np.argmax(np.abs(kernel)) == lead
    assert kernel[lead] < 0
    assert np.sum(kernel[: lead + near + 1] ** 2) == pytest.approx(1)
    assert kernel / kernel[lead] == pytest.approx(impulse[delay - lead :][: len(kernel)] / impulse[delay])


def test_a_rooms_tail_ends_60_db_down() -> None:
    """What is cut holds a millionth of the energy, and one sample less would have held more."""
    impulse = room(16000, 300)
    kernel, lead = direct_and_tail(impulse, 16000)
    heard = impulse[300 - lead :]
    rest = [np.sum(heard[len(kernel) - less :] ** 2) / np.sum(heard**2) for less in (0, 1)]

    assert len(kernel) < len(heard)
    assert rest[0] <= 1e-6 < rest[1]


def test_a_silent_room_is_refused() -> None:
    """It has no direct sound."""
    with pytest.raises(MixError, match="silent"):
        direct_and_tail(np.zeros(100), 16000)


def test_the_shortest_rooms() -> None:
    """A single sample, whatever its size, is a unit impulse."""
    kernel, lead = direct_and_tail(np.array([-3e-4]), 16000)

    assert (kernel.tolist(), lead) == ([-1.0], 0)


def t30_s(tail: Floats, sample_rate: int) -> float:
    """RT60 by T30 (ISO 3382-1): a line through the Schroeder curve from -5 to -35 dB, times two."""
    curve_db = 10 * np.log10(np.cumsum(tail[::-1] ** 2)[::-1] / np.sum(tail**2))
    part = np.flatnonzero((curve_db <= -5) & (curve_db >= -35))
    slope = np.polyfit(part / sample_rate, curve_db[part], 1)[0]
    return float(-60 / slope)


@pytest.mark.parametrize("sample_rate", [16000, 48000])
@pytest.mark.parametrize(("rt60_s", "drr_db"), [(0.3, -5.0), (0.8, 0.0), (2.5, 12.0)])
def test_a_procedural_tail_has_its_decay_and_its_ratio(sample_rate: int, rt60_s: float, drr_db: float) -> None:
    """RT60 within 5 % for every event, direct over reverberant energy within 0.05 dB; nothing for 2.5 ms."""
    near = round(0.0025 * sample_rate)
    for event in range(6):
        kernel = procedural_tail(rt60_s, drr_db, sample_rate, 11, 2**40 + 3, event)
        tail = kernel[near + 1 :]

        assert kernel[0] == 1
        assert not kernel[1 : near + 1].any()
        assert -10 * np.log10(np.sum(tail**2)) == pytest.approx(drr_db, abs=1e-9)
        assert t30_s(tail, sample_rate) == pytest.approx(rt60_s, rel=0.05)


def test_procedural_tails_are_a_function_of_their_key() -> None:
    """The same again, in any order; another for any other seed, scene or event."""
    keys = [(seed, scene, event) for seed in (0, 2**64 - 1) for scene in (0, 2**40) for event in (0, 1, 2**24 - 1)]
    first = [procedural_tail(0.5, 3.0, 8000, *key) for key in keys]
    again = [procedural_tail(0.5, 3.0, 8000, *key) for key in reversed(keys)][::-1]
    tails = np.array(first)[:, 21:]
    likeness = np.corrcoef(tails * 10 ** (3 * np.arange(tails.shape[1]) / 4000))

    assert np.array_equal(first, again)
    assert np.abs(likeness - np.eye(len(keys))).max() < 0.08  # of 4000 independent numbers: 5 standard deviations


def test_the_shortest_procedural_tails() -> None:
    """A tail shorter than a sample still has its energy."""
    kernel = procedural_tail(1e-6, 0.0, 8000, 1, 1, 1)

    assert np.sum(kernel**2) == pytest.approx(2)


@given(n=st.integers(1, 60), m=st.integers(1, 60), lead=st.integers(0, 59), seed=st.integers(0, 1000))
@settings(max_examples=40)
def test_wet_is_a_direct_sum(n: int, m: int, lead: int, seed: int) -> None:
    """out[i + lead] = sum of call[i - k] kernel[k + lead], over all k, from the first sample that is not 0 on."""
    rng = np.random.default_rng(seed)
    lead = min(lead, m - 1)
    call, kernel = rng.standard_normal(n).astype(np.float32), rng.standard_normal(m)
    out, before = wet(call, kernel, lead)
    expected = [
        sum(float(call[i - k]) * kernel[k + lead] for k in range(-lead, m - lead) if 0 <= i - k < n)
        for i in range(-lead, n + m - 1 - lead)
    ]

    assert before == lead
    assert out.dtype == np.float32
    assert out == pytest.approx(expected, abs=2e-6)


def test_long_calls_in_long_rooms_are_a_direct_sum_too() -> None:
    """Where the transform works in blocks: against NumPy's plain sum."""
    rng = np.random.default_rng(5)
    call, kernel = rng.standard_normal(30000).astype(np.float32), rng.standard_normal(700)
    out, _ = wet(call, kernel, 3)

    assert np.abs(out - np.convolve(call.astype(np.float64), kernel)).max() < 1e-5


def test_a_dry_call_stays_as_it_is() -> None:
    """Through a unit impulse nothing changes, not even by rounding of the transform."""
    call = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    out, lead = wet(call, np.array([1.0]), 0)

    assert lead == 0
    assert np.array_equal(out, call)


def test_two_kernels_are_one() -> None:
    """Absorption and then a room is what their combination does, at the same time."""
    call = np.random.default_rng(2).standard_normal(800).astype(np.float32)
    absorbed = absorption_kernel(IN_AIR["mild"], 60.0, 16000)
    reverberant, lead = direct_and_tail(room(16000, 100, 0.1), 16000)
    both, both_lead = combine(absorbed, len(absorbed) // 2, reverberant, lead)
    once, before = wet(call, both, both_lead)
    first, _ = wet(call, absorbed, len(absorbed) // 2)
    second, _ = wet(first, reverberant, lead)

    assert before == both_lead == len(absorbed) // 2 + lead
    assert once == pytest.approx(second, abs=1e-5)


def test_a_tone_over_100_m() -> None:
    """10 kHz, 100 dB re 20 uPa at 1 m, through 100 m of air at 20 °C and 80 %: 100 - 40 - 10.5 dB.

    10.5 dB are 105 dB/km of ISO 9613-1's table 1 (to 0.5 %, so to 0.05 dB).
    """
    rate = 48000
    pascal = 20e-6 * 10 ** (received_level_db(100.0, 100.0) / 20) * np.sqrt(2)
    tone = (pascal * np.sin(2 * np.pi * 1e4 * np.arange(rate // 2) / rate)).astype(np.float32)
    kernel = absorption_kernel(lambda hz: absorption_air(hz, 20, 80), 100.0, rate)
    arrived, lead = wet(tone, kernel, len(kernel) // 2)
    middle = arrived[lead + 9600 : lead + 14400].astype(np.float64)
    level_db = 20 * np.log10(np.sqrt(np.mean(middle**2)) / 20e-6)

    assert level_db == pytest.approx(100 - 40 - 10.5, abs=0.1)
