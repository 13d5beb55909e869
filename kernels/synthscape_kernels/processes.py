"""The planner's kernel for calls that follow each other in time: bouts, choruses, antiphony.

A *caller* is one animal, as far as the bank tells them apart. What is drawn once for a caller (ratio, reversal, SNR) is
drawn with the number of its *voice*, what is drawn for each call with the number of the *call*; both count from
``trial x TRIAL`` in a scene. Times are sums of whole samples (calls) and of seconds (silences), rounded once. As with
gap processes, what conflicts is dropped and its onset never redrawn.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthscape_kernels.draws import PER_CLASS, PER_EVENT
from synthscape_kernels.jit import compiled
from synthscape_kernels.philox import below, uniform
from synthscape_kernels.place import (
    ATTEMPTS,
    CLASS,
    EVENTS,
    FREE,
    LONGER_THAN_SCENE,
    NO_FEASIBLE_RATIO,
    NO_REASON,
    OVER_LIMIT,
    OVERLAP_SAME_CLASS,
    PLAYED,
    RATIOS,
    RECORDING_USED,
    REVERSE,
    TOO_FEW_CALLERS,
    ZERO,
    _begin_scene,
    _choose_scene_classes,
    _count,
    _end_scene,
    _event_value,
    _excluded,
    _feasible,
    _nearest_ratio,
    _place_clip,
    _place_event,
    _set_levels,
    _value,
    _wanted,
    is_empty,
    played_length,
    to_samples,
)

BOUT, CHORUS, ANTIPHONY = range(3)

PROCESS, CANDIDATES, CALLS, CYCLES = (np.int64(i) for i in (24, 25, 27, 28))  # streams, beside those of ``place``
(
    N_CALLS,
    INTERVAL,
    N_CALLERS,
    DUTY,
    SYNCHRONY,
    N_EXCHANGES,
    LATENCY,
    PAUSE,
    OVERLAPS,
    OVERLAP_AT,
    START,
    ANCHOR,
    PHASE,
    COMMON_PHASE,
) = (np.int64(i) for i in range(14))  # fields of PROCESS
JITTER, KEPT = np.int64(0), np.int64(1)  # fields of CYCLES

ONE: Final = np.int64(1)
FIELDS: Final = 16
SHARED_SLOTS: Final = 2**28  # from here on those of draws per scene or per class
TRIAL: Final = 2**16  # numbers in one trial of a scene
TRIAL_CYCLES: Final = 2**26
MOST_CALLERS: Final = 64  # in step with the spec's limit
MOST_CANDIDATES: Final = 128
PERIODS: Final = 40  # tried for a chorus, each 0.9 of the last
LEAD_IN: Final = 8  # exchanges or cycles before the scene, so that its start says nothing of when they began
NO_CALLER: Final = np.int64(-1)
NO_SPEAKER: Final = np.int64(-2)
OUTSIDE: Final = np.int64(-2)  # in place of a reason: the scene cuts the call off

PROCESS_RULES: Final = np.dtype(
    [
        ("kind", np.int64),  # BOUT, CHORUS or ANTIPHONY
        ("calls_node", np.int64),
        ("interval_node", np.int64),
        ("callers_node", np.int64),
        ("duty_node", np.int64),
        ("synchrony_node", np.int64),
        ("exchanges_node", np.int64),  # -1: until the scene ends
        ("latency_node", np.int64),
        ("pause_node", np.int64),
        ("overlap_probability", np.float64),
        ("other_class", np.bool_),
    ]
)
#: A call of a series whose start is not decided yet.
SERIES_ROW: Final = np.dtype(
    [
        ("member", np.int64),
        ("voice", np.int64),
        ("class_id", np.int64),
        ("position", np.int64),
        ("ratio", np.int64),
        ("reversed", np.bool_),
        ("onset", np.int64),  # of the active part, samples from the series' start
        ("lead", np.int64),  # samples of the clip before its active part
        ("active", np.int64),
        ("length", np.int64),
    ]
)
VOICE_ROW: Final = np.dtype(
    [
        ("voice", np.int64),
        ("caller", np.int64),
        ("class_id", np.int64),
        ("position", np.int64),
        ("ratio", np.int64),
        ("reversed", np.bool_),
        ("mean_active", np.float64),  # samples, of its clips as played
        ("duty", np.float64),
        ("kept", np.float64),  # probability that it calls in a cycle in which it is silent
    ]
)


class Cast(NamedTuple):
    """The callers of the bank, and what the spec says of the process."""

    rules: NDArray[np.void]  # [1] of PROCESS_RULES
    class_first: NDArray[np.int64]  # [media, classes + 1] callers of a class
    member_first: NDArray[np.int64]  # [callers + 1] into member
    member: NDArray[np.int64]  # rows of Tables.member, a caller's sorted by recording


class Stage(NamedTuple):
    """Room to work in for one scene, whatever stands in it."""

    series: NDArray[np.void]  # [events] of SERIES_ROW
    voice: NDArray[np.void]  # [MOST_CALLERS] of VOICE_ROW
    candidate: NDArray[np.int64]  # [MOST_CANDIDATES] those tried, sorted
    heard: NDArray[np.int64]  # callers that are in the scene
    heard_voice: NDArray[np.int64]  # ... and the voices they have
    counter: NDArray[np.int64]  # [COUNTERS]: see below


# Entries of Stage.counter: numbers in use of voices, calls and cycles; callers heard; candidates tried.
COUNTERS: Final = 5
_VOICES, _CALLS, _CYCLES, _HEARD, _TRIED = (np.int64(i) for i in range(COUNTERS))


def empty_stage(max_slots: int, most_classes: int) -> Stage:
    """A stage for scenes of at most so many events and classes."""
    return Stage(
        series=np.zeros(max_slots + 2 * LEAD_IN + 2, SERIES_ROW),  # more than fit, so that the limit is seen
        voice=np.zeros(MOST_CALLERS + 1, VOICE_ROW),
        candidate=np.zeros(MOST_CANDIDATES, np.int64),
        heard=np.zeros(max_slots + MOST_CALLERS * most_classes, np.int64),
        heard_voice=np.zeros(max_slots + MOST_CALLERS * most_classes, np.int64),
        counter=np.zeros(COUNTERS, np.int64),
    )


@compiled
def _process_value(job: Any, s: Any, node: Any, number: Any, field: Any, position: Any) -> Any:
    """A draw that is renewed with each number, per class of the scene, or per scene, as its distribution says."""
    per = job.tables.program.node[node].per
    if per == PER_EVENT:
        return _value(job, s, node, PROCESS, number * FIELDS + field, position)
    scope = position + 1 if per == PER_CLASS else 0
    return _value(job, s, node, PROCESS, SHARED_SLOTS + scope * FIELDS + field, position)


@compiled
def _part_of(job: Any, s: Any, number: Any, field: Any) -> Any:
    """A uniform number of (0, 1)."""
    return uniform(job.tables.rules[0].seed, PROCESS, job.number[s], number * FIELDS + field)


@compiled
def _as_played(job: Any, member: Any, ratio: Any, backwards: Any) -> Any:
    """Samples before the active part, of it, and of the whole clip."""
    t = job.tables
    p, q = t.ratio[ratio].p, t.ratio[ratio].q
    x = t.clip[t.member[member].clip]
    a, b = x.active_start, x.active_end
    if backwards:
        a, b = x.length - b, x.length - a
    lead = a * p // q
    return lead, played_length(b, p, q) - lead, played_length(x.length, p, q)


@compiled
def _usable(job: Any, s: Any, member: Any, ratio: Any) -> Any:
    """Why a clip can't be played at this ratio in this scene, or NO_REASON."""
    t = job.tables
    rules = t.rules[0]
    clip = t.member[member].clip
    reason = _excluded(job, s, ZERO, ZERO, clip)
    if reason != NO_REASON:
        return reason
    if not rules.flag_infeasible and not _feasible(t, clip, ratio):
        return NO_FEASIBLE_RATIO
    if (
        not rules.truncate
        and played_length(t.clip[clip].length, t.ratio[ratio].p, t.ratio[ratio].q) > job.scene[s].n_samples
    ):
        return LONGER_THAN_SCENE
    return NO_REASON


