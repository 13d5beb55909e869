"""What keys of a spec must fulfil together."""

from __future__ import annotations

import math
from typing import Any, Final

from synthscape.spec.problem import SpecKeyError, number_text, shown
from synthscape.spec.question_checks import check_question
from synthscape.spec.schema import MOST_EVENTS, QUESTION_TASKS, Antiphony, Bout, Chorus, Events, Spec
from synthscape.units import seconds_to_samples

LONGEST_SCENE_SAMPLES: Final = 2**31 - 1
MOST_EVENTS_ASKED: Final = 1_000_000  # a Poisson mean


def check_spec(spec: Spec) -> None:
    """Raise SpecError (a SpecKeyError) where keys contradict each other or ask for more than fits."""
    _check_scene_length(spec)
    _check_classes(spec)
    _check_community(spec)
    check_question(spec)
    if spec.task not in QUESTION_TASKS:
        _check_number_of_events(spec)
    events = spec.events
    if events.group == "track" and events.reverse.bounds()[1] > 0:
        got = shown(events.reverse.plain("event", "bernoulli"))
        raise SpecKeyError(
            ("events", "reverse"), "0 with events.group: track", got, "a track is never reversed; set reverse: 0"
        )
    _check_levels(spec)
    _check_propagation(spec)
    _check_backgrounds(spec)
    if spec.output.control != "none" and spec.output.stems:
        expected = f"false with output.control: {spec.output.control}, which writes nothing of the real audio"
        raise SpecKeyError(("output", "stems"), expected, "true", "set output.stems: false, or output.control: none")
    denied = set(spec.licences.deny) & set(spec.licences.allow or ())
    if denied:
        got = ", ".join(sorted(denied))
        raise SpecKeyError(("licences", "deny"), "no licence that allow lists", got, "remove it from one of the two")


def _check_scene_length(spec: Spec) -> None:
    low, high = spec.duration.bounds()
    rate = spec.sample_rate
    if high * rate > LONGEST_SCENE_SAMPLES:
        longest = number_text(math.floor(LONGEST_SCENE_SAMPLES / rate))
        got = f"{number_text(high)} s at {rate} Hz"
        raise SpecKeyError(("duration",), "a scene of less than 2**31 samples", got, f"ask for at most {longest} s")
    if seconds_to_samples(low, rate) < 1:
        raise SpecKeyError(
            ("duration",), "a scene of 1 sample or more", f"{number_text(low)} s", "ask for a longer one"
        )


def _check_classes(spec: Spec) -> None:
    classes = spec.classes
    for name, column, by in (
        ("column", classes.column, ("cluster", "type")),
        ("coarse", classes.coarse, ("type",)),
    ):
        key = ("classes", name)
        if column is None:
            continue
        if classes.by not in by:
            expected = f"null unless classes.by is {' or '.join(by)}"
            raise SpecKeyError(key, expected, shown(column), f"set by: {by[0]}, or null")
        if column != "cluster" and not column.startswith("cluster_"):
            raise SpecKeyError(key, "cluster or cluster_*", shown(column), "name a cluster column of the bank")


def _check_community(spec: Spec) -> None:
    community = spec.community
    if community.table is not None:
        return
    for name in ("habitat", "month", "hour"):
        value = getattr(community, name)
        if value is not None:
            got = shown(value if isinstance(value, str) else _plain(value))
            advice = f"add table: FILE, or remove {name}"
            raise SpecKeyError(("community", name), "community.table beside it", got, advice)


