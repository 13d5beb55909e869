"""Which side of an item clips are on: all that is known of their provenance decides the same way, or not at all."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from synthscape_kernels.jit import compiled
from synthscape_kernels.philox import uniform

NO_SIDE: Final = -1
_SLOTS: Final = np.int64(1 << 27)  # slots of one column's codes


@compiled
def sides_of(seed: Any, stream: Any, number: Any, codes: Any, clips: Any, share: Any, side: Any) -> None:
    """Fill ``side`` (int8 [n]): 1 where all known codes of a clip are drawn to lie there, 0, or -1 where they differ.

    Args:
        seed, stream, number: of the draws; every code of every column has a slot of its own.
        codes: int64 [columns, all clips], -1 where nothing is known.
        clips: int64 [n], rows; one of which nothing is known has a slot by itself.
        share: how likely side 1 is.
        side: where the result goes.
    """
    for i in range(len(clips)):
        found = -1
        known = False
        for column in range(len(codes)):
            code = codes[column, clips[i]]
            if code < 0:
                continue
            here = 1 if uniform(seed, stream, number, (column + 1) * _SLOTS + code) < share else 0
            if known and here != found:
                found = -1
                break
            found, known = here, True
        if not known:
            found = 1 if uniform(seed, stream, number, clips[i]) < share else 0
        side[i] = found
