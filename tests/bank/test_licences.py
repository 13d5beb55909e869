"""Licences compared however they are written."""

from __future__ import annotations

import pytest

from synthscape.bank.licences import licence_matches, normalise_licence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CC BY-NC 4.0", "CC-BY-NC-4.0"),
        ("CC-BY-NC", "CC-BY-NC"),
        ("cc_by_nc", "CC-BY-NC"),
        ("cc by-sa-nc 2.5", "CC-BY-NC-SA-2.5"),
        ("//creativecommons.org/licenses/by-nc-nd/4.0/", "CC-BY-NC-ND-4.0"),
        ("https://creativecommons.org/licenses/by/3.0/us/", "CC-BY-3.0"),
        ("Creative Commons Attribution-NonCommercial-ShareAlike 4.0 International", "CC-BY-NC-SA-4.0"),
        ("CC0 1.0", "CC0-1.0"),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
        ("Public domain (US NPS) in an MIT repository", "Public-Domain"),
        ("GPL-2.0-or-later", "GPL-2.0-or-later"),
        ("GPLv3", "GPL-3.0"),
        ("MIT", "MIT"),
        ("BSD-3-Clause (repository)", "BSD-3-Clause"),
        ("MIT (repository); InsectSet459", "MIT; InsectSet459"),
        ("All rights reserved", "All-rights-reserved"),
        ("", None),
        (None, None),
    ],
)
def test_normalised(text, expected):
    """Each way to write a licence gives its id; what is normalised once stays as it is."""
    assert normalise_licence(text) == expected
    assert normalise_licence(normalise_licence(text)) == expected


@pytest.mark.parametrize(
    ("licence", "pattern", "matches"),
    [
        ("CC BY-ND 4.0", "CC-BY-ND", True),
        ("CC BY-ND 4.0", "CC-BY-ND-3.0", False),
        ("CC BY-NC 4.0", "CC-BY", False),
        ("CC BY-NC-ND 4.0", "CC-BY-ND", False),
        ("CC BY 4.0", "cc by 4.0", True),
        ("GPL-2.0-or-later", "GPL", True),
        ("GPL-3.0", "LGPL", False),
        ("MIT (repository); InsectSet459", "InsectSet459", True),
        (None, "CC-BY", False),
        ("", "", False),
    ],
)
def test_matches(licence, pattern, matches):
    """A pattern matches its own licence in any version, or the version it names, never a licence that says more."""
    assert licence_matches(licence, pattern) is matches
