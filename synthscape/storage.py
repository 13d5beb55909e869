"""Where datasets lie: a folder on this machine, or one behind a URL (``s3://``, ``gs://``, ...)."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from synthscape.errors import DatasetError, StorageError
from synthscape.files import ASIDE_PREFIX, naming, written_aside

Sizes = Mapping[str, tuple[int, int]]  # name of a file or folder -> number of files at or under it, and their bytes
_OCCUPIED: Final = (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR)  # why nothing can be renamed over it


def is_url(place: str | Path) -> bool:
    """True for ``s3://bucket/data`` and its like, False for paths.

    >>> is_url("s3://bucket/out"), is_url("out"), is_url("C:/out")
    (True, False, False)
    """
    return isinstance(place, str) and "://" in place


def place_at(place: str | Path) -> Place:
    """A folder by its path or URL; it need not exist yet.

    Raises:
        StorageError: no installed package knows the URL's protocol, or it holds a password.
    """
    path = within(Path(), place)
    if isinstance(path, Path):
        return LocalPlace(path)
    from synthscape.remote import RemotePlace  # which needs packages that not everyone has

    return RemotePlace(path)


def within(folder: Path, place: str | Path) -> Path | str:
    """Where a path leads from a folder; a URL stays as it is, unless it names a file of this machine.

    >>> within(Path("/data"), "banks/a"), within(Path("/data"), "s3://banks/a"), within(Path("/data"), "file:///a")
    (PosixPath('/data/banks/a'), 's3://banks/a', PosixPath('/a'))

    Raises:
        StorageError: a ``file://`` URL names another machine.
    """
    if isinstance(place, Path) or not is_url(place):
        return folder / place
    if place.startswith("file://"):
        parts = urlsplit(place)
        if parts.netloc not in ("", "localhost"):
            raise StorageError(f"{place}: expected file:/// and a path, got the host {parts.netloc!r}; add a slash")
        return Path(url2pathname(parts.path))
    return place


class Place(ABC):
    """A folder that files appear in whole: names use ``/`` and are relative to it.

    Attributes:
        where: the folder's path, or its URL.
    """

    where: Path | str

    def __str__(self) -> str:
        return str(self.where)

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A file; FileNotFoundError if it isn't there."""

    def read_many(self, names: Iterable[str]) -> Iterator[bytes | None]:
        """Files, in this order; None for those that aren't there."""
        for name in names:
            try:
                yield self.read(name)
            except FileNotFoundError:
                yield None

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """A file to read and seek in; FileNotFoundError if it isn't there."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of this name."""

    @abstractmethod
    def entries(self, folder: str = "") -> list[str]:
        """Names of what is in a folder, sorted; none if it isn't there."""

    @abstractmethod
    def sizes(self, names: Iterable[str]) -> Sizes:
        """Size of each of these files and folders; (0, 0) for those that aren't there."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file whole, replacing one that is there."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Write a file whole unless there is one of this name: whether it was written."""

    @abstractmethod
    def put(self, finished: Path, name: str) -> None:
        """Move a finished file or folder from this machine to its place, replacing what is there."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens if it isn't there."""

    @abstractmethod
    def make(self) -> None:
        """Make the folder, if it isn't there."""

    @abstractmethod
    def workspace(self) -> Path:
        """A new folder on this machine for files that are not finished; whoever asked for it removes it."""

    @abstractmethod
    def remove_leftovers(self, folders: Iterable[str]) -> None:
        """Remove workspaces and half-written files of processes that were killed; none may be at work here.

        Args:
            folders: where to look, besides the folder itself; all others are left alone.
        """

    @contextmanager
    def locked(self, *, shared: bool = False) -> Iterator[None]:
        """Keep other processes out (``shared``: only those that are not shared) until the block is left.

        Raises:
            DatasetError: another process is in.
        """
        yield


