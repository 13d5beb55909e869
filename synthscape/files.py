"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

ASIDE_PREFIX: Final = ".aside-"  # a killed process may leave such files; the next run over the folder removes them


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put a file's name into an OSError that has none, as errors of writing and closing (a full disk) don't."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; on success it is synced and renamed over it, otherwise removed.

    >>> with written_aside(Path("table.csv")) as aside:      # doctest: +SKIP
    ...     aside.write_text("a,b\\n")

    Raises:
        OSError: the folder can't be written, the disk is full, ...
    """
    aside = path.with_name(f"{ASIDE_PREFIX}{secrets.token_hex(8)}{path.suffix[:12]}")
    try:
        with naming(path):
            yield aside
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    except BaseException as error:
        with suppress(OSError):  # the folder is gone, or read-only: that was the error
            aside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(aside):
            error.filename = str(path)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write JSON (UTF-8, keys in the order given, readable) atomically."""
    with written_aside(path) as aside:
        aside.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
