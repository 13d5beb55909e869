"""Stores that tests of rendering at scale share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from synthscape.cli import main
from tests.scale.tiny import make_stores


@pytest.fixture(scope="session")
def tiny_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of six calls of 0.05 s, and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("tiny-stores"))


@pytest.fixture(scope="session")
def broken_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but one call is silent where it claims to be active: scenes with it can't be rendered."""
    return make_stores(tmp_path_factory.mktemp("broken-stores"), broken=True)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command line; give its exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["synthscape", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk of 2 MB and 400 files."""
    folder = Path(tempfile.mkdtemp(prefix="synthscape-disk-"))
    if not _mount("-t", "tmpfs", "-o", "size=2m,nr_inodes=400", "tmpfs", str(folder)):
        if os.environ.get("CI"):
            pytest.fail("CI is set, but no disk can be mounted: run the tests as root")
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


def _mount(*arguments: str) -> bool:
    if sys.platform != "linux" or shutil.which("mount") is None:
        return False
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0
