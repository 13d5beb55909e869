"""What a bank offers to tasks: types, their clips, and how types are related.

Call-type identity is (species, type), see ``classes.by``; ratio and direction belong to it too and are the item's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import PlanError
from synthscape.plan.index import APART_COLUMNS
from synthscape.plan.planner import Planner
from synthscape.spec.schema import CHOICE_TASKS, Spec
from synthscape.tasks.deck import MODES
from synthscape_kernels.ratios import GRID_P, GRID_Q

_CELLS_PER_OCTAVE: Final = 1
_DURATION_CELLS: Final = 4
_FEWER_TYPES: Final = {  # what to set where an item needs more types than there are
    **dict.fromkeys(CHOICE_TASKS, "lower question.options, "),
    "call_type_same_different": "",
    "few_shot_detection": "lower question.candidates, ",
}

Rows = NDArray[np.int64]


@dataclass
class Stage:
    """Types and clips that may be in one item: of one medium and, where that matters, one unit."""

    name: str
    clips: dict[int, Rows]  # by class, rows of the bank
    weights: list[int]  # of all classes, 0 for those that are not in it
    before: list[int]  # [classes + 1] sums of the weights
    backgrounds: Rows
    in_bin: dict[int, list[int]]  # clips of each class by duration bin
    cells: list[dict[int, Rows]] = field(default_factory=list)  # clips alike in duration and frequency, by class
    of_species: dict[int, list[int]] = field(default_factory=dict)  # classes
    of_genus: dict[int, list[int]] = field(default_factory=dict)
    of_family: dict[int, list[int]] = field(default_factory=dict)
    relatives: dict[int, dict[str, list[int]]] = field(default_factory=dict)  # known so far, see Pools.relatives
    groups: dict[str, list[list[int]]] = field(default_factory=dict)  # by mode; see Pools.groups
    groups_before: dict[str, list[int]] = field(default_factory=dict)  # sums of their weights

    @property
    def weight(self) -> int:
        """Of all its classes."""
        return self.before[-1]

    def weights_of(self, classes: list[int]) -> list[int]:
        """Sums of the weights of these classes, from 0 on, [n + 1]."""
        return sums(self.weights[one] for one in classes)


class Pools:
    """A bank as tasks draw from it.

    Attributes:
        stages: what may be together in an item, each with its types.
        species, genus, family: code of each class, -1 where it is not known.
        n_bins: ``question.duration_bins``.
        bin: duration bin of each clip, of ``n_bins`` equally filled ones.
        length, active: samples of each clip, and of its active part.
        bandwidth_hz: effective bandwidth of each clip, NaN where it is not known.
        provenance: int64 [columns, clips]: codes of what examples and query must differ in, -1 where it is not known.
    """

    def __init__(self, spec: Spec, planner: Planner, bank: ClipStore, backgrounds: ClipStore | None, by_unit: bool):
        self.classes = planner.classes
        self._spec = spec
        self._path = bank.path
        index = planner.index
        self.class_ids = index.class_ids
        self._usable = np.flatnonzero(self.class_ids >= 0)
        first = np.zeros(len(self.classes), np.int64)
        first[self.class_ids[self._usable][::-1]] = self._usable[::-1]  # the first clip of each class
        self.species, self.genus, self.family = (_codes(_text(bank, name))[first].tolist() for name in _TAXA)
        fine = _text(bank, spec.classes.column or "cluster")
        coarse = _text(bank, spec.classes.coarse or "")
        by_type = spec.classes.by == "type"
        self._named = [not by_type] * len(first)
        if by_type:
            self._named = _text(bank, "call_type").notna().to_numpy()[first].tolist()
        self._fine, self._coarse = _codes(fine)[first].tolist(), _codes(coarse)[first].tolist()
        self._coarse_known = by_type and spec.classes.coarse is not None

        start, end = bank.active
        self.active = end - start
        self.active_start, self.active_end, self.length = start, end, bank.lengths
        self.n_bins = spec.question.duration_bins
        self.bin = _bins(self.active, self._usable, self.n_bins)
        self.bandwidth_hz = bank.numbers("bandwidth_hz")
        low, high = bank.numbers("low_hz"), bank.numbers("high_hz")
        self._centre_hz = np.sqrt(np.maximum(low, 1.0) * np.maximum(high, 1.0))
        self._least = np.ascontiguousarray(index.tables["clip"]["min_ratio"]).astype(np.int64)
        self._feasible: dict[tuple[int, int], NDArray[np.bool_]] = {}
        self.provenance = _provenance(bank, spec.question.apart)
        self._listed = _listed_species(bank, self._usable)
        self.member = np.full(len(bank), -1, np.int64)
        self.member[index.tables["member"]["clip"]] = np.arange(len(index.tables["member"]))
        self.species_name = {
            code: name for code, name in zip(self.species, _text(bank, "species").iloc[first], strict=True) if code >= 0
        }
        self._barring = _Barring(bank, backgrounds)
        self.stages = self._make_stages(index, bank, by_unit)
        if not self.stages:
            raise PlanError(f"{bank.path}: no class is left to ask about; see what was left out with `synthscape plan`")
        self._stages_for: dict[tuple[str, bool, int], tuple[list[Stage], list[int]]] = {}

    def _make_stages(self, index: Any, bank: ClipStore, by_unit: bool) -> list[Stage]:
        tables = index.tables
        clip_of_member = tables["member"]["clip"]
        unit = _text(bank, "unit").fillna("") if by_unit else None
        units = [None] if unit is None else sorted(set(unit.iloc[self._usable]))
        stages = []
        for medium, name in enumerate(index.media):
            begins = tables["class_first"][medium]
            weights = np.diff(tables["class_before"][medium]).astype(np.int64)
            back = tables["medium_row"][tables["medium_first"][medium] : tables["medium_first"][medium + 1]]
            for one in units:
                clips: dict[int, Rows] = {}
                for class_id in range(len(self.classes)):
                    rows = clip_of_member[tables["class_group"][begins[class_id] : begins[class_id + 1]]]
                    if unit is not None:
                        rows = rows[(unit.iloc[rows] == one).to_numpy()]
                    if len(rows) and self._can_be_asked(rows):
                        clips[class_id] = np.sort(rows)
                if clips:
                    there = [int(weights[one]) if one in clips else 0 for one in range(len(self.classes))]
                    label = " ".join(part for part in (name, one) if part)
                    stages.append(self._stage(label, clips, there, back))
        return stages

    def _stage(self, name: str, clips: dict[int, Rows], weights: list[int], back: Rows) -> Stage:
        in_bin = {one: np.bincount(self.bin[rows], minlength=self.n_bins).tolist() for one, rows in clips.items()}
        stage = Stage(name, clips, weights, sums(weights), back.astype(np.int64), in_bin)
        for codes, groups in (
            (self.species, stage.of_species),
            (self.genus, stage.of_genus),
            (self.family, stage.of_family),
        ):
            for class_id in clips:
                if codes[class_id] >= 0:
                    groups.setdefault(codes[class_id], []).append(class_id)
        stage.cells = self._cells(clips)
        return stage

    def _can_be_asked(self, rows: Rows) -> bool:
        """Are there two clips which share nothing that examples and query must not share?"""
        return len(rows) > 1 and all(
            (codes[rows] < 0).any() or len(np.unique(codes[rows])) > 1 for codes in self.provenance
        )

    def _cells(self, clips: dict[int, Rows]) -> list[dict[int, Rows]]:
        """Clips alike in duration and centre frequency, by class: in each those classes that can be asked about."""
        size = _bins(self.active, self._usable, _DURATION_CELLS)
        octave = np.floor(_CELLS_PER_OCTAVE * np.log2(self._centre_hz) + 0.5).astype(np.int64)
        cells: dict[tuple[int, int], dict[int, Rows]] = defaultdict(dict)
        for class_id, rows in clips.items():
            where = np.stack([size[rows], octave[rows]], axis=1)
            for place in np.unique(where, axis=0):
                inside = rows[(where == place).all(axis=1)]
                if self._can_be_asked(inside):
                    cells[int(place[0]), int(place[1])][class_id] = inside
        return [cells[place] for place in sorted(cells)]

    # How types are related

    def differ(self, a: int, b: int) -> bool:
        """Are two classes surely different types?

        Of one species, both must be known by name, or lie in different clusters of both sizes.
        """
        if a == b:
            return False
        if self.species[a] != self.species[b] or self.species[a] < 0:
            return True
        if self._spec.classes.by != "type" or (self._named[a] and self._named[b]):
            return True
        if self._named[a] or self._named[b]:
            return False
        return self._fine[a] != self._fine[b] and not (self._coarse_known and self._coarse[a] == self._coarse[b])

    def near(self, a: int, b: int) -> bool:
        """Are two classes of one species which can't be told apart for sure?"""
        return a != b and not self.differ(a, b)

    def relatives(self, stage: Stage, class_id: int) -> dict[str, list[int]]:
        """Other classes by how near they are: those of its species, then of its genus, of its family."""
        if class_id not in stage.relatives:
            species, genus, family = self.species, self.genus, self.family
            of_genus = stage.of_genus.get(genus[class_id], [])
            of_family = stage.of_family.get(family[class_id], [])
            stage.relatives[class_id] = {
                "within_species": [c for c in stage.of_species.get(species[class_id], []) if c != class_id],
                "same_genus": [c for c in of_genus if species[c] != species[class_id]],
                "same_family": [c for c in of_family if genus[c] != genus[class_id]],
            }
        return stage.relatives[class_id]

    def groups(self, stage: Stage, mode: str) -> list[list[int]]:
        """Classes of each species, genus or family in which two or more are told apart by the mode."""
        if mode not in stage.groups:
            if mode == "within_species":
                found = [group for group in stage.of_species.values() if self._most_different(group) >= 2]
            else:
                codes, groups = (
                    (self.species, stage.of_genus) if mode == "same_genus" else (self.genus, stage.of_family)
                )
                found = [group for group in groups.values() if _n_distinct(codes, group) >= 2]
            stage.groups_before[mode] = sums(stage.weights_of(group)[-1] for group in found)
            stage.groups[mode] = found
        return stage.groups[mode]

    def _most_different(self, group: list[int]) -> int:
        """Types of a species that surely differ from one another, taken one by one."""
        taken: list[int] = []
        for one in group:
            if all(self.differ(one, other) for other in taken):
                taken.append(one)
        return len(taken)

    def check(self, n: int, modes: set[str], matched: bool) -> None:
        """Refuse what the bank can't support.

        Args:
            n: how many types an item needs.
            modes: how they are chosen.
            matched: some items need types alike in duration and frequency.

        Raises:
            PlanError: with counts of what it can.
        """
        fewer = _FEWER_TYPES.get(self._spec.task, "")
        largest = max(len(stage.clips) for stage in self.stages)
        if largest < n:
            raise PlanError(
                f"{self._path}: an item needs {n} types, the bank has {largest} that can be asked about"
                f"{self._left_out()}; {fewer + 'or ' if fewer else ''}add recordings"
            )
        problems = []
        for mode in MODES:
            if mode not in modes:
                continue
            most = max(self._most(stage, mode) for stage in self.stages)
            needed = n if mode in ("random", "cross_species") else 2
            if most < needed:
                what = {
                    "within_species": "types of one species that surely differ",
                    "same_genus": "species of one genus",
                    "same_family": "genera of one family",
                }.get(mode, "species" if mode == "cross_species" else "types that surely differ")
                problems.append(
                    f"question.negatives.{mode}: an item needs {needed} {what}, {self._path} has at most {most}"
                )
        if matched:
            most = max((len(cell) for stage in self.stages for cell in stage.cells), default=0)
            if most < n:
                problems.append(
                    f"question.matched_share: an item needs {n} types alike in duration and frequency, {self._path} "
                    f"has at most {most}"
                )
        if problems:
            advice = f"set {'it' if len(problems) == 1 else 'them'} to 0, {fewer}"
            raise PlanError(f"{'; '.join(problems)}{self._left_out()}; {advice}or add recordings")

    def stages_for(self, mode: str, matched: bool, n: int) -> tuple[list[Stage], list[int]]:
        """Stages that can give ``n`` types by a mode, and the sums of their weights, [stages + 1]."""
        key = mode, matched, n
        if key not in self._stages_for:
            least = n if mode in ("random", "cross_species") else 2
            fitting = [
                stage
                for stage in self.stages
                if len(stage.clips) >= n
                and self._most(stage, mode) >= least
                and (not matched or any(len(cell) >= n for cell in stage.cells))
            ]
            self._stages_for[key] = fitting, sums(stage.weight for stage in fitting)
        return self._stages_for[key]

    def _most(self, stage: Stage, mode: str) -> int:
        if mode == "within_species":
            return max((self._most_different(group) for group in stage.of_species.values()), default=0)
        if mode == "same_genus":
            return max((_n_distinct(self.species, group) for group in stage.of_genus.values()), default=0)
        if mode == "same_family":
            return max((_n_distinct(self.genus, group) for group in stage.of_family.values()), default=0)
        if mode == "cross_species":
            return _n_distinct(self.species, stage.clips)
        return len(stage.clips)

    def _left_out(self) -> str:
        asked = {class_id for stage in self.stages for class_id in stage.clips}
        lost = len(self.classes) - len(asked)
        return f" ({lost} more have too few recordings)" if lost else ""

    # What clips can be used

    def feasible(self, p: int, q: int) -> NDArray[np.bool_]:
        """Which clips can be played at the ratio p/q without losing their energy beyond Nyquist, [clips]."""
        if (p, q) not in self._feasible:
            least = np.maximum(self._least, 0)
            there = (self._least >= 0) & (p * GRID_Q[least].astype(np.int64) >= GRID_P[least].astype(np.int64) * q)
            self._feasible[p, q] = there | (p == q)
        return self._feasible[p, q]

    def also_heard(self, clip: int) -> frozenset[int]:
        """Codes of other species that the archive says are audible in a clip."""
        return self._listed.get(clip, _NOTHING)

    def barred_backgrounds(self, clips: list[int], species: set[int]) -> set[int]:
        """Backgrounds of a clip's recording or site, or in which one of the species is listed or annotated."""
        names = {self.species_name[code] for code in species if code >= 0}
        return self._barring.rows(clips, names)


