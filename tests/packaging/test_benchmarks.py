"""The benchmarks run; what they measure is not asserted."""

from __future__ import annotations

import sys

from tests.packaging.installs import ROOT, run


def test_quick_benchmarks_leave_a_table(tmp_path):
    """``python -m benchmarks --quick`` runs every part, and names the machine, its load and the packages."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--name", "here", "--out", str(tmp_path / "results")]
    run([*command, "--folder", str(tmp_path)], cwd=ROOT)
    table = (tmp_path / "results" / "here.md").read_text(encoding="utf-8")

    for title in ("Rendering, stage by stage", "Planning", "Memory", "Command line"):
        assert f"## {title}\n" in table
    for said in ("processor", "before", "numba", "load average", "whole render", "1024", "growth", "--help"):
        assert said in table
    assert "nan" not in table
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]
