"""Planner: scene numbers in, a ScenePlan out."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import PlanError
from synthscape.plan.community import Community, read_community
from synthscape.plan.cued import kinds_of_scenes
from synthscape.plan.index import ClassEntry, Index, build_index
from synthscape.plan.plan import DROP_REASONS, ScenePlan
from synthscape.plan.program import ProgramBuilder
from synthscape.spec.distributions import Distribution
from synthscape.spec.schema import QUESTION_TASKS, Spec
from synthscape.units import seconds_to_samples
from synthscape_kernels import place, processes
from synthscape_kernels.cues import Casting, plan_cast_scenes
from synthscape_kernels.place import Job, Tables
from synthscape_kernels.processes import Cast
from synthscape_kernels.ratios import GRID, as_ratio

__all__ = ["ClassEntry", "Planner", "listed_ratios", "ratio_table", "scene_numbers"]

_EVENTS_PER_CALL: Final = 65536
_SCENES_PER_CALL: Final = 1024
_EDGE_FADE_S: Final = 0.002
_ENOUGH_S: Final = 0.05


class Planner:
    """Plans scenes of one spec over its stores.

    >>> planner = Planner(spec, bank, backgrounds)           # doctest: +SKIP
    >>> planner.plan([3, 9]).hash() == planner.plan([3, 9]).hash()      # doctest: +SKIP
    True

    Pure: a scene depends on its number, the spec and the stores only, so batches of any size and order give the same.

    Attributes:
        classes: the class list, in label order.
        filtered: reason -> clips or backgrounds left out.
        notes: what a user should know, in words.
        rooms: the rooms of the impulse responses, by the number that plans give them.
        ratio_p, ratio_q: the ratio table that plans index into.
    """

    def __init__(
        self,
        spec: Spec,
        bank: ClipStore,
        backgrounds: ClipStore | None,
        impulses: ClipStore | None = None,
        community: Community | None = None,
    ):
        if community is None:
            community = read_community(spec)
        index = build_index(spec, bank, backgrounds, impulses, community)
        self.sample_rate = spec.sample_rate
        self.classes = index.classes
        self.filtered = index.filtered
        self.notes = index.notes
        self.rooms = index.rooms
        table = ratio_table(spec)
        self.ratio_p = np.array([ratio.numerator for ratio in table], np.int32)
        self.ratio_q = np.array([ratio.denominator for ratio in table], np.int32)
        order = sorted(range(len(table)), key=table.__getitem__)
        rising = np.array([float(table[i]) for i in order])
        self._ratio_order, self._between = order, np.sqrt(rising[:-1] * rising[1:])
        builder = ProgramBuilder()
        rules = np.array([_rules(spec, builder, index)], place.RULES)
        self._cast = _cast(spec, builder, index) if index.cast else None
        self._kinds = kinds_of_scenes(spec, builder)
        self.index = index
        self._most_classes = int(spec.classes.per_scene.bounds()[1])
        self._tables = Tables(
            rules=rules,
            program=builder.build(),
            ratio=np.array([(ratio.numerator, ratio.denominator) for ratio in table], place.RATIO),
            ratio_order=np.array(order, np.int64),
            ratio_between=self._between,
            **index.tables,
        )

    def plan(self, scenes: Iterable[int]) -> ScenePlan:
        """Plan the scenes with these numbers, in this order.

        Raises:
            PlanError: a number is negative, beyond 2**63, or not a whole number.
        """
        numbers = scene_numbers(scenes)
        chunks = [numbers[i : i + _SCENES_PER_CALL] for i in range(0, len(numbers), _SCENES_PER_CALL)]
        parts = [self._plan(chunk) for chunk in chunks or [numbers]]
        return self._as_plan(numbers, *(np.concatenate(rows) for rows in zip(*parts, strict=True)))

    def plan_cast(self, numbers: NDArray[np.int64], scenes: NDArray[np.void], cues: NDArray[np.void]) -> ScenePlan:
        """Plan scenes whose events are given.

        Args:
            numbers: scene numbers, from which everything that is drawn follows.
            scenes: [n] records of CAST_SCENE.
            cues: records of CUE, those of each scene in a row.

        An event that can't be placed is dropped and counted with its reason, as everywhere.
        """
        scene = np.zeros(len(numbers), place.SCENE_ROW)
        drops = np.zeros((len(numbers), len(DROP_REASONS)), np.int32)
        background = np.zeros((len(numbers), 2), place.BACKGROUND_ROW)
        event = np.zeros(len(cues), place.EVENT_ROW)
        order = np.zeros(len(cues), np.int64)
        job = Job(self._tables, numbers, scene, drops, background, event, order)
        n_events = int(plan_cast_scenes(job, Casting(scenes, cues, self._kinds)))
        return self._as_plan(numbers, scene, drops, background, event[order[:n_events]])

    def nearest_ratio(self, value: float) -> int:
        """Index in the ratio table of the ratio nearest to ``value`` on a log scale."""
        return self._ratio_order[int(np.searchsorted(self._between, value, side="left"))]

    def _as_plan(
        self,
        numbers: NDArray[np.int64],
        scene: NDArray[np.void],
        drops: NDArray[np.int32],
        background: NDArray[np.void],
        event: NDArray[np.void],
    ) -> ScenePlan:
        columns = {
            name: np.ascontiguousarray(rows[name])
            for rows in (scene, background, event)
            for name in rows.dtype.names or ()
        }
        n_events = columns.pop("n_events")
        del columns["background_scale"], columns["noise_power"]
        return ScenePlan(
            sample_rate=self.sample_rate,
            ratio_p=self.ratio_p,
            ratio_q=self.ratio_q,
            scene=numbers,
            event_offsets=np.append(0, np.cumsum(n_events)),
            drops=drops,
            **columns,
        )

    def _plan(self, numbers: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Run the kernel, again and again while its event rows fill up: scene, drop, background and event rows."""
        scene = np.zeros(len(numbers), place.SCENE_ROW)
        drops = np.zeros((len(numbers), len(DROP_REASONS)), np.int32)
        background = np.zeros((len(numbers), 2), place.BACKGROUND_ROW)
        rules = self._tables.rules[0]
        most = int(rules["max_slots"]) * int(rules["largest_group"])
        stage = processes.empty_stage(int(rules["max_slots"]), self._most_classes) if self._cast else None
        kept = [np.zeros(0, place.EVENT_ROW)]
        done = 0
        while done < len(numbers):
            event = np.zeros(max(most, min(_EVENTS_PER_CALL, most * (len(numbers) - done))), place.EVENT_ROW)
            order = np.zeros(len(event), np.int64)
            job = Job(self._tables, numbers, scene, drops, background, event, order)
            begun = done
            if self._cast:
                done = int(processes.plan_process_scenes(job, self._cast, stage, np.int64(done)))
            else:
                done = int(place.plan_scenes(job, np.int64(done)))
            kept.append(event[order[: int(scene["n_events"][begun:done].sum())]])
        return scene, drops, background, np.concatenate(kept)


