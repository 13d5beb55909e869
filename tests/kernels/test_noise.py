"""Gaussian numbers in bulk against the same numbers one by one."""

from __future__ import annotations

import numpy as np
import pytest

from synthscape_kernels import philox, strict_math
from synthscape_kernels.noise import COLOURED, NUMBERS_PER_STREAM, TAIL, decay, gaussian


@pytest.mark.parametrize("n", [1, 3, 255, 256, 257, 5000])
@pytest.mark.parametrize(("seed", "stream", "scene"), [(0, 32, 0), (2**64 - 1, 33 + 256 * 7, 2**40 + 5)])
def test_numbers_in_bulk_are_those_one_by_one(n: int, seed: int, stream: int, scene: int) -> None:
    """Bit for bit the quantile of the uniform number of each slot; nothing is written past the end."""
    out = np.full(n + 1, 7.0)
    gaussian(np.uint64(seed), np.int64(stream), np.int64(scene), out[:n])
    key = (np.uint64(seed), np.int64(stream), np.int64(scene))
    expected = [strict_math.ndtri(philox.uniform(*key, np.int64(slot))) for slot in range(n)]

    assert out.tolist() == [*expected, 7.0]


def test_words_in_bulk_are_those_one_by_one() -> None:
    """Also where the counter and the key overflow 32 bits."""
    words = [np.zeros(64, np.uint64) for _ in range(4)]
    counter = [np.uint32(c) for c in (7, 2**32 - 1, 3)]
    key = [np.uint32(2**32 - 1), np.uint32(2**31)]
    philox.philox4x32_many(np.int64(2**32 - 10), *counter, *key, *words)
    one_by_one = [philox.philox4x32(np.uint32((2**32 - 10 + j) % 2**32), *counter, *key) for j in range(64)]

    assert np.array_equal(np.transpose(words), np.array(one_by_one))


def test_streams_are_nobody_elses() -> None:
    """The planner's streams lie below 32; those of layers and events never meet."""
    assert NUMBERS_PER_STREAM > max(COLOURED, TAIL) >= min(COLOURED, TAIL) >= 32
    assert COLOURED != TAIL


def test_decay_is_60_db_in_the_time_given() -> None:
    """A row of ones becomes 10**(-3 i / n), scaled to the power asked for."""
    x = np.ones(1500)
    decay(x, 1000.0, 2.5)

    assert np.sum(x**2) == pytest.approx(2.5, rel=1e-12)
    assert x / x[0] == pytest.approx(10 ** (-3 * np.arange(1500) / 1000), rel=1e-10)
