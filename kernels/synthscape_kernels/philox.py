"""Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").

A number is a function of *(seed, stream, scene, slot)*. There is no state, so there is no order: any worker, any batch
size gives the same draw, and a new purpose with a stream of its own reshuffles nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from synthscape_kernels.jit import compiled

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint32(0x9E3779B9)
_W1 = np.uint32(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@compiled
def philox4x32(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Four 32-bit words of the 128-bit counter ``c0..c3`` under the 64-bit key ``k0, k1`` (all uint32), ten rounds."""
    c0, c1, c2, c3 = np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3)
    k0, k1 = np.uint32(k0), np.uint32(k1)
    for _ in range(10):
        product0 = _M0 * np.uint64(c0)
        product1 = _M1 * np.uint64(c2)
        high0, low0 = np.uint32(product0 >> _32), np.uint32(product0 & _LOW)
        high1, low1 = np.uint32(product1 >> _32), np.uint32(product1 & _LOW)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = np.uint32(k0 + _W0), np.uint32(k1 + _W1)
    return c0, c1, c2, c3


@compiled
def philox4x32_many(
    first: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, w0: Any, w1: Any, w2: Any, w3: Any
) -> None:
    """Words of the counters ``first``, ``first + 1``, ... (c0) into ``w0..w3`` (uint64 [n]).

    As :func:`philox4x32`, round by round over all of them: uint64 lanes with 32-bit words are what vectorises.
    """
    for j in range(len(w0)):
        w0[j] = (np.uint64(first) + np.uint64(j)) & _LOW
        w1[j], w2[j], w3[j] = np.uint64(c1), np.uint64(c2), np.uint64(c3)
    key0, key1 = np.uint64(k0), np.uint64(k1)
    for _ in range(10):
        for j in range(len(w0)):
            product0, product1 = _M0 * (w0[j] & _LOW), _M1 * (w2[j] & _LOW)  # masked, so that 32 x 32 bits are seen
            w0[j], w2[j] = (product1 >> _32) ^ w1[j] ^ key0, (product0 >> _32) ^ w3[j] ^ key1
            w1[j], w3[j] = product1 & _LOW, product0 & _LOW
        key0, key1 = (key0 + np.uint64(_W0)) & _LOW, (key1 + np.uint64(_W1)) & _LOW


@compiled
def word(seed: Any, stream: Any, scene: Any, slot: Any) -> Any:
    """The 32-bit word of one draw: counter (slot // 4, stream, scene_lo, scene_hi), word slot % 4 (uint32)."""
    key = np.uint64(seed)
    number = np.uint64(scene)
    w0, w1, w2, w3 = philox4x32(
        np.uint32(np.uint64(slot) >> np.uint64(2)),
        np.uint32(stream),
        np.uint32(number & _LOW),
        np.uint32(number >> _32),
        np.uint32(key & _LOW),
        np.uint32(key >> _32),
    )
    which = np.uint64(slot) & np.uint64(3)
    if which == 0:
        return w0
    if which == 1:
        return w1
    if which == 2:
        return w2
    return w3


@compiled
def uniform(seed: Any, stream: Any, scene: Any, slot: Any) -> Any:
    """A float64 in (0, 1), never an end: (word + 1/2) / 2**32."""
    return (np.float64(word(seed, stream, scene, slot)) + 0.5) * 2.0**-32


@compiled
def below(seed: Any, stream: Any, scene: Any, slot: Any, n: Any) -> Any:
    """An int64 in [0, n) for 1 <= n < 2**31: the high word of a 32 x 32-bit product (bias under n / 2**32)."""
    return np.int64((np.uint64(word(seed, stream, scene, slot)) * np.uint64(n)) >> _32)
