"""What keys of a spec must fulfil where an item is a question, and what they must leave alone where it is not."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from synthscape.spec.problem import Key, SpecKeyError, number_text, shown
from synthscape.spec.schema import (
    CHOICE_TASKS,
    QUESTION_TASKS,
    TIMED_TASKS,
    Classes,
    Clips,
    Community,
    Events,
    Level,
    Propagation,
    Question,
    Spec,
)

MOST_QUESTIONS: Final = 2**30  # so that each has numbers for all its scenes and attempts
APART: Final = ("recording", "recordist", "site")
_ALWAYS_ASKED: Final = ("negatives", "apart", "domain_shift", "none_share", "matched_share", "with_times")
_OF_SCENES: Final = ("distractors", "patches", "background_clip", "duration_bins")
#: Keys of ``question`` that tasks look at beside those that have checks of their own.
_ASKED: Final[dict[str, tuple[str, ...]]] = {
    "few_shot_detection": ("candidates", "examples", *_OF_SCENES),
    "few_shot_scenes": ("support_duration", "support_calls", *_OF_SCENES),
    "call_type_mcq": ("options",),
    "call_type_binary": ("examples", *_OF_SCENES),
    "call_type_same_different": (),
    "call_type_matching": ("options",),
    "species_matching": ("options",),
    "counting": ("examples", "most", *_OF_SCENES),
}
_COUNTED: Final = ("few_shot_detection", "few_shot_scenes", "call_type_binary")  # events.count is calls of a candidate
_MAY_BE_NONE: Final = (
    "few_shot_detection",
    "few_shot_scenes",
    "call_type_mcq",
    "call_type_matching",
    "species_matching",
)


def check_question(spec: Spec) -> None:
    """Raise SpecKeyError where keys do not go with the spec's task."""
    if spec.task not in QUESTION_TASKS:
        _check_unused(spec)
        return
    _check_scenes(spec)
    _check_effect(spec)
    _check_identity(spec)
    _check_choices(spec)


def _check_unused(spec: Spec) -> None:
    for name, section in (("question", Question()), ("clips", Clips())):
        if getattr(spec, name) != section:
            got = f"task: {spec.task}"
            raise SpecKeyError((name,), "a task whose items are questions", got, f"set another task, or remove {name}")
    if spec.output.dcase:
        _refuse(("output", "dcase"), "false", "true", spec)
    if spec.task == "detect_diarize" and spec.events.group != "track" and spec.events.process in (None, "gaps"):
        advice = "set group: track, or a process of callers (bout, chorus, antiphony)"
        raise SpecKeyError(("events", "group"), "track with task: detect_diarize", spec.events.group, advice)


def _check_scenes(spec: Spec) -> None:
    events = spec.events
    if spec.items > MOST_QUESTIONS:
        raise SpecKeyError(("items",), f"at most {MOST_QUESTIONS} questions", str(spec.items), "ask for fewer")
    if spec.empty_share:
        _refuse(("empty_share",), "0", number_text(spec.empty_share), spec, "question.none_share is what you want")
    if spec.community != Community():
        _refuse(("community",), "no table", "one", spec)
    if spec.classes.per_scene != Classes().per_scene:
        _refuse(("classes", "per_scene"), "nothing", _said(spec.classes.per_scene), spec)
    for key, value, default in (
        (("events", "rate"), events.rate, None),
        (("events", "process"), events.process, None),
        (("events", "group"), events.group, "none"),
        (("events", "level"), events.level, Level()),
        (("events", "propagation"), events.propagation, Propagation()),
    ):
        if value != default:
            _refuse(key, "nothing", _said(value), spec)
    counted = spec.task in _COUNTED
    least = 0 if spec.task == "few_shot_scenes" else 1
    if counted and events.count is None:
        expected = "the number of calls of what is asked about"
        raise SpecKeyError(("events", "count"), expected, "null", "add for example count: {uniform_int: [1, 3]}")
    if counted and events.count is not None and not least <= events.count.bounds()[0] <= events.count.bounds()[1] <= 64:
        raise SpecKeyError(("events", "count"), f"{least} to 64 calls", _said(events.count), "ask for so many")
    if not counted and events.count is not None:
        _refuse(("events", "count"), "null", _said(events.count), spec)
    if not events.snr.measure_band:
        advice = "remove it: answers must be audible"
        raise SpecKeyError(("events", "snr", "measure_band"), "true where items are questions", "false", advice)
    if events.edges == "truncate" and spec.task != "few_shot_scenes":
        _refuse(("events", "edges"), "inside", "truncate", spec, "a call that is cut could be counted or not")
    if spec.output.rttm:
        _refuse(("output", "rttm"), "false", "true", spec)
    if spec.output.dcase and spec.task != "few_shot_scenes":
        _refuse(("output", "dcase"), "false", "true", spec)


