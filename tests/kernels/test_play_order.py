"""Resampling sums its taps in order, in plain float32: the bits every machine agrees on."""

from __future__ import annotations

import numpy as np
import pytest

from synthscape_kernels import filters, mix


@pytest.mark.parametrize(("p", "q"), [(1, 1), (9, 10), (2, 1), (1, 3), (64, 63), (113, 128)])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("count", [1, 17, 333, 2500])
def test_play_is_a_plain_sum_in_the_order_of_taps(p, q, backwards, count):
    """Any stretch of a clip, edges included, equals float32 products added one after another, bit by bit."""
    rng = np.random.default_rng(count)
    length, start = 2600 * q // p, 11
    pcm = rng.integers(-32767, 32768, start + length + 5).astype(np.int16)
    clip = pcm[start : start + length].astype(np.float32) / np.float32(32768)
    clip = clip[::-1] if backwards else clip
    half = filters.half_taps(p, q)
    table = filters.filter_table(p, q).astype(np.float32)
    for n0 in (0, 50, -(-length * p // q) - count):
        n = np.arange(n0, n0 + count)
        if p == q:
            expected = clip[n]
        else:
            expected = np.zeros(count, np.float32)
            padded = np.concatenate([np.zeros(2 * half, np.float32), clip, np.zeros(2 * half, np.float32)])
            for k in range(2 * half):
                expected = expected + table[n * q % p, k] * padded[n * q // p + k - half + 1 + 2 * half]
        out = np.full(count + 5, np.nan, np.float32)
        mix.play(
            pcm, start, length, np.int64(p), np.int64(q), table.ravel(), 0, np.int64(half), backwards, n0,
            n0 + count, out, 3,
        )  # fmt: skip

        assert np.array_equal(out[3 : 3 + count], expected)
        assert np.isnan(out[:3]).all()
        assert np.isnan(out[3 + count :]).all()
