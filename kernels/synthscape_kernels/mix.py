"""The mixer's CPU kernels: strict float32 audio, float64 power, no GIL.

Clips lie packed in an int16 array, each event says where its clip starts: the same serves a gathered batch, an audio
file of a store, and a whole bank resident on a device.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from synthscape_kernels import band, strict_math
from synthscape_kernels.jit import compiled
from synthscape_kernels.pcm import NOT_FINITE, highest, to_pcm16
from synthscape_kernels.place import loop_crossfade

LANES: Final = 256  # partial sums side by side: vectorised without reordering any of them
VECTOR: Final = 16  # float32 in a vector; where a machine has narrower ones, each is several
STRETCHES: Final = (64, 32, 16)  # outputs filtered side by side
CACHED: Final = 4096  # samples done at a time where several passes go over them; whole rounds of lanes
TILE: Final = 16384  # samples played at a time, so that what is dealt out stays in cache
#: What an event's SNR refers to: its background over the whole scene, behind it, or in its band; or something else.
WHOLE, LOCAL, BAND, OTHER = range(4)
#: How far a scene is mixed: its background is there, its events are measured, have their gains, are added.
EMPTY, BACKGROUND, MEASURED, LEVELLED, MIXED = range(5)
#: Why one can't be.
NO_PROBLEM, SILENT_LAYER, CANCELLED, UNHEARD, NO_REFERENCE, BEYOND_NUMBERS = range(6)
_slots: Any = cgutils  # untyped
_SCALE: Final = np.float32(1.0 / 32768.0)
_START, _FORWARDS, _UNITY = (
    np.int64(0),
    np.bool_(False),
    np.float32(1.0),
)  # typed: kernels are compiled once more for plain constants
_HALF_PI: Final = 1.5707963267948966

#: An event as the kernels take it; times in samples of the scene.
EVENT: Final = np.dtype(
    [
        ("start", np.int64),  # of its clip, in the packed audio
        ("length", np.int64),  # of its clip
        ("ratio", np.int64),  # index in the filter tables
        ("backwards", np.bool_),
        ("clip_onset", np.int64),
        ("clip_offset", np.int64),
        ("onset", np.int64),
        ("offset", np.int64),
        ("fade_in", np.int64),
        ("fade_out", np.int64),
        ("apart", np.bool_),  # its piece is made elsewhere
        ("piece", np.int64),  # where its piece begins: what is heard of it, at unit gain
        ("piece_onset", np.int64),  # and where that is in the scene
        ("piece_length", np.int64),
        ("group", np.int64),
        ("share", np.float64),  # of its power that is signal
        ("wanted", np.float64),  # signal power / background power
        ("weight", np.float64),  # amplitude among those of its group: as recorded / as stored
        ("first_bin", np.int64),  # of its band; -1 where that is not measured
        ("last_bin", np.int64),
        ("transform", np.int64),  # size of the transform its band takes
        ("known", np.int64),  # place of its energy in its band among the known ones, or -1
    ],
    align=True,
)
#: What is measured of an event at unit gain, as energies over its active part, and the gain that follows.
LEVEL: Final = np.dtype(
    [
        ("energy", np.float64),
        ("local", np.float64),  # of the background in the same samples
        ("band", np.float64),  # both in the event's band; NaN where it has none
        ("background_band", np.float64),
        ("signal", np.float64),  # what the gain is computed from
        ("noise", np.float64),
        ("gain", np.float64),
    ]
)
#: A scene.
SCENE: Final = np.dtype(
    [
        ("first", np.int64),  # of its events
        ("last", np.int64),  # (exclusive)
        ("n_layers", np.int64),  # of its background
        ("as_recorded", np.bool_),  # layers have a gain, else a level
        ("rescaled", np.bool_),  # the sum of the layers is brought to the level, else each of them
        ("level", np.float64),  # RMS of the background
        ("background_power", np.float64),  # what came of it; NaN where there is none
        ("peak", np.int32),  # of the mix: its bits as a float32
    ],
    align=True,
)
#: A layer of a scene's background.
LAYER: Final = np.dtype(
    [
        ("length", np.int64),
        ("ratio", np.int64),
        ("offset", np.int64),
        ("crossfade", np.int64),
        ("gain", np.float64),  # or RMS relative to the first layer's
    ],
    align=True,
)


class Sources(NamedTuple):
    """Stored audio that a scene is made of, int16, read-only."""

    first: NDArray[np.int16]  # layer of the background
    second: NDArray[np.int16]
    clips: NDArray[np.int16]


class Room(NamedTuple):
    """Where a scene is mixed, float32."""

    mixed: NDArray[np.float32]  # [samples]
    layer: NDArray[np.float32]  # [samples] where there are two
    pieces: NDArray[np.float32]  # the events at unit gain
    transform: NDArray[np.float32]  # see :func:`band.energy`


@compiled
def _add_squares(x: Any, lanes: Any) -> None:
    """Add the squares of x (float32) to 256 sums (float64), each to the next in turn."""
    by_four = len(x) // (4 * LANES) * 4 * LANES
    whole = len(x) // LANES * LANES
    for i in range(0, by_four, 4 * LANES):  # the same sums, less often stored
        a, b = x[i : i + LANES], x[i + LANES : i + 2 * LANES]
        c, d = x[i + 2 * LANES : i + 3 * LANES], x[i + 3 * LANES : i + 4 * LANES]
        for lane in range(LANES):
            p, q, r, s = np.float64(a[lane]), np.float64(b[lane]), np.float64(c[lane]), np.float64(d[lane])
            lanes[lane] = lanes[lane] + p * p + q * q + r * r + s * s
    for i in range(by_four, whole, LANES):
        part = x[i : i + LANES]
        for lane in range(LANES):
            value = np.float64(part[lane])
            lanes[lane] += value * value
    for i in range(whole, len(x)):
        value = np.float64(x[i])
        lanes[i - whole] += value * value


@compiled
def _sum_in_order(lanes: Any) -> Any:
    total = 0.0
    for lane in range(LANES):
        total += lanes[lane]
    return total


@compiled
def energy(x: Any) -> Any:
    """Sum of squares of x (float32), in 256 float64 lanes that are then added in order."""
    lanes = np.zeros(LANES, np.float64)
    _add_squares(x, lanes)
    return _sum_in_order(lanes)


@compiled
def scale(x: Any, factor: Any) -> None:
    """Multiply a float32 array in place."""
    f = np.float32(factor)
    for i in range(len(x)):
        x[i] *= f


@compiled
def scale_and_measure(x: Any, factor: Any) -> Any:
    """Multiply a float32 array in place; its energy then."""
    lanes = np.zeros(LANES, np.float64)
    for begin in range(0, len(x), CACHED):
        part = x[begin : begin + CACHED]
        scale(part, factor)
        _add_squares(part, lanes)
    return _sum_in_order(lanes)


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
def _play_tile(
    pcm: Any, start: Any, length: Any, p: Any, q: Any, taps: Any, table: Any, half: Any, backwards: Any, n0: Any,
    n1: Any, out: Any, at: Any,
) -> None:  # fmt: skip
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
    step = p * STRETCHES[0] * max(1, TILE // (p * STRETCHES[0]))  # whole stretches of every phase
    for begin in range(n0, n1, step):
        end = min(begin + step, n1)
        _play_tile(pcm, start, length, p, q, taps, table, half, backwards, begin, end, out, at + begin - n0)


@compiled
def fade_weight(i: Any, n: Any, linear: Any) -> Any:
    """Weight of sample i (0-based) of a fade-in over n samples, at sample centres: linear, or sin**2."""
    rise = (i + 0.5) / n
    if linear:
        return rise
    s = strict_math.sin_quarter(rise * _HALF_PI)
    return s * s


@compiled
def play_event(pcm: Any, event: Any, filters: Any, linear: Any, n0: Any, n1: Any, out: Any, at: Any) -> None:
    """Samples n0..n1-1 of an event's clip as played, faded, at unit gain, into out[at:] (float32)."""
    r = event.ratio
    play(
        pcm, event.start, event.length, filters.p[r], filters.q[r], filters.taps, filters.table[r], filters.half[r],
        event.backwards, n0, n1, out, at,
    )  # fmt: skip
    for k in range(n0, min(event.fade_in, n1)):
        out[at + k - n0] *= np.float32(fade_weight(k, event.fade_in, linear))
    last = event.clip_offset - event.clip_onset - 1
    for k in range(max(n0, last + 1 - event.fade_out), n1):
        out[at + k - n0] *= np.float32(fade_weight(last - k, event.fade_out, linear))


