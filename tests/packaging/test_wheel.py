"""The wheel: what is in it, and that it runs where the repository is not, and where nothing can be written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from subprocess import CompletedProcess
from zipfile import ZipFile

import pytest

from synthscape.output.dataset import open_dataset
from tests.ordinary_user import AS_ORDINARY_USER
from tests.packaging.installs import ROOT, install, run, site_packages

PACKAGES = {
    "synthscape": ROOT / "synthscape",
    "synthscape_kernels": ROOT / "kernels" / "synthscape_kernels",
    "synthscape_scene_specs": ROOT / "scene_specs",
}


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory) -> Path:
    """Programs of a new environment with the wheel in it."""
    return install(wheel, tmp_path_factory.mktemp("environment") / "venv")


def test_wheel_holds_every_source_file_and_nothing_else(wheel):
    """All modules, specs, type markers and the licence are in it; tests, benchmarks and caches are not."""
    expected = {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.suffix in (".py", ".yaml", ".typed")
    }
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    of_packages = {name for name in names if ".dist-info/" not in name}

    assert of_packages == expected
    assert {"synthscape/py.typed", "synthscape_kernels/py.typed"} <= of_packages
    assert "synthscape_scene_specs/strong_detection.yaml" in of_packages
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_wheel_says_what_it_is(wheel):
    """Licence, Python version and the command are in its metadata."""
    with ZipFile(wheel) as archive:
        by_name = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if "dist-info" in name}
    metadata = Parser().parsestr(by_name["METADATA"])

    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"dev", "exports"} <= set(metadata.get_all("Provides-Extra", []))
    assert "synthscape = synthscape.cli:main" in by_name["entry_points.txt"]


def test_installed_package_is_the_one_imported(programs, tmp_path):
    """In the new environment all three packages and the version come from there, not from the repository."""
    script = (
        "import json, importlib.metadata as m, synthscape, synthscape_kernels, synthscape_scene_specs\n"
        "files = [synthscape.__file__, synthscape_kernels.__file__, synthscape_scene_specs.__file__,\n"
        "         str(m.distribution('synthscape').locate_file(''))]\n"
        "print(json.dumps(files))"
    )
    files = json.loads(run([str(programs / "python"), "-c", script], cwd=tmp_path).stdout)
    home = site_packages(programs.parent).resolve()

    assert all(Path(file).resolve().is_relative_to(home) for file in files), files


def test_installed_kernels_are_kept_compiled(programs, tmp_path):
    """Where the installed package can be written, a kernel is compiled once: the next process finds it."""
    script = (
        "import numpy as np\n"
        "from synthscape_kernels import mix\n"
        "mix.fade_weight(np.int64(0), np.int64(1), False)\n"
        "print(sum(mix.fade_weight.stats.cache_hits.values()))\n"
    )
    said = [run([str(programs / "python"), "-c", script], cwd=tmp_path).stdout for _ in range(2)]

    assert said == ["0\n", "1\n"]


class ReadOnly:
    """An environment, and a home, that nothing can be written to."""

    def __init__(self, programs: Path, home: Path):
        self.programs = programs
        self.home = home
        self.folders = [site_packages(programs.parent), home]

    def run(self, command: list[str], cwd: Path) -> CompletedProcess[str]:
        """Run a program of the environment without a way around the read-only folders."""
        environment = {"HOME": str(self.home), "USERPROFILE": str(self.home)}
        return run([sys.executable, "-c", AS_ORDINARY_USER, *command], cwd, environment)

    def content(self) -> list[tuple[str, int]]:
        """All that is in the folders: path and time of the last change."""
        return sorted((str(path), path.stat().st_mtime_ns) for top in self.folders for path in (top, *top.rglob("*")))


@pytest.fixture
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
def test_demo_runs_where_nothing_else_can_be_written(read_only, tmp_path):
    """``synthscape demo``, outside the repository, from a read-only install, with a home that can't be written.

    It leaves a dataset that opens, its labels and its pictures, says where they are, says once that kernels are not
    kept compiled, and writes nothing else.
    """
    before = read_only.content()
    ended = read_only.run([str(read_only.programs / "synthscape"), "demo", "--out", "a place"], tmp_path)
    made = tmp_path / "a place"
    data = open_dataset(made / "out" / "demo")

    assert ended.stderr.count("no writable cache folder") == 1, ended.stderr
    assert len(data) == data.info["counts"]["items"] == 50
    assert data.verify() == []
    assert set(data.events["species"]) <= set(data.classes)
    assert len(data.classes) >= 8
    assert (made / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((made / "out" / "demo" / "audio").rglob("*.flac"))) == 50
    for path in (made / "out" / "demo", made / "out" / "demo.png", made / "banks" / "demo"):
        assert str(path.relative_to(tmp_path)) in ended.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a place"]
    assert read_only.content() == before
