"""Items as rows for language models: the question in words with a placeholder for each audio file, and the answer.

A pure function of tables and spec. Rows are described in docs/tasks.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson
import pyarrow as pa

from synthscape.errors import DatasetError
from synthscape.labels.json_rows import json_rows
from synthscape.spec import Spec
from synthscape.spec.problem import SpecKeyError, shown
from synthscape.spec.schema import SCENE_TASKS, TIMED_TASKS
from synthscape.tasks.wording import CHOICE_TASKS, none_is_possible, question, sentences, templates

Item = dict[str, Any]  # a row of the items table

NO_LICENCE: Final = "unknown"

_EVENT_COLUMNS: Final = (
    "scene_id",
    "onset_s",
    "offset_s",
    "low_hz",
    "high_hz",
    "species",
    "class",
    "call_type",
    "speaker",
    "role",
    "audible",
    "snr_band_db",
)
_IN_METADATA: Final = (
    "item_number",
    "wording",
    "scene_ids",
    "query_scene_id",
    "background_scene_id",
    "answer_letters",
    "count",
    "times",
    "regions",
    "negatives",
    "matched",
    "domain_shift",
    "apart",
)
# What names options, by task: the first that tells all of an item apart.
_NAMED: Final[dict[str, tuple[Callable[[Mapping[str, Any]], Sequence[str | None]], ...]]] = {
    "species_matching": (lambda o: (o["species"],), lambda o: (o["class"],)),
    "call_type_matching": (
        lambda o: (o["call_type"],),
        lambda o: (o["species"], o["call_type"]),
        lambda o: (o["class"],),
    ),
}
_OF_OPTIONS: Final = ("letter", "class", "species", "call_type", "present")
_OF_SOURCES: Final = ("scene_id", "role", "clip_id", "recording_id", "source_uid", "licence")


def chat_lines(items: pa.Table, events: pa.Table | None, spec: Spec) -> str:
    """The rows of :func:`chat_rows` as JSON lines: ASCII, one line each, also where names hold line separators."""
    text = b"\n".join([*map(orjson.dumps, chat_rows(items, events, spec)), b""]).decode()
    return re.sub(r"[^\x00-\x7f]", lambda sign: json.dumps(sign[0])[1:-1], text) if not text.isascii() else text


def chat_rows(items: pa.Table, events: pa.Table | None, spec: Spec) -> list[dict[str, Any]]:
    """One row per item, in order.

    Items with several audio files give ``messages`` and ``audio_paths``, as many placeholders in the user's text as
    paths and in their order; those with one give ``instruction_text``, ``output`` and ``file_name``.

    Args:
        items: rows of ``ITEMS_SCHEMA``.
        events: rows of ``EVENTS_SCHEMA`` of all scenes of the items, with ``strong_detection`` and ``detect_diarize``;
            else not looked at.
        spec: the dataset's, which :func:`synthscape.tasks.wording.check_templates` has checked.

    Raises:
        SpecError: a name that would be shown holds the placeholder, or is the word for none.
        DatasetError: items and spec don't fit each other, such as an answer of none that no question mentions.
    """
    of_scene: dict[str, list[dict[str, Any]]] = {}
    if spec.task in SCENE_TASKS:
        if events is None:
            raise DatasetError(f"task {spec.task}: expected the events of all items, got none; give the events table")
        for event in json_rows(events.select(_EVENT_COLUMNS)):
            of_scene.setdefault(event.pop("scene_id"), []).append(event)
    return [_row(item, of_scene, spec) for item in json_rows(items)]


def _row(item: Item, of_scene: dict[str, list[dict[str, Any]]], spec: Spec) -> dict[str, Any]:
    if item["task"] != spec.task:
        raise _unfit(item, f"is of task {item['task']!r}, expected {spec.task!r}; give the spec of its dataset")
    events = of_scene.get(item["scene_ids"][0], []) if spec.task in SCENE_TASKS else None
    single = len(item["scene_ids"]) == 1
    text = _user_text(item, spec, silent=single or spec.output.control == "text")
    answer = _answer(item, events, spec)
    row = {
        "id": item["item_id"],
        "task": item["task"],
        "source_dataset": spec.wording.dataset_name,
        "dataset_name": spec.wording.dataset_name,
        "license": "; ".join(sorted(set(item["licences"] or ()))) or NO_LICENCE,
        "metadata": orjson.dumps(_metadata(item, events, answer, spec)).decode(),
    }
    paths = _paths(item, spec)
    if single:
        return {**row, "instruction_text": text, "output": answer, "file_name": paths[0] if paths else None}
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
    return {**row, "audio_paths": paths, "messages": messages}


def _paths(item: Item, spec: Spec) -> list[str]:
    if spec.output.control == "text":
        return []
    paths: list[str | None] = item["audio"] or []
    if len(paths) != len(item["scene_ids"]) or None in paths:
        raise _unfit(item, f"has {len(item['scene_ids'])} scenes and {len(paths)} audio files; write its audio first")
    return [str(path) for path in paths]


# What is asked


def _user_text(item: Item, spec: Spec, *, silent: bool) -> str:
    """The question; ``silent`` leaves the placeholders out, and the clip of the background with them."""
    phrases = templates(spec.task, spec)
    number = item["wording"]
    if number is None or not 0 <= number < len(phrases):
        raise _unfit(item, f"has wording {number}, expected 0 to {len(phrases) - 1}; give the spec of its dataset")
    audio = spec.wording.audio
    if spec.task not in SCENE_TASKS:
        text = question(phrases[number], _fields(item, spec, audio))
        if text.count(audio) != len(item["scene_ids"]):
            expected = "one placeholder for each audio file"
            got = f"{text.count(audio)} for {len(item['scene_ids'])} audio files in item {item['item_id']}"
            raise SpecKeyError(("wording", "audio"), expected, got, "use another placeholder")
        if not silent:
            return text
    return question(phrases[number], _fields(item, spec, ""))


def _fields(item: Item, spec: Spec, audio: str) -> dict[str, str]:
    wording, task = spec.wording, spec.task
    fields = {"none": wording.none, "yes": wording.yes, "no": wording.no}
    if task in SCENE_TASKS:
        return fields
    scenes, query, background = item["scene_ids"], item["query_scene_id"], item["background_scene_id"]
    if task == "call_type_same_different":
        if len(scenes) != 2:
            raise _unfit(item, f"has {len(scenes)} clips, expected 2")
        return {**fields, "first": audio, "second": audio}
    examples = [scene for scene in scenes if scene not in (query, background)]
    if scenes != [*examples, *([] if background is None else [background]), query]:
        raise _unfit(item, f"has its audio in the order {scenes}, expected examples, background, query")
    options = item["options"] or []
    fields.update(sentences(task, spec, audio), query=audio, letters=", ".join(o["letter"] for o in options))
    if background is None or not audio:
        fields["background"] = ""
    if task == "few_shot_detection" or task in CHOICE_TASKS:
        if [scene for option in options for scene in option["example_scene_ids"]] != examples:
            raise _unfit(item, f"has the examples {examples}, its options have others")
        names = option_names(item, spec)
        lines = (
            f"{name}: {' '.join([audio] * len(option['example_scene_ids']))}"
            for name, option in zip(names, options, strict=True)
        )
        fields.update(examples="\n".join(lines), options=", ".join(names))
    else:
        fields["examples"] = " ".join([audio] * len(examples)).strip()
    if task == "few_shot_scenes":
        fields["times"] = _region_times(item, examples, spec)
        if not fields["times"]:
            raise _unfit(item, "has no POS region in its support scene, so nothing to ask about")
    return fields


def check_names(spec: Spec, classes: Sequence[Mapping[str, str | None]]) -> None:
    """Check, before anything is rendered, that names of the bank can be shown in rows.

    Args:
        spec: the dataset's.
        classes: ``class``, ``species`` and ``call_type`` of each.

    Raises:
        SpecError: a name holds the placeholder, or is the word for none, or no other tells two options apart.
    """
    if not spec.output.chat:
        return
    if spec.task in SCENE_TASKS:
        for one in classes:
            _shown_name(one["species"] or one["class"] or "", spec)
    if spec.task not in _NAMED:
        return
    for kind in _NAMED[spec.task]:
        for one in classes:
            if all(parts := kind(one)):
                _shown_name(" ".join(map(str, parts)), spec)
    seen: dict[str, str] = {}
    for one in classes:
        name = str(one["class"])
        text = _shown_name(name, spec)
        if not text or text in seen:
            got = f"{shown(name)} and {shown(seen[text])}" if text else shown(name)
            expected = "names that differ in more than line breaks and spaces around them, since they are answers"
            raise SpecKeyError(
                ("classes", "include"), expected, got, "leave one of them out, or set output.chat: false"
            )
        seen[text] = name


def option_names(item: Item, spec: Spec) -> list[str]:
    """What each option is called in the text: its letter, or where names are asked for, what tells all apart.

    Which kind of name that is depends on the whole set of options, never on the answer.
    """
    options = item["options"] or []
    if spec.task not in _NAMED:
        return [str(option["letter"]) for option in options]
    for kind in _NAMED[spec.task]:
        parts = [kind(option) for option in options]
        if all(all(part) for part in parts):
            names = [_shown_name(" ".join(map(str, part)), spec) for part in parts]
            if len(set(names)) == len(names) and all(names):
                return names
    raise _unfit(item, f"has options that no name tells apart: {[option['class'] for option in options]}")


def _shown_name(name: str, spec: Spec) -> str:
    """A name from the bank as it stands in a text: on one line, else as it is."""
    return _on_one_line(name, spec.wording.audio, spec.wording.none)


@lru_cache(4096)  # a name is in the text again and again
def _on_one_line(name: str, placeholder: str, none: str) -> str:
    printable = name if name.isprintable() else "".join(sign if sign.isprintable() else " " for sign in name)
    on_one_line = printable.strip()
    if placeholder in on_one_line:
        expected = "a placeholder that stands in no name"
        got = f"{shown(placeholder)}, which is in the name {shown(name)}"
        raise SpecKeyError(
            ("wording", "audio"), expected, got, "use another, or leave that class out (classes.include)"
        )
    if on_one_line == none:
        got = f"{shown(none)}, which is a name too"
        raise SpecKeyError(("wording", "none"), "a word that is no name", got, "use another, or leave that class out")
    return on_one_line


# What is right


def _answer(item: Item, events: list[dict[str, Any]] | None, spec: Spec) -> str:
    task, wording = spec.task, spec.wording
    if events is not None:
        return "\n".join(_event_line(event, spec) for event in events if _is_heard(event)) or wording.none
    if task == "few_shot_scenes":
        return _region_times(item, [item["query_scene_id"]], spec) or wording.none
    if task == "counting":
        if item["count"] is None:
            raise _unfit(item, "has no count")
        return _with_times(str(item["count"]), item["count"] > 0, item, spec)
    if task in ("call_type_binary", "call_type_same_different"):
        if item["answer_letters"] is None:
            raise _unfit(item, "has no answer_letters, expected A for yes, an empty list for no")
        right = bool(item["answer_letters"])
        return _with_times(wording.yes if right else wording.no, right, item, spec)
    letters = set(item["answer_letters"] or ())
    names = [
        name
        for name, option in zip(option_names(item, spec), item["options"] or [], strict=True)
        if option["letter"] in letters
    ]
    if len(names) != len(letters) or (task in CHOICE_TASKS and len(names) > 1):
        raise _unfit(item, f"has the right letters {sorted(letters)}, which its options don't bear out")
    if not names and not none_is_possible(task, spec):
        raise _unfit(item, "has no right option, which question.none_share: 0 rules out and no question mentions")
    return ", ".join(names) or wording.none


def _with_times(answer: str, is_heard: bool, item: Item, spec: Spec) -> str:
    if not (spec.question.with_times and spec.task in TIMED_TASKS and is_heard):
        return answer
    if not item["times"]:
        raise _unfit(item, f"has the answer {answer} without times, which question.with_times asks for")
    return f"{answer}: {_times([(time['onset_s'], time['offset_s']) for time in item['times']])}"


def _region_times(item: Item, scenes: list[str], spec: Spec) -> str:
    rate = spec.sample_rate
    regions = [r for r in item["regions"] or () if r["label"] == "POS" and r["scene_id"] in scenes]
    return _times([(region["onset"] / rate, region["offset"] / rate) for region in regions])


def _times(spans: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{onset_s:.3f}-{offset_s:.3f} s" for onset_s, offset_s in sorted(spans))


def _is_heard(event: dict[str, Any]) -> bool:
    """Not known to be inaudible: over a band without background, or without a known band, nothing says it is."""
    return event["audible"] is not False and event["role"] != "patch"


def _event_line(event: dict[str, Any], spec: Spec) -> str:
    low_hz, high_hz = event["low_hz"], event["high_hz"]
    band = f"{low_hz:.0f}-{high_hz:.0f} Hz, " if low_hz is not None and high_hz is not None else ""
    line = f"{event['onset_s']:.3f}-{event['offset_s']:.3f} s, {band}"
    line += _shown_name(event["species"] or event["class"], spec)
    if spec.task == "detect_diarize" and event["speaker"] is not None:
        line += f", {_shown_name(event['speaker'], spec)}"
    return line


def _metadata(item: Item, events: list[dict[str, Any]] | None, answer: str, spec: Spec) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "answer": answer,
        "control": spec.output.control,
        **{name: item[name] for name in _IN_METADATA},
        "options": [{name: option[name] for name in _OF_OPTIONS} for option in item["options"] or ()],
        "sources": [{name: source[name] for name in _OF_SOURCES} for source in item["sources"] or ()],
    }
    return metadata if events is None else {**metadata, "events": events}


def _unfit(item: Item, problem: str) -> DatasetError:
    return DatasetError(f"item {item['item_id']} {problem}")
