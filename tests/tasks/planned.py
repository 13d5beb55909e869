"""Planned items as columns, with what the stores say of them: for counting, without the code that cast them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import synthscape as ss
from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.plan.plan import PATCH
from tests.task_bank import RATE, SPECIES, make_task_bank, species_name

Codes = NDArray[np.int64]
CHOICES = ("call_type_mcq", "call_type_matching", "species_matching")
ONLY_CLIPS = (*CHOICES, "call_type_same_different")  # their query is a clip, too


def make_fields(folder: Path, bank: ClipStore) -> ClipStore:
    """Twenty-four backgrounds: six of a site of the bank, six of a recording of it, four on which its species are."""
    rng = np.random.default_rng(5)
    sites, recordings = sorted(set(bank.clips["site"])), sorted(set(bank.clips["recording_id"]))
    with StoreWriter(folder, "backgrounds", RATE) as writer:
        for k in range(24):
            columns: dict[str, Any] = {"recording_id": f"background-{k}", "site": f"field {k}", "medium": "air"}
            if k < 6:
                columns["site"] = sites[k]
            elif k < 12:
                columns["recording_id"] = recordings[k * len(recordings) // 12]
            elif k < 16:
                name = species_name(k * SPECIES // 16)
                columns |= {"species": name} if k % 2 else {"species": "Homo sapiens", "also_species": [name]}
            samples = int(rng.uniform(12, 18) * RATE)
            writer.add((0.01 * rng.standard_normal(samples)).astype(np.float32), columns)
    return ClipStore.open(folder)


def make_stores(folder: Path) -> tuple[ClipStore, ClipStore]:
    """The bank of :mod:`tests.task_bank` and these backgrounds; those that are in the folder, if there are."""
    if not (folder / "fields").exists():
        make_fields(folder / "fields", make_task_bank(folder / "bank"))
    return ClipStore.open(folder / "bank"), ClipStore.open(folder / "fields")


def codes_of(values: pd.Series | Sequence[Any]) -> Codes:
    """A number for each value, -1 for null."""
    return np.asarray(pd.factorize(pd.Series(values, dtype="object"))[0], np.int64)


def shared(items_a: Codes, values_a: Codes, items_b: Codes, values_b: Codes) -> int:
    """How many known values are in both lists for one item."""
    a, b = (
        pd.MultiIndex.from_arrays([items[values >= 0], values[values >= 0]]).unique()
        for items, values in ((items_a, values_a), (items_b, values_b))
    )
    return len(a.intersection(b))


def by_edges(values: NDArray[Any], n: int, of: NDArray[np.bool_]) -> Codes:
    """Which of ``n`` classes each value is in, which those that are meant fill alike; equal values are in the same."""
    ordered = np.sort(values[of])
    edges = np.array([ordered[len(ordered) * k // n] for k in range(1, n)])
    return (values[:, None] >= edges).sum(axis=1)


class Bank:
    """Columns of a bank, and the types of its clips.

    Attributes:
        type: of each clip, a number: its species' call type where it is known, else both its clusters; or its species.
    """

    def __init__(self, store: ClipStore, by_species: bool):
        clips = store.clips
        self.store = store
        self.species = np.asarray(clips["species"], object)
        self.call_type = np.where(clips["call_type"].isna() | by_species, None, clips["call_type"].astype(object))
        self.fine, self.coarse = (np.asarray(clips[name], object) for name in ("cluster_8", "cluster_64"))
        names = [
            one if by_species else (one, call) if call is not None else (one, None, fine, coarse)
            for one, call, fine, coarse in zip(self.species, self.call_type, self.fine, self.coarse, strict=True)
        ]
        self.type = np.array(pd.factorize(np.array([repr(name) for name in names], object))[0], np.int64)
        self.first = np.unique(self.type, return_index=True)[1]  # a clip of each type
        start, end = store.active
        self.active = (end - start).astype(np.int64)
        self.usable = ~clips["licence"].str.contains("-ND").to_numpy()  # as the specs say
        self.duration_bin = by_edges(self.active, 10, self.usable)
        self.duration_quarter = by_edges(self.active, 4, self.usable)
        self.centre_hz = np.sqrt(store.numbers("low_hz") * store.numbers("high_hz"))
        self.bandwidth_hz = store.numbers("bandwidth_hz")
        self.by_species = by_species

    def codes(self, column: str) -> Codes:
        """Of a column; -1 where it is not there or null."""
        if not self.store.has(column):
            return np.full(len(self.type), -1, np.int64)
        return codes_of(self.store.clips[column])

    @cached_property
    def differ(self) -> NDArray[np.bool_]:
        """[types, types] Are they surely different?"""
        n = len(self.first)
        table = np.zeros((n, n), bool)
        for a, i in enumerate(self.first):
            for b, j in enumerate(self.first):
                if self.species[i] != self.species[j]:
                    table[a, b] = True
                elif self.call_type[i] is not None and self.call_type[j] is not None:
                    table[a, b] = self.call_type[i] != self.call_type[j]
                elif self.call_type[i] is None and self.call_type[j] is None and not self.by_species:
                    table[a, b] = self.fine[i] != self.fine[j] and self.coarse[i] != self.coarse[j]
        return table


@dataclass
class Asked:
    """The options of all items, one entry an option."""

    item: Codes
    letter: Codes  # 0 for A
    type: Codes
    present: NDArray[np.bool_]


class Planned:
    """Items of a task as columns: ``[i]`` an item, ``[s]`` a scene, ``[e]`` an event.

    Attributes:
        query: [s] it is what is asked about.
        background: [s] it is a clip of the background alone.
        scene_item: [s] position of its item.
        item, scene, of_query: [e].
        type: [e] of its clip, see :class:`Bank`.
    """

    def __init__(self, generator: ss.SceneGenerator, numbers: Sequence[int]):
        self.spec = generator.spec
        self.task = self.spec.task
        self.bank = Bank(generator.bank, self.spec.classes.by == "species")
        self.fields = generator.backgrounds
        self.items = generator.plan_items(numbers)
        assert self.items.casts is not None
        assert self.items.parts is not None
        self.casts = self.items.casts
        self.plan = self.items.scenes
        n_scenes = np.diff(self.items.scene_offsets)
        self.scene_item = np.repeat(np.arange(len(self.items)), n_scenes)
        part = np.array(self.items.parts, dtype=object)
        self.query, self.background = part == "query", part == "background"
        self.scene = np.repeat(np.arange(len(self.plan)), np.diff(self.plan.event_offsets))
        self.item, self.of_query = self.scene_item[self.scene], self.query[self.scene]
        self.type = self.bank.type[self.plan.clip]
        self.call = self.plan.role != PATCH
        self.of_part = part

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def type_of_class(self) -> dict[int, int]:
        """The type behind each class, by the clips that are played as it; fails where there are several."""
        pairs = np.unique(np.stack([self.plan.class_id.astype(np.int64), self.type]), axis=1)
        assert len(np.unique(pairs[0])) == len(np.unique(pairs[1])) == pairs.shape[1], "a class is not one type"
        return dict(zip(*pairs.tolist(), strict=True))

    @cached_property
    def asked(self) -> Asked:
        """All options."""
        rows = [
            (i, ord(option.letter) - ord("A"), self.type_of_class[option.class_id], option.present)
            for i, cast in enumerate(self.casts)
            for option in cast.options
        ]
        item, letter, kind, present = np.array(rows, np.int64).T
        return Asked(item, letter, kind, present.astype(bool))

    @cached_property
    def first_scenes(self) -> tuple[Codes, Codes]:
        """[i] an example scene of each item, and its query."""
        return self.items.scene_offsets[:-1], np.flatnonzero(self.query)

    def per_item(self, values: NDArray[Any], where: NDArray[np.bool_]) -> NDArray[np.float64]:
        """[i] Mean over the events that are meant; NaN where there is none."""
        count = np.bincount(self.item[where], minlength=len(self))
        total = np.bincount(self.item[where], np.asarray(values, float)[where], minlength=len(self))
        with np.errstate(invalid="ignore"):
            mean: NDArray[np.float64] = total / count
        return mean

    @cached_property
    def position(self) -> NDArray[np.float64]:
        """[e] Where a clip begins, 0 to 1, among all places there are for it; its own length is not in it."""
        plan = self.plan
        span, length = plan.clip_offset - plan.clip_onset, plan.n_samples[self.scene]
        cut = self.spec.events.edges == "truncate"
        there = (plan.clip_onset + span) / (length + span) if cut else plan.clip_onset / np.maximum(length - span, 1)
        return np.asarray(there, float)

    def count_of(self, where: NDArray[np.bool_]) -> NDArray[np.int64]:
        """[i] How many events are meant."""
        return np.bincount(self.item[where], minlength=len(self)).astype(np.int64)

    def n_types(self) -> NDArray[np.int64]:
        """[i] Different types among the calls of the query."""
        where = self.of_query & self.call
        pairs = np.unique(np.stack([self.item[where], self.type[where]]), axis=1)
        return np.bincount(pairs[0], minlength=len(self)).astype(np.int64)
