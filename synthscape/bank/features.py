"""What is known about a clip from its samples: active part, band, levels.

Everything is measured on what is stored (after conditioning, peak-normalised), so a mixer that reads the store meets
the same numbers. All definitions hold for clips of one sample and more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt
from scipy.stats import chi2

from synthscape.bank.conditioning import reflected
from synthscape.bank.loudness import loudness_lufs
from synthscape.units import seconds_to_samples
from synthscape_kernels.ratios import GRID_P, GRID_Q

Float64Array = NDArray[np.float64]

ENVELOPE_S: Final = 0.005
MIN_RUN_S: Final = 0.010
MIN_FLOOR_S: Final = 0.020
FLOOR_PERCENTILE: Final = 10
BAND_ENERGY: Final = 0.95
SILENT_DBFS: Final = -90.0

_LAGS_PER_SAMPLE: Final = 4
_MIN_FILTER_HZ: Final = 800.0
_PADDING_S: Final = 0.05
_PIECE: Final = 2**20
_MAX_FRAME_S: Final = 0.032
_NOISE_QUANTILE: Final = 0.2
_NOISE_RATIO: Final = 2.5  # a bin whose mean is not this much above its noise holds noise only
_LEAST_EXCESS: Final = 1e-6  # of the energy; less is rounding
_TINY: Final = 1e-30


@dataclass(frozen=True)
class Active:
    """The active part [start, end) of a clip, samples; ``duty`` is the share of it above the threshold."""

    start: int
    end: int
    duty: float


@dataclass(frozen=True)
class Band:
    """The clip's own band in Hz, where its spectrum peaks, and whether there was noise to measure it against."""

    low_hz: float
    high_hz: float
    peak_hz: float
    has_noise: bool


def call_features(samples: NDArray[np.float32], sample_rate: int) -> dict[str, Any]:
    """Columns of a call, by name; None where there is nothing to measure.

    - ``low_hz, high_hz``: see :func:`own_band`. ``active_start, active_end, duty``: see :func:`active_part`.
    - ``peak_hz``: the strongest bin of the spectrum above the noise.
    - ``energy_q25``: the first position by which a quarter of the active part's energy has passed; ``energy_q75``: the
      last by which no more than three quarters have. So a cut at c keeps at least a quarter of the energy if and only
      if c >= q25 (what lies before is kept) or c <= q75 (what lies behind is kept). Samples in the clip.
    - ``rms_db``: 20 log10 RMS over the active part, re full scale of the store.
    - ``lufs``: see :func:`loudness`, over the active part.
    - ``signal_share``: k = clamp(1 - P_floor / P, 0.1, 1), P the mean square over the active part, P_floor outside it;
      1 if less than 20 ms lie outside. ``clip_snr_db``: 10 log10(k P / P_floor), None if there is no floor.
    - ``band_fraction``: share of the active part's energy inside low_hz..high_hz.
    - ``bandwidth_hz``: see :func:`effective_bandwidth_hz`. ``f0_hz``: see :func:`fundamental_hz`.
    - ``min_ratio_index``: see :func:`min_ratio_index`, over the active part.

    Args:
        samples: float32 [length], stored values.
        sample_rate: Hz.
    """
    band = own_band(samples, sample_rate)
    active = active_part(samples, sample_rate, band)
    part = samples[active.start : active.end].astype(np.float64)
    power = float(np.mean(part**2))
    passed = np.cumsum(part**2)
    spectrum, bin_hz = _power_spectrum(part, sample_rate)
    return {
        "active_start": active.start,
        "active_end": active.end,
        "duty": round(active.duty, 6),
        "energy_q25": active.start + 1 + int(np.searchsorted(passed, passed[-1] * 0.25)),
        "energy_q75": active.start + int(np.searchsorted(passed, passed[-1] * 0.75, side="right")),
        "rms_db": _db(power),
        "lufs": loudness(part, sample_rate),
        "low_hz": round(band.low_hz, 3),
        "high_hz": round(band.high_hz, 3),
        "peak_hz": round(band.peak_hz, 3),
        "band_fraction": round(_share_between(spectrum, bin_hz, sample_rate, band.low_hz, band.high_hz), 6),
        "bandwidth_hz": effective_bandwidth_hz(samples, sample_rate),
        "f0_hz": fundamental_hz(part, sample_rate, band),
        "min_ratio_index": min_ratio_index(spectrum, bin_hz, sample_rate),
        **_signal_share(samples, active, power, sample_rate),
    }


