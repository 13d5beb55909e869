"""From float samples to 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from synthscape_kernels.jit import compiled


@compiled
def to_pcm16(x: Any, out: Any) -> None:
    """clip(rint(32768 x), ±32767), half to even, of float32 ``x`` into int16 ``out``."""
    for i in range(len(x)):
        out[i] = np.int16(min(max(np.rint(x[i] * np.float32(32768.0)), np.float32(-32767.0)), np.float32(32767.0)))
