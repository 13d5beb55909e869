"""Distributions: what parses, what is refused, and what can come out."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_strategies import plain_draws

from synthscape.errors import SpecError
from synthscape.spec import Distribution, parse_distribution
from synthscape.spec.distributions import KINDS, REACH_SIGMAS

PARSED: list[tuple[Any, tuple[float, float], bool]] = [
    (10, (10, 10), True),
    (0.5, (0.5, 0.5), False),
    ({"uniform": [1, 2]}, (1, 2), False),
    ({"uniform": [3, 3]}, (3, 3), False),
    ({"uniform": [{"uniform": [0, 1]}, {"choice": [2, 5]}]}, (0, 5), False),
    ({"uniform_int": [1, 4]}, (1, 4), True),
    ({"uniform_int": [1, 4], "clip": [1.5, 3]}, (1.5, 3), False),
    ({"uniform_int": [1, {"uniform_int": [2, 9], "per": "class"}]}, (1, 9), True),
    ({"loguniform": [0.5, 2]}, (0.5, 2), False),
    ({"normal": [0, 0]}, (0, 0), False),
    ({"normal": [0, 100], "clip": [-20, 15]}, (-20, 15), False),
    ({"normal": [{"uniform": [-1, 1]}, 1]}, (-1 - REACH_SIGMAS, 1 + REACH_SIGMAS), False),
    ({"truncnorm": [10, 3, 5, 20]}, (5, 20), False),
    ({"truncnorm": [10, 0, 10, 20]}, (10, 20), False),
    ({"triangular": [0, 0.5, 3]}, (0, 3), False),
    ({"triangular": [2, 2, 2]}, (2, 2), False),
    ({"choice": [3, -1, 2]}, (-1, 3), True),
    ({"choice": [3, -1, 2], "weights": [1, 0, 2]}, (2, 3), True),
    ({"poisson": 3}, (0, math.inf), True),
    ({"poisson": [3], "clip": [1, 10]}, (1, 10), True),
    ({"mixture": [{"uniform": [0, 1]}, 5]}, (0, 5), False),
    ({"mixture": [{"poisson": 2}, {"choice": [7]}], "clip": [0, 9]}, (0, 9), True),
    ({"bernoulli": 0.2}, (0, 1), True),
    ({"bernoulli": 0}, (0, 0), True),
    ({"bernoulli": [1]}, (1, 1), True),
]


@pytest.mark.parametrize(("value", "bounds", "whole"), PARSED, ids=lambda value: str(value))
def test_bounds_and_wholeness(value: Any, bounds: tuple[float, float], whole: bool) -> None:
    """Each kind says the smallest and largest value that can come out, and whether only whole numbers can."""
    parsed = parse_distribution(value, "x")

    assert parsed.bounds() == bounds
    assert parsed.is_whole() == whole


@pytest.mark.parametrize(("value", "bounds", "whole"), PARSED, ids=lambda value: str(value))
def test_plain_values_parse_back(value: Any, bounds: tuple[float, float], whole: bool) -> None:
    """What a distribution is written as parses back to an equal one, with ``per`` left out or not."""
    parsed = parse_distribution(value, "x")

    assert parse_distribution(parsed.plain("event"), "x") == parsed
    assert parse_distribution(parsed.plain(), "x") == parsed


REFUSED: list[tuple[Any, str]] = [
    ("5", "x: expected a number or a distribution such as {uniform: [1, 2]}, got '5'; write 5, without quotes"),
    ("five", "x: expected a number or a distribution such as {uniform: [1, 2]}, got 'five'; write a number"),
    (True, "got true"),
    (None, "got null"),
    ([1, 2], "got [1, 2]"),
    (math.nan, "x: expected a number between -1e9 and 1e9, got nan"),
    (math.inf, "got inf"),
    (10**400, "x: expected a number between -1e9 and 1e9"),
    ({}, "x: expected exactly one of uniform, uniform_int"),
    ({"clip": [0, 1]}, "x: expected exactly one of uniform"),
    ({"uniform": [0, 1], "normal": [0, 1]}, "got uniform and normal; keep one kind"),
    ({"unifrom": [0, 1]}, "x.unifrom: expected one of uniform, uniform_int"),
    ({"unifrom": [0, 1]}, "did you mean uniform?"),
    ({"constant": 1}, "a constant is written as a plain number"),
    ({"uniform": [0, 1], "wieghts": [1]}, "did you mean weights?"),
    ({"uniform": [2, 1]}, "x.uniform: expected low <= high, got [2, 1]; put the smaller one first"),
    ({"uniform": [1]}, "x.uniform: expected [low, high], got [1]; give 2 in this order"),
    ({"uniform": 1}, "x.uniform: expected [low, high], got 1"),
    ({"uniform": [1, 2, 3]}, "expected [low, high], got [1, 2, 3]"),
    ({"uniform": [0, "1"]}, "x.uniform[1]: expected a number for high, got '1'; write 1, without quotes"),
    ({"uniform": [False, 1]}, "x.uniform[0]: expected a number for low, got false"),
    ({"uniform": [0, math.nan]}, "x.uniform[1]: expected a number between"),
    ({"uniform": [{"uniform": [0, 3]}, 2]}, "x.uniform: expected low <= high whatever its parameters draw"),
    ({"uniform_int": [3, 1]}, "x.uniform_int: expected low <= high, got [3, 1]"),
    ({"uniform_int": [1, 2.5]}, "x.uniform_int[1]: expected a whole number for high, got 2.5"),
    ({"uniform_int": [1, {"uniform": [2, 3]}]}, "x.uniform_int[1]: expected a whole number for high"),
    ({"loguniform": [0, 1]}, "x.loguniform: expected low > 0, got [0, 1]"),
    ({"loguniform": [-1, 1]}, "x.loguniform: expected low > 0"),
    ({"loguniform": [2, 1]}, "x.loguniform: expected low <= high"),
    ({"normal": [0, -1]}, "x.normal: expected sigma >= 0, got [0, -1]"),
    ({"normal": [0, {"uniform": [-1, 1]}]}, "x.normal: expected sigma >= 0 whatever its parameters draw"),
    ({"truncnorm": [0, 1, 2, 1]}, "x.truncnorm: expected low <= high, got [0, 1, 2, 1]"),
    ({"truncnorm": [0, 1, 50, 60]}, "x.truncnorm: expected an interval within 6 sigma of the mean"),
    ({"truncnorm": [0, 0, 1, 2]}, "x.truncnorm: expected an interval within 6 sigma of the mean"),
    ({"truncnorm": [0, -1, -1, 1]}, "x.truncnorm: expected"),
    ({"triangular": [0, 4, 3]}, "x.triangular: expected low <= mode <= high, got [0, 4, 3]"),
    ({"triangular": [1, 0, 3]}, "x.triangular: expected low <= mode <= high"),
    ({"choice": []}, "x.choice: expected a list of one or more values, got []"),
    ({"choice": 5}, "x.choice: expected a list of one or more values, got 5"),
    ({"choice": [1, "2"]}, "x.choice[1]: expected a number"),
    ({"choice": [1, {"uniform": [0, 1]}]}, "a mixture lists distributions"),
    ({"choice": [0] * 4097}, "x.choice: expected at most 4096 values, got 4097"),
    ({"choice": [1, 2], "weights": [1]}, "x.weights: expected a list of 2 weights, one for each choice, got [1]"),
    ({"choice": [1, 2], "weights": [0, 0]}, "x.weights: expected weights of 0 or more, one of them over 0, got [0, 0]"),
    ({"choice": [1, 2], "weights": [2, -1]}, "x.weights: expected weights of 0 or more"),
    ({"choice": [1, 2], "weights": [1, math.inf]}, "x.weights[1]: expected a number between"),
    ({"choice": [1, 2], "weights": [1, "1"]}, "x.weights[1]: expected a number, got '1'"),
    ({"choice": [1, 2], "weights": [1, 1e-10]}, "x.weights: expected weights as whole numbers with a sum under 2**31"),
    ({"uniform": [1, 2], "weights": [1, 1]}, "x.weights: expected weights only with choice or mixture, got uniform"),
    ({"poisson": -1}, "x.poisson: expected a mean between 0 and 1000000, got -1"),
    ({"poisson": 1e7}, "x.poisson: expected a mean between 0 and 1000000, got 10000000"),
    ({"poisson": [1, 2]}, "x.poisson: expected [mean], got [1, 2]"),
    ({"bernoulli": 1.5}, "x.bernoulli: expected a probability between 0 and 1, got 1.5"),
    ({"bernoulli": 20}, "20 % is written 0.2"),
    ({"bernoulli": 0.5, "clip": [0, 1]}, "x.clip: expected no clip for a bernoulli"),
    ({"mixture": []}, "x.mixture: expected a list of one or more distributions, got []"),
    ({"mixture": [1, "a"]}, "x.mixture[1]: expected a number or a distribution"),
    (
        {"mixture": [{"uniform": [0, 1], "per": "scene"}]},
        "x.mixture[0].per: expected no per inside a choice or mixture",
    ),
    ({"uniform": [0, 1], "clip": [2, 3]}, "x.clip: expected a clip that meets draws from 0 to 1, got [2, 3]"),
    ({"uniform": [0, 1], "clip": [1, 0]}, "x.clip: expected low <= high, got [1, 0]"),
    ({"uniform": [0, 1], "clip": 1}, "x.clip: expected [low, high], got 1"),
    ({"uniform": [0, 1], "clip": [0, math.inf]}, "x.clip[1]: expected a number between"),
    ({"uniform": [0, 1], "per": "item"}, "x.per: expected event or scene or class, got 'item'"),
    ({"uniform": [0, {"uniform": [1, 2], "per": "event"}]}, "x.uniform[1].per: expected scene or class, got 'event'"),
    (
        {"uniform": [0, {"uniform": [1, 2], "per": "class"}], "per": "scene"},
        "x.uniform[1].per: expected scene, got 'class'",
    ),
    (
        {"normal": [{"normal": [0, {"uniform": [0, 1]}]}, 1]},
        "x.normal[0].normal[1]: expected a number for sigma, got {uniform: [0, 1]}; only one level",
    ),
    (
        {"normal": [{"mixture": [0, {"uniform": [{"choice": [1, 2]}, 3]}]}, 1]},
        "x.normal[0].mixture[1].uniform[0]: expected a number for low",
    ),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_cannot_be_drawn_is_refused(value: Any, message: str) -> None:
    """The message names the key down to the wrong number, what was expected and what was got."""
    with pytest.raises(SpecError) as raised:
        parse_distribution(value, "x")

    assert message in str(raised.value)
    assert "; " in str(raised.value)


def test_every_kind_has_an_example_that_parses() -> None:
    """The examples of the documentation are of the kind they stand for."""
    from synthscape.spec.yaml_text import read_yaml

    for name, kind in KINDS.items():
        assert parse_distribution(read_yaml(kind.example.encode(), name)[0], name).kind == name


def test_weights_are_the_decimals_that_were_written() -> None:
    """0.1 is a tenth, not the float nearest to it; common factors are taken out."""
    thirds = parse_distribution({"choice": [1, 2, 3], "weights": [0.1, 0.2, 0.3]})
    equal = parse_distribution({"choice": [1, 2], "weights": [7, 7]})

    assert thirds.weights == (1, 2, 3)
    assert equal == parse_distribution({"choice": [1, 2]})


def test_nested_mixtures_are_one_list_with_multiplied_weights() -> None:
    """A mixture within a mixture has the same shares when it is taken apart."""
    inner = {"mixture": [{"uniform": [0, 1]}, {"choice": [5, 6], "weights": [3, 1]}], "weights": [2, 1]}
    parsed = parse_distribution({"mixture": [{"normal": [0, 1]}, inner], "weights": [1, 3]})
    shares = [Fraction(weight, sum(parsed.weights)) for weight in parsed.weights]

    assert [member.kind for member in parsed.choices] == ["normal", "uniform", "constant", "constant"]
    assert shares == [Fraction(1, 4), Fraction(1, 2), Fraction(3, 16), Fraction(1, 16)]


@given(st.floats(-10, 10), st.lists(st.floats(-8, 8), min_size=4, max_size=4))
def test_nested_clips_become_one(drawn: float, ends: list[float]) -> None:
    """A member's clip within a mixture's clip does to any draw what the two would do one after the other."""
    (a, b), (c, d) = sorted(ends[:2]), sorted(ends[2:])
    member = {"uniform": [-10, 10], "clip": [a, b]}
    nested = {"mixture": [{"mixture": [member, {"uniform": [-10, 10]}], "clip": [c, d]}, 100]}
    parsed = parse_distribution(nested).choices[0]
    expected = float(np.clip(np.clip(drawn, a, b), c, d))

    got = parsed.bounds()[0] if parsed.kind == "constant" else float(np.clip(drawn, *(parsed.clip or ())))

    assert got == expected


def test_a_mixture_of_numbers_is_a_choice() -> None:
    """Two ways to write the same give equal distributions."""
    assert parse_distribution({"mixture": [1, {"choice": [2, 3]}], "weights": [1, 2]}) == parse_distribution(
        {"choice": [1, 2, 3]}
    )


def test_a_normal_reaches_as_far_as_its_smallest_draw() -> None:
    """The reach covers the inverse CDF at the smallest and largest u that a draw is made from."""
    assert -NormalDist().inv_cdf(2.0**-54) <= REACH_SIGMAS < -NormalDist().inv_cdf(2.0**-54) + 0.01


def test_per_falls_to_the_key_unless_said() -> None:
    """A draw without ``per`` takes its key's, a parameter without it is drawn per scene."""
    parsed = parse_distribution({"normal": [{"uniform": [0, 1]}, 1]}, "x", per="class")
    parameter = parsed.params[0]

    assert parsed.per == "class"
    assert isinstance(parameter, Distribution)
    assert parameter.per == "scene"


def test_a_plain_number_may_stand_for_a_bernoulli() -> None:
    """Where a key says so, a number is a probability, and is checked as one."""
    parsed = parse_distribution(0.2, "events.reverse", plain_number="bernoulli")

    assert parsed == parse_distribution({"bernoulli": 0.2})
    assert parsed.plain("event", "bernoulli") == 0.2
    with pytest.raises(SpecError, match=r"events.reverse: expected a probability between 0 and 1, got 3"):
        parse_distribution(3, "events.reverse", plain_number="bernoulli")


@given(plain_draws(-3, 7, ("event", "scene", "class")))
def test_any_distribution_parses_back_and_stays_within_bounds(value: Any) -> None:
    """Built to lie in [-3, 7], a distribution says bounds within it, and its plain form is stable."""
    parsed = parse_distribution(value, "x")
    low, high = parsed.bounds()

    assert -3 <= low <= high <= 7
    assert parse_distribution(parsed.plain("event"), "x") == parsed
    assert parse_distribution(parsed.plain(), "x") == parsed
    assert all(not member.choices for member in parsed.choices)