def background_features(samples: NDArray[np.float32], sample_rate: int) -> dict[str, Any]:
    """Columns of a background or an impulse response: its level and bandwidth, over the whole clip."""
    power = float(np.mean(np.square(samples, dtype=np.float64)))
    return {
        "rms_db": _db(power),
        "lufs": loudness(samples, sample_rate),
        "bandwidth_hz": effective_bandwidth_hz(samples, sample_rate),
    }


def own_band(samples: NDArray[np.float32], sample_rate: int) -> Band:
    """The band that holds the call: the middle 95 % of the energy above the clip's own noise spectrum.

    Power is averaged over half-overlapping Hann frames (a power of two samples, at most 32 ms, at most an eighth of the
    clip). The noise of a bin (with its two neighbours) is the 20 % quantile over frames, divided by what that quantile
    of Gaussian noise is to its mean (chi-square of 3 degrees: between one bin and three free ones). Energy above noise
    is counted in bins whose mean is over 2.5 times their noise. Without any such bin there is no noise to measure - the
    call fills the clip - and plain energy counts.
    """
    powers, bin_hz = _frames(samples, sample_rate)
    mean = powers.mean(axis=0)
    excess = np.zeros_like(mean)
    if len(powers) >= 8:
        # three neighbours together, as a single bin of few frames is a poor estimate
        smooth = _three(powers)
        noise = np.quantile(smooth, _NOISE_QUANTILE, axis=0) / _quantile_ratio(_NOISE_QUANTILE, 3.0)
        clear = _three(mean[None])[0] > _NOISE_RATIO * noise
        excess = np.where(clear, np.maximum(mean - noise, 0.0), 0.0)
    has_noise = float(excess.sum()) > _LEAST_EXCESS * float(mean.sum())
    spectrum = excess if has_noise else mean
    tail = (1 - BAND_ENERGY) / 2
    low, high = (_energy_quantile(spectrum, bin_hz, sample_rate, share) for share in (tail, 1 - tail))
    return Band(low, high, float(np.argmax(spectrum)) * bin_hz, has_noise)


def active_part(samples: NDArray[np.float32], sample_rate: int, band: Band) -> Active:
    """Where the call is: one half-open interval from the first to the last run of its envelope above a threshold.

    The clip is filtered to its band (Butterworth of order 4, zero phase, at least a third octave and 800 Hz wide). Its
    RMS in a centred window of 5 ms must be above clamp(floor + 6 dB, peak - 30 dB, peak - 6 dB). Runs of 10 ms or less
    don't count, unless there are no longer ones, or they are a train: three or more that, without the strongest of
    them, hold more energy than the longer runs. So one loud click isn't a call, and pulses are.

    The floor is the level of the noise whose envelope has this 10th percentile. In 5 ms of a band of B Hz, noise has
    about 2 x 0.005 x B independent values, so its envelope scatters (chi-square), and its 10th percentile is 3 to 5 dB
    under its level where the band is narrow: 6 dB above the percentile itself would still be noise.
    """
    low, high = _filter_edges(band)
    envelope = _rms_envelope(_filtered(samples, sample_rate, low, high, band.has_noise), sample_rate)
    peak = float(envelope.max())
    if peak < _TINY:
        return Active(0, len(samples), 1.0)
    degrees = max(1.0, round(2 * ENVELOPE_S * (min(high, sample_rate / 2) - low), 1))
    floor = float(np.percentile(envelope, FLOOR_PERCENTILE)) / math.sqrt(
        _quantile_ratio(FLOOR_PERCENTILE / 100, degrees)
    )
    threshold = min(max(floor * 10 ** (6 / 20), peak * 10 ** (-30 / 20)), peak * 10 ** (-6 / 20))
    above = envelope > threshold
    edges = np.flatnonzero(np.diff(np.concatenate([[False], above, [False]])))
    starts, ends = edges[::2], edges[1::2]
    # as long as it is within 12 dB of its own peak, so that a loud click does not count for what it rings in the filter
    loud = [np.count_nonzero(envelope[a:b] > envelope[a:b].max() / 4) for a, b in zip(starts, ends, strict=True)]
    long = np.array(loud) > MIN_RUN_S * sample_rate
    if long.any():
        energy = np.array([float(np.sum(envelope[a:b] ** 2)) for a, b in zip(starts, ends, strict=True)])
        short = np.sort(energy[~long])
        is_train = len(short) >= 3 and short[:-1].sum() > energy[long].sum()
        if not is_train:
            starts, ends = starts[long], ends[long]
    start, end = int(starts[0]), int(ends[-1])
    return Active(start, end, float(np.mean(above[start:end])))


