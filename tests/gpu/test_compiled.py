"""Every kernel compiles for sm_80 and sm_90, here, without a device, and takes no more than it may."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Kernels that write audio: 128 bits at a time.
WRITERS = {
    "play_layers RESAMPLED", "play_events RESAMPLED", "power", "power RESAMPLED", "mix", "mix RESAMPLED", "stems",
    "stems RESAMPLED", "finish", "finish PCM",
}  # fmt: skip
#: Kernels that read backgrounds 8 samples at a time where they can.
ALIGNED_READERS = {"layer_power", "mix", "mix RESAMPLED"}
OTHERS = {"totals", "band_sums", "count_frames"}

Report = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=[80, 90], ids=["sm_80", "sm_90"])
def report(request: pytest.FixtureRequest) -> Report:
    """What all kernels take on one architecture. Fails, never skips, if they can't be compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.gpu.compiled", str(request.param)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    found: Report = json.loads(done.stdout)
    return found


def test_all_kernels_are_compiled(report: Report) -> None:
    """The check sees every kernel, each in one version only: no launch specialises it further."""
    from synthscape_kernels import triton_frames, triton_mix

    defined = {
        name
        for module in (triton_mix, triton_frames)
        for name, value in vars(module).items()
        if not name.startswith("_") and type(value).__name__ in ("JITFunction", "InterpretedFunction")
    }

    assert set(report) == WRITERS | ALIGNED_READERS | OTHERS
    assert {name.split()[0] for name in report} == defined
    assert {name: len(versions) for name, versions in report.items()} == dict.fromkeys(report, 1)


def test_no_kernel_spills(report: Report) -> None:
    """No stack, no local memory, no spills, at most 96 registers a thread at 4 warps."""
    for name, (kernel,) in report.items():
        assert (kernel["stack"], kernel["local"], kernel["spills"]) == (0, 0, 0), name
        assert kernel["reg"] <= 96, (name, kernel["reg"])
        assert kernel["warps"] == 4


def test_arithmetic_is_strict(report: Report) -> None:
    """No fused multiply-add on audio, no division or transcendental of floats, no atomics: sums have one order."""
    for name, (kernel,) in report.items():
        assert (kernel["fused"], kernel["special"], kernel["atomics"]) == (0, 0, 0), name


def test_audio_is_written_128_bits_at_a_time(report: Report) -> None:
    """Stores of audio are 128-bit; so are loads of backgrounds that lie on multiples of 8 samples."""
    for name in WRITERS:
        assert "STG.E.128" in report[name][0]["stores"], name
    for name in ALIGNED_READERS:
        assert "LDG.E.128" in report[name][0]["loads"], name
