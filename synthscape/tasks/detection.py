"""Questions about scenes: which candidates are heard, is the call type heard, how many calls of it are there?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import lcm

from synthscape.spec.schema import Spec
from synthscape.tasks.cast import CLIP, SCENE, SUPPORT_SCENE, TARGET, Cast, Cue, Option, SceneCast
from synthscape.tasks.casting import EXAMPLES, QUERY, Casting, letters
from synthscape.tasks.deck import Card, check_size, modes_of, with_share
from synthscape.tasks.pools import Pools
from synthscape.tasks.task import all_modes


def _examples(casting: Casting, n_types: int) -> tuple[list[SceneCast], list[list[str]]]:
    """Example clips of each type, as many of each, and their parts."""
    n = casting.number(casting.props.nodes.examples, 256)
    scenes: list[SceneCast] = []
    parts: list[list[str]] = []
    for label, letter in enumerate(letters(n_types)):
        names = [f"{letter.lower()}{k + 1}" for k in range(n)]
        scenes += [
            casting.scene(name, CLIP, [cue]) for name, cue in zip(names, casting.examples(label, n), strict=True)
        ]
        parts.append(names)
    return scenes, parts


def _background_clip(casting: Casting) -> list[SceneCast]:
    """A clip of the query's background without calls, in some items."""
    if not casting.background_clip():
        return []
    kind = SCENE if casting.spec.clips.duration is None else CLIP
    return [SceneCast("background", kind)]


def _place(casting: Casting, examples: list[SceneCast], query: list[Cue]) -> tuple[list[SceneCast], bool]:
    """All scenes of an item in the order they are heard, and whether the query's backgrounds are others."""
    scene = casting.scene(QUERY, SCENE, query)
    before = _background_clip(casting)
    shift = casting.set_backgrounds(examples, [*before, scene])
    for clip in before:
        clip.backgrounds = scene.backgrounds  # whether or not examples are bare
    return [*examples, *before, scene], shift


def _asked_types(casting: Casting, n: int) -> list[int]:
    """Types that are asked about, out of a set with one more, so that there is one like them to stand in."""
    casting.labels = casting.types(n + 1)[:n]
    return casting.labels


def _types_needed(spec: Spec, n_asked: int) -> int:
    """Types of an item's scene, whoever of them is heard."""
    return 2 * n_asked + (spec.question.distractors.bounds()[1] > 0)


