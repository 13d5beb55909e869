"""Seconds to samples: the one place where times are rounded."""

from __future__ import annotations

import math
from typing import Final

from synthscape_kernels.rounding import round_to_samples

Seconds = float

_MAX_SAMPLES: Final = 2**62


def seconds_to_samples(time_s: Seconds, sample_rate: int) -> int:
    """Round a time to the nearest sample, halves up.

    >>> seconds_to_samples(2.99999, 16000)
    48000
    >>> seconds_to_samples(0.5 / 16000, 16000)
    1

    Args:
        time_s: time in seconds, may be negative.
        sample_rate: samples per second.

    Raises:
        ValueError: the time is not finite, or too large to count in samples.
    """
    samples = time_s * sample_rate
    if not math.isfinite(samples) or abs(samples) > _MAX_SAMPLES:
        raise ValueError(f"{time_s!r} s at {sample_rate} Hz is not a number of samples")
    return int(round_to_samples(time_s, sample_rate))
