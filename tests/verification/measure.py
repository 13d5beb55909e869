"""Onsets, offsets, levels and SNRs measured on float32 stems: NumPy and SciPy only, nothing of synthscape.

Every definition is written down here a second time, from the design and not from the code, in the plainest way there
is. What a label says is right if this says the same.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import scipy.signal
from blake3 import blake3
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PEAK_LIMIT = 10 ** (-1 / 20)
AUDIBLE_S = 0.02


def db(power: float) -> float:
    """Decibels of a power; -inf of nothing."""
    return 10 * float(np.log10(power)) if power > 0 else -np.inf


def floor_of(x: Fraction) -> int:
    """The whole number at or below."""
    return x.numerator // x.denominator


def ceil_of(x: Fraction) -> int:
    """The whole number at or above."""
    return -(-x.numerator // x.denominator)


def band_energy(x: NDArray[Any], rate: int, low_hz: float, high_hz: float) -> float:
    """Energy of samples in a band, from their DFT: bins but 0 and Nyquist count twice, for their negative frequency."""
    n = len(x)
    nearest = [int(np.floor(hz * n / rate + 0.5)) for hz in (low_hz, high_hz)]
    first, last = (min(bin_, n // 2) for bin_ in nearest)
    power = np.abs(np.fft.rfft(x.astype(np.float64))) ** 2 / n
    twice = np.arange(first, last + 1) % n * 2 % n != 0  # has a partner at the negative frequency
    return float((power[first : last + 1] * (1 + twice)).sum())


def reference_band(low_hz: float, high_hz: float, ratio: Fraction, rate: int) -> tuple[float, float]:
    """A clip's band as played: frequencies divided by the ratio, a third octave at least, up to Nyquist."""
    low, high = low_hz / float(ratio), high_hz / float(ratio)
    if high < low * 2 ** (1 / 3):
        centre = (low * high) ** 0.5
        low, high = centre * 2 ** (-1 / 6), centre * 2 ** (1 / 6)
    return min(low, rate / 2), min(high, rate / 2)


def measure_events(
    events: pd.DataFrame,
    scenes: pd.DataFrame,
    clips: pd.DataFrame,
    stems: NDArray[np.float32],
    background: NDArray[np.float32],
    rate: int,
    *,
    subtract_noise: bool = True,
    audible_db: float = 0.0,
) -> pd.DataFrame:
    """What should stand in the events table, a row an event.

    Of the labels only what can't be measured is believed: which clip, where its first sample lies, ratio and direction.

    Args:
        events, scenes: the tables under test.
        clips: the bank's table.
        stems: float32 [events, samples], before the scene gain, in the order of ``events``.
        background: float32 [scenes, samples], before the scene gain, in the order of ``scenes``.
        rate: Hz.
        subtract_noise: the clip's own noise is not signal.
        audible_db: band SNR from which an event is audible.
    """
    bank = {clip["clip_id"]: clip for clip in clips.to_dict("records")}
    lengths = scenes["n_samples"].tolist()
    whole_power = [float(np.mean(row[:n].astype(np.float64) ** 2)) for row, n in zip(background, lengths, strict=True)]
    scene_at = {name: i for i, name in enumerate(scenes["scene_id"])}
    rows = []
    for e, event in enumerate(events.to_dict("records")):
        clip = bank[event["clip_id"]]
        i = scene_at[event["scene_id"]]
        n = lengths[i]
        ratio = Fraction(event["resample"])
        length = int(clip["length"])
        a, b = int(clip["active_start"]), int(clip["active_end"])
        if event["reversed"]:
            a, b = length - b, length - a
        first = int(event["clip_onset"])
        whole_onset, whole_offset = first + floor_of(a * ratio), first + ceil_of(b * ratio)
        onset, offset = max(whole_onset, 0), min(whole_offset, n)
        stem, noise = stems[e, :n], background[i, :n]
        call, behind = stem[onset:offset].astype(np.float64), noise[onset:offset].astype(np.float64)
        k = float(clip["signal_share"]) if subtract_noise and pd.notna(clip["signal_share"]) else 1.0
        low, high = reference_band(float(clip["low_hz"]), float(clip["high_hz"]), ratio, rate)
        signal = {"scene": k * np.sum(call**2), "band": k * band_energy(call, rate, low, high)}
        signal["local"] = signal["scene"]
        heard = offset - onset
        masking = {
            "scene": whole_power[i] * heard,
            "local": np.sum(behind**2),
            "band": band_energy(behind, rate, low, high),
        }
        snr = {name: db(signal[name]) - db(masking[name]) for name in signal}
        nonzero = np.flatnonzero(stem)
        rows.append(
            {
                "onset": onset,
                "offset": offset,
                "onset_s": onset / rate,
                "offset_s": offset / rate,
                "clip_offset": first + ceil_of(length * ratio),
                "truncated": (onset, offset) != (whole_onset, whole_offset),
                "low_hz": min(float(clip["low_hz"]) / float(ratio), rate / 2),
                "high_hz": min(float(clip["high_hz"]) / float(ratio), rate / 2),
                **{f"snr_{name}_db": value for name, value in snr.items()},
                **{f"signal_{name}": value for name, value in signal.items()},
                **{f"masking_{name}": value for name, value in masking.items()},
                "audible": bool(snr["band"] >= audible_db and heard >= AUDIBLE_S * rate),
                "first_sound": int(nonzero[0]) if len(nonzero) else n,
                "last_sound": int(nonzero[-1]) if len(nonzero) else -1,
                "scene": i,
            }
        )
    return pd.DataFrame(rows)


