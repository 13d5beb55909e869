"""Rows for language models, from item rows written down by hand."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscape.errors import DatasetError, SpecError
from synthscape.labels.items import ITEMS_SCHEMA
from synthscape.labels.schema import EVENTS_SCHEMA
from synthscape.spec import Spec, load_spec
from synthscape.spec.schema import QUESTION_TASKS, SCENE_TASKS, TASKS
from synthscape.tasks.chat import chat_lines, chat_rows
from synthscape.tasks.wording import n_paraphrases

AUDIO = "<Audio><AudioHere></Audio>"
SPECIES = ("Corvus corax", "Parus major", "Sitta europaea", "Turdus merula")
CHOICES = ("few_shot_detection", "call_type_mcq", "call_type_matching", "species_matching")


@cache  # to load one takes a while
def spec_of(task: str, *overrides: str) -> Spec:
    """A spec that needs no stores."""
    settled = ["question.none_share=0"] if task in ("call_type_mcq", "call_type_matching", "species_matching") else []
    return load_spec(task, ["bank=b", "backgrounds=c", "sample_rate=16000", *settled, *overrides])


MAY_BE_NONE = ("few_shot_detection", "few_shot_scenes", "call_type_mcq", "call_type_matching", "species_matching")


def option(i: int, present: bool = False, n_examples: int = 1, **changed: Any) -> dict[str, Any]:
    """The i-th option."""
    letter = "ABCDEFGH"[i]
    return {
        "letter": letter,
        "class": f"{SPECIES[i % 4]}/{i}",
        "species": SPECIES[i % 4],
        "call_type": f"type {i}",
        "present": present,
        "example_scene_ids": [f"i000000007-{letter.lower()}{k + 1}" for k in range(n_examples)],
        **changed,
    }


def item(task: str, **changed: Any) -> dict[str, Any]:
    """An item as its task gives it: options where it has some, B right, a background where there may be one."""
    n_options = {"call_type_binary": 1, "counting": 1, "call_type_same_different": 1}.get(task, 4)
    options = [option(i, i == 1, 2 if task == "few_shot_detection" else 1) for i in range(n_options)]
    row: dict[str, Any] = dict.fromkeys(ITEMS_SCHEMA.names)
    row.update(
        item_id="i000000007", item_number=7, task=task, wording=0, licences=["CC0-1.0", "CC-BY-4.0"], matched=False
    )
    if task in SCENE_TASKS:
        row.update(scene_ids=["i000000007"], query_scene_id="i000000007")
    elif task == "few_shot_scenes":
        row.update(
            scene_ids=["i000000007-support", "i000000007-background", "i000000007-query"],
            background_scene_id="i000000007-background",
            query_scene_id="i000000007-query",
        )
        spans = [("support", 16_000, 24_000, "POS"), ("support", 32_000, 33_000, "UNK"), ("query", 8, 1608, "POS")]
        row["regions"] = [
            {"scene_id": f"i000000007-{part}", "onset": on, "offset": off, "label": label}
            for part, on, off, label in spans
        ]
    else:
        if "background_scene_id" not in changed and task in ("few_shot_detection", "call_type_binary", "counting"):
            changed["background_scene_id"] = "i000000007-background"
        options = changed.get("options", options)
        between = [changed["background_scene_id"]] if changed.get("background_scene_id") else []
        examples = [name for each in options for name in each["example_scene_ids"]]
        row.update(query_scene_id="i000000007-query", options=options)
        row["scene_ids"] = [*examples, *between, "i000000007-query"]
    row.update(
        {
            "call_type_binary": {"answer_letters": ["A"]},
            "call_type_same_different": {"answer_letters": []},
            "counting": {"answer": "2", "count": 2},
        }.get(task, {"answer": "B", "answer_letters": ["B"]})
    )
    row.update(changed)
    if "audio" not in changed:
        row["audio"] = [f"audio/00000/{name}.flac" for name in row["scene_ids"]]
    return row


def table(*rows: dict[str, Any]) -> pa.Table:
    """Items as their table."""
    return pa.Table.from_pylist(list(rows), schema=ITEMS_SCHEMA)


def events(*rows: dict[str, Any]) -> pa.Table:
    """Events of the item's scene as their table; a call of a great tit, changed by each row."""
    usual = {
        "scene_id": "i000000007",
        "onset_s": 0.5195,
        "offset_s": 1.31,
        "low_hz": 1200.4,
        "high_hz": 3399.6,
        "species": "Parus major",
        "class": "Parus major",
        "speaker": "Parus major_1",
        "role": "target",
        "audible": True,
    }
    nullable = pa.schema([entry.with_nullable(True) for entry in EVENTS_SCHEMA])
    return pa.Table.from_pylist([{**usual, **row} for row in rows], schema=nullable)


