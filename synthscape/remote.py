"""Folders behind URLs (``s3://``, ``gs://``, ...), through fsspec."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import platform
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast

from synthscape.errors import StorageError
from synthscape.files import naming
from synthscape.storage import Place, Sizes

_A = TypeVar("_A")
_B = TypeVar("_B")

_AT_ONCE: Final = 16  # requests to a server
_AHEAD: Final = 512  # files asked for before the first of them is used
_FEW: Final = 64  # names that are looked for one by one; of more, whole folders are listed
_BUFFER_BYTES: Final = 2**20  # read at least, of a file behind a URL
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 16.0
_SAID_FROM_S: Final = 4.0  # a wait that long is told of
_PATIENCE_S = 120.0
_PASSING_STATUS: Final = (408, 409, 425, 429)  # and 5xx
_HTTP_NOT_IMPLEMENTED, _HTTP_PRECONDITION_FAILED = 501, 412
#: Errors of botocore, aiohttp and urllib3 that come of connections, by name, as none of these need be installed.
_PASSING_KINDS: Final = {
    "HTTPClientError",
    "ConnectionError",
    "ClientConnectionError",
    "ClientPayloadError",
    "IncompleteRead",
    "IncompleteReadError",
    "ResponseParserError",
}
_NO_CREDENTIALS: Final = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
    "DefaultCredentialsError",
}
_NO_BUCKET: Final = "there is no such bucket or folder; make it, or name another"
_FLAT: Final = {"s3", "s3a", "gs", "gcs", "abfs", "az", "adl", "memory", "http", "https"}  # without folders
_WORKSPACES: Final = f"synthscape-{platform.node()}-"  # of this machine, and of this container on it
_RANDOM: Final = random.SystemRandom()
_LOG: Final = logging.getLogger("synthscape")


class RemotePlace(Place):
    """A folder behind a URL, through fsspec. A file there appears whole, when it has arrived.

    Whatever may pass (a busy server, a timeout, a lost connection) is tried again, with waits that grow to
    ``_LONGEST_WAIT_S``, for ``_PATIENCE_S`` seconds. All else is one :class:`StorageError` that names the URL.
    """

    def __init__(self, url: str):
        self.where: str = url.rstrip("/")
        if without_secrets(url) != url:
            raise StorageError(
                f"{without_secrets(url)}: a URL with a password would be written into the dataset; leave it out, and "
                "give it in the environment (docs/storage.md)"
            )
        if set(url) & set("*?[]"):
            raise StorageError(f"{url}: expected a URL without any of * ? [ ]; name another")
        self._connect()

    def _connect(self) -> None:
        try:
            import fsspec.asyn
            import fsspec.core

            # listings are not kept: other processes write here too
            self._files, self._root = fsspec.core.url_to_fs(self.where, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            advice = "for s3:// pip install synthscape[remote], for others what fsspec asks for, or name a folder"
            raise StorageError(f"{self.where}: {error}; {advice}") from None
        except Exception as error:  # of its many packages, each with errors of its own
            raise self._error(error, "") from error
        if not self.where.partition("://")[2].strip("/"):
            raise StorageError(f"{self.where}: expected a bucket or folder after ://, got nothing; add one")
        self._process = os.getpid()
        if hasattr(signal, "pthread_sigmask"):  # not on Windows
            # The command line lets itself be ended by this signal (`| head`), but a lost connection is no end.
            loop = fsspec.asyn.get_loop()
            loop.call_soon_threadsafe(signal.pthread_sigmask, signal.SIG_BLOCK, [signal.SIGPIPE])
        kinds = self._files.protocol
        self._has_folders = not _FLAT & {kinds, *kinds} if isinstance(kinds, str) else not _FLAT & set(kinds)
        self._made: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {"where": self.where}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["where"])  # type: ignore[misc]

    def read(self, name: str) -> bytes:  # noqa: D102
        content: bytes = self._tried(name, lambda files, path: files.cat_file(path))
        return content

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Bytes ``start`` to ``end`` (exclusive) of a file that has them."""
        content: bytes = self._tried(name, lambda files, path: files.cat_file(path, start=start, end=end))
        return content

    def read_many(self, names: Iterable[str]) -> Iterator[bytes | None]:  # noqa: D102
        def read(name: str) -> bytes | None:
            try:
                return self.read(name)
            except FileNotFoundError:
                return None

        return _many(read, names)

    def open(self, name: str) -> BinaryIO:  # noqa: D102
        return cast(BinaryIO, io.BufferedReader(_RemoteFile(self, name), _BUFFER_BYTES))

    def size(self, name: str) -> int:
        """Bytes of a file; FileNotFoundError if it isn't there."""
        info = self._tried(name, lambda files, path: files.info(path))
        if info["type"] == "directory":
            raise FileNotFoundError(errno.ENOENT, "it is a folder", f"{self.where}/{name}")
        return int(info["size"])

    def exists(self, name: str) -> bool:  # noqa: D102
        try:  # fsspec's own takes any error for an absence
            self._tried(name, lambda files, path: files.info(path))
        except FileNotFoundError:
            return False
        return True

    def entries(self, folder: str = "") -> list[str]:  # noqa: D102
        try:
            found = self._tried(folder, lambda files, path: files.ls(path, detail=False))
        except FileNotFoundError:
            return []
        names = {path.rstrip("/") for path in found} - {self._path(folder)}
        return sorted(path.rpartition("/")[2] for path in names)

    def sizes(self, names: Iterable[str]) -> Sizes:  # noqa: D102
        total = dict.fromkeys(names, (0, 0))
        listed = set(total) if len(total) <= _FEW else {name.partition("/")[0] for name in total}
        found: dict[str, int] = {}
        for part in _many(self._found, sorted(listed)):
            found |= part
        for path, size in found.items():
            parts = path.split("/")
            for depth in range(1, len(parts) + 1):
                if (name := "/".join(parts[:depth])) in total:
                    total[name] = total[name][0] + 1, total[name][1] + size
        return total

    def _found(self, name: str) -> dict[str, int]:
        """Sizes of all files at or under a name."""
        try:
            found = self._tried(name, lambda files, path: files.find(path, detail=True))
        except FileNotFoundError:
            return {}
        skip = len(self._root) + 1
        return {path[skip:]: int(info["size"]) for path, info in found.items() if info["type"] == "file"}

    def write(self, name: str, content: bytes) -> None:  # noqa: D102
        self._make_folder(name)
        self._sent(name, lambda files, path: files.pipe_file(path, content))

    def create(self, name: str, content: bytes) -> bool:
        """Write a file whole unless there is one of this name: whether it was written.

        One request does both where the server can (``If-None-Match: *`` on S3); elsewhere it is looked first. If the
        answer to a successful attempt was lost, the next one finds that file: False then, with this very content.
        """
        self._make_folder(name)
        try:
            self._sent(name, lambda files, path: files.pipe_file(path, content, mode="create"))
        except FileExistsError:
            return False
        except _CannotCreateError:
            if self.exists(name):
                return False
            self.write(name, content)
        return True

    def put(self, finished: Path, name: str) -> None:  # noqa: D102
        if finished.is_file():
            self._upload(finished, name)
            return
        new = {
            f"{name}/{path.relative_to(finished).as_posix()}": path for path in finished.rglob("*") if path.is_file()
        }
        # What is there goes last, and only if it isn't replaced: another process may have put the same files.
        old = self._found(name)
        for _ in _many(lambda named: self._upload(*named), ((path, inner) for inner, path in new.items())):
            pass
        for _ in _many(self.remove, old.keys() - new.keys()):
            pass

    def _upload(self, path: Path, name: str) -> None:
        self._make_folder(name)
        self._sent(name, lambda files, there: files.put_file(str(path), there))

    def fetch(self, name: str, to: Path) -> None:
        """Copy a file to this machine, whole; FileNotFoundError if it isn't there."""

        def get(files: Any, path: str) -> None:
            with naming(to):
                files.get_file(path, str(to))
            if to.stat().st_size != size:
                raise ConnectionError(f"{to.stat().st_size} of {size} bytes arrived")

        size = self.size(name)
        self._tried(name, get)

    def remove(self, name: str) -> None:  # noqa: D102
        with contextlib.suppress(FileNotFoundError):
            self._tried(name, lambda files, path: files.rm(path, recursive=True))
        self._made.clear()

    def make(self) -> None:  # noqa: D102
        self._make_folder(".")

    def _make_folder(self, name: str) -> None:
        """Make the folder of a file, where there are folders; nothing makes a bucket."""
        folder = self._path(name.rpartition("/")[0])
        if self._has_folders and folder not in self._made:
            self._tried(name, lambda files, _: files.makedirs(folder, exist_ok=True))
            self._made.add(folder)

    def workspace(self) -> Path:  # noqa: D102
        self.remove_leftovers(())
        return Path(tempfile.mkdtemp(prefix=f"{_WORKSPACES}{os.getpid()}-"))

    def remove_leftovers(self, folders: Iterable[str]) -> None:  # noqa: D102
        for path in Path(tempfile.gettempdir()).glob(f"{_WORKSPACES}*"):
            process = path.name.removeprefix(_WORKSPACES).partition("-")[0]
            if process.isdigit() and not _is_alive(int(process)):
                shutil.rmtree(path, ignore_errors=True)  # another user's stays

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _sent(self, name: str, action: Callable[[Any, str], Any]) -> None:
        try:
            self._tried(name, action)
        except FileNotFoundError as error:
            raise StorageError(f"{self._url(name)}: {_NO_BUCKET}") from error

    def _tried(self, name: str, action: Callable[[Any, str], Any]) -> Any:
        """Do something with a file, again and again if what is wrong may pass.

        Raises:
            FileNotFoundError, FileExistsError: as they are.
            StorageError: it is refused, or did not pass in time.
            OSError: of files on this machine.
        """
        if self._process != os.getpid():  # connections don't survive a fork
            self._connect()
        begun, wait_s = time.monotonic(), _FIRST_WAIT_S
        while True:
            try:
                return action(self._files, self._path(name))
            except Exception as error:  # each of fsspec's packages has errors of its own
                left_s = _PATIENCE_S - (time.monotonic() - begun)
                if not _may_pass(error) or left_s <= 0:
                    raise self._error(error, name) from error
                if wait_s >= _SAID_FROM_S:
                    _LOG.warning("%s: %s; trying again for up to %.0f s", self._url(name), _said(error), left_s)
            time.sleep(min(wait_s * _RANDOM.uniform(0.5, 1), left_s))  # not all at the same time
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _url(self, name: str) -> str:
        return f"{self.where}/{name}" if name else self.where

    def _error(self, error: Exception, name: str) -> Exception:
        """What to raise in place of an error of some package."""
        status, code = _answer(error)
        kinds = _kinds(error)
        if code == "NoSuchBucket":
            return StorageError(f"{self._url(name)}: {_NO_BUCKET}")
        if isinstance(error, FileExistsError) or status == _HTTP_PRECONDITION_FAILED:
            return FileExistsError(errno.EEXIST, "it is there already", self._url(name))
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(errno.ENOENT, "it is not there", self._url(name))
        if status == _HTTP_NOT_IMPLEMENTED or isinstance(error, NotImplementedError):
            return _CannotCreateError(f"{self._url(name)}: {_said(error)}")
        if _may_pass(error):
            return StorageError(
                f"{self._url(name)}: {_said(error)}; this went on for {_PATIENCE_S:.0f} s: see that the server can be "
                "reached, and run the same command again: it goes on from here"
            )
        if kinds & _NO_CREDENTIALS:
            return StorageError(
                f"{self._url(name)}: {_said(error)}; give credentials in the environment (docs/storage.md)"
            )
        if isinstance(error, PermissionError) and (status or error.filename is None):
            return StorageError(
                f"{self._url(name)}: access is denied ({_said(error)}); check the credentials in the environment, and "
                "that they may list, read, write and delete here (docs/storage.md)"
            )
        if isinstance(error, OSError) and not status:
            return error  # of a file on this machine
        return StorageError(f"{self._url(name)}: {_said(error)}")