@compiled
def play_whole(pcm: Any, events: Any, i: Any, filters: Any, linear: Any, out: Any) -> None:
    """The whole clip of event ``i`` as played, faded, at unit gain, whatever the scene cuts of it (float32)."""
    play_event(pcm, events[i], filters, linear, _START, events[i].clip_offset - events[i].clip_onset, out, _START)


@compiled
def _play_events(
    sources: Any, events: Any, filters: Any, linear: Any, in_background: Any, tables: Any, known: Any, room: Any,
    levels: Any,
) -> None:  # fmt: skip
    """The pieces of all events but those made apart; over [onset, offset) their energies and those behind (LEVEL)."""
    for i in range(len(events)):
        e = events[i]
        if not e.apart:
            n0 = e.piece_onset - e.clip_onset
            play_event(sources.clips, e, filters, linear, n0, n0 + e.piece_length, room.pieces, e.piece)
        begin = e.piece + e.onset - e.piece_onset
        call = room.pieces[begin : begin + e.offset - e.onset]
        behind = room.mixed[e.onset : e.offset]
        levels[i].energy = energy(call)
        if not in_background:
            continue
        levels[i].local = energy(behind)
        if e.first_bin < 0:
            continue
        levels[i].background_band = band.energy(behind, e.first_bin, e.last_bin, e.transform, tables, room.transform)
        found = np.nan if e.known < 0 else known[e.known]
        if np.isnan(found):
            found = band.energy(call, e.first_bin, e.last_bin, e.transform, tables, room.transform)
            if e.known >= 0:
                known[e.known] = found
        levels[i].band = found


