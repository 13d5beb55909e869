"""How kernels are compiled: strict arithmetic, no GIL, cached where a cache folder can be written."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_warned = False


def compiled(function: Function) -> Function:
    """Compile a kernel at its first call.

    No ``fastmath``: reordered or fused arithmetic differs between CPU types, and with it hashes of audio and labels.
    Where neither the package's folder nor the user's cache can be written, kernels are compiled anew in each process
    and a warning says so once: a read-only install must work.
    """
    global _warned
    try:
        kernel = numba.njit(function, nogil=True, cache=True, error_model="numpy", fastmath=False)
    except RuntimeError:  # numba found no folder to cache in
        if not _warned:
            _warned = True
            warnings.warn(
                "no writable cache folder: kernels are compiled in each process anew (set NUMBA_CACHE_DIR)",
                RuntimeWarning,
                stacklevel=2,
            )
        kernel = numba.njit(function, nogil=True, error_model="numpy", fastmath=False)
    return kernel  # type: ignore[no-any-return]
