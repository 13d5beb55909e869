"""The wheel: what is in it, and that it runs where the repository is not."""

from __future__ import annotations

import json
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from synthscape.output.dataset import open_dataset
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


def test_demo_runs_outside_the_repository(programs, tmp_path):
    """``synthscape demo`` leaves a dataset that opens, its labels and its pictures, and says where they are."""
    said = run([str(programs / "synthscape"), "demo", "--out", "a place"], cwd=tmp_path).stdout
    made = tmp_path / "a place"
    data = open_dataset(made / "out" / "demo")

    assert len(data) == data.info["counts"]["items"] == 50
    assert data.verify() == []
    assert set(data.events["species"]) <= set(data.classes)
    assert len(data.classes) >= 8
    assert (made / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((made / "out" / "demo" / "audio").rglob("*.flac"))) == 50
    for path in (made / "out" / "demo", made / "out" / "demo.png", made / "banks" / "demo"):
        assert str(path.relative_to(tmp_path)) in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a place"]
