"""Help answers at once: nothing heavy is imported for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "jinja2", "matplotlib", "numba", "numpy", "omegaconf", "pandas", "pyarrow", "pyloudnorm", "ray", "scipy",
    "sklearn", "soundfile", "soxr", "torch", "triton", "yaml",
)  # fmt: skip
SCRIPT = """
import sys
from synthscape.cli import main
try:
    main()
except SystemExit as ended:
    code = ended.code
print("imported:", *sorted({name.partition(".")[0] for name in sys.modules} & set(%r)))
sys.exit(code)
"""


@pytest.mark.parametrize(
    "command",
    ["", "bank", "bank build", "bank info", "bank check", "demo", "plan", "render", "spec", "spec check", "spec show"],
)
def test_help_imports_nothing_heavy(command):
    """``synthscape [COMMAND] --help`` says how it is used, without numpy and all that follows."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT % (HEAVY,), *command.split(), "--help"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    text, _, imported = ended.stdout.rpartition("imported:")

    assert ended.returncode == 0, ended.stderr
    assert "Usage" in text
    assert imported.split() == []


def test_version_imports_nothing_heavy():
    """Neither does ``--version``."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT % (HEAVY,), "--version"], capture_output=True, text=True, check=False
    )
    text, _, imported = ended.stdout.rpartition("imported:")

    assert ended.returncode == 0, ended.stderr
    assert text.startswith("synthscape ")
    assert imported.split() == []
