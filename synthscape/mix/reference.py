"""The mixer in plain float64 NumPy: too slow to use, easy to read, and the truth the kernels are tested against.

It shares no code with the kernels: every output sample is its own sum over the clip, the filter is its formula, each
level a mean of squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.mix.loudness import loudness_lufs
from synthscape.mix.noise import coloured_noise
from synthscape.mix.surroundings import Surroundings
from synthscape.plan.plan import AS_RECORDED, NO_BACKGROUND, NO_IMPULSE, NOISE, PATCH, ScenePlan
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
    snr_loudness_db: Floats
    scene_gain_db: float


def reference_scene(
    plan: ScenePlan,
    i: int,
    spec: Spec,
    bank: ClipStore,
    backgrounds: ClipStore | None,
    impulses: ClipStore | None = None,
) -> ReferenceScene:
    """Mix the i-th scene of a plan.

    What sound goes through on its way, and made-up noise, are the functions the mixer takes too: they have their own
    tests.
    """
    n = int(plan.n_samples[i])
    rate = plan.sample_rate
    ratio = [(int(p), int(q)) for p, q in zip(plan.ratio_p, plan.ratio_q, strict=True)]
    background = _background(plan, i, spec, backgrounds, ratio)
    events = range(*plan.events_of(i).indices(plan.n_events))
    table = bank.clips
    rows = plan.clip[events.start : events.stop]
    surroundings = Surroundings(spec, bank, impulses)

    unit = np.zeros((len(events), n))
    at_source = np.zeros(len(events))  # mean square of the whole active part, before it goes anywhere
    whole = np.zeros(len(events))  # samples of that part
    for j, e in enumerate(events):
        clip = bank.pcm(int(plan.clip[e])).astype(np.float64) / 32768
        start, end = (int(edge[rows[j]]) for edge in bank.active)
        first, last = int(plan.clip_start[e]), int(plan.clip_end[e])
        if last - first < len(clip):  # an excerpt: all of it is active
            clip, start, end = clip[first:last], 0, last - first
        if plan.reversed[e]:
            clip, start, end = clip[::-1], len(clip) - end, len(clip) - start
        up, down = ratio[plan.ratio[e]]
        played = resample(clip, up, down) * _fade(plan, e, spec.events.fade_shape)
        whole[j] = -(-end * up // down) - start * up // down
        at_source[j] = np.mean(played[start * up // down : -(-end * up // down)] ** 2)
        begin = int(plan.clip_onset[e])
        if plan.distance_mm[e] or plan.impulse[e] != NO_IMPULSE:
            kernel, lead, _ = surroundings.kernel(plan, i, e)
            played, begin = np.convolve(played, kernel), begin - lead
        unit[j, max(begin, 0) : begin + len(played)] = played[max(-begin, 0) : n - begin]

    share = np.ones(len(events))
    if spec.events.snr.subtract_noise and "signal_share" in table:
        share = table["signal_share"].iloc[rows].fillna(1.0).to_numpy(np.float64)
    share = np.where(plan.role[events.start : events.stop] == PATCH, 1.0, share)  # a patch holds no call
    bare = bool((plan.background[i] == NO_BACKGROUND).all())
    p, b_scene, b_local, p_band, b_band, p_loud, b_loud, samples = (np.zeros(len(events)) for _ in range(8))
    for j, e in enumerate(events):
        onset, offset = int(plan.onset[e]), int(plan.offset[e])
        call, behind = unit[j, onset:offset], background[onset:offset]
        samples[j] = offset - onset
        p[j] = np.mean(call**2)
        b_scene[j], b_local[j] = np.mean(background**2), np.mean(behind**2)
        low, high = float(table["low_hz"].iloc[rows[j]]), float(table["high_hz"].iloc[rows[j]])
        up, down = ratio[plan.ratio[e]]
        p_band[j] = _band_power(call, rate, low * down / up, high * down / up)
        b_band[j] = _band_power(behind, rate, low * down / up, high * down / up)
        if bare:
            b_scene[j] = b_local[j] = b_band[j] = b_loud[j] = math.nan
        elif spec.events.snr.reference == "loudness":
            p_loud[j] = 10 ** (loudness_lufs(call, rate) / 10)
            b_loud[j] = 10 ** (loudness_lufs(background, rate) / 10)

    signal, noise = {
        "scene": (p, b_scene),
        "local": (p, b_local),
        "band": (p_band, b_band),
        "loudness": (p_loud, b_loud),
    }[spec.events.snr.reference]
    gain = np.zeros(len(events))
    group = plan.gain_group[events.start : events.stop]
    # Clips are stored with equal peaks; within a track they keep the levels they were recorded with.
    weight = table["peak"].iloc[rows].to_numpy(np.float64) if spec.events.group == "track" else np.ones(len(events))
    for number in set(group.tolist()):
        g = group == number
        first_of = events.start + int(np.flatnonzero(g)[0])
        if bare:
            above_db = plan.level_dbfs[i] / 256
            pooled = np.sum(p[g] * samples[g]) / np.sum(samples[g])
        elif spec.events.level.mode == "source":
            distance_m = plan.distance_mm[first_of] / 1000
            above_db = (plan.source_level_db[first_of] - plan.background_spl_db[i]) / 256 - 20 * math.log10(distance_m)
            pooled = np.sum(weight[g] ** 2 * share[g] * at_source[g] * whole[g]) / (
                np.sum(whole[g]) * np.mean(background**2)
            )
        else:
            pooled = np.sum(weight[g] ** 2 * share[g] * signal[g] * samples[g]) / np.sum(noise[g] * samples[g])
            above_db = plan.snr_db[first_of] / 256
        gain[g] = weight[g] * 10 ** (above_db / 20) / math.sqrt(pooled)
    stems = gain[:, None] * unit
    mixed = background + stems.sum(axis=0)
    peak = float(np.abs(mixed).max())
    over_db = 20 * math.log10(peak / 10 ** (-1 / 20)) if peak > 0 else -math.inf
    scene_gain_db = -math.ceil(over_db * 256) / 256 if over_db > 0 else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return ReferenceScene(
            audio=mixed * 10 ** (scene_gain_db / 20),
            background=background,
            stems=stems,
            gain=gain,
            snr_scene_db=10 * np.log10(share * gain**2 * p / b_scene),
            snr_local_db=10 * np.log10(share * gain**2 * p / b_local),
            snr_band_db=10 * np.log10(share * gain**2 * p_band / b_band),
            snr_loudness_db=10 * np.log10(share * gain**2 * p_loud / b_loud),
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


def _fade(plan: ScenePlan, e: int, shape: str) -> Floats:
    """Weights of a whole played clip, float64."""
    weights = np.ones(int(plan.clip_offset[e] - plan.clip_onset[e]))
    for size, side in ((int(plan.fade_in[e]), weights), (int(plan.fade_out[e]), weights[::-1])):
        if size:
            rise = (np.arange(size) + 0.5) / size
            side[:size] *= rise if shape == "linear" else np.sin(rise * np.pi / 2) ** 2
    return weights


def _background(
    plan: ScenePlan, i: int, spec: Spec, backgrounds: ClipStore | None, ratio: list[tuple[int, int]]
) -> Floats:
    n = int(plan.n_samples[i])
    as_recorded = plan.level_dbfs[i] == AS_RECORDED
    mixed = np.zeros(n)
    for which in range(2):
        row = int(plan.background[i, which])
        if row == NO_BACKGROUND:
            continue
        if row == NOISE:
            slope_db = plan.noise_slope_db[i, which] / 256
            whole = coloured_noise(n, slope_db, spec.seed, int(plan.scene[i]), which, plan.sample_rate) / 32768
            offset = 0
        else:
            assert backgrounds is not None
            pcm = backgrounds.pcm(row).astype(np.float64)
            whole = resample(pcm / 32768, *ratio[plan.background_ratio[i, which]])
            offset = int(plan.background_offset[i, which])
        if len(whole) >= n:
            layer = whole[offset : offset + n]
        else:
            fade = min(math.floor(spec.background.crossfade_s * plan.sample_rate + 0.5), len(whole) // 4)
            layer = _looped(whole, fade, offset + n)[offset:]
        if as_recorded:
            assert backgrounds is not None
            layer = layer * float(backgrounds.clips["peak"].iloc[row]) * 32768 / 32767
        else:
            layer = layer / np.sqrt(np.mean(layer**2)) * 10 ** (which * plan.background_mix_db[i] / 256 / 20)
        mixed = mixed + layer
    if as_recorded or (plan.background[i] == NO_BACKGROUND).all():
        return mixed
    if spec.background.level_lufs is not None:
        gain_db = plan.level_dbfs[i] / 256 - loudness_lufs(mixed, plan.sample_rate)
        return np.asarray(mixed * 10 ** (gain_db / 20))
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
