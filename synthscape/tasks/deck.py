"""Decks of cards: what is balanced exactly over every block of items, such as letters and yes or no."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import Final

from synthscape.errors import PlanError
from synthscape.plan.plan import EPOCH
from synthscape.spec.schema import Negatives
from synthscape.tasks.draws import DECK, Draws

MOST_CARDS: Final = 200_000
MODES: Final = ("within_species", "same_genus", "same_family", "cross_species", "random")


@dataclass(frozen=True)
class Card:
    """What is fixed about an item before anything is drawn.

    Attributes:
        right: what of what is asked about is right: letters of a choice, candidates that are present.
        n: how many sounds are asked about; of a counting item, the number.
        mode: how types are chosen (a key of ``question.negatives``).
        matched: options match in duration and frequency.
    """

    right: tuple[int, ...]
    n: int
    mode: str = "random"
    matched: bool = False


Deck = tuple[Card, ...]


def modes_of(negatives: Negatives) -> list[str]:
    """Every mode as often as it weighs, in lowest terms.

    >>> modes_of(Negatives(within_species=2, cross_species=2, random=2))
    ['within_species', 'cross_species', 'random']
    """
    weights = [getattr(negatives, mode) for mode in MODES]
    common = gcd(*weights)
    return [mode for mode, weight in zip(MODES, weights, strict=True) for _ in range(weight // common)]


def with_share(cards: list[Card], others: list[Card], share: float) -> list[Card]:
    """Both, each repeated as often as it takes for ``others`` to be exactly this share; all of a kind alike."""
    part = Fraction(str(share))
    if part == 0:
        return cards
    if part == 1:
        return others
    of_each = part / (1 - part) * len(cards) / len(others)  # times that others stand for each time of the cards
    check_size(len(cards) * of_each.denominator + len(others) * of_each.numerator)
    return cards * of_each.denominator + others * of_each.numerator


def check_size(n: int) -> None:
    """Refuse a deck of ``n`` cards if that is too many, before it is laid out."""
    if n > MOST_CARDS:
        raise PlanError(
            f"question: exact shares take blocks of {n} items, at most {MOST_CARDS} can be kept; use rounder "
            "none_share and matched_share, fewer options or candidates, or smaller weights in negatives"
        )


def card_of(deck: Deck, seed: int, item: int) -> Card:
    """The card of an item: every ``len(deck)`` items in a row get the whole deck, in an order of their own."""
    epoch, index = divmod(item, EPOCH)
    block, place = divmod(index, len(deck))
    return deck[_shuffled(len(deck), seed, epoch * EPOCH + block)[place]]


@lru_cache(maxsize=64)
def _shuffled(n: int, seed: int, block: int) -> tuple[int, ...]:
    return tuple(Draws(seed, block).order(DECK, 0, n))
