"""The mixer's CPU kernels: strict float32 audio, float64 power, no GIL.

Clips come packed in one int16 array with the start of each, so that the same arguments serve a gathered batch and a
whole bank resident on a device.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from synthscape_kernels import strict_math
from synthscape_kernels.jit import compiled

LANES: Final = 256  # partial sums side by side: vectorised without reordering any of them
VECTOR: Final = 16  # float32 in a vector; where a machine has narrower ones, each is several
STRETCHES: Final = (64, 32, 16)  # outputs filtered side by side
_slots: Any = cgutils  # untyped
_SCALE: Final = np.float32(1.0 / 32768.0)
_HALF_PI: Final = 1.5707963267948966


@compiled
def energy(x: Any, start: Any, end: Any) -> Any:
    """Sum of squares of x[start:end] (float32), in 256 float64 lanes that are then added in order."""
    lanes = np.zeros(LANES, np.float64)
    whole = start + (end - start) // LANES * LANES
    for i in range(start, whole, LANES):
        part = x[i : i + LANES]
        for lane in range(LANES):
            value = np.float64(part[lane])
            lanes[lane] += value * value
    for i in range(whole, end):
        value = np.float64(x[i])
        lanes[i - whole] += value * value
    total = 0.0
    for lane in range(LANES):
        total += lanes[lane]
    return total


def _filter(width: int) -> Any:
    """A kernel: ``width`` outputs of one phase side by side, each a sum over taps in order, into ``lanes``.

    Each tap multiplies a stretch of a row of dealt inputs, the next tap one of the next row. The sums stay in vector
    registers throughout, which the compiler does not bring about by itself; plain multiplications and additions.
    """

    def filter_stretch(
        typingctx: Any, flat: Any, source: Any, row: Any, q: Any, columns: Any, taps: Any, tap: Any, count: Any,
        lanes: Any,
    ) -> Any:  # fmt: skip
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(which: int) -> Any:
                return context.make_array(signature.args[which])(context, builder, args[which]).data

            def number(value: int) -> Any:
                return ir.Constant(ir.IntType(64), value)

            def at(array: Any, index: Any) -> Any:
                return builder.bitcast(builder.gep(array, [index]), vector.as_pointer())

            vector = ir.VectorType(ir.FloatType(), VECTOR)
            inputs, weights, results = data(0), data(5), data(8)
            sums = [
                _slots.alloca_once_value(builder, ir.Constant(vector, [0.0] * VECTOR)) for _ in range(width // VECTOR)
            ]
            here, row_here = (_slots.alloca_once_value(builder, args[i]) for i in (1, 2))
            back = builder.sub(builder.mul(args[3], args[4]), number(1))  # from past the last row to the first
            with _slots.for_range(builder, args[7]) as loop:
                one = builder.load(builder.gep(weights, [builder.add(args[6], loop.index)]))
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), one, number(0))
                weight = builder.shuffle_vector(
                    one, one, ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), [0] * VECTOR)
                )
                place = builder.load(here)
                for i, total in enumerate(sums):
                    values = builder.load(at(inputs, builder.add(place, number(VECTOR * i))), align=4)
                    builder.store(builder.fadd(builder.load(total), builder.fmul(weight, values)), total)
                following = builder.add(builder.load(row_here), number(1))
                wraps = builder.icmp_signed("==", following, args[3])
                builder.store(builder.select(wraps, number(0), following), row_here)
                place = builder.add(place, args[4])
                builder.store(builder.select(wraps, builder.sub(place, back), place), here)
            for i, total in enumerate(sums):
                builder.store(builder.load(total), at(results, number(VECTOR * i)), align=4)
            return context.get_dummy_value()

        whole = types.int64
        return types.void(flat, whole, whole, whole, whole, taps, whole, whole, lanes), build

    return intrinsic(filter_stretch)


_filter_wide, _filter_middle, _filter_narrow = (_filter(width) for width in STRETCHES)


@compiled
def play(
    pcm: Any, start: Any, length: Any, p: Any, q: Any, taps: Any, table: Any, half: Any, backwards: Any, n0: Any,
    n1: Any, out: Any, at: Any,
) -> None:  # fmt: skip
    """Samples n0..n1-1 of a clip played at ratio p/q, into out[at:] (float32).

    Args:
        pcm: packed int16; the clip is ``pcm[start:start + length]``.
        taps: float32, all filter tables; this ratio's begins at ``table`` and has p rows of 2 ``half`` taps.
        backwards: play the clip reversed.
    """
    if p == q:
        count = n1 - n0
        begin = start + length - n1 if backwards else start + n0
        # Slices and unsigned numbers have no negative indices to watch for, so this becomes vector code.
        source, target = pcm[begin : begin + count], out[at : at + count]
        if backwards:
            for n in range(count):
                target[n] = source[np.uint64(count - 1 - n)] * _SCALE
        else:
            for n in range(count):
                target[n] = source[n] * _SCALE
        return
    # Outputs of one phase lie P apart and read inputs Q apart. Dealt out to Q rows, their inputs are contiguous, and a
    # tap times a stretch of a row is plain vector work.
    first = n0 * q // p - half + 1  # the first input sample any output needs
    last = (n1 - 1) * q // p + half
    columns = (last - first) // q + 2
    spare = q * columns
    flat = np.zeros(spare + STRETCHES[0], np.float32)  # stretches may run on into the next row, or past the last
    dealt = flat[:spare].reshape(q, columns)
    step = -q if backwards else q
    for row in range(q):
        begin = max(0, -((first + row) // q))  # columns begin..end-1 lie in the clip: input first + row + q column
        end = min(columns, (min(last, length - 1) - first - row) // q + 1)
        source = first + row + q * begin
        source = start + length - 1 - source if backwards else start + source
        to = dealt[row]
        for column in range(begin, end):
            to[column] = pcm[np.uint64(source)] * _SCALE
            source += step
    lanes = np.empty(STRETCHES[0], np.float32)
    for phase in range(p):
        n = n0 + phase  # first output with this remainder of (n - n0) mod p
        if n >= n1:
            break
        count = (n1 - 1 - n) // p + 1
        tap = table + (n * q % p) * 2 * half
        lead = n * q // p - half + 1 - first
        for begin in range(0, count, STRETCHES[0]):
            width = min(STRETCHES[0], count - begin)
            row, source = lead % q, (lead % q) * columns + lead // q + begin
            if width > STRETCHES[1]:
                _filter_wide(flat, source, row, q, columns, taps, tap, 2 * half, lanes)
            elif width > STRETCHES[2]:
                _filter_middle(flat, source, row, q, columns, taps, tap, 2 * half, lanes)
            else:
                _filter_narrow(flat, source, row, q, columns, taps, tap, 2 * half, lanes)
            target = out[at + n - n0 + begin * p :]
            for j in range(width):
                target[j * p] = lanes[j]


@compiled
def raised_cosine(i: Any, n: Any) -> Any:
    """Weight of sample i (0-based) of a fade-in over n samples: sin**2, at sample centres."""
    s = strict_math.sin_quarter((i + 0.5) / n * _HALF_PI)
    return s * s


@compiled
def play_events(
    pcm: Any, start: Any, length: Any, ratio: Any, backwards: Any, clip_onset: Any, clip_offset: Any, fade_in: Any,
    fade_out: Any, ratio_p: Any, ratio_q: Any, taps: Any, table: Any, half: Any, n_samples: Any, piece: Any, out: Any,
) -> None:  # fmt: skip
    """What is heard of each event of one scene, at unit gain, faded: ``out[piece[i]:piece[i + 1]]`` (float32).

    A piece is the part of the whole clip inside the scene, [max(clip_onset, 0), min(clip_offset, n_samples)).
    """
    for i in range(len(start)):
        n0 = max(-clip_onset[i], 0)
        n1 = min(clip_offset[i], n_samples) - clip_onset[i]
        r = ratio[i]
        play(
            pcm, start[i], length[i], np.int64(ratio_p[r]), np.int64(ratio_q[r]), taps, table[r], half[r],
            backwards[i], n0, n1, out, piece[i],
        )  # fmt: skip
        size = n1 - n0
        for k in range(min(fade_in[i], size)):
            out[piece[i] + k] *= np.float32(raised_cosine(k, fade_in[i]))
        for k in range(min(fade_out[i], size)):
            out[piece[i] + size - 1 - k] *= np.float32(raised_cosine(k, fade_out[i]))


@compiled
def play_background(
    pcm: Any, start: Any, length: Any, p: Any, q: Any, taps: Any, table: Any, half: Any, offset: Any,
    crossfade: Any, out: Any,
) -> None:  # fmt: skip
    """Fill ``out`` (float32) with a background from sample ``offset`` of it as played at p/q on.

    One that is shorter than the scene is looped: over the last ``crossfade`` samples of a round it fades out while its
    beginning fades in, at equal power (square roots of the ramp), as two stretches of noise are uncorrelated.
    """
    played = -(-length * p // q)
    n = len(out)
    if played >= n:
        play(pcm, start, length, p, q, taps, table, half, False, offset, offset + n, out, 0)
        return
    whole = np.empty(played, np.float32)
    play(pcm, start, length, p, q, taps, table, half, False, 0, played, whole, 0)
    period = played - crossfade
    at = offset  # in [0, period)
    for i in range(n):
        value = whole[at]
        if at < crossfade and offset + i >= period:  # nothing comes before the first round
            rise = (at + 0.5) / crossfade
            value = np.float32(np.sqrt(rise)) * value + np.float32(np.sqrt(1.0 - rise)) * whole[at + period]
        out[i] = value
        at += 1
        if at == period:
            at = 0


@compiled
def add_events(clip_onset: Any, piece: Any, gain: Any, events: Any, out: Any) -> None:
    """Add gain x event to ``out`` (float32, a scene's background), in plan order."""
    for i in range(len(gain)):
        to = max(clip_onset[i], 0)
        g = np.float32(gain[i])
        event = events[piece[i] : piece[i + 1]]
        behind = out[to : to + len(event)]
        for k in range(len(event)):
            behind[k] += g * event[k]


@compiled
def scale(x: Any, factor: Any) -> None:
    """Multiply a float32 array in place."""
    f = np.float32(factor)
    for i in range(len(x)):
        x[i] *= f


@compiled
def peak(x: Any) -> Any:
    """Largest magnitude of a float32 array, as float64."""
    lanes = np.zeros(LANES, np.float32)
    for i in range(0, len(x), LANES):
        part = x[i : i + LANES]
        for lane in range(len(part)):
            size = abs(part[lane])
            lanes[lane] = size if size > lanes[lane] else lanes[lane]
    most = np.float32(0.0)
    for lane in range(LANES):
        most = max(most, lanes[lane])
    return np.float64(most)
