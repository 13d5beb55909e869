"""Lists of work for tiles and chunks, by brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscape_kernels.tiles import chunk_lists, tile_lists


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), n_scenes=st.integers(0, 4), size=st.integers(1, 50))
def test_tiles_list_what_touches_them_in_order(seed: int, n_scenes: int, size: int) -> None:
    """Each tile lists exactly the events of its scene that have a sample in it, in plan order."""
    rng = np.random.default_rng(seed)
    n_tiles = 7
    offsets = np.append(0, np.cumsum(rng.integers(0, 6, n_scenes))).astype(np.int64)
    begin, end = np.sort(rng.integers(0, n_tiles * size + 1, (2, int(offsets[-1]))), axis=0).astype(np.int32)
    at, events = tile_lists(offsets, begin, end, n_tiles, size)

    for scene in range(n_scenes):
        for tile in range(n_tiles):
            i = scene * n_tiles + tile
            inside = range(tile * size, (tile + 1) * size)
            expected = [e for e in range(*offsets[scene : scene + 2]) if any(begin[e] <= n < end[e] for n in inside)]
            assert events[at[i] : at[i + 1]].tolist() == expected
    assert len(at) == n_scenes * n_tiles + 1


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 8), size=st.integers(1, 50))
def test_chunks_cover_an_event_once(seed: int, n: int, size: int) -> None:
    """The chunks of an event begin at its first sample, follow each other, and end at or just behind its last."""
    rng = np.random.default_rng(seed)
    begin, end = np.sort(rng.integers(0, 200, (2, n)), axis=0).astype(np.int32)
    offsets, event, first = chunk_lists(begin, end, size)

    for e in range(n):
        mine = slice(offsets[e], offsets[e + 1])
        assert set(event[mine].tolist()) <= {e}
        assert first[mine].tolist() == list(range(begin[e], end[e], size))
    assert len(event) == len(first) == offsets[-1]
