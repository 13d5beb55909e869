"""Distributions: what a spec may draw from, and what can come out.

::

    10                                                       # a plain number is a constant
    {uniform: [1, 2]}                                        # exactly one kind
    {normal: [0, 5], clip: [-20, 15]}                        # what falls outside becomes the nearer end
    {choice: [0.9, 1, 1.1], weights: [1, 2, 1], per: class}  # drawn once for each class of a scene
    {mixture: [{normal: [-5, 4]}, {normal: [5, 4]}]}
    {normal: [{uniform: [-12, 8]}, 3]}                       # the mean is itself drawn, once for each scene

This module only reads and checks them. Drawing is the planner's, from counter-based random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeGuard, cast

from synthscape.spec.problem import Key, SpecKeyError, number_text, shown

Per = Literal["event", "scene", "class"]
Interval = tuple[float, float]
PlainNumber = Literal["constant", "bernoulli"]

REACH_SIGMAS: Final = (
    8.3  # |inverse normal CDF| of u = 2**-54, the smallest u a draw inside a mixture is given, is 8.292
)
LARGEST_NUMBER: Final = 1e9
LARGEST_POISSON_MEAN: Final = 1e6
LARGEST_WEIGHT_SUM: Final = 2**31 - 1  # 32-bit word x sum fits 64 bits
MOST_CHOICES: Final = 4096
_EXTRAS: Final = ("clip", "weights", "per")


@dataclass(frozen=True)
class Distribution:
    """What one number of a plan is drawn from.

    Made by :func:`parse_distribution`, and in a normal form: a mixture's members are never choices or mixtures
    (nested ones are flattened exactly), and a mixture of constants is a choice.

    Attributes:
        kind: a name in ``KINDS``.
        params: the parameters, in the order ``KINDS[kind].parameters``; a parameter that is itself drawn is a
            Distribution (of any kind) whose own parameters are numbers. Empty for choice and mixture.
        choices: members of a choice (constants) or of a mixture (any other kind), else empty.
        weights: of the choices, whole numbers without a common factor, their sum under 2**31; else empty.
        clip: draws outside these two become the nearer one.
        per: how often it is drawn: for each ``event``, once per ``scene``, or once per ``class`` of a scene.
            Members of a choice or mixture repeat it.
    """

    kind: str
    params: tuple[float | Distribution, ...] = ()
    choices: tuple[Distribution, ...] = ()
    weights: tuple[int, ...] = ()
    clip: Interval | None = None
    per: Per = "event"

    def bounds(self) -> Interval:
        """The smallest and the largest value that can come out, after ``clip``; only a poisson reaches infinity.

        >>> parse_distribution({"normal": [0, 10], "clip": [-20, 15]}).bounds()
        (-20.0, 15.0)

        A normal reaches 8.3 sigma: there is a smallest u of its inverse CDF.
        """
        if self.choices:
            ends = [member.bounds() for member, weight in zip(self.choices, self.weights, strict=True) if weight]
            low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        else:
            low, high = KINDS[self.kind].support([_interval(param) for param in self.params])
        return (_clamp(low, self.clip), _clamp(high, self.clip)) if self.clip else (low, high)

    def is_whole(self) -> bool:
        """Whether only whole numbers can come out."""
        if self.clip and not all(end.is_integer() for end in self.clip):
            return False
        if self.choices:
            return all(member.is_whole() for member in self.choices)
        if self.kind == "constant":
            return self.bounds()[0].is_integer()
        return KINDS[self.kind].whole

    def constants(self) -> tuple[float, ...]:
        """The values listed one by one: of a constant, a choice, or the constants of a mixture."""
        if self.kind == "constant":
            return (self.bounds()[0],)
        return tuple(value for member in self.choices for value in member.constants())

    def plain(self, default_per: Per | None = None, plain_number: PlainNumber = "constant") -> Any:
        """The numbers, lists and mappings that :func:`parse_distribution` reads back as this distribution.

        Args:
            default_per: ``per`` is left out where it is this; None writes it always.
            plain_number: the kind that a plain number stands for.
        """
        if self.kind == "constant":
            return _plain_number(self.bounds()[0])
        if self.choices:
            content: Any = [member.plain(self.per) for member in self.choices]
        else:
            parts = [p.plain("scene") if isinstance(p, Distribution) else _plain_number(p) for p in self.params]
            content = parts[0] if len(parts) == 1 else parts
        if (
            self.kind == plain_number
            and self.clip is None
            and self.per == default_per
            and not isinstance(content, dict)
        ):
            return content
        plain: dict[str, Any] = {self.kind: content}
        if len(set(self.weights)) > 1:
            plain["weights"] = list(self.weights)
        if self.clip:
            plain["clip"] = [_plain_number(end) for end in self.clip]
        if self.per != default_per:
            plain["per"] = self.per
        return plain


@dataclass(frozen=True)
class Kind:
    """One kind of distribution.

    Attributes:
        parameters: their names; one parameter may be given without a list.
        meaning: a line for documentation.
        example: YAML that parses.
        support: bounds of what comes out, from the bounds of each parameter.
        refused: what is expected and isn't (and what to do), for any values the parameters can take; or None.
        whole: gives whole numbers only.
    """

    parameters: tuple[str, ...]
    meaning: str
    example: str
    support: Callable[[Sequence[Interval]], Interval]
    refused: Callable[[Sequence[Interval]], tuple[str, str] | None] = lambda params: None
    whole: bool = False


def _low_to_high(params: Sequence[Interval]) -> tuple[str, str] | None:
    (_, low), (high, _) = params
    return ("low <= high", "put the smaller one first") if low > high else None


def _positive_low(params: Sequence[Interval]) -> tuple[str, str] | None:
    if params[0][0] <= 0:
        return "low > 0", "a logarithm needs positive bounds; use uniform for others"
    return _low_to_high(params)


def _sigma(params: Sequence[Interval]) -> tuple[str, str] | None:
    return ("sigma >= 0", "use a positive sigma, or 0 for a constant") if params[1][0] < 0 else None


def _truncated(params: Sequence[Interval]) -> tuple[str, str] | None:
    mean, sigma, low, high = params
    if low[1] > high[0]:
        return "low <= high", "put the smaller one first"
    # Past six sigma the share inside is too small for draws to resolve.
    if low[1] > mean[0] + 6 * sigma[0] or high[0] < mean[1] - 6 * sigma[0]:
        return "an interval within 6 sigma of the mean", "nothing of the normal lies inside; move low, high or the mean"
    return _sigma(params)


def _triangle(params: Sequence[Interval]) -> tuple[str, str] | None:
    low, mode, high = params
    in_order = low[1] <= mode[0] and mode[1] <= high[0]
    return None if in_order else ("low <= mode <= high", "put the three in order")


def _mean(params: Sequence[Interval]) -> tuple[str, str] | None:
    if params[0][0] >= 0 and params[0][1] <= LARGEST_POISSON_MEAN:
        return None
    return "a mean between 0 and 1000000", "use a mean in that range"


def _probability(params: Sequence[Interval]) -> tuple[str, str] | None:
    if params[0][0] >= 0 and params[0][1] <= 1:
        return None
    return "a probability between 0 and 1", "20 % is written 0.2"


def _around(params: Sequence[Interval]) -> Interval:
    mean, sigma = params
    return mean[0] - REACH_SIGMAS * sigma[1], mean[1] + REACH_SIGMAS * sigma[1]


KINDS: Final[dict[str, Kind]] = {
    "constant": Kind(("value",), "always this value; written as a plain number", "10", lambda p: p[0]),
    "uniform": Kind(
        ("low", "high"), "any value from low to high", "{uniform: [1, 2]}", lambda p: (p[0][0], p[1][1]), _low_to_high
    ),
    "uniform_int": Kind(
        ("low", "high"),
        "a whole number from low to high, both included",
        "{uniform_int: [1, 4]}",
        lambda p: (p[0][0], p[1][1]),
        _low_to_high,
        whole=True,
    ),
    "loguniform": Kind(
        ("low", "high"),
        "from low to high, uniform in its logarithm",
        "{loguniform: [0.5, 2]}",
        lambda p: (p[0][0], p[1][1]),
        _positive_low,
    ),
    "normal": Kind(("mean", "sigma"), "Gaussian", "{normal: [0, 5], clip: [-20, 15]}", _around, _sigma),
    "truncnorm": Kind(
        ("mean", "sigma", "low", "high"),
        "Gaussian, given that it lies between low and high (nothing piles up at the ends, as it does with clip)",
        "{truncnorm: [10, 3, 5, 20]}",
        lambda p: (p[2][0], p[3][1]),
        _truncated,
    ),
    "triangular": Kind(
        ("low", "mode", "high"),
        "triangle over low to high with its peak at mode",
        "{triangular: [0, 0.5, 3]}",
        lambda p: (p[0][0], p[2][1]),
        _triangle,
    ),
    "choice": Kind(
        ("values",),
        "one of the values; weights make some likelier",
        "{choice: [0.9, 1, 1.1], weights: [1, 2, 1]}",
        lambda p: p[0],
    ),
    "poisson": Kind(("mean",), "a Poisson count", "{poisson: 3}", lambda p: (0.0, math.inf), _mean, whole=True),
    "mixture": Kind(
        ("distributions",),
        "a draw from one of the distributions; weights make some likelier",
        "{mixture: [{normal: [-5, 4]}, {normal: [5, 4]}], weights: [0.3, 0.7]}",
        lambda p: p[0],
    ),
    "bernoulli": Kind(
        ("probability",),
        "1 with this probability, else 0",
        "{bernoulli: 0.2, per: class}",
        lambda p: (0.0 if p[0][0] < 1 else 1.0, 1.0 if p[0][1] > 0 else 0.0),
        _probability,
        whole=True,
    ),
}
YAML_KINDS: Final = tuple(name for name in KINDS if name != "constant")


def parse_distribution(
    value: Any,
    key: str | Key = (),
    *,
    per: Per = "event",
    allowed_per: Sequence[Per] = ("event", "scene", "class"),
    plain_number: PlainNumber = "constant",
) -> Distribution:
    """Read a distribution from the numbers, lists and mappings of a YAML file.

    >>> parse_distribution({"uniform": [1, 2]}, "duration").bounds()
    (1.0, 2.0)

    Args:
        value: a number, or a mapping with exactly one kind and optionally ``clip``, ``weights``, ``per``.
        key: where it stands, for messages.
        per: how often it is drawn unless it says so itself.
        allowed_per: what ``per`` may say here.
        plain_number: the kind that a plain number stands for.

    Raises:
        SpecError: it is no distribution, or nothing can be drawn from it.
    """
    return _parse(value, (key,) if isinstance(key, str) else key, _Place(per, tuple(allowed_per), plain_number))


@dataclass(frozen=True)
class _Place:
    """Where a distribution stands, which says what it may hold."""

    per: Per
    allowed_per: tuple[Per, ...]
    plain_number: PlainNumber = "constant"
    is_member: bool = False
    is_parameter: bool = False


def _parse(value: Any, key: Key, place: _Place) -> Distribution:
    if not isinstance(value, dict):
        number = _number(value, key, "a number or a distribution such as {uniform: [1, 2]}")
        return _checked(Distribution(place.plain_number, (number,), per=place.per), key, value)
    kind = _kind(value, key)
    per = _per(value, key, place)
    weighted = kind in ("choice", "mixture")
    if "weights" in value and not weighted:
        raise SpecKeyError((*key, "weights"), "weights only with choice or mixture", kind, "remove weights")
    if "clip" in value and kind == "bernoulli":
        raise SpecKeyError((*key, "clip"), "no clip for a bernoulli", shown(value["clip"]), "remove clip")
    inside = replace(place, per=per, plain_number="constant", is_member=True)
    if weighted:
        parsed = _flat(_members(value, kind, key, inside), per)
    else:
        parsed = Distribution(kind, _parameters(value[kind], kind, (*key, kind), inside), per=per)
    parsed = _checked(parsed, (*key, kind), value[kind])
    return replace(parsed, clip=_clip(value["clip"], key, parsed)) if "clip" in value else parsed


def _kind(value: dict[Any, Any], key: Key) -> str:
    for name in value:
        if name not in YAML_KINDS and name not in _EXTRAS:
            advice = "a constant is written as a plain number" if name == "constant" else _nearest(name)
            raise SpecKeyError((*key, str(name)), f"one of {', '.join(YAML_KINDS)} or clip, weights, per", "it", advice)
    kinds = [name for name in value if name in YAML_KINDS]
    if len(kinds) != 1:
        got = " and ".join(kinds) or shown(value)
        raise SpecKeyError(key, f"exactly one of {', '.join(YAML_KINDS)}", got, "keep one kind")
    return cast(str, kinds[0])


def _nearest(name: object) -> str:
    from difflib import get_close_matches

    close = get_close_matches(str(name).lower(), [*YAML_KINDS, *_EXTRAS], n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else "use one of these"


def _per(value: dict[Any, Any], key: Key, place: _Place) -> Per:
    if "per" not in value:
        return place.per
    asked = value["per"]
    if place.is_member:
        raise SpecKeyError((*key, "per"), "no per inside a choice or mixture", shown(asked), "say it on the outer one")
    if asked not in place.allowed_per:
        raise SpecKeyError((*key, "per"), " or ".join(place.allowed_per), shown(asked), "use that, or remove per")
    return cast(Per, asked)


def _members(value: dict[Any, Any], kind: str, key: Key, inside: _Place) -> list[tuple[Distribution, Fraction]]:
    items = value[kind]
    what = "values" if kind == "choice" else "distributions"
    if not isinstance(items, list) or not items:
        raise SpecKeyError((*key, kind), f"a list of one or more {what}", shown(items), "list at least one")
    if len(items) > MOST_CHOICES:
        raise SpecKeyError((*key, kind), f"at most {MOST_CHOICES} {what}", str(len(items)), "list fewer")
    members = []
    for index, item in enumerate(items):
        place = (*key, kind, index)
        if kind == "choice":
            _number(item, place, "a number (a choice lists numbers, a mixture lists distributions)")
        members.append(_parse(item, place, inside))
    return list(zip(members, _weights(value, key, len(items)), strict=True))


def _weights(value: dict[Any, Any], key: Key, count: int) -> list[Fraction]:
    if "weights" not in value:
        return [Fraction(1)] * count
    key = (*key, "weights")
    listed = value["weights"]
    if not isinstance(listed, list) or len(listed) != count:
        raise SpecKeyError(key, f"a list of {count} weights, one for each choice", shown(listed), "list as many")
    numbers = [_number(weight, (*key, index), "a number") for index, weight in enumerate(listed)]
    if min(numbers) < 0 or not any(numbers):
        raise SpecKeyError(key, "weights of 0 or more, one of them over 0", shown(listed), "use positive weights")
    weights = [Fraction(repr(number)) for number in numbers]  # the decimal that was written: 0.1 is a tenth
    if sum(_whole_weights(weights)) > LARGEST_WEIGHT_SUM:
        raise SpecKeyError(key, "weights as whole numbers with a sum under 2**31", shown(listed), "use fewer decimals")
    return weights


def _whole_weights(weights: Iterable[Fraction]) -> tuple[int, ...]:
    weights = list(weights)
    scale = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * scale) for weight in weights]
    common = math.gcd(*whole)
    return tuple(weight // common for weight in whole)


def _flat(members: list[tuple[Distribution, Fraction]], per: Per) -> Distribution:
    """A choice if all members are constants, else a mixture; inner choices and mixtures are taken apart."""
    flat: list[tuple[Distribution, Fraction]] = []
    for member, weight in members:
        if not member.choices:
            flat.append((member, weight))
            continue
        total = sum(member.weights)
        for inner, share in zip(member.choices, member.weights, strict=True):
            flat.append((_clipped(inner, member.clip), weight * share / total))
    choices = tuple(member for member, _ in flat)
    kind = "choice" if all(member.kind == "constant" for member in choices) else "mixture"
    return Distribution(kind, choices=choices, weights=_whole_weights(share for _, share in flat), per=per)


def _clipped(member: Distribution, clip: Interval | None) -> Distribution:
    """Clip what may already be clipped: two clamps in a row are one."""
    if clip is None:
        return member
    low, high = (_clamp(end, clip) for end in member.bounds())
    if low == high:
        return Distribution("constant", (low,), per=member.per)
    both = clip if member.clip is None else (_clamp(member.clip[0], clip), _clamp(member.clip[1], clip))
    return replace(member, clip=both)


def _parameters(value: Any, kind: str, key: Key, inside: _Place) -> tuple[float | Distribution, ...]:
    names = KINDS[kind].parameters
    if len(names) == 1 and not isinstance(value, list):
        return (_parameter(value, names[0], kind, key, inside),)
    if not isinstance(value, list) or len(value) != len(names):
        raise SpecKeyError(key, f"[{', '.join(names)}]", shown(value), f"give {len(names)} in this order")
    return tuple(
        _parameter(item, name, kind, (*key, index), inside)
        for index, (item, name) in enumerate(zip(value, names, strict=True))
    )


def _parameter(value: Any, name: str, kind: str, key: Key, inside: _Place) -> float | Distribution:
    if not isinstance(value, dict):
        parsed: float | Distribution = _number(value, key, f"a number for {name}")
    elif inside.is_parameter:
        raise SpecKeyError(key, f"a number for {name}", shown(value), "only one level of drawn parameters is possible")
    else:
        # What is drawn once per scene can't depend on a class.
        allowed: tuple[Per, ...] = ("scene",) if inside.per == "scene" else ("scene", "class")
        parsed = _parse(value, key, _Place("scene", allowed, is_parameter=True))
    whole = parsed.is_whole() if isinstance(parsed, Distribution) else parsed.is_integer()
    if kind == "uniform_int" and not whole:
        raise SpecKeyError(key, f"a whole number for {name}", shown(value), "round it, or use uniform")
    return parsed


def _checked(parsed: Distribution, key: Key, written: Any) -> Distribution:
    if parsed.choices:
        if sum(parsed.weights) > LARGEST_WEIGHT_SUM:
            raise SpecKeyError(
                key, "weights with a sum under 2**31", "more, nested ones multiplied", "use fewer decimals"
            )
        return parsed
    problem = KINDS[parsed.kind].refused([_interval(param) for param in parsed.params])
    if problem is not None:
        drawn = any(isinstance(param, Distribution) for param in parsed.params)
        expected = f"{problem[0]} whatever its parameters draw" if drawn else problem[0]
        raise SpecKeyError(key, expected, shown(written), problem[1])
    return parsed


def _clip(value: Any, key: Key, parsed: Distribution) -> Interval:
    key = (*key, "clip")
    if not isinstance(value, list) or len(value) != 2:
        raise SpecKeyError(key, "[low, high]", shown(value), "give both ends")
    low, high = (_number(end, (*key, index), "a number") for index, end in enumerate(value))
    if low > high:
        raise SpecKeyError(key, "low <= high", shown(value), "put the smaller one first")
    lowest, highest = parsed.bounds()
    if high < lowest or low > highest:
        drawn = f"draws from {number_text(lowest)} to {number_text(highest)}"
        raise SpecKeyError(
            key, f"a clip that meets {drawn}", shown(value), "every draw would be the same; write a number"
        )
    return low, high


def _number(value: Any, key: Key, expected: str) -> float:
    if not is_number(value):
        raise SpecKeyError(key, expected, shown(value), number_advice(value))
    if not abs(value) <= LARGEST_NUMBER:  # nan too
        raise SpecKeyError(key, "a number between -1e9 and 1e9", shown(value), "write a finite number")
    return float(value) + 0.0  # -0.0 is 0.0


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether it is an int or float (a bool isn't, nor is text)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_advice(value: Any) -> str:
    """What to do about a value that should be a number."""
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        number = math.nan
    return f"write {number_text(number)}, without quotes" if math.isfinite(number) else "write a number"


def _interval(param: float | Distribution) -> Interval:
    return param.bounds() if isinstance(param, Distribution) else (param, param)


def _clamp(value: float, clip: Interval) -> float:
    return min(max(value, clip[0]), clip[1])


def _plain_number(value: float) -> int | float:
    return int(value) if value.is_integer() else value
