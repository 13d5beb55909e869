"""The demo's sound is the same on every machine, and known."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import hashlib
from synthscape.bank.synthetic_backgrounds import KINDS, background
from synthscape.bank.synthetic_voices import SPECIES, voice_track
digest = hashlib.blake2b(digest_size=8)
for species in SPECIES:
    digest.update(voice_track(0, species, 1, 2).samples.tobytes())
for kind in KINDS:
    digest.update(background(0, kind, 0).samples.tobytes())
print(digest.hexdigest())
"""

# The sound of seed 0, since DEMO_VERSION 1. If it has to change, raise DEMO_VERSION.
KNOWN = "c24cb215018110a5"


@pytest.mark.parametrize("without", ["", "X86_V4 AVX512_ICL AVX512_SPR", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"])
def test_sound_is_known_whatever_the_cpu_can_do(without: str) -> None:
    """With NumPy's AVX-512, or AVX2 too, switched off, the samples are those of the known hash."""
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'kernels'}",
        "NPY_DISABLE_CPU_FEATURES": without,
    }
    # a CPU that lacks a feature to begin with gets a warning about it on stderr
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == KNOWN
