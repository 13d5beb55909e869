"""Frame targets counted on a device."""

from __future__ import annotations

import numpy as np
import pytest

from synthscape.labels.frames import frame_counts, frame_counts_on
from tests.labels.frame_plans import random_plan


@pytest.mark.parametrize(("hop", "least", "classes"), [(100, 1, 3), (37, 20, 40)])
def test_counts_are_those_of_the_cpu(device: str, hop: int, least: int, classes: int) -> None:
    """Same counts, frame by frame, with several events of a class at once and scenes of different length."""
    plan = random_plan(classes, n_samples=(1900, 700, 2048))
    expected = frame_counts(plan, classes, hop, least_samples=least)

    assert expected.max() > 2
    np.testing.assert_array_equal(frame_counts_on(device, plan, classes, hop, least_samples=least).cpu(), expected)