class LocalPlace(Place):
    """A folder on this machine. Files are written aside, synced and renamed."""

    _LOCK_FILE = ".lock"

    def __init__(self, where: Path):
        self.where: Path = where

    def __getstate__(self) -> dict[str, Path]:
        return {"where": self.where.absolute()}  # other processes may work in another folder

    def read(self, name: str) -> bytes:  # noqa: D102
        return (self.where / name).read_bytes()

    def open(self, name: str) -> BinaryIO:  # noqa: D102
        return (self.where / name).open("rb")

    def exists(self, name: str) -> bool:  # noqa: D102
        return (self.where / name).exists()

    def entries(self, folder: str = "") -> list[str]:  # noqa: D102
        try:
            return sorted(entry.name for entry in (self.where / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sizes(self, names: Iterable[str]) -> Sizes:  # noqa: D102
        return {name: _size(self.where / name) for name in names}

    def write(self, name: str, content: bytes) -> None:  # noqa: D102
        path = self._writable(name)
        with written_aside(path) as aside:
            aside.write_bytes(content)
        _sync_folder(path.parent)

    def create(self, name: str, content: bytes) -> bool:  # noqa: D102
        if self.exists(name):
            return False
        self.write(name, content)
        return True

    def put(self, finished: Path, name: str) -> None:  # noqa: D102
        path = self._writable(name)
        if finished.is_dir():
            for folder, _, _ in os.walk(finished):
                _sync_folder(Path(folder))
        else:
            _sync(finished)
        old = path.with_name(f"{ASIDE_PREFIX}{secrets.token_hex(8)}")
        while True:  # until no other process has put its own there since we looked
            try:
                finished.replace(path)
                break
            except OSError as error:
                if error.errno == errno.EXDEV:
                    raise DatasetError(f"{path.parent} is on another disk than {self}: a dataset lies on one") from None
                if error.errno not in _OCCUPIED:
                    raise OSError(error.errno, error.strerror, str(path)) from None
            with contextlib.suppress(FileNotFoundError):
                path.rename(old)
                self.remove(str(old.relative_to(self.where)))
        _sync_folder(path.parent)

    def remove(self, name: str) -> None:  # noqa: D102
        path = self.where / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def make(self) -> None:  # noqa: D102
        self.where.mkdir(parents=True, exist_ok=True)

    def workspace(self) -> Path:  # noqa: D102
        path = self.where / f"{ASIDE_PREFIX}{secrets.token_hex(8)}"
        path.mkdir()
        return path

    def remove_leftovers(self, folders: Iterable[str]) -> None:  # noqa: D102
        for folder in ("", *folders):
            for name in self.entries(folder):
                if name.startswith(ASIDE_PREFIX):
                    self.remove(f"{folder}/{name}" if folder else name)

    @contextmanager
    def locked(self, *, shared: bool = False) -> Iterator[None]:  # noqa: D102
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        with (self.where / self._LOCK_FILE).open("ab") as file:  # the lock goes with the process, however it ends
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DatasetError(f"{self} is being rendered by another process: wait for it, or stop it") from None
            except OSError as error:
                raise DatasetError(
                    f"{self}: files can't be locked there ({error.strerror}), and two renders could get into each "
                    "other's way; mount it with locks (Lustre: -o flock), or name an output.dir on another disk"
                ) from None
            yield

    def _writable(self, name: str) -> Path:
        """Where a file is to be; its folder is made if it isn't there."""
        path = self.where / name
        if "/" in name and not path.parent.exists():
            path.parent.mkdir(exist_ok=True)
            _sync_folder(self.where)
        return path


def _size(path: Path | os.DirEntry[str]) -> tuple[int, int]:
    """Number of files and their bytes; what another process takes away meanwhile isn't there."""
    try:
        if not path.is_dir():
            return 1, path.stat().st_size
        with os.scandir(path) as entries:
            sizes = [_size(entry) for entry in entries if entry.is_file() or entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return 0, 0
    return sum(files for files, _ in sizes), sum(bytes_ for _, bytes_ in sizes)


def _sync_folder(path: Path) -> None:
    if os.name == "posix":
        try:
            _sync(path)
        except OSError as error:
            if error.errno != errno.EINVAL:  # said by file systems that keep no order of names
                raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