_TAXA: Final = ("species", "genus", "family")
_NOTHING: Final[frozenset[int]] = frozenset()


def sums(weights: Iterable[int]) -> list[int]:
    """Sums of all weights before each, from 0 on, and of all.

    >>> sums([3, 4])
    [0, 3, 7]
    """
    return list(accumulate(weights, initial=0))


def _n_distinct(codes: list[int], classes: Iterable[int]) -> int:
    return len({codes[one] for one in classes})


class _Barring:
    """Which backgrounds go with which clips and species."""

    def __init__(self, bank: ClipStore, backgrounds: ClipStore | None):
        self._by_value: list[tuple[Any, dict[str, list[int]]]] = []
        self._by_species: dict[str, list[int]] = defaultdict(list)
        if backgrounds is None:
            return
        for column in ("recording_id", "source_uid", "site"):
            if not (bank.has(column) and backgrounds.has(column)):
                continue
            rows: dict[str, list[int]] = defaultdict(list)
            there = _text(backgrounds, column)
            shared = set(there.dropna()) & set(_text(bank, column).dropna())
            for row, value in enumerate(there):
                if value in shared:
                    rows[value].append(row)
            if rows:
                self._by_value.append((_text(bank, column).to_numpy(dtype=object), rows))
        for row, value in enumerate(_text(backgrounds, "species")):
            if isinstance(value, str):
                self._by_species[value].append(row)
        if backgrounds.has("also_species"):
            for row, values in enumerate(backgrounds.columns(["also_species"])["also_species"].to_pylist()):
                for value in values or ():
                    self._by_species[value].append(row)
        if backgrounds.has("annotations"):
            for row, annotations in enumerate(backgrounds.columns(["annotations"])["annotations"].to_pylist()):
                for label in {annotation["label"] for annotation in annotations or ()} - {None}:
                    self._by_species[label].append(row)

    def rows(self, clips: list[int], species: set[str]) -> set[int]:
        barred = {row for name in species for row in self._by_species.get(name, ())}
        for values, rows in self._by_value:
            for clip in clips:
                barred.update(rows.get(values[clip], ()))
        return barred


