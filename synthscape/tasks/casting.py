"""One attempt at casting an item: draws types, clips and backgrounds under the rules that keep questions honest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synthscape.errors import PlanError
from synthscape.plan.plan import DISTRACTOR, NO_BACKGROUND, NOISE, PATCH, SUPPORT, TARGET
from synthscape.plan.planner import Planner
from synthscape.plan.program import ProgramBuilder
from synthscape.spec.schema import Spec
from synthscape.tasks.cast import QUERY, SCENE, Cue, SceneCast
from synthscape.tasks.deck import Card
from synthscape.tasks.draws import (
    BACKDROPS,
    CELL,
    CLIPS,
    DIRECTIONS,
    NUMBERS,
    ORDER,
    PATCHES,
    RATIOS,
    SIDES,
    STAGE,
    STAND_INS,
    TRIES,
    TYPES,
    Draws,
)
from synthscape.tasks.pools import Pools, Rows, Stage, sums
from synthscape.units import seconds_to_samples
from synthscape_kernels.draws import Program

EXAMPLES, QUERIES = range(2)  # sides of an item: what they are made of shares no recording, recordist, site
RELATED: Final = ("within_species", "same_genus", "same_family")
_OCTAVE: Final = 2.0
_LEAST_PATCH_S: Final = 0.05
_FROM_CALL_S: Final = 0.05  # a block of the band tables: nearer to the call they hold some of it


_InBins = tuple[Rows, NDArray[np.int64], NDArray[np.int64]]  # clips, the bin of each, how many in each bin


class MiscastError(PlanError):
    """This attempt can't be finished; the next one draws anew."""


@dataclass(frozen=True)
class Nodes:
    """Distributions of the spec that tasks draw from."""

    program: Program
    resample: int
    reverse: int
    examples: int
    distractors: int
    patches: int
    count: int
    support_calls: int

    @classmethod
    def of(cls, spec: Spec) -> Nodes:
        """Those of a spec."""
        builder = ProgramBuilder()
        question, events = spec.question, spec.events
        count = question.distractors if events.count is None else events.count  # for form's sake
        numbers = [
            builder.add(draw)
            for draw in (
                events.resample,
                events.reverse,
                question.examples,
                question.distractors,
                question.patches,
                count,
                question.support_calls,
            )
        ]
        return cls(builder.build(), *numbers)


@dataclass(frozen=True)
class Props:
    """What every attempt at every item of a spec works with."""

    spec: Spec
    pools: Pools
    planner: Planner
    nodes: Nodes