def measure_scenes(
    measured: pd.DataFrame, scenes: pd.DataFrame, stems: NDArray[np.float32], background: NDArray[np.float32]
) -> tuple[pd.DataFrame, list[Floats]]:
    """What should stand in the scenes table, and each scene as it should sound before its gain (float64).

    Args:
        measured: of :func:`measure_events`.
        scenes: the table under test, of which the length and the scene gain are believed.
        stems, background: as for :func:`measure_events`.
    """
    rows, mixes = [], []
    for i, scene in enumerate(scenes.to_dict("records")):
        n = int(scene["n_samples"])
        of_scene = np.flatnonzero(measured["scene"].to_numpy() == i) if len(measured) else np.zeros(0, np.int64)
        mix = background[i, :n].astype(np.float64)
        active = np.zeros(n, np.int64)
        for e in of_scene:
            mix = mix + stems[e, :n]
            active[measured["onset"].iloc[e] : measured["offset"].iloc[e]] += 1
        peak = float(np.abs(mix).max())
        level = db(float(np.mean(background[i, :n].astype(np.float64) ** 2))) + scene["scene_gain_db"]
        over_db = 20 * np.log10(peak / PEAK_LIMIT)
        rows.append(
            {
                "n_events": len(of_scene),
                "max_polyphony": int(active.max()),
                "level_dbfs": level,
                "least_gain_db": -max(over_db, 0.0),
            }
        )
        mixes.append(mix)
    return pd.DataFrame(rows), mixes


def pcm16(audio: NDArray[np.float32]) -> NDArray[np.int16]:
    """Samples as they should be written: to the nearest 1/32768, ties to even, never -32768."""
    return np.clip(np.round(audio.astype(np.float64) * 32768), -32767, 32767).astype("<i2")


def pcm_hash(pcm: NDArray[np.int16]) -> str:
    """First 128 bits of BLAKE3 of the little-endian bytes."""
    return blake3(pcm.astype("<i2").tobytes()).hexdigest()[:32]


def played(pcm: NDArray[np.int16], ratio: Fraction, backwards: bool) -> Floats:
    """A clip as it should sound at unit gain, by SciPy's polyphase resampler (another filter, the same timing)."""
    clip = pcm.astype(np.float64)[:: -1 if backwards else 1] / 32768
    if ratio == 1:
        return clip
    up, down = ratio.numerator, ratio.denominator
    return np.asarray(scipy.signal.resample_poly(clip, up, down, window=("kaiser", 9.0)))


def delay_samples(heard: NDArray[Any], expected: NDArray[Any], rate: int, low_hz: float, high_hz: float) -> float:
    """By how much ``heard`` is later than ``expected``, in fractions of a sample: the slope of their cross-spectrum.

    Only for delays under half a period of ``high_hz``; a constant phase, which a delay isn't, is left out.
    """
    n = len(heard)
    taper = np.hanning(n + 2)[1:-1]
    cross = np.fft.rfft(heard * taper) * np.conj(np.fft.rfft(expected * taper))
    frequency = np.fft.rfftfreq(n, 1 / rate)
    inside = (frequency >= low_hz) & (frequency <= high_hz)
    if not inside.any():
        inside[np.argmax(np.abs(cross))] = True
    weight, phase = np.abs(cross[inside]), np.angle(cross[inside])
    omega = 2 * np.pi * frequency[inside] / rate
    return float(-np.sum(weight * omega * phase) / np.sum(weight * omega**2))


def sounding(stem: NDArray[np.float32], rate: int, low_hz: float, high_hz: float) -> tuple[int, int]:
    """First and one past the last sample where a stem sounds, by its envelope in a band.

    The band is cut out of the spectrum (no filter, so nothing rings on one side only); the envelope is the RMS of a
    sliding 5 ms; what sounds is 6 dB above the level of the quiet part, or within 30 dB of the peak if that is higher.
    """
    n = len(stem)
    spectrum = np.fft.rfft(stem.astype(np.float64))
    frequency = np.fft.rfftfreq(n, 1 / rate)
    ramp = np.clip(np.minimum(frequency - low_hz / 1.2, high_hz * 1.2 - frequency) / 100 + 1, 0, 1)
    inside = np.fft.irfft(spectrum * ramp, n)
    width = int(0.005 * rate) | 1
    envelope = np.sqrt(np.convolve(inside**2, np.ones(width) / width, mode="same"))
    peak = envelope.max()
    quiet = np.sort(envelope)[: max(1, n // 5)]
    threshold = min(max(2 * np.sqrt(np.mean(quiet**2)), peak * 10 ** (-30 / 20)), peak / 2)
    above = np.flatnonzero(envelope > threshold)
    return int(above[0]), int(above[-1]) + 1
