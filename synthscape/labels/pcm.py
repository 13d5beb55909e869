"""From float scenes to the 16-bit samples that are written, and their hash."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FULL_SCALE: Final = 32768.0  # a written sample means int16 / FULL_SCALE
HASH_BYTES: Final = 16  # BLAKE2b-128


def to_pcm16(audio: NDArray[np.floating[Any]]) -> NDArray[np.int16]:
    """Samples as written: clip(rint(32768 x), ±32767), half to even, no dither; any shape.

    >>> to_pcm16(np.array([-1.0, 0.5 / 32768, 1.5 / 32768, 0.25])).tolist()
    [-32767, 0, 2, 8192]
    """
    scaled = np.rint(audio * audio.dtype.type(FULL_SCALE))
    return np.clip(scaled, -32767, 32767, out=scaled).astype(np.int16)


def from_pcm16(pcm: NDArray[np.int16]) -> NDArray[np.float32]:
    """The value of written samples, int16 / 32768, float32: exact."""
    return pcm.astype(np.float32) / np.float32(FULL_SCALE)


def pcm_hash(pcm: NDArray[np.int16]) -> str:
    """BLAKE2b-128 of the little-endian samples, hex: the same whatever they are encoded in."""
    return blake2b(np.ascontiguousarray(pcm, dtype="<i2").data, digest_size=HASH_BYTES).hexdigest()
