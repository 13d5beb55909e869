"""From float scenes to the 16-bit samples that are written, and their hash."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from synthscape.errors import MixError
from synthscape_kernels import pcm as kernel

FULL_SCALE: Final = 32768.0  # a written sample means int16 / FULL_SCALE
HASH_BYTES: Final = 16


def to_pcm16(audio: NDArray[np.floating[Any]]) -> NDArray[np.int16]:
    """Samples as written: clip(rint(32768 x), ±32767), half to even, no dither; any shape.

    Raises:
        MixError: a value is not a number or not finite; there is no sample for it.

    >>> to_pcm16(np.array([-1.0, 0.5 / 32768, 1.5 / 32768, 0.25])).tolist()
    [-32767, 0, 2, 8192]
    """
    if audio.dtype == np.float32 and audio.flags.c_contiguous:
        if kernel.highest(audio.reshape(-1)) < kernel.NOT_FINITE:
            pcm = np.empty(audio.shape, np.int16)
            kernel.to_pcm16(audio.reshape(-1), np.float32(1.0), pcm.reshape(-1))
            return pcm
    elif np.isfinite(audio).all():
        scaled = np.rint(audio * audio.dtype.type(FULL_SCALE))
        return np.clip(scaled, -32767, 32767, out=scaled).astype(np.int16)
    at = int(np.flatnonzero(~np.isfinite(audio))[0])
    raise MixError(f"sample {at} of audio to be written is {audio.flat[at]}, expected a finite number")


def from_pcm16(pcm: NDArray[np.int16]) -> NDArray[np.float32]:
    """The value of written samples, int16 / 32768, float32: exact."""
    return pcm.astype(np.float32) / np.float32(FULL_SCALE)


def pcm_hash(pcm: NDArray[np.int16]) -> str:
    """First 128 bits of BLAKE3 of the little-endian samples, hex: the same whatever they are encoded in."""
    return blake3(np.ascontiguousarray(pcm, dtype="<i2").view(np.uint8).data).hexdigest(HASH_BYTES)
