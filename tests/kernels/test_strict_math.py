"""Strict elementary functions against the C library and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from synthscape_kernels import strict_math


@given(st.floats(-700, 700))
def test_exp(x: float) -> None:
    """exp agrees with the C library to 1e-15."""
    assert strict_math.exp(x) == pytest.approx(math.exp(x), rel=1e-15)


@given(st.floats(1e-300, 1e300))
def test_log(x: float) -> None:
    """log agrees with the C library to 1e-15."""
    assert strict_math.log(x) == pytest.approx(math.log(x), rel=1e-15, abs=1e-15)


@given(st.floats(-8.5, 8.5))
def test_ndtr(x: float) -> None:
    """The normal distribution function agrees with SciPy to 1e-15."""
    assert strict_math.ndtr(x) == pytest.approx(scipy.special.ndtr(x), abs=1e-15)


@given(st.floats(2.0**-54, 1 - 2.0**-53))
def test_ndtri(p: float) -> None:
    """Its inverse agrees with SciPy to 1e-14."""
    assert strict_math.ndtri(p) == pytest.approx(scipy.special.ndtri(p), rel=1e-13, abs=1e-14)


@given(st.floats(0, math.pi / 2))
def test_sine(x: float) -> None:
    """The sine of a quarter turn agrees with the C library."""
    assert strict_math.sin_quarter(x) == pytest.approx(math.sin(x), abs=5e-16)


@pytest.mark.parametrize("mean", [0.01, 0.4, 3, 60, 800, 5000, 100_000])
def test_poisson_quantiles(mean: float) -> None:
    """Counts are SciPy's quantiles, also where exp(-mean) underflows."""
    for u in [2.0**-33, 1e-6, 0.01, 0.3, 0.5, 0.9, 0.999, 1 - 2.0**-33]:
        assert strict_math.poisson(mean, u) == scipy.stats.poisson.ppf(u, mean)


def test_poisson_of_nothing() -> None:
    """A mean of 0 gives 0 events."""
    assert strict_math.poisson(0.0, np.float64(0.999)) == 0
