"""What a bank can't support is refused with what it can, and what is known of a recording decides who goes together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import synthscape as ss
from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import PlanError, StoreError
from tests.hand_built import clip_columns, tone_clip
from tests.task_bank import CLUSTER_COLUMNS, RATE

NOISE = "background={noise: {probability: 1}, mix: {probability: 0}}"


def small_bank(folder: Path, clips: Sequence[dict[str, Any]]) -> ClipStore:
    """A tone of 0.3 s for each row of columns."""
    with StoreWriter(folder / "bank", "pseudovox", RATE, cluster_columns=CLUSTER_COLUMNS) as writer:
        for number, columns in enumerate(clips):
            hz = 800.0 + 10 * number
            own = clip_columns(columns["species"], number, hz, RATE) | {"individual": None, "cluster": None}
            writer.add(tone_clip(number, hz, RATE).astype(np.float32), own | {"call_type": None} | columns)
    return ClipStore.open(folder / "bank")


def rows(species: int, types: int, recordings: int, **more: Any) -> list[dict[str, Any]]:
    """A clip of each type from each recording of each species, two species a genus."""
    return [
        {
            "species": f"Genus{s // 2} species{s}",
            "family": f"Family{s // 4}",
            "call_type": f"type {kind}",
            "recording_id": f"r{s}-{number}",
            "recordist": f"recordist {number}",
            "site": f"site {number}",
            **more,
        }
        for s in range(species)
        for kind in range(types)
        for number in range(recordings)
    ]


def generator(bank: ClipStore, task: str, *overrides: str) -> ss.SceneGenerator:
    """Of a shipped spec, over noise."""
    return ss.SceneGenerator(ss.load_spec(task, [f"bank={bank.path}", NOISE, *overrides]))


@pytest.mark.parametrize(
    ("task", "clips", "overrides", "said"),
    [
        ("call_type_mcq", rows(3, 1, 4), ["question.none_share=0"], "needs 4 types, the bank has 3"),
        ("call_type_mcq", rows(4, 1, 4), [], "needs 5 types, the bank has 4"),
        ("few_shot_detection", rows(4, 1, 4), [], r"needs 9 types, the bank has 4"),
        ("call_type_binary", rows(12, 1, 4), [], r"within_species: an item needs 2 types of one species.*at most 1"),
        (
            "species_matching",
            rows(4, 1, 4) + rows(6, 1, 1)[4:],
            ["question.options=6"],
            "needs 6 types, the bank has 4",
        ),
        (
            "call_type_mcq",
            rows(8, 2, 4),
            ["question.negatives={cross_species: 1}", "question.options=8", "question.none_share=0.1"],
            "cross_species: an item needs 9 species, .* has at most 8",
        ),
        (
            "call_type_same_different",
            [*rows(1, 1, 4, site="one"), *rows(2, 2, 4)],
            ["question.apart=[recording, site]", "question.matched_share=1"],
            None,
        ),
    ],
)
def test_refusals_tell_what_the_bank_has(
    task: str, clips: list[dict[str, Any]], overrides: list[str], said: str | None, tmp_path: Path
) -> None:
    """In the message of a PlanError; None: there are enough."""
    made = generator(small_bank(tmp_path, clips), task, *overrides)
    if said is None:
        assert len(made.plan_items(range(20)))
        return
    with pytest.raises(PlanError, match=said):
        made.plan_items(range(1))


def test_types_without_names_or_clusters_are_refused(tmp_path: Path) -> None:
    """The column that is missing is named."""
    bank = small_bank(tmp_path, rows(4, 1, 4, call_type=None))
    with pytest.raises(StoreError, match="cluster_8"):
        generator(bank, "call_type_mcq").plan_items(range(1))


def test_types_are_apart_in_both_clusters_unless_they_have_names(tmp_path: Path) -> None:
    """Of four unnamed types of a species, two share the coarse cluster, two the fine one; two more have names."""
    clusters = {"a": ("1", "1"), "b": ("2", "1"), "c": ("3", "2"), "d": ("3", "3")}
    clips = [
        {**one, "call_type": None, "cluster_8": fine, "cluster_64": coarse}
        for fine, coarse in clusters.values()
        for one in rows(2, 1, 5)
    ]
    clips += [{**one, "cluster_8": "9", "cluster_64": "9"} for one in rows(2, 2, 5)]
    made = generator(
        small_bank(tmp_path, clips), "call_type_same_different", "question={matched_share: 0, negatives: {random: 1}}"
    )
    names = [entry.name for entry in made.classes]
    found = set()
    for cast in made.plan_items(range(3000)).casts or ():
        clip_classes = {names[cue.class_id] for scene in cast.scenes for cue in scene.cues}
        species = {name.split(" [")[0].split(": ")[0] for name in clip_classes}
        if len(clip_classes) == 2 and len(species) == 1:
            found.add(frozenset(name.removeprefix(*species) for name in clip_classes))
    a, b, c, d = (f" [{fine}/{coarse}]" for fine, coarse in clusters.values())
    assert found == {frozenset(pair) for pair in ((a, c), (a, d), (b, c), (b, d), (": type 0", ": type 1"))}


def test_archive_numbers_and_duplicates_are_one_recording(tmp_path: Path) -> None:
    """Recordings that share an archive number, or a group of duplicates, are never on both sides."""
    clips = rows(4, 2, 12, recordist=None, site=None)
    for number, one in enumerate(clips):
        place = number % 12
        one["source_uid"] = f"XC{place // 2}-{one['species']}" if place < 8 else None
        one["duplicate_group"] = f"{place // 4}-{one['species']}" if place >= 4 else None
    bank = small_bank(tmp_path, clips)
    made = generator(bank, "call_type_same_different", "question.matched_share=0")
    plan = made.plan_items(range(1500)).scenes
    first, second = plan.clip[0::2], plan.clip[1::2]  # every scene is a clip
    for column in ("recording_id", "source_uid", "duplicate_group"):
        values = bank.clips[column]
        a, b = (values.iloc[side].to_numpy(dtype=object) for side in (first, second))
        assert values.notna().any()
        known = np.array([x is not None and x == x for x in a])
        assert not (a[known] == b[known]).any(), column


def test_a_species_heard_behind_another_is_not_asked_about_there(tmp_path: Path) -> None:
    """Clips in which the archive lists a species are in no item that asks about it, patches included."""
    clips = rows(8, 2, 8)
    for number, one in enumerate(clips):
        if number % 3 == 0:
            one["also_species"] = [clips[(number * 7 + 5) % len(clips)]["species"]]
    bank = small_bank(tmp_path, clips)
    made = generator(bank, "call_type_binary", "question.patches=2", "question.negatives={random: 1}")
    items = made.plan_items(range(400))
    species = bank.clips["species"].to_numpy()
    listed = {row: set(names) - {species[row]} for row, names in enumerate(clip_lists(bank)) if names}
    used = 0
    for i, cast in enumerate(items.casts or ()):
        asked = {made.classes[option.class_id].name.split(": ")[0] for option in cast.options}
        events = items.scenes.event_offsets[items.scene_offsets[i : i + 2]]
        for clip in items.scenes.clip[events[0] : events[1]].tolist():
            used += clip in listed
            assert not listed.get(clip, set()) & asked
    assert used > 80


def clip_lists(bank: ClipStore) -> list[list[str] | None]:
    """Column also_species."""
    return bank.columns(["also_species"])["also_species"].to_pylist()


def test_sides_may_share_what_the_spec_allows(tmp_path: Path) -> None:
    """With ``question.apart: []`` they do, the items table says so, and still no clip is twice in an item."""
    bank = small_bank(tmp_path, rows(4, 2, 1) + rows(4, 2, 1))
    made = generator(bank, "call_type_same_different", "question.apart=[]", "question.matched_share=0")
    plan = made.plan_items(range(400)).scenes
    first, second = plan.clip[0::2], plan.clip[1::2]
    recording = bank.clips["recording_id"].to_numpy()
    assert (recording[first] == recording[second]).mean() > 0.3
    assert not (first == second).any()
    assert made.render([0, 1]).items["apart"].map(list).tolist() == [[], []]
    with pytest.raises(PlanError, match="single recording"):
        generator(bank, "call_type_same_different").plan_items([0])


def test_single_clips_of_an_item_are_within_an_octave_of_bandwidth(tmp_path: Path) -> None:
    """Of recordings that end at 2, 3.5 and 7 kHz, the first and last are never in one item."""
    clips = rows(6, 2, 9)
    for number, one in enumerate(clips):
        one["bandwidth_hz"] = (2000.0, 3500.0, 7000.0)[number % 3]
    bank = small_bank(tmp_path, clips)
    made = generator(bank, "call_type_mcq", "question.negatives={random: 1}", "question.matched_share=0")
    items = made.plan_items(range(300))
    hz = bank.numbers("bandwidth_hz")[items.scenes.clip]
    per_item = np.split(hz, items.scenes.event_offsets[items.scene_offsets[1:-1]])
    assert all(one.max() <= 2 * one.min() for one in per_item)
    assert {tuple(sorted(set(one))) for one in per_item} >= {(2000.0, 3500.0), (3500.0, 7000.0)}
