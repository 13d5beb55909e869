"""From float audio to the 16-bit samples that are written."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from synthscape_kernels.jit import compiled

_FULL_SCALE: Final = np.float32(32768.0)
_LIMIT: Final = np.float32(32767.0)


@compiled
def to_pcm16(x: Any, gain: Any, out: Any) -> Any:
    """clip(rint(32768 gain x), -32767, 32767), half to even, into ``out`` (int16); whether all of x is finite.

    Args:
        x: float32 [n].
        gain: float32; 1 for none.

    What is not finite has no sample: ``out`` is then not to be used.
    """
    bad = np.int32(0)
    for i in range(len(x)):
        value = x[i] * gain
        bad |= np.int32(not (abs(value) < np.inf))
        value = np.rint(value * _FULL_SCALE)
        value = min(max(value, -_LIMIT), _LIMIT)
        out[i] = np.int16(value)
    return bad == 0