@compiled
def _set_gains(events: Any, levels: Any, reference: Any, in_background: Any, background_power: Any) -> Any:
    """Amplitude gain of every event: one times its weight for all of a group, by their pooled signal and noise.

    For OTHER references these are there. A problem and the first event that has it.
    """
    most = 0
    for i in range(len(events)):
        e = events[i]
        most = max(most, e.group)
        if not levels[i].energy > 0.0:
            return UNHEARD, i
        if not in_background:  # wanted is a mean square, whatever share of it is signal
            levels[i].signal, levels[i].noise = levels[i].energy, e.offset - e.onset
        elif reference == WHOLE:
            levels[i].signal, levels[i].noise = e.share * levels[i].energy, background_power * (e.offset - e.onset)
        elif reference == LOCAL:
            levels[i].signal, levels[i].noise = e.share * levels[i].energy, levels[i].local
        elif reference == BAND:
            levels[i].signal, levels[i].noise = e.share * levels[i].band, levels[i].background_band
    signal = np.zeros(most + 1)
    noise = np.zeros(most + 1)
    for i in range(len(events)):
        signal[events[i].group] += levels[i].signal * events[i].weight * events[i].weight
        noise[events[i].group] += levels[i].noise
    for i in range(len(events)):
        s, b = signal[events[i].group], noise[events[i].group]
        if not (s > 0.0 and b > 0.0):
            return NO_REFERENCE, i
        levels[i].gain = np.sqrt(events[i].wanted * b / s) * events[i].weight
    return NO_PROBLEM, 0