class Casting:
    """One attempt at one item.

    Types are drawn by ``draws``, which stay the same over some trials; all that may fail for them (who is on which
    side, which clip) by ``picks``, which change with each. So rare types are not tried less often than others.

    Attributes:
        card: what is fixed about the item.
    """

    def __init__(self, props: Props, card: Card, draws: Draws, picks: Draws, query_share: float):
        self.props = props
        self.spec = props.spec
        self.pools = props.pools
        self.card = card
        self.draws = draws
        self.picks = picks
        self.labels = []
        self.stage: Stage  # drawn with the types
        self._cell: dict[int, Rows] | None = None
        self._query_share = query_share
        self._flagged = props.spec.events.resample_infeasible == "flag"
        self._stand_ins: set[int] = set()
        self._played: dict[int, tuple[int, bool]] = {}
        self._sides: dict[int, tuple[Rows, NDArray[np.int8]]] = {}  # clips of types, and the side of each
        self._by_side: dict[tuple[int, int], Rows] = {}
        self._used: set[int] = set()
        self._picked = 0  # slots of CLIPS in use
        self._low_hz, self._high_hz = np.inf, 0.0  # effective bandwidths of the single clips so far

    @property
    def labels(self) -> list[int]:
        """The types that are asked about."""
        return self._labels

    @labels.setter
    def labels(self, labels: list[int]) -> None:
        self._labels = labels
        self._asked_species = {self.pools.species[label] for label in labels}

    # Types

    def types(self, n: int) -> list[int]:
        """``n`` types that surely differ from one another, by the card's mode, in random order.

        Where a species (genus, family) has fewer, the next wider relation fills up.
        The set is drawn before anything is decided to be right, so no member of it stands out.
        """
        stages, before = self.pools.stages_for(self.card.mode, self.card.matched, n)
        if not stages:
            raise MiscastError(f"no {n} types by {self.card.mode}{' that match' if self.card.matched else ''}")
        mode, stage = self.card.mode, stages[self.draws.weighted(STAGE, 0, before)]
        self.stage = stage
        chosen: list[int] = []
        if self.card.matched:
            cells = [cell for cell in stage.cells if len(cell) >= n]
            self._cell = cells[self.draws.below(CELL, 0, len(cells))]
            self._draw_types(chosen, n, 0, list(self._cell), "random")
        elif mode in RELATED:
            groups = self.pools.groups(stage, mode)
            group = groups[self.draws.weighted(TYPES, 0, stage.groups_before[mode])]
            self._draw_types(chosen, n, 1, group, mode)
            for turn, wider in enumerate(RELATED[RELATED.index(mode) + 1 :], start=2):
                if len(chosen) < n:
                    self._draw_types(chosen, n, turn, self.pools.relatives(stage, group[0])[wider], mode)
        if len(chosen) < n and not self.card.matched:
            self._draw_types(chosen, n, 5, None, mode)
        if len(chosen) < n:
            raise MiscastError(f"fewer than {n} types that surely differ, by {mode}")
        self.labels = [chosen[i] for i in self.draws.order(ORDER, 0, n)]
        return self.labels

    def _draw_types(self, chosen: list[int], n: int, turn: int, among: list[int] | None, mode: str) -> None:
        """Add types to ``chosen`` until there are ``n``, in proportion to weight, from some or all of the stage's."""
        before = self.stage.before if among is None else self.stage.weights_of(among)
        if before[-1] == 0:
            return
        kin = {"same_genus": self.pools.species, "same_family": self.pools.genus, "cross_species": self.pools.species}
        distinct = kin.get(mode) if among is not None or mode == "cross_species" else None

        differ = self.pools.differ

        def goes_with(one: int, other: int) -> bool:
            return differ(one, other) and (distinct is None or distinct[one] != distinct[other])

        left = among
        if left is not None:  # few: those that fit are listed
            left = [one for one in left if all(goes_with(one, other) for other in chosen)]
        for k in range(TRIES * n):
            if len(chosen) == n or left == []:
                return
            at = TYPES, turn * 4096 + k
            if left is not None:
                one = left[self.draws.weighted(*at, self.stage.weights_of(left))]
                left = [other for other in left if goes_with(other, one)]
            else:
                one = self.draws.weighted(*at, before)
                if not all(goes_with(one, other) for other in chosen):
                    continue
            chosen.append(one)

    def other_types(self, slot: int, anchor: int, near_too: bool = False) -> Iterator[int]:
        """Types that are not asked about, in random order: related to ``anchor`` by the card's mode, then wider ones.

        Args:
            slot: number of the draw in this item.
            anchor: a type that is asked about.
            near_too: types will do that can't be told apart for sure.
        """
        pools, stage, mode = self.pools, self.stage, self.card.mode
        seen = self._stand_ins.union(self.labels)

        def fits(one: int) -> bool:
            if one in seen or (mode == "cross_species" and pools.species[one] in self._asked_species):
                return False
            return near_too or all(pools.differ(one, label) for label in self.labels)

        if mode in RELATED:
            relatives = pools.relatives(stage, anchor)
            for turn, kin in enumerate(RELATED[RELATED.index(mode) :]):
                related = [one for one in relatives[kin] if fits(one)]
                for i in self.picks.order(STAND_INS, slot * 8192 + 4096 + turn * 1024, min(len(related), 1024)):
                    seen.add(related[i])
                    yield related[i]
        for k in range(TRIES):
            one = self.picks.weighted(STAND_INS, slot * 8192 + k, stage.before)
            if fits(one):
                seen.add(one)
                yield one

    # Ratio and direction

    def played(self, label: int) -> tuple[int, bool]:
        """Index of the ratio, and backwards or not, of all calls of the ``label``-th type of the item."""
        if label not in self._played:
            nodes, planner = self.props.nodes, self.props.planner
            events = self.spec.events
            slot = 1 + label if events.resample.per == "class" else 0
            ratio = planner.nearest_ratio(self.draws.value(nodes.program, nodes.resample, RATIOS, slot, label))
            slot = 1 + label if events.reverse.per == "class" else 0
            backwards = self.draws.value(nodes.program, nodes.reverse, DIRECTIONS, slot, label) > 0.5
            self._played[label] = ratio, backwards
        return self._played[label]

    # Clips

    def on_side(self, class_id: int, side: int) -> Rows:
        """Clips of a type on one side of the item: EXAMPLES or QUERIES, rows of the bank."""
        found = self._by_side.get((class_id, side))
        if found is None:
            if class_id not in self._sides:
                rows = (self._cell or self.stage.clips)[class_id]
                there = self.picks.sides(SIDES, self.pools.provenance, rows, self._query_share)
                self._sides[class_id] = rows, there
            rows, there = self._sides[class_id]
            found = self._by_side[class_id, side] = rows[there == side]
        return found

    def _playable(self, ratio: int) -> NDArray[np.bool_]:
        """Which clips lose nothing beyond Nyquist at a ratio (an index), [clips]."""
        return self.pools.feasible(int(self.props.planner.ratio_p[ratio]), int(self.props.planner.ratio_q[ratio]))

    def _in_bins(self, class_id: int, ratio: int) -> _InBins:
        """Clips of a type for the query that can be played at a ratio, their duration bins, how many are in each."""
        rows = self.on_side(class_id, QUERIES)
        if not self._flagged:
            rows = rows[self._playable(ratio)[rows]]
        bins = self.pools.bin[rows]
        return rows, bins, np.bincount(bins, minlength=self.pools.n_bins)

    def call(
        self,
        class_id: int,
        side: int,
        played: tuple[int, bool],
        *,
        role: int,
        required: bool = False,
        single: bool = False,
        pool: Rows | None = None,
    ) -> Cue:
        """Draw a clip of a type: of its side, not yet used, which can be played so.

        Args:
            class_id: the type.
            side: EXAMPLES or QUERIES.
            played: ratio and direction.
            role: of the event.
            required: it must be audible.
            single: it is heard by itself, so its effective bandwidth must be like the others'.
            pool: only one of these.

        Raises:
            MiscastError: there is none.
        """
        ratio, backwards = played
        pools, used = self.pools, self._used
        playable = None if self._flagged else self._playable(ratio)

        def admits(clip: int) -> bool:
            if clip in used or not (playable is None or playable[clip]):
                return False
            if single:
                hz = float(pools.bandwidth_hz[clip])
                if max(self._high_hz, hz) > _OCTAVE * min(self._low_hz, hz):
                    return False
            return not self._hears_asked(clip, class_id)

        if pool is None:
            pool = self.on_side(class_id, side)
        clip = self.picks.pick(CLIPS, self._picked, pool, admits)
        self._picked += 1
        if clip is None:
            side_name = "examples" if side == EXAMPLES else "the query"
            raise MiscastError(
                f"no clip of {pools.classes[class_id].name} is left for {side_name}, of "
                f"{len(self.stage.clips[class_id])}; ask for fewer, or leave small classes out with classes.min_clips"
            )
        self._used.add(clip)
        if single and not np.isnan(pools.bandwidth_hz[clip]):
            hz = float(pools.bandwidth_hz[clip])
            self._low_hz, self._high_hz = min(self._low_hz, hz), max(self._high_hz, hz)
        return Cue(clip, class_id, ratio, backwards, role, required)

    def _hears_asked(self, clip: int, class_id: int) -> bool:
        """Does the archive say that another species than the clip's is audible in it, and is it asked about?"""
        heard_too = self.pools.also_heard(clip)
        return bool(heard_too) and bool((heard_too - {self.pools.species[class_id]}) & self._asked_species)

    def examples(self, label: int, n: int) -> list[Cue]:
        """Example clips of the ``label``-th type."""
        played = self.played(label)
        return [
            self.call(self.labels[label], EXAMPLES, played, role=SUPPORT, required=True, single=True) for _ in range(n)
        ]

    def asked_calls(self, label: int, n: int, right: int, n_required: int) -> list[Cue]:
        """Calls of the query scene for the ``label``-th type: ``right`` of them of the type, then stand-ins.

        Both are drawn for every call, whatever is used, and stand-ins are of the same duration bin, ratio and
        direction: neither their number nor what they look like tells which is which. All stand-ins are of one type.
        """
        class_id = self.labels[label]
        ratio = self.played(label)[0]
        own = self._in_bins(class_id, ratio)
        name = self.pools.classes[class_id].name
        if len(own[0]) < n:
            raise MiscastError(f"only {len(own[0])} clips of {name} are left for the query")
        reason = (
            f"no other type has calls as long as those of {name}; ask for fewer, add clips, or take duration less "
            "strictly with fewer question.duration_bins"
        )
        for other in self.other_types(label, class_id):
            if sum(map(min, self.stage.in_bin[class_id], self.stage.in_bin[other])) < n:
                continue  # whoever is on which side
            others = self._in_bins(other, ratio)
            pairs = np.minimum(own[2], others[2])
            if int(pairs.sum()) < n:
                continue
            bins = np.flatnonzero(pairs).tolist()
            before, picked = set(self._used), self._picked
            try:
                calls = []
                for k in range(n):
                    call, stand_in = self._pair(label, other, bins, own, others, k, k < n_required)
                    calls.append(call if k < right else stand_in)
                self._stand_ins.add(other)  # nothing else is of this type, so the number of types tells nothing
                return calls
            except MiscastError as error:
                reason, self._used, self._picked = str(error), before, picked + n
        raise MiscastError(reason)

    def _pair(
        self, label: int, other: int, bins: list[int], own: _InBins, others: _InBins, k: int, required: bool
    ) -> tuple[Cue, Cue]:
        """A call of a type, and one that stands in for it, from one of these duration bins."""
        class_id, played = self.labels[label], self.played(label)
        weights = self.stage.in_bin[class_id]
        first = self.picks.weighted(ORDER, 8192 + label * 256 + k, sums(weights[one] for one in bins))
        for one in bins[first:] + bins[:first]:
            call = None
            try:
                pool = own[0][own[1] == one]
                call = self.call(class_id, QUERIES, played, role=TARGET, required=required, pool=pool)
                pool = others[0][others[1] == one]
                return call, self.call(other, QUERIES, played, role=DISTRACTOR, required=required, pool=pool)
            except MiscastError as error:
                reason = str(error)
                if call is not None:
                    self._used.discard(call.clip)
        raise MiscastError(reason)

    def distractors(self, slot: int, side: int = QUERIES, near_too: bool = False) -> list[Cue]:
        """Calls that are not asked about, each of a type related to one that is."""
        cues = []
        for k in range(self.number(self.props.nodes.distractors, slot)):
            label = self.picks.below(ORDER, 64 + slot * 64 + k, len(self.labels))
            reason = f"no other type than {self.pools.classes[self.labels[label]].name}"
            for other in self.other_types(64 + slot * 64 + k, self.labels[label], near_too):
                try:
                    cues.append(self.call(other, side, self.played(label), role=DISTRACTOR))
                    break
                except MiscastError as error:
                    reason = str(error)
            else:
                raise MiscastError(reason)
        return cues

    def patches(self, slot: int, side: int = QUERIES) -> list[Cue]:
        """Call-free stretches of recordings that are nowhere else in the item."""
        rate, pools = self.spec.sample_rate, self.pools
        least, margin = seconds_to_samples(_LEAST_PATCH_S, rate), seconds_to_samples(_FROM_CALL_S, rate)

        def stretches(clip: int) -> list[tuple[int, int]]:
            before = (0, int(pools.active_start[clip]) - margin)
            behind = (int(pools.active_end[clip]) + margin, int(pools.length[clip]))
            return [(start, end) for start, end in (before, behind) if end - start >= least]

        cues = []
        for k in range(self.number(self.props.nodes.patches, 16 + slot)):
            label = self.picks.below(ORDER, 4096 + slot * 64 + k, len(self.labels))
            ratio, backwards = self.played(label)
            playable = self._playable(ratio)
            for turn in range(16):
                at = (slot * 64 + k) * 16 + turn
                class_id = self.picks.weighted(PATCHES, at * 256, self.stage.before)

                def admits(clip: int, class_id: int = class_id, playable: NDArray[np.bool_] = playable) -> bool:
                    if clip in self._used or not playable[clip] or self._hears_asked(clip, class_id):
                        return False
                    return bool(stretches(clip))

                clip = self.picks.pick(PATCHES, at * 2 + 1, self.on_side(class_id, side), admits)
                if clip is not None:
                    break
            else:
                continue  # a bank without call-free stretches has no patches; the scenes table counts them
            self._used.add(clip)
            there = stretches(clip)
            start, end = there[self.picks.below(PATCHES, at * 256 + 1, len(there))]
            cues.append(Cue(clip, class_id, ratio, backwards, PATCH, False, start, end))
        return cues

    def number(self, node: int, slot: int) -> int:
        """A whole number from one of the spec's distributions."""
        return round(self.draws.value(self.props.nodes.program, node, NUMBERS, slot))

    def label_name(self, class_id: int) -> str:
        """What a type is called in an answer."""
        return self.pools.classes[class_id].name

    # Scenes

    def scene(self, part: str, kind: int, cues: Iterable[Cue]) -> SceneCast:
        """A scene, its backgrounds still to be set."""
        # What must be heard is placed first; patches look for no room, so they come last.
        ordered = sorted(cues, key=lambda cue: (cue.role == PATCH, not cue.required))
        return SceneCast(part, kind, cues=ordered)

    def set_backgrounds(self, examples: list[SceneCast], query: list[SceneCast]) -> bool:
        """Draw the backgrounds of examples and of the query: the same files, or others. True for others.

        None is of a recording or site of any clip of the item, none is known to hold a species that is asked about.
        Clips count that were drawn and are not used, so that backgrounds are the same whatever is right.
        """
        spec = self.spec
        if not any(scene.kind >= SCENE or spec.clips.background for scene in (*examples, *query)):
            return False  # all are bare
        barred = self.pools.barred_backgrounds(sorted(self._used), self._asked_species)
        # Noise is made anew for every scene: it is no file to stay with or to leave.
        may_shift = spec.background.noise.probability < 1
        shift = may_shift and self.draws.uniform(BACKDROPS, 0) < spec.question.domain_shift
        first = self._backgrounds(0, barred)
        second = self._backgrounds(1, barred | {row for row in first if row >= 0}) if shift else first
        for scenes, rows in ((examples, first), (query, second)):
            for scene in scenes:
                if scene.kind >= SCENE or spec.clips.background:
                    scene.backgrounds = rows
        return shift

    def _backgrounds(self, turn: int, barred: set[int]) -> tuple[int, int]:
        background = self.spec.background
        rows: list[int] = []
        mixed = self.draws.uniform(BACKDROPS, 1 + turn) < background.mix.probability
        for which in range(2 if mixed else 1):
            slot = 8 + turn * 2 + which
            if self.draws.uniform(BACKDROPS, slot) < background.noise.probability:
                rows.append(NOISE)
                continue
            row = self.draws.pick(
                BACKDROPS, slot, self.stage.backgrounds, lambda row: row not in barred and row not in rows
            )
            if row is None:
                raise MiscastError("no background is left which is of another site and holds no species asked about")
            rows.append(row)
        return rows[0], rows[1] if mixed else NO_BACKGROUND

    def background_clip(self) -> bool:
        """Does the item have a clip of the query's background?"""
        return self.draws.uniform(BACKDROPS, 5) < self.spec.question.background_clip


def letters(n: int) -> list[str]:
    """A, B, C, ..."""
    return [chr(ord("A") + i) for i in range(n)]


__all__ = ["EXAMPLES", "QUERIES", "QUERY", "Casting", "MiscastError", "Nodes", "Props", "letters"]
