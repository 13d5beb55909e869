"""The tables of docs/spec.md, as they follow from the schema."""

from __future__ import annotations

from collections.abc import Iterator

from synthscape.spec.distributions import KINDS
from synthscape.spec.fields import REQUIRED, Draw, OrNull, Rule
from synthscape.spec.problem import shown
from synthscape.spec.schema import Spec, section_keys


def keys(section: type = Spec, prefix: str = "") -> Iterator[tuple[str, Rule]]:
    """Every key of a spec that holds a value, with its rule."""
    for name, inner in section_keys(section).items():
        if isinstance(inner, type):
            yield from keys(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, inner


def key_rows() -> list[str]:
    """A row of the table of keys for each key."""
    return [f"| `{key}` | {_default(rule)} | {rule.doc} | {_allowed(rule)} |" for key, rule in keys()]


def kind_rows() -> list[str]:
    """A row of the table of distributions for each kind."""
    return [f"| `{kind.example}` | {', '.join(kind.parameters)} | {kind.meaning} |" for kind in KINDS.values()]


def _default(rule: Rule) -> str:
    if rule.default == REQUIRED:
        return "required"
    return f"`{rule.default if isinstance(rule.default, str) else shown(rule.default).replace(chr(39), '')}`"


def _allowed(rule: Rule) -> str:
    inner = rule.rule if isinstance(rule, OrNull) else rule
    per = f"; per {' or '.join(inner.per)}" if isinstance(inner, Draw) else ""
    return rule.expected + per