def asked(row: dict[str, Any]) -> str:
    """What the user says in a row."""
    return str(row["instruction_text"] if "instruction_text" in row else row["messages"][0]["content"])


def answered(row: dict[str, Any]) -> str:
    """What the assistant says in a row."""
    return str(row["output"] if "output" in row else row["messages"][1]["content"])


def one(spec: Spec, row: dict[str, Any], *heard: dict[str, Any]) -> dict[str, Any]:
    """The chat row of an item."""
    (made,) = chat_rows(table(row), events(*heard), spec)
    return made


@pytest.mark.parametrize("task", QUESTION_TASKS)
def test_rows_with_several_files(task):
    """The consumers' keys; a placeholder for each file, in each paraphrase; nothing left of a field."""
    spec = spec_of(task)
    for wording in range(n_paraphrases(task, spec)):
        row = one(spec, item(task, wording=wording))
        text = asked(row)

        assert set(row) == {
            "id", "audio_paths", "messages", "task", "source_dataset", "dataset_name", "license", "metadata",
        }  # fmt: skip
        assert [message["role"] for message in row["messages"]] == ["user", "assistant"]
        assert row["audio_paths"] == item(task)["audio"]
        assert text.count(AUDIO) == len(row["audio_paths"]) >= 2
        assert not set("{}") & set(text)
        assert "  " not in text
        assert text == text.strip()
        assert (row["id"], row["task"], row["license"]) == ("i000000007", task, "CC-BY-4.0; CC0-1.0")


@pytest.mark.parametrize("task", SCENE_TASKS)
def test_rows_with_one_file(task):
    """The consumers' keys for one file; the text holds no placeholder."""
    spec = spec_of(task)
    texts = set()
    for wording in range(n_paraphrases(task, spec)):
        row = one(spec, item(task, wording=wording), {})
        texts.add(asked(row))

        assert set(row) == {
            "instruction_text", "output", "metadata", "id", "task", "file_name", "dataset_name", "source_dataset",
            "license",
        }  # fmt: skip
        assert row["file_name"] == "audio/00000/i000000007.flac"
        assert AUDIO not in asked(row)
        assert "answer None" in asked(row) or "None" in asked(row)
    assert len(texts) == wording + 1 >= 4


@pytest.mark.parametrize("task", TASKS)
def test_four_paraphrases_or_more(task):
    """Each says it differently."""
    spec = spec_of(task)
    texts = {asked(one(spec, item(task, wording=i))) for i in range(n_paraphrases(task, spec))}

    assert len(texts) == n_paraphrases(task, spec) >= 4


def test_placeholders_stand_with_their_letters():
    """In the order of the files: two examples a letter, the background, the query last."""
    lines = asked(one(spec_of("few_shot_detection"), item("few_shot_detection"))).split("\n")

    assert lines[1:5] == [f"{letter}: {AUDIO} {AUDIO}" for letter in "ABCD"]
    assert lines[5].endswith(AUDIO)
    assert lines[6] == f"Scene: {AUDIO}"


def test_without_a_background_nothing_is_said_of_it():
    """Its sentence and its line are gone."""
    spec = spec_of("few_shot_detection")
    with_it = asked(one(spec, item("few_shot_detection")))
    without = asked(one(spec, item("few_shot_detection", background_scene_id=None)))

    assert with_it.replace(f"\nBackground without these calls: {AUDIO}", "") == without