@compiled
def _audition(job: Any, cast: Any, s: Any, caller: Any, ratio: Any) -> Any:
    """Can a caller be heard at this ratio: (mean samples of the active part of its usable clips, reason if none).

    The reason is NO_FEASIBLE_RATIO wherever another ratio may help.
    """
    first_reason = NO_REASON
    total, n = ZERO, ZERO
    for i in range(cast.member_first[caller], cast.member_first[caller + 1]):
        reason = _usable(job, s, cast.member[i], ratio)
        if reason == NO_REASON:
            _, active, _ = _as_played(job, cast.member[i], ratio, False)
            total += active
            n += 1
        elif first_reason == NO_REASON or reason == NO_FEASIBLE_RATIO:
            first_reason = reason
    if n == 0:
        return 0.0, first_reason
    return total / n, NO_REASON


@compiled
def _tune(job: Any, cast: Any, s: Any, caller: Any, voice: Any, position: Any) -> Any:
    """Draw the ratio of a caller, among those that it can be played at: (ratio, mean active samples, reason)."""
    t = job.tables
    node = t.rules[0].ratio_node
    ratio, mean, reason = ZERO, 0.0, NO_REASON
    for trial in range(ATTEMPTS):
        if trial == 0:
            value = _event_value(job, s, node, voice, ZERO, PLAYED, position)
        else:
            value = _value(job, s, node, RATIOS, voice * ATTEMPTS * ATTEMPTS + trial, position)
        ratio = _nearest_ratio(t, value)
        mean, reason = _audition(job, cast, s, caller, ratio)
        if reason != NO_FEASIBLE_RATIO:
            break
        job.scene[s].n_ratios_refused += 1
        if t.program.node[node].per != PER_EVENT:
            break
    return ratio, mean, reason