def _check_number_of_events(spec: Spec) -> None:
    events = spec.events
    given = [name for name in ("count", "rate", "process") if getattr(events, name) is not None]
    if events.process == "bout":
        given.remove("process")
        if len(given) != 1:
            got = " and ".join(given) or "none"
            advice = "keep one, and set the other to null" if given else "add for example count: {poisson: 2}"
            expected = "the number of bouts as exactly one of events.count, events.rate"
            raise SpecKeyError(("events", "process"), expected, got, advice)
    if len(given) != 1:
        got = " and ".join(given) or "none"
        advice = "keep one, and set the other to null" if given else "add for example rate: 0.2, or count: {poisson: 5}"
        raise SpecKeyError(
            ("events", *given[-1:]), "exactly one of events.count, events.rate, events.process", got, advice
        )
    if events.process == "gaps" and events.gap_s is None:
        raise SpecKeyError(
            ("events", "process"),
            "events.gap_s beside process: gaps",
            "none",
            "add for example gap_s: {uniform: [0, 2]}",
        )
    if events.process != "gaps" and events.gap_s is not None:
        got = shown(_plain(events.gap_s))
        raise SpecKeyError(
            ("events", "gap_s"), "gap_s only with process: gaps", got, "add process: gaps, or remove gap_s"
        )
    _check_process(spec)
    _check_count_fits(events)
    if events.rate is not None:
        mean = events.rate.bounds()[1] * spec.duration.bounds()[1] * _calls_each(events)
        if mean > MOST_EVENTS_ASKED:
            got = f"up to {number_text(mean)} events in a scene"
            raise SpecKeyError(("events", "rate"), f"a rate x duration of at most {MOST_EVENTS_ASKED}", got, "lower it")
    _check_events_possible(spec)


def _check_process(spec: Spec) -> None:
    """What bouts, choruses and antiphony need and exclude."""
    events = spec.events
    for name, section in (("bout", Bout()), ("chorus", Chorus()), ("antiphony", Antiphony())):
        if events.process != name and getattr(events, name) != section:
            got = shown(events.process) if events.process else "no process"
            advice = f"set process: {name}, or remove {name}"
            raise SpecKeyError(("events", name), f"events.process: {name} beside it", got, advice)
    if events.process in (None, "gaps"):
        return
    if events.group == "track":
        expected = f"none with events.process: {events.process}, which places call by call"
        raise SpecKeyError(("events", "group"), expected, "track", "set group: none, or another process")
    if events.process == "bout" and events.bout.calls.bounds()[1] > events.max_per_scene:
        expected = f"at most events.max_per_scene, {events.max_per_scene}"
        got = f"up to {number_text(events.bout.calls.bounds()[1])}"
        raise SpecKeyError(("events", "bout", "calls"), expected, got, "ask for fewer, or raise max_per_scene")
    forbidden = events.overlap.same_class == "forbid"
    if events.process == "chorus" and forbidden and events.chorus.callers.bounds()[1] > 1:
        expected = "allow with events.process: chorus, whose callers of one class call at the same time"
        raise SpecKeyError(("events", "overlap", "same_class"), expected, "forbid", "set same_class: allow")
    if events.process != "antiphony":
        return
    antiphony = events.antiphony
    if antiphony.exchanges is not None and 2 * antiphony.exchanges.bounds()[1] > events.max_per_scene:
        expected = f"at most half of events.max_per_scene, {events.max_per_scene}"
        got = f"up to {number_text(antiphony.exchanges.bounds()[1])}"
        raise SpecKeyError(("events", "antiphony", "exchanges"), expected, got, "ask for fewer, or raise max_per_scene")
    if antiphony.partner == "other_class":
        if spec.classes.per_scene.bounds()[0] < 2:
            expected = "2 classes or more in a scene, so that another class can answer"
            got = f"{number_text(spec.classes.per_scene.bounds()[0])}"
            raise SpecKeyError(("classes", "per_scene"), expected, got, "ask for 2, or set partner: same_class")
    elif antiphony.overlap_probability > 0 and forbidden:
        expected = "allow where answers may overlap the calls of their class"
        advice = "set same_class: allow, or antiphony.overlap_probability: 0"
        raise SpecKeyError(("events", "overlap", "same_class"), expected, "forbid", advice)


def _calls_each(events: Events) -> float:
    """Most calls that one of ``events.count`` or ``events.rate`` stands for."""
    return events.bout.calls.bounds()[1] if events.process == "bout" else 1.0


def _check_count_fits(events: Events) -> None:
    if events.count is None:
        return
    most = events.count.bounds()[1] * _calls_each(events)
    if math.isfinite(most) and most > events.max_per_scene:
        advice = (
            f"raise max_per_scene to {number_text(most)}, or ask for fewer"
            if most <= MOST_EVENTS
            else f"ask for at most {MOST_EVENTS}"
        )
        raise SpecKeyError(
            ("events", "count"),
            f"at most events.max_per_scene, {events.max_per_scene}",
            f"up to {number_text(most)}",
            advice,
        )