def _check_effect(spec: Spec) -> None:
    """Keys that the task does not look at keep their defaults."""
    events, default = spec.events, Events()
    unused: list[tuple[Key, Any, Any]] = [
        (("events", name), getattr(events, name), getattr(default, name))
        for name in ("gap_s", "bout", "chorus", "antiphony", "max_per_scene")
    ]
    unused += [
        (("question", entry.name), getattr(spec.question, entry.name), getattr(Question(), entry.name))
        for entry in fields(Question)
        if entry.name not in _ALWAYS_ASKED and entry.name not in _ASKED[spec.task]
    ]
    if spec.task in CHOICE_TASKS:
        unused += [
            (("duration",), spec.duration, Spec(bank="-", backgrounds="-").duration),
            (("events", "snr", "db"), events.snr.db, default.snr.db),
            (("events", "overlap"), events.overlap, default.overlap),
        ]
    if spec.clips.background:
        unused.append((("clips", "level_dbfs"), spec.clips.level_dbfs, Clips().level_dbfs))
    else:
        unused.append((("clips", "snr_db"), spec.clips.snr_db, Clips().snr_db))
    for key, value, usual in unused:
        if value != usual:
            _refuse(key, "nothing, as it has no effect", _said(value), spec)


def _check_identity(spec: Spec) -> None:
    """Examples, query and all events of one label share ratio and direction."""
    events = spec.events
    for name, draw, same in (
        ("resample", events.resample, events.resample.kind == "constant"),
        ("reverse", events.reverse, events.reverse.bounds() in ((0.0, 0.0), (1.0, 1.0)) or _certain(events.reverse)),
    ):
        if draw.per == "event" and not same:
            expected = "a draw per scene (one for an item) or per class (one for each type in it)"
            advice = "write per: scene beside it; a call played at another ratio, or backwards, is another call type"
            raise SpecKeyError(("events", name), expected, _said(draw), advice)
    if spec.classes.by == "species":
        if spec.task.startswith("call_type"):
            advice = "set by: type, or call_type, or cluster"
            raise SpecKeyError(("classes", "by"), f"call types with task: {spec.task}", "species", advice)
        if spec.question.negatives.within_species:
            key = ("question", "negatives", "within_species")
            raise SpecKeyError(
                key, "0 with classes.by: species", str(spec.question.negatives.within_species), "set it to 0"
            )
    elif spec.task == "species_matching":
        raise SpecKeyError(("classes", "by"), "species with task: species_matching", spec.classes.by, "set by: species")
    unknown = [name for name in spec.question.apart if name not in APART]
    if unknown:
        raise SpecKeyError(("question", "apart"), f"some of {', '.join(APART)}", shown(unknown[0]), "remove it")
    if "recording" not in spec.question.apart and spec.question.apart:
        expected = "recording among them: one recording has one recordist and site"
        raise SpecKeyError(("question", "apart"), expected, ", ".join(spec.question.apart), "add recording")


def _certain(draw: Any) -> bool:
    return all(p in (0.0, 1.0) for p in draw.params)


def _check_choices(spec: Spec) -> None:
    question = spec.question
    weights = question.negatives
    if not sum(
        (weights.within_species, weights.same_genus, weights.same_family, weights.cross_species, weights.random)
    ):
        raise SpecKeyError(("question", "negatives"), "a weight over 0", "all 0", "weigh one of them")
    if question.none_share and spec.task not in _MAY_BE_NONE:
        _refuse(("question", "none_share"), "0", number_text(question.none_share), spec)
    if question.matched_share and spec.task not in CHOICE_TASKS:
        _refuse(("question", "matched_share"), "0", number_text(question.matched_share), spec)
    if question.with_times and spec.task not in TIMED_TASKS:
        _refuse(("question", "with_times"), "false", "true", spec)
    if question.candidates.kind not in ("constant", "uniform_int"):
        expected = "a number or uniform_int, so that letters can be balanced exactly"
        raise SpecKeyError(("question", "candidates"), expected, _said(question.candidates), "write one of these")


def _refuse(key: Key, expected: str, got: str, spec: Spec, advice: str = "remove it") -> None:
    raise SpecKeyError(key, f"{expected} with task: {spec.task}", got, advice)


def _said(value: Any) -> str:
    return shown(value.plain("event") if hasattr(value, "plain") else value if isinstance(value, str) else "a setting")
