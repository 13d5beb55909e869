"""Energy of a signal of any length in a band of its DFT, in strict float32 with sums of squares in float64.

Calls last whatever they last: often a prime number of samples, for which fast transforms are slow. So the DFT is read
off a transform of a convenient length 2 M >= 1.4 n instead (a nonuniform FFT: Dutt and Rokhlin 1993, with the kernel of
Kaiser and Bessel). The samples are divided by the Fourier transform of a short kernel and transformed; each bin k is
the sum of the 10 values nearest to 2 M k / n, weighted by the kernel. Being real, the signal takes a complex transform
of half the length, of its even and odd samples.

The error is noise over the whole spectrum, of -126 dB of the signal's energy (-135 dB where the stretch is 2): some 30
dB under that of audio in 16 bits. A signal that is loud at one end only has up to 12 dB more, and a spectrum of a few
strong bins has it near them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthscape_kernels import strict_math
from synthscape_kernels.jit import compiled

TAPS: Final = 10
STRETCH: Final = 1.4  # least transform length over signal length
STRETCHED: Final = 2048  # samples up to which it is 2: the fewer the bins, the less their errors cancel
TERMS: Final = 4  # of the polynomials in g**2 that stand for the even and odd part of each tap
BLOCK: Final = 256  # bins done side by side
GAP: Final = 272  # between arrays; at multiples of 4096 bytes they would fight for the same cache sets
SHUFFLED: Final = 64  # stride from which passes run along it
_ALIGNED: Final = 16  # tables begin on whole cache lines of the array
_BETA: Final = 20.5  # of the kernel; found by trial: more amplifies rounding, less cuts the kernel off
_TURN: Final = 6.283185307179586
_HALF: Final = np.float32(0.5)  # a plain 0.5 would make a float64 of all it meets
_SIN_60: Final = np.float32(0.8660254037844386)
_SIXTHS: Final = ((np.float32(1.0), np.float32(0.0)), (_HALF, -_SIN_60), (-_HALF, -_SIN_60))  # exp(-pi i p / 3)


#: Lengths M of complex transforms, by size; a size is a place in here.
LENGTHS: Final = np.sort(np.concatenate([2 ** np.arange(7, 48), 3 * 2 ** np.arange(6, 46)]))


class Tables(NamedTuple):
    """What transforms of some sizes need, as the kernels take it."""

    numbers: NDArray[np.float32]  # the tables of a size one after the other
    start: NDArray[np.int64]  # [sizes] where those of a size begin; -1 where they are not there
    length: NDArray[np.int64]  # [sizes]: LENGTHS
    taps: NDArray[np.float32]  # of :func:`tap_polynomials`


def sizes_for(n: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sizes of the transforms for signals of n samples, int64 [...]."""
    least = np.maximum(np.ceil(STRETCH / 2 * n), np.minimum(n, STRETCHED))
    return np.asarray(np.searchsorted(LENGTHS, least))


def room_for(m: int) -> int:
    """Numbers that :func:`energy` needs room for."""
    return 8 * (m + GAP)


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


