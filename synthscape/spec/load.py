"""Reading a spec: a file or a shipped name, overrides on top, every problem with its place."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from synthscape.errors import SpecError
from synthscape.spec.checks import check_spec
from synthscape.spec.fields import REQUIRED, OrNull, Text, nearest
from synthscape.spec.problem import Key, SpecKeyError, key_text, shown
from synthscape.spec.schema import Spec, section_keys
from synthscape.spec.yaml_text import read_yaml

_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")


def load_spec(path_or_name: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Spec:
    """Read and check a spec.

    >>> spec = load_spec("strong_detection", ["items=100", "events.snr.db={normal: [0, 3]}"])
    >>> spec.items, spec.events.snr.db.kind
    (100, 'normal')

    Stores are not looked at: their paths may not exist yet.

    Args:
        path_or_name: a YAML file, or the name of a spec that comes with the package.
        overrides: ``key.path=value`` with a YAML value. A value replaces what stands there, distributions too;
            keys of a section (``events={count: 3}``) are replaced one by one.

    Raises:
        SpecError: the spec or an override is wrong; says where (file and line, or the override), the key, what was
            expected, what was got and what to do.
        OSError: the file can't be read.
    """
    return load_with_origins(path_or_name, overrides)[0]


def load_with_origins(path_or_name: str | os.PathLike[str], overrides: Sequence[str] = ()) -> tuple[Spec, Origins]:
    """As :func:`load_spec`, with where each key was set."""
    if isinstance(overrides, str):
        raise SpecError(f"overrides: expected a list such as ['items=100'], got {shown(overrides)}; put it in a list")
    name, content = _read(path_or_name)
    tree, lines = read_yaml(content, name)
    if not isinstance(tree, dict):
        got = "an empty file" if tree is None else shown(tree)
        raise SpecError(f"{name}:{lines.get((), 1)}: expected keys such as 'items: 1000', got {got}; write a spec")
    origins = Origins(name, {key: f"{name}:{line}" for key, line in lines.items() if key})
    try:
        _check_keys(tree, Spec, ())
        for override in overrides:
            _apply(tree, override, origins)
        spec = _parsed(_with_references_resolved(_merged(tree, Spec)), Spec, ())
        check_spec(spec)
    except SpecKeyError as problem:
        raise SpecError(f"{origins.of(problem.key)}: {problem}") from None
    return spec, origins


@dataclass(frozen=True)
class Origins:
    """Where each key of a loaded spec was set."""

    name: str
    places: dict[Key, str]

    def of(self, key: Key) -> str:
        """File and line, or the override; of the nearest key around it if the key itself was not given."""
        for end in range(len(key), 0, -1):
            if key[:end] in self.places:
                return self.places[key[:end]]
        return self.name

    def replace(self, key: Key, place: str) -> None:
        """Note that ``key`` and all below it were set at ``place``."""
        for inner in [inner for inner in self.places if inner[: len(key)] == key]:
            del self.places[inner]
        self.places[key] = place


def shipped_specs() -> list[str]:
    """Names of the specs that come with the package."""
    return sorted(Path(entry.name).stem for entry in _shipped_folder().iterdir() if entry.name.endswith(".yaml"))


def _shipped_folder() -> Any:
    from importlib.resources import files

    return files("synthscape_scene_specs")


def _read(path_or_name: str | os.PathLike[str]) -> tuple[str, bytes]:
    name = os.fspath(path_or_name)
    path = Path(name)
    is_path = not isinstance(path_or_name, str) or path.suffix in (".yaml", ".yml") or path.name != name
    if not is_path and not path.is_file():
        shipped = shipped_specs()
        if name in shipped:
            return f"{name}.yaml", (_shipped_folder() / f"{name}.yaml").read_bytes()
        advice = nearest(name, shipped) or "a file of your own ends in .yaml"
        raise SpecError(f"spec {name!r}: expected a YAML file or one of {', '.join(shipped)}, got neither; {advice}")
    if not path.is_file():
        got = "a folder" if path.is_dir() else "nothing"
        raise SpecError(f"{name}: expected a spec file, got {got}; shipped specs: {', '.join(shipped_specs())}")
    return name, path.read_bytes()


# Checking names of keys


def _check_keys(tree: Any, section: type, key: Key) -> None:
    if not isinstance(tree, dict):
        raise SpecKeyError(key, "keys, indented under it", shown(tree), "add keys, or remove it")
    known = section_keys(section)
    for name, value in tree.items():
        if name not in known:
            raise _unknown((*key, name), section)
        inner = known[name]
        if isinstance(inner, type):
            _check_keys(value, inner, (*key, name))


def _unknown(key: Key, section: type) -> SpecKeyError:
    known = list(section_keys(section))
    name = str(key[-1])
    elsewhere = [key_text(other) for other in _all_keys(Spec, ()) if other[-1] == name]
    advice = f"did you mean {elsewhere[0]}?" if elsewhere else nearest(name, known) or "use one of these"
    around = key_text(key[:-1]) if key[:-1] else "the spec"
    return SpecKeyError(key, f"a key of {around} ({', '.join(known)})", shown(name), advice)


def _all_keys(section: type, key: Key) -> Iterator[Key]:
    for name, inner in section_keys(section).items():
        yield (*key, name)
        if isinstance(inner, type):
            yield from _all_keys(inner, (*key, name))


# Overrides


def _apply(tree: dict[str, Any], override: str, origins: Origins) -> None:
    place = f"override {shown(override)}"
    path, equals, text = override.partition("=")
    key: Key = tuple(path.strip().split("."))
    if not equals or "" in key:
        raise SpecError(f"{place}: expected key=value, got {override!r}; write for example items=100")
    try:
        inner, depth = _walk(key)
        value = _override_value(text.strip(), inner, key, place)
        if len(key) > depth:
            value = _inside(_at(tree, key[:depth], inner.default), key[depth:], value)
        for name in reversed(key[:depth]):
            value = {name: value}
        _check_keys(value, Spec, ())
    except SpecKeyError as problem:
        raise SpecError(f"{place}: {problem}") from None
    _merge(tree, value, Spec, (), origins, place)


def _walk(key: Key) -> tuple[Any, int]:
    """The rule or section that a key leads to, and how many of its parts name it (the rest is in a distribution)."""
    section: type = Spec
    for depth, name in enumerate(key, start=1):
        inner = section_keys(section).get(str(name))
        if inner is None:
            raise _unknown(key[:depth], section)
        if not isinstance(inner, type):
            return inner, depth
        section = inner
    return section, len(key)


def _override_value(text: str, inner: Any, key: Key, place: str) -> Any:
    rule = inner.rule if isinstance(inner, OrNull) else inner
    if isinstance(rule, Text) and text[:1] not in ("'", '"') and text not in ("null", "~", ""):
        return text  # a path stands as it is, whatever YAML would make of it
    return read_yaml(text.encode("utf-8", "surrogatepass"), place, key=key, numbered=False)[0]


def _inside(around: Any, key: Key, value: Any) -> Any:
    """A copy of a distribution's mapping with one of its own keys set, such as ``clip``."""
    if not key:
        return value
    changed = dict(around) if isinstance(around, dict) else {}
    changed[str(key[0])] = _inside(changed.get(str(key[0])), key[1:], value)
    return changed