def _check_events_possible(spec: Spec) -> None:
    """Scenes outside ``empty_share`` have one event or more, so one must be possible."""
    if spec.empty_share == 1:
        return
    for name in ("count", "rate"):
        draw = getattr(spec.events, name)
        if draw is not None and draw.bounds()[1] == 0:
            expected = "more than 0, since scenes outside empty_share have events"
            raise SpecKeyError(("events", name), expected, "0", "raise it, or set empty_share: 1")
    gap_s, longest_s = spec.events.gap_s, spec.duration.bounds()[1]
    if gap_s is not None and gap_s.bounds()[0] >= longest_s:
        expected = f"gaps that may be shorter than a scene, {number_text(longest_s)} s, since each scene has events"
        got = f"at least {number_text(gap_s.bounds()[0])} s"
        raise SpecKeyError(("events", "gap_s"), expected, got, "lower it, or ask for longer scenes")


def _check_levels(spec: Spec) -> None:
    level, snr, spl_db = spec.events.level, spec.events.snr, spec.background.spl_db
    if level.mode == "source":
        for key, given, example in (
            (("events", "level", "source_level_db"), level.source_level_db, "source_level_db: {uniform: [70, 90]}"),
            (
                ("events", "propagation", "distance_m"),
                spec.events.propagation.distance_m,
                "distance_m: {uniform: [5, 50]}",
            ),
            (("background", "spl_db"), spl_db, "spl_db: {uniform: [30, 50]}"),
        ):
            if given is None:
                raise SpecKeyError(key, "it to be given with events.level.mode: source", "null", f"add {example}")
        if spec.events.propagation.probability < 1:
            got = number_text(spec.events.propagation.probability)
            expected = "1 with events.level.mode: source, where every call comes from somewhere"
            raise SpecKeyError(("events", "propagation", "probability"), expected, got, "remove it")
    else:
        for key, given in (
            (("events", "level", "source_level_db"), level.source_level_db),
            (("background", "spl_db"), spl_db),
        ):
            if given is not None:
                expected, advice = "null with events.level.mode: snr", "set events.level.mode: source, or remove it"
                raise SpecKeyError(key, expected, shown(_plain(given)), advice)
        if snr.reference == "band" and not snr.measure_band:
            advice = "set it to true, or take another reference, such as local"
            raise SpecKeyError(
                ("events", "snr", "measure_band"), "true with events.snr.reference: band", "false", advice
            )


def _check_propagation(spec: Spec) -> None:
    propagation = spec.events.propagation
    rt60_s = propagation.tail.rt60_s
    if propagation.impulses is not None and rt60_s is not None:
        raise SpecKeyError(
            ("events", "propagation", "tail", "rt60_s"),
            "null beside events.propagation.impulses, which reverberate themselves",
            shown(_plain(rt60_s)),
            "remove one of the two",
        )
    nothing = propagation.distance_m is None and propagation.impulses is None and rt60_s is None
    if nothing and propagation.probability < 1:
        raise SpecKeyError(
            ("events", "propagation", "probability"),
            "distance_m, impulses or tail.rt60_s beside it",
            "none",
            "say what happens to propagated events, or remove it",
        )


def _check_backgrounds(spec: Spec) -> None:
    background = spec.background
    if background.level_dbfs is not None and background.level_lufs is not None:
        raise SpecKeyError(
            ("background", "level_lufs"),
            "level_dbfs: null beside it",
            f"level_dbfs: {shown(background.level_dbfs.plain('scene'))}",
            "set background.level_dbfs: null, or remove level_lufs",
        )
    probability = background.noise.probability
    if probability > 0 and background.level_dbfs is None and background.level_lufs is None:
        raise SpecKeyError(
            ("background", "noise", "probability"),
            "0 where backgrounds are as loud as recorded, since noise was never recorded",
            number_text(probability),
            "give background.level_dbfs or background.level_lufs",
        )
    if spec.backgrounds is None and probability < 1:
        raise SpecKeyError(
            ("backgrounds",),
            "a folder, unless background.noise.probability is 1",
            f"null with {number_text(probability)}",
            "name a store of backgrounds, or set background.noise.probability: 1",
        )


def _plain(draw: Any) -> Any:
    return draw.plain("event")
