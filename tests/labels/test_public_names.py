"""The public names of the package."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import synthscape


def test_exported_names_are_the_documented_ones():
    """The table in the package's docstring lists ``__all__``, no more and no less."""
    table = synthscape.__doc__.split("=====\n", 1)[1]
    documented = re.findall(r"``(\w+)``", table)

    assert sorted(documented) == sorted(synthscape.__all__)
    assert len(documented) == len(set(documented))


@pytest.mark.parametrize("name", synthscape.__all__)
def test_every_exported_name_resolves(name):
    """Each is there, is what its name says, and has a docstring."""
    value = getattr(synthscape, name)

    assert value.__name__ == name
    assert value.__doc__


def test_unknown_names_are_attribute_errors():
    """A typo is told as for any module."""
    with pytest.raises(AttributeError, match="SceneGenrator"):
        _ = synthscape.SceneGenrator


def test_importing_the_package_loads_nothing():
    """``import synthscape`` is free."""
    script = "import sys; import synthscape; print([m for m in ('numpy', 'numba', 'pandas') if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ended.stdout == "[]\n"
