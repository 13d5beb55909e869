"""Compile every kernel that mixing can launch for a GPU that need not be there, and say what it takes: JSON on stdout.

``python -m tests.gpu.compiled 90`` compiles for sm_90. The mixer itself makes the launches, so that kernels, types and
alignments are those of a real run; Triton compiles each for that GPU and nothing is run. What a kernel takes is read
from its cubin by NVIDIA's own tools, which Triton brings along.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from tests.gpu.scenes import render_every_variant

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


class AbsentGpu:
    """What Triton asks a driver for when it compiles, without a device behind it."""

    def __init__(self, capability: int):
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        """The GPU to compile for."""
        return self._target

    def get_current_device(self) -> int:
        """Number of the device."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default stream."""
        return 0 * device


def resources(kernel: Any) -> dict[str, Any]:
    """Registers, stack and local memory of a compiled kernel, and which loads and stores it has."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(kernel.asm["cubin"])
        cubin.flush()
        usage = _tool("cuobjdump", "--dump-resource-usage", cubin.name)
        code = _tool("nvdisasm", cubin.name)
    found = dict(re.findall(r"\b(REG|STACK|LOCAL|SHARED):(\d+)", usage))
    return {
        **{name.lower(): int(found[name]) for name in ("REG", "STACK", "LOCAL", "SHARED")},
        "spills": len(re.findall(r"\b(?:STL|LDL)\b", code)),
        "warps": kernel.metadata.num_warps,
        "fused": len(re.findall(r"\b[DF]FMA\b", code)),
        # In PTX, as the assembler divides integers by way of float reciprocals.
        "special": len(re.findall(r"\b(?:div|rcp|sqrt|rsqrt|sin|cos|ex2|lg2|tanh)\.\S*f(?:32|64)", kernel.asm["ptx"])),
        "atomics": len(re.findall(r"\b(?:ATOM|ATOMG|ATOMS|RED|REDG)\b", code)),
        "loads": sorted(set(re.findall(r"\bLDG\.E[.\w]*", code))),
        "stores": sorted(set(re.findall(r"\bSTG\.E[.\w]*", code))),
    }


def _tool(name: str, *arguments: str) -> str:
    done = subprocess.run([TOOLS / name, *arguments], capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:
        raise SystemExit(f"{TOOLS / name} failed ({done.returncode}): {done.stderr}")
    return done.stdout


def main() -> None:
    """Compile for the capability given, 80 or 90."""
    if os.environ.get("TRITON_INTERPRET"):
        raise SystemExit("TRITON_INTERPRET is set: nothing would be compiled")
    triton.runtime.driver.set_active(AbsentGpu(int(sys.argv[1])))
    report: dict[str, list[dict[str, Any]]] = {}
    seen: set[str] = set()

    def record(kernel: Any, arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
        compiled = kernel.run(*arguments, grid=(1,), warmup=True, **constants)
        if compiled.hash not in seen:
            seen.add(compiled.hash)
            flags = "".join(f" {name}" for name, value in constants.items() if value is True)
            report.setdefault(kernel.__name__ + flags, []).append(resources(compiled))

    render_every_variant(record)
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
