"""YAML, strictly: what one reads is what stands there, with the line of every key.

Scalars follow YAML 1.2: ``no`` and ``off`` are text, ``1e-3`` is a number, ``1:30`` and ``010`` are text (YAML 1.1
reads them as false, text, 90 and 8). Tags other than those of plain values, keys given twice, and files that unfold to
more than a spec can hold are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from synthscape.errors import SpecError
from synthscape.spec.problem import Key, key_text

LARGEST_FILE_BYTES: Final = 1_000_000
MOST_NODES: Final = 100_000  # after unfolding aliases
DEEPEST: Final = 50

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = (
    ("null", re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")),
    ("int", re.compile(r"[-+]?(0|[1-9](_?[0-9])*)"), list("-+0123456789")),
    (
        "float",
        re.compile(
            r"[-+]?([0-9](_?[0-9])*\.([0-9](_?[0-9])*)?|\.[0-9](_?[0-9])*|[0-9](_?[0-9])*(?=[eE]))([eE][-+]?[0-9]+)?"
            r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
        ),
        list("-+.0123456789"),
    ),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal lists in full."""
        return True


for _name, _pattern, _first in _SCALARS:
    _whole = re.compile(f"(?:{_pattern.pattern})\\Z")
    _Loader.add_implicit_resolver(_TAG + _name, _whole, _first)
    _Dumper.add_implicit_resolver(_TAG + _name, _whole, _first)


def read_yaml(content: bytes, name: str, *, key: Key = (), numbered: bool = True) -> tuple[Any, dict[Key, int]]:
    """The value of a YAML document, and the line of every key and list item.

    Args:
        content: the file's bytes, UTF-8.
        name: what to call it in messages.
        key: where the value will stand, for messages.
        numbered: whether messages name the line.

    Raises:
        SpecError: it is no YAML, not UTF-8, too large, holds a key twice or a tag, ...
    """
    source = _Source(name, numbered)
    if len(content) > LARGEST_FILE_BYTES:
        raise SpecError(f"{name}: expected a spec of at most 1 MB, got {len(content)} bytes; is this the right file?")
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise SpecError(f"{name}: expected UTF-8 text, got UTF-16; save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SpecError(f"{source.at(line)}: expected UTF-8 text, got other bytes; is this the right file?") from None
    node = _compose(text, source)
    if node is None:
        return None, {}
    builder = _Builder(source)
    return builder.build(node, key, node.start_mark.line + 1, ()), builder.lines


def write_yaml(value: Any) -> str:
    """YAML that :func:`read_yaml` reads back as the same value; innermost lists and mappings on one line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


@dataclass(frozen=True)
class _Source:
    name: str
    numbered: bool

    def at(self, line: int) -> str:
        return f"{self.name}:{line}" if self.numbered else self.name


def _compose(text: str, source: _Source) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        said = error.problem or error.context or "it can't be read"
        if "'\\t'" in said:
            raise SpecError(f"{source.at(line)}: expected spaces, got a tab; indent with spaces") from None
        if "expected a single document" in str(error):
            raise SpecError(
                f"{source.at(line)}: expected one document, got a second one; remove what follows ---"
            ) from None
        raise SpecError(f"{source.at(line)}: expected YAML, got something else: {said}; correct this line") from None
    except yaml.reader.ReaderError as error:
        line = text[: int(error.position)].count("\n") + 1
        character = f"U+{ord(text[int(error.position)]):04X}"
        said = f"expected text, got the control character {character}; remove it"
        raise SpecError(f"{source.at(line)}: {said}") from None
    except RecursionError:
        raise SpecError(f"{source.name}: expected at most {DEEPEST} levels, got more; is this a spec?") from None


class _Builder:
    """Turns nodes into plain values and notes their lines."""

    def __init__(self, source: _Source):
        self.source = source
        self.lines: dict[Key, int] = {}
        self.nodes = 0

    def build(self, node: yaml.Node, key: Key, line: int, around: tuple[int, ...]) -> Any:
        self.lines[key] = line
        self.nodes += 1
        if self.nodes > MOST_NODES:
            self.fail(line, key, f"at most {MOST_NODES} values", "more, unfolded from aliases", "write them out")
        if len(around) > DEEPEST or id(node) in around:
            self.fail(line, key, f"at most {DEEPEST} levels of nesting", "more", "is this a spec?")
        around = (*around, id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, key, around)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [
                self.build(item, (*key, index), item.start_mark.line + 1, around)
                for index, item in enumerate(node.value)
            ]
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, key, line)
        return self.fail(line, key, "a plain value", f"the tag {_short(node.tag)}", "remove the tag")

    def mapping(self, node: yaml.MappingNode, key: Key, around: tuple[int, ...]) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for name_node, value_node in node.value:
            line = name_node.start_mark.line + 1
            if not isinstance(name_node, yaml.ScalarNode):
                self.fail(line, key, "names as keys", "a list or mapping", "write a name in front of the colon")
            name = str(name_node.value)
            inner = (*key, name)
            if name in built:
                self.fail(line, inner, "each key once", f"it again, first on line {self.lines[inner]}", "remove one")
            built[name] = self.build(value_node, inner, line, around)
        return built

    def scalar(self, node: yaml.ScalarNode, key: Key, line: int) -> Any:
        text = str(node.value)
        try:
            if node.tag == _TAG + "str":
                return text
            if node.tag == _TAG + "null":
                return None
            if node.tag == _TAG + "bool":
                return {"true": True, "false": False}[text.lower()]
            if node.tag == _TAG + "int":
                return int(text)
            if node.tag == _TAG + "float":
                return float(text.replace(".inf", "inf").replace(".nan", "nan") if text[-1].isalpha() else text)
        except (ValueError, KeyError):
            kind = node.tag.removeprefix(_TAG)
            self.fail(line, key, f"a value that is {kind}", repr(text[:40]), "correct it, or write it in quotes")
        return self.fail(line, key, "a plain value", f"the tag {_short(node.tag)}", "remove the tag")

    def fail(self, line: int, key: Key, expected: str, got: str, advice: str) -> Any:
        raise SpecError(f"{self.source.at(line)}: {key_text(key)}: expected {expected}, got {got}; {advice}")


def _short(tag: str) -> str:
    return repr(tag.replace(_TAG, "!!"))[:60]