@compiled
def _may_be_one(job: Any, cast: Any, one: Any, other: Any) -> Any:
    """May two callers be one animal: are they of one recording, and not known to be two individuals?"""
    t = job.tables
    first, last = cast.member_first[other], cast.member_first[other + 1]
    known = t.clip[t.member[cast.member[first]].clip].individual >= 0
    before = NO_CALLER
    for i in range(cast.member_first[one], cast.member_first[one + 1]):
        x = t.clip[t.member[cast.member[i]].clip]
        if known and x.individual >= 0:
            return False
        if x.recording < 0 or x.recording == before:
            continue
        before = np.int64(x.recording)
        for j in range(first, last):
            y = t.clip[t.member[cast.member[j]].clip]
            if y.recording == x.recording and y.speaker != x.speaker:
                return True
    return False


@compiled
def _find_caller(
    job: Any, cast: Any, stage: Any, s: Any, medium: Any, class_id: Any, position: Any, not_speaker: Any
) -> Any:
    """Put the next caller of a class that can be heard in the scene into ``stage.voice[0]``: the reason if none can.

    Callers are tried in random order, none twice until ``stage.counter[_TRIED]`` is set back.
    """
    t = job.tables
    seed, scene = t.rules[0].seed, job.number[s]
    first, last = cast.class_first[medium, class_id], cast.class_first[medium, class_id + 1]
    number = stage.counter[_VOICES]
    stage.counter[_VOICES] += 1
    first_reason = NO_REASON
    tried = stage.candidate
    while stage.counter[_TRIED] < min(last - first, MOST_CANDIDATES):
        n = stage.counter[_TRIED]
        at = below(seed, CANDIDATES, scene, number * MOST_CANDIDATES + n, last - first - n)
        k = ZERO
        while k < n and at >= tried[k]:  # step over those tried
            at += 1
            k += 1
        for j in range(n, k, -1):
            tried[j] = tried[j - 1]
        tried[k] = at
        stage.counter[_TRIED] += 1

        caller = first + at
        reason = NO_REASON
        if t.clip[t.member[cast.member[cast.member_first[caller]]].clip].speaker == not_speaker:
            reason = RECORDING_USED
        voice = number
        for j in range(stage.counter[_HEARD]):
            if stage.heard[j] == caller:
                voice = stage.heard_voice[j]  # an animal sounds as it did before
            elif _may_be_one(job, cast, caller, stage.heard[j]):
                reason = RECORDING_USED
        ratio, mean = ZERO, 0.0
        if reason == NO_REASON:
            ratio, mean, reason = _tune(job, cast, s, caller, voice, position)
        if reason == NO_REASON:
            v = stage.voice[0]
            v.voice = voice
            v.caller = caller
            v.class_id = class_id
            v.position = position
            v.ratio = ratio
            v.reversed = _event_value(job, s, t.rules[0].reverse_node, voice, ZERO, REVERSE, position) > 0.5
            v.mean_active = mean
            stage.heard[stage.counter[_HEARD]] = caller
            stage.heard_voice[stage.counter[_HEARD]] = voice
            stage.counter[_HEARD] += 1
            return NO_REASON
        job.scene[s].n_redrawn += 1
        if first_reason == NO_REASON:
            first_reason = reason
    return TOO_FEW_CALLERS if first_reason == NO_REASON else first_reason


