"""Which events touch which tile, as lists in CSR form: work per tile is what overlaps it, not what is in its scene."""

from __future__ import annotations

from typing import Any

import numpy as np

from synthscape_kernels.jit import compiled


@compiled
def tile_lists(event_offsets: Any, begin: Any, end: Any, n_tiles: Any, size: Any) -> Any:
    """Lists of the events that touch each tile of ``size`` (samples or frames), in event order.

    Args:
        event_offsets: int64 [s + 1], events in CSR order.
        begin, end: int32 [e], what an event covers, [begin, end), end <= n_tiles x size; empty ones are in no list.

    Returns:
        offsets int32 [s x n_tiles + 1] and event numbers int32 [offsets[-1]]: those of tile t of scene s are
        ``events[offsets[s * n_tiles + t]:offsets[s * n_tiles + t + 1]]``.
    """
    n_scenes = len(event_offsets) - 1
    offsets = np.zeros(n_scenes * n_tiles + 1, np.int32)
    for scene in range(n_scenes):
        for e in range(event_offsets[scene], event_offsets[scene + 1]):
            if begin[e] < end[e]:
                for tile in range(begin[e] // size, (end[e] - 1) // size + 1):
                    offsets[scene * n_tiles + tile + 1] += 1
    for i in range(len(offsets) - 1):
        offsets[i + 1] += offsets[i]
    events = np.empty(offsets[-1], np.int32)
    free = offsets[:-1].copy()
    for scene in range(n_scenes):
        for e in range(event_offsets[scene], event_offsets[scene + 1]):
            if begin[e] < end[e]:
                for tile in range(begin[e] // size, (end[e] - 1) // size + 1):
                    i = scene * n_tiles + tile
                    events[free[i]] = e
                    free[i] += 1
    return offsets, events


@compiled
def chunk_lists(begin: Any, end: Any, size: Any) -> Any:
    """Cut [begin, end) of every event into chunks of ``size`` samples.

    Args:
        begin, end: int32 [e].

    Returns:
        offsets int32 [e + 1], and of every chunk its event and first sample, each int32 [offsets[-1]].
    """
    offsets = np.zeros(len(begin) + 1, np.int32)
    for e in range(len(begin)):
        offsets[e + 1] = offsets[e] + max(0, (end[e] - begin[e] + size - 1) // size)
    event = np.empty(offsets[-1], np.int32)
    first = np.empty(offsets[-1], np.int32)
    for e in range(len(begin)):
        for c in range(offsets[e], offsets[e + 1]):
            event[c] = e
            first[c] = begin[e] + (c - offsets[e]) * size
    return offsets, event, first
