"""Choices: which option is the query? One example a type, and a query of one of them.

``call_type_mcq`` answers by letter; ``call_type_matching`` and ``species_matching`` have a name beside each example.
"""

from __future__ import annotations

from dataclasses import dataclass

from synthscape.spec.schema import Spec
from synthscape.tasks.cast import CLIP, TARGET, Cast, Option
from synthscape.tasks.casting import QUERIES, QUERY, Casting, letters
from synthscape.tasks.deck import Card, modes_of, with_share
from synthscape.tasks.pools import Pools
from synthscape.tasks.task import all_modes


def matched_and_not(spec: Spec, rights: list[tuple[int, ...]], n: int) -> list[Card]:
    """A card for each right answer and mode, and the share of matched ones."""
    plain = [Card(right, n, mode) for right in rights for mode in modes_of(spec.question.negatives)]
    matched = [Card(right, n, "random", matched=True) for right in rights]
    return with_share(plain, matched, spec.question.matched_share)


@dataclass(frozen=True)
class Choice:
    """One option of several is right, or none."""

    named: bool  # options have names, and the answer is one
    by_unit: bool = False
    query_share: float = 0.4

    def deck(self, spec: Spec) -> list[Card]:
        """Every letter as often in every mode; the share of "none" exact."""
        n = spec.question.options
        some = matched_and_not(spec, [(i,) for i in range(n)], n)
        return with_share(some, matched_and_not(spec, [()], n), spec.question.none_share)

    def check(self, spec: Spec, pools: Pools) -> None:
        """As many types as options, one more where the query may be none of them."""
        needed = spec.question.options + (spec.question.none_share > 0)
        pools.check(needed, all_modes(spec), spec.question.matched_share > 0)

    def cast(self, casting: Casting) -> Cast:
        """The set of types is drawn, then their order; the card says which is right.

        Where the answer may be none, every item draws one type more than it shows: if only those did whose answer it
        is, their options would be related otherwise (of a species with two types, one may be left by itself).
        """
        n, right = casting.card.n, casting.card.right
        types = casting.types(n + (casting.spec.question.none_share > 0))
        asked = right[0] if right else n
        names = letters(n)
        call = casting.call(types[asked], QUERIES, casting.played(asked), role=TARGET, required=True, single=True)
        query = casting.scene(QUERY, CLIP, [call])
        examples = [casting.scene(f"{names[i].lower()}1", CLIP, casting.examples(i, 1)) for i in range(n)]
        shift = casting.set_backgrounds(examples, [query])
        options = [Option(names[i], types[i], (i,) == right, [f"{names[i].lower()}1"]) for i in range(n)]
        return Cast(
            [*examples, query],
            options,
            answer=self._answer(casting, types, right),
            answer_letters=[names[i] for i in right],
            domain_shift=shift,
        )

    def _answer(self, casting: Casting, types: list[int], right: tuple[int, ...]) -> str:
        if not right:
            return casting.spec.wording.none
        if self.named:
            return casting.label_name(types[right[0]])
        return letters(right[0] + 1)[-1]


@dataclass(frozen=True)
class SameDifferent:
    """Two clips: one call type or two?"""

    by_unit: bool = False
    query_share: float = 0.4

    def deck(self, spec: Spec) -> list[Card]:
        """As many pairs of one type as of two, in every mode."""
        return matched_and_not(spec, [(0,), ()], 1)

    def check(self, spec: Spec, pools: Pools) -> None:
        """Two types."""
        pools.check(2, all_modes(spec), spec.question.matched_share > 0)

    def cast(self, casting: Casting) -> Cast:
        """Both types are drawn for every item, so that a type is as often in pairs of one as of two."""
        same = bool(casting.card.right)
        types = casting.types(2)
        other = 0 if same else 1
        call = casting.call(types[other], QUERIES, casting.played(other), role=TARGET, required=True, single=True)
        query = casting.scene(QUERY, CLIP, [call])
        example = casting.scene("a1", CLIP, casting.examples(0, 1))
        shift = casting.set_backgrounds([example], [query])
        words = casting.spec.wording
        return Cast(
            [example, query],
            [Option("A", types[0], same, ["a1"])],
            answer=words.yes if same else words.no,
            answer_letters=["A"] if same else [],
            domain_shift=shift,
        )