ANSWERS = [
    ("few_shot_detection", {"answer_letters": ["D", "A"]}, "A, D"),
    ("few_shot_detection", {"answer_letters": []}, "nothing"),
    ("few_shot_detection", {"answer_letters": ["B"]}, "B"),
    ("few_shot_scenes", {}, "0.001-0.101 s"),
    ("few_shot_scenes", {"regions": item("few_shot_scenes")["regions"][:2]}, "nothing"),
    ("call_type_mcq", {}, "B"),
    ("call_type_matching", {}, "type 1"),
    ("species_matching", {}, "Parus major"),
    ("call_type_binary", {}, "aye"),
    ("call_type_binary", {"answer_letters": []}, "nay"),
    ("call_type_same_different", {"answer_letters": ["A"]}, "aye"),
    ("call_type_same_different", {}, "nay"),
    ("counting", {}, "2"),
    ("counting", {"count": 0}, "0"),
]


@pytest.mark.parametrize(("task", "changed", "answer"), ANSWERS)
def test_answers_in_the_specs_words(task, changed, answer):
    """Letters sorted and joined with commas, names, numbers, and the words of the spec."""
    row = one(spec_of(task, "wording.yes=aye", "wording.no=nay", "wording.none=nothing"), item(task, **changed))

    assert answered(row) == answer
    assert json.loads(row["metadata"])["answer"] == answer


@pytest.mark.parametrize(("task", "changed", "answer"), [case for case in ANSWERS if case[0] not in ("counting",)])
def test_the_question_does_not_depend_on_the_answer(task, changed, answer):
    """Whatever is right, the same is asked, so nothing of it can stand there."""
    spec = spec_of(task, *(["question.none_share=0.2"] if task in MAY_BE_NONE else []))

    assert asked(one(spec, item(task, **changed))) == asked(one(spec, item(task)))


@pytest.mark.parametrize("task", ["call_type_mcq", "call_type_matching", "species_matching"])
def test_none_is_offered_in_every_item_of_a_spec_or_in_none(task):
    """With a share of items without a right option, all texts say so; without one no text does, and none may come."""
    nothing = item(task, answer="None", answer_letters=[], options=[option(i) for i in range(4)])
    for wording in range(4):
        without, with_it = spec_of(task, "question.none_share=0"), spec_of(task, "question.none_share=0.25")

        assert "None" not in asked(one(without, item(task, wording=wording)))
        assert "answer None." in asked(one(with_it, item(task, wording=wording)))
        assert asked(one(with_it, {**nothing, "wording": wording})) == asked(one(with_it, item(task, wording=wording)))
    assert answered(one(with_it, nothing)) == "None"
    with pytest.raises(DatasetError, match=r"i000000007.*none_share"):
        one(without, nothing)


@pytest.mark.parametrize(("task", "lead"), [("call_type_binary", "Yes"), ("counting", "2")])
def test_times_where_they_are_asked_for(task, lead):
    """By onset, three decimals, after the answer; the text asks for them; none for no."""
    times = [{"onset_s": 2.0004, "offset_s": 3.5}, {"onset_s": 0.52, "offset_s": 1.31}]
    spec = spec_of(task, "question.with_times=true")

    assert answered(one(spec, item(task, times=times))) == f"{lead}: 0.520-1.310 s, 2.000-3.500 s"
    assert answered(one(spec, item(task, answer_letters=[], count=0, times=[]))) in ("No", "0")
    for wording in range(4):
        assert "in seconds" in asked(one(spec, item(task, times=times, wording=wording)))
        assert "in seconds" not in asked(one(spec_of(task), item(task, wording=wording)))
    assert answered(one(spec_of(task), item(task, times=times))) == lead
    with pytest.raises(DatasetError, match="with_times"):
        one(spec, item(task))


def test_the_support_scene_has_its_times_in_the_text():
    """POS of the support only: nothing unsure, nothing of the query."""
    text = asked(one(spec_of("few_shot_scenes"), item("few_shot_scenes")))

    assert re.findall(r"[\d.]+-[\d.]+ s", text) == ["1.000-1.500 s"]


