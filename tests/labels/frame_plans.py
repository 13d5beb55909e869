"""Plans with many overlapping events, for frame targets."""

from __future__ import annotations

import numpy as np

from synthscape.plan.plan import ScenePlan
from tests.hand_built import hand_plan


def random_plan(n_classes: int, n_samples: tuple[int, ...], n_events: int = 20, seed: int = 0) -> ScenePlan:
    """Scenes with events of a few to 600 samples, most of them of class 0."""
    rng = np.random.default_rng(seed)
    scenes = []
    for n in n_samples:
        events = []
        for _ in range(n_events):
            onset = int(rng.integers(0, n - 1))
            offset = int(min(n, onset + rng.integers(1, 600)))
            label = int(rng.integers(0, n_classes)) if rng.random() < 0.4 else 0
            events.append({"onset": onset, "offset": offset, "class_id": label})
        scenes.append(({"n_samples": n}, sorted(events, key=lambda event: event["onset"])))
    return hand_plan(*scenes)
