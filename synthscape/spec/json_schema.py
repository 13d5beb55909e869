"""The spec as JSON Schema, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any, Final

from synthscape.spec.distributions import KINDS, MOST_CHOICES, YAML_KINDS
from synthscape.spec.fields import REQUIRED, Draw, OrNull, Rule
from synthscape.spec.schema import Spec, section_keys

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_NUMBER: Final = {"type": "number"}
_MEMBER: Final = {"$ref": "#/$defs/distribution"}


def spec_json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a spec file: every key with its meaning and default.

    It says what a key may hold by itself. What keys must fulfil together, and whether a distribution stays within
    what its key allows, only :func:`synthscape.spec.load_spec` checks.
    """
    schema = {"$schema": DIALECT, "title": "synthscape spec", **_section(Spec)}
    schema["$defs"] = {"distribution": _distribution()}
    return schema


def _section(section: type) -> dict[str, Any]:
    keys = section_keys(section)
    schema: dict[str, Any] = {
        "type": "object",
        "description": summary(section),
        "additionalProperties": False,
        "properties": {
            name: _section(inner) if isinstance(inner, type) else _value(inner) for name, inner in keys.items()
        },
    }
    required = [name for name, inner in keys.items() if not isinstance(inner, type) and inner.default == REQUIRED]
    return {**schema, "required": required} if required else schema


def _value(rule: Rule) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": describe(rule)}
    if rule.default != REQUIRED:
        schema["default"] = rule.default
    return {**schema, **rule.json_schema()}


def summary(section: type) -> str:
    """The first line of a section's docstring."""
    return (section.__doc__ or "").splitlines()[0]


def describe(rule: Rule) -> str:
    """What a key means; for a drawn one also how often it is drawn."""
    inner = rule.rule if isinstance(rule, OrNull) else rule
    if not isinstance(inner, Draw):
        return rule.doc
    others = f" (or {', '.join(inner.per[1:])})" if inner.per[1:] else ""
    return f"{rule.doc}; drawn per {inner.per[0]}{others}"


def _distribution() -> dict[str, Any]:
    return {
        "description": "a number, or exactly one kind of distribution",
        "oneOf": [_NUMBER, *(_kind(name) for name in YAML_KINDS)],
    }


def _kind(name: str) -> dict[str, Any]:
    count = len(KINDS[name].parameters)
    properties: dict[str, Any] = {"per": {"enum": ["event", "scene", "class"]}}
    if name in ("choice", "mixture"):
        member = _NUMBER if name == "choice" else _MEMBER
        content: dict[str, Any] = {"type": "array", "minItems": 1, "maxItems": MOST_CHOICES, "items": member}
        properties["weights"] = {"type": "array", "items": {"type": "number", "minimum": 0}}
    else:
        content = {"type": "array", "minItems": count, "maxItems": count, "items": _MEMBER}
        if count == 1:
            content = {"oneOf": [_MEMBER, content]}
    if name != "bernoulli":
        properties["clip"] = {"type": "array", "minItems": 2, "maxItems": 2, "items": _NUMBER}
    return {
        "type": "object",
        "description": f"{KINDS[name].meaning}: [{', '.join(KINDS[name].parameters)}]",
        "required": [name],
        "additionalProperties": False,
        "properties": {name: content, **properties},
    }
