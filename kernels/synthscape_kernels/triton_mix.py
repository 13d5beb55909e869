"""The mixer's GPU kernels (Triton): the words and the arithmetic of ``mix.py``, gathered instead of scattered.

One program writes one tile of samples. It walks its own list of events in plan order and adds them up in registers, so
no two programs write to one address, nothing is added atomically, and a scene has the same bits in every batch.

Positions in a clip are int32. Output n = a p + b (b < p) of a clip played at p/q reads around a q + floor(b q / p), so
nothing is larger than the clip or the scene itself; the caller sees to it that these are below 2**31 - TILE. Only
starts in packed arrays are int64. Tables replace whatever would need a division of floats or a sine. Launched with
``enable_fp_fusion=False``, every product is rounded before it is added, as on the CPU.

Packed int16 audio has TILE samples of anything behind its last clip: whole tiles are read where a clip ends in one.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

TILE = 1024

_SCALE: tl.constexpr = tl.constexpr(1.0 / 32768.0)
_ROUND: tl.constexpr = tl.constexpr(12582912.0)  # 1.5 x 2**23: adding and taking it away rounds, halves to even
_LANES: tl.constexpr = tl.constexpr(256)


class Ratios(NamedTuple):
    """The ratio table and its filters, ``[ratios]``: the arrays of ``filters.FilterBank``, taps in another order."""

    p: Any  # int32
    q: Any  # int32
    table: Any  # int64 where a ratio's taps begin
    half: Any  # int32
    taps: Any  # float32, by :func:`tap_order`


class Events(NamedTuple):
    """Events of all scenes in CSR order, ``[e]``. Scene samples are int32."""

    scene: Any  # int32
    begin: Any  # max(clip_onset, 0)
    end: Any  # min(clip_offset, n_samples): what is heard is [begin, end)
    clip_onset: Any
    clip_offset: Any
    onset: Any
    offset: Any
    pcm: Any  # int16 packed clips
    clip_start: Any  # int64
    clip_length: Any  # int32
    ratio: Any  # int16
    backwards: Any  # int32, 1 for reversed
    fade_in: Any  # int32
    fade_out: Any  # int32
    rise: Any  # int64 where the weights of fade_in begin in ``fades``
    fall: Any  # int64 where those of fade_out begin, from the clip's last sample backwards
    fades: Any  # float32
    piece: Any  # int64 where the event begins in ``pieces``, -1: it is played from its clip
    pieces: Any  # float32 what is heard of events, at unit gain, faded


class Layers(NamedTuple):
    """Backgrounds, ``[s, 2]`` flat."""

    pcm: Any  # int16 packed backgrounds
    start: Any  # int64
    length: Any  # int32, 0: no layer
    ratio: Any  # int16
    offset: Any  # int32 samples of the played background before the scene starts
    played: Any  # int32 ceil(length p / q); shorter than the scene: looped
    crossfade: Any  # int32
    ramp: Any  # int64 where the weights of its cross-fade begin in ``ramps``: rising, then falling
    ramps: Any  # float32
    aligned: Any  # int32, 1: start + offset is a multiple of 8
    piece: Any  # int64 where the layer begins in ``pieces``; -1: ratio 1 and not looped, read from ``pcm``
    pieces: Any  # float32 what is heard of layers, at unit gain


def tap_order(table: Any, q: int) -> Any:
    """A filter table [p, 2 half] in the order the kernels read: [2 half, p], column b being the phase b q mod p.

    Neighbouring outputs then read neighbouring taps.
    """
    p = len(table)
    return table[[b * q % p for b in range(p)]].T


@triton.jit
def _samples(TILE: tl.constexpr):
    """0 .. TILE - 1 as [8, TILE / 8].

    Samples are gathered in this shape and stored in a flat one: neighbouring threads then read neighbouring samples,
    though each stores four in a row.
    """
    return tl.arange(0, 8)[:, None] * (TILE // 8) + tl.arange(0, TILE // 8)[None, :]


@triton.jit
def _flat(value, TILE: tl.constexpr):
    return tl.reshape(value, (TILE,))


@triton.jit
def _played(clip, length, backwards, ratios, r, n, RESAMPLED: tl.constexpr):
    """Samples n (int32 tensor, all inside) of a clip played at ratio r, times 32768."""
    step = 1 - 2 * backwards
    origin = backwards * (length - 1)
    if RESAMPLED:
        p = tl.load(ratios.p + r)
        q = tl.load(ratios.q + r)
        if p == q:
            value = tl.load(clip + (origin + step * n)).to(tl.float32)
        else:
            half = tl.load(ratios.half + r)
            turns = n // p
            rest = n - turns * p
            source = origin + step * (turns * q + rest * q // p - half + 1)
            row = ratios.taps + tl.load(ratios.table + r)
            value = tl.zeros_like(n).to(tl.float32)
            for _ in tl.range(0, 2 * half):
                x = tl.load(clip + source, mask=(source >= 0) & (source < length), other=0)
                value += tl.load(row + rest) * x.to(tl.float32)
                source += step
                row += p
    else:
        value = tl.load(clip + (origin + step * n)).to(tl.float32)
    return value


@triton.jit
def _faded(events, ratios, e, i, begin, end, RESAMPLED: tl.constexpr):
    """Event e at scene samples i from its clip, at unit gain; outside [begin, end) its nearest sample."""
    clip_onset = tl.load(events.clip_onset + e)
    n = tl.minimum(tl.maximum(i, begin), end - 1) - clip_onset
    clip = events.pcm + tl.load(events.clip_start + e)
    value = _SCALE * _played(
        clip, tl.load(events.clip_length + e), tl.load(events.backwards + e), ratios,
        tl.load(events.ratio + e).to(tl.int32), n, RESAMPLED,
    )  # fmt: skip
    to_end = tl.load(events.clip_offset + e) - clip_onset - 1 - n
    rising = n < tl.load(events.fade_in + e)
    value *= tl.load(events.fades + tl.load(events.rise + e) + n, mask=rising, other=1.0)
    falling = to_end < tl.load(events.fade_out + e)
    value *= tl.load(events.fades + tl.load(events.fall + e) + to_end, mask=falling, other=1.0)
    return value


@triton.jit
def _heard(events, ratios, e, i, RESAMPLED: tl.constexpr):
    """What is heard of event e at scene samples i, at unit gain; 0 where it is not."""
    begin = tl.load(events.begin + e)
    end = tl.load(events.end + e)
    inside = (i >= begin) & (i < end)
    piece = tl.load(events.piece + e)
    if piece >= 0:
        value = tl.load(events.pieces + piece + (i - begin), mask=inside, other=0.0)
    else:
        value = _faded(events, ratios, e, i, begin, end, RESAMPLED)
    return tl.where(inside, value, 0.0)


@triton.jit
def _layer(layers, layer, first, n, TILE: tl.constexpr, ALIGNED: tl.constexpr):
    """A layer at TILE samples of its scene from ``first`` on, at unit gain; anything outside [0, n).

    ALIGNED: ``first`` is a multiple of TILE, and layers that are ``aligned`` are read 8 samples at a time.
    """
    piece = tl.load(layers.piece + layer)
    start = tl.load(layers.start + layer) + tl.load(layers.offset + layer) + first
    wide = False
    if ALIGNED:
        wide = (piece < 0) & (tl.load(layers.aligned + layer) == 1)
    if wide:
        eights = 8 * (start // 8)  # so that the compiler sees it is aligned, too
        flat = _SCALE * tl.load(layers.pcm + eights + tl.arange(0, TILE)).to(tl.float32)
        value = tl.reshape(flat, (8, TILE // 8))
    else:
        i = tl.minimum(tl.maximum(first + _samples(TILE), 0), n - 1) - first
        if piece >= 0:
            value = tl.load(layers.pieces + piece + first + i)
        else:
            value = _SCALE * tl.load(layers.pcm + start + i).to(tl.float32)
    return value


@triton.jit
def _background(layers, layer_gain, level_gain, scene, first, n, TILE: tl.constexpr, ALIGNED: tl.constexpr):
    """The mixed background of a scene at TILE samples from ``first`` on."""
    value = tl.zeros((8, TILE // 8), tl.float32)
    for layer in tl.range(2 * scene, 2 * scene + 2):
        if tl.load(layers.length + layer) > 0:
            value += tl.load(layer_gain + layer) * _layer(layers, layer, first, n, TILE, ALIGNED)
    return value * tl.load(level_gain + scene)


@triton.jit
def play_layers(layers, ratios, n_samples, chunk_layer, chunk_first, out, TILE: tl.constexpr, RESAMPLED: tl.constexpr):
    """Backgrounds that are resampled or shorter than their scene, at unit gain, into their pieces of ``out``.

    Program c plays samples chunk_first[c] .. + TILE - 1 of the scene of layer chunk_layer[c]. One that is too short is
    looped: over the last ``crossfade`` samples of a round it fades out while its beginning fades in.
    """
    c = tl.program_id(0)
    layer = tl.load(chunk_layer + c)
    first = tl.load(chunk_first + c)
    n = tl.load(n_samples + layer // 2)
    at = tl.load(layers.offset + layer) + tl.minimum(first + _samples(TILE), n - 1)
    played = tl.load(layers.played + layer)
    crossfade = tl.load(layers.crossfade + layer)
    period = played if played >= n else played - crossfade
    place = at % period
    joined = (place < crossfade) & (at >= period)  # nothing comes before the first round
    clip = layers.pcm + tl.load(layers.start + layer)
    length = tl.load(layers.length + layer)
    r = tl.load(layers.ratio + layer).to(tl.int32)
    ramp = layers.ramps + tl.load(layers.ramp + layer)
    weight = tl.load(ramp + place, mask=joined, other=1.0)
    value = tl.zeros((8, TILE // 8), tl.float32)
    for _ in tl.range(0, 1 + tl.max(joined.to(tl.int32))):
        value += weight * (_SCALE * _played(clip, length, 0, ratios, r, place, RESAMPLED))
        weight = tl.load(ramp + crossfade + place, mask=joined, other=0.0)
        place = tl.where(joined, place + period, 0)
    start = tl.multiple_of(tl.load(layers.piece + layer) + first, TILE)
    tl.store(out + start + tl.arange(0, TILE), _flat(value, TILE))


@triton.jit(do_not_specialize=["tiles"])
def layer_power(layers, n_samples, tiles, sums, TILE: tl.constexpr):
    """Sums of squares of both layers and of their product in every tile: ``sums`` float64 [3, s x tiles]."""
    pid = tl.program_id(0)
    scene = pid // tiles
    first = (pid - scene * tiles) * TILE
    n = tl.load(n_samples + scene)
    programs = tl.num_programs(0)
    if (first < n) & (tl.load(layers.length + 2 * scene) > 0):
        inside = first + _samples(TILE) < n
        one = _layer(layers, 2 * scene, first, n, TILE, True)
        a = tl.where(inside, one, 0.0).to(tl.float64)
        tl.store(sums + pid, tl.sum(a * a))
        if tl.load(layers.length + 2 * scene + 1) > 0:
            two = _layer(layers, 2 * scene + 1, first, n, TILE, True)
            b = tl.where(inside, two, 0.0).to(tl.float64)
            tl.store(sums + programs + pid, tl.sum(b * b))
            tl.store(sums + 2 * programs + pid, tl.sum(a * b))


@triton.jit
def play_events(events, ratios, chunk_event, chunk_first, out, TILE: tl.constexpr, RESAMPLED: tl.constexpr):
    """What is heard of events, at unit gain, faded, into their pieces of ``out`` (float32).

    Program c plays samples chunk_first[c] .. + TILE - 1 of scene time of event chunk_event[c]. Pieces start on
    multiples of TILE and are zero up to the next one.
    """
    c = tl.program_id(0)
    e = tl.load(chunk_event + c)
    first = tl.load(chunk_first + c)
    i = first + _samples(TILE)
    begin = tl.load(events.begin + e)
    end = tl.load(events.end + e)
    value = tl.where(i < end, _faded(events, ratios, e, i, begin, end, RESAMPLED), 0.0)
    start = tl.multiple_of(tl.load(events.piece + e) + (first - begin), TILE)
    tl.store(out + start + tl.arange(0, TILE), _flat(value, TILE))


@triton.jit
def power(
    events, layers, ratios, layer_gain, level_gain, n_samples, chunk_event, chunk_first, sums, spans,
    TILE: tl.constexpr, RESAMPLED: tl.constexpr,
):  # fmt: skip
    """Energy of an event at unit gain and of the background behind it, in TILE samples of [onset, offset).

    Args:
        sums: float64 [2, chunks].
        spans: float32 [2, chunks x TILE]: those samples, event and background, for :func:`band_sums`.
    """
    c = tl.program_id(0)
    chunks = tl.num_programs(0)
    e = tl.load(chunk_event + c)
    first = tl.load(chunk_first + c)
    i = first + _samples(TILE)
    inside = (i >= tl.load(events.onset + e)) & (i < tl.load(events.offset + e))
    at = c.to(tl.int64) * TILE + tl.arange(0, TILE)
    scene = tl.load(events.scene + e)
    n = tl.load(n_samples + scene)
    # One after the other: both at once take more registers than there are.
    behind = _background(layers, layer_gain, level_gain, scene, first, n, TILE, False)
    behind = tl.where(inside, behind, 0.0)
    tl.store(spans + chunks.to(tl.int64) * TILE + at, _flat(behind, TILE))
    wide_behind = behind.to(tl.float64)
    tl.store(sums + chunks + c, tl.sum(wide_behind * wide_behind))
    call = tl.where(inside, _heard(events, ratios, e, i, RESAMPLED), 0.0)
    tl.store(spans + at, _flat(call, TILE))
    wide_call = call.to(tl.float64)
    tl.store(sums + c, tl.sum(wide_call * wide_call))


@triton.jit(do_not_specialize=["rows", "length"])
def totals(values, offsets, rows, length, out, LANES: tl.constexpr):
    """``out[c, i] = values[c, offsets[i]:offsets[i + 1]].sum()``, float64, always in the same order.

    ``values`` is [columns, length], ``out`` [columns, rows].
    """
    pid = tl.program_id(0)
    column = pid // rows
    row = pid - column * rows
    begin = tl.load(offsets + row)
    end = tl.load(offsets + row + 1)
    lanes = tl.zeros((LANES,), tl.float64)
    for at in tl.range(begin, end, LANES):
        k = at + tl.arange(0, LANES)
        lanes += tl.load(values + column.to(tl.int64) * length + k, mask=k < end, other=0.0)
    tl.store(out + pid, tl.sum(lanes))


@triton.jit(do_not_specialize=["tiles"])
def mix(
    events, layers, ratios, layer_gain, level_gain, gain, n_samples, tiles, tile_offsets, tile_events, out, peak,
    visited, TILE: tl.constexpr, RESAMPLED: tl.constexpr,
):  # fmt: skip
    """Background, then gain x event for every event of the tile's list, in plan order.

    Args:
        tile_offsets: int32 [s x tiles + 1], tile_events: int32: which events are heard in a tile (``tiles.py``).
        out: float32 [s, tiles x TILE], zero beyond the end of a scene.
        peak: float32 [s, tiles], largest magnitude.
        visited: int32 [s, tiles], how many events were looked at.
    """
    pid = tl.program_id(0)
    scene = pid // tiles
    first = (pid - scene * tiles) * TILE
    n = tl.load(n_samples + scene)
    i = first + _samples(TILE)
    total = tl.zeros((8, TILE // 8), tl.float32)
    seen = 0
    if first < n:
        total = _background(layers, layer_gain, level_gain, scene, first, n, TILE, True)
        for k in tl.range(tl.load(tile_offsets + pid), tl.load(tile_offsets + pid + 1)):
            e = tl.load(tile_events + k)
            seen += 1
            total += tl.load(gain + e) * _heard(events, ratios, e, i, RESAMPLED)
        total = tl.where(i < n, total, 0.0)
    tl.store(out + pid.to(tl.int64) * TILE + tl.arange(0, TILE), _flat(total, TILE))
    tl.store(peak + pid, tl.max(tl.abs(total)))
    tl.store(visited + pid, seen)


@triton.jit(do_not_specialize=["tiles"])
def stems(events, ratios, gain, tiles, out, TILE: tl.constexpr, RESAMPLED: tl.constexpr):
    """Every event by itself, at its gain: ``out`` float32 [e, tiles x TILE]."""
    pid = tl.program_id(0)
    e = pid // tiles
    first = (pid - e * tiles) * TILE
    value = tl.zeros((8, TILE // 8), tl.float32)
    if (first < tl.load(events.end + e)) & (first + TILE > tl.load(events.begin + e)):
        i = first + _samples(TILE)
        value = tl.load(gain + e) * _heard(events, ratios, e, i, RESAMPLED)
    tl.store(out + pid.to(tl.int64) * TILE + tl.arange(0, TILE), _flat(value, TILE))


@triton.jit(do_not_specialize=["tiles"])
def finish(audio, factor, deliver, tiles, pcm, TILE: tl.constexpr, PCM: tl.constexpr):
    """Scale scenes in place by ``factor`` (float32 [s]), silence those not to ``deliver`` (int32 [s]).

    PCM: also write ``pcm`` int16 [s, tiles x TILE] = clip(rint(32768 x), +-32767), halves to even.
    """
    pid = tl.program_id(0)
    scene = pid // tiles
    by = tl.load(factor + scene)
    keep = tl.load(deliver + scene)
    at = pid.to(tl.int64) * TILE + tl.arange(0, TILE)
    changed = (by != 1.0) | (keep == 0)
    if PCM:
        x = tl.where(keep == 1, tl.load(audio + at) * by, 0.0)
        if changed:
            tl.store(audio + at, x)
        whole = tl.minimum(tl.maximum(x * 32768.0, -32767.0), 32767.0)
        tl.store(pcm + at, ((whole + _ROUND) - _ROUND).to(tl.int16))
    else:
        if changed:
            tl.store(audio + at, tl.where(keep == 1, tl.load(audio + at) * by, 0.0))


@triton.jit(do_not_specialize=["size"])
def band_sums(z, chirp, n, first, last, size, out, LANES: tl.constexpr):
    """Energies, times n, of two real signals x, y in bins first .. last of the transform Z[k] = w[k] Z'[k] of x + iy.

    Args:
        z: Z', float64 [rows, size, 2]: bin -k stands at size - k.
        chirp: w, float64 [rows, size, 2].
        n, first, last: int32 [rows], length of the signals and bins.
        out: float64 [2, rows].
    """
    row = tl.program_id(0)
    length = tl.load(n + row)
    end = tl.load(last + row) + 1
    z += row.to(tl.int64) * size * 2
    chirp += row.to(tl.int64) * size * 2
    x = tl.zeros((LANES,), tl.float64)
    y = tl.zeros((LANES,), tl.float64)
    for begin in tl.range(tl.load(first + row), end, LANES):
        k = begin + tl.arange(0, LANES)
        inside = k < end
        mirror = tl.where(k == 0, 0, size - k)
        wr = tl.load(chirp + 2 * k, mask=inside, other=0.0)
        wi = tl.load(chirp + 2 * k + 1, mask=inside, other=0.0)
        ar = tl.load(z + 2 * k, mask=inside, other=0.0)
        ai = tl.load(z + 2 * k + 1, mask=inside, other=0.0)
        br = tl.load(z + 2 * mirror, mask=inside, other=0.0)
        bi = tl.load(z + 2 * mirror + 1, mask=inside, other=0.0)
        # Z[k] and conj Z[-k]; w is even
        pr, pi = wr * ar - wi * ai, wr * ai + wi * ar
        qr, qi = wr * br - wi * bi, -(wr * bi + wi * br)
        weight = tl.where((k == 0) | (2 * k == length), 0.25, 0.5).to(tl.float64)
        x += weight * ((pr + qr) * (pr + qr) + (pi + qi) * (pi + qi))
        y += weight * ((pr - qr) * (pr - qr) + (pi - qi) * (pi - qi))
    rows = tl.num_programs(0)
    tl.store(out + row, tl.sum(x))
    tl.store(out + rows + row, tl.sum(y))