def loudness(samples: NDArray[np.floating[Any]], sample_rate: int) -> float | None:
    """Integrated loudness, LUFS, see :func:`synthscape.bank.loudness.loudness_lufs`; None for silence."""
    lufs = loudness_lufs(samples, sample_rate)
    return round(lufs, 4) if math.isfinite(lufs) else None


def effective_bandwidth_hz(samples: NDArray[np.float32], sample_rate: int) -> float:
    """The highest frequency that holds anything: where MP3 and upsampling have cut, this stays under Nyquist.

    The mean spectrum in steps of about 200 Hz must be over 80 dB below its peak, or less than 6 dB above the store's
    own rounding noise, from there on up.
    """
    # in pieces, as a background may last for hours
    pieces = [samples[first : first + _PIECE] for first in range(0, len(samples), _PIECE)]
    if len(pieces) > 1 and len(pieces[-1]) < _PIECE // 2:
        pieces.pop()
    total, n_frames, bin_hz = np.zeros(1), 0, 1.0
    for piece in pieces:
        powers, bin_hz = _frames(piece, sample_rate)
        total, n_frames = total + powers.sum(axis=0), n_frames + len(powers)
    mean = total / n_frames
    width = max(1, round(200 / bin_hz))
    steps = np.add.reduceat(mean, np.arange(0, len(mean), width))
    rounding = (1 / 32768) ** 2 / 12 * width / max(1, len(mean) - 1)
    used = np.flatnonzero(steps > max(steps.max() * 1e-8, 4 * rounding))
    last = (used[-1] + 1) * width - 0.5 if len(used) else 0.0
    return round(float(min(last * bin_hz, sample_rate / 2)), 3)


