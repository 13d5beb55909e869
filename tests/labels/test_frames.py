"""Frame targets by their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscape.errors import SynthscapeError
from synthscape.labels.frames import frame_counts
from tests.hand_built import hand_plan
from tests.labels.frame_plans import random_plan


def test_two_calls_of_one_class_are_two() -> None:
    """Overlapping events of one class add up; parts are half-open; a touching neighbour is not counted."""
    plan = hand_plan(
        ({"n_samples": 1000}, [
            {"onset": 100, "offset": 400, "class_id": 1},
            {"onset": 200, "offset": 300, "class_id": 1},
            {"onset": 250, "offset": 251, "class_id": 0},
        ]),
        ({"n_samples": 350}, [{"onset": 300, "offset": 350, "class_id": 0}]),
    )  # fmt: skip
    counts = frame_counts(plan, 2, 100)

    assert counts.shape == (2, 10, 2)
    assert counts[0, :, 1].tolist() == [0, 1, 2, 1, 0, 0, 0, 0, 0, 0]
    assert counts[0, :, 0].tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert counts[1, :, 0].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]


@settings(max_examples=60)
@given(hop=st.integers(1, 300), share=st.floats(0, 1), seed=st.integers(0, 1000))
def test_frames_hold_enough_of_an_event(hop: int, share: float, seed: int) -> None:
    """An event counts in exactly the frames with enough of it, or in the fullest: sample by sample."""
    least = max(1, round(share * hop))
    plan = random_plan(4, (900, 400), n_events=6, seed=seed)
    counts = frame_counts(plan, 4, hop, least_samples=least)

    expected = np.zeros_like(counts)
    for scene in range(2):
        for e in range(plan.events_of(scene).start, plan.events_of(scene).stop):
            held = np.bincount(np.arange(plan.onset[e], plan.offset[e]) // hop, minlength=counts.shape[1])
            enough = held >= least
            if not enough.any():
                enough[np.argmax(held)] = True
            expected[scene, enough, plan.class_id[e]] += 1
    np.testing.assert_array_equal(counts, expected)


def test_own_classes_and_none() -> None:
    """Classes may be given, -1 for events that don't count; what can't be is refused."""
    plan = hand_plan(({"n_samples": 200}, [{"onset": 0, "offset": 100}, {"onset": 0, "offset": 100}]))

    assert frame_counts(plan, 3, 100, class_id=np.array([2, -1])).tolist() == [[[0, 0, 1], [0, 0, 0]]]
    with pytest.raises(SynthscapeError, match="2 classes from 0 to 3 for 2 events"):
        frame_counts(plan, 3, 100, class_id=np.array([0, 3]))
    with pytest.raises(SynthscapeError, match="1 classes from 0 to 0 for 2 events"):
        frame_counts(plan, 3, 100, class_id=np.array([0]))
    with pytest.raises(SynthscapeError, match="a frame of 100 samples of which 101 must be active"):
        frame_counts(plan, 3, 100, least_samples=101)
    with pytest.raises(SynthscapeError, match="a frame of 0 samples"):
        frame_counts(plan, 3, 0)
