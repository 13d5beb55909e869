"""Parts of a batch: some of its scenes, its events without patches, or many batches as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synthscape.mix.batch import SceneBatch
from synthscape.plan.plan import EVENT_COLUMNS, PATCH, SCENE_COLUMNS, ScenePlan

_OF_SCENES: Final = ("scene_gain_db", "level_dbfs", "level_lufs")
_OF_EVENTS: Final = (
    "gain_db",
    "signal_share",
    "snr_scene_db",
    "snr_local_db",
    "snr_band_db",
    "snr_loudness_db",
    "tail_samples",
)


def take_scenes(plan: ScenePlan, positions: NDArray[np.integer[Any]]) -> ScenePlan:
    """A plan of the scenes at these positions, in this order."""
    n_events = np.diff(plan.event_offsets)[positions]
    events = _events_at(plan, positions)
    columns: dict[str, Any] = {name: getattr(plan, name)[positions] for name in SCENE_COLUMNS}
    columns |= {name: getattr(plan, name)[events] for name in EVENT_COLUMNS}
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(n_events, dtype=np.int64)])
    return replace(plan, event_offsets=offsets, **columns)


def is_labelled(plan: ScenePlan) -> NDArray[np.bool_]:
    """Which events of a plan are in the labels: all but patches, which are noise of a recording, [e]."""
    return np.asarray(plan.role != PATCH)


def labelled_plan(plan: ScenePlan) -> ScenePlan:
    """A plan without its patches; the plan itself if there are none."""
    keep = is_labelled(plan)
    if keep.all():
        return plan
    columns: dict[str, Any] = {name: getattr(plan, name)[keep] for name in EVENT_COLUMNS}
    return replace(plan, event_offsets=np.append(0, np.cumsum(keep))[plan.event_offsets], **columns)


def labelled_batch(batch: SceneBatch) -> SceneBatch:
    """What was measured of the events that are in the labels; audio of patches is added to the background."""
    plan = batch.plan
    keep = is_labelled(plan)
    if keep.all():
        return batch
    measured: dict[str, Any] = {name: getattr(batch, name)[keep] for name in _OF_EVENTS}
    background, stems = without_patches(plan, batch.background, batch.stems)
    return replace(batch, plan=labelled_plan(plan), background=background, stems=stems, **measured)


def without_patches(plan: ScenePlan, background: Any, stems: Any) -> tuple[Any, Any]:
    """Background and stems of the labels: the stems of patches are part of the background.

    So the audio is still (background + sum of stems) x scene gain.

    Args:
        plan: of the scenes.
        background: [s, samples], an array or a tensor, or None; it stays as it is.
        stems: [e, samples], of the same kind.
    """
    keep = is_labelled(plan)
    if background is None or stems is None or keep.all():
        return background, stems
    background = background.copy() if isinstance(background, np.ndarray) else background.clone()
    for e in np.flatnonzero(~keep).tolist():
        background[int(np.searchsorted(plan.event_offsets, e, side="right")) - 1] += stems[e]
    return background, stems[np.flatnonzero(keep)]


def join_measured(plan: ScenePlan, batches: Sequence[SceneBatch]) -> SceneBatch:
    """What was measured on consecutive parts of a plan, as one batch without audio; failures keep their scene.

    Scenes that could not be rendered are left out, of the plan too.
    """
    failed: dict[int, str] = {}
    start = 0
    for batch in batches:
        failed |= {start + position: reason for position, reason in (batch.failures or {}).items()}
        start += len(batch.plan)
    delivered = np.array([i for i in range(len(plan)) if i not in failed], dtype=np.int64)
    events = _events_at(plan, delivered)
    return SceneBatch(
        plan=take_scenes(plan, delivered) if failed else plan,
        audio=np.zeros((len(delivered), 0), dtype=np.float32),
        failures=failed or None,
        **{name: np.concatenate([getattr(batch, name) for batch in batches])[delivered] for name in _OF_SCENES},
        **{name: np.concatenate([getattr(batch, name) for batch in batches])[events] for name in _OF_EVENTS},
    )


def _events_at(plan: ScenePlan, positions: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    starts = plan.event_offsets[:-1][positions]
    n_events = np.diff(plan.event_offsets)[positions]
    first = np.cumsum(n_events) - n_events
    return np.asarray(np.repeat(starts - first, n_events) + np.arange(n_events.sum()), dtype=np.int64)