def scene_numbers(scenes: Iterable[int]) -> NDArray[np.int64]:
    """Numbers of scenes or items as an array, int64 [n]; raises PlanError for what is none."""
    try:
        listed = list(scenes)
    except TypeError:
        raise PlanError(
            f"expected scene numbers such as range(8) or [3, 9], got {scenes!r}; put it in a list"
        ) from None
    numbers = np.empty(len(listed), dtype=np.int64)
    for i, scene in enumerate(listed):
        try:
            numbers[i] = number = operator.index(scene)
        except (TypeError, OverflowError):  # 3.7 is no scene, and neither is "3"
            number = -1
        if number < 0:
            raise PlanError(
                f"scene {scene!r}: expected a number from 0 to 2**63 - 1 (epoch x 2**40 + index), without decimals"
            )
    return numbers


def ratio_table(spec: Spec) -> list[Fraction]:
    """The ratios that a plan's ``ratio`` columns index: the grid, and what the spec lists beside it."""
    listed = [as_ratio(value) for d in (spec.events.resample, spec.background.resample) for value in d.constants()]
    return list(dict.fromkeys([*GRID, *listed]))


def listed_ratios(distribution: Distribution) -> list[Fraction]:
    """All ratios that can be drawn, where each is listed by itself; else none."""
    members = distribution.choices or (distribution,)
    if any(member.kind != "constant" for member in members):
        return []
    return list(dict.fromkeys(as_ratio(value) for value in distribution.constants()))


