"""Random numbers of tasks: functions of seed, item and purpose, like all that is drawn here."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synthscape_kernels import draws, philox
from synthscape_kernels.draws import Program
from synthscape_kernels.sides import sides_of

# Streams, one a purpose. The planner's own are 0 to 28; slots of each are counted from 0.
DECK, TYPES, SIDES, CLIPS, NUMBERS, BACKDROPS, RATIOS, DIRECTIONS, PATCHES, WORDING, ORDER, STAND_INS, STAGE, CELL = (
    range(40, 54)
)

TRIES: Final = 64  # at most; then what is admitted is listed and drawn from


class Draws:
    """Numbers of one attempt at an item.

    >>> a, b = Draws(7, 1024), Draws(7, 1024)
    >>> a.below(TYPES, 3, 100) == b.below(TYPES, 3, 100)
    True
    """

    def __init__(self, seed: int, number: int):
        self._seed = np.uint64(seed)
        self._number = np.int64(number)

    def uniform(self, purpose: int, slot: int) -> float:
        """A number in (0, 1)."""
        return float(philox.uniform(self._seed, purpose, self._number, slot))

    def below(self, purpose: int, slot: int, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(philox.below(self._seed, purpose, self._number, slot, n))

    def value(self, program: Program, node: int, purpose: int, slot: int, position: int = -1) -> float:
        """A draw from a spec's distribution; ``position`` is that of a label in the item."""
        u = self.uniform(purpose, slot)
        return float(draws.draw(program, node, u, self._seed, self._number, position))

    def order(self, purpose: int, slot: int, n: int) -> list[int]:
        """0 to n - 1 in random order (Fisher and Yates); uses slots ``slot`` to ``slot + n - 1``."""
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.below(purpose, slot + i, i + 1)
            order[i], order[j] = order[j], order[i]
        return order

    def weighted(self, purpose: int, slot: int, before: Sequence[int]) -> int:
        """An index i with chance ``before[i + 1] - before[i]`` of ``before[-1]``, sums of whole weights."""
        return bisect_right(before, int(self.uniform(purpose, slot) * before[-1])) - 1

    def sides(self, purpose: int, codes: NDArray[np.int64], clips: NDArray[np.int64], share: float) -> NDArray[np.int8]:
        """The side each clip is on, 1 with chance ``share``, -1 for neither: see :func:`sides_of`."""
        side = np.empty(len(clips), np.int8)
        sides_of(self._seed, purpose, self._number, codes, clips, share, side)
        return side

    def pick(self, purpose: int, slot: int, pool: NDArray[np.int64], admits: Callable[[int], bool]) -> int | None:
        """One of the pool that is admitted, all alike; None if none is. Uses slots from ``slot * 128`` on."""
        n = len(pool)
        for k in range(min(n, TRIES)):
            one = int(pool[self.below(purpose, slot * 128 + k, n)])
            if admits(one):
                return one
        admitted = [one for one in pool.tolist() if admits(one)]
        return admitted[self.below(purpose, slot * 128 + TRIES, len(admitted))] if admitted else None
