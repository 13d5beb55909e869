"""Energies of signals of any length in a band of their DFT, exact to about 1e-10 of the spectrum's largest parts.

Calls last whatever they last: often a prime number of samples, for which fast transforms are slow. So the DFT is read
off a transform of a convenient length M >= 1.4 n instead (a nonuniform FFT: Dutt and Rokhlin 1993, with the kernel of
Kaiser and Bessel). The samples are divided by the Fourier transform of a short kernel and transformed; each bin k is
the sum of the 16 values nearest to k M / n, weighted by the kernel. All in strict float64.

Two real signals share one complex transform; one alone is dealt into its even and odd samples, which share one of half
the length.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from synthscape_kernels import strict_math
from synthscape_kernels.jit import compiled

TAPS: Final = 16
STRETCH: Final = 1.4  # least transform length over signal length
TERMS: Final = 7  # of the polynomials in g**2 that stand for the even and odd part of each tap
BLOCK: Final = 64  # bins done side by side
GAP: Final = 136  # between arrays; at multiples of 4096 bytes they would fight for the same cache sets
SHUFFLED: Final = 64  # stride from which passes run along it
_BETA: Final = 32.2  # pi sqrt((TAPS / STRETCH)**2 (STRETCH - 1/2)**2 - 0.8) (Beatty, Nishimura and Pauly 2005)
_TURN: Final = 6.283185307179586
_SIN_60: Final = 0.8660254037844386


def transform_length(n: int) -> int:
    """Least M = 2**a or 3 2**a, at least 32, with M >= STRETCH n."""
    least = max(int(np.ceil(STRETCH * n)), 32)
    power = 1 << (least - 1).bit_length()
    return power // 4 * 3 if power // 4 * 3 >= least else power


def room_for(m: int) -> int:
    """Numbers that :func:`energies` needs room for."""
    return 4 * (m + GAP) + 4 * (m + 2 * TAPS)


def _kaiser_bessel(u: float) -> float:
    """I0(beta sqrt(1 - (2 u / TAPS)**2)), by its power series (all terms positive)."""
    quarter = (1.0 - (2.0 * u / TAPS) ** 2) * _BETA * _BETA / 4.0
    total, term, k = 1.0, 1.0, 0
    while quarter > 0.0 and term > 1e-18 * total:
        k += 1
        term *= quarter / (k * k)
        total += term
    return total if quarter >= 0.0 else 0.0


def _interpolate(nodes: list[float], values: list[float]) -> list[float]:
    """Coefficients, constant first, of the polynomial through points: Newton's divided differences, expanded."""
    divided = list(values)
    for order in range(1, len(nodes)):
        for i in range(len(nodes) - 1, order - 1, -1):
            divided[i] = (divided[i] - divided[i - 1]) / (nodes[i] - nodes[i - order])
    found = [0.0] * len(nodes)
    for node, value in zip(reversed(nodes), reversed(divided), strict=True):
        found = [value - node * found[0]] + [low - node * high for low, high in pairwise(found)]
    return found