@dataclass(frozen=True)
class FewShot:
    """Which of the candidate sounds are heard in the query scene?"""

    by_unit: bool = False
    query_share: float = 0.6

    def deck(self, spec: Spec) -> list[Card]:
        """Every number of candidates alike; for each, every set of present ones alike; the share of None exact."""
        low, high = (round(bound) for bound in spec.question.candidates.bounds())
        modes = modes_of(spec.question.negatives)
        counts = [2**n - 1 for n in range(low, high + 1)]  # sets of present ones
        check_size(len(counts) * lcm(*counts) * len(modes))
        sets = {
            n: [right for size in range(1, n + 1) for right in combinations(range(n), size)]
            for n in range(low, high + 1)
        }
        common = lcm(*(len(of_n) for of_n in sets.values()))
        some = [
            Card(right, n, mode)
            for n, of_n in sets.items()
            for right in of_n
            for mode in modes
            for _ in range(common // len(of_n))
        ]
        none = [Card((), n, mode) for n in sets for mode in modes]
        return with_share(some, none, spec.question.none_share)

    def check(self, spec: Spec, pools: Pools) -> None:
        """As many types as candidates, as many to stand in for them, and one to distract."""
        pools.check(_types_needed(spec, round(spec.question.candidates.bounds()[1])), all_modes(spec), False)

    def cast(self, casting: Casting) -> Cast:
        """Every candidate has its calls; those of an absent one are replaced by calls of a type not asked about."""
        n, right = casting.card.n, casting.card.right
        types = _asked_types(casting, n)
        examples, parts = _examples(casting, n)
        cues: list[Cue] = []
        for label in range(n):
            calls = casting.number(casting.props.nodes.count, 32 + label)
            cues += casting.asked_calls(label, calls, calls if label in right else 0, 1)
        cues += [*casting.distractors(0), *casting.patches(0)]
        scenes, shift = _place(casting, examples, cues)
        names = letters(n)
        return Cast(
            scenes,
            [Option(names[i], types[i], i in right, parts[i]) for i in range(n)],
            answer=", ".join(names[i] for i in right) or casting.spec.wording.none,
            answer_letters=[names[i] for i in right],
            domain_shift=shift,
        )


@dataclass(frozen=True)
class Binary:
    """Is the call type of the examples heard in the query scene?"""

    by_unit: bool = False
    query_share: float = 0.6

    def deck(self, spec: Spec) -> list[Card]:
        """As many yes as no, in every mode."""
        return [Card(right, 1, mode) for right in ((0,), ()) for mode in modes_of(spec.question.negatives)]

    def check(self, spec: Spec, pools: Pools) -> None:
        """A type, one to stand in for it, and one to distract."""
        pools.check(_types_needed(spec, 1), all_modes(spec), False)

    def cast(self, casting: Casting) -> Cast:
        """A scene without the type is one with it, its calls replaced."""
        yes = bool(casting.card.right)
        types = _asked_types(casting, 1)
        examples, parts = _examples(casting, 1)
        calls = casting.number(casting.props.nodes.count, 32)
        cues = casting.asked_calls(0, calls, calls if yes else 0, 1)
        cues += [*casting.distractors(0), *casting.patches(0)]
        scenes, shift = _place(casting, examples, cues)
        words = casting.spec.wording
        return Cast(
            scenes,
            [Option("A", types[0], yes, parts[0])],
            answer=words.yes if yes else words.no,
            answer_letters=["A"] if yes else [],
            domain_shift=shift,
        )


@dataclass(frozen=True)
class Counting:
    """How many calls of the examples' type are in the query scene?"""

    by_unit: bool = True
    query_share: float = 0.6

    def deck(self, spec: Spec) -> list[Card]:
        """Every number from 0 to ``question.most`` as often, in every mode."""
        return [Card((), n, mode) for n in range(spec.question.most + 1) for mode in modes_of(spec.question.negatives)]

    def check(self, spec: Spec, pools: Pools) -> None:
        """A type, one to stand in for it, and one to distract."""
        pools.check(_types_needed(spec, 1), all_modes(spec), False)

    def cast(self, casting: Casting) -> Cast:
        """Every scene has ``question.most`` calls, of the type or standing in for it: their number tells nothing."""
        n, most = casting.card.n, casting.spec.question.most
        types = _asked_types(casting, 1)
        examples, parts = _examples(casting, 1)
        cues = casting.asked_calls(0, most, n, most)
        cues += [*casting.distractors(0), *casting.patches(0)]
        scenes, shift = _place(casting, examples, cues)
        return Cast(
            scenes,
            [Option("A", types[0], n > 0, parts[0])],
            answer=str(n),
            answer_letters=["A"] if n else [],
            count=n,
            domain_shift=shift,
        )


@dataclass(frozen=True)
class FewShotScenes:
    """Find all calls of one type in the query scene, given a support scene in which its calls are marked.

    The form of DRASDIC (Hoffman et al. 2025) and of the DCASE few-shot challenge: POS, UNK, and NEG for all else.
    """

    by_unit: bool = False
    query_share: float = 0.6

    def deck(self, spec: Spec) -> list[Card]:
        """The share of queries without a call exact, in every mode."""
        modes = modes_of(spec.question.negatives)
        some, none = ([Card(right, 1, mode) for mode in modes] for right in ((0,), ()))
        return with_share(some, none, spec.question.none_share)

    def check(self, spec: Spec, pools: Pools) -> None:
        """A type, one to stand in for it, and one to distract."""
        pools.check(_types_needed(spec, 1), all_modes(spec), False)

    def cast(self, casting: Casting) -> Cast:
        """Distractors may be of types near the one that is asked about: they are UNK."""
        there = bool(casting.card.right)
        types = _asked_types(casting, 1)
        nodes = casting.props.nodes
        played = casting.played(0)
        marked = [
            casting.call(types[0], EXAMPLES, played, role=TARGET, required=True)
            for _ in range(casting.number(nodes.support_calls, 33))
        ]
        marked += [*casting.distractors(1, EXAMPLES, near_too=True), *casting.patches(1, EXAMPLES)]
        support = casting.scene("support", SUPPORT_SCENE, marked)
        calls = casting.number(nodes.count, 32)
        cues = casting.asked_calls(0, calls, calls if there else 0, min(calls, 1))
        cues += [*casting.distractors(0, near_too=True), *casting.patches(0)]
        scenes, shift = _place(casting, [support], cues)
        return Cast(scenes, [Option("A", types[0], there and calls > 0, ["support"])], domain_shift=shift)
