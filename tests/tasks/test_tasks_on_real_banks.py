"""Every shipped spec on the demo bank and on real calls, as a user runs them, and what is refused where calls are few.

Of the real banks some hold very little: a humpback's types have one recording each, a hermit's five.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import scene_specs
from synthscape.bank.demo import make_demo_bank
from synthscape.cli import main
from synthscape.errors import PlanError
from synthscape.labels.regions import POS
from synthscape.output.dataset import Dataset, open_dataset
from synthscape.plan.plan import DROP_REASONS
from synthscape.scale.render import RenderReport, render
from synthscape.spec import Spec, load_spec
from synthscape.spec.schema import SCENE_TASKS
from synthscape.tasks.generator import SceneGenerator
from tests.leakage import Heard, likeness, nearest_extent, nearest_option, picture
from tests.real_banks import PARTS, make_real_backgrounds, make_real_bank

SPECS = sorted(path.stem for path in Path(scene_specs.__file__).parent.glob("*.yaml"))
ITEMS = 6
ONE_SPECIES = ("question.negatives.cross_species=0", "question.matched_share=0")
# What the refusals tell a user to set on a bank of six real data sets: two whales share the water; few are related.
ON_REAL = {
    "strong_detection": ("classes.per_scene={uniform_int: [1, 2]}",),
    "roots_strong_detection": ("classes.per_scene={uniform_int: [1, 2]}",),
    "counting": ("question.negatives.cross_species=0",),
    "few_shot_scenes": ("question.negatives.cross_species=0",),
    "few_shot_detection": ("question.candidates=2", "classes.min_clips=5"),
    "species_matching": (
        "question.negatives.same_genus=0",
        "question.negatives.same_family=0",
        "question.matched_share=0",
    ),
    "roots_species_matching": ("question.negatives.same_genus=0", "question.negatives.same_family=0"),
}
Stores = Callable[[str], tuple[str, str]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Stores:
    """Overrides that name the stores of a bank: ``demo``, ``all``, or a part of the test recordings."""
    folder = tmp_path_factory.mktemp("banks")
    made: dict[str, tuple[Path, Path]] = {}

    def named(bank: str) -> tuple[str, str]:
        if bank not in made:
            if bank == "demo":
                made[bank] = make_demo_bank(folder / bank)
            else:
                data = request.getfixturevalue("shared_data")
                fields = folder / "fields"
                if not fields.exists():
                    make_real_backgrounds(fields, data)
                make_real_bank(folder / bank, data, list(PARTS) if bank == "all" else [bank])
                made[bank] = folder / bank, fields
        return f"bank={made[bank][0]}", f"backgrounds={made[bank][1]}"

    return named


def rendered(spec: Spec) -> tuple[RenderReport, Dataset]:
    """Render and open a dataset."""
    report = render(spec)
    return report, open_dataset(report.path)


def recordings(item: dict[str, Any], scene_ids: set[str]) -> set[str]:
    """Where the calls of some of an item's scenes are from."""
    return {source["recording_id"] for source in item["sources"] if source["scene_id"] in scene_ids}


def check_scenes(data: Dataset) -> None:
    """Each file is as long as its label says, sounds, and is no louder than -1 dBFS."""
    for scene_id, n_samples in zip(data.scenes["scene_id"], data.scenes["n_samples"], strict=True):
        audio = data.audio(scene_id)
        assert len(audio) == n_samples
        assert float(np.square(audio).mean()) > 10 ** (-70 / 10), f"{scene_id} is silent"
        assert float(np.abs(audio).max()) <= 10 ** (-1 / 20) + 1e-4


def check_questions(data: Dataset, spec: Spec) -> None:
    """The answer is what the events say, and no example is of the query's recordings."""
    events = dict(list(data.events.groupby("scene_id")))
    for item in data.item_table.to_pylist():
        query, letters = item["query_scene_id"], [option["letter"] for option in item["options"]]
        heard = events.get(query, data.events[:0])
        classes = set(heard.loc[heard["audible"].fillna(False).astype(bool), "class"])
        present = [o["letter"] for o in item["options"] if o["class"] in classes]
        examples = {one for option in item["options"] for one in option["example_scene_ids"]}
        right = recordings(item, {query})
        background = {item["background_scene_id"]} - {None}

        assert item["scene_ids"][-1] == query
        assert set(item["scene_ids"]) == examples | background | {query}
        assert not recordings(item, examples) & right
        for option in item["options"]:
            for one in option["example_scene_ids"]:
                assert option["class"] in set(events[one]["class"])
        if spec.task in ("few_shot_detection", "call_type_mcq"):
            assert item["answer"] == (", ".join(present) or "None")
        elif spec.task in ("call_type_matching", "species_matching"):
            assert item["answer_letters"] == present
            assert len(present) == 1
        elif spec.task in ("call_type_binary", "call_type_same_different"):
            assert item["answer"] == ("Yes" if present else "No")
        elif spec.task == "counting":
            assert item["answer"] == str((heard["class"] == item["options"][0]["class"]).sum())
        else:
            n_calls = len(item["times"])
            assert (item["answer"] == "None") == (n_calls == 0)
            of_query = [r for r in item["regions"] if r["scene_id"] == query and r["label"] == POS]
            assert len(of_query) <= n_calls <= (heard["class"] == item["options"][0]["class"]).sum()
        assert letters == sorted(letters)


