"""Sound on its way from the animal to the microphone: spreading, absorption, rooms.

Kernels are float64 arrays with a *lead*: the sample of the kernel that is time 0. Convolved with one, a call's sample i
comes out at index i + lead, so the direct sound stays where the dry call was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synthscape.errors import MixError
from synthscape.units import seconds_to_samples
from synthscape_kernels.noise import NUMBERS_PER_STREAM, TAIL, decay, gaussian
from synthscape_kernels.strict_math import exp

Float64Array = NDArray[np.float64]
Absorption = Callable[[Float64Array], Float64Array]  # Hz to dB per metre

DIRECT_S: Final = 0.0025  # the direct sound lies this close to its peak, before and after
TAIL_END_DB: Final = 60.0
KERNEL_ERROR_DB: Final = 0.05
KERNEL_FLOOR_DB: Final = 60.0
_MAX_GRID: Final = 2**22
_LN_10: Final = 2.302585092994046


def spreading_db(distance_m: float) -> float:
    """Loss by spherical spreading, dB re 1 m: 20 log10(distance).

    Negative under 1 m, where few animals are points; the planner refuses distances that are too short.
    """
    return 20.0 * math.log10(distance_m)


def received_level_db(source_level_db: float, distance_m: float) -> float:
    """Level at a distance before absorption, which is in the kernel: source level (at 1 m) less spreading."""
    return source_level_db - spreading_db(distance_m)


def absorption_air(
    freq_hz: Float64Array | float, temperature_c: float, humidity_percent: float, pressure_kpa: float = 101.325
) -> Float64Array:
    """Absorption of a pure tone in air, dB/m, by ISO 9613-1:1993, equations 3 to 5 and B.1 to B.3.

    The standard claims 10 % for -20 to 50 °C, 0.05 to 5 % water vapour by molecules, under 2 atmospheres and
    4e-4 to 10 Hz/Pa (40 Hz to 1 MHz at sea level).

    Args:
        freq_hz: float64 [...], 0 and more.
        temperature_c: °C.
        humidity_percent: relative humidity.
        pressure_kpa: ambient pressure.

    Returns:
        float64 [...].
    """
    f2 = np.square(np.asarray(freq_hz, dtype=np.float64))
    kelvin = temperature_c + 273.15
    warmth = kelvin / 293.15
    pressure = pressure_kpa / 101.325
    saturation = 10 ** (4.6151 - 6.8346 * (273.16 / kelvin) ** 1.261)  # of water vapour, re 101.325 kPa
    vapour = humidity_percent * saturation / pressure  # percent of the molecules
    oxygen_hz = pressure * (24 + 4.04e4 * vapour * (0.02 + vapour) / (0.391 + vapour))
    nitrogen_hz = pressure * warmth**-0.5 * (9 + 280 * vapour * math.exp(-4.170 * (warmth ** (-1 / 3) - 1)))
    classical = 1.84e-11 / pressure * warmth**0.5
    oxygen = 0.01275 * math.exp(-2239.1 / kelvin) / (oxygen_hz + f2 / oxygen_hz)
    nitrogen = 0.1068 * math.exp(-3352.0 / kelvin) / (nitrogen_hz + f2 / nitrogen_hz)
    absorption: Float64Array = 8.686 * f2 * (classical + warmth**-2.5 * (oxygen + nitrogen))
    return absorption


def absorption_water(
    freq_hz: Float64Array | float, temperature_c: float, salinity_ppt: float, depth_m: float, ph: float = 8.0
) -> Float64Array:
    """Absorption in sea water, dB/m: Ainslie & McColm 1998, J. Acoust. Soc. Am. 103(3), 1671-1672.

    Boric acid, magnesium sulphate and viscosity; within 10 % of Francois & Garrison 1982 from 100 Hz to 1 MHz, -6 to
    35 °C, 5 to 50 ppt, 0 to 7 km and pH 7.7 to 8.3. In fresh water (0 ppt) only viscosity is left.

    Args:
        freq_hz: float64 [...], 0 and more.
        temperature_c: °C.
        salinity_ppt: parts per thousand.
        depth_m: m.
        ph: acidity.

    Returns:
        float64 [...].
    """
    f2 = np.square(np.asarray(freq_hz, dtype=np.float64) / 1000)  # kHz
    saltiness, depth_km = salinity_ppt / 35, depth_m / 1000
    boric_khz = 0.78 * math.sqrt(saltiness) * math.exp(temperature_c / 26)
    sulphate_khz = 42 * math.exp(temperature_c / 17)
    boric = 0.106 * math.exp((ph - 8) / 0.56) * boric_khz / (f2 + boric_khz**2) if salinity_ppt > 0 else 0.0
    sulphate = 0.52 * (1 + temperature_c / 43) * saltiness * math.exp(-depth_km / 6) * sulphate_khz
    viscous = 0.00049 * math.exp(-(temperature_c / 27 + depth_km / 17))
    absorption: Float64Array = f2 * (boric + sulphate / (f2 + sulphate_khz**2) + viscous) / 1000
    return absorption


def absorption_kernel(absorption: Absorption, distance_m: float, sample_rate: int) -> Float64Array:
    """A symmetric FIR filter with the magnitude 10**(-absorption(f) distance / 20) at every frequency.

    Its middle is time 0 (lead = length // 2): absorption delays nothing here. Where the SNR fixes the level of what
    arrives, only the tilt is left of it.
    The length follows from the response: what is cut off at the ends, and what the sampling of the spectrum folds back,
    can change it by 0.05 dB at most where it is down by up to 60 dB (and by no more than it would there, below).

    Args:
        absorption: dB/m at float64 [n] Hz, as ``lambda hz: absorption_air(hz, 20, 50)``.
        distance_m: m, 0 or more.
        sample_rate: Hz.

    Returns:
        float64 [2 n + 1].

    Raises:
        MixError: the response changes too fast over frequency for four million taps.
    """
    import scipy.fft  # which takes 0.1 s to import, and few renders need it

    n = 256
    while n <= _MAX_GRID:
        loss_db = absorption(np.arange(n // 2 + 1, dtype=np.float64) * (sample_rate / n)) * distance_m
        magnitude = 10 ** (-loss_db / 20)
        half = scipy.fft.irfft(magnitude, n)[: n // 2 + 1]
        allowed = max(float(magnitude.min()), 10 ** (-KERNEL_FLOOR_DB / 20)) * (10 ** (KERNEL_ERROR_DB / 20) - 1)
        outside = 2 * np.cumsum(np.abs(half[::-1]))[::-1]  # from tap i on, on both sides
        needed = int(np.argmax(outside <= allowed / 2)) if outside[-1] <= allowed / 2 else n
        if needed <= n // 4:  # so the taps that this grid folds back are few and small
            side = half[1 : max(needed, 1)]
            return np.concatenate([side[::-1], half[:1], side])
        n *= 2
    raise MixError(f"absorption over {distance_m:g} m changes too fast over frequency for a filter at {sample_rate} Hz")


def direct_and_tail(impulse: Float64Array, sample_rate: int) -> tuple[Float64Array, int]:
    """An impulse response as a kernel: (float64 [m], lead).

    The direct sound is what lies within 2.5 ms of the largest magnitude (its first, if several are equal), as in
    Bryan 2020, "Impulse response data augmentation ... for blind room acoustic parameter estimation", eq. 1. What comes
    before it is delay and noise, and is cut. The kernel is scaled to a direct sound of unit energy: levels are those
    of the dry call, plus the room. The tail ends where the energy still to come (Schroeder 1965) is 60 dB under the
    whole. ``lead`` is the sample of the largest magnitude.

    Args:
        impulse: float64 [n].
        sample_rate: Hz.

    Raises:
        MixError: the impulse response is silent.
    """
    peak = int(np.argmax(np.abs(impulse)))
    if impulse[peak] == 0:
        raise MixError(f"an impulse response is silent: all of its {len(impulse)} samples are 0; exclude it")
    near = seconds_to_samples(DIRECT_S, sample_rate)
    start, direct_end = max(peak - near, 0), min(peak + near + 1, len(impulse))
    heard = np.asarray(impulse[start:], dtype=np.float64)
    to_come = np.cumsum(np.square(heard)[::-1])[::-1]
    end = max(int(np.count_nonzero(to_come > to_come[0] * 10 ** (-TAIL_END_DB / 10))), direct_end - start)
    direct_energy = float(np.sum(np.square(heard[: direct_end - start])))
    return heard[:end] / math.sqrt(direct_energy), peak - start


def procedural_tail(
    rt60_s: float, direct_to_reverberant_db: float, sample_rate: int, seed: int, scene: int, event: int
) -> Float64Array:
    """A room no one measured: a unit impulse at 0, and from 2.5 ms on Gaussian noise that decays by 60 dB in RT60.

    Polack 1988's model. The tail lasts RT60; its energy is exactly that of the direct sound less the
    direct-to-reverberant ratio. The same on every machine; lead is 0.

    Args:
        rt60_s: s, above 0.
        direct_to_reverberant_db: energy of the direct sound over that of the tail.
        sample_rate: Hz.
        seed, scene, event: what the noise depends on; event is 0 to 2**24 - 1.

    Returns:
        float64 [m].
    """
    start = seconds_to_samples(DIRECT_S, sample_rate) + 1
    kernel = np.zeros(start + max(1, seconds_to_samples(rt60_s, sample_rate)))
    kernel[0] = 1.0
    tail = kernel[start:]
    gaussian(np.uint64(seed), np.int64(TAIL + NUMBERS_PER_STREAM * event), np.int64(scene), tail)
    decay(tail, float(rt60_s * sample_rate), float(exp(-direct_to_reverberant_db * _LN_10 / 10)))
    return kernel


def combine(first: Float64Array, first_lead: int, second: Float64Array, second_lead: int) -> tuple[Float64Array, int]:
    """Two kernels one after the other, as one: (float64 [n + m - 1], lead)."""
    return _convolved(first, second), first_lead + second_lead


def wet(call: NDArray[np.float32], kernel: Float64Array, lead: int) -> tuple[NDArray[np.float32], int]:
    """A call as it arrives: linear convolution in float64; (float32 [n + m - 1], samples before the call's first).

    Args:
        call: float32 [n].
        kernel: float64 [m].
        lead: the kernel's sample that is time 0.
    """
    return _convolved(call.astype(np.float64), kernel).astype(np.float32), lead


def _convolved(x: Float64Array, y: Float64Array) -> Float64Array:
    from scipy.signal import oaconvolve  # which takes a second to import, and few renders need it

    z: Float64Array = oaconvolve(x, y)
    return z
