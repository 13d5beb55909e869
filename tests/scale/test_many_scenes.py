"""Twenty thousand scenes: memory stays flat, and what is done for each shard stays the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_twenty_thousand_scenes(tiny_stores, tmp_path):
    """From 2 000 to 20 000 scenes in 200 shards the peak of memory grows by less than 5 %.

    A receipt is looked for before its shard is made, synced, and read once to be summed up; the number of files opened
    for a shard does not depend on how many shards there are.
    """
    command = [sys.executable, "-m", "tests.scale.many", str(tmp_path), str(tiny_stores), "2000", "20000"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    few, many = json.loads(ended.stdout)

    assert (few["delivered"], many["delivered"]) == (2_000, 20_000)
    assert many["peak_kb"] < 1.05 * few["peak_kb"]
    assert (few["receipts_read"], many["receipts_read"]) == (3 * 20, 3 * 200)
    assert many["opened"] / 200 <= few["opened"] / 20 < 40
    assert many["cpu_s"] < 60
