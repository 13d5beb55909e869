"""Draws against SciPy's quantile functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from synthscape.plan.program import ProgramBuilder
from synthscape.spec.distributions import parse_distribution
from synthscape_kernels import draws, philox

SEED = np.uint64(5)


def quantile(written: object, u: float, scene: int = 0, position: int = -1) -> float:
    """One draw from a distribution as a spec writes it."""
    builder = ProgramBuilder()
    node = builder.add(parse_distribution(written, ("d",)))
    return float(draws.draw(builder.build(), np.int64(node), u, SEED, np.int64(scene), np.int64(position)))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"uniform": [2, 5]}, scipy.stats.uniform(2, 3)),
        ({"loguniform": [0.5, 8]}, scipy.stats.loguniform(0.5, 8)),
        ({"normal": [-3, 2]}, scipy.stats.norm(-3, 2)),
        ({"truncnorm": [0, 2, -1, 3]}, scipy.stats.truncnorm(-0.5, 1.5, 0, 2)),
        ({"truncnorm": [0, 1, 3, 5]}, scipy.stats.truncnorm(3, 5)),
        ({"truncnorm": [0, 1, -5, -3]}, scipy.stats.truncnorm(-5, -3)),
        ({"triangular": [1, 2, 5]}, scipy.stats.triang(0.25, 1, 4)),
        ({"poisson": 3.5}, scipy.stats.poisson(3.5)),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_quantiles(written: dict[str, object], expected: scipy.stats.rv_continuous) -> None:
    """A draw at u is the distribution's quantile at u."""
    for u in np.linspace(0.0005, 0.9995, 101):
        assert quantile(written, u) == pytest.approx(expected.ppf(u), rel=1e-9, abs=1e-9)


@given(st.floats(2.0**-33, 1 - 2.0**-33))
def test_uniform_int_reaches_both_ends_only(u: float) -> None:
    """Whole numbers from low to high, both included, each with its share of u."""
    assert quantile({"uniform_int": [2, 5]}, u) == 2 + int(u * 4)


def test_constant_and_equal_bounds() -> None:
    """A plain number is a distribution, and so is one with equal bounds."""
    assert quantile(7.5, 0.123) == 7.5
    assert quantile({"uniform": [3, 3]}, 0.9) == 3
    assert quantile({"normal": [3, 0]}, 0.01) == 3
    assert quantile({"triangular": [1, 1, 1]}, 0.4) == 1


def test_choice_follows_its_weights() -> None:
    """A choice takes shares of u in the order given, also with weights of 0."""
    written = {"choice": [10, 20, 30], "weights": [1, 0, 3]}

    assert [quantile(written, u) for u in (0.01, 0.249, 0.251, 0.99)] == [10, 10, 30, 30]


def test_mixture_is_the_mixture() -> None:
    """Draws of a mixture at equally spaced u have the mixture's distribution function."""
    written = {"mixture": [{"normal": [-5, 1]}, {"uniform": [0, 4]}], "weights": [1, 3]}
    n = 4000
    x = np.sort([quantile(written, (i + 0.5) / n) for i in range(n)])
    expected = 0.25 * scipy.stats.norm(-5, 1).cdf(x) + 0.75 * scipy.stats.uniform(0, 4).cdf(x)

    assert np.abs(expected - (np.arange(n) + 0.5) / n).max() < 2 / n


def test_clip_nests() -> None:
    """A component's own clip is applied before the mixture's."""
    written = {"mixture": [{"normal": [0, 100], "clip": [-3, 3]}, {"normal": [50, 0]}], "clip": [-1, 20]}
    values = {round(quantile(written, u), 6) for u in (0.001, 0.499, 0.75)}

    assert values == {-1.0, 3.0, 20.0}


def test_parameters_are_drawn_once_per_scene() -> None:
    """A drawn mean is the same for all draws of a scene, another one in another scene."""
    written = {"normal": [{"uniform": [-12, 8]}, 0]}
    means = [quantile(written, u, scene) for scene in (4, 5) for u in (0.1, 0.5, 0.9)]

    assert len(set(means[:3])) == 1
    assert len(set(means[3:])) == 1
    assert means[0] != means[3]


def test_parameters_per_class() -> None:
    """A mean drawn per class differs between classes of a scene and stays within one."""
    written = {"normal": [{"uniform": [-12, 8], "per": "class"}, 0], "per": "event"}
    first, again, second = (quantile(written, u, 4, position) for u, position in ((0.2, 0), (0.7, 0), (0.2, 1)))

    assert first == again != second


def test_parameters_have_their_distribution() -> None:
    """Means drawn over scenes follow the distribution they were given (Kolmogorov-Smirnov, n = 5 000)."""
    written = {"normal": [{"uniform": [-12, 8]}, 0]}
    builder = ProgramBuilder()
    node = builder.add(parse_distribution(written, ("d",)))
    program = builder.build()
    means = [draws.draw(program, np.int64(node), 0.5, SEED, np.int64(s), np.int64(-1)) for s in range(5000)]

    assert scipy.stats.kstest(means, scipy.stats.uniform(-12, 20).cdf).pvalue > 1e-4


def test_below_covers_its_range_evenly() -> None:
    """Whole numbers below n are equally frequent (chi-square, n = 7, 30 000 draws)."""
    counts = np.bincount([philox.below(SEED, 1, s, 0, 7) for s in range(30_000)], minlength=7)

    assert scipy.stats.chisquare(counts).pvalue > 1e-4
    assert len(counts) == 7