def _rules(spec: Spec, builder: ProgramBuilder, index: Index) -> tuple[Any, ...]:
    """The spec as one record of RULES; its distributions go to the builder."""
    events, background = spec.events, spec.background
    if events.count is not None:
        process, amount = place.COUNT, events.count
    elif events.rate is not None:
        process, amount = place.RATE, events.rate
    elif events.process in ("chorus", "antiphony"):
        process, amount = place.COUNT, Distribution("constant", (1.0,), per="scene")  # for form's sake
    elif events.process == "gaps" and events.gap_s is not None:
        process, amount = place.GAPS, events.gap_s
    elif spec.task in QUESTION_TASKS:
        process, amount = (
            place.COUNT,
            Distribution("constant", (1.0,), per="scene"),
        )  # likewise: tasks cast their events
    else:
        raise PlanError("events: expected one of count, rate or process: gaps; got none")
    if process != place.GAPS and amount.bounds()[1] <= 0 and spec.empty_share < 1:
        raise PlanError("events: the count or rate is always 0; ask for events, or set empty_share: 1")
    if events.group == "track" and events.reverse.bounds()[1] > 0:
        raise PlanError("events.reverse: calls of a track keep their order, so they can't be reversed; set it to 0")
    share = Fraction(str(spec.empty_share))
    rate = spec.sample_rate
    level = background.level_dbfs if background.level_lufs is None else background.level_lufs
    content: dict[str, Any] = {
        "seed": spec.seed,
        "sample_rate": rate,
        "duration_node": builder.add(spec.duration),
        "n_classes_node": builder.add(spec.classes.per_scene),
        "process": process,
        "amount_node": builder.add(amount),
        "snr_node": builder.add(events.snr.db),
        "ratio_node": builder.add(events.resample),
        "reverse_node": builder.add(events.reverse),
        "level_node": -1 if level is None else builder.add(level),
        "background_ratio_node": builder.add(background.resample),
        "mix_db_node": builder.add(background.mix.ratio_db),
        "mix_probability": float(background.mix.probability),
        "empty_numerator": share.numerator,
        "empty_denominator": share.denominator,
        "reference": _reference(spec),
        "forbid_same_class": events.overlap.same_class == "forbid",
        "max_polyphony": events.overlap.max_polyphony or 0,
        "min_gap_samples": seconds_to_samples(events.overlap.min_gap_s, rate),
        "truncate": events.edges == "truncate",
        "fade_samples": seconds_to_samples(events.fade_s, rate),
        "edge_fade_samples": seconds_to_samples(_EDGE_FADE_S, rate),
        "keep_samples": seconds_to_samples(_ENOUGH_S, rate),
        "crossfade_samples": seconds_to_samples(background.crossfade_s, rate),
        "flag_infeasible": events.resample_infeasible == "flag",
        "max_slots": events.max_per_scene,
        "one_track_per_recording": events.group == "track",
        "largest_group": index.largest_group,
        "block_samples": index.block_samples,
    }
    content |= _propagation_rules(spec, builder)  # nodes behind all others, whose numbers must stay as they are
    month, hour = spec.community.month, spec.community.hour
    content["month_node"] = -1 if month is None else builder.add(month)
    content["hour_node"] = -1 if hour is None else builder.add(hour)
    return tuple(content[name] for name in place.RULES.names or ())


def _reference(spec: Spec) -> int:
    """What must not be silent behind an event."""
    if spec.events.level.mode == "source":
        return place.REFERENCE_SCENE  # no SNR is asked for: a background that is silent there does no harm
    return {
        "scene": place.REFERENCE_SCENE,
        "local": place.REFERENCE_LOCAL,
        "band": place.REFERENCE_BAND,
        "loudness": place.REFERENCE_SCENE,
    }[spec.events.snr.reference]


def _propagation_rules(spec: Spec, builder: ProgramBuilder) -> dict[str, Any]:
    """Noise, levels in nature, and the way to the microphone."""

    def node(distribution: Distribution | None) -> int:
        return -1 if distribution is None else builder.add(distribution)

    propagation, noise = spec.events.propagation, spec.background.noise
    return {
        "noise_probability": noise.probability,
        "noise_slope_node": node(noise.slope_db_per_octave),
        "spl_node": node(spec.background.spl_db),
        "source_level_node": node(spec.events.level.source_level_db),
        "propagation_probability": propagation.probability,
        "distance_node": node(propagation.distance_m),
        "rt60_node": node(propagation.tail.rt60_s),
        "drr_node": node(propagation.tail.direct_to_reverberant_db),
    }


def _cast(spec: Spec, builder: ProgramBuilder, index: Index) -> Cast:
    """The bank's callers and the rules of the spec's process, whose distributions go to the builder."""
    events = spec.events
    bout, chorus, antiphony = events.bout, events.chorus, events.antiphony
    content: dict[str, Any] = {
        "kind": {"bout": processes.BOUT, "chorus": processes.CHORUS}.get(events.process or "", processes.ANTIPHONY),
        "calls_node": builder.add(bout.calls),
        "interval_node": builder.add(bout.interval_s),
        "callers_node": builder.add(chorus.callers),
        "duty_node": builder.add(chorus.duty),
        "synchrony_node": builder.add(chorus.synchrony),
        "exchanges_node": -1 if antiphony.exchanges is None else builder.add(antiphony.exchanges),
        "latency_node": builder.add(antiphony.latency_s),
        "pause_node": builder.add(antiphony.pause_s),
        "overlap_probability": antiphony.overlap_probability,
        "other_class": antiphony.partner == "other_class",
    }
    rules = tuple(content[name] for name in processes.PROCESS_RULES.names or ())
    return Cast(rules=np.array([rules], processes.PROCESS_RULES), **index.cast)