def check_chat(data: Dataset, spec: Spec) -> None:
    """A row an item, and a placeholder for each file."""
    rows = pd.DataFrame(data.chat)
    assert rows["id"].tolist() == data.items["item_id"].tolist()
    if spec.task not in SCENE_TASKS:
        for row in data.chat:
            asked, answered = (message["content"] for message in row["messages"])
            assert asked.count(spec.wording.audio) == len(row["audio_paths"])
            assert all((data.path / path).is_file() for path in row["audio_paths"])
            assert answered


@pytest.mark.parametrize("bank", ["demo", "all"])
@pytest.mark.parametrize("name", SPECS)
def test_every_spec_runs_and_its_answers_hold(name, bank, stores, tmp_path):
    """Items are delivered or listed as failed; labels, answers, audio and chat rows agree with one another."""
    settings = ON_REAL.get(name, ()) if bank == "all" else ()
    spec = load_spec(
        name, [*stores(bank), f"items={ITEMS}", "output.format=folder", f'output.dir="{tmp_path / "out"}"', *settings]
    )

    report, data = rendered(spec)

    counts = report.counts
    assert counts["delivered"] + counts["failed"] == ITEMS == counts["delivered"] + len(report.failures)
    assert counts["delivered"] >= (ITEMS if not name.startswith("roots") else ITEMS - 1), report.failures
    assert len(data.items) == counts["delivered"]
    check_scenes(data)
    if spec.task not in SCENE_TASKS:
        check_questions(data, spec)
    check_chat(data, spec)


@pytest.mark.parametrize("name", ["strong_detection", "detect_diarize"])
@pytest.mark.parametrize("bank", ["demo", "hermit", "orca", "all"])
def test_what_is_asked_for_is_placed(name, bank, stores):
    """98 % of events and tracks at least; but a species with one animal or recording can't have two callers."""
    fewer = {"hermit": 1, "orca": 1, "all": "{uniform_int: [1, 2]}"}
    settings = [] if bank == "demo" else [f"classes.per_scene={fewer[bank]}"]
    plan = SceneGenerator(load_spec(name, [*stores(bank), *settings])).plan(range(300))

    asked, placed = int(plan.n_asked.sum()), int(plan.n_placed.sum())
    alone = [DROP_REASONS.index(reason) for reason in ("caller_used", "recording_used")]
    no_other = int(plan.drops[:, alone].sum()) if name == "detect_diarize" else 0

    assert asked >= 250
    assert placed + no_other >= 0.98 * asked


@pytest.mark.parametrize(
    ("name", "bank", "settings"),
    [
        ("strong_detection", "humpback", ("classes.per_scene=1",)),
        ("call_type_matching", "finch", ("question.negatives.cross_species=0",)),
        ("few_shot_detection", "animals", ("question.apart=[]", "question.negatives.within_species=0")),
    ],
)
def test_a_small_bank_from_the_command_line(name, bank, settings, stores, tmp_path, monkeypatch, capsys):
    """``plan`` and ``render`` with what the refusal said; one spec of each family."""
    if bank == "animals":
        settings += ("question.candidates=1", "question.examples=1", "question.negatives.cross_species=0")
        settings += ("events.count=1", "question.distractors=0", "question.duration_bins=1")
    arguments = [name, *stores(bank), "items=4", f'output.dir="{tmp_path / "out"}"', *settings]
    for command in ("plan", "render"):
        monkeypatch.setattr(sys, "argv", ["synthscape", command, *arguments])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capsys.readouterr()
        assert exit_.value.code == 0, err
    assert "items     4 of 4" in out
    assert len(open_dataset(tmp_path / "out").items) == 4


