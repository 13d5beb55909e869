"""The planner's kernel for scenes that are cast: who is heard is given, when and how loud is drawn.

Draws as in ``place``: slot = (cue x 16 + attempt) x 8 + field. Attempts redraw the onset, and the SNR where the event
must be audible; then the event is dropped with its first reason.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthscape_kernels import strict_math
from synthscape_kernels.jit import compiled
from synthscape_kernels.philox import below
from synthscape_kernels.place import (
    ATTEMPTS,
    BACKGROUNDS,
    DURATION,
    EVENTS,
    INAUDIBLE,
    LEVEL,
    LONGER_THAN_SCENE,
    NO_CLASS,
    NO_HOUR,
    NO_LEVEL,
    NO_MONTH,
    NO_REASON,
    NOTHING,
    ONE,
    ONSET,
    REFERENCE_BAND,
    REFERENCE_LOCAL,
    SCENES,
    SILENT_EVENT,
    SILENT_POWER,
    SNR,
    ZERO,
    Job,
    _backdrop_power,
    _count,
    _end_scene,
    _event_value,
    _place_clip,
    _quantised_db,
    _value,
    choose_backgrounds,
    played_length,
    reference_band,
    table_power,
    to_samples,
)

PATCH: Final = 3  # in step with synthscape.plan.plan.ROLES
LEAST_SNR_DB: Final = -100.0
LEAST_S: Final = 0.02  # what is shorter is not audible, however loud
MARGIN_DB: Final = 3.0  # that the 50 ms tables may be off by
_10_LOG10_E: Final = 4.342944819032518

#: An event to place.
CUE: Final = np.dtype(
    [
        ("member", np.int64),  # its clip, as the planner's index numbers them
        ("class_id", np.int32),
        ("ratio", np.int16),
        ("backwards", np.bool_),
        ("role", np.int8),
        ("required", np.bool_),  # it must be audible
        ("start", np.int64),  # of a patch: the stored samples that are played
        ("end", np.int64),
    ]
)
#: A scene to plan.
CAST_SCENE: Final = np.dtype(
    [
        ("first", np.int64),  # cues first to last - 1
        ("last", np.int64),
        ("kind", np.int64),
        ("background", np.int64),  # row, NOISE, or NOTHING: a bare clip
        ("second", np.int64),  # the same, or NOTHING
    ]
)
#: What the spec says of a kind of scenes; nodes of the distribution program.
KIND: Final = np.dtype(
    [
        ("duration_node", np.int64),  # -1: as long as the first cue is played
        ("snr_node", np.int64),
        ("level_node", np.int64),  # of bare clips
        ("audible_db", np.float64),
    ]
)


class Casting(NamedTuple):
    """What is cast for the scenes of a job."""

    scene: NDArray[np.void]  # [scenes] of CAST_SCENE
    cue: NDArray[np.void]  # of CUE
    kind: NDArray[np.void]  # of KIND


@compiled
def _is_audible(job: Any, s: Any, at: Any, audible_db: Any) -> Any:
    """By the tables: will event ``at`` have its band SNR, with a margin, is it long enough, and half of it there?"""
    t = job.tables
    rules = t.rules[0]
    e = job.event[at]
    x = t.clip[e.clip]
    p, q = t.ratio[e.ratio].p, t.ratio[e.ratio].q
    whole = played_length(x.active_end, p, q) - x.active_start * p // q
    if 2 * (e.offset - e.onset) < whole or e.offset - e.onset < LEAST_S * rules.sample_rate:
        return False
    if job.background[s, 0].background == NOTHING:
        return True
    nyquist = rules.sample_rate / 2.0
    snr_db = e.snr_db / 256.0
    if rules.reference != REFERENCE_BAND:
        start = (e.onset - e.clip_onset) * q // p
        end = min(-(-(e.offset - e.clip_onset) * q // p), x.length)
        if e.reversed:
            start, end = x.length - end, x.length - start
        low, high = reference_band(x.low_hz, x.high_hz, p, q, nyquist)
        first, last = t.clip_block[e.clip], t.clip_block[e.clip + 1]
        edges, size = t.band_edge_hz, rules.block_samples
        heard_hz = nyquist * min(1.0, p / q)
        call = table_power(t.clip_bands, first, last, edges, size, start, end, 0.0, heard_hz)
        in_band = table_power(
            t.clip_bands, first, last, edges, size, start, end, low * p / q, min(high * p / q, heard_hz)
        )
        behind = _backdrop_power(job, s, e.onset, e.offset, low, high)
        if rules.reference == REFERENCE_LOCAL:
            background = _backdrop_power(job, s, e.onset, e.offset, 0.0, nyquist)
        else:
            background = _backdrop_power(job, s, ZERO, job.scene[s].n_samples, 0.0, nyquist)
        if call <= 0.0 or in_band <= 0.0 or background <= 0.0:
            return False
        if behind > 0.0:
            snr_db += _10_LOG10_E * strict_math.log(in_band / call * (background / behind))
    return snr_db >= audible_db + MARGIN_DB


@compiled
def _no_propagation(job: Any, at: Any) -> None:
    e = job.event[at]
    e.source_level_db = NO_LEVEL
    e.distance_mm = 0
    e.impulse = NOTHING
    e.rt60_ms = 0
    e.drr_db = 0


@compiled
def _place_call(job: Any, cast: Any, s: Any, begin: Any, at: Any, event: Any) -> Any:
    """Write a call of the cast as event ``at``: why it can't be, or NO_REASON."""
    t = job.tables
    rules = t.rules[0]
    n = job.scene[s].n_samples
    cue = cast.cue[cast.scene[s].first + event]
    kind = cast.kind[cast.scene[s].kind]
    p, q = t.ratio[cue.ratio].p, t.ratio[cue.ratio].q
    span = played_length(t.clip[t.member[cue.member].clip].length, p, q)
    cut = rules.truncate and kind.duration_node >= 0
    if not cut and span > n:
        return LONGER_THAN_SCENE
    bare = job.background[s, 0].background == NOTHING
    first_reason = NO_REASON
    for attempt in range(ATTEMPTS):
        if attempt > 0:
            job.scene[s].n_redrawn += 1
        slot = (event * ATTEMPTS + attempt) * 8 + ONSET
        if cut:
            start = below(rules.seed, EVENTS, job.number[s], slot, n + span) - span
        else:
            start = below(rules.seed, EVENTS, job.number[s], slot, n - span + 1)
        reason = _place_clip(
            job, s, begin, at, cue.member, np.int64(cue.class_id), event, start, np.int64(cue.ratio), cue.backwards
        )
        if reason == NO_REASON:
            e = job.event[at]
            e.role = cue.role
            e.required = cue.required
            e.snr_db = NO_LEVEL
            if not bare:
                drawn = np.int64(attempt if cue.required else 0)
                e.snr_db = _quantised_db(_event_value(job, s, kind.snr_node, event, drawn, SNR, ZERO))
            _no_propagation(job, at)
            if cue.required and not _is_audible(job, s, at, kind.audible_db):
                reason = INAUDIBLE
        if reason == NO_REASON:
            return NO_REASON
        if first_reason == NO_REASON:
            first_reason = reason
    return first_reason


