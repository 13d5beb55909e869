"""Folders of audio files as recordings to build a store from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.annotations import Annotations
from synthscape.bank.build import Recording, Rejection
from synthscape.bank.decode import Channel, decode
from synthscape.bank.metadata import Metadata
from synthscape.bank.schema import STORE_FILE
from synthscape.errors import AudioError, SpecError

# Never audio. Everything else is tried, so that a recording in a format we can't read is named as such.
_NOT_AUDIO: Final = """
    bib csv doc docx gif gz html ini ipynb jams jpeg jpg json jsonl lab log md npy npz odt parquet pdf png py r rda
    rdata rds rmd rst rttm sha256 sqlite svg tab tar textgrid tif tiff toml tsv txt xls xlsx xml yaml yml zip
"""
NOT_AUDIO: Final = frozenset("." + extension for extension in _NOT_AUDIO.split())


@dataclass
class Folder:
    """Files of a folder, relative paths with ``/``, sorted: those to read, and those that are not audio."""

    path: Path
    files: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def find_files(source: Path, include: Sequence[str] = ()) -> Folder:
    """List a folder and all below it, in an order that is the same everywhere.

    With ``include``, only files whose path in the folder matches one of the patterns (``calls/*``; a ``*`` also stands
    for ``/``); the others are not looked at.

    Not audio, and listed as ignored: hidden files, files without an extension, and those whose extension says so
    (.txt, .csv, .json, ...); and folders that are not entered (their names end in ``/``): hidden ones, stores, and
    links to folders. What looks like a recording and can't be read, such as a broken link or a folder we may not list,
    is among the files, and is rejected when it is read.

    Raises:
        SpecError: it is not a folder, has no file to read, or a pattern names none of its files.
    """
    if not source.is_dir():
        state = "is a file" if source.exists() else "doesn't exist"
        raise SpecError(f"{source} {state}: name the folder that holds the recordings")
    folder = Folder(source)

    def not_listed(error: OSError) -> None:
        if Path(error.filename) == source:
            raise error
        folder.files.append(Path(error.filename).relative_to(source).as_posix())

    for parent, folders, names in os.walk(source, onerror=not_listed):
        here = Path(parent)
        left_out = {name for name in folders if _is_left_out(here / name)}
        folder.ignored += [f"{(here / name).relative_to(source).as_posix()}/" for name in left_out]
        folders[:] = [name for name in folders if name not in left_out]
        for name in names:
            path = here / name
            suffix = path.suffix.lower()
            is_audio = not name.startswith(".") and suffix and suffix not in NOT_AUDIO
            (folder.files if is_audio else folder.ignored).append(path.relative_to(source).as_posix())
    for pattern in include:
        if not any(fnmatchcase(name, pattern) for name in folder.files):
            raise SpecError(f"--include: no audio file in {source} matches {pattern!r}; a pattern is such as 'calls/*'")
    if include:
        folder.files = [name for name in folder.files if any(fnmatchcase(name, pattern) for pattern in include)]
    folder.files.sort()
    folder.ignored.sort()
    if not folder.files:
        raise SpecError(f"{source} has no audio files ({len(folder.ignored)} others)")
    return folder


def _is_left_out(folder: Path) -> bool:
    try:
        is_store = (folder / STORE_FILE).is_file()
    except OSError:  # a folder we may not look into: rejected when it is listed
        is_store = False
    return folder.name.startswith(".") or folder.is_symlink() or is_store


def read_recordings(
    folder: Folder,
    rate: int,
    channel: Channel = "loudest",
    metadata: Metadata | None = None,
    annotations: Annotations | None = None,
    mixtures: Path | None = None,
    progress: Callable[[str], None] = lambda file: None,
    columns: dict[str, Any] | None = None,
) -> Iterator[Recording | Rejection]:
    """Decode the files of a folder one after the other.

    Args:
        folder: of :func:`find_files`.
        rate: Hz, the store's.
        channel: see :func:`synthscape.bank.decode.decode`.
        metadata: columns by file.
        annotations: boxes by file.
        mixtures: a folder with the raw recording of each separated stem, under the same relative name (or the same
            with another extension).
        progress: called with each file before it is read.
        columns: values for files whose metadata don't have them.
    """
    for name in folder.files:
        progress(name)
        said = {**(columns or {}), **(metadata.columns.get(name, {}) if metadata else {})}
        shown = printable(name)
        recording_id = str(said.pop("recording_id", shown))
        try:
            decoded = decode(folder.path / name, rate, channel)
            mixture = _mixture(mixtures, name, rate, channel) if mixtures is not None else None
        except AudioError as error:
            yield Rejection(shown, error.reason, str(error))
            continue
        except OSError as error:
            yield Rejection(shown, "not_accessible", error.strerror or str(error))
            continue
        bad = annotations.bad.get(name, []) if annotations else []
        yield Recording(
            recording_id,
            decoded.samples,
            said,
            annotations.boxes.get(name, []) if annotations else (),
            mixture,
            decoded.notes,
            decoded.high_share,
            [Rejection(shown, "bad_annotation", row.message, row.where) for row in bad],
            shown,
        )


def printable(name: str) -> str:
    """A file's name as text: bytes that are not UTF-8 are written ``\\xNN``. Nothing else is changed."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _mixture(mixtures: Path, name: str, rate: int, channel: Channel) -> NDArray[np.float32]:
    path = mixtures / name
    if not path.is_file():
        alike: Sequence[Path] = ()
        if path.parent.is_dir():
            alike = [other for other in sorted(path.parent.iterdir()) if other.stem == path.stem and other.is_file()]
            alike = [other for other in alike if other.suffix.lower() not in NOT_AUDIO]
        if len(alike) != 1:
            raise AudioError(f"no raw recording {name!r} in {mixtures}", "no_mixture")
        path = alike[0]
    try:
        return decode(path, rate, channel).samples
    except AudioError as error:
        raise AudioError(f"its mixture {path} can't be used: {error}", "no_mixture") from None
