"""Compiled kernels are kept from run to run, and compiled anew when anything they are made of changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import synthscape_kernels

PROGRAM = """
import numpy as np
from synthscape_kernels import mix
print(mix.fade_weight(np.int64(0), np.int64(1), False), sum(mix.fade_weight.stats.cache_hits.values()))
"""


def run(folder: Path) -> tuple[float, int]:
    """A weight that a kernel of one file computes with one of another, and whether it was found compiled."""
    environment = os.environ | {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    weight, hits = ended.stdout.split()
    return float(weight), int(hits)


def test_a_change_in_what_a_kernel_calls_is_seen(tmp_path: Path) -> None:
    """An upgrade that changes one file must not leave another's kernels as they were compiled before it."""
    package = tmp_path / "synthscape_kernels"
    shutil.copytree(Path(synthscape_kernels.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    first, again = run(tmp_path), run(tmp_path)
    strict_math = package / "strict_math.py"
    text = strict_math.read_text(encoding="utf-8")
    begin = text.index("def sin_quarter(")
    body = text.index("return ", begin)
    strict_math.write_text(text[:body] + "return 0.0 * " + text[body + len("return ") :], encoding="utf-8")
    changed = run(tmp_path)

    assert abs(first[0] - 0.5) < 1e-15
    assert first[1] == 0
    assert again == (first[0], 1)
    assert changed == (0.0, 0)
