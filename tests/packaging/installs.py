"""Building the package and installing it into environments of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CHECKOUT = (
    "LICENSE", "Makefile", "README.md", "pyproject.toml", "benchmarks", "docs", "examples", "kernels", "scene_specs",
    "synthscape", "tests",
)  # fmt: skip
_NOT_PASSED_ON = (
    "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "PYTHONSAFEPATH",
    "PYTHONWARNINGS", "VIRTUAL_ENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
)  # fmt: skip


def build_wheel(folder: Path) -> Path:
    """A wheel made from a source distribution of a copy of the checkout, in ``folder/dist``."""
    copy = folder / "checkout"
    copy.mkdir()
    for name in _CHECKOUT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "results"))
        else:
            shutil.copy2(source, copy / name)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(copy)], cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, and give its folder of programs.

    Other packages are those of the environment the tests run in: its site-packages stand on a line of a ``.pth`` file,
    behind the new environment's own, and ``.pth`` files in there (that of an editable install) are not read.
    """
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    python = programs / "python"
    run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index",
         "--disable-pip-version-check", str(wheel)])  # fmt: skip
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site_packages(folder) / "others.pth").write_text("".join(f"{path}\n" for path in others), encoding="utf-8")
    return programs


def site_packages(environment: Path) -> Path:
    """Where an environment keeps its packages."""
    (folder,) = [*environment.glob("lib/python*/site-packages"), *environment.glob("Lib/site-packages")]
    return folder


def run(
    command: Sequence[str], cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without what our own process was told about imports and caches; fails with what it printed."""
    passed_on = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    ended = subprocess.run(
        command, cwd=cwd, env={**passed_on, **(environment or {})}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
    return ended
