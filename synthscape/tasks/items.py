"""Planning items: numbers in, their scenes and what is asked about them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import PlanError
from synthscape.labels.batches import take_scenes
from synthscape.labels.tables import scene_ids
from synthscape.plan.plan import DROP_REASONS, EPOCH, ScenePlan
from synthscape.plan.planner import Planner, scene_numbers
from synthscape.spec.question_checks import MOST_QUESTIONS
from synthscape.spec.schema import QUESTION_TASKS, Spec
from synthscape.tasks.cast import Cast, Cue
from synthscape.tasks.casting import Casting, MiscastError, Nodes, Props
from synthscape.tasks.catalogue import TASKS
from synthscape.tasks.deck import Deck, card_of
from synthscape.tasks.draws import WORDING, Draws
from synthscape.tasks.pools import Pools
from synthscape.tasks.wording import n_paraphrases
from synthscape_kernels.cues import CAST_SCENE, CUE

ATTEMPTS: Final = 16  # sets of types that are tried for an item
TRIALS: Final = 16  # ways to cast each of them
SCENES: Final = 64  # most scenes of an item
_NUMBERS: Final = ATTEMPTS * SCENES  # scene numbers of an item: (item x attempts + attempt) x scenes + scene
_ITEMS_PER_CALL: Final = 1024


@dataclass(frozen=True)
class ItemPlan:
    """Items and their scenes: ``[i]`` is one entry an item, ``[s]`` one a scene.

    The scenes of item i are ``scene_offsets[i]:scene_offsets[i + 1]``, in the order they are heard.
    """

    numbers: NDArray[np.int64]  # [i] epoch x 2**40 + index
    ids: list[str]  # [i]
    casts: list[Cast] | None  # [i] what is asked; None where an item is a scene
    scenes: ScenePlan  # [s]
    scene_offsets: NDArray[np.int64]  # [i + 1]
    scene_ids: list[str]  # [s]
    parts: list[str] | None  # [s] what each scene is in its item
    wordings: NDArray[np.int32]  # [i] number of the paraphrase of the question
    failures: dict[int, str]  # item number -> why it could not be planned; such items are in none of the above

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, items: NDArray[np.integer[Any]]) -> ItemPlan:
        """The items at these positions, in this order."""
        n_scenes = np.diff(self.scene_offsets)[items]
        firsts = self.scene_offsets[:-1][items]
        ends = np.cumsum(n_scenes)
        rows = np.repeat(firsts - (ends - n_scenes), n_scenes) + np.arange(n_scenes.sum())
        listed, places = items.tolist(), rows.tolist()
        return ItemPlan(
            numbers=self.numbers[items],
            ids=[self.ids[i] for i in listed],
            casts=None if self.casts is None else [self.casts[i] for i in listed],
            scenes=take_scenes(self.scenes, rows),
            scene_offsets=np.append(0, ends).astype(np.int64),
            scene_ids=[self.scene_ids[s] for s in places],
            parts=None if self.parts is None else [self.parts[s] for s in places],
            wordings=self.wordings[items],
            failures={},
        )

    def part(self, first: int, last: int) -> ItemPlan:
        """Items ``first`` to ``last`` (exclusive), as views."""
        offsets = self.scene_offsets[first : last + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        return replace(
            self,
            numbers=self.numbers[first:last],
            ids=self.ids[first:last],
            casts=None if self.casts is None else self.casts[first:last],
            scenes=self.scenes.part(begin, end),
            scene_offsets=offsets - begin,
            scene_ids=self.scene_ids[begin:end],
            parts=None if self.parts is None else self.parts[begin:end],
            wordings=self.wordings[first:last],
            failures={},
        )

    @property
    def item_of_scene(self) -> NDArray[np.int64]:
        """[s] position of the item each scene is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.scene_offsets))


def item_id(number: int) -> str:
    """Name of an item that is a question.

    >>> item_id(42), item_id(2**40 + 42)
    ('i000000042', 'e1-i000000042')
    """
    epoch, index = divmod(number, EPOCH)
    return f"e{epoch}-i{index:09d}" if epoch else f"i{index:09d}"


