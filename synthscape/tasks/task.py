"""What a task is: a deck of cards, and how an item is cast for its card."""

from __future__ import annotations

from typing import Protocol

from synthscape.spec.schema import Spec
from synthscape.tasks.cast import Cast
from synthscape.tasks.casting import Casting
from synthscape.tasks.deck import Card, modes_of
from synthscape.tasks.pools import Pools


class Task(Protocol):
    """A task whose items are questions: a pure function from (spec, item number) to an item.

    To add one, write a file with this in it, name it in :data:`synthscape.tasks.catalogue.TASKS` and in the schema's
    ``QUESTION_TASKS``, and ship a spec.
    """

    @property
    def by_unit(self) -> bool:
        """All clips of an item are of one ``unit``."""

    @property
    def query_share(self) -> float:
        """How likely a recordist, site or recording is to be on the query's side: where more clips are needed."""

    def deck(self, spec: Spec) -> list[Card]:
        """What is balanced exactly over every so many items."""

    def check(self, spec: Spec, pools: Pools) -> None:
        """Refuse, with a PlanError and counts, what the bank can't support."""

    def cast(self, casting: Casting) -> Cast:
        """Cast an item for ``casting.card``; raises MiscastError where this attempt can't be finished."""


def all_modes(spec: Spec) -> set[str]:
    """Modes of ``question.negatives`` with a weight."""
    return set(modes_of(spec.question.negatives))
