"""The planner's kernel: one loop per scene over its events in slot order.

A draw is a function of (seed, stream, scene, slot); for events slot = (event x 16 + attempt) x 8 + field. Attempts 0-7
redraw the onset, 8-15 also the clip and its ratio; then the event is dropped with its first reason.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthscape_kernels import draws, strict_math
from synthscape_kernels.draws import PER_CLASS, PER_EVENT, Program
from synthscape_kernels.jit import compiled
from synthscape_kernels.philox import below, uniform
from synthscape_kernels.ratios import GRID_P, GRID_Q
from synthscape_kernels.rounding import round_to_samples

to_samples = compiled(round_to_samples)


def _numbered(n: int) -> tuple[np.int64, ...]:
    """0 .. n-1 as typed numbers: a kernel is compiled once more for every plain int that is passed to it."""
    return tuple(np.int64(i) for i in range(n))


SCENES, BACKGROUNDS, CLASSES, COUNTS, EVENTS, RATIOS, SHARED, _PARAMETERS, EMPTY = _numbered(9)  # streams

NOISES, PROPAGATION, SURROUNDINGS = (np.int64(i) for i in (16, 17, 18))  # more streams
COMMUNITY = np.int64(26)  # one more; 24, 25, 27 and 28 are those of ``processes``

DURATION, MEDIUM, N_CLASSES = _numbered(3)  # slots of SCENES
MONTH, HOUR = _numbered(2)  # slots of COMMUNITY
PICK, PLAYED_AT, CROP, LEVEL, MIXED, MIX_DB = _numbered(6)  # fields of BACKGROUNDS
CLASS, CLIP, PLAYED, REVERSE, SNR, ONSET = _numbered(6)  # fields of EVENTS and SHARED
IS_NOISE, SLOPE = _numbered(2)  # fields of NOISES
# Fields of PROPAGATION (of an event) and SURROUNDINGS (of the scene, or a class in it).
PROPAGATED, DISTANCE, IMPULSE, RT60, DRR, SOURCE_LEVEL, ROOM, SPL = _numbered(8)

COUNT, RATE, GAPS = range(3)
REFERENCE_SCENE, REFERENCE_LOCAL, REFERENCE_BAND = range(3)

ATTEMPTS: Final = 16
FIRST_CLIP_REDRAW: Final = 8
COUNT_ATTEMPTS: Final = 64

(
    BACKGROUND_RECORDING,
    BACKGROUND_SITE,
    LONGER_THAN_SCENE,
    NO_FEASIBLE_RATIO,
    RECORDING_USED,
    OVERLAP_SAME_CLASS,
    POLYPHONY,
    TOO_LITTLE_LEFT,
    SILENT_BACKGROUND,
    SILENT_EVENT,
    OVER_LIMIT,
    TOO_FEW_CALLERS,
    INAUDIBLE,
    CALLER_USED,
) = _numbered(14)  # in step with synthscape.plan.plan.DROP_REASONS
NO_REASON: Final = np.int64(-1)
NO_CLASS: Final = np.int64(-1)
NOTHING: Final = np.int64(-1)
NOT_CAST: Final = np.int64(-3)
NO_MONTH: Final = np.int64(-1)
NO_HOUR: Final = np.int64(-1)
FREE: Final = np.int64(-1)  # no gap process: the onset is free
ZERO: Final = np.int64(0)
ONE: Final = np.int64(1)

SILENT_POWER: Final = 10.0**-8.7  # -90 dBFS, and 3 dB that the 50 ms tables may be off by
ROUNDING_POWER: Final = 2.0 * 2.0**-30 / 12.0  # of 16-bit samples, over all frequencies; with the same margin
THIRD_OCTAVE: Final = 2.0 ** (1.0 / 3.0)
AS_RECORDED: Final = 2**31 - 1
NO_LEVEL: Final = 2**31 - 1
NOISE: Final = -2
PROCEDURAL_TAIL: Final = -2
NOISE_CORNER_HZ: Final = 20.0  # coloured noise is flat below
_OCTAVE_DB: Final = 3.010299956639812  # 10 log10 2: the slope of a power spectrum that rises as f
_2_40: Final = 2**40
_LN_10: Final = 2.302585092994046


#: What the spec says, as numbers; ``*_node`` are nodes of the distribution program.
RULES: Final = np.dtype(
    [
        ("seed", np.uint64),
        ("sample_rate", np.int64),
        ("duration_node", np.int64),
        ("n_classes_node", np.int64),
        ("month_node", np.int64),  # -1: no month is drawn
        ("hour_node", np.int64),
        ("process", np.int64),  # COUNT, RATE or GAPS
        ("amount_node", np.int64),  # the count, the rate (1/s) or the gap (s)
        ("snr_node", np.int64),
        ("ratio_node", np.int64),
        ("reverse_node", np.int64),
        ("level_node", np.int64),  # -1: backgrounds as recorded
        ("background_ratio_node", np.int64),
        ("mix_db_node", np.int64),
        ("mix_probability", np.float64),
        ("noise_probability", np.float64),
        ("noise_slope_node", np.int64),
        ("spl_node", np.int64),  # -1: no absolute level
        ("source_level_node", np.int64),  # -1: SNRs are drawn
        ("propagation_probability", np.float64),
        ("distance_node", np.int64),  # -1: none
        ("rt60_node", np.int64),  # -1: no procedural tail
        ("drr_node", np.int64),
        ("empty_numerator", np.int64),
        ("empty_denominator", np.int64),
        ("reference", np.int64),
        ("forbid_same_class", np.bool_),
        ("max_polyphony", np.int64),  # 0: no limit
        ("min_gap_samples", np.int64),
        ("truncate", np.bool_),
        ("fade_samples", np.int64),
        ("edge_fade_samples", np.int64),  # most of a fade that goes into the call itself: 2 ms
        ("keep_samples", np.int64),  # so much of an active part is enough: 50 ms
        ("crossfade_samples", np.int64),
        ("flag_infeasible", np.bool_),
        ("max_slots", np.int64),
        ("largest_group", np.int64),
        ("one_track_per_recording", np.bool_),
        ("block_samples", np.int64),  # of the band tables
    ]
)

#: A clip of the pseudovox bank. Codes are shared with the backgrounds, -1 is unknown.
CLIP_ROW: Final = np.dtype(
    [
        ("length", np.int64),
        ("active_start", np.int64),
        ("active_end", np.int64),
        ("energy_q25", np.int64),
        ("energy_q75", np.int64),
        ("low_hz", np.float64),  # NaN where unknown
        ("high_hz", np.float64),
        ("min_ratio", np.int16),  # index in the grid of the smallest feasible ratio, -1: none is
        ("recording", np.int32),
        ("source", np.int32),
        ("site", np.int32),
        ("individual", np.int32),
        ("speaker", np.int32),
    ]
)
BACKDROP_ROW: Final = np.dtype(
    [("length", np.int64), ("peak", np.float64), ("recording", np.int32), ("source", np.int32), ("site", np.int32)]
)
MEMBER: Final = np.dtype([("clip", np.int64), ("delta", np.int64)])  # delta: samples after the group's first clip
RATIO: Final = np.dtype([("p", np.int64), ("q", np.int64)])

#: What is written for a scene, for each of its two backgrounds, and for an event; see ``ScenePlan``.
SCENE_ROW: Final = np.dtype(
    [
        ("n_samples", np.int64),
        ("n_events", np.int64),
        ("n_asked", np.int32),
        ("n_placed", np.int32),
        ("n_outside", np.int32),
        ("n_redrawn", np.int32),
        ("n_ratios_refused", np.int32),
        ("background_mix_db", np.int32),
        ("level_dbfs", np.int32),
        ("background_spl_db", np.int32),
        ("room", np.int32),
        ("month", np.int8),
        ("hour", np.int8),
        ("background_scale", np.float64),  # power as delivered / power as stored; not part of the plan
        ("noise_power", np.float64),  # what NOISE counts as having in store; not part of the plan
    ]
)
BACKGROUND_ROW: Final = np.dtype(
    [
        ("background", np.int64),
        ("background_ratio", np.int16),
        ("background_offset", np.int64),
        ("noise_slope_db", np.int32),
    ]
)
EVENT_ROW: Final = np.dtype(
    [
        ("clip", np.int64),
        ("clip_start", np.int64),
        ("clip_end", np.int64),
        ("class_id", np.int32),
        ("clip_onset", np.int64),
        ("clip_offset", np.int64),
        ("onset", np.int64),
        ("offset", np.int64),
        ("ratio", np.int16),
        ("reversed", np.bool_),
        ("snr_db", np.int32),
        ("fade_in", np.int32),
        ("fade_out", np.int32),
        ("gain_group", np.int32),
        ("role", np.int8),  # 0: a target
        ("speaker", np.int32),
        ("truncated", np.bool_),
        ("altered", np.bool_),
        ("required", np.bool_),
        ("source_level_db", np.int32),
        ("distance_mm", np.int64),
        ("impulse", np.int64),
        ("rt60_ms", np.int32),
        ("drr_db", np.int32),
    ]
)


class Tables(NamedTuple):
    """What planning needs to know of the spec and the stores.

    Records rather than columns: a kernel with a hundred array arguments takes minutes to compile.
    """

    rules: NDArray[np.void]  # [1] of RULES
    program: Program
    ratio: NDArray[np.void]  # [ratios] of RATIO
    ratio_order: NDArray[np.int64]  # [ratios] indices by rising ratio
    ratio_between: NDArray[np.float64]  # [ratios - 1] geometric means of neighbours in that order
    clip: NDArray[np.void]  # [clips] of CLIP_ROW
    group_first: NDArray[np.int64]  # [groups + 1] into member: clips that are placed as one
    member: NDArray[np.void]  # of MEMBER
    class_first: NDArray[np.int64]  # [media, classes + 1] into class_group
    class_group: NDArray[np.int64]
    class_before: NDArray[np.float64]  # [times x media, classes + 1] weights of the classes before, whole numbers
    class_weighted: NDArray[np.int64]  # [times x media] classes with a weight
    time: NDArray[np.int64]  # [13, 25] by month and hour + 1, 0 where none is drawn: which weights the classes have
    clip_bands: NDArray[np.float32]  # [blocks, bands] energy
    clip_block: NDArray[np.int64]  # [clips + 1] first block of a clip
    backdrop: NDArray[np.void]  # [backgrounds] of BACKDROP_ROW
    medium_first: NDArray[np.int64]  # [media + 1] into medium_row
    medium_row: NDArray[np.int64]
    medium_before: NDArray[np.float64]  # [times, media + 1] weights of the media before
    room_first: NDArray[np.int64]  # [rooms + 1] into room_impulse
    room_impulse: NDArray[np.int64]  # rows in the store of impulse responses
    medium_room_first: NDArray[np.int64]  # [media + 1] into medium_room
    medium_room: NDArray[np.int64]
    backdrop_bands: NDArray[np.float32]
    backdrop_block: NDArray[np.int64]
    band_edge_hz: NDArray[np.float64]  # [bands + 1]


class Job(NamedTuple):
    """Some scenes to plan, and where the plan is written."""

    tables: Tables
    number: NDArray[np.int64]  # [scenes] scene numbers
    scene: NDArray[np.void]  # [scenes] of SCENE_ROW
    drops: NDArray[np.int32]  # [scenes, reasons]
    background: NDArray[np.void]  # [scenes, 2] of BACKGROUND_ROW
    event: NDArray[np.void]  # of EVENT_ROW, filled from 0
    order: NDArray[np.int64]  # like event: the events of each scene by onset


@compiled
def reference_band(low_hz: Any, high_hz: Any, p: Any, q: Any, nyquist_hz: Any) -> Any:
    """A clip's band after the ratio p/q, widened to a third octave about its centre, stopping at Nyquist (Hz, Hz)."""
    low = low_hz * q / p
    high = high_hz * q / p
    if high < low * THIRD_OCTAVE:
        centre = math.sqrt(low * high)
        half = math.sqrt(THIRD_OCTAVE)
        low, high = centre / half, centre * half
    return min(low, nyquist_hz), min(high, nyquist_hz)


