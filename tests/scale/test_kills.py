"""``kill -9`` at random moments, then the same command again: the same dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes to kill them")
def test_killed_renders_are_the_same_in_the_end(tiny_stores, tmp_path):
    """Sixty renders killed before a random file operation or after a random time, in every phase there is.

    Whatever is there when one dies, a dataset.json is there only with the whole dataset; and the one that comes to its
    end leaves every byte as if nothing had happened, and nothing written aside.
    """
    command = [sys.executable, "-m", "tests.scale.killed", str(tmp_path), str(tiny_stores), "60", "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["kills"] == 60
    assert found["renders"] >= 5
    for phase in ("before it began", "in a shard", "between files and receipt", "summing up"):
        assert found["phases"].get(phase, 0) >= 1, found
