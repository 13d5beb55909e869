"""How kernels are compiled: strict arithmetic, no GIL, cached where a cache folder can be written."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
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
        # numba keeps a kernel until its own file changes, though what it calls in other files is compiled into it.
        index = kernel._cache._cache_file
        index._source_stamp = (index._source_stamp, _sources())
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


@cache
def _sources() -> str:
    """Hash of all kernels' source."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()