@compiled
def _place_patch(job: Any, cast: Any, s: Any, at: Any, event: Any) -> Any:
    """Write a patch as event ``at``, anywhere in the scene: why it can't be, or NO_REASON."""
    t = job.tables
    rules = t.rules[0]
    n = job.scene[s].n_samples
    cue = cast.cue[cast.scene[s].first + event]
    p, q = t.ratio[cue.ratio].p, t.ratio[cue.ratio].q
    clip = t.member[cue.member].clip
    x = t.clip[clip]
    span = played_length(cue.end - cue.start, p, q)
    if span > n:
        return LONGER_THAN_SCENE
    nyquist = rules.sample_rate / 2.0
    low, high = 0.0, nyquist
    if rules.reference == REFERENCE_BAND:
        low, high = reference_band(x.low_hz, x.high_hz, p, q, nyquist)
    first, last = t.clip_block[clip], t.clip_block[clip + 1]
    edges, size = t.band_edge_hz, rules.block_samples
    low, high = low * p / q, min(high * p / q, nyquist * min(1.0, p / q))
    power = table_power(t.clip_bands, first, last, edges, size, cue.start, cue.end, low, high)
    call = table_power(t.clip_bands, first, last, edges, size, x.active_start, x.active_end, low, high)
    if power < SILENT_POWER or call < SILENT_POWER:
        return SILENT_EVENT
    # As loud as it would be behind its call at the SNR drawn.
    below_call_db = min(_10_LOG10_E * strict_math.log(power / call), 0.0)
    kind = cast.kind[cast.scene[s].kind]
    e = job.event[at]
    e.clip = clip
    e.clip_start, e.clip_end = cue.start, cue.end
    e.class_id = cue.class_id
    e.clip_onset = below(rules.seed, EVENTS, job.number[s], event * ATTEMPTS * 8 + ONSET, n - span + 1)
    e.clip_offset = e.clip_onset + span
    e.onset, e.offset = e.clip_onset, e.clip_offset
    e.ratio = cue.ratio
    e.reversed = cue.backwards
    e.fade_in = e.fade_out = min(rules.fade_samples, span // 2)
    e.gain_group = event
    e.role = PATCH
    e.required = False
    e.speaker = NOTHING
    e.truncated = e.altered = False
    snr_db = _event_value(job, s, kind.snr_node, event, ZERO, SNR, ZERO)
    e.snr_db = _quantised_db(max(snr_db + below_call_db, LEAST_SNR_DB))
    _no_propagation(job, at)
    return NO_REASON


@compiled
def plan_cast_scenes(job: Any, cast: Any) -> Any:
    """Plan all scenes of a job as they are cast; the event rows must hold all cues. Where the event rows end."""
    rules = job.tables.rules[0]
    at = ZERO
    for s in range(len(job.number)):
        begin = at
        scene = cast.scene[s]
        kind = cast.kind[scene.kind]
        n_cues = scene.last - scene.first
        if kind.duration_node >= 0:
            duration_s = _value(job, s, kind.duration_node, SCENES, DURATION, NO_CLASS)
            job.scene[s].n_samples = to_samples(duration_s, rules.sample_rate)
        else:
            cue = cast.cue[scene.first]
            x = job.tables.clip[job.tables.member[cue.member].clip]
            ratio = job.tables.ratio[cue.ratio]
            job.scene[s].n_samples = played_length(x.length, ratio.p, ratio.q)
        job.scene[s].month, job.scene[s].hour = NO_MONTH, NO_HOUR
        job.scene[s].room = NOTHING
        if scene.background == NOTHING:
            job.background[s, 0].background = NOTHING
            job.background[s, 1].background = NOTHING
            job.scene[s].background_spl_db = NO_LEVEL
            level_db = _value(job, s, kind.level_node, BACKGROUNDS, LEVEL, NO_CLASS)
            job.scene[s].level_dbfs = _quantised_db(level_db)
        else:
            choose_backgrounds(job, s, ZERO, scene.background, scene.second)
        for k in range(n_cues):
            event = np.int64(k)
            if cast.cue[scene.first + k].role == PATCH:
                reason = _place_patch(job, cast, s, at, event)
            else:
                reason = _place_call(job, cast, s, begin, at, event)
            at += _count(job, s, ONE if reason == NO_REASON else ZERO, reason)
        _end_scene(job, s, begin, at)
    return at


__all__ = ["CAST_SCENE", "CUE", "KIND", "Casting", "Job", "plan_cast_scenes"]