@pytest.mark.parametrize(
    ("name", "bank", "settings", "said"),
    [
        ("call_type_mcq", "humpback", (), r"7 clips of classes with a single recording\); .*question\.apart: \[\]"),
        ("roots_call_type_mcq", "humpback", ("question.apart=[]",), r"8 clips .* fewer than the 2 .*; add clips"),
        ("counting", "hermit", (), r"35 clips .* fewer than the 7 .*question\.examples, support_calls, most"),
        ("few_shot_scenes", "hermit", (), r"fewer than the 6 that an item takes"),
        (
            "call_type_mcq",
            "hermit",
            (),
            r"cross_species: an item needs 5 species, .* at most 1; question\.matched_share: an item needs 5 types "
            r".* at most \d; set them to 0, lower question\.options, or add recordings",
        ),
        ("few_shot_detection", "hermit", (), r"needs 9 types, .* has 7 .*; lower question\.candidates, or add"),
        ("strong_detection", "humpback", (), r"can ask for 4 classes, .* has 1 .*classes\.per_scene: 1$"),
        ("strong_detection", "all", (), r"has 2 in medium 'water' .*classes\.per_scene: \{uniform_int: \[1, 2\]\}$"),
    ],
)
def test_what_a_bank_cannot_support_is_refused_with_what_to_set(name, bank, settings, said, stores):
    """One line: what is needed, what there is, and the key to change."""
    with pytest.raises(PlanError) as refusal:
        SceneGenerator(load_spec(name, [*stores(bank), *settings])).plan_items(range(2))
    assert re.search(said, str(refusal.value)), refusal.value
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("call_type_mcq", ONE_SPECIES),
        ("counting", ("question.negatives.cross_species=0", "question.most=2", "question.examples=1")),
        ("few_shot_scenes", ("question.negatives.cross_species=0", "question.support_calls=2", "events.count=1")),
        ("few_shot_detection", ("question.negatives.cross_species=0", "question.candidates=2", "question.examples=1")),
    ],
)
def test_what_a_refusal_says_to_set_helps(name, settings, stores):
    """Seven types of five recordings each are enough then."""
    items = SceneGenerator(load_spec(name, [*stores("hermit"), *settings])).plan_items(range(40))
    assert len(items) >= 39, items.failures


def test_a_dataset_of_which_nothing_can_be_planned_lists_its_failures(stores, tmp_path):
    """Rendering it raised ValueError, as there was nothing to join. Killer whales' calls of one length are too few."""
    settings = ["question.negatives.cross_species=0", "question.most=2", "question.examples=1"]
    spec = load_spec("counting", [*stores("orca"), *settings, "items=3", f'output.dir="{tmp_path / "out"}"'])

    report, data = rendered(spec)

    assert report.counts["delivered"] == len(data.items) == 0
    assert [failure["item_id"] for failure in report.failures] == [f"i00000000{i}" for i in range(3)]
    assert all(re.search("; ask for fewer", failure["reason"]) for failure in report.failures)


def test_calls_that_must_be_heard_last_20_ms(stores):
    """Short syllables played three times as fast were cast, and their items failed once they were mixed."""
    settings = ["events.resample={choice: [0.3, 0.3], per: class}", *ONE_SPECIES]
    generator = SceneGenerator(load_spec("roots_call_type_matching", [*stores("finch"), *settings]))
    plan = generator.plan_items(range(60)).scenes

    lengths = (plan.offset - plan.onset)[plan.required]

    assert len(lengths) == 300
    assert lengths.min() >= 0.02 * 16000
    assert (generator.bank.active[1] - generator.bank.active[0]).min() * 0.3 < 0.02 * 16000  # there are shorter ones


def heard_items(stores: Stores, name: str, bank: str, n: int) -> Heard:
    """Items of one species' types, rendered."""
    settings = [*ONE_SPECIES, *(["question.none_share=0"] if name == "call_type_mcq" else [])]
    scenes = SceneGenerator(load_spec(name, [*stores(bank), *settings])).render(range(n))
    audio = {
        scene_id: scenes.audio[s][:n_samples]
        for s, (scene_id, n_samples) in enumerate(
            zip(scenes.scenes["scene_id"], scenes.scenes["n_samples"], strict=True)
        )
    }
    return Heard(scenes.items, scenes.scenes, scenes.events, audio, 16000)


@pytest.mark.parametrize(("bank", "least"), [("hermit", 0.5), ("orca", 0.35)])
def test_real_call_types_can_be_told_by_ear(bank, least, stores, record_property):
    """The most similar example is the right one far more often than one time in four: 95 % bound over 0.35.

    Items of ``call_type_matching`` differ from these in their text alone.
    """
    n = 120
    heard = heard_items(stores, "call_type_mcq", bank, n)

    share = nearest_option(heard)
    record_property("sound", share)
    record_property("duration and band", nearest_extent(heard))

    assert share >= least
    assert share - 1.645 * np.sqrt(share * (1 - share) / n) > 0.35


@pytest.mark.parametrize("bank", ["hermit", "orca"])
def test_real_pairs_of_one_type_sound_more_alike(bank, stores):
    """A pair of one type is more alike than one of two, in more than 60 % of all comparisons."""
    heard = heard_items(stores, "call_type_same_different", bank, 120)
    alike: dict[str, list[float]] = {"Yes": [], "No": []}
    for item in heard.items:
        pictures = [
            picture(heard.audio[one], 16000, (heard.events_of[one][0]["onset"], heard.events_of[one][0]["offset"]))
            for one in item["scene_ids"]
        ]
        alike[item["answer"]].append(likeness(*pictures))

    auc = np.mean(np.array(alike["Yes"])[:, None] > np.array(alike["No"]))

    assert len(alike["Yes"]) == len(alike["No"]) == 60
    assert auc > 0.6
