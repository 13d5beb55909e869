"""First use where nothing but the output can be written: a read-only install, an unwritable home."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from synthscape.bank.store import ClipStore
from synthscape.output.dataset import open_dataset
from tests.ordinary_user import AS_ORDINARY_USER
from tests.packaging.installs import install, run, site_packages

_WARNING = "no writable cache folder"


class ReadOnly:
    """An environment, and a home, that nothing can be written to."""

    def __init__(self, programs: Path, home: Path):
        self.programs = programs
        self.home = home
        self.folders = [site_packages(programs.parent), home]

    def run(self, command: list[str], cwd: Path) -> CompletedProcess[str]:
        """Run a program of the environment without a way around the read-only folders."""
        # Kernels are compiled without optimisation, as only that they are compiled matters here.
        environment = {"HOME": str(self.home), "USERPROFILE": str(self.home), "NUMBA_OPT": "0"}
        return run([sys.executable, "-c", AS_ORDINARY_USER, *command], cwd, environment)

    def content(self) -> list[tuple[str, int]]:
        """All that is in the folders: path and time of the last change."""
        return sorted((str(path), path.stat().st_mtime_ns) for top in self.folders for path in (top, *top.rglob("*")))


@pytest.fixture(scope="module")
def read_only(wheel, tmp_path_factory) -> Iterator[ReadOnly]:
    """A read-only install."""
    folder = tmp_path_factory.mktemp("read-only")
    programs = install(wheel, folder / "venv")
    (folder / "home").mkdir()
    made = ReadOnly(programs, folder / "home")
    paths = [path for top in made.folders for path in (top, *top.rglob("*"))]
    for path in paths:
        path.chmod(path.stat().st_mode & 0o555)
    check = f"import os; print([path for path in {list(map(str, made.folders))} if os.access(path, os.W_OK)])"
    try:
        assert made.run([str(programs / "python"), "-c", check], folder).stdout == "[]\n"
        yield made
    finally:
        for path in paths:
            path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.skipif(os.name != "posix", reason="folders are made read-only by their mode")
def test_read_only_install_renders(read_only: ReadOnly, bank: ClipStore, backgrounds: ClipStore, tmp_path: Path):
    """A render works, says once that kernels are not cached, and writes nothing but the dataset."""
    before = read_only.content()
    overrides = ["items=2", "duration=2", f"bank={bank.path}", f"backgrounds={backgrounds.path}", "output.dir=out"]
    ended = read_only.run([str(read_only.programs / "synthscape"), "render", "strong_detection", *overrides], tmp_path)

    assert ended.stderr.count(_WARNING) == 1, ended.stderr
    assert open_dataset(tmp_path / "out").verify() == []
    assert read_only.content() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(os.name != "posix", reason="folders are made read-only by their mode")
def test_read_only_install_draws(read_only: ReadOnly, tmp_path: Path):
    """A picture can be drawn where the plotting library can't keep its caches."""
    before = read_only.content()
    script = (
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from synthscape.labels.schema import EVENTS_SCHEMA\n"
        "from synthscape.report.pictures import Panel, picture_sheet\n"
        "noise = np.random.default_rng(1).standard_normal(16000).astype('float32') / 10\n"
        "no_events = EVENTS_SCHEMA.empty_table().to_pandas()\n"
        "picture_sheet([Panel(noise, 16000, no_events, 'noise')], Path('picture.png'))\n"
    )
    read_only.run([str(read_only.programs / "python"), "-c", script], tmp_path)

    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert read_only.content() == before
