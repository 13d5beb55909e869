"""Frame targets: how many events of each class are active in each frame. ``triton_frames.py`` is the GPU form."""

from __future__ import annotations

from typing import Any

import numpy as np

from synthscape_kernels.jit import compiled


@compiled
def frame_spans(onset: Any, offset: Any, hop: Any, least: Any, first: Any, last: Any) -> None:
    """Frames an event is active in: those that hold at least ``least`` samples of [onset, offset).

    Where no frame holds as many, the one that holds the most does, the earlier of two: no event is lost.

    Args:
        onset, offset: int64 [e], onset < offset.
        hop: samples of a frame; frame k is [k hop, (k + 1) hop).
        first, last: int32 [e], filled: frames first .. last - 1.
    """
    for e in range(len(onset)):
        begin, end = onset[e] // hop, (offset[e] - 1) // hop + 1
        in_first = min(offset[e], (begin + 1) * hop) - onset[e]
        in_last = offset[e] - max(onset[e], (end - 1) * hop)
        first[e] = begin if in_first >= least else begin + 1
        last[e] = end if in_last >= least else end - 1
        if first[e] >= last[e]:  # at most two frames, neither with enough
            first[e] = begin if in_first >= in_last else begin + 1
            last[e] = first[e] + 1


@compiled
def count_frames(event_offsets: Any, class_id: Any, first: Any, last: Any, out: Any) -> None:
    """Add 1 to ``out[scene, frame, class]`` (int32, zero before) for every event and frame first .. last - 1 of it.

    Args:
        event_offsets: int64 [s + 1], events in CSR order.
        class_id: int32 [e]; a negative one counts nowhere.
        first, last: int32 [e], within the frames of ``out``.
    """
    for scene in range(len(event_offsets) - 1):
        for e in range(event_offsets[scene], event_offsets[scene + 1]):
            if class_id[e] >= 0:
                for frame in range(first[e], last[e]):
                    out[scene, frame, class_id[e]] += np.int32(1)
