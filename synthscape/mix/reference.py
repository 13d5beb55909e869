"""The mixer in plain float64 NumPy: too slow to use, easy to read, and the truth the kernels are tested against.

It shares no code with them: every output sample is its own sum over the clip, the filter is its formula, each level a
mean of squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.plan.plan import AS_RECORDED, ScenePlan
from synthscape.spec.schema import Spec
from synthscape_kernels.filters import CUTOFF, HALF_TAPS, KAISER_BETA

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReferenceScene:
    """One scene: audio and background float64 [samples], stems float64 [events, samples], levels float64 [events]."""

    audio: Floats
    background: Floats
    stems: Floats
    gain: Floats
    snr_scene_db: Floats
    snr_local_db: Floats
    snr_band_db: Floats
    scene_gain_db: float


def reference_scene(plan: ScenePlan, i: int, spec: Spec, bank: ClipStore, backgrounds: ClipStore) -> ReferenceScene:
    """Mix the i-th scene of a plan."""
    n = int(plan.n_samples[i])
    ratio = [(int(p), int(q)) for p, q in zip(plan.ratio_p, plan.ratio_q, strict=True)]
    background = _background(plan, i, spec, backgrounds, ratio)
    events = range(*plan.events_of(i).indices(plan.n_events))

    unit = np.zeros((len(events), n))
    for j, e in enumerate(events):
        clip = bank.pcm(int(plan.clip[e])).astype(np.float64) / 32768
        if plan.reversed[e]:
            clip = clip[::-1]
        played = resample(clip, *ratio[plan.ratio[e]]) * _fade(plan, e)
        begin, end = int(plan.clip_onset[e]), int(plan.clip_offset[e])
        unit[j, max(begin, 0) : min(end, n)] = played[max(-begin, 0) : min(end, n) - begin]

    table = bank.clips
    rows = plan.clip[events.start : events.stop]
    share = np.ones(len(events))
    if spec.events.snr.subtract_noise and "signal_share" in table:
        share = table["signal_share"].iloc[rows].fillna(1.0).to_numpy(np.float64)
    p, p_local, p_band, b_scene, b_local, b_band, samples = (np.zeros(len(events)) for _ in range(7))
    for j, e in enumerate(events):
        onset, offset = int(plan.onset[e]), int(plan.offset[e])
        call, behind = unit[j, onset:offset], background[onset:offset]
        samples[j] = offset - onset
        p[j] = p_local[j] = np.mean(call**2)
        b_scene[j], b_local[j] = np.mean(background**2), np.mean(behind**2)
        low, high = float(table["low_hz"].iloc[rows[j]]), float(table["high_hz"].iloc[rows[j]])
        up, down = ratio[plan.ratio[e]]
        p_band[j] = _band_power(call, plan.sample_rate, low * down / up, high * down / up)
        b_band[j] = _band_power(behind, plan.sample_rate, low * down / up, high * down / up)

    signal, noise = {"scene": (p, b_scene), "local": (p, b_local), "band": (p_band, b_band)}[spec.events.snr.reference]
    gain = np.zeros(len(events))
    group = plan.gain_group[events.start : events.stop]
    for number in set(group.tolist()):
        g = group == number
        pooled = np.sum(share[g] * signal[g] * samples[g]) / np.sum(noise[g] * samples[g])
        asked_db = plan.snr_db[events.start : events.stop][g][0] / 256
        gain[g] = 10 ** (asked_db / 20) / math.sqrt(pooled)
    stems = gain[:, None] * unit
    mixed = background + stems.sum(axis=0)
    over_db = 20 * math.log10(np.abs(mixed).max() / 10 ** (-1 / 20))
    scene_gain_db = -math.ceil(over_db * 256) / 256 if over_db > 0 else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return ReferenceScene(
            audio=mixed * 10 ** (scene_gain_db / 20),
            background=background,
            stems=stems,
            gain=gain,
            snr_scene_db=10 * np.log10(share * gain**2 * p / b_scene),
            snr_local_db=10 * np.log10(share * gain**2 * p_local / b_local),
            snr_band_db=10 * np.log10(share * gain**2 * p_band / b_band),
            scene_gain_db=scene_gain_db,
        )


def resample(clip: Floats, p: int, q: int) -> Floats:
    """Play a clip at ratio p/q: output n is the windowed-sinc interpolation at input position n q/p, float64."""
    if p == q:
        return clip
    half = math.ceil(HALF_TAPS * max(1.0, q / p))
    cutoff = CUTOFF * min(1.0, p / q)
    padded = np.pad(clip, half)
    n = np.arange(math.ceil(len(clip) * p / q) if p * len(clip) % q else len(clip) * p // q)
    whole, phase = n * q // p, n * q % p
    played = np.empty(len(n))
    for one in np.unique(phase):
        t = np.arange(-half + 1, half + 1) - one / p
        taps = cutoff * np.sinc(cutoff * t) * np.i0(KAISER_BETA * np.sqrt(1 - np.minimum(1, (t / half) ** 2)))
        here = phase == one
        played[here] = padded[whole[here][:, None] + 1 + np.arange(2 * half)] @ taps / taps.sum()
    return played


def _fade(plan: ScenePlan, e: int) -> Floats:
    """Weights of a whole played clip, float64."""
    weights = np.ones(int(plan.clip_offset[e] - plan.clip_onset[e]))
    for size, side in ((int(plan.fade_in[e]), weights), (int(plan.fade_out[e]), weights[::-1])):
        if size:
            side[:size] *= np.sin((np.arange(size) + 0.5) / size * np.pi / 2) ** 2
    return weights


def _background(plan: ScenePlan, i: int, spec: Spec, backgrounds: ClipStore, ratio: list[tuple[int, int]]) -> Floats:
    n = int(plan.n_samples[i])
    as_recorded = plan.level_dbfs[i] == AS_RECORDED
    mixed = np.zeros(n)
    for which in range(2):
        row = int(plan.background[i, which])
        if row < 0:
            continue
        pcm = backgrounds.pcm(row).astype(np.float64)
        whole = resample(pcm / 32768, *ratio[plan.background_ratio[i, which]])
        offset = int(plan.background_offset[i, which])
        if len(whole) >= n:
            layer = whole[offset : offset + n]
        else:
            fade = min(math.floor(spec.background.crossfade_s * plan.sample_rate + 0.5), len(whole) // 4)
            layer = _looped(whole, fade, offset + n)[offset:]
        if as_recorded:
            layer = layer * float(backgrounds.clips["peak"].iloc[row]) * 32768 / 32767
        else:
            layer = layer / np.sqrt(np.mean(layer**2)) * 10 ** (which * plan.background_mix_db[i] / 256 / 20)
        mixed = mixed + layer
    if as_recorded:
        return mixed
    levelled: Floats = mixed / np.sqrt(np.mean(mixed**2)) * 10 ** (plan.level_dbfs[i] / 256 / 20)
    return levelled


def _looped(whole: Floats, fade: int, n: int) -> Floats:
    """Rounds of a background laid over each other by ``fade`` samples, until n are past changing."""
    ramp = (np.arange(fade) + 0.5) / max(fade, 1)
    looped = whole.copy()
    while len(looped) - fade < n:
        join = np.sqrt(1 - ramp) * looped[len(looped) - fade :] + np.sqrt(ramp) * whole[:fade]
        looped = np.concatenate([looped[: len(looped) - fade], join, whole[fade:]])
    return looped[:n]


def _band_power(x: Floats, sample_rate: int, low_hz: float, high_hz: float) -> float:
    """Mean square of x in a band, by the DFT of x as it is."""
    if math.isnan(low_hz) or math.isnan(high_hz):
        return math.nan
    centre, third = math.sqrt(low_hz * high_hz), 2 ** (1 / 3)
    if high_hz / low_hz < third:
        low_hz, high_hz = centre / math.sqrt(third), centre * math.sqrt(third)
    n = len(x)
    first = min(math.floor(min(low_hz, sample_rate / 2) * n / sample_rate + 0.5), n // 2)
    last = min(math.floor(min(high_hz, sample_rate / 2) * n / sample_rate + 0.5), n // 2)
    power = np.abs(np.fft.fft(x)) ** 2 / n**2
    both_sides = set(range(first, last + 1)) | {(n - k) % n for k in range(first, last + 1)}
    return float(power[sorted(both_sides)].sum())