@compiled
def _draw_member(job: Any, cast: Any, s: Any, caller: Any, ratio: Any, number: Any) -> Any:
    """One of the caller's clips that can be played."""
    seed, scene = job.tables.rules[0].seed, job.number[s]
    first = cast.member_first[caller]
    n = cast.member_first[caller + 1] - first
    at = ZERO
    for attempt in range(ATTEMPTS):
        at = below(seed, CALLS, scene, number * ATTEMPTS + attempt, n)
        if _usable(job, s, cast.member[first + at], ratio) == NO_REASON:
            return cast.member[first + at]
    while _usable(job, s, cast.member[first + at], ratio) != NO_REASON:  # there is one, or it were no caller
        at = (at + 1) % n
    return cast.member[first + at]


@compiled
def _write_call(job: Any, cast: Any, stage: Any, s: Any, v: Any, i: Any, call: Any, onset: Any) -> None:
    """A call of voice ``v`` as row ``i`` of the series."""
    row = stage.series[i]
    row.member = _draw_member(job, cast, s, v.caller, v.ratio, call)
    row.voice = v.voice
    row.class_id = v.class_id
    row.position = v.position
    row.ratio = v.ratio
    row.reversed = v.reversed
    row.lead, row.active, row.length = _as_played(job, row.member, v.ratio, v.reversed)
    row.onset = onset


@compiled
def _sound_call(job: Any, s: Any, begin: Any, at: Any, row: Any, call: Any, start: Any) -> Any:
    """Place a call of a series that starts at sample ``start``: the reason why not, NO_REASON, or OUTSIDE."""
    n = job.scene[s].n_samples
    onset = start + row.onset
    clip_onset = onset - row.lead
    if job.tables.rules[0].truncate:
        if onset >= n or onset + row.active <= 0:
            return OUTSIDE
    elif clip_onset < 0 or clip_onset + row.length > n:
        return OUTSIDE
    reason = _place_clip(job, s, begin, at, row.member, row.class_id, call, clip_onset, row.ratio, row.reversed)
    if reason != NO_REASON:
        return reason
    e = job.event
    for j in range(begin, at):  # whatever may overlap, no animal calls twice at a time
        if e[j].speaker == e[at].speaker and e[j].onset < e[at].offset and e[at].onset < e[j].offset:
            return OVERLAP_SAME_CLASS
    _set_levels(job, s, row.voice, at, ONE, row.position)
    return NO_REASON


@compiled
def _sound_series(job: Any, stage: Any, s: Any, begin: Any, at: Any, n_calls: Any, first_call: Any, start: Any) -> Any:
    """Place the calls of a series: where the event rows end, and how many calls the scene cuts off."""
    outside = ZERO
    for i in range(n_calls):
        if job.scene[s].n_asked >= job.tables.rules[0].max_slots:
            _count(job, s, ZERO, OVER_LIMIT)
            break
        reason = _sound_call(job, s, begin, at, stage.series[i], first_call + i, start)
        if reason == OUTSIDE:
            outside += 1
        else:
            at += _count(job, s, ONE if reason == NO_REASON else ZERO, reason)
    return at, outside


@compiled
def _series_start(job: Any, stage: Any, s: Any, n_calls: Any, voice: Any) -> Any:
    """Where a series of calls starts: anywhere that the scene holds it whole, or with edges that cut, any of it.

    One that is longer than the scene is placed by one of its calls, which lies in the scene.
    """
    n = job.scene[s].n_samples
    low, high = ZERO, ZERO
    for i in range(n_calls):
        row = stage.series[i]
        low = min(low, row.onset - row.lead)
        high = max(high, row.onset - row.lead + row.length)
    span = high - low
    part = _part_of(job, s, voice, START)
    if job.tables.rules[0].truncate:
        return math.floor(part * (n + span)) - span - low
    if span <= n:
        return math.floor(part * (n - span + 1)) - low
    row = stage.series[math.floor(_part_of(job, s, voice, ANCHOR) * n_calls)]
    return math.floor(part * (n - row.length + 1)) - (row.onset - row.lead)