def test_a_line_for_each_audible_event():
    """Times, band and species; what is inaudible is left out, what may be heard stays; unknown bands are left out."""
    heard = [
        {},
        {"onset_s": 2.0, "offset_s": 2.5, "audible": False},
        {"onset_s": 3.0, "offset_s": 3.25, "audible": None, "low_hz": None, "high_hz": None},
        {"onset_s": 4.0, "offset_s": 4.5, "species": None, "class": "insect", "speaker": "unknown_1"},
        {"scene_id": "i000000008"},
    ]
    lines = answered(one(spec_of("strong_detection"), item("strong_detection"), *heard)).split("\n")

    assert lines == [
        "0.519-1.310 s, 1200-3400 Hz, Parus major",
        "3.000-3.250 s, Parus major",
        "4.000-4.500 s, 1200-3400 Hz, insect",
    ]
    spoken = answered(one(spec_of("detect_diarize"), item("detect_diarize"), *heard)).split("\n")
    assert spoken == [
        f"{line}, {caller}_1" for line, caller in zip(lines, ["Parus major"] * 2 + ["unknown"], strict=True)
    ]
    assert answered(one(spec_of("detect_diarize"), item("detect_diarize"), heard[1])) == "None"


def test_option_names_depend_on_all_options():
    """Call types that several species have are told apart by species; without call types by class."""
    spec = spec_of("call_type_matching")
    songs = [option(i, i == 1, call_type="song") for i in range(4)]
    unnamed = [option(0), option(1, True), option(2, call_type=None), option(3)]
    alike = [option(i, i == 1, call_type=None, **{"class": "x"}) for i in range(4)]

    assert answered(one(spec, item("call_type_matching", options=songs))) == "Parus major song"
    assert f"\nSitta europaea song: {AUDIO}\n" in asked(one(spec, item("call_type_matching", options=songs)))
    assert answered(one(spec, item("call_type_matching", options=unnamed))) == "Parus major/1"
    with pytest.raises(DatasetError, match=r"i000000007.*no name tells apart"):
        one(spec, item("call_type_matching", options=alike))


def test_metadata_has_what_an_evaluator_needs():
    """Answer, options with what is present, clips behind each scene, how it was made harder; events for detection."""
    source = dict.fromkeys(("scene_id", "event_id", "role", "clip_id", "recording_id", "source_uid", "licence"))
    source.update(scene_id="i000000007-query", role="target", clip_id="c%20{1}", event_id=0)
    row = one(spec_of("few_shot_detection"), item("few_shot_detection", sources=[source], negatives="same_genus"))
    metadata = json.loads(row["metadata"])

    assert metadata["options"][1] == {
        "letter": "B", "class": "Parus major/1", "species": "Parus major", "call_type": "type 1", "present": True,
    }  # fmt: skip
    assert metadata["sources"][0]["clip_id"] == "c%20{1}"
    assert (metadata["negatives"], metadata["query_scene_id"]) == ("same_genus", "i000000007-query")
    assert metadata["scene_ids"] == item("few_shot_detection")["scene_ids"]
    (event,) = json.loads(one(spec_of("strong_detection"), item("strong_detection"), {})["metadata"])["events"]
    assert (event["onset_s"], event["audible"]) == (0.5195, True)


@pytest.mark.parametrize("task", TASKS)
def test_controls_ask_the_same(task):
    """With noise all is the same; with text alone placeholders, paths and the background's sentence are gone."""
    for wording in range(4):
        row = item(task, wording=wording)
        plain = one(spec_of(task), row, {})
        noise = one(spec_of(task, "output.control=noise"), row, {})
        text = one(spec_of(task, "output.control=text"), {**row, "audio": None}, {})

        left = re.sub(r"\nBackground without these calls: \S+", "", asked(plain)).replace(AUDIO, "")
        assert (asked(noise), answered(noise)) == (asked(plain), answered(plain))
        assert asked(text).split() == left.split()
        assert answered(text) == answered(plain)
        assert "udio" not in asked(text)
        assert text.get("audio_paths", []) == []
        assert text.get("file_name") is None
        assert json.loads(text["metadata"])["control"] == "text"


