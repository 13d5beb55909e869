"""Licences as archives write them, made comparable.

>>> normalise_licence("CC BY-NC 4.0"), normalise_licence("//creativecommons.org/licenses/by-nc-nd/4.0/")
('CC-BY-NC-4.0', 'CC-BY-NC-ND-4.0')
>>> licence_matches("CC BY-ND 4.0", "CC-BY-ND"), licence_matches("CC BY-NC 4.0", "CC-BY")
(True, False)
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

_PUBLIC_DOMAIN: Final = "Public-Domain"
_PARTS: Final = {"noncommercial": "NC", "noderivatives": "ND", "noderivs": "ND", "sharealike": "SA"}


class _Licence(NamedTuple):
    family: str
    version: str = ""
    suffix: str = ""  # "or-later", "only"

    def __str__(self) -> str:
        return "-".join(part for part in self if part)


def normalise_licence(text: str | None) -> str | None:
    """An id that is the same for all ways to write a licence: family, version if given, ``or-later`` or ``only``.

    >>> normalise_licence("cc-by-sa 3.0"), normalise_licence("GPLv3+"), normalise_licence("Public domain (US NPS)")
    ('CC-BY-SA-3.0', 'GPL-3.0-or-later', 'Public-Domain')
    >>> normalise_licence("MIT (repository); InsectSet459")
    'MIT; InsectSet459'

    A text that names several, apart by ``;``, keeps all of them. What is not known is kept as it is, words joined by
    ``-``. Nothing (None, or empty) stays None: an unknown licence.
    """
    parts = _parse(text) if text else ()
    return "; ".join(str(part) for part in parts) or None


def licence_matches(licence: str | None, pattern: str) -> bool:
    """True if a clip's licence is the one a pattern names; a pattern without a version means all versions.

    >>> licence_matches("GPL-2.0-or-later", "GPL"), licence_matches("GPL-2.0-or-later", "GPL-3.0")
    (True, False)
    >>> licence_matches(None, "CC-BY")
    False

    A text that names several licences is matched by each of them. An unknown licence (None) is matched by nothing.
    """
    return any(_is(part, wanted) for part in _parse(licence or "") for wanted in _parse(pattern))


def _is(licence: _Licence, wanted: _Licence) -> bool:
    return (
        licence.family.lower() == wanted.family.lower()
        and wanted.version in ("", licence.version)
        and wanted.suffix in ("", licence.suffix)
    )


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[_Licence, ...]:
    parts = (_parse_one(part) for part in text.split(";"))
    return tuple(part for part in parts if part.family)


def _parse_one(text: str) -> _Licence:
    plain = re.sub(r"\([^)]*\)", " ", text).strip()
    low = plain.lower().replace("_", " ")
    if re.search(r"\bcc-?0\b|publicdomain/zero|\bcc[ -]zero\b", low):
        return _Licence("CC0", _version(low.split("0", 1)[1]) if low.startswith("cc0") else _version(low))
    if re.search(r"public[ -]?domain", low) or low in ("pd", "pdm"):
        return _Licence(_PUBLIC_DOMAIN)
    url = re.search(r"creativecommons\.org/licen[sc]es/(by[a-z-]*)(?:/(\d+\.\d+))?", low)
    short = re.search(r"\bcc[ -]*(by(?:[ -]*(?:nc|nd|sa))*)\b", low)
    long = re.search(r"(?:creative commons|\bcc)[ -]*attribution(.*)", low)
    if url:
        return _creative_commons(re.findall(r"nc|nd|sa", url[1]), url[2] or "")
    if short:
        return _creative_commons(re.findall(r"nc|nd|sa", short[1]), _version(low[short.end() :]))
    if long:
        words = re.sub(r"[ -]", "", long[1])
        return _creative_commons([sign.lower() for word, sign in _PARTS.items() if word in words], _version(long[1]))
    gnu = re.search(r"\b(a|l)?gpl[ -]*v?[ -]*(\d+(?:\.\d+)?)?[ -]*(or[ -]later|only|\+)?", low)
    if gnu:
        version = gnu[2] or ""
        suffix = {"+": "or-later", "only": "only", None: ""}.get(gnu[3], "or-later")
        return _Licence(f"{(gnu[1] or '').upper()}GPL", version + ".0" if version.isdigit() else version, suffix)
    other = re.match(r"(.*?)[ -]+v?(\d+\.\d+)$", plain)
    if other:
        return _Licence(_joined(other[1]), other[2])
    return _Licence(_joined(plain))


def _creative_commons(parts: list[str], version: str) -> _Licence:
    return _Licence("-".join(["CC", "BY", *(sign for sign in ("NC", "ND", "SA") if sign.lower() in parts)]), version)


def _version(text: str) -> str:
    found = re.search(r"\d+\.\d+", text)
    return found[0] if found else ""


def _joined(text: str) -> str:
    return "-".join(re.findall(r"[\w.+]+", text))