class _CannotCreateError(StorageError):
    """The server does not know how to write a file only if there is none."""


class _RemoteFile(io.RawIOBase):
    """A file behind a URL, read piece by piece."""

    def __init__(self, place: RemotePlace, name: str):
        self._place, self._file = place, name
        self._size, self._at = place.size(name), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(start + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        content = self._place.read_range(self._file, self._at, end)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def without_secrets(text: str) -> str:
    """Text with ``***`` in place of passwords in URLs.

    >>> without_secrets("sftp://me:secret@host/data"), without_secrets("s3://bucket/data")
    ('sftp://***@host/data', 's3://bucket/data')
    """
    return re.sub(r"://[^/@\s]*:[^/\s]*@", "://***@", text)


def _many(action: Callable[[_A], _B], values: Iterable[_A]) -> Iterator[_B]:
    """Results of an action, in this order, many at a time."""
    waiting = iter(values)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="synthscape-storage") as pool:
        while some := list(islice(waiting, _AHEAD)):
            yield from pool.map(action, some)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _answer(error: BaseException) -> tuple[int, str]:
    """What a server answered: HTTP status and the name of its error; 0 if it isn't known."""
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)  # of botocore
        if isinstance(response, Mapping):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return int(status), str(response.get("Error", {}).get("Code", ""))
        for name in ("status", "code"):  # of aiohttp, of gcsfs
            status = getattr(one, name, None)
            if isinstance(status, int):
                return status, ""
    return 0, ""


def _kinds(error: Exception) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _may_pass(error: Exception) -> bool:
    status, _ = _answer(error)
    if status:
        return status in _PASSING_STATUS or (status >= 500 and status != _HTTP_NOT_IMPLEMENTED)
    return isinstance(error, TimeoutError) or bool(_kinds(error) & _PASSING_KINDS)


def _said(error: Exception) -> str:
    """First line of an error, without what is nobody's business."""
    lines = str(error.strerror if isinstance(error, OSError) and error.strerror else error).strip().splitlines()
    return without_secrets(lines[0]) if lines else type(error).__name__
