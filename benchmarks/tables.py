"""Figures as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


class NotMeasuredError(Exception):
    """A part that can't be measured here, and what is missing; the other parts are."""


@dataclass
class Section:
    """One part of the results: a heading, a sentence, tables."""

    title: str
    text: str
    tables: list[tuple[Sequence[str], Sequence[Sequence[str]]]] = field(default_factory=list)

    def add(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        self.tables.append((head, rows))

    def markdown(self) -> str:
        """The section as text."""
        parts = [f"## {self.title}", self.text]
        for head, rows in self.tables:
            lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return "\n\n".join(parts)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Median, and lowest to highest if there are several."""
    middle = number(median(values), digits)
    if len(values) == 1:
        return middle
    return f"{middle} ({number(min(values), digits)} to {number(max(values), digits)})"


def number(value: float, digits: int = 3) -> str:
    """A number with this many digits that count, no exponent."""
    if value == 0:
        return "0"
    whole = len(f"{abs(value):.0f}")
    decimals = max(0, digits - whole) if abs(value) >= 1 else digits - 1
    rounded = round(value, digits - whole) if whole > digits else value
    return f"{rounded:,.{decimals}f}".replace(",", " ")


def verdict(value: float, least: float) -> str:
    """Whether a target is met."""
    return "met" if value >= least else "missed"
