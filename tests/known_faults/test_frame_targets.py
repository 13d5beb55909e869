"""Faults of frame targets that users met in other tools."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from synthscape import SceneGenerator, Spec
from synthscape.labels.frames import frame_counts


def test_frames_count_every_event_of_a_class(spec_of: Callable[..., Spec]) -> None:
    """Two calls of one class at once are two in their frames (in seld-dcase2021 the second one vanished)."""
    spec = spec_of("events.rate=null", "events.count=12", "duration=2", "classes.per_scene=1",
                   "events.overlap={same_class: allow, max_polyphony: null}")  # fmt: skip
    scenes = SceneGenerator(spec)
    plan = scenes.plan(range(20))
    hop = 160
    counts = frame_counts(plan, len(scenes.classes), hop)

    frames_of_events = (plan.offset - 1) // hop - plan.onset // hop + 1
    assert counts.sum() == frames_of_events.sum()
    assert counts.max() > 1
    assert np.count_nonzero(counts) < counts.sum()
