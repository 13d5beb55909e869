"""Writing many files that are all to be on the disk before anything says that they exist."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import IO, Final

from synthscape.files import naming

_AT_ONCE: Final = 4  # syncs under way: file systems commit several in one go
_MOST_UNSYNCED: Final = 128  # files; then writing waits for the disk: those of a page come all at once
_TOGETHER: Final = 8  # files that are handed to a thread at a time: to hand one over costs as much as to write it


class SyncedFiles:
    """New files, synced by threads of their own, so that what makes the next one need not wait for the disk.

    ``write`` may be called from several threads. A file is on the disk when ``wait`` has returned, or the block is
    left without an error; no sooner.

    >>> with SyncedFiles() as files:                    # doctest: +SKIP
    ...     files.write(Path("a.flac"), content)
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="synthscape-sync")
        self._written: list[tuple[Path, IO[bytes]]] = []
        self._unsynced: deque[Future[None]] = deque()
        self._lock = Lock()

    def __enter__(self) -> SyncedFiles:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self.wait()
        finally:
            self.close()

    def write(self, path: Path, content: bytes) -> None:
        """Write a new file.

        Raises:
            OSError: the disk is full, ...; of this file, or of one before it.
        """
        with naming(path):
            file = path.open("xb")
            try:
                file.write(content)
                file.flush()
            except BaseException:
                file.close()
                raise
        self._sync_later(path, file, _TOGETHER)

    def sync_so_far(self, path: Path) -> None:
        """Bring to the disk what is written of a file that still grows, so that less is left to sync in the end.

        Raises:
            OSError: it is gone; or a file before it is not on the disk, and never will be.
        """
        with naming(path):
            self._sync_later(path, path.open("r+b"), 1)

    def _sync_later(self, path: Path, file: IO[bytes], together: int) -> None:
        with self._lock:
            self._written.append((path, file))
            if len(self._written) >= together:
                self._hand_over()
            too_many = len(self._unsynced) * _TOGETHER > _MOST_UNSYNCED - _TOGETHER
            oldest = self._unsynced.popleft() if too_many else None
        if oldest is not None:
            oldest.result()

    def _hand_over(self) -> None:
        if self._written:
            self._unsynced.append(self._pool.submit(_sync, self._written))
            self._written = []

    def wait(self) -> None:
        """Return when all files are on the disk.

        Raises:
            OSError: one of them is not, and never will be.
        """
        self._hand_over()
        while self._unsynced:
            self._unsynced.popleft().result()

    def close(self) -> None:
        """End the threads; files that were not waited for may not be on the disk."""
        self._hand_over()  # which closes them
        self._pool.shutdown()


def _sync(written: list[tuple[Path, IO[bytes]]]) -> None:
    with ExitStack() as closing:
        for _, file in written:
            closing.enter_context(file)
        for path, file in written:
            with naming(path):
                os.fsync(file.fileno())
                file.close()