@compiled
def played_length(length: Any, p: Any, q: Any) -> Any:
    """ceil(length P/Q)."""
    return -(-length * p // q)


@compiled
def played_delay(delta: Any, p: Any, q: Any) -> Any:
    """round(delta P/Q): a delay inside a track, computed from the track's start each time, never accumulated."""
    return (2 * delta * p + q) // (2 * q)


@compiled
def loop_crossfade(played: Any, crossfade_samples: Any) -> Any:
    """Cross-fade of a looped background of ``played`` samples: what was asked, or a quarter of the background."""
    return min(crossfade_samples, played // 4)


@compiled
def table_power(
    bands: Any, first: Any, last: Any, edge_hz: Any, size: Any, start: Any, end: Any, low_hz: Any, high_hz: Any
) -> Any:
    """Mean square of a clip's stored samples in [start, end) and [low_hz, high_hz), from its 50 ms x band table.

    The clip's blocks are rows ``first`` to ``last - 1`` of ``bands``, each of ``size`` samples.
    """
    if end <= start:
        return 0.0
    weight = np.empty(len(edge_hz) - 1)  # share of each table band that lies in the band
    lowest, highest = len(weight), len(weight)
    for band in range(len(weight)):
        shared = min(edge_hz[band + 1], high_hz) - max(edge_hz[band], low_hz)
        if shared > 0.0:
            weight[band] = shared / (edge_hz[band + 1] - edge_hz[band])
            lowest, highest = min(lowest, band), band + 1
    energy = 0.0
    for block in range(start // size, min((end - 1) // size + 1, last - first)):
        inside = min(end, (block + 1) * size) - max(start, block * size)
        part = 0.0
        for band in range(lowest, highest):
            part += bands[first + block, band] * weight[band]
        energy += part * inside / size
    return energy / (end - start)


@compiled
def _backdrop_stretch_power(t: Any, row: Any, p: Any, q: Any, start: Any, end: Any, low_hz: Any, high_hz: Any) -> Any:
    """Power of played samples [start, end) of a background in a played band."""
    first, last = t.backdrop_block[row], t.backdrop_block[row + 1]
    source_end = min(-(-end * q // p), t.backdrop[row].length)
    size = t.rules[0].block_samples
    return table_power(
        t.backdrop_bands, first, last, t.band_edge_hz, size, start * q // p, source_end, low_hz * p / q, high_hz * p / q
    )


@compiled
def _noise_below(hz: Any, rise: Any) -> Any:
    """Power of coloured noise under a frequency, flat up to the corner and going as f ** (rise - 1) from there."""
    corners = hz / NOISE_CORNER_HZ
    if corners <= 1.0:
        return corners
    if abs(rise) < 1e-9:
        return 1.0 + strict_math.log(corners)
    return 1.0 + (strict_math.exp(strict_math.log(corners) * rise) - 1.0) / rise


@compiled
def noise_share(slope_db: Any, low_hz: Any, high_hz: Any, nyquist_hz: Any) -> Any:
    """Share of the power of coloured noise that lies in [low_hz, high_hz) under Nyquist; slope in dB per octave."""
    rise = slope_db / _OCTAVE_DB + 1.0
    low, high = min(low_hz, nyquist_hz), min(high_hz, nyquist_hz)
    return (_noise_below(high, rise) - _noise_below(low, rise)) / _noise_below(nyquist_hz, rise)


@compiled
def _layer_power(job: Any, s: Any, which: Any, start: Any, end: Any, low_hz: Any, high_hz: Any) -> Any:
    """Power of one of a scene's backgrounds in scene samples [start, end), stored scale, from the tables; 0 if none."""
    t = job.tables
    row = job.background[s, which].background
    if row == NOISE:
        slope = job.background[s, which].noise_slope_db / 256.0
        return noise_share(slope, low_hz, high_hz, t.rules[0].sample_rate / 2.0) * job.scene[s].noise_power
    if row < 0:
        return 0.0
    ratio = job.background[s, which].background_ratio
    p, q = t.ratio[ratio].p, t.ratio[ratio].q
    played = played_length(t.backdrop[row].length, p, q)
    offset = job.background[s, which].background_offset
    period = played
    if played < job.scene[s].n_samples:
        period = played - loop_crossfade(played, t.rules[0].crossfade_samples)
    energy = 0.0
    at = start
    while at < end:
        into = (offset + at) % period if played < job.scene[s].n_samples else offset + at
        stretch = min(end - at, period - into)
        energy += stretch * _backdrop_stretch_power(t, row, p, q, into, into + stretch, low_hz, high_hz)
        at += stretch
    return energy / (end - start)


@compiled
def _backdrop_power(job: Any, s: Any, start: Any, end: Any, low_hz: Any, high_hz: Any) -> Any:
    """Power of the stronger of a scene's backgrounds in scene samples [start, end), stored scale, from the tables."""
    first = _layer_power(job, s, ZERO, start, end, low_hz, high_hz)
    return max(first, _layer_power(job, s, ONE, start, end, low_hz, high_hz))


@compiled
def _nearest_ratio(t: Any, value: Any) -> Any:
    """Index of the ratio nearest to ``value`` on a log scale."""
    low, high = 0, len(t.ratio_between)
    while low < high:
        middle = (low + high) // 2
        if t.ratio_between[middle] < value:
            low = middle + 1
        else:
            high = middle
    return t.ratio_order[low]


@compiled
def _feasible(t: Any, clip: Any, ratio: Any) -> Any:
    """Does at least 80 % of the clip's energy stay under 0.9 Nyquist at this ratio?"""
    p, q = t.ratio[ratio].p, t.ratio[ratio].q
    if p == q:
        return True  # the clip as it is
    least = t.clip[clip].min_ratio
    return least >= 0 and p * GRID_Q[least] >= GRID_P[least] * q


@compiled
def _one_of_each_stretch(seed: Any, scene: Any, numerator: Any, denominator: Any) -> Any:
    """True for one scene, at a random place, of every ``denominator / numerator`` scenes in a row."""
    index = scene % _2_40
    stretch = index * numerator // denominator
    first = -(-stretch * denominator // numerator)
    following = -(-(stretch + 1) * denominator // numerator)
    return index == first + below(seed, EMPTY, scene - index + stretch, ZERO, following - first)


@compiled
def is_empty(seed: Any, scene: Any, numerator: Any, denominator: Any) -> Any:
    """Is this scene one of the share (a fraction of 0 to 1) without events?

    Any first n scenes hold the share of n to less than one scene, and nothing but its number decides about a scene.
    """
    if numerator == 0 or numerator == denominator:
        return numerator > 0
    if 2 * numerator <= denominator:
        return _one_of_each_stretch(seed, scene, numerator, denominator)
    return not _one_of_each_stretch(seed, scene, denominator - numerator, denominator)


@compiled
def _holding(before: Any, at: Any) -> Any:
    """Index i with before[i] <= at < before[i + 1]."""
    low, high = np.int64(0), np.int64(len(before) - 2)
    while low < high:
        middle = (low + high) // 2
        if at >= before[middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def choose_classes(seed: Any, scene: Any, before: Any, wanted: Any) -> Any:
    """``wanted`` different classes, each next one in proportion to weight among those left (int64 array)."""
    chosen = np.empty(wanted, np.int64)
    rising = np.empty(wanted, np.int64)  # the same, sorted
    left = before[len(before) - 1]
    for k in range(wanted):
        at = math.floor(uniform(seed, CLASSES, scene, k) * left)
        # Step over the weights already taken instead of rebuilding the sums.
        for j in range(k):
            if at >= before[rising[j]]:
                at += before[rising[j] + 1] - before[rising[j]]
        pick = _holding(before, at)
        chosen[k] = pick
        left -= before[pick + 1] - before[pick]
        j = k
        while j > 0 and rising[j - 1] > pick:
            rising[j] = rising[j - 1]
            j -= 1
        rising[j] = pick
    return chosen


@compiled
def _value(job: Any, s: Any, node: Any, stream: Any, slot: Any, position: Any) -> Any:
    """A draw from distribution ``node`` with the uniform number of a stream's slot."""
    seed, scene = job.tables.rules[0].seed, job.number[s]
    return draws.draw(job.tables.program, node, uniform(seed, stream, scene, slot), seed, scene, position)


@compiled
def _event_value(job: Any, s: Any, node: Any, event: Any, attempt: Any, field: Any, position: Any) -> Any:
    """A draw that is renewed per event, per class of the scene, or per scene, as its distribution says."""
    per = job.tables.program.node[node].per
    if per == PER_EVENT:
        return _value(job, s, node, EVENTS, (event * ATTEMPTS + attempt) * 8 + field, position)
    scope = position + 1 if per == PER_CLASS else 0
    return _value(job, s, node, SHARED, scope * 8 + field, position)


@compiled
def _quantised_db(level_db: Any) -> Any:
    """Steps of 1/256 dB, so that the last bits of a logarithm decide nothing."""
    return math.floor(level_db * 256.0 + 0.5)


@compiled
def choose_backgrounds(job: Any, s: Any, medium: Any, cast: Any, cast_second: Any) -> Any:
    """Choose the scene's one or two backgrounds, where they begin, and their level.

    Where ``cast`` is not ``NOT_CAST``, the backgrounds are these two (rows, NOISE, or for the second NOTHING), and only
    the rest is drawn.
    """
    t = job.tables
    rules = t.rules[0]
    seed, scene = rules.seed, job.number[s]
    n_samples = job.scene[s].n_samples
    first, last = t.medium_first[medium], t.medium_first[medium + 1]
    job.background[s, 1].background = -1
    mixed = uniform(seed, BACKGROUNDS, scene, MIXED) < rules.mix_probability
    if cast != NOT_CAST:
        mixed = cast_second != NOTHING
    taken = last - first  # place of the first background among the medium's: the second is another one
    others = ZERO  # files of the medium that are taken
    stored = 0.0  # power of the stronger file
    for which in range(2 if mixed else 1):
        wanted = cast if which == 0 else cast_second
        is_noise = uniform(seed, NOISES, scene, which * 8 + IS_NOISE) < rules.noise_probability
        if is_noise if cast == NOT_CAST else wanted == NOISE:
            slope = _value(job, s, rules.noise_slope_node, NOISES, which * 8 + SLOPE, NO_CLASS)
            job.background[s, which].background = NOISE
            job.background[s, which].noise_slope_db = _quantised_db(slope)
            continue
        power = 0.0
        for attempt in range(ATTEMPTS):
            slot = (which * ATTEMPTS + attempt) * 8
            place = below(seed, BACKGROUNDS, scene, slot + PICK, last - first - others)
            if which == 1 and place >= taken:
                place += 1
            row = t.medium_row[first + place] if cast == NOT_CAST else wanted
            ratio = _nearest_ratio(
                t, _value(job, s, rules.background_ratio_node, BACKGROUNDS, slot + PLAYED_AT, NO_CLASS)
            )
            played = played_length(t.backdrop[row].length, t.ratio[ratio].p, t.ratio[ratio].q)
            room = played - n_samples + 1
            if room <= 0:
                room = played - loop_crossfade(played, rules.crossfade_samples)
            job.background[s, which].background = row
            job.background[s, which].background_ratio = ratio
            job.background[s, which].background_offset = below(seed, BACKGROUNDS, scene, slot + CROP, room)
            if which == 0:
                taken, others = place, ONE
            power = _layer_power(job, s, which, ZERO, n_samples, 0.0, rules.sample_rate / 2.0)
            if power >= SILENT_POWER:
                break
        stored = max(stored, power)
    if rules.noise_probability > 0.0:  # it is mixed as loud as a file beside it
        job.scene[s].noise_power = stored if stored > 0.0 else 1.0
        stored = _backdrop_power(job, s, ZERO, n_samples, 0.0, rules.sample_rate / 2.0)
    job.scene[s].background_spl_db = NO_LEVEL
    if rules.spl_node >= 0:
        job.scene[s].background_spl_db = _quantised_db(_value(job, s, rules.spl_node, SURROUNDINGS, SPL, NO_CLASS))
    if mixed:
        job.scene[s].background_mix_db = _quantised_db(_value(job, s, rules.mix_db_node, BACKGROUNDS, MIX_DB, NO_CLASS))
    if rules.level_node < 0:
        peak = t.backdrop[job.background[s, 0].background].peak
        job.scene[s].level_dbfs = AS_RECORDED
        job.scene[s].background_scale = peak * peak
    else:
        level = _quantised_db(_value(job, s, rules.level_node, BACKGROUNDS, LEVEL, NO_CLASS))
        job.scene[s].level_dbfs = level
        job.scene[s].background_scale = strict_math.exp(level / 2560.0 * _LN_10) / max(stored, SILENT_POWER)


@compiled
def _conflict(job: Any, begin: Any, end: Any, group: Any, class_id: Any, onset: Any, offset: Any) -> Any:
    """Which overlap rule an active part [onset, offset) breaks against events begin..end-1 of other groups."""
    rules = job.tables.rules[0]
    e = job.event
    if rules.forbid_same_class:
        gap = rules.min_gap_samples
        for j in range(begin, end):
            near = onset < e[j].offset + gap and e[j].onset < offset + gap
            if near and e[j].class_id == class_id and e[j].gain_group != group:
                return OVERLAP_SAME_CLASS
    if rules.max_polyphony > 0:
        for j in range(begin, end):
            if e[j].gain_group == group or e[j].onset >= offset or e[j].offset <= onset:
                continue
            at = max(onset, e[j].onset)  # depth can only grow where an event begins
            depth = 1
            for i in range(begin, end):
                if e[i].gain_group != group and e[i].onset <= at < e[i].offset:
                    depth += 1
            if depth > rules.max_polyphony:
                return POLYPHONY
    return NO_REASON


@compiled
def _silent(
    job: Any, s: Any, clip: Any, clip_onset: Any, onset: Any, offset: Any, p: Any, q: Any, backwards: Any
) -> Any:
    """Is there nothing to measure an SNR against, or nothing that would be heard of the event?"""
    t = job.tables
    rules = t.rules[0]
    x = t.clip[clip]
    nyquist = rules.sample_rate / 2.0
    low, high = 0.0, nyquist
    if rules.reference == REFERENCE_BAND:
        low, high = reference_band(x.low_hz, x.high_hz, p, q, nyquist)
    if rules.reference != REFERENCE_SCENE and job.background[s, 0].background != NOTHING:
        power = _backdrop_power(job, s, onset, offset, low, high)
        rounding = ROUNDING_POWER * (high - low) / nyquist
        if power < SILENT_POWER or power * job.scene[s].background_scale < rounding:
            return SILENT_BACKGROUND
    start = (onset - clip_onset) * q // p
    end = min(-(-(offset - clip_onset) * q // p), x.length)
    if backwards:
        start, end = x.length - end, x.length - start
    # What a ratio moves past Nyquist is filtered out.
    source_high = min(high * p / q, nyquist * min(1.0, p / q))
    first, last = t.clip_block[clip], t.clip_block[clip + 1]
    power = table_power(
        t.clip_bands, first, last, t.band_edge_hz, rules.block_samples, start, end, low * p / q, source_high
    )
    return SILENT_EVENT if power < SILENT_POWER else NO_REASON


@compiled
def _too_little_left(
    t: Any, x: Any, clip_onset: Any, onset: Any, offset: Any, n: Any, p: Any, q: Any, backwards: Any
) -> Any:
    """Does the scene's edge leave too little of an active part [onset, offset)?

    Kept are parts with 50 ms or half of the time, and a quarter of the energy: nothing past the third quartile cut
    from the left, nothing before the first from the right. Cut on both sides, the middle half must be there.
    """
    kept = min(offset, n) - max(onset, 0)
    if kept <= 0 or (kept < t.rules[0].keep_samples and 2 * kept < offset - onset):
        return True
    q25, q75 = x.energy_q25, x.energy_q75
    if backwards:
        q25, q75 = x.length - q75, x.length - q25
    at_q25, at_q75 = clip_onset + q25 * p // q, clip_onset + q75 * p // q
    cut_left, cut_right = onset < 0, offset > n
    if cut_left and (at_q25 if cut_right else at_q75) < 0:
        return True
    return cut_right and (at_q75 if cut_left else at_q25) > n


@compiled
def _place_clip(
    job: Any, s: Any, begin: Any, at: Any, m: Any, class_id: Any, group: Any, start: Any, ratio: Any, backwards: Any
) -> Any:
    """Write member ``m`` of a group that starts at ``start`` as event ``at``; the reason why not, or NO_REASON."""
    t = job.tables
    rules = t.rules[0]
    p, q = t.ratio[ratio].p, t.ratio[ratio].q
    clip = t.member[m].clip
    x = t.clip[clip]
    n = job.scene[s].n_samples
    clip_onset = start + played_delay(t.member[m].delta, p, q)
    clip_offset = clip_onset + played_length(x.length, p, q)
    a, b = x.active_start, x.active_end
    if backwards:
        a, b = x.length - b, x.length - a
    onset = clip_onset + a * p // q
    offset = clip_onset + played_length(b, p, q)
    truncated = onset < 0 or offset > n
    if truncated and _too_little_left(t, x, clip_onset, onset, offset, n, p, q, backwards):
        return TOO_LITTLE_LEFT
    heard_onset, heard_offset = max(onset, 0), min(offset, n)
    reason = _conflict(job, begin, at, group, class_id, heard_onset, heard_offset)
    if reason == NO_REASON:
        reason = _silent(job, s, clip, clip_onset, heard_onset, heard_offset, p, q, backwards)
    if reason != NO_REASON:
        return reason

    # Fades take the padding first; where there is none, a little of the call. None at the scene's own edges.
    into_call = min(rules.edge_fade_samples, (offset - onset) // 20)
    fade_in = min(rules.fade_samples, max(onset - clip_onset, into_call))
    fade_out = min(rules.fade_samples, max(clip_offset - offset, into_call))
    e = job.event[at]
    e.clip = clip
    e.clip_start = 0
    e.clip_end = x.length
    e.class_id = class_id
    e.clip_onset = clip_onset
    e.clip_offset = clip_offset
    e.onset = heard_onset
    e.offset = heard_offset
    e.ratio = ratio
    e.reversed = backwards
    e.fade_in = fade_in if clip_onset >= 0 else 0
    e.fade_out = fade_out if clip_offset <= n else 0
    e.gain_group = group
    e.speaker = x.speaker
    e.truncated = truncated
    e.altered = not _feasible(t, clip, ratio)
    return NO_REASON


@compiled
def _excluded(job: Any, s: Any, begin: Any, at: Any, clip: Any) -> Any:
    """Why a clip can't be in this scene at all: a background, or an event, is of its recording, site or animal."""
    t = job.tables
    x = t.clip[clip]
    for which in range(2):
        row = job.background[s, which].background
        if row < 0:
            continue
        y = t.backdrop[row]
        if (x.recording >= 0 and x.recording == y.recording) or (x.source >= 0 and x.source == y.source):
            return BACKGROUND_RECORDING
        if x.site >= 0 and x.site == y.site:
            return BACKGROUND_SITE
    if t.rules[0].one_track_per_recording:
        for j in range(begin, at):
            y = t.clip[job.event[j].clip]
            same_animal = x.individual < 0 or y.individual < 0 or x.individual == y.individual
            if x.recording >= 0 and x.recording == y.recording and same_animal:
                return RECORDING_USED
            if x.speaker >= 0 and x.speaker == y.speaker:
                return CALLER_USED  # two recordings of one animal: it would call over itself, at two levels
    return NO_REASON


@compiled
def _choose_group(
    job: Any, s: Any, event: Any, attempt: Any, begin: Any, at: Any, medium: Any, class_id: Any, position: Any
) -> Any:
    """Draw a group of clips and a ratio: (group, ratio, span in samples, reason)."""
    t = job.tables
    rules = t.rules[0]
    seed, scene = rules.seed, job.number[s]
    first, last = t.class_first[medium, class_id], t.class_first[medium, class_id + 1]
    slot = (event * ATTEMPTS + attempt) * 8
    group = t.class_group[first + below(seed, EVENTS, scene, slot + CLIP, last - first)]
    begin_m, end_m = t.group_first[group], t.group_first[group + 1]
    for m in range(begin_m, end_m):
        reason = _excluded(job, s, begin, at, t.member[m].clip)
        if reason != NO_REASON:
            return group, ZERO, ZERO, reason

    # Among the feasible ratios: draws that the clip can't be played at are refused, counted and drawn again.
    ratio = ZERO
    feasible = False
    shared = t.program.node[rules.ratio_node].per != PER_EVENT
    for trial in range(ATTEMPTS):
        if trial == 0:
            value = _event_value(job, s, rules.ratio_node, event, attempt, PLAYED, position)
        else:
            slot = (event * ATTEMPTS + attempt) * ATTEMPTS + trial
            value = _value(job, s, rules.ratio_node, RATIOS, slot, position)
        ratio = _nearest_ratio(t, value)
        feasible = True
        for m in range(begin_m, end_m):
            feasible = feasible and _feasible(t, t.member[m].clip, ratio)
        if feasible or rules.flag_infeasible:
            break
        job.scene[s].n_ratios_refused += 1
        if shared:
            break  # the scene's or the class's one ratio: another clip must be found for it
    if not feasible and not rules.flag_infeasible:
        return group, ratio, ZERO, NO_FEASIBLE_RATIO

    p, q = t.ratio[ratio].p, t.ratio[ratio].q
    span = ZERO
    for m in range(begin_m, end_m):
        end = played_delay(t.member[m].delta, p, q) + played_length(t.clip[t.member[m].clip].length, p, q)
        span = max(span, end)
    if not rules.truncate and span > job.scene[s].n_samples:
        return group, ratio, span, LONGER_THAN_SCENE
    return group, ratio, span, NO_REASON


@compiled
def _place_group(
    job: Any,
    s: Any,
    begin: Any,
    at: Any,
    group: Any,
    number: Any,
    class_id: Any,
    start: Any,
    ratio: Any,
    backwards: Any,
) -> Any:
    """Place all clips of a group from sample ``start`` on: (how many stand, how many the scene cuts off, reason)."""
    t = job.tables
    first, last = t.group_first[group], t.group_first[group + 1]
    placed = ZERO
    outside = ZERO
    for m in range(first, last):
        reason = _place_clip(job, s, begin, at + placed, m, class_id, number, start, ratio, backwards)
        if reason == NO_REASON:
            placed += 1
        elif reason == TOO_LITTLE_LEFT and last - first > 1:
            outside += 1  # one call of a track: neither mixed nor labelled
        else:
            return ZERO, ZERO, reason
    return placed, outside, TOO_LITTLE_LEFT if placed == 0 else NO_REASON


@compiled
def _choose_room(job: Any, s: Any, medium: Any) -> None:
    """Choose the room all events of a scene are heard in, one of its medium; -1 if there are none."""
    t = job.tables
    first, last = t.medium_room_first[medium], t.medium_room_first[medium + 1]
    job.scene[s].room = -1
    if last > first:
        job.scene[s].room = t.medium_room[
            first + below(t.rules[0].seed, SURROUNDINGS, job.number[s], ROOM, last - first)
        ]


@compiled
def _propagation_value(job: Any, s: Any, node: Any, event: Any, field: Any, position: Any) -> Any:
    """A draw that is renewed per event, per class of the scene, or per scene, as its distribution says."""
    per = job.tables.program.node[node].per
    if per == PER_EVENT:
        return _value(job, s, node, PROPAGATION, event * 8 + field, position)
    scope = position + 1 if per == PER_CLASS else 0
    return _value(job, s, node, SURROUNDINGS, scope * 8 + field, position)


@compiled
def _propagate(job: Any, s: Any, event: Any, at: Any, placed: Any, position: Any) -> None:
    """How the events ``at`` to ``at + placed - 1``, one call or a track, come to the microphone: from one place."""
    t = job.tables
    rules = t.rules[0]
    seed, scene = rules.seed, job.number[s]
    source_level_db, distance_mm, impulse, rt60_ms, drr_db = np.int64(NO_LEVEL), ZERO, NOTHING, ZERO, ZERO
    if rules.source_level_node >= 0:
        source_level_db = _quantised_db(
            _propagation_value(job, s, rules.source_level_node, event, SOURCE_LEVEL, position)
        )
    room = job.scene[s].room
    dry = rules.distance_node < 0 and rules.rt60_node < 0 and room < 0
    if not dry and uniform(seed, PROPAGATION, scene, event * 8 + PROPAGATED) < rules.propagation_probability:
        if rules.distance_node >= 0:
            metres = _propagation_value(job, s, rules.distance_node, event, DISTANCE, position)
            distance_mm = math.floor(metres * 1000.0 + 0.5)
        if room >= 0:
            first, last = t.room_first[room], t.room_first[room + 1]
            impulse = t.room_impulse[first + below(seed, PROPAGATION, scene, event * 8 + IMPULSE, last - first)]
        if rules.rt60_node >= 0:
            impulse = np.int64(PROCEDURAL_TAIL)
            seconds = _propagation_value(job, s, rules.rt60_node, event, RT60, position)
            rt60_ms = math.floor(seconds * 1000.0 + 0.5)
            drr_db = _quantised_db(_propagation_value(job, s, rules.drr_node, event, DRR, position))
    for j in range(at, at + placed):
        e = job.event[j]
        e.source_level_db = source_level_db
        e.distance_mm = distance_mm
        e.impulse = impulse
        e.rt60_ms = rt60_ms
        e.drr_db = drr_db


@compiled
def _set_levels(job: Any, s: Any, event: Any, at: Any, placed: Any, position: Any) -> None:
    """How loud and how far the events ``at`` to ``at + placed - 1`` are, by the draws of ``event``: all alike."""
    rules = job.tables.rules[0]
    snr_db = np.int64(NO_LEVEL)
    if rules.source_level_node < 0:
        snr_db = _quantised_db(_event_value(job, s, rules.snr_node, event, ZERO, SNR, position))
    for j in range(at, at + placed):
        job.event[j].snr_db = snr_db
    _propagate(job, s, event, at, placed, position)


@compiled
def _place_event(
    job: Any, s: Any, event: Any, begin: Any, at: Any, medium: Any, class_id: Any, position: Any, pointer: Any
) -> Any:
    """Place one event or track, redrawing a bounded number of times: (events placed, reason, new pointer).

    ``pointer`` is the sample where a gap process stands, or -1 for a free onset. A new pointer of -1 ends the process.
    """
    t = job.tables
    rules = t.rules[0]
    seed, scene = rules.seed, job.number[s]
    n = job.scene[s].n_samples
    backwards = _event_value(job, s, rules.reverse_node, event, ZERO, REVERSE, position) > 0.5
    first_reason = NO_REASON
    group, ratio, span = ZERO, ZERO, ZERO
    attempt = ZERO
    while attempt < ATTEMPTS:
        if attempt > 0:
            job.scene[s].n_redrawn += 1
        reason = NO_REASON
        if attempt == 0 or attempt >= FIRST_CLIP_REDRAW:
            group, ratio, span, reason = _choose_group(job, s, event, attempt, begin, at, medium, class_id, position)
        if reason != NO_REASON:
            attempt += (
                1 if attempt >= FIRST_CLIP_REDRAW - 1 else FIRST_CLIP_REDRAW - attempt
            )  # no onset helps this clip
        else:
            slot = (event * ATTEMPTS + attempt) * 8 + ONSET
            if pointer >= 0:
                gap_s = _event_value(job, s, rules.amount_node, event, attempt, ONSET, position)
                start = pointer + to_samples(max(gap_s, 0.0), rules.sample_rate)
                if start >= n or (not rules.truncate and start + span > n):
                    return ZERO, NO_REASON, FREE
            elif rules.truncate:
                start = below(seed, EVENTS, scene, slot, n + span) - span
            else:
                start = below(seed, EVENTS, scene, slot, n - span + 1)
            placed, outside, reason = _place_group(job, s, begin, at, group, event, class_id, start, ratio, backwards)
            if reason == NO_REASON:
                _set_levels(job, s, event, at, placed, position)
                job.scene[s].n_outside += outside
                return placed, NO_REASON, start + span
            if pointer >= 0:
                return ZERO, reason, start + span  # a gap process drops on conflict
            attempt += 1
        if first_reason == NO_REASON:
            first_reason = reason
    return ZERO, first_reason, pointer


@compiled
def _count(job: Any, s: Any, placed: Any, reason: Any) -> Any:
    """Book one placement asked for."""
    job.scene[s].n_asked += 1
    if reason == NO_REASON:
        job.scene[s].n_placed += 1
    else:
        job.drops[s, reason] += 1
    return placed


@compiled
def _wanted(job: Any, s: Any, n_classes: Any, duration_s: Any) -> Any:
    """Events per class; one entry, for all classes together, where the spec draws one number per scene."""
    rules = job.tables.rules[0]
    per_class = job.tables.program.node[rules.amount_node].per == PER_CLASS
    wanted = np.zeros(n_classes if per_class else 1, np.int64)
    for attempt in range(COUNT_ATTEMPTS):
        total = 0
        for k in range(len(wanted)):
            slot = ((k + 1 if per_class else 0) * COUNT_ATTEMPTS + attempt) * 2
            amount = max(_value(job, s, rules.amount_node, COUNTS, slot, k if per_class else NO_CLASS), 0.0)
            if rules.process == RATE:
                u = uniform(rules.seed, COUNTS, job.number[s], slot + 1)
                amount = draws.poisson_count(amount * duration_s, u)
            wanted[k] = math.floor(amount + 0.5)
            total += wanted[k]
        if total > 0:
            return wanted
    wanted[0] = 1  # so rare that one event is what "at least one" means
    return wanted


@compiled
def _place_wanted(job: Any, s: Any, begin: Any, medium: Any, chosen: Any, duration_s: Any) -> Any:
    """Place as many events as a count or a rate asks for; where the event rows end."""
    rules = job.tables.rules[0]
    wanted = _wanted(job, s, len(chosen), duration_s)
    at = begin
    event = ZERO
    for k in range(len(wanted)):
        for _ in range(wanted[k]):
            if event >= rules.max_slots:
                _count(job, s, ZERO, OVER_LIMIT)
                continue
            position = k
            if len(wanted) == 1:
                slot = event * ATTEMPTS * 8 + CLASS
                position = below(rules.seed, EVENTS, job.number[s], slot, len(chosen))
            placed, reason, _ = _place_event(job, s, event, begin, at, medium, chosen[position], position, FREE)
            at += _count(job, s, placed, reason)
            event += 1
    return at


@compiled
def _run_gaps(job: Any, s: Any, first_event: Any, begin: Any, medium: Any, chosen: Any) -> Any:
    """Each class calls in a row of gaps and clips from the scene's start; where the event rows end."""
    rules = job.tables.rules[0]
    at = begin
    event = first_event
    for k in range(len(chosen)):
        pointer = ZERO
        while pointer >= 0:
            if event - first_event >= rules.max_slots:
                _count(job, s, ZERO, OVER_LIMIT)
                break
            placed, reason, pointer = _place_event(job, s, event, begin, at, medium, chosen[k], k, pointer)
            event += 1
            if pointer >= 0:
                at += _count(job, s, placed, reason)
    return at


@compiled
def _sort_by_onset(job: Any, begin: Any, end: Any) -> None:
    """Fill ``order``: a stable insertion sort by (onset, clip onset); ties keep slot order."""
    e, order = job.event, job.order
    for i in range(begin, end):
        j = i
        while j > begin:
            before = order[j - 1]
            if e[before].onset < e[i].onset:
                break
            if e[before].onset == e[i].onset and e[before].clip_onset <= e[i].clip_onset:
                break
            order[j] = before
            j -= 1
        order[j] = i


@compiled
def _number_speakers(job: Any, begin: Any, end: Any) -> None:
    """Turn the bank's speaker codes into numbers within the scene, in order of first onset."""
    known = np.empty(end - begin, np.int32)
    n = 0
    for i in range(begin, end):
        code = job.event[job.order[i]].speaker
        if code < 0:
            continue
        k = 0
        while k < n and known[k] != code:
            k += 1
        if k == n:
            known[n] = code
            n += 1
        job.event[job.order[i]].speaker = k


@compiled
def _begin_scene(job: Any, s: Any) -> Any:
    """Draw a scene's length, time, medium and backgrounds: (medium, row of its classes' weights, duration in s)."""
    t = job.tables
    rules = t.rules[0]
    scene = job.number[s]
    duration_s = _value(job, s, rules.duration_node, SCENES, DURATION, NO_CLASS)
    job.scene[s].n_samples = to_samples(duration_s, rules.sample_rate)
    month, hour = NO_MONTH, NO_HOUR
    if rules.month_node >= 0:
        month = math.floor(_value(job, s, rules.month_node, COMMUNITY, MONTH, NO_CLASS) + 0.5)
    if rules.hour_node >= 0:
        hour = math.floor(_value(job, s, rules.hour_node, COMMUNITY, HOUR, NO_CLASS) + 0.5)
    job.scene[s].month, job.scene[s].hour = month, hour
    time = t.time[max(month, ZERO), hour + 1]
    before = t.medium_before[time]
    medium = _holding(before, math.floor(uniform(rules.seed, SCENES, scene, MEDIUM) * before[len(before) - 1]))
    choose_backgrounds(job, s, medium, NOT_CAST, NOT_CAST)
    _choose_room(job, s, medium)
    return medium, time * len(t.class_first) + medium, duration_s


@compiled
def _choose_scene_classes(job: Any, s: Any, weights: Any) -> Any:
    """Classes of a scene (int64 array): as many as asked, or all that have a weight at its time."""
    t = job.tables
    wanted = math.floor(_value(job, s, t.rules[0].n_classes_node, SCENES, N_CLASSES, NO_CLASS) + 0.5)
    wanted = min(wanted, t.class_weighted[weights])
    return choose_classes(t.rules[0].seed, job.number[s], t.class_before[weights], wanted)


@compiled
def _end_scene(job: Any, s: Any, begin: Any, end: Any) -> None:
    """Bring a scene's events in order."""
    _sort_by_onset(job, begin, end)
    _number_speakers(job, begin, end)
    job.scene[s].n_events = end - begin


@compiled
def plan_scenes(job: Any, start: Any) -> Any:
    """Plan scenes ``start`` and after until the event rows may not hold the next one: where it stopped."""
    rules = job.tables.rules[0]
    at = ZERO
    for s in range(start, len(job.number)):
        if at + rules.max_slots * rules.largest_group > len(job.event):
            return s
        begin = at
        medium, weights, duration_s = _begin_scene(job, s)
        if not is_empty(rules.seed, job.number[s], rules.empty_numerator, rules.empty_denominator):
            chosen = _choose_scene_classes(job, s, weights)
            if rules.process != GAPS:
                at = _place_wanted(job, s, begin, medium, chosen, duration_s)
            else:
                for trial in range(ATTEMPTS):  # until there is at least one event
                    at = _run_gaps(job, s, trial * rules.max_slots, begin, medium, chosen)
                    if job.scene[s].n_asked > 0:
                        break
        _end_scene(job, s, begin, at)
    return len(job.number)
