"""Questions in words: fields of the paraphrases of each task, how they are filled in, what a spec's own must fulfil."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Final

from synthscape.spec import Spec
from synthscape.spec.fields import nearest
from synthscape.spec.problem import Key, SpecKeyError, shown
from synthscape.tasks.phrases import PHRASES

CHOICE_TASKS: Final = ("call_type_mcq", "call_type_matching", "species_matching")
_NONE_ALWAYS: Final = ("few_shot_detection", "few_shot_scenes", "strong_detection", "detect_diarize")
_YES_NO: Final = ("call_type_binary", "call_type_same_different")
_OPTIONAL: Final = ("background", "or_none", "ask_times")  # empty where there is nothing to say
_LETTERS: Final = "ABCDEFGH"


@dataclass(frozen=True)
class _Form:
    """What the paraphrases of a task are made of."""

    heard: tuple[str, ...]  # fields with audio, in the order of the audio files: each once
    words: tuple[str, ...]  # other fields, as often as liked
    needed: tuple[str, ...] = ()  # ... of which these must be there


_OPTIONS: Final = _Form(("examples", "query"), ("letters", "options", "none", "or_none"))
_FORMS: Final = {
    "strong_detection": _Form((), ("none",)),
    "detect_diarize": _Form((), ("none",)),
    "few_shot_detection": _Form(("examples", "background", "query"), ("letters", "none")),
    "few_shot_scenes": _Form(("examples", "background", "query"), ("times", "none"), needed=("times",)),
    "call_type_mcq": _Form(("examples", "query"), ("letters", "none", "or_none")),
    "call_type_matching": _OPTIONS,
    "species_matching": _OPTIONS,
    "call_type_binary": _Form(("examples", "background", "query"), ("yes", "no", "ask_times")),
    "call_type_same_different": _Form(("first", "second"), ("yes", "no")),
    "counting": _Form(("examples", "background", "query"), ("ask_times",)),
}


def templates(task: str, spec: Spec) -> tuple[str, ...]:
    """The paraphrases of a task's question: the spec's, else our own."""
    return spec.wording.questions or PHRASES[task]


def n_paraphrases(task: str, spec: Spec) -> int:
    """How many paraphrases there are; an item's ``wording`` is the number of one, from 0."""
    return len(templates(task, spec))


def none_is_possible(task: str, spec: Spec) -> bool:
    """Whether "none of them" can be the answer to an item of this spec, and so must be offered by all."""
    return task in _NONE_ALWAYS or (task in CHOICE_TASKS and spec.question.none_share > 0)


def check_templates(task: str, spec: Spec) -> None:
    """Check all that a spec says of wording, before anything is rendered.

    Raises:
        SpecError: naming the key: a paraphrase with an unknown field, without one that the task needs, with its audio
            in another order than the files, or with the placeholder of audio in it; words that can't be told apart.
    """
    wording, form = spec.wording, _FORMS[task]
    key: Key = ("wording", "audio")
    if wording.audio != wording.audio.strip():
        raise SpecKeyError(key, "a placeholder without spaces around it", shown(wording.audio), "remove them")
    _check_words(task, spec)
    for index, template in enumerate(templates(task, spec)):
        ours = wording.questions is None
        try:
            fields = [name for _, name in _parts(template) if name]
        except ValueError as error:
            raise SpecKeyError(
                ("wording", "questions", index), "fields as {name}", str(error), "write {{ and }} for braces themselves"
            ) from None
        fixed = _filled(template, dict.fromkeys(fields, "\n")) + "\n".join(sentences(task, spec, "").values())
        if wording.audio in template or wording.audio in fixed:
            expected = "the placeholder of audio nowhere but where fields put it"
            if ours:
                got, advice = f"{shown(wording.audio)}, which stands in the question itself", "use a longer one"
                raise SpecKeyError(key, expected, got, advice)
            advice = "write {query} and so on where audio belongs"
            raise SpecKeyError(("wording", "questions", index), expected, shown(template), advice)
        if not ours:
            _check_fields(fields, form, task, spec, ("wording", "questions", index))


