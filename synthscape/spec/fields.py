"""What a key of a spec may hold: one small class for each kind of value.

Each checks a plain value from YAML, turns it back into one, and describes itself as JSON Schema.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from synthscape.spec.distributions import (
    Distribution,
    Per,
    PlainNumber,
    is_number,
    number_advice,
    parse_distribution,
)
from synthscape.spec.problem import Key, SpecKeyError, number_text, shown

REQUIRED: Final = "???"


class Rule(Protocol):
    """What a key may hold."""

    @property
    def doc(self) -> str:
        """What the key means, for people."""

    @property
    def default(self) -> Any:
        """What it is when nothing is said, as in YAML."""

    @property
    def expected(self) -> str:
        """What it may be, for people."""

    def parse(self, value: Any, key: Key) -> Any:
        """The checked value; raises SpecKeyError."""

    def plain(self, value: Any, *, explicit: bool = False) -> Any:
        """The value as in YAML; ``explicit`` writes out what could be left to a default."""

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""


@dataclass(frozen=True)
class OrNull:
    """What another rule allows, or null."""

    rule: Rule

    @property
    def doc(self) -> str:
        """As of the rule."""
        return self.rule.doc

    @property
    def default(self) -> Any:
        """As of the rule."""
        return self.rule.default

    @property
    def expected(self) -> str:
        """As of the rule, or null."""
        return f"{self.rule.expected}, or null"

    def parse(self, value: Any, key: Key) -> Any:
        """The rule's value, or None; raises SpecKeyError."""
        return None if value is None else self.rule.parse(value, key)

    def plain(self, value: Any, *, explicit: bool = False) -> Any:
        """As of the rule, or None."""
        return None if value is None else self.rule.plain(value, explicit=explicit)

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        return {"anyOf": [self.rule.json_schema(), {"type": "null"}]}


@dataclass(frozen=True)
class Draw:
    """A distribution of which every draw lies in [low, high]."""

    doc: str
    default: Any
    low: float
    high: float
    per: tuple[Per, ...] = ("scene",)  # allowed; the first is the default
    above_low: bool = False
    whole: bool = False
    ratio: bool = False
    unbounded: bool = False  # may draw beyond low and high
    plain_number: PlainNumber = "constant"
    only: str | None = None  # the only kind that makes sense
    why: str = ""  # the reason of the range

    @property
    def expected(self) -> str:
        """Where draws must lie."""
        numbers = "whole numbers" if self.whole else "numbers"
        if self.only is not None:
            return f"a {self.only}, or its number"
        if self.unbounded:
            return numbers
        if math.isinf(self.high):
            return f"{numbers} from {number_text(self.low)} on"
        return f"{numbers} {'over' if self.above_low else 'from'} {number_text(self.low)} to {number_text(self.high)}"

    def parse(self, value: Any, key: Key) -> Distribution:
        """The distribution; raises SpecKeyError."""
        parsed = parse_distribution(value, key, per=self.per[0], allowed_per=self.per, plain_number=self.plain_number)
        if self.only is not None and parsed.kind != self.only:
            raise SpecKeyError(key, self.expected, shown(value), f"write a number, or {{{self.only}: ...}}")
        if self.whole and not parsed.is_whole():
            advice = "use uniform_int, poisson or a choice of whole numbers"
            raise SpecKeyError(key, self.expected, shown(value), advice)
        self._check_range(parsed, value, key)
        if self.ratio:
            _check_ratios(parsed, key)
        return parsed

    def _check_range(self, parsed: Distribution, value: Any, key: Key) -> None:
        if self.unbounded:
            return
        low, high = parsed.bounds()
        too_low = low <= self.low if self.above_low else low < self.low
        if not too_low and high <= self.high:
            return
        got = shown(value)
        advice = "keep it in that range"
        if parsed.kind != "constant":
            got += f", which draws from {number_text(low)} to {number_text(high)}"
            advice += ", for example with clip: [low, high]"
        raise SpecKeyError(key, self.expected, got, f"{self.why}; {advice}" if self.why else advice)

    def plain(self, value: Distribution, *, explicit: bool = False) -> Any:
        """Numbers, lists and mappings."""
        return value.plain(None if explicit else self.per[0], self.plain_number)

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        return {"$ref": "#/$defs/distribution"}


def _check_ratios(parsed: Distribution, key: Key) -> None:
    from synthscape_kernels.ratios import as_ratio

    for value in parsed.constants():
        try:
            as_ratio(value)
        except ValueError as error:
            raise SpecKeyError(key, "ratios P/Q with Q <= 128", number_text(value), f"{error}") from None