def _merge(tree: dict[str, Any], value: dict[str, Any], section: type, key: Key, origins: Origins, place: str) -> None:
    """Put values into a tree: sections key by key, what stands for a key as a whole."""
    for name, item in value.items():
        inner = section_keys(section)[name]
        if isinstance(inner, type):
            _merge(tree.setdefault(name, {}), item, inner, (*key, name), origins, place)
        else:
            tree[name] = item
            origins.replace((*key, name), place)


# From a tree of plain values to a Spec


def _merged(tree: dict[str, Any], section: type) -> dict[str, Any]:
    """The tree with defaults where it says nothing."""
    return {
        name: _merged(tree.get(name, {}), inner) if isinstance(inner, type) else tree.get(name, inner.default)
        for name, inner in section_keys(section).items()
    }


def _with_references_resolved(tree: dict[str, Any]) -> Any:
    """Replace ``${key.path}`` by the number or text of that key.

    References to references, to distributions, and resolvers such as ``${oc.env:HOME}`` are refused: a spec from
    someone else must neither unfold without bound nor read the environment into a dataset.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for key, text in _texts(tree, ()):
        for name in _REFERENCE.findall(text):
            target = _at(tree, tuple(name.split(".")), REQUIRED)
            if target == REQUIRED or isinstance(target, dict | list) or (isinstance(target, str) and "${" in target):
                advice = "write it out, or refer to a key that is a number or text"
                raise SpecKeyError(key, "a reference to a number or text of this spec", shown(text), advice)
        if "${" in _REFERENCE.sub("", text) or "\\" in text:
            raise SpecKeyError(key, "references as ${key.path}", shown(text), "write it out")
    try:
        return OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    except OmegaConfBaseException as error:
        key = tuple(str(error.full_key or "").split("."))
        raise SpecKeyError(key, "references as ${key.path}", str(error).splitlines()[0], "write it out") from None


def _texts(tree: Any, key: Key) -> Iterator[tuple[Key, str]]:
    if isinstance(tree, str) and "${" in tree:
        yield key, tree
    elif isinstance(tree, dict | list):
        for name, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _texts(item, (*key, name))


def _at(tree: Any, key: Key, default: Any) -> Any:
    """The plain value that stands at a key."""
    for name in key:
        if not isinstance(tree, dict) or name not in tree:
            return default
        tree = tree[name]
    return tree


def _parsed(tree: dict[str, Any], section: type, key: Key) -> Any:
    values = {}
    for name, inner in section_keys(section).items():
        value, place = tree[name], (*key, name)
        if isinstance(inner, type):
            values[name] = _parsed(value, inner, place)
        elif value == REQUIRED:
            raise SpecKeyError(
                place, "it to be given", "nothing", f"add '{name}: ...' or override {key_text(place)}=..."
            )
        else:
            values[name] = inner.parse(value, place)
    return section(**values)