NASTY = st.one_of(
    st.sampled_from(
        [
            AUDIO,
            f"a {AUDIO}{AUDIO}",
            "{query}",
            "{examples}{{",
            "}",
            "{0}",
            "%20",
            'a"b',
            "a\nA: b",
            "\r\n",
            "\u2028x",
            "\\n",
            "%s",
        ]
    ),
    st.text(st.sampled_from('<>AudioHere/{}qury"%\n\t\\ é\u2028'), min_size=1, max_size=30),
)


@given(st.sampled_from(CHOICES), st.lists(NASTY, min_size=4, max_size=4, unique=True), st.integers(0, 3))
@settings(max_examples=100)
def test_no_name_breaks_the_count(task, names, wording):
    """Names are opaque: as many placeholders as files, a line a row and an option, or a refusal of the placeholder."""
    spec = spec_of(task)
    options = [option(i, i == 1, species=name, call_type=name, **{"class": name}) for i, name in enumerate(names)]
    row = item(task, options=options, wording=wording)
    shown = [" ".join(re.split(r"[\n\t\r\u2028]", name)).strip() for name in names]
    try:
        line = chat_lines(table(row), None, spec)
    except SpecError:
        assert any(AUDIO in name for name in shown)
        return
    except DatasetError:
        assert len(set(shown)) < 4 or not all(shown)
        return
    made = json.loads(line)
    text = asked(made)

    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert text.count(AUDIO) == len(made["audio_paths"]) == len(row["scene_ids"])
    assert len(text.split("\n")) == len(asked(one(spec, item(task, wording=wording))).split("\n"))
    assert AUDIO not in answered(made)
    if task in ("species_matching", "call_type_matching") and len(set(shown)) == 4 and all(shown):
        assert answered(made) == shown[1]
        assert all(f"\n{name}: {AUDIO}" in text for name in shown)
    assert [each["class"] for each in json.loads(made["metadata"])["options"]] == names


def test_a_species_that_is_the_placeholder_is_refused_by_name():
    """Where it would be shown: in the answers of detection, too."""
    with pytest.raises(SpecError, match=r"wording\.audio: .*AudioHere.* name 'x <Audio>"):
        one(spec_of("strong_detection"), item("strong_detection"), {"species": f"x {AUDIO}"})
    with pytest.raises(SpecError, match=r"wording\.none: .*name"):
        one(spec_of("species_matching", "wording.none=Parus major"), item("species_matching"))
    assert answered(one(spec_of("strong_detection"), item("strong_detection"), {"species": "x\n{none}"})).endswith(
        "x {none}"
    )


@pytest.mark.parametrize(
    ("task", "changed", "message"),
    [
        ("call_type_binary", {"answer_letters": None}, "expected A for yes"),
        ("call_type_mcq", {"answer_letters": ["E"]}, "right letters"),
        ("call_type_mcq", {"answer_letters": ["A", "B"]}, "right letters"),
        ("call_type_mcq", {"wording": 4}, "wording 4, expected 0 to 3"),
        ("call_type_mcq", {"audio": None}, "5 scenes and 0 audio files"),
        ("call_type_mcq", {"query_scene_id": "i000000007-a1"}, "order"),
        ("call_type_mcq", {"scene_ids": ["i000000007-b1", "i000000007-query"]}, "examples"),
        ("call_type_same_different", {"scene_ids": ["a", "b", "c"]}, "expected 2"),
        ("counting", {"count": None}, "no count"),
        ("few_shot_scenes", {"regions": []}, "no POS region"),
    ],
)
def test_items_that_do_not_fit_are_named(task, changed, message):
    """Never a row that is wrong."""
    with pytest.raises(DatasetError, match=rf"item i000000007 .*{message}"):
        one(spec_of(task), item(task, **changed))


def test_items_and_spec_are_of_one_task():
    """Another task's spec has other words."""
    with pytest.raises(DatasetError, match="counting"):
        one(spec_of("call_type_mcq"), item("counting"))
    with pytest.raises(DatasetError, match="events table"):
        chat_rows(table(item("strong_detection")), None, spec_of("strong_detection"))


def test_unknown_licences_are_said_to_be():
    """No licence listed is not a free one."""
    assert one(spec_of("counting"), item("counting", licences=[]))["license"] == "unknown"