def _text(store: ClipStore, name: str) -> pd.Series:
    if not name or not store.has(name):
        return pd.Series([None] * len(store), dtype="str")
    column: pd.Series = store.columns([name])[name].to_pandas().astype("str")
    return column


def _provenance(bank: ClipStore, apart: tuple[str, ...]) -> NDArray[np.int64]:
    """Codes of all that examples and query must not share, -1 where it is not known or says no more than a wider one.

    Recordings of different sites are different recordings: where a recording lies in one site, its name adds nothing.
    """
    wide = [
        _codes(_text(bank, name)) for what in ("site", "recordist") if what in apart for name in APART_COLUMNS[what]
    ]
    narrow = [_codes(_text(bank, name)) for what in apart if what == "recording" for name in APART_COLUMNS[what]]
    for codes in narrow:
        for wider in wide:
            of_group = pd.Series(wider).groupby(codes)
            lies_in_one = ((of_group.transform("nunique") == 1) & (of_group.transform("min") >= 0)).to_numpy()
            codes[lies_in_one] = -1
    known = [codes for codes in (*wide, *narrow) if (codes >= 0).any()]
    return np.stack(known) if known else np.zeros((0, len(bank)), np.int64)


def _codes(values: pd.Series) -> NDArray[np.int64]:
    return np.asarray(pd.factorize(values)[0], dtype=np.int64)


def _bins(values: NDArray[np.int64], usable: Rows, n: int) -> NDArray[np.int64]:
    """Equally filled bins of values, by those of the usable rows; equal values share a bin."""
    ordered = np.sort(values[usable])
    edges = ordered[np.arange(1, n) * len(ordered) // n]
    return np.searchsorted(edges, values, side="right")


def _listed_species(bank: ClipStore, usable: Rows) -> dict[int, frozenset[int]]:
    if not bank.has("also_species"):
        return {}
    species = _text(bank, "species")
    codes = dict(zip(species, _codes(species).tolist(), strict=True))
    lists = bank.columns(["also_species"])["also_species"].to_pylist()
    found = {row: frozenset(codes[name] for name in lists[row] or () if name in codes) for row in usable.tolist()}
    return {row: names for row, names in found.items() if names}
