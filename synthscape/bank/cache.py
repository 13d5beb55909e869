"""Stores behind URLs: copied to this machine once, and read there."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Final

from synthscape.bank.schema import CLIPS_FILE, STORE_FILE
from synthscape.bank.store import expected_sizes, read_info
from synthscape.errors import StoreError
from synthscape.files import ASIDE_PREFIX
from synthscape.remote import RemotePlace

_SPARE_BYTES: Final = 100_000_000  # left free on the disk
_LOG: Final = logging.getLogger("synthscape")


def cache_folder() -> Path:
    """Where copies lie: ``SYNTHSCAPE_CACHE``, or ``synthscape`` in the user's cache folder."""
    named = os.environ.get("SYNTHSCAPE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "synthscape"


def local_copy(url: str) -> Path:
    """Copy a store to this machine, unless this version of it is here already, and give its folder.

    ``store.json`` is read each time; another one is another version, and a new copy. Several processes may ask at once:
    one copies, the others wait for it.

    Raises:
        StoreError: there is no store, it is cut short, or this disk is too small.
        StorageError: the server can't be reached, or refuses.
        OSError: the cache can't be written.
    """
    place = RemotePlace(url)
    try:
        said = place.read(STORE_FILE)
    except FileNotFoundError:
        raise StoreError(f"no store at {url}: there is no {STORE_FILE}; copy one there, or name another") from None
    sizes = expected_sizes(read_info(said, f"{url}/{STORE_FILE}"))
    key = blake2b(f"{place.where}\n".encode() + said, digest_size=12).hexdigest()
    folder = cache_folder().absolute() / "stores" / f"{PurePosixPath(place.where).name[:64]}-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_name(f"{key}.lock")):
        if not _is_whole(folder, sizes):
            _copy(place, folder, said, sizes)
    return folder


def _is_whole(folder: Path, sizes: dict[str, int]) -> bool:
    names = (STORE_FILE, CLIPS_FILE)
    return all((folder / name).is_file() for name in names) and all(
        (folder / name).is_file() and (folder / name).stat().st_size == size for name, size in sizes.items()
    )


def _copy(place: RemotePlace, folder: Path, said: bytes, sizes: dict[str, int]) -> None:
    try:
        there = {name: place.size(name) for name in (*sizes, CLIPS_FILE)}
    except FileNotFoundError as error:
        raise StoreError(f"{error.filename} is missing: copy the store there again") from None
    for name, size in sizes.items():
        if there[name] != size:
            raise StoreError(
                f"{place}/{name} has {there[name]} bytes, {STORE_FILE} says {size}: copy the store there again"
            )
    aside = folder.with_name(f"{ASIDE_PREFIX}{folder.name}")  # one that is there is of a process that was killed
    for old in (aside, folder):
        if old.exists():
            shutil.rmtree(old)
    needed, free = sum(there.values()), shutil.disk_usage(folder.parent).free
    if needed + _SPARE_BYTES > free:
        raise StoreError(
            f"{place} takes {needed / 1e9:.3g} GB on this machine, the disk of {folder.parent} has {free / 1e9:.3g} GB "
            "free; free some, or set SYNTHSCAPE_CACHE to a folder on another disk"
        )
    _LOG.warning("copying %s (%.3g GB) to %s, once", place, needed / 1e9, folder)
    aside.mkdir()
    try:
        for name in there:
            place.fetch(name, aside / name)
        (aside / STORE_FILE).write_bytes(said)
        for path in aside.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        aside.rename(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process is in; a lock dies with its process."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