class ItemPlanner:
    """Plans the items of one spec; pure, as the planner it uses.

    Raises:
        PlanError: the bank can't support the task, with counts of what it can.
    """

    def __init__(self, spec: Spec, planner: Planner, bank: ClipStore, backgrounds: ClipStore | None):
        self._spec = spec
        self._planner = planner
        self._n_paraphrases = n_paraphrases(spec.task, spec)
        if spec.task not in QUESTION_TASKS:
            return
        self._task = TASKS[spec.task]
        self._props = Props(spec, Pools(spec, planner, bank, backgrounds, self._task.by_unit), planner, Nodes.of(spec))
        self._task.check(spec, self._props.pools)
        self._deck: Deck = tuple(self._task.deck(spec))

    @property
    def pools(self) -> Pools:
        """What the bank offers; of tasks whose items are questions."""
        return self._props.pools

    @property
    def deck(self) -> Deck:
        """What is balanced exactly over every ``len(deck)`` items; of tasks whose items are questions."""
        return self._deck

    def plan(self, numbers: Iterable[int]) -> ItemPlan:
        """Plan the items with these numbers, in this order; PlanError where there is no such number."""
        items = scene_numbers(numbers)
        if self._spec.task not in QUESTION_TASKS:
            scenes = self._planner.plan(items.tolist())
            names = scene_ids(scenes)
            offsets = np.arange(len(items) + 1, dtype=np.int64)
            return ItemPlan(items, names, None, scenes, offsets, names, None, self._wordings(items), {})
        beyond = items[items % EPOCH >= MOST_QUESTIONS]
        if len(beyond):
            raise PlanError(
                f"item {beyond[0]}: expected epoch x 2**40 + index, with an index under {MOST_QUESTIONS} where items "
                "are questions; ask for another"
            )
        chunks = [items[i : i + _ITEMS_PER_CALL] for i in range(0, len(items), _ITEMS_PER_CALL)]
        return join_items([self._plan(chunk) for chunk in chunks or [items]])

    def _wordings(self, items: NDArray[np.int64]) -> NDArray[np.int32]:
        seed, n = self._spec.seed, self._n_paraphrases
        return np.array([Draws(seed, item).below(WORDING, 0, n) for item in items.tolist()], np.int32)

    def _plan(self, items: NDArray[np.int64]) -> ItemPlan:
        waiting = list(range(len(items)))
        reasons: dict[int, Counter[str]] = {i: Counter() for i in waiting}
        planned: dict[int, tuple[Cast, ScenePlan, int]] = {}  # item -> its cast, and where its scenes are in a plan
        for attempt in range(ATTEMPTS):
            casts: list[tuple[int, Cast, int]] = []
            for i in waiting:
                base = _first_scene(int(items[i]), attempt)
                cast = self._cast(int(items[i]), base, reasons[i])
                if cast is not None:
                    casts.append((i, cast, base))
            if casts:
                plan = self._plan_scenes(casts)
                first = 0
                for i, cast, _ in casts:
                    last = first + len(cast.scenes)
                    problem = _missing(plan, first, last, cast)
                    if problem:
                        reasons[i][problem] += 1
                    else:
                        planned[i] = cast, plan, first
                    first = last
            waiting = [i for i in waiting if i not in planned]
            if not waiting:
                break
        failures = {int(items[i]): _most_common(reasons[i]) for i in waiting}
        return self._as_items(items, planned, failures)

    def _cast(self, item: int, base: int, reasons: Counter[str]) -> Cast | None:
        card = card_of(self._deck, self._spec.seed, item)
        draws = Draws(self._spec.seed, base)
        for trial in range(TRIALS):
            try:
                cast = self._task.cast(
                    Casting(self._props, card, draws, Draws(self._spec.seed, base + trial), self._task.query_share)
                )
            except MiscastError as error:
                reasons[str(error)] += 1
                continue
            cast.negatives, cast.matched = card.mode, card.matched
            return cast
        return None

    def _plan_scenes(self, casts: list[tuple[int, Cast, int]]) -> ScenePlan:
        numbers: list[int] = []
        scenes: list[tuple[int, ...]] = []
        cues: list[Cue] = []
        for _, cast, base in casts:
            for k, scene in enumerate(cast.scenes):
                first = len(cues)
                cues += scene.cues
                numbers.append(base + k)
                scenes.append((first, len(cues), scene.kind, *scene.backgrounds))
        records = np.array(cues, CUE)  # a cue's fields are the record's, but for the number of its clip
        records["member"] = self._props.pools.member[records["member"]]
        return self._planner.plan_cast(np.array(numbers, np.int64), np.array(scenes, CAST_SCENE), records)

    def _as_items(
        self, items: NDArray[np.int64], planned: dict[int, tuple[Cast, ScenePlan, int]], failures: dict[int, str]
    ) -> ItemPlan:
        kept = sorted(planned)
        plans = list({id(plan): plan for _, plan, _ in planned.values()}.values())
        begins = dict(zip(map(id, plans), np.cumsum([0, *map(len, plans)]).tolist(), strict=False))
        everything = join_plans(plans) if plans else self._plan_scenes([])
        rows = [begins[id(planned[i][1])] + planned[i][2] + k for i in kept for k in range(len(planned[i][0].scenes))]
        casts = [planned[i][0] for i in kept]
        numbers = items[kept] if kept else items[:0]
        ids = [item_id(number) for number in numbers.tolist()]
        parts = [scene.part for cast in casts for scene in cast.scenes]
        return ItemPlan(
            numbers=numbers,
            ids=ids,
            casts=casts,
            scenes=take_scenes(everything, np.array(rows, np.int64)),
            scene_offsets=np.cumsum([0, *(len(cast.scenes) for cast in casts)]).astype(np.int64),
            scene_ids=[f"{name}-{s.part}" for name, cast in zip(ids, casts, strict=True) for s in cast.scenes],
            parts=parts,
            wordings=self._wordings(numbers),
            failures=failures,
        )


