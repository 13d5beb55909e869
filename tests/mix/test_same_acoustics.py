"""Made-up rooms and noise on another kind of CPU."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from synthscape.mix.noise import coloured_noise
from synthscape.mix.propagation import procedural_tail

# The tail of version 1. If it has to change, the plan version must too.
KNOWN_TAIL = "e4f1bd1efd2c4e3d"
SLOPES = (-12.0, -3.0, 0.0, 6.0)


def made() -> dict[str, NDArray[np.generic]]:
    """A tail, and noise of some colours, by name."""
    noise = {str(slope): coloured_noise(48000, slope, 5, 2**40 + 1, 1, 16000) for slope in SLOPES}
    return {"tail": procedural_tail(0.7, 4.5, 16000, 5, 2**40 + 1, 3), **noise}


def test_another_cpu_makes_the_same_rooms_and_noise(tmp_path: Path) -> None:
    """Kernels compiled for a plain CPU, NumPy without AVX2 and AVX-512: the same tail, bit for bit, and known; noise
    within 1 LSB, over 99.9 % of it equal.
    """
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'kernels'}",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    }
    script = f"import numpy\nfrom {__name__} import made\nnumpy.savez({str(tmp_path / 'made.npz')!r}, **made())"
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True)
    here, there = made(), np.load(tmp_path / "made.npz")

    assert np.array_equal(here["tail"], there["tail"])
    assert hashlib.blake2b(here["tail"].tobytes(), digest_size=8).hexdigest() == KNOWN_TAIL
    for slope in map(str, SLOPES):
        difference = np.abs(here[slope].astype(int) - there[slope])
        assert difference.max() <= 1
        assert (difference == 0).mean() > 0.999
