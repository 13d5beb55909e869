"""Seconds to samples: the one rule, as plain code that both Python and the compiled planner use."""

from __future__ import annotations

import math
from typing import Any


def round_to_samples(time_s: Any, sample_rate: Any) -> Any:
    """Nearest sample to a time, halves up."""
    return math.floor(time_s * sample_rate + 0.5)