def _first_scene(item: int, attempt: int) -> int:
    epoch, index = divmod(item, EPOCH)
    return epoch * EPOCH + index * _NUMBERS + attempt * SCENES


def _most_common(reasons: Counter[str]) -> str:
    """What stood in an item's way: the reason met most often, the first of them if several were."""
    reason, times = reasons.most_common(1)[0]
    return f"{reason} ({times} of {reasons.total()} ways that were tried)"


def _missing(plan: ScenePlan, first: int, last: int, cast: Cast) -> str | None:
    """Why an item is not what it should be: an event that must be heard was not placed."""
    for s, scene in zip(range(first, last), cast.scenes, strict=True):
        wanted = sum(cue.required for cue in scene.cues)
        if wanted > int(plan.required[plan.events_of(s)].sum()):
            dropped = np.flatnonzero(plan.drops[s])
            return f"{scene.part}: a call that must be heard could not be placed ({DROP_REASONS[int(dropped[0])]})"
    return None


def join_plans(plans: list[ScenePlan]) -> ScenePlan:
    """Plans of one planner, one after the other."""
    if len(plans) == 1:
        return plans[0]
    columns: dict[str, Any] = {}
    for field in fields(ScenePlan):
        values = [getattr(plan, field.name) for plan in plans]
        if field.name in ("sample_rate", "ratio_p", "ratio_q"):
            columns[field.name] = values[0]
        elif field.name == "event_offsets":
            ends = np.concatenate([np.diff(value) for value in values])
            columns[field.name] = np.append(0, np.cumsum(ends)).astype(np.int64)
        else:
            columns[field.name] = np.concatenate(values)
    return ScenePlan(**columns)


def join_items(parts: list[ItemPlan]) -> ItemPlan:
    """Items of one planner, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    n_scenes = np.concatenate([np.diff(part.scene_offsets) for part in parts])
    return ItemPlan(
        numbers=np.concatenate([part.numbers for part in parts]),
        ids=[name for part in parts for name in part.ids],
        casts=None if parts[0].casts is None else [cast for part in parts for cast in part.casts or ()],
        scenes=join_plans([part.scenes for part in parts]),
        scene_offsets=np.append(0, np.cumsum(n_scenes)).astype(np.int64),
        scene_ids=[name for part in parts for name in part.scene_ids],
        parts=None if parts[0].parts is None else [name for part in parts for name in part.parts or ()],
        wordings=np.concatenate([part.wordings for part in parts]),
        failures={number: reason for part in parts for number, reason in part.failures.items()},
    )
