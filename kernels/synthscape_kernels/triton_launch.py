"""How GPU kernels are launched: one way for all, so that what is compiled ahead is what runs."""

from __future__ import annotations

from typing import Any, Final

#: Products are rounded before they are added, as on the CPU.
OPTIONS: Final = {"num_warps": 4, "enable_fp_fusion": False}


def launch(kernel: Any, programs: int, *arguments: Any, **constants: Any) -> None:
    """Queue that many programs of a kernel on the current stream, if any."""
    if programs:
        kernel[(programs,)](*arguments, **constants, **OPTIONS)