@compiled
def _write_bout(job: Any, cast: Any, stage: Any, s: Any, n_calls: Any, first_call: Any) -> None:
    """Calls of voice 0 with silences between them, as the series."""
    v = stage.voice[0]
    rate = job.tables.rules[0].sample_rate
    sounded, silent_s = ZERO, 0.0
    for i in range(n_calls):
        call = first_call + i
        if i > 0:
            silent_s += _process_value(job, s, cast.rules[0].interval_node, call, INTERVAL, v.position)
        _write_call(job, cast, stage, s, v, i, call, sounded + to_samples(silent_s, rate))
        sounded += stage.series[i].active


@compiled
def _is_calling(job: Any, stage: Any, begin: Any, at: Any, n_calls: Any, start: Any) -> Any:
    """Does the series' caller already call then, in another series?"""
    t = job.tables
    e = job.event
    for i in range(n_calls):
        row = stage.series[i]
        speaker = t.clip[t.member[row.member].clip].speaker
        onset = start + row.onset
        for j in range(begin, at):
            if e[j].speaker == speaker and e[j].onset < onset + row.active and onset < e[j].offset:
                return True
    return False


@compiled
def _run_bout(
    job: Any, cast: Any, stage: Any, s: Any, begin: Any, at: Any, medium: Any, class_id: Any, position: Any
) -> Any:
    """One caller calls some times in a row, one that is silent then if there is one: where the event rows end."""
    voice = stage.counter[_VOICES]
    n_calls = math.floor(_process_value(job, s, cast.rules[0].calls_node, voice, N_CALLS, position) + 0.5)
    if n_calls > job.tables.rules[0].max_slots - job.scene[s].n_asked:
        stage.counter[_VOICES] += 1
        for _ in range(n_calls):
            _count(job, s, ZERO, OVER_LIMIT)
        return at
    first_call = stage.counter[_CALLS]
    stage.counter[_CALLS] += n_calls
    stage.counter[_TRIED] = 0
    start = ZERO
    found = False
    while True:
        reason = _find_caller(job, cast, stage, s, medium, class_id, position, NO_SPEAKER)
        if reason != NO_REASON:
            break
        found = True
        _write_bout(job, cast, stage, s, n_calls, first_call)
        start = _series_start(job, stage, s, n_calls, voice)
        if not _is_calling(job, stage, begin, at, n_calls, start):
            break
        stage.counter[_HEARD] -= 1  # it is there already, as one that calls
        job.scene[s].n_redrawn += 1
    if not found:
        for _ in range(n_calls):
            _count(job, s, ZERO, reason)
        return at
    at, outside = _sound_series(job, stage, s, begin, at, n_calls, first_call, start)
    job.scene[s].n_outside += outside
    return at


@compiled
def _run_bouts(
    job: Any, cast: Any, stage: Any, s: Any, trial: Any, begin: Any, medium: Any, chosen: Any, duration_s: Any
) -> Any:
    """As many bouts as a count or a rate asks for; where the event rows end."""
    rules = job.tables.rules[0]
    wanted = _wanted(job, s, len(chosen), duration_s)
    at = begin
    bout = trial * TRIAL
    for k in range(len(wanted)):
        for _ in range(wanted[k]):
            position = np.int64(k)
            if len(wanted) == 1:
                position = below(rules.seed, EVENTS, job.number[s], bout * ATTEMPTS * 8 + CLASS, len(chosen))
            at = _run_bout(job, cast, stage, s, begin, at, medium, chosen[position], position)
            bout += 1
    return at


@compiled
def _mean_taken(job: Any, cast: Any, s: Any, v: Any, period: Any) -> Any:
    """Mean samples, in whole periods, that a call of voice ``v`` takes up."""
    total, n = 0.0, ZERO
    for i in range(cast.member_first[v.caller], cast.member_first[v.caller + 1]):
        if _usable(job, s, cast.member[i], v.ratio) == NO_REASON:
            _, active, _ = _as_played(job, cast.member[i], v.ratio, False)
            total += max(math.ceil(active / period), 1) * period
            n += 1
    return total / n