@dataclass(frozen=True)
class Number:
    """A number in [low, high]."""

    doc: str
    default: Any
    low: float
    high: float
    decimals: int | None = None

    @property
    def expected(self) -> str:
        """What it may be."""
        return f"a number from {number_text(self.low)} to {number_text(self.high)}"

    def parse(self, value: Any, key: Key) -> float:
        """The number as a float; raises SpecKeyError."""
        if not is_number(value):
            advice = "this key is one number, not drawn" if isinstance(value, dict) else number_advice(value)
            raise SpecKeyError(key, self.expected, shown(value), advice)
        if not self.low <= value <= self.high:
            raise SpecKeyError(key, self.expected, shown(value), "use a number in that range")
        if self.decimals is not None and round(value, self.decimals) != value:
            raise SpecKeyError(key, f"at most {self.decimals} decimals", shown(value), "round it")
        return float(value) + 0.0

    def plain(self, value: float, *, explicit: bool = False) -> int | float:
        """A number."""
        return int(value) if value.is_integer() else value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        return {"type": "number", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Whole:
    """A whole number in [low, high]."""

    doc: str
    default: Any
    low: int
    high: int

    @property
    def expected(self) -> str:
        """What it may be."""
        return f"a whole number from {self.low} to {self.high}"

    def parse(self, value: Any, key: Key) -> int:
        """The number as an int; raises SpecKeyError."""
        if not is_number(value) or (isinstance(value, float) and not value.is_integer()):
            advice = number_advice(value) if isinstance(value, str) else "write a whole number"
            raise SpecKeyError(key, self.expected, shown(value), advice)
        if not self.low <= value <= self.high:
            raise SpecKeyError(key, self.expected, shown(value), "use a number in that range")
        return int(value)

    def plain(self, value: int, *, explicit: bool = False) -> int:
        """A number."""
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Flag:
    """True or false."""

    doc: str
    default: Any

    @property
    def expected(self) -> str:
        """What it may be."""
        return "true or false"

    def parse(self, value: Any, key: Key) -> bool:
        """The flag; raises SpecKeyError."""
        if not isinstance(value, bool):
            raise SpecKeyError(key, self.expected, shown(value), "write true or false")
        return value

    def plain(self, value: bool, *, explicit: bool = False) -> bool:
        """The flag."""
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Word:
    """One of a few words."""

    doc: str
    default: Any
    allowed: tuple[str, ...]

    @property
    def expected(self) -> str:
        """What it may be."""
        return self.allowed[0] if len(self.allowed) == 1 else f"{', '.join(self.allowed[:-1])} or {self.allowed[-1]}"

    def parse(self, value: Any, key: Key) -> str:
        """The word; raises SpecKeyError."""
        if not isinstance(value, str) or value not in self.allowed:
            advice = nearest(value, self.allowed) or "use one of these"
            raise SpecKeyError(key, self.expected, shown(value), advice)
        return value

    def plain(self, value: str, *, explicit: bool = False) -> str:
        """The word."""
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        return {"enum": list(self.allowed)}


@dataclass(frozen=True)
class Text:
    """Any text, such as a path."""

    doc: str
    default: Any
    what: str = "text"

    @property
    def expected(self) -> str:
        """What it may be."""
        return self.what

    def parse(self, value: Any, key: Key) -> str:
        """The text; raises SpecKeyError."""
        if not isinstance(value, str):
            looks = "write it in quotes if it looks like a number or a date"
            raise SpecKeyError(key, self.expected, shown(value), looks if value is not None else f"write {self.what}")
        if not value.strip() or value == REQUIRED or not value.isprintable():
            raise SpecKeyError(key, self.expected, shown(value), f"write {self.what}")
        if self.what == "a folder" and f"{value}/".startswith("~/"):  # shells leave it as it is after key=
            raise SpecKeyError(key, f"{self.what} without ~", shown(value), "write the whole path, or $HOME in a shell")
        if "${" in value:
            raise SpecKeyError(key, f"{self.what} without ${{", shown(value), "rename it")
        return value

    def plain(self, value: str, *, explicit: bool = False) -> str:
        """The text."""
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True)
class Names:
    """A list of different names, whose order means nothing: kept sorted."""

    doc: str
    default: Any
    may_be_empty: bool = True

    @property
    def expected(self) -> str:
        """What it may be."""
        return "a list of names" if self.may_be_empty else "a list of one name or more"

    def parse(self, value: Any, key: Key) -> tuple[str, ...]:
        """The names, sorted; raises SpecKeyError."""
        if not isinstance(value, list):
            raise SpecKeyError(key, self.expected, shown(value), "write [first, second]")
        if not value and not self.may_be_empty:
            raise SpecKeyError(key, self.expected, "[]", "name one, or write null for all")
        text = Text(self.doc, None, "a name")
        names = [text.parse(item, (*key, index)) for index, item in enumerate(value)]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise SpecKeyError((*key, index), "each name once", shown(name), "remove it")
        return tuple(sorted(names))

    def plain(self, value: tuple[str, ...], *, explicit: bool = False) -> list[str]:
        """A list."""
        return list(value)

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        schema: dict[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}
        return schema if self.may_be_empty else {**schema, "minItems": 1}


@dataclass(frozen=True)
class Lines:
    """A list of texts in their order; a text may have several lines."""

    doc: str
    default: Any

    @property
    def expected(self) -> str:
        """What it may be."""
        return "a list of one text or more"

    def parse(self, value: Any, key: Key) -> tuple[str, ...]:
        """The texts; raises SpecKeyError."""
        if not isinstance(value, list) or not value:
            raise SpecKeyError(key, self.expected, shown(value), 'write ["first text", "second text"], or null')
        for index, text in enumerate(value):
            if not isinstance(text, str) or not text.strip() or "${" in text:
                raise SpecKeyError((*key, index), "a text", shown(text), "write it in quotes")
        return tuple(value)

    def plain(self, value: tuple[str, ...], *, explicit: bool = False) -> list[str]:
        """A list."""
        return list(value)

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""
        return {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}


def nearest(name: object, allowed: Sequence[str]) -> str | None:
    """A suggestion, if one of the allowed names is near.

    >>> nearest("evnets", ["events", "items"])
    'did you mean events?'
    """
    from difflib import get_close_matches

    close = get_close_matches(str(name).lower(), allowed, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else None


def key_field(rule: Rule, *, null: bool = False) -> Any:
    """A dataclass field that follows a rule; ``null`` allows null too."""
    used: Rule = OrNull(rule) if null else rule
    if used.default == REQUIRED:
        return field(metadata={"rule": used})
    return field(default_factory=lambda: used.parse(used.default, ()), metadata={"rule": used})