def tap_polynomials() -> NDArray[np.float64]:
    """Even and odd part of each of the first 8 taps: float64 [8, 2, TERMS], highest power of g**2 first.

    A bin at distance g + 1/2 past a value, -1/2 <= g <= 1/2, weighs the values at -7 + i by phi(7.5 - i + g) =
    even_i(g**2) + g odd_i(g**2), and those at 8 - i by even_i(g**2) - g odd_i(g**2). Plain Python: the same bits
    everywhere.
    """
    nodes = [0.5 * round(float(np.cos((2 * j + 1) * np.pi / (4 * TERMS))), 6) for j in range(TERMS)]
    table = np.empty((TAPS // 2, 2, TERMS))
    for i in range(TAPS // 2):
        centre = 7.5 - i
        ahead, behind = ([_kaiser_bessel(centre + sign * g) for g in nodes] for sign in (1, -1))
        even = [(a + b) / 2.0 for a, b in zip(ahead, behind, strict=True)]
        odd = [(a - b) / (2.0 * g) for a, b, g in zip(ahead, behind, nodes, strict=True)]
        squares = [g * g for g in nodes]
        table[i, 0] = _interpolate(squares, even)[::-1]
        table[i, 1] = _interpolate(squares, odd)[::-1]
    return table


@compiled
def _fill_tables(m: Any, gain: Any, twiddle: Any) -> None:
    for i in range(len(gain)):
        x = np.pi * TAPS * (i - len(gain) // 2) / m
        s = np.sqrt(_BETA * _BETA - x * x)
        e = strict_math.exp(s)
        gain[i] = 2.0 * s / (TAPS * (e - 1.0 / e))
    quarter = m // 4
    for level in range(3):
        step = 4**level
        for p in range(quarter):
            turn = _TURN * (p // step * step) / m
            twiddle[level, 0, p] = strict_math.sin_quarter(_TURN / 4 - turn)
            twiddle[level, 1, p] = -strict_math.sin_quarter(turn)


def tables(m: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What a transform of length m needs.

    Gains: float64, an odd number of them, from -m / 2.8 to m / 2.8 samples from the middle: the inverse of the Fourier
    transform of the kernel. Twiddle factors exp(-2 pi i p / m): float64 [3, 2, m / 4], for p < m / 4, p rounded down to
    a multiple of 4, and to one of 16.
    """
    gain = np.empty(2 * int(m / (2.0 * STRETCH)) + 3)
    twiddle = np.empty((3, 2, m // 4))
    _fill_tables(m, gain, twiddle)
    return gain, twiddle


@compiled
def _shuffled_pass(xr: Any, xi: Any, yr: Any, yi: Any, wr: Any, wi: Any) -> None:
    """One radix-4 pass along the whole array, the four results of a butterfly side by side (Pease 1968)."""
    m = len(xr) // 4
    ar, br, cr, dr = xr[:m], xr[m : 2 * m], xr[2 * m : 3 * m], xr[3 * m :]
    ai, bi, ci, di = xi[:m], xi[m : 2 * m], xi[2 * m : 3 * m], xi[3 * m :]
    for p in range(m):
        w1r, w1i = wr[p], wi[p]
        w2r, w2i = w1r * w1r - w1i * w1i, 2.0 * w1r * w1i
        w3r, w3i = w1r * w2r - w1i * w2i, w1r * w2i + w1i * w2r
        pr, pi, mr, mi = ar[p] + cr[p], ai[p] + ci[p], ar[p] - cr[p], ai[p] - ci[p]
        tr, ti, ur, ui = br[p] + dr[p], bi[p] + di[p], bi[p] - di[p], dr[p] - br[p]
        yr[4 * p], yi[4 * p] = pr + tr, pi + ti
        er, ei = mr + ur, mi + ui
        yr[4 * p + 1], yi[4 * p + 1] = er * w1r - ei * w1i, er * w1i + ei * w1r
        er, ei = pr - tr, pi - ti
        yr[4 * p + 2], yi[4 * p + 2] = er * w2r - ei * w2i, er * w2i + ei * w2r
        er, ei = mr - ur, mi - ui
        yr[4 * p + 3], yi[4 * p + 3] = er * w3r - ei * w3i, er * w3i + ei * w3r


@compiled
def _strided_pass(xr: Any, xi: Any, yr: Any, yi: Any, wr: Any, wi: Any, s: Any, n: Any, low: Any, high: Any) -> None:
    """One radix-4 pass of Stockham's sorted transform over sub-transforms of length n, at strides low..high-1 of s."""
    m = n // 4
    for p in range(m):
        w1r, w1i = wr[p * s], wi[p * s]
        w2r, w2i = w1r * w1r - w1i * w1i, 2.0 * w1r * w1i
        w3r, w3i = w1r * w2r - w1i * w2i, w1r * w2i + w1i * w2r
        a, b, c, d = s * p, s * (p + m), s * (p + 2 * m), s * (p + 3 * m)
        ar, ai, br, bi = xr[a + low : a + high], xi[a + low : a + high], xr[b + low : b + high], xi[b + low : b + high]
        cr, ci, dr, di = xr[c + low : c + high], xi[c + low : c + high], xr[d + low : d + high], xi[d + low : d + high]
        a = 4 * s * p
        b, c, d = a + s, a + 2 * s, a + 3 * s
        y0r, y0i, y1r, y1i = (
            yr[a + low : a + high],
            yi[a + low : a + high],
            yr[b + low : b + high],
            yi[b + low : b + high],
        )
        y2r, y2i, y3r, y3i = (
            yr[c + low : c + high],
            yi[c + low : c + high],
            yr[d + low : d + high],
            yi[d + low : d + high],
        )
        for q in range(high - low):
            pr, pi, mr, mi = ar[q] + cr[q], ai[q] + ci[q], ar[q] - cr[q], ai[q] - ci[q]
            tr, ti, ur, ui = br[q] + dr[q], bi[q] + di[q], bi[q] - di[q], dr[q] - br[q]
            y0r[q], y0i[q] = pr + tr, pi + ti
            er, ei = mr + ur, mi + ui
            y1r[q], y1i[q] = er * w1r - ei * w1i, er * w1i + ei * w1r
            er, ei = pr - tr, pi - ti
            y2r[q], y2i[q] = er * w2r - ei * w2i, er * w2i + ei * w2r
            er, ei = mr - ur, mi - ui
            y3r[q], y3i[q] = er * w3r - ei * w3i, er * w3i + ei * w3r


@compiled
def _spans(begin: Any, end: Any, m: Any, s: Any, spans: Any) -> Any:
    """Bins begin..end-1 of m and their mirror images, modulo s, as up to 4 spans; their number.

    A bin is made from the bins alike modulo s of the sub-transforms at stride s, so these are all a pass need do.
    """
    size = end - begin
    if 2 * size >= s:
        spans[0, 0], spans[0, 1] = 0, s
        return 1
    used = 0
    # The mirror image of a block of digits ends with the first bin of the next block: hence one block more.
    for low, wide in ((begin % s, size), ((m - end) % s, size + SHUFFLED)):
        spans[used, 0], spans[used, 1] = low, min(low + wide, s)
        used += 1
        if low + wide > s:
            spans[used, 0], spans[used, 1] = 0, low + wide - s
            used += 1
    return used


@compiled
def _pass_of_2(xr: Any, xi: Any, yr: Any, yi: Any, wr: Any, wi: Any, s: Any, n: Any) -> None:
    """A pass of radix 2, for what is left of a length after those of radix 4: n = 2 or 6."""
    m = n // 2
    for p in range(m):
        vr, vi = (1.0, 0.0) if p == 0 else ((0.5, -_SIN_60) if p == 1 else (-0.5, -_SIN_60))
        for q in range(s):
            ar, ai = xr[s * p + q], xi[s * p + q]
            br, bi = xr[s * (p + m) + q], xi[s * (p + m) + q]
            yr[2 * s * p + q], yi[2 * s * p + q] = ar + br, ai + bi
            er, ei = ar - br, ai - bi
            yr[2 * s * p + s + q], yi[2 * s * p + s + q] = er * vr - ei * vi, er * vi + ei * vr


@compiled
def _pass_of_3(xr: Any, xi: Any, yr: Any, yi: Any, s: Any) -> None:
    """The last pass of a length with a factor 3."""
    for q in range(s):
        tr, ti = xr[s + q] + xr[2 * s + q], xi[s + q] + xi[2 * s + q]
        ur, ui = _SIN_60 * (xi[s + q] - xi[2 * s + q]), _SIN_60 * (xr[2 * s + q] - xr[s + q])
        hr, hi = xr[q] - 0.5 * tr, xi[q] - 0.5 * ti
        yr[q], yi[q] = xr[q] + tr, xi[q] + ti
        yr[s + q], yi[s + q] = hr + ur, hi + ui
        yr[2 * s + q], yi[2 * s + q] = hr - ur, hi - ui


@compiled
def transform(xr: Any, xi: Any, yr: Any, yi: Any, twiddle: Any, first: Any, last: Any) -> Any:
    """DFT of xr + i xi, length M = 2**a or 3 2**a: real part, imaginary part, and the block within which the base-4
    digits of the index stand reversed. Only bins first..last and their mirror images are sure to be there.

    All four arrays are overwritten.
    """
    n, s, level = len(xr), 1, 0
    while n % 4 == 0 and s < SHUFFLED:
        _shuffled_pass(xr, xi, yr, yi, twiddle[level, 0], twiddle[level, 1])
        xr, xi, yr, yi = yr, yi, xr, xi
        n, s, level = n // 4, s * 4, level + 1
    block = s
    spans = np.empty((4, 2), np.int64)
    while n % 4 == 0:
        used = _spans(first // block * block, last // block * block + block, len(xr), s, spans)
        for i in range(used):
            _strided_pass(xr, xi, yr, yi, twiddle[0, 0], twiddle[0, 1], s, n, spans[i, 0], spans[i, 1])
        xr, xi, yr, yi = yr, yi, xr, xi
        n, s = n // 4, s * 4
    if n % 2 == 0:
        _pass_of_2(xr, xi, yr, yi, twiddle[0, 0], twiddle[0, 1], s, n)
        xr, xi, yr, yi = yr, yi, xr, xi
        n, s = n // 2, s * 2
    if n == 3:
        _pass_of_3(xr, xi, yr, yi, s)
        xr, xi, yr, yi = yr, yi, xr, xi
    return xr, xi, block


@compiled
def _load(x: Any, gain: Any, out: Any) -> None:
    """Samples times the gains, with the middle one (number n // 2) at 0 of ``out``, circularly."""
    half = len(x) // 2
    begin = len(gain) // 2 - half
    later, gain_later = x[half:], gain[begin + half :]
    for i in range(len(later)):
        out[i] = gain_later[i] * later[i]
    out[len(later) : len(out) - half] = 0.0
    end, gain_earlier = out[len(out) - half :], gain[begin:]
    for i in range(half):
        end[i] = gain_earlier[i] * x[i]


@compiled
def _load_halves(x: Any, gain: Any, even: Any, odd: Any) -> None:
    """The even and the odd samples like :func:`_load`, number (n + 1) // 4 of each at 0."""
    pairs, half = len(x) // 2, (len(x) + 1) // 4
    begin = len(gain) // 2 - half
    later, gain_later = x[2 * half :], gain[begin + half :]
    for i in range(pairs - half):
        even[i] = gain_later[i] * later[2 * i]
        odd[i] = gain_later[i] * later[2 * i + 1]
    even[pairs - half : len(even) - half] = 0.0
    odd[pairs - half : len(odd) - half] = 0.0
    if len(x) > 2 * pairs:
        even[pairs - half] = gain_later[pairs - half] * x[2 * pairs]
    even_end, odd_end, gain_earlier = even[len(even) - half :], odd[len(odd) - half :], gain[begin:]
    for i in range(half):
        even_end[i] = gain_earlier[i] * x[2 * i]
        odd_end[i] = gain_earlier[i] * x[2 * i + 1]


@compiled
def _unshuffled(j: Any, block: Any) -> Any:
    """Where bin j stands: the base-4 digits of its number within a block are reversed."""
    if block == 64:
        return (j & ~63) | ((j & 3) << 4) | (j & 12) | ((j >> 4) & 3)
    if block == 16:
        return (j & ~15) | ((j & 3) << 2) | ((j >> 2) & 3)
    return j


@compiled
def _part(zr: Any, zi: Any, block: Any, lowest: Any, pair: Any) -> None:
    """Bins from ``lowest`` on of the two real signals in one transform, side by side in ``pair`` [bins, 4].

    X[j] = (Z[j] + conj Z[-j]) / 2 and Y[j] = (Z[j] - conj Z[-j]) / 2i.
    """
    m = len(zr)
    for j in range(len(pair)):
        ahead = lowest + j
        if ahead < 0:
            ahead += m
        elif ahead >= m:
            ahead -= m
        u, v = _unshuffled(ahead, block), _unshuffled(m - ahead if ahead else 0, block)
        pair[j, 0] = 0.5 * (zr[u] + zr[v])
        pair[j, 1] = 0.5 * (zi[u] - zi[v])
        pair[j, 2] = 0.5 * (zi[u] + zi[v])
        pair[j, 3] = 0.5 * (zr[v] - zr[u])


@compiled
def _weigh(g: Any, taps: Any, before: Any, after: Any) -> None:
    """Weights of the 8 values before BLOCK bins and of the 8 after, each [8, BLOCK], by :func:`tap_polynomials`.

    Two arrays: where rows of one are written, LLVM takes them to overlap and gives up vector code.
    """
    for i in range(TAPS // 2):
        e0, e1, e2, e3, e4, e5, e6 = (taps[i, 0, 0], taps[i, 0, 1], taps[i, 0, 2], taps[i, 0, 3], taps[i, 0, 4],
                                      taps[i, 0, 5], taps[i, 0, 6])  # fmt: skip
        o0, o1, o2, o3, o4, o5, o6 = (taps[i, 1, 0], taps[i, 1, 1], taps[i, 1, 2], taps[i, 1, 3], taps[i, 1, 4],
                                      taps[i, 1, 5], taps[i, 1, 6])  # fmt: skip
        row, mirror = before[i], after[i]
        for b in range(BLOCK):
            h = g[b] * g[b]
            even = (((((e0 * h + e1) * h + e2) * h + e3) * h + e4) * h + e5) * h + e6
            odd = g[b] * ((((((o0 * h + o1) * h + o2) * h + o3) * h + o4) * h + o5) * h + o6)
            row[b] = even + odd
            mirror[b] = even - odd


def _weighted_rows(typingctx: Any, pair: Any, at: Any, before: Any, after: Any, b: Any) -> Any:
    """Sum of pair[at + i] (i < 16, four float64 each) by the weights of bin b: a 4-tuple.

    In vectors of 4, which the compiler does not find here by itself; plain multiplications and additions.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def data(which: int) -> Any:
            return context.make_array(signature.args[which])(context, builder, args[which]).data

        def number(value: int) -> Any:
            return ir.Constant(ir.IntType(64), value)

        vector = ir.VectorType(ir.DoubleType(), 4)
        rows = builder.gep(data(0), [builder.mul(args[1], number(4))])
        sums = []
        for weights, order in ((data(2), range(TAPS // 2)), (data(3), range(TAPS - 1, TAPS // 2 - 1, -1))):
            total = None
            for i, row in enumerate(order):
                values = builder.load(
                    builder.bitcast(builder.gep(rows, [number(4 * row)]), vector.as_pointer()), align=8
                )
                weight = builder.load(builder.gep(weights, [builder.add(args[4], number(BLOCK * i))]))
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), weight, number(0))
                all_four = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), 4), [0] * 4))
                product = builder.fmul(all_four, values)
                total = product if total is None else builder.fadd(total, product)
            sums.append(total)
        total = builder.fadd(*sums)
        return context.make_tuple(
            builder, signature.return_type, [builder.extract_element(total, number(lane)) for lane in range(4)]
        )

    four: Any = types.UniTuple
    return four(types.float64, 4)(pair, at, before, after, b), build


_weighted: Any = intrinsic(_weighted_rows)


@compiled
def _place(k0: Any, step: Any, m: Any, n: Any, g: Any, at: Any) -> None:
    """Where bins k0.. stand among the m values: ``at`` is the first of 16 around each, ``g`` as the taps take it."""
    skip, over = step * m // n, step * m % n
    whole, rest = step * k0 * m // n, step * k0 * m % n
    part = 1.0 / n
    for b in range(BLOCK):
        g[b] = rest * part - 0.5
        at[b] = whole - (TAPS // 2 - 1)
        whole += skip
        rest += over
        if rest >= n:
            rest -= n
            whole += 1


@compiled
def _cos_sin(k: Any, n: Any) -> Any:
    """Cosine and sine of 2 pi k / n, 0 <= k <= n / 2."""
    if 4 * k <= n:
        return strict_math.sin_quarter(_TURN / 4 - _TURN * k / n), strict_math.sin_quarter(_TURN * k / n)
    k = n - 2 * k  # from the other end, in half samples
    return -strict_math.sin_quarter(_TURN / 4 - _TURN / 2 * k / n), strict_math.sin_quarter(_TURN / 2 * k / n)


@compiled
def _join(bins: Any, turn: Any, k: Any, n: Any) -> None:
    """From the transforms of even and odd samples to that of all: X[k] = even[k] + exp(-2 pi i k / n) odd[k]."""
    cos_first, sin_first = _cos_sin(k, n)
    for b in range(BLOCK):
        c = cos_first * turn[b, 0] - sin_first * turn[b, 1]
        s = cos_first * turn[b, 1] + sin_first * turn[b, 0]
        bins[b, 0] += c * bins[b, 2] + s * bins[b, 3]
        bins[b, 1] += c * bins[b, 3] - s * bins[b, 2]


@compiled
def energies(
    x: Any, y: Any, alone: Any, first: Any, last: Any, m: Any, gain: Any, twiddle: Any, taps: Any, room: Any
) -> Any:
    """One-sided energies of the DFT bins first..last of two real signals.

    Args:
        x, y: float32 [n].
        alone: do x only (the second energy is void), by its even and odd samples.
        m: :func:`transform_length` of n, or of (n + 1) // 2 when alone.
        gain, twiddle: :func:`tables` of m.
        taps: :func:`tap_polynomials`.
        room: float64 [:func:`room_for` m], to work in.
    """
    n = len(x)
    apart = m + GAP
    ar, ai = room[:m], room[apart : apart + m]
    br, bi = room[2 * apart : 2 * apart + m], room[3 * apart : 3 * apart + m]
    step = 2 if alone else 1  # positions among the values of a transform of half the rate are twice as far
    if alone:
        _load_halves(x, gain, ar, ai)
    else:
        _load(x, gain, ar)
        _load(y, gain, ai)
    lowest = step * first * m // n - (TAPS // 2 - 1)
    highest = step * last * m // n + TAPS // 2
    zr, zi, block = transform(ar, ai, br, bi, twiddle, lowest, highest)
    pair = room[4 * apart : 4 * (apart + highest - lowest + 1)].reshape(highest - lowest + 1, 4)
    _part(zr, zi, block, lowest, pair)

    before, after = np.empty((TAPS // 2, BLOCK), np.float64), np.empty((TAPS // 2, BLOCK), np.float64)
    g, at = np.empty(BLOCK, np.float64), np.empty(BLOCK, np.int64)
    bins = np.zeros((BLOCK, 4), np.float64)
    turn = np.empty((BLOCK, 2), np.float64)
    cos_one, sin_one = _cos_sin(1, n) if n > 1 else (1.0, 0.0)
    turn[0, 0], turn[0, 1] = 1.0, 0.0
    for b in range(1, BLOCK):
        turn[b, 0] = turn[b - 1, 0] * cos_one - turn[b - 1, 1] * sin_one
        turn[b, 1] = turn[b - 1, 0] * sin_one + turn[b - 1, 1] * cos_one
    energy_x, energy_y = 0.0, 0.0
    for k in range(first, last + 1, BLOCK):
        width = min(BLOCK, last + 1 - k)
        _place(k, step, m, n, g, at)
        _weigh(g, taps, before, after)
        for b in range(width):
            bins[b, 0], bins[b, 1], bins[b, 2], bins[b, 3] = _weighted(pair, at[b] - lowest, before, after, b)
        if alone:
            _join(bins, turn, k, n)
        for b in range(width):
            share = 1.0 if k + b == 0 or 2 * (k + b) == n else 2.0  # bins 0 and n / 2 have no mirror image
            energy_x += share * (bins[b, 0] * bins[b, 0] + bins[b, 1] * bins[b, 1])
            energy_y += share * (bins[b, 2] * bins[b, 2] + bins[b, 3] * bins[b, 3])
    return energy_x / n, energy_y / n
