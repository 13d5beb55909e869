"""A spec's own paraphrases: what they may hold, and how what is wrong is named."""

from __future__ import annotations

import json

import pytest

from synthscape.errors import SpecError
from synthscape.spec.schema import TASKS
from synthscape.tasks.wording import check_templates, n_paraphrases, question
from tests.tasks.test_chat import AUDIO, MAY_BE_NONE, asked, item, one, spec_of

GOOD = "{examples} {query}"


def own(task: str, *texts: str, **more: str):
    """A spec with paraphrases of its own."""
    return spec_of(task, f"wording.questions={json.dumps(texts)}", *(f"{key}={value}" for key, value in more.items()))


@pytest.mark.parametrize("task", TASKS)
def test_ours_are_right(task):
    """With and without none of the above, times, and with another placeholder."""
    share = ["question.none_share=0.2"] if task in MAY_BE_NONE else []
    for overrides in ([], [*share, "wording.audio=[[audio]]", "wording.none=keine"]):
        check_templates(task, spec_of(task, *overrides))


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        ("call_type_mcq", "{examples}", r"\{query\}"),
        ("call_type_mcq", "{query}", r"\{examples\}"),
        ("call_type_mcq", "{query} {examples}", "order"),
        ("call_type_mcq", "{examples} {query} {query}", "once"),
        ("call_type_mcq", "{examples} {query} {answer}", r"got \{answer\}"),
        ("call_type_mcq", "{examples} {query} {leters}", "did you mean letters"),
        ("call_type_mcq", "{examples} {query} {letters[0]}", r"got \{letters\[0\]\}"),
        ("call_type_mcq", "{examples} {query} {letters!r}", "braces"),
        ("call_type_mcq", "{examples} {query:>5}", "braces"),
        ("call_type_mcq", "{examples} {query} {}", "braces"),
        ("call_type_mcq", "{examples} {query} {", "braces"),
        ("call_type_mcq", "{examples} {query} }", "braces"),
        ("call_type_mcq", f"{{examples}} {{query}} {AUDIO}", "placeholder"),
        ("few_shot_scenes", "{examples} {background} {query} {none}", r"\{times\}"),
        ("few_shot_detection", "{examples} {query} {none}", r"\{background\}.*background_clip"),
        ("few_shot_detection", "{examples} {background} {query}", r"\{none\}"),
        ("strong_detection", "What is there?", r"\{none\}"),
        ("strong_detection", "{query} {none}", r"got \{query\}"),
        ("call_type_same_different", "{second} {first}", "order"),
    ],
)
def test_a_wrong_paraphrase_is_named(task, text, message):
    """Its number in the list, and what is wrong."""
    good = {
        "few_shot_scenes": "{examples} {times} {background} {query} {none}",
        "few_shot_detection": "{examples} {background} {query} {none}",
        "strong_detection": "{none}",
        "call_type_same_different": "{first} {second}",
    }.get(task, GOOD)
    with pytest.raises(SpecError, match=rf"^wording\.questions\[2\]: .*{message}"):
        check_templates(task, own(task, good, good, text))


def test_none_must_be_offered_where_it_can_be_right():
    """A choice with none of the above says so, by the word or by the sentence."""
    with pytest.raises(SpecError, match=r"^wording\.questions\[0\]: .*\{none\}"):
        check_templates("call_type_mcq", own("call_type_mcq", GOOD, **{"question.none_share": "0.1"}))
    for offered in ("{none}", "{or_none}"):
        check_templates("call_type_mcq", own("call_type_mcq", f"{GOOD} {offered}", **{"question.none_share": "0.1"}))
    check_templates(
        "few_shot_detection", own("few_shot_detection", GOOD + "{none}", **{"question.background_clip": "0"})
    )


@pytest.mark.parametrize(
    ("task", "override", "key"),
    [
        ("call_type_mcq", "wording.audio='<a> '", "wording.audio"),
        ("call_type_mcq", "wording.audio=call", "wording.audio"),
        ("call_type_mcq", "wording.audio={query}", "wording.audio"),
        ("call_type_mcq", f"wording.none=x{AUDIO}", "wording.none"),
        ("call_type_mcq", "wording.none=A", "wording.none"),
        ("call_type_binary", "wording.no='Yes'", "wording.no"),
    ],
)
def test_words_that_do_not_do_are_named(task, override, key):
    """Placeholders that stand in the question itself, answers that can't be told apart, times nobody answers with."""
    with pytest.raises(SpecError, match=f"^{key}: "):
        check_templates(task, spec_of(task, override))


def test_own_paraphrases_replace_ours():
    """In the order given; braces are written twice."""
    spec = own("counting", "{{n}}? {examples} | {background} | {query}", "Zähle: {examples}{background}{query}")

    assert n_paraphrases("counting", spec) == 2
    assert asked(one(spec, item("counting"))).startswith(f"{{n}}? {AUDIO} | Background")
    assert asked(one(spec, item("counting", wording=1, background_scene_id=None))) == f"Zähle: {AUDIO}{AUDIO}"


def test_values_are_not_templates():
    """What is put in is not looked at again."""
    assert question("{options} {query}", {"options": "{query} {{}} {", "query": "q"}) == "{query} {{}} { q"