def fundamental_hz(part: Float64Array, sample_rate: int, band: Band) -> float | None:
    """Fundamental frequency of a tonal call, or None.

    By the autocorrelation of Hann frames of 32 ms, divided by the window's (Boersma 1993): the shortest lag whose
    peak is within 10 % of the highest. A frame is tonal if that peak is over 0.8; the call is, if frames with half of
    the energy are; the result is their median, moved to the spectral peak within 6 % of it.
    """
    size = min(len(part), seconds_to_samples(_MAX_FRAME_S, sample_rate))
    if size < 32:
        return None
    first = np.unique(np.linspace(0, len(part) - size, min(64, 1 + 2 * (len(part) - size) // size)).astype(np.int64))
    frames = np.lib.stride_tricks.sliding_window_view(part, size)[first]
    window = np.hanning(size + 2)[1:-1]
    energy = np.sum(frames**2, axis=1)
    n_fft = scipy.fft.next_fast_len(2 * size, real=True)
    power = np.abs(scipy.fft.rfft(frames * window, n_fft, axis=1)) ** 2
    # four points a sample, as a period may be hardly longer than one
    lags = _LAGS_PER_SAMPLE * (size // 2)
    correlation = scipy.fft.irfft(power, _LAGS_PER_SAMPLE * n_fft, axis=1)[:, :lags]
    window_power = np.abs(scipy.fft.rfft(window, n_fft)) ** 2
    own = scipy.fft.irfft(window_power, _LAGS_PER_SAMPLE * n_fft)[:lags]
    correlation = correlation / np.maximum(correlation[:, :1], _TINY) / (own / own[0])
    middle = correlation[:, 1:-1]
    peaks = np.where((middle >= correlation[:, :-2]) & (middle > correlation[:, 2:]), middle, 0.0)
    height = peaks.max(axis=1)
    tonal = height > 0.8
    if energy[tonal].sum() < energy.sum() / 2:
        return None
    lag = 1 + np.argmax(peaks[tonal] >= 0.9 * height[tonal, None], axis=1)
    rows = np.flatnonzero(tonal)
    before, at, after = (correlation[rows, lag + step] for step in (-1, 0, 1))
    shift = 0.5 * (before - after) / np.minimum(before - 2 * at + after, -_TINY)
    rough = float(np.median(_LAGS_PER_SAMPLE * sample_rate / (lag + shift)))
    # lags are coarse where calls are high: take the spectral peak near the estimate, if there is one
    spectrum = power[rows].mean(axis=0)
    near = np.arange(max(1, int(rough * 0.94 * n_fft / sample_rate)), int(rough * 1.06 * n_fft / sample_rate) + 2)
    near = near[near < len(spectrum) - 1]
    if len(near) > 2:
        top = int(near[np.argmax(spectrum[near])])
        a, b, c = np.log(np.maximum(spectrum[top - 1 : top + 2], _TINY))
        if b >= a and b > c:
            return round(float((top + 0.5 * (a - c) / (a - 2 * b + c)) * sample_rate / n_fft), 3)
    return round(rough, 3)


def min_ratio_index(spectrum: Float64Array, bin_hz: float, sample_rate: int) -> int | None:
    """Index of the lowest ratio of the grid that keeps 80 % of the energy under 0.9 Nyquist; all above it do too."""
    edge_hz = _energy_quantile(spectrum, bin_hz, sample_rate, 0.8)
    fits = np.flatnonzero(0.45 * sample_rate * GRID_P >= edge_hz * GRID_Q)
    return int(fits[0]) if len(fits) else None


def loudest_block_dbfs(samples: NDArray[np.float32], sample_rate: int) -> float:
    """20 log10 RMS of the loudest 50 ms (whole blocks from the start; the last may be shorter), -300 for zeros."""
    size = min(len(samples), max(1, seconds_to_samples(0.05, sample_rate)))
    power = np.add.reduceat(np.square(samples, dtype=np.float64), np.arange(0, len(samples), size)) / size
    return 10 * math.log10(max(float(power.max()), _TINY))


def _signal_share(
    samples: NDArray[np.float32], active: Active, power: float, sample_rate: int
) -> dict[str, float | None]:
    outside = np.concatenate([samples[: active.start], samples[active.end :]]).astype(np.float64)
    if len(outside) < MIN_FLOOR_S * sample_rate:
        return {"clip_snr_db": None, "signal_share": 1.0}
    floor = float(np.mean(outside**2))
    share = min(max(1 - floor / power, 0.1), 1.0)
    snr_db = round(10 * math.log10(share * power / floor), 4) if floor > 0 else None
    return {"clip_snr_db": snr_db, "signal_share": round(share, 6)}


def _filter_edges(band: Band) -> tuple[float, float]:
    low, high = band.low_hz, band.high_hz
    if high < low * 2 ** (1 / 3):
        centre = math.sqrt(low * high)
        low, high = centre * 2 ** (-1 / 6), centre * 2 ** (1 / 6)
    missing = _MIN_FILTER_HZ - (high - low)
    if missing > 0:
        # A narrower filter rings for longer than the 5 ms that the edges are to be known by. It is widened downwards
        # by a third octave at most: that is where hum lies.
        low = max(low - missing / 2, low * 2 ** (-1 / 3))
        high = max(high, low + _MIN_FILTER_HZ)
    return low, high


def _filtered(samples: NDArray[np.float32], sample_rate: int, low: float, high: float, has_noise: bool) -> Float64Array:
    exact = samples.astype(np.float64)
    nyquist = sample_rate / 2
    has_low, has_high = low > nyquist * 1e-3, high < nyquist * 0.99
    if has_low and has_high:
        sos = butter(4, [low, high], "bandpass", fs=sample_rate, output="sos")
    elif has_low and low < nyquist * 0.99:
        sos = butter(4, low, "highpass", fs=sample_rate, output="sos")
    elif has_high:
        sos = butter(4, high, "lowpass", fs=sample_rate, output="sos")
    else:
        return exact
    padding = seconds_to_samples(_PADDING_S, sample_rate)
    before = after = np.zeros(padding)  # a bare call ends at its edges, and a reflection could cancel it there
    if has_noise:
        # hum is slow here: its level in a millisecond, robust to a click
        few = max(1, seconds_to_samples(0.001, sample_rate))
        before, after = reflected(exact, padding, float(np.median(exact[:few])), float(np.median(exact[-few:])))
    filtered: Float64Array = sosfiltfilt(sos, np.concatenate([before, exact, after]), padtype=None)
    return filtered[len(before) : len(before) + len(exact)]


def _rms_envelope(samples: Float64Array, sample_rate: int) -> Float64Array:
    half = seconds_to_samples(ENVELOPE_S / 2, sample_rate)
    passed = np.concatenate([[0.0], np.cumsum(samples**2)])
    centre = np.arange(len(samples))
    first, last = np.maximum(centre - half, 0), np.minimum(centre + half + 1, len(samples))
    # differences of a running sum may come out a hair below zero
    power: Float64Array = np.maximum(passed[last] - passed[first], 0.0) / (last - first)
    return np.sqrt(power)


def _frame_size(n_samples: int, sample_rate: int) -> int:
    longest = 2 ** int(math.log2(max(2.0, _MAX_FRAME_S * sample_rate)))
    size = 2 ** int(math.log2(max(1, n_samples // 8))) if n_samples >= 16 else 0
    return min(size, longest) if size >= 64 else n_samples


def _frames(samples: NDArray[np.float32], sample_rate: int) -> tuple[Float64Array, float]:
    # Power of Hann frames, [frames, bins], one-sided, scaled so that the mean over frames sums to the mean square; and
    # the width of a bin. A clip too short for frames is one frame without a window.
    size = _frame_size(len(samples), sample_rate)
    if size == len(samples):
        spectrum = scipy.fft.rfft(samples.astype(np.float64))[None]
        window_energy = float(size)
    else:
        window = np.hanning(size + 1)[:-1]
        frames = np.lib.stride_tricks.sliding_window_view(samples, size)[:: size // 2]
        spectrum = scipy.fft.rfft(frames * window, axis=1)
        window_energy = float(np.sum(window**2))
    power: Float64Array = spectrum.real**2 + spectrum.imag**2
    power[:, 1 : (size + 1) // 2] *= 2
    return power / (window_energy * size), sample_rate / size


def _power_spectrum(part: Float64Array, sample_rate: int) -> tuple[Float64Array, float]:
    # Parseval's: sums to the energy of the part.
    power: Float64Array = np.abs(scipy.fft.rfft(part)) ** 2 / len(part)
    power[1 : (len(part) + 1) // 2] *= 2
    return power, sample_rate / len(part)


def _three(powers: Float64Array) -> Float64Array:
    padded = np.pad(powers, ((0, 0), (1, 1)), mode="edge")
    three: Float64Array = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    return three


@lru_cache(maxsize=1024)
def _quantile_ratio(quantile: float, degrees: float) -> float:
    # a quantile of the mean power of Gaussian noise, as a share of its mean
    return float(chi2.ppf(quantile, degrees)) / degrees


def _edges(spectrum: Float64Array, bin_hz: float, sample_rate: int) -> Float64Array:
    # bins are one bin wide around their frequency, the first and last cut at 0 and Nyquist
    edges: Float64Array = (np.arange(len(spectrum) + 1, dtype=np.float64) - 0.5) * bin_hz
    edges[0], edges[-1] = 0.0, sample_rate / 2
    return edges


def _energy_quantile(spectrum: Float64Array, bin_hz: float, sample_rate: int, share: float) -> float:
    passed = np.concatenate([[0.0], np.cumsum(spectrum)])
    return float(np.interp(share * passed[-1], passed, _edges(spectrum, bin_hz, sample_rate)))


def _share_between(spectrum: Float64Array, bin_hz: float, sample_rate: int, low_hz: float, high_hz: float) -> float:
    passed = np.concatenate([[0.0], np.cumsum(spectrum)])
    below_low, below_high = np.interp([low_hz, high_hz], _edges(spectrum, bin_hz, sample_rate), passed)
    return float((below_high - below_low) / passed[-1]) if passed[-1] > 0 else 1.0


def _db(power: float) -> float:
    return round(10 * math.log10(power), 4)
