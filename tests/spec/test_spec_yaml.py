"""Reading YAML strictly, and writing what reads back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscape.errors import SpecError
from synthscape.spec.yaml_text import read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1.5e+3", 1500.0),
        ("-1E3", -1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1_000_000", 1_000_000),
        ("-0", 0),
        ("+7", 7),
        ("no", "no"),
        ("off", "off"),
        ("Yes", "Yes"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("''", ""),
        ("1:30", "1:30"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("2024-01-31", "2024-01-31"),
        ("1e", "1e"),
        ("e3", "e3"),
        ("-", [None]),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("=", "="),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    """Numbers are numbers, and words that YAML 1.1 takes for flags, dates or base 60 are text."""
    read = read_yaml(text.encode(), "x")[0]

    assert read == value
    assert type(read) is type(value)


def test_lines_of_keys_and_items() -> None:
    """Every key and list item knows its line, through a BOM and CRLF."""
    _, lines = read_yaml(b"\xef\xbb\xbfa:\r\n  b: [1,\r\n    2]\r\n\r\nc: {d: 1}\r\n", "x")

    assert {key: line for key, line in lines.items() if key} == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "b", 0): 2,
        ("a", "b", 1): 3,
        ("c",): 5,
        ("c", "d"): 5,
    }


def test_aliases_are_written_out() -> None:
    """An anchor used twice gives its value twice."""
    assert read_yaml(b"a: &x {uniform: [1, 2]}\nb: *x\n", "x")[0] == {
        "a": {"uniform": [1, 2]},
        "b": {"uniform": [1, 2]},
    }


BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join('*' + before for _ in range(9))}]\n"
    for before, name in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: 1\nb:\n  c: 2\n  c: 3\n", "x:4: b.c: expected each key once, got it again, first on line 3; remove one"),
        (b"a: 1\n\n'a': 2\n", "x:3: a: expected each key once, got it again, first on line 1"),
        (b'"a\\nb": 1\n"a\\nb": 2\n', "x:2: 'a\\nb': expected each key once"),
        (b"a:\n\tb: 1\n", "x:2: expected spaces, got a tab; indent with spaces"),
        (b"a: [1, 2\nb: 3\n", "x:2: expected YAML, got something else"),
        (b"a: 1\n  b: 2\n", "x:2: expected YAML, got something else"),
        (b"a: 'open\n", "expected YAML, got something else"),
        (b"a: 1\n---\nb: 2\n", "x:2: expected one document, got a second one"),
        (b"a: *b\n", "x:1: expected YAML, got something else: found undefined alias"),
        (b"a: 1\nb: \x07\n", "x:2: expected text, got the control character U+0007; remove it"),
        (b"a: 1\nb: \xe9t\xe9\n", "x:2: expected UTF-8 text, got other bytes"),
        (b"RIFF\x24\x08\x00\x00WAVEfmt ", "x:1: expected text, got the control character"),
        ("a: 1\n".encode("utf-16"), "x: expected UTF-8 text, got UTF-16; save it as UTF-8"),
        (b"a: !!python/object/apply:os.system ['true']\n", "x:1: a: expected a plain value, got the tag '!!python/"),
        (b"a: !mine {b: 1}\n", "x:1: a: expected a plain value, got the tag '!mine'; remove the tag"),
        (b"a: !!binary aGk=\n", "x:1: a: expected a plain value, got the tag '!!binary'"),
        (b"a: !!int five\n", "x:1: a: expected a value that is int, got 'five'"),
        (b"a: " + b"9" * 5000 + b"\n", "x:1: a: expected a value that is int"),
        (b"[1, 2]: 3\n", "x:1: the spec: expected names as keys, got a list or mapping"),
        (b"a: &a [*a]\n", "levels of nesting, got more"),
        (b"[" * 3000 + b"]" * 3000, "levels"),
        (BOMB.encode(), "expected at most 100000 values, got more, unfolded from aliases"),
        (b"# " + b"x" * 1_000_000, "x: expected a spec of at most 1 MB, got 1000002 bytes"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_plain_yaml_is_refused(content: bytes, message: str) -> None:
    """One line says the file, the line and what is wrong; nothing is unfolded first."""
    with pytest.raises(SpecError) as raised:
        read_yaml(content, "x")

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=("C",), exclude_characters="\u2028\u2029"))
    | st.from_regex(r"[-+]?[0-9_.:eE~]{1,6}|yes|no|on|off|True|null|0x1f|1e5", fullmatch=True),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner),
    max_leaves=12,
)


@given(PLAIN)
def test_what_is_written_reads_back(value: Any) -> None:
    """Numbers stay numbers and text stays text, however they look."""
    read = read_yaml(write_yaml(value).encode(), "x")[0]

    assert read == value
    assert repr(read) == repr(value)


@given(st.binary(max_size=80) | st.text(alphabet="ab:-[]{}&*!'\"\n \t#|>%@0.", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    """No file, however odd, ends in anything but a value or a SpecError on one line."""
    message = ""
    try:
        read_yaml(content, "x")
    except SpecError as error:
        message = str(error)

    assert "\n" not in message