def _check_words(task: str, spec: Spec) -> None:
    wording = spec.wording
    for name in ("yes", "no", "none"):
        if wording.audio in getattr(wording, name):
            expected = "a word without the placeholder of audio, wording.audio"
            raise SpecKeyError(("wording", name), expected, shown(getattr(wording, name)), "use another")
    if task in _YES_NO and wording.yes == wording.no:
        raise SpecKeyError(("wording", "no"), "another word than wording.yes", shown(wording.no), "use two words")
    if task in CHOICE_TASKS + _NONE_ALWAYS and wording.none in _LETTERS:
        raise SpecKeyError(("wording", "none"), "no letter of an option", shown(wording.none), "use a word, as None")


def _check_fields(fields: list[str], form: _Form, task: str, spec: Spec, key: Key) -> None:
    allowed = form.heard + form.words
    listed = ", ".join(f"{{{name}}}" for name in allowed)
    for name in fields:
        if name not in allowed:
            advice = nearest(name, allowed) or "remove it"
            raise SpecKeyError(key, f"fields of task: {task} ({listed})", f"{{{name}}}", advice)
    background = spec.question.background_clip > 0
    for name in (*form.heard, *form.needed):
        if name not in fields and (name != "background" or background):
            why = ", as question.background_clip is over 0" if name == "background" else ""
            raise SpecKeyError(key, f"{{{name}}} in it{why}", "a text without", f"add {{{name}}}")
    heard = [name for name in fields if name in form.heard]
    if heard != [name for name in form.heard if name in heard]:
        expected = f"audio once each, in the order of the files: {', '.join(f'{{{name}}}' for name in form.heard)}"
        raise SpecKeyError(key, expected, ", ".join(f"{{{name}}}" for name in heard), "put them in that order")
    if none_is_possible(task, spec) and not {"none", "or_none"} & set(fields):
        expected = "{none} in it, since it can be the answer"
        raise SpecKeyError(key, expected, "a text without", "say in each text that this answer is possible")


def sentences(task: str, spec: Spec, audio: str) -> dict[str, str]:
    """Sentences that are the same in all items of a spec, or empty.

    ``background`` holds the placeholder ``audio``; it is for items with a clip of the background.
    """
    none = f"If it is none of them, answer {spec.wording.none}."
    times = {
        "call_type_binary": "After a yes, add when: onset and offset of each call in seconds.",
        "counting": "If there are any, add when: onset and offset of each call in seconds.",
    }
    return {
        "background": f"Background without these calls: {audio}",
        "or_none": none if task in CHOICE_TASKS and none_is_possible(task, spec) else "",
        "ask_times": times.get(task, "") if spec.question.with_times else "",
    }


def question(template: str, values: Mapping[str, str]) -> str:
    """A paraphrase with its fields filled in. Values are put in as they are: braces in them mean nothing.

    >>> question("Which? {query} {or_none}", {"query": "<{query}>", "or_none": ""})
    'Which? <{query}>'
    """
    return "\n".join(line.rstrip() for line in _filled(template, values).split("\n"))


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Fields replaced by values in one pass; one that may be empty, and is, goes with the space before it."""
    text = ""
    for literal, name in _parts(template):
        text += literal
        if name:
            value = values.get(name, "")
            text = text + value if value or name not in _OPTIONAL else text.rstrip()
    return text


@lru_cache
def _parts(template: str) -> tuple[tuple[str, str], ...]:
    """Stretches of plain text, and the field after each ("" at the end); ValueError where braces don't match."""
    parts = []
    for literal, name, form, conversion in Formatter().parse(template):
        if form or conversion or name == "":
            raise ValueError(f"{{{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}}}")
        parts.append((literal, name or ""))
    return tuple(parts)
