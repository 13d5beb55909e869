"""From float audio to the 16-bit samples that are written."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from synthscape_kernels.jit import compiled

_FULL_SCALE: Final = np.float32(32768.0)
_LIMIT: Final = np.float32(32767.0)
_MAGNITUDE: Final = np.int32(0x7FFFFFFF)
NOT_FINITE: Final = np.int32(0x7F800000)


@compiled
def highest(x: Any) -> Any:
    """Bits (int32) of the largest magnitude of x (float32): at least ``NOT_FINITE`` where a value is not finite.

    Magnitudes are in the order of their bits, and what is no number comes last.
    """
    bits, most = x.view(np.int32), np.int32(0)
    for i in range(len(bits)):
        size = np.int32(bits[i] & _MAGNITUDE)
        most = size if size > most else most
    return most


@compiled
def to_pcm16(x: Any, gain: Any, out: Any) -> None:
    """clip(rint(32768 gain x), -32767, 32767), half to even, into ``out`` (int16).

    Args:
        x: float32 [n], finite.
        gain: float32; 1 for none.
    """
    for i in range(len(x)):
        value = min(max(x[i] * gain * _FULL_SCALE, -_LIMIT), _LIMIT)
        out[i] = np.int16(np.int32(np.rint(value)))
