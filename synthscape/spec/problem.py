"""One way to say what is wrong with a key."""

from __future__ import annotations

from typing import Final

from synthscape.errors import SpecError

Key = tuple[str | int, ...]

_LONGEST_SHOWN: Final = 80


class SpecKeyError(SpecError):
    """A value that a spec can't have: which key, what was expected, what was got, what to do.

    Where the value came from (file and line, or an override) is known to the loader, which says it in front.
    """

    def __init__(self, key: Key, expected: str, got: str, advice: str):
        super().__init__(f"{key_text(key)}: expected {expected}, got {got}; {advice}")
        self.key = key


def key_text(key: Key) -> str:
    """A key as people write it.

    >>> key_text(("events", "snr", "db", "mixture", 1))
    'events.snr.db.mixture[1]'
    """
    text = ""
    for part in key:
        name = part if isinstance(part, int) or part.isprintable() else repr(part)
        text += f"[{name}]" if isinstance(part, int) else f".{name}" if text else str(name)
    return text or "the spec"


def shown(value: object) -> str:
    """A value for a message: on one line, and short.

    >>> shown({"uniform": [5, 1]})
    '{uniform: [5, 1]}'
    >>> shown(None), shown(True), shown("1")
    ('null', 'true', "'1'")
    """
    text = _shown(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def _shown(value: object, depth: int = 0) -> str:
    if depth > 8:
        return "..."
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        pairs = (f"{name}: {_shown(item, depth + 1)}" for name, item in list(value.items())[:20])
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_shown(item, depth + 1) for item in value[:20]) + "]"
    if isinstance(value, float):
        return number_text(value)
    return repr(value)


def number_text(value: float) -> str:
    """A number without a needless ``.0``.

    >>> number_text(10.0), number_text(0.25), number_text(1e-7)
    ('10', '0.25', '1e-07')
    """
    number = float(value)  # an int has no is_integer before Python 3.12
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
