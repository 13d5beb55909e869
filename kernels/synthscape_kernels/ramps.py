"""Weights of fades and cross-fades as float32 tables, for kernels that compute no sines."""

from __future__ import annotations

from typing import Any

import numpy as np

from synthscape_kernels.jit import compiled
from synthscape_kernels.mix import fade_weight


@compiled
def fade_tables(lengths: Any, starts: Any, out: Any, linear: Any) -> None:
    """Fade-ins over ``lengths[i]`` samples (int64), into ``out[starts[i]:]`` (float32): linear, or raised cosine."""
    for i in range(len(lengths)):
        for k in range(lengths[i]):
            out[starts[i] + k] = np.float32(fade_weight(k, lengths[i], linear))


@compiled
def crossfade_tables(lengths: Any, starts: Any, out: Any) -> None:
    """Equal-power cross-fades over ``lengths[i]`` samples, into ``out[starts[i]:]``: rising, then falling weights."""
    for i in range(len(lengths)):
        n = lengths[i]
        for k in range(n):
            rise = (k + 0.5) / n
            out[starts[i] + k] = np.float32(np.sqrt(rise))
            out[starts[i] + n + k] = np.float32(np.sqrt(1.0 - rise))
