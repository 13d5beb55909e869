"""Elementary functions in strict float64: the same bits on every machine.

A libm's exp and log differ between systems in the last bit, which is enough to move a count or an onset. These use only
+, -, *, / and exact scaling, each correctly rounded by IEEE 754, in a fixed order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from synthscape_kernels.jit import compiled

_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts, the first with 32 trailing zero bits
_LN2_LOW = 1.90821492927058770002e-10
_SQRT_HALF = 0.7071067811865476


@compiled
def exp(x: Any) -> Any:
    """e**x: argument reduced by multiples of ln 2, then the Taylor series to degree 13 (relative error < 1e-15)."""
    if x > 709.78:
        return np.inf
    if x < -745.13:
        return 0.0
    k = math.floor(x / 0.6931471805599453 + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    total = 1.0
    for n in range(13, 0, -1):
        total = 1.0 + total * r / n
    return math.ldexp(total, int(k))


@compiled
def log(x: Any) -> Any:
    """Natural logarithm of x > 0: x = m 2**e, then the series of 2 artanh((m - 1) / (m + 1))."""
    m, e = math.frexp(x)
    if m < _SQRT_HALF:
        m *= 2.0
        e -= 1
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    total = 0.0
    for n in range(25, 0, -2):
        total = total * square + 1.0 / n
    return e * _LN2_HIGH + (2.0 * s * total + e * _LN2_LOW)


@compiled
def sin_quarter(x: Any) -> Any:
    """sin(x) for 0 <= x <= pi / 2, Taylor series to degree 21."""
    square = x * x
    total = 1.0
    for n in range(20, 0, -2):
        total = 1.0 - total * square / (n * (n + 1))
    return x * total


@compiled
def ndtr(x: Any) -> Any:
    """Standard normal distribution function, absolute error < 1e-15.

    Inside |x| < 5 by the all-positive series erf(z) = 2/sqrt(pi) exp(-z**2) sum 2**n z**(2n+1) / (2n+1)!!
    (Abramowitz & Stegun 7.1.6), outside by the continued fraction 26.2.14.
    """
    size = abs(x)
    density = exp(-0.5 * x * x) * 0.3989422804014327
    if size < 5.0:
        term = size
        total = term
        n = 3.0
        while term > total * 1e-18:
            term = term * x * x / n
            total += term
            n += 2.0
        upper = 0.5 - density * total
    else:
        fraction = 0.0
        for n in range(60, 0, -1):
            fraction = n / (size + fraction)
        upper = density / (size + fraction)
    return 1.0 - upper if x > 0.0 else upper


@compiled
def ndtri_centre(q: Any) -> Any:
    """``ndtri(0.5 + q)`` for abs(q) <= 0.425: no branch, so that a loop over it is vectorised."""
    r = 0.180625 - q * q
    upper = 2.5090809287301226727e3
    for c in (
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ):
        upper = upper * r + c
    lower = 5.2264952788528545610e3
    for c in (
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ):
        lower = lower * r + c
    return q * upper / lower


@compiled
def ndtri_tail(r: Any) -> Any:
    """Minus ``ndtri(p)`` of the small p, 0.075 or less, of which r = sqrt(-log(p)), for r <= 5."""
    r -= 1.6
    upper = 7.74545014278341407640e-4
    for c in (
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0,
        5.76949722146069140550e0,
        4.63033784615654529590e0,
        1.42343711074968357734e0,
    ):
        upper = upper * r + c
    lower = 1.05075007164441684324e-9
    for c in (
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e0,
        2.05319162663775882187e0,
        1.0,
    ):
        lower = lower * r + c
    return upper / lower


@compiled
def ndtri(p: Any) -> Any:
    """Inverse of the standard normal distribution function, 0 < p < 1 (Wichura 1988, AS 241, PPND16)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        return ndtri_centre(q)
    r = math.sqrt(-log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        value = ndtri_tail(r)
        return -value if q < 0.0 else value
    r -= 5.0
    upper = 2.01033439929228813265e-7
    for c in (
        2.71155556874348757815e-5,
        1.24266094738807843860e-3,
        2.65321895265761230930e-2,
        2.96560571828504891230e-1,
        1.78482653991729133580e0,
        5.46378491116411436990e0,
        6.65790464350110377720e0,
    ):
        upper = upper * r + c
    lower = 2.04426310338993978564e-15
    for c in (
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        1.48753612908506148525e-2,
        1.36929880922735805310e-1,
        5.99832206555887937690e-1,
        1.0,
    ):
        lower = lower * r + c
    value = upper / lower
    return -value if q < 0.0 else value


@compiled
def poisson(mean: Any, u: Any) -> Any:
    """The smallest n with P(N <= n) >= u for a Poisson count N of ``mean`` >= 0 (int64), by summing probabilities.

    The running probability is kept as a float times 2**-1000 k, since exp(-mean) underflows beyond a mean of 745.
    """
    if mean <= 0.0:
        return np.int64(0)
    k = math.floor(mean / 0.6931471805599453)
    lead = exp(-((mean - k * _LN2_HIGH) - k * _LN2_LOW))  # exp(-mean) = lead * 2**-k
    exponent = -k
    cumulative = 0.0
    n = 0
    ceiling = mean + 40.0 * math.sqrt(mean) + 60.0  # beyond it the tail is under 2**-33, the spacing of u
    while True:
        if exponent > -1000.0:
            cumulative += math.ldexp(lead, int(exponent))
            if cumulative >= u or n > ceiling:
                return np.int64(n)
        n += 1
        lead *= mean / n
        if lead > 1e200:
            lead = math.ldexp(lead, -600)
            exponent += 600.0
        elif lead < 1e-200:
            lead = math.ldexp(lead, 600)
            exponent -= 600.0
