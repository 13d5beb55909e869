"""Faults that questions had on banks and specs nobody would make on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import synthscape as ss
from synthscape.bank.writer import StoreWriter
from synthscape.errors import PlanError, SpecError
from synthscape.output.dataset import open_dataset
from synthscape.spec import load_spec
from synthscape.tasks.catalogue import TASKS
from synthscape.tasks.deck import Card, with_share
from tests.hand_built import RATE, clip_columns, make_backgrounds, tone_clip

EASY = ("question.negatives={within_species: 0, cross_species: 0, random: 1}", "question.patches=0")
CHOICE = ("question.options=3", "question.matched_share=0", "question.none_share=0", *EASY[:1])


def make_calls(folder: Path, changes: Mapping[int, Mapping[str, Any]] | None = None, clips: int = 12) -> Path:
    """Clips of three species, a recording each; ``changes`` are columns of every fourth clip, by where it begins."""
    with StoreWriter(folder, "pseudovox", RATE) as writer:
        for s, species in enumerate(("Corvus corax", "Parus major", "Turdus merula")):
            for i in range(clips):
                columns = clip_columns(species, i, 600.0 + 300 * s, RATE)
                columns |= (changes or {}).get(i % 4, {})
                writer.add(tone_clip(100 * s + i, 600.0 + 300 * s, RATE), columns)
    return folder


@pytest.fixture(scope="module")
def backgrounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six noises of 4 s."""
    return make_backgrounds(tmp_path_factory.mktemp("fields") / "store", files=6, seconds=4).path


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two call types of three species, six recordings each."""
    return make_calls(tmp_path_factory.mktemp("calls") / "store")


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Backgrounds that are known to hold every species, so that no item can have one."""
    folder = tmp_path_factory.mktemp("listed") / "store"
    with StoreWriter(folder, "backgrounds", RATE) as writer:
        for i in range(4):
            heard = {"also_species": ["Corvus corax", "Parus major", "Turdus merula"], "recording_id": f"field {i}"}
            writer.add(0.1 * np.random.default_rng(i).standard_normal(4 * RATE), heard)
    return folder


def spec_of(task: str, calls: Path, backgrounds: Path, *overrides: str) -> ss.Spec:
    """A shipped spec over these stores."""
    settings = [f"bank={calls}", f"backgrounds={backgrounds}", f"sample_rate={RATE}", "background.mix.probability=0"]
    if task != "species_matching":
        settings.append("classes={by: type}")
    return ss.load_spec(task, [*settings, *overrides])


def test_a_shard_of_failures_only_is_counted(calls: Path, listed: Path, tmp_path: Path) -> None:
    """Not one item of it can be planned; that is said, and ends nothing."""
    out = tmp_path / "out"
    spec = spec_of("call_type_mcq", calls, listed, *CHOICE, "items=3", f"output.dir={out}")

    report = ss.render(spec)

    assert [failure["item_number"] for failure in report.failures] == [0, 1, 2]
    assert (report.counts["delivered"], report.counts["failed"], report.counts["scenes"]) == (0, 3, 0)
    assert len(open_dataset(out).items) == 0


def test_calls_too_short_to_be_audible_are_asked_about_nowhere(backgrounds: Path, tmp_path: Path) -> None:
    """Labels call nothing under 20 ms audible, so an item with such a call would fail once it was mixed."""
    start = 900
    short = {"active_start": start, "active_end": start + 150, "energy_q25": start + 40, "energy_q75": start + 110}
    calls = make_calls(tmp_path / "calls", {0: short, 1: short}, clips=24)
    generator = ss.SceneGenerator(spec_of("call_type_mcq", calls, backgrounds, *CHOICE))

    plan = generator.plan_items(range(60))
    batch = generator.render(plan.numbers[:8].tolist())

    assert sum(n for reason, n in generator.planner.filtered.items() if "20 ms" in reason) == 36
    assert (plan.scenes.offset - plan.scenes.onset).min() >= 0.02 * RATE
    assert batch.events["audible"].all()


def test_calls_cut_below_what_is_audible_are_cast_again(backgrounds: Path, tmp_path: Path) -> None:
    """A call of 30 ms of which the edge leaves 16 is not what must be heard."""
    start = 900
    short = {"active_start": start, "active_end": start + 240, "energy_q25": start + 60, "energy_q75": start + 180}
    calls = make_calls(tmp_path / "calls", dict.fromkeys(range(4), short), clips=24)
    spec = spec_of("few_shot_scenes", calls, backgrounds, *EASY, "question.distractors=0", "duration=0.5")
    generator = ss.SceneGenerator(spec)

    plan = generator.plan_items(range(60)).scenes

    length = (plan.offset - plan.onset)[plan.required]
    assert (plan.offset - plan.onset)[~plan.required].min() < 0.02 * RATE  # edges do cut
    assert length.min() >= 0.02 * RATE


