"""The examples run as they stand."""

from __future__ import annotations

import sys

from synthscape.output.dataset import open_dataset
from tests.packaging.installs import ROOT, run

QUICKSTART = ROOT / "examples" / "quickstart.py"


def test_quickstart_runs_as_it_stands(tmp_path):
    """It makes a bank and a dataset in the folder it is run in, and shows that memory and disk hold the same scene."""
    said = run([sys.executable, str(QUICKSTART)], cwd=tmp_path).stdout
    data = open_dataset(tmp_path / "out" / "quickstart")

    assert len(data) == 20
    assert "audio (3, 160000) float32" in said
    assert "same samples: True" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["banks", "out"]


def test_quickstart_is_short():
    """What there is to learn fits in twenty lines."""
    code = [line for line in QUICKSTART.read_text(encoding="utf-8").splitlines() if line.strip()]

    assert len([line for line in code if not line.startswith("#")]) <= 20