@compiled
def _common_period(job: Any, cast: Any, stage: Any, s: Any, n_callers: Any) -> Any:
    """Samples between the cycles of a chorus: the longest tried at which voices 1 to n_callers can reach their duties.

    Sets how likely each calls in a free cycle. A call takes up T samples on average, in whole periods P, and is
    followed by P (1 - k) / k without one: active for the mean length l, that is a duty d = l / (T + P (1 - k) / k).
    """
    period = np.inf
    for i in range(1, n_callers + 1):
        period = min(period, stage.voice[i].mean_active / stage.voice[i].duty)
    for attempt in range(PERIODS):
        within = True
        for i in range(1, n_callers + 1):
            v = stage.voice[i]
            spare = v.mean_active / v.duty - _mean_taken(job, cast, s, v, period)
            within = within and spare >= -1e-6 * period
            v.kept = period / (period + max(spare, 0.0))
        if within or attempt == PERIODS - 1:
            break
        period *= 0.9
    return period


@compiled
def _run_chorus(
    job: Any, cast: Any, stage: Any, s: Any, begin: Any, at: Any, medium: Any, class_id: Any, position: Any
) -> Any:
    """Several callers of a class call once in each period, all through the scene: where the event rows end.

    In each cycle of the period P a caller that is silent may call. Its call of length l begins at

        cycle x P + (1 - synchrony) (phase P + u max(P - l, 0)),      phase, u ~ U(0, 1),

    with a phase of the caller and u of the call, unless its last call lasts until then.
    """
    rules = cast.rules[0]
    seed, scene = job.tables.rules[0].seed, job.number[s]
    rate, n = job.tables.rules[0].sample_rate, job.scene[s].n_samples
    base = stage.counter[_VOICES]
    wanted = math.floor(_process_value(job, s, rules.callers_node, base, N_CALLERS, position) + 0.5)
    looseness = 1.0 - _process_value(job, s, rules.synchrony_node, base, SYNCHRONY, position)
    stage.counter[_TRIED] = 0
    n_callers = ZERO
    for _ in range(wanted):
        reason = _find_caller(job, cast, stage, s, medium, class_id, position, NO_SPEAKER)
        if reason != NO_REASON:
            _count(job, s, ZERO, reason)
            continue
        n_callers += 1
        v = stage.voice[0]
        v.duty = _process_value(job, s, rules.duty_node, v.voice, DUTY, position)
        stage.voice[n_callers] = v
    period = _common_period(job, cast, stage, s, n_callers)
    common = _part_of(job, s, base, COMMON_PHASE)
    for i in range(1, n_callers + 1):
        v = stage.voice[i]
        phase = _part_of(job, s, v.voice, PHASE)
        busy_until = -np.int64(2**62)
        cycle = -LEAD_IN
        while (cycle + common) * period < n:
            number = stage.counter[_CYCLES]
            stage.counter[_CYCLES] += 1
            begins = (cycle + common) * period
            cycle += 1
            if uniform(seed, CYCLES, scene, number * 2 + KEPT) >= v.kept:
                continue
            if job.scene[s].n_asked >= job.tables.rules[0].max_slots:
                _count(job, s, ZERO, OVER_LIMIT)
                return at
            call = stage.counter[_CALLS]
            row = stage.series[0]
            _write_call(job, cast, stage, s, v, 0, number, ZERO)
            loose = phase * period + uniform(seed, CYCLES, scene, number * 2 + JITTER) * max(period - row.active, 0.0)
            row.onset = to_samples((begins + looseness * loose) / rate, rate)
            if row.onset < busy_until:
                continue
            busy_until = row.onset + row.active
            reason = _sound_call(job, s, begin, at, row, call, ZERO)
            if reason != OUTSIDE:
                stage.counter[_CALLS] += 1
                at += _count(job, s, ONE if reason == NO_REASON else ZERO, reason)
    return at


