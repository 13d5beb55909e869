"""Fixtures of the spec's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from synthscape.errors import SpecError
from synthscape.spec import Spec, load_spec


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], str]:
    """Write a spec to my.yaml in an empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def _write(text: str | bytes) -> str:
        Path("my.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        return "my.yaml"

    return _write


@pytest.fixture
def load(write: Callable[[str | bytes], str]) -> Callable[..., Spec]:
    """Load a spec from text."""
    return lambda text, *overrides: load_spec(write(text), overrides)


@pytest.fixture
def refusal(load: Callable[..., Spec]) -> Callable[..., str]:
    """The message, one line, with which a spec is refused."""

    def _refusal(text: str | bytes, *overrides: str) -> str:
        with pytest.raises(SpecError) as raised:
            load(text, *overrides)
        message = str(raised.value)
        assert "\n" not in message
        return message

    return _refusal