def tap_polynomials() -> NDArray[np.float32]:
    """Even and odd part of each tap of the first half: float32 [TAPS / 2, 2, TERMS], highest power of g**2 first.

    A bin at distance g + 1/2 past a value, -1/2 <= g <= 1/2, weighs value i from the first by phi(TAPS / 2 - 1/2 - i +
    g) = even_i(g**2) + g odd_i(g**2), and value i from the last by even_i(g**2) - g odd_i(g**2); phi(0) = 1. Plain
    Python: the same bits everywhere.
    """
    nodes = [0.5 * round(float(np.cos((2 * j + 1) * np.pi / (4 * TERMS))), 6) for j in range(TERMS)]
    table = np.empty((TAPS // 2, 2, TERMS))
    for i in range(TAPS // 2):
        centre = (TAPS - 1) / 2 - i
        ahead, behind = ([_kaiser_bessel(centre + sign * g) for g in nodes] for sign in (1, -1))
        even = [(a + b) / 2.0 for a, b in zip(ahead, behind, strict=True)]
        odd = [(a - b) / (2.0 * g) for a, b, g in zip(ahead, behind, nodes, strict=True)]
        squares = [g * g for g in nodes]
        table[i, 0] = _interpolate(squares, even)[::-1]
        table[i, 1] = _interpolate(squares, odd)[::-1]
    return (table / _kaiser_bessel(0.0)).astype(np.float32)


@compiled
def _table_lengths(m: Any) -> Any:
    """Numbers in each table of a transform of length m."""
    return 3 * m // 2, 2 * (m + 1), 2 * int(m / STRETCH) + 5


@compiled
def _fill_tables(m: Any, peak: Any, gain: Any, twiddle: Any, turn: Any) -> None:
    for i in range(len(gain)):
        x = _TURN / 4 * TAPS * (i - len(gain) // 2) / m
        s = np.sqrt(_BETA * _BETA - x * x)
        e = strict_math.exp(s)
        gain[i] = 2.0 * peak * s / (TAPS * (e - 1.0 / e))
    for j in range(m // 2 + 1):
        angle = _TURN / 2 * j / m
        cos, sin = strict_math.sin_quarter(_TURN / 4 - angle), strict_math.sin_quarter(angle)
        turn[0, j], turn[0, m - j] = 0.5 * cos, -0.5 * cos
        turn[1, j], turn[1, m - j] = 0.5 * sin, 0.5 * sin
    for level in range(3):
        step = 4**level
        for p in range(m // 4):
            j = 2 * (p // step * step)
            twiddle[level, 0, p], twiddle[level, 1, p] = 2.0 * turn[0, j], -2.0 * turn[1, j]


def with_tables(known: Tables | None, sizes: NDArray[np.int64]) -> Tables:
    """The known tables and those of these sizes; a copy where any were missing.

    Of each size, made in float64 and rounded: twiddle factors exp(-2 pi i p / m), [3, 2, m / 4], for p < m / 4, p
    rounded down to a multiple of 4, and to one of 16; half the cosine and sine of pi j / m, [2, m + 1]; gains, an odd
    number of them, from -m / 1.4 to m / 1.4 samples from the middle: the inverse of the Fourier transform of the
    kernel.
    """
    if known is None:
        known = Tables(np.zeros(0, np.float32), np.full(len(LENGTHS), -1), LENGTHS, tap_polynomials())
    absent = known.start[sizes] < 0
    if not absent.any():
        return known
    missing = np.unique(sizes[absent])
    lengths = [_table_lengths(int(m)) for m in LENGTHS[missing]]
    ends = len(known.numbers) + np.cumsum([-(-sum(three) // _ALIGNED) * _ALIGNED for three in lengths])
    start = known.start.copy()
    start[missing] = [len(known.numbers), *ends[:-1]]
    numbers = np.zeros(ends[-1], np.float32)
    numbers[: len(known.numbers)] = known.numbers
    for size, three in zip(missing.tolist(), lengths, strict=True):
        m = int(LENGTHS[size])
        twiddle, turn, gain, _ = np.split(numbers[start[size] :], np.cumsum(three))
        _fill_tables(m, _kaiser_bessel(0.0), gain, twiddle.reshape(3, 2, m // 4), turn.reshape(2, m + 1))
    return known._replace(numbers=numbers, start=start)


@compiled
def _shuffled_pass(xr: Any, xi: Any, yr: Any, yi: Any, wr: Any, wi: Any) -> None:
    """One radix-4 pass along the whole array, the four results of a butterfly side by side (Pease 1968)."""
    m = len(xr) // 4
    ar, br, cr, dr = xr[:m], xr[m : 2 * m], xr[2 * m : 3 * m], xr[3 * m :]
    ai, bi, ci, di = xi[:m], xi[m : 2 * m], xi[2 * m : 3 * m], xi[3 * m :]
    for p in range(m):
        w1r, w1i = wr[p], wi[p]
        w2r, w2i = w1r * w1r - w1i * w1i, w1r * w1i + w1r * w1i
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
def _strided_pass(xr: Any, xi: Any, yr: Any, yi: Any, wr: Any, wi: Any, s: Any, n: Any) -> None:
    """One radix-4 pass of Stockham's sorted transform over sub-transforms of length n at stride s."""
    m = n // 4
    for p in range(m):
        w1r, w1i = wr[p * s], wi[p * s]
        w2r, w2i = w1r * w1r - w1i * w1i, w1r * w1i + w1r * w1i
        w3r, w3i = w1r * w2r - w1i * w2i, w1r * w2i + w1i * w2r
        a, b, c, d = s * p, s * (p + m), s * (p + 2 * m), s * (p + 3 * m)
        ar, ai, br, bi = xr[a : a + s], xi[a : a + s], xr[b : b + s], xi[b : b + s]
        cr, ci, dr, di = xr[c : c + s], xi[c : c + s], xr[d : d + s], xi[d : d + s]
        outr, outi = yr[4 * s * p : 4 * s * (p + 1)], yi[4 * s * p : 4 * s * (p + 1)]
        for q in range(s):
            pr, pi, mr, mi = ar[q] + cr[q], ai[q] + ci[q], ar[q] - cr[q], ai[q] - ci[q]
            tr, ti, ur, ui = br[q] + dr[q], bi[q] + di[q], bi[q] - di[q], dr[q] - br[q]
            outr[q], outi[q] = pr + tr, pi + ti
            er, ei = mr + ur, mi + ui
            outr[s + q], outi[s + q] = er * w1r - ei * w1i, er * w1i + ei * w1r
            er, ei = pr - tr, pi - ti
            outr[2 * s + q], outi[2 * s + q] = er * w2r - ei * w2i, er * w2i + ei * w2r
            er, ei = mr - ur, mi - ui
            outr[3 * s + q], outi[3 * s + q] = er * w3r - ei * w3i, er * w3i + ei * w3r


@compiled
def _pass_of_2(xr: Any, xi: Any, yr: Any, yi: Any, s: Any, n: Any) -> None:
    """A pass of radix 2, for what is left of a length after those of radix 4: n = 2 or 6."""
    m = n // 2
    for p in range(m):
        vr, vi = _SIXTHS[p]
        ar, ai, br, bi = xr[s * p :], xi[s * p :], xr[s * (p + m) :], xi[s * (p + m) :]
        y0r, y0i, y1r, y1i = yr[2 * s * p :], yi[2 * s * p :], yr[2 * s * p + s :], yi[2 * s * p + s :]
        for q in range(s):
            y0r[q], y0i[q] = ar[q] + br[q], ai[q] + bi[q]
            er, ei = ar[q] - br[q], ai[q] - bi[q]
            y1r[q], y1i[q] = er * vr - ei * vi, er * vi + ei * vr


@compiled
def _pass_of_3(xr: Any, xi: Any, yr: Any, yi: Any, s: Any) -> None:
    """The last pass of a length with a factor 3."""
    for q in range(s):
        tr, ti = xr[s + q] + xr[2 * s + q], xi[s + q] + xi[2 * s + q]
        ur, ui = _SIN_60 * (xi[s + q] - xi[2 * s + q]), _SIN_60 * (xr[2 * s + q] - xr[s + q])
        hr, hi = xr[q] - _HALF * tr, xi[q] - _HALF * ti
        yr[q], yi[q] = xr[q] + tr, xi[q] + ti
        yr[s + q], yi[s + q] = hr + ur, hi + ui
        yr[2 * s + q], yi[2 * s + q] = hr - ur, hi - ui


@compiled
def transform(xr: Any, xi: Any, yr: Any, yi: Any, twiddle: Any) -> Any:
    """DFT of xr + i xi, length M = 2**a or 3 2**a, a multiple of 64: real and imaginary part.

    Within each block of 64 the base-4 digits of the index stand reversed. All four arrays are overwritten.
    """
    for level in range(3):
        _shuffled_pass(xr, xi, yr, yi, twiddle[level, 0], twiddle[level, 1])
        xr, xi, yr, yi = yr, yi, xr, xi
    n, s = len(xr) // SHUFFLED, SHUFFLED
    while n % 4 == 0:
        _strided_pass(xr, xi, yr, yi, twiddle[0, 0], twiddle[0, 1], s, n)
        xr, xi, yr, yi = yr, yi, xr, xi
        n, s = n // 4, s * 4
    if n % 2 == 0:
        _pass_of_2(xr, xi, yr, yi, s, n)
        xr, xi, yr, yi = yr, yi, xr, xi
        n, s = n // 2, s * 2
    if n == 3:
        _pass_of_3(xr, xi, yr, yi, s)
        xr, xi, yr, yi = yr, yi, xr, xi
    return xr, xi


@compiled
def _load(x: Any, gain: Any, even: Any, odd: Any) -> None:
    """The even and the odd samples times their gains, number (n + 1) // 4 of each at 0, circularly."""
    pairs, half, middle = len(x) // 2, (len(x) + 1) // 4, len(gain) // 2
    later, gain_later = x[2 * half :], gain[middle:]
    for i in range(pairs - half):
        even[i] = gain_later[2 * i] * later[2 * i]
        odd[i] = gain_later[2 * i + 1] * later[2 * i + 1]
    even[pairs - half : len(even) - half] = 0.0
    odd[pairs - half : len(odd) - half] = 0.0
    if len(x) > 2 * pairs:
        even[pairs - half] = gain_later[2 * (pairs - half)] * x[2 * pairs]
    even_end, odd_end, gain_earlier = even[len(even) - half :], odd[len(odd) - half :], gain[middle - 2 * half :]
    for i in range(half):
        even_end[i] = gain_earlier[2 * i] * x[2 * i]
        odd_end[i] = gain_earlier[2 * i + 1] * x[2 * i + 1]


@compiled
def _sort_block(z: Any, sorted_z: Any) -> None:
    """64 values from the order with base-4 digits reversed to the natural one."""
    for a in range(4):
        for b in range(4):
            for c in range(4):
                sorted_z[16 * a + 4 * b + c] = z[16 * c + 4 * b + a]


@compiled
def _sort(z: Any, first: Any, last: Any, ahead: Any, behind: Any) -> None:
    """Z[j] and Z[M - j], for j = first..last of 0..M, to places j of two arrays [M + 1]."""
    m = len(z)
    for j in range(first // 64 * 64, min(last, m - 1) + 1, 64):
        _sort_block(z[j : j + 64], ahead[j : j + 64])
    for j in range((m - last) // 64 * 64, min(m - first, m - 1) + 1, 64):
        _sort_block(z[j : j + 64], behind[m - j - 63 : m - j + 1][::-1])
    ahead[m], behind[0] = z[0], z[0]


@compiled
def _unpack(ar: Any, ai: Any, br: Any, bi: Any, cos: Any, sin: Any, outr: Any, outi: Any) -> None:
    """The transform of a real signal from Z, that of its even and odd samples.

    X[j] = (Z[j] + conj Z[M - j]) / 2 + exp(-pi i j / M) (Z[j] - conj Z[M - j]) / 2i; the arrays hold Z[j], Z[M - j] and
    half the cosine and sine of pi j / M.
    """
    for j in range(len(ar)):
        dr, di = ai[j] + bi[j], br[j] - ar[j]
        outr[j] = _HALF * (ar[j] + br[j]) + (cos[j] * dr + sin[j] * di)
        outi[j] = _HALF * (ai[j] - bi[j]) + (cos[j] * di - sin[j] * dr)


@compiled
def _weigh(k: Any, stretch: Any, lowest: Any, taps: Any, at: Any, g: Any, weights: Any) -> None:
    """Where bins k, k + 1.. have the first of their values, counted from ``lowest``, and the weights [TAPS, bins]."""
    for b in range(len(at)):
        u = (k + b) * stretch
        whole = np.int32(u)
        at[b] = whole - (TAPS // 2 - 1) - lowest
        g[b] = u - whole - 0.5
    for i in range(TAPS // 2):
        e0, e1, e2, e3 = taps[i, 0, 0], taps[i, 0, 1], taps[i, 0, 2], taps[i, 0, 3]
        o0, o1, o2, o3 = taps[i, 1, 0], taps[i, 1, 1], taps[i, 1, 2], taps[i, 1, 3]
        row, mirror = weights[i], weights[TAPS - 1 - i]
        for b in range(len(at)):
            h = g[b] * g[b]
            even = ((e0 * h + e1) * h + e2) * h + e3
            odd = g[b] * (((o0 * h + o1) * h + o2) * h + o3)
            row[b], mirror[b] = even + odd, even - odd


@compiled
def energy(x: Any, first: Any, last: Any, size: Any, tables: Any, room: Any) -> Any:
    """One-sided energy of the DFT bins first..last of a real signal.

    Args:
        x: float32 [n]; nothing over- or underflows from 1e-25 to 1e25.
        size: :func:`sizes_for` n.
        tables: of that size, among others.
        room: float32 [:func:`room_for` its length], to work in.
    """
    n, m, taps = len(x), tables.length[size], tables.taps
    apart = m + GAP
    n_twiddle, n_turn, n_gain = _table_lengths(m)
    numbers = tables.numbers[tables.start[size] :]
    twiddle = numbers[:n_twiddle].reshape(3, 2, m // 4)
    turn = numbers[n_twiddle : n_twiddle + n_turn].reshape(2, m + 1)
    gain = numbers[n_twiddle + n_turn : n_twiddle + n_turn + n_gain]
    rows = room[: 8 * apart].reshape(8, apart)
    _load(x, gain, rows[0, :m], rows[1, :m])
    zr, zi = transform(rows[0, :m], rows[1, :m], rows[2, :m], rows[3, :m], twiddle)
    stretch = 2 * m / n
    # One value more than the taps take at the lower end: bin n / 2 takes its mirror image at the upper one.
    lowest, highest = int(first * stretch) - TAPS // 2, int(last * stretch) + TAPS // 2
    low, end = max(lowest, 0), min(highest, m) + 1
    _sort(zr, low, end - 1, rows[4], rows[6])
    _sort(zi, low, end - 1, rows[5], rows[7])
    re, im = rows[0, : highest - lowest + 1], rows[1, : highest - lowest + 1]  # values from ``lowest`` on
    _unpack(
        rows[4, low:end], rows[5, low:end], rows[6, low:end], rows[7, low:end], turn[0, low:end], turn[1, low:end],
        re[low - lowest :], im[low - lowest :],
    )  # fmt: skip
    for j in range(lowest, 0):
        re[j - lowest], im[j - lowest] = re[-j - lowest], -im[-j - lowest]
    for j in range(m + 1, highest + 1):
        re[j - lowest], im[j - lowest] = re[2 * m - j - lowest], -im[2 * m - j - lowest]

    at, g, weights = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.float32), np.empty((TAPS, BLOCK), np.float32)
    total = 0.0
    for k in range(first, last + 1, BLOCK):
        width = min(BLOCK, last + 1 - k)
        _weigh(k, stretch, lowest, taps, at[:width], g[:width], weights)
        for b in range(width):
            xr, xi = weights[0, b] * re[at[b]], weights[0, b] * im[at[b]]
            for i in range(1, TAPS):
                j = at[b] + np.uint32(i)
                xr += weights[i, b] * re[j]
                xi += weights[i, b] * im[j]
            share = 1.0 if k + b == 0 or 2 * (k + b) == n else 2.0  # bins 0 and n / 2 have no mirror image
            total += share * (np.float64(xr) * xr + np.float64(xi) * xi)
    return total / n