@compiled
def play_background(
    pcm: Any, start: Any, length: Any, ratio: Any, filters: Any, offset: Any, crossfade: Any, out: Any
) -> None:
    """Fill ``out`` (float32) with a background from sample ``offset`` of it as played on.

    One that is shorter than the scene is looped: over the last ``crossfade`` samples of a round, or a quarter of it, it
    fades out while its beginning fades in, at equal power (square roots of the ramp), as two stretches of noise are
    uncorrelated.
    """
    p, q = filters.p[ratio], filters.q[ratio]
    taps, table, half = filters.taps, filters.table[ratio], filters.half[ratio]
    played = -(-length * p // q)
    n = len(out)
    if played >= n:
        play(pcm, start, length, p, q, taps, table, half, _FORWARDS, offset, offset + n, out, _START)
        return
    whole = np.empty(played, np.float32)
    play(pcm, start, length, p, q, taps, table, half, _FORWARDS, _START, played, whole, _START)
    crossfade = loop_crossfade(played, crossfade)
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
def _play_layers(scene: Any, layers: Any, sources: Any, filters: Any, room: Any) -> Any:
    """The scene's background at its planned level, into ``room.mixed``; a problem and the layer that has it."""
    mixed, n = room.mixed, len(room.mixed)
    scene.background_power = np.nan
    if scene.n_layers == 0:
        mixed[:] = 0.0
        return NO_PROBLEM, 0
    for which in range(scene.n_layers):
        source, out = (sources.first, mixed) if which == 0 else (sources.second, room.layer)
        one = layers[which]
        play_background(source, _START, one.length, one.ratio, filters, one.offset, one.crossfade, out)
        power = energy(out) / n
        if power == 0.0:
            return SILENT_LAYER, which
        gain = one.gain if scene.as_recorded else one.gain / np.sqrt(power)
        power = scale_and_measure(out, gain * scene.level if scene.n_layers == 1 else gain) / n
        if which > 0:
            for i in range(n):
                mixed[i] += out[i]
            power = energy(mixed) / n
    if power == 0.0:
        return CANCELLED, 0
    if scene.rescaled:
        power = scale_and_measure(mixed, scene.level / np.sqrt(power)) / n
    scene.background_power = power
    return NO_PROBLEM, 0


@compiled
def _add_events(events: Any, levels: Any, pieces: Any, mixed: Any, out: Any) -> Any:
    """Add gain x piece of every event to the background, in plan order, and write that (int16) if there is room.

    The bits of the largest magnitude.
    """
    most = np.int32(0)
    for begin in range(0, len(mixed), CACHED):
        end = min(begin + CACHED, len(mixed))
        part = mixed[begin:end]
        for i in range(len(events)):
            e = events[i]
            first, last = max(begin, e.piece_onset), min(end, e.piece_onset + e.piece_length)
            if first < last:
                g = np.float32(levels[i].gain)
                piece = pieces[e.piece + first - e.piece_onset : e.piece + last - e.piece_onset]
                behind = mixed[first:last]
                for k in range(len(piece)):
                    behind[k] += g * piece[k]
        most = max(most, highest(part))
        if len(out) > 0:
            to_pcm16(part, _UNITY, out[begin:end])
    return most


@compiled
def mix_scene(
    begin: Any, end: Any, i: Any, scenes: Any, layers: Any, all_events: Any, all_levels: Any, sources: Any,
    filters: Any, tables: Any, known: Any, reference: Any, linear: Any, room: Any, out: Any,
) -> Any:  # fmt: skip
    """Mix scene ``i`` from one state to another (EMPTY to MIXED); what is wrong with it, and with which layer or event.

    Args:
        scenes, layers: SCENE [s]; LAYER [s, 2].
        all_events, all_levels: of all scenes, EVENT and LEVEL [e]; the latter are filled.
        tables: for transforms of the events' sizes.
        known: energies of calls in their band, NaN until they are needed, float64; filled.
        reference: of the SNR.
        linear: shape of the fades.
        room: holds the scene from call to call.
        out: int16 [samples], the mix as written; or of no samples.
    """
    scene = scenes[i]
    events, levels = all_events[scene.first : scene.last], all_levels[scene.first : scene.last]
    in_background = scene.n_layers > 0
    if begin < BACKGROUND:
        problem, which = _play_layers(scene, layers[i], sources, filters, room)
        if problem != NO_PROBLEM:
            return problem, which
    if begin < MEASURED <= end:
        _play_events(sources, events, filters, linear, in_background, tables, known, room, levels)
    if begin < LEVELLED <= end:
        problem, which = _set_gains(events, levels, reference, in_background, scene.background_power)
        if problem != NO_PROBLEM:
            return problem, which
    if begin < MIXED <= end:
        scene.peak = _add_events(events, levels, room.pieces, room.mixed, out)
        if scene.peak >= NOT_FINITE:
            return BEYOND_NUMBERS, 0
    return NO_PROBLEM, 0