@compiled
def _run_antiphony(
    job: Any, cast: Any, stage: Any, s: Any, begin: Any, at: Any, medium: Any, chosen: Any, position: Any
) -> Any:
    """Two callers take turns: where the event rows end."""
    t = job.tables
    rules = cast.rules[0]
    rate, n = t.rules[0].sample_rate, job.scene[s].n_samples
    base = stage.counter[_VOICES]
    answering = position + 1 if rules.other_class else position
    if answering == len(chosen):  # the last of an odd number of classes
        _count(job, s, ZERO, TOO_FEW_CALLERS)
        return at
    stage.counter[_TRIED] = 0
    reason = _find_caller(job, cast, stage, s, medium, chosen[position], position, NO_SPEAKER)
    stage.voice[1] = stage.voice[0]
    if reason == NO_REASON:
        if rules.other_class:
            stage.counter[_TRIED] = 0
        first = cast.member[cast.member_first[stage.voice[1].caller]]
        speaker = np.int64(t.clip[t.member[first].clip].speaker)
        reason = _find_caller(job, cast, stage, s, medium, chosen[answering], answering, speaker)
    if reason != NO_REASON:
        _count(job, s, ZERO, reason)
        return at

    until_the_end = rules.exchanges_node < 0
    exchanges = ZERO
    if not until_the_end:
        exchanges = math.floor(_process_value(job, s, rules.exchanges_node, base, N_EXCHANGES, position) + 0.5)
    first_call = stage.counter[_CALLS]
    i = ZERO
    exchange = ZERO
    sounded, silent_s = ZERO, 0.0  # a time is samples of sound and seconds of silence before it
    lead_in = ZERO  # what runs through the scene starts anywhere in so many samples before it
    while until_the_end or exchange < exchanges:
        if exchange > 0:
            silent_s += _process_value(job, s, rules.pause_node, first_call + i, PAUSE, position)
        onset = sounded + to_samples(silent_s, rate)
        if exchange == LEAD_IN:
            lead_in = onset
        if (until_the_end and exchange > LEAD_IN and onset - lead_in >= n) or i + 2 > len(stage.series):
            break
        _write_call(job, cast, stage, s, stage.voice[1], i, first_call + i, onset)
        active = stage.series[i].active
        call = first_call + i + 1
        if _part_of(job, s, call, OVERLAPS) < rules.overlap_probability:
            answer = onset + math.floor(_part_of(job, s, call, OVERLAP_AT) * active)
        else:
            sounded += active
            silent_s += _process_value(job, s, rules.latency_node, call, LATENCY, answering)
            answer = sounded + to_samples(silent_s, rate)
        _write_call(job, cast, stage, s, stage.voice[0], i + 1, call, answer)
        sounded = max(onset + active, answer + stage.series[i + 1].active) - to_samples(silent_s, rate)
        i += 2
        exchange += 1
    stage.counter[_CALLS] += i
    if i == 0:
        return at
    if until_the_end:
        start = -math.floor(_part_of(job, s, base, START) * lead_in)
    else:
        start = _series_start(job, stage, s, i, base)
    at, outside = _sound_series(job, stage, s, begin, at, i, first_call, start)
    if not until_the_end:
        job.scene[s].n_outside += outside
    return at


@compiled
def _run_process(job: Any, cast: Any, stage: Any, s: Any, begin: Any, medium: Any, chosen: Any, duration_s: Any) -> Any:
    """Place the calls of a scene that has some: where the event rows end."""
    at = begin
    for trial in range(ATTEMPTS):  # until there is at least one event
        job.scene[s].n_outside = 0
        stage.counter[_VOICES] = trial * TRIAL
        stage.counter[_CALLS] = trial * TRIAL
        stage.counter[_CYCLES] = trial * TRIAL_CYCLES
        stage.counter[_HEARD] = 0
        if cast.rules[0].kind == BOUT:
            at = _run_bouts(job, cast, stage, s, np.int64(trial), begin, medium, chosen, duration_s)
        else:
            for k in range(0, len(chosen), 2 if cast.rules[0].other_class else 1):
                position = np.int64(k)
                if cast.rules[0].kind == CHORUS:
                    at = _run_chorus(job, cast, stage, s, begin, at, medium, chosen[k], position)
                else:
                    at = _run_antiphony(job, cast, stage, s, begin, at, medium, chosen, position)
        if job.scene[s].n_asked > 0:
            return at
    # So rare that one call is what "at least one" means.
    placed, reason, _ = _place_event(job, s, ZERO, begin, at, medium, chosen[0], ZERO, FREE)
    return at + _count(job, s, placed, reason)


@compiled
def plan_process_scenes(job: Any, cast: Any, stage: Any, start: Any) -> Any:
    """As ``plan_scenes``, with calls in bouts, choruses or antiphony."""
    rules = job.tables.rules[0]
    at = ZERO
    for s in range(start, len(job.number)):
        if at + rules.max_slots > len(job.event):
            return s
        begin = at
        medium, weights, duration_s = _begin_scene(job, s)
        if not is_empty(rules.seed, job.number[s], rules.empty_numerator, rules.empty_denominator):
            chosen = _choose_scene_classes(job, s, weights)
            at = _run_process(job, cast, stage, s, begin, medium, chosen, duration_s)
        _end_scene(job, s, begin, at)
    return len(job.number)
