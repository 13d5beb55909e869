"""Frame targets from the event table: counts, not flags, so that two calls of one class at once are two.

Frame k of a scene is samples [k hop, (k + 1) hop); the last may reach beyond the scene. An event is active in the
frames that hold at least ``least_samples`` of its active part [onset, offset), and if none does in the one that holds
most of it: no event is lost, and none is merged with another. Patches are noise, and count nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthscape.errors import SynthscapeError
from synthscape.labels.batches import is_labelled
from synthscape.plan.plan import ScenePlan
from synthscape_kernels import frames, tiles, triton_launch

if TYPE_CHECKING:
    import torch


def frame_counts(
    plan: ScenePlan, n_classes: int, hop_samples: int, *, least_samples: int = 1, class_id: NDArray[Any] | None = None
) -> NDArray[np.int32]:
    """How many events of each class are active in each frame.

    Args:
        plan: of the scenes.
        n_classes: length of the class list.
        hop_samples: samples of a frame.
        least_samples: how much of an event a frame must hold, 1 to ``hop_samples``.
        class_id: class of each event, int [e], instead of the plan's; -1 counts nowhere.

    Returns:
        int32 [scenes, frames, classes], frames of the longest scene; zero beyond the end of a shorter one.

    Raises:
        SynthscapeError: a frame or a class is impossible.
    """
    classes, first, last, n_frames = _spans(plan, n_classes, hop_samples, least_samples, class_id)
    out = np.zeros((len(plan), n_frames, n_classes), np.int32)
    frames.count_frames(plan.event_offsets, classes, first, last, out)
    return out


def frame_counts_on(
    device: Any,
    plan: ScenePlan,
    n_classes: int,
    hop_samples: int,
    *,
    least_samples: int = 1,
    class_id: NDArray[Any] | None = None,
) -> torch.Tensor:
    """:func:`frame_counts` as a tensor on a device, counted there.

    Args:
        device: a CUDA device; ``cpu`` works under Triton's interpreter only.
    """
    import torch

    from synthscape_kernels.triton_frames import CLASSES, FRAMES, count_frames

    classes, first, last, n_frames = _spans(plan, n_classes, hop_samples, least_samples, class_id)
    n_tiles, n_blocks = -(-n_frames // FRAMES), -(-n_classes // CLASSES)
    offsets, events = tiles.tile_lists(plan.event_offsets, first, last, n_tiles, FRAMES)
    columns = [torch.from_numpy(array).to(device) for array in (classes, first, last, offsets, events)]
    out = torch.empty((len(plan), n_frames, n_classes), dtype=torch.int32, device=device)
    programs = len(plan) * n_tiles * n_blocks
    with torch.cuda.device(out.device if out.is_cuda else -1):
        triton_launch.launch(
            count_frames, programs, *columns, n_tiles, n_blocks, n_frames, n_classes, out, FRAMES=FRAMES,
            CLASSES=CLASSES,
        )  # fmt: skip
    return out


def _spans(
    plan: ScenePlan, n_classes: int, hop_samples: int, least_samples: int, class_id: NDArray[Any] | None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], int]:
    """Class, first frame and one past the last frame of each event, and the number of frames."""
    if hop_samples < 1 or not 1 <= least_samples <= hop_samples:
        raise SynthscapeError(
            f"a frame of {hop_samples} samples of which {least_samples} must be active: expected at least 1 sample, "
            "and no more than the frame has"
        )
    classes = np.ascontiguousarray(plan.class_id if class_id is None else class_id, np.int32)
    if len(classes) != plan.n_events or (len(classes) and not -1 <= classes.min() <= classes.max() < n_classes):
        raise SynthscapeError(
            f"{len(classes)} classes from {classes.min(initial=0)} to {classes.max(initial=0)} for {plan.n_events} "
            f"events: expected one for each, from 0 to {n_classes - 1}, or -1 for none"
        )
    classes = np.where(is_labelled(plan), classes, np.int32(-1))
    first, last = np.empty(len(classes), np.int32), np.empty(len(classes), np.int32)
    frames.frame_spans(plan.onset, plan.offset, hop_samples, least_samples, first, last)
    return classes, first, last, -(-int(plan.n_samples.max(initial=0)) // hop_samples)