@pytest.mark.parametrize(
    "text", ["{examples} {background} {query} {none}?", "{{A}} {examples} {background} {query} {none}"]
)
def test_questions_may_have_text_around_their_fields(calls: Path, backgrounds: Path, text: str) -> None:
    """Behind the last of them, too, and braces that are meant."""
    settings = ("question.candidates=1", f'wording.questions=["{text}"]')
    generator = ss.SceneGenerator(spec_of("few_shot_detection", calls, backgrounds, *EASY, *settings))

    said = generator.render([0]).chat[0]["messages"][0]["content"]

    assert said.endswith("?") or said.startswith("{A} ")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("None", "b"), "wording.none"),
        (("<Audio><AudioHere></Audio>", "b"), "wording.audio"),
        (("b\nc", "b c"), "classes.include"),
    ],
)
def test_names_that_cannot_be_shown_are_refused_at_once(
    backgrounds: Path, tmp_path: Path, names: tuple[str, str], message: str
) -> None:
    """Before anything is rendered, not at the first item that shows one; without rows they do no harm."""
    types = [{"call_type": name} for name in names]
    calls = make_calls(tmp_path / "calls", {0: types[0], 1: types[1], 2: types[0], 3: types[1]})
    out = tmp_path / "out"
    spec = spec_of("call_type_matching", calls, backgrounds, *CHOICE, "items=1", f"output.dir={out}")

    with pytest.raises(SpecError, match=message):
        ss.render(spec)

    assert not out.exists()
    without_rows = spec_of("call_type_matching", calls, backgrounds, *CHOICE, "output.chat=false")
    assert len(ss.SceneGenerator(without_rows).plan_items(range(4))) == 4


def test_no_two_items_have_the_same_scenes(calls: Path, backgrounds: Path) -> None:
    """An index over 2**30 would be an item of the next epoch."""
    generator = ss.SceneGenerator(spec_of("call_type_mcq", calls, backgrounds, *CHOICE))

    numbers = generator.plan([2**30 - 1, 2**40]).scene

    assert len(np.unique(numbers)) == len(numbers)
    with pytest.raises(PlanError, match="1073741824"):
        generator.plan_items([5, 2**30])


def test_shifted_backgrounds_that_do_not_exist_are_refused(calls: Path, tmp_path: Path) -> None:
    """With one background the items that shift would fail one and all, and the share would be no share."""
    one = make_backgrounds(tmp_path / "one", files=1, seconds=4).path
    with pytest.raises(PlanError, match=r"question\.domain_shift.* 2 backgrounds .* has 1"):
        ss.SceneGenerator(spec_of("call_type_mcq", calls, one, *CHOICE)).plan_items([0])

    generator = ss.SceneGenerator(spec_of("call_type_mcq", calls, one, *CHOICE, "question.domain_shift=0"))
    assert not generator.plan_items(range(4)).failures


def test_a_bank_of_one_recording_is_refused_in_words(backgrounds: Path, tmp_path: Path) -> None:
    """Where nothing is left to count by group, too."""
    one = {"recording_id": "one", "recordist": "one", "site": "one"}
    calls = make_calls(tmp_path / "calls", dict.fromkeys(range(4), one))

    with pytest.raises(PlanError, match="single recording"):
        ss.SceneGenerator(spec_of("counting", calls, backgrounds)).plan_items([0])


def test_a_failure_says_what_stood_in_the_way(calls: Path, listed: Path) -> None:
    """What was met most often, not what one of the first draws happened to meet."""
    generator = ss.SceneGenerator(spec_of("call_type_mcq", calls, listed, *CHOICE))

    failures = generator.plan_items(range(24)).failures

    assert len(failures) == 24
    assert all("no background is left" in reason for reason in failures.values())


@pytest.mark.parametrize(
    ("task", "override", "key"),
    [
        ("call_type_mcq", "question.most=3", "question.most"),
        ("call_type_mcq", "duration=5", "duration"),
        ("counting", "question.options=5", "question.options"),
        ("few_shot_scenes", "question.examples=2", "question.examples"),
        ("few_shot_detection", "events.max_per_scene=9", "events.max_per_scene"),
        ("call_type_binary", "clips.level_dbfs=-20", "clips.level_dbfs"),
    ],
)
def test_keys_without_effect_are_refused(task: str, override: str, key: str) -> None:
    """A key that a task does not look at is not left to be believed in."""
    with pytest.raises(SpecError, match=rf"{key}: expected nothing, as it has no effect with task: {task}"):
        load_spec(task, [override])


def test_a_deck_that_fits_nowhere_is_refused() -> None:
    """Exact shares that would take blocks of millions of items are named, not laid out."""
    cards = [Card((i,), 8, "random") for i in range(8)] * 1000
    with pytest.raises(PlanError, match=r"exact shares take blocks of .* items, at most 200000"):
        with_share(cards, [Card((), 8, "random")] * 7, 0.37)
    spec = load_spec("few_shot_detection", ["question.candidates={uniform_int: [1, 8]}"])
    with pytest.raises(PlanError, match="fewer options or candidates"):
        TASKS["few_shot_detection"].deck(spec)
