"""``output.format: webdataset``: a tar of audio files and JSON, ``data/00000.tar``.

What belongs together shares a name up to its first dot: ``s000000000.flac`` and ``s000000000.json``; of a question
``i000000000.a1.flac``, ``i000000000.query.flac``, ..., ``i000000000.json``. The JSON is the item's row, see
:mod:`synthscape.output.rows`.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from synthscape.files import naming
from synthscape.labels.json_rows import json_rows
from synthscape.output.containers import Container, Page, StoredAudio
from synthscape.output.rows import item_rows
from synthscape.storage import Place

_FORMAT: Final = tarfile.PAX_FORMAT  # plain USTAR headers but for what they can't hold
_MOST_INDEXED: Final = 256  # shards whose members are kept in memory


class TarShard(Container):
    """A tar, being written: no clocks, no users, so the same items are the same bytes."""

    def __init__(self, workspace: Path, shard: str, suffix: str, of_questions: bool):
        super().__init__()
        self._path = self.growing = workspace / "data.tar"
        self._name = _file(shard)
        self._suffix = suffix
        self._of_questions = of_questions
        with naming(self._path):
            self._file = self._path.open("xb")

    def audio_name(self, scene_id: str, item_id: str, part: str | None) -> str:  # noqa: D102
        return f"{scene_id}.{self._suffix}" if part is None else f"{item_id}.{part}.{self._suffix}"

    def add(self, page: Page) -> None:  # noqa: D102
        files = zip(page.tables["scenes"]["audio"].to_pylist(), self._audio_of(page), strict=True)
        with naming(self._path):
            for name, text, n_scenes in _texts(page.tables, self._of_questions):
                for _ in range(n_scenes):
                    self._add(*next(files))
                self._add(name, text)

    def _add(self, name: str, content: bytes) -> None:
        # Not by TarFile.addfile: it copies a member in pieces of 16 KiB, and keeps what it knows of all of them.
        self._file.write(_header(name, len(content)))
        self._file.write(content)
        self._file.write(bytes(-len(content) % tarfile.BLOCKSIZE))

    def close(self) -> dict[str, Path]:  # noqa: D102
        with naming(self._path):
            size = self._file.tell() + 2 * tarfile.BLOCKSIZE
            self._file.write(bytes(2 * tarfile.BLOCKSIZE + -size % tarfile.RECORDSIZE))
            self._file.close()
        return {self._name: self._path}

    def discard(self) -> None:  # noqa: D102
        with suppress(OSError):  # of a file that is thrown away
            self._file.close()


class _Member(NamedTuple):
    name: str
    start: int
    size: int


class StoredTars(StoredAudio):
    """Tars, read back by the place of their members, which is looked up once."""

    def __init__(self, place: Place, of_questions: bool):
        super().__init__(place)
        self._of_questions = of_questions
        self._indexes: dict[str, dict[str, _Member]] = {}

    def read(self, shard: str, name: str) -> bytes:  # noqa: D102
        if shard not in self._indexes:
            while len(self._indexes) >= _MOST_INDEXED:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[shard] = {member.name: member for member in self._members(shard)}
        member = self._indexes[shard].get(name)
        if member is None:
            raise self.unreadable(self.whole_name(shard, name), "there is no audio of this name")
        return self._content(shard, member)

    def problems(self, shard: str, tables: Mapping[str, pa.Table]) -> Iterator[str]:  # noqa: D102
        members = self._members(shard)
        there = {member.name: member for member in members}
        names = iter(tables["scenes"]["audio"].to_pylist())
        expected: list[str] = []
        for name, text, n_scenes in _texts(tables, self._of_questions):
            expected += [next(names) for _ in range(n_scenes)] + [name]
            if name in there and not _says(self._content(shard, there[name]), text):
                yield f"{self.whole_name(shard, name)}: not what the tables say"
        if [member.name for member in members] != expected:
            yield f"{_file(shard)}: the names of its members are not those that follow from the tables"

    def whole_name(self, shard: str, name: str) -> str:  # noqa: D102
        return f"{_file(shard)}: {name}"

    def _members(self, shard: str) -> list[_Member]:
        """All members; what a header says of their size is held against the file's."""
        try:
            with self.place.open(_file(shard)) as file, tarfile.open(fileobj=file, mode="r:") as tar:
                members = [_Member(one.name, one.offset_data, one.size) for one in tar if one.type == tarfile.REGTYPE]
                size = file.seek(0, os.SEEK_END)
        except (OSError, tarfile.TarError, ValueError, OverflowError) as error:
            raise self.unreadable(_file(shard), error) from None
        for member in members:
            if not 0 <= member.start <= member.start + member.size <= size:
                raise self.unreadable(self.whole_name(shard, member.name), "it ends behind the end of the file")
        return members

    def _content(self, shard: str, member: _Member) -> bytes:
        try:
            with self.place.open(_file(shard)) as file:
                file.seek(member.start)
                return file.read(member.size)
        except OSError as error:
            raise self.unreadable(_file(shard), error) from None


def _texts(tables: Mapping[str, pa.Table], of_questions: bool) -> Iterator[tuple[str, bytes, int]]:
    """Name and content of the JSON of each item, and how many scenes it has."""
    rows = item_rows(tables, of_questions)
    n_scenes = pc.list_value_length(rows["scene_ids"]).to_pylist() if of_questions else [1] * len(rows)
    for row, n in zip(json_rows(rows), n_scenes, strict=True):
        yield f"{row['item_id' if of_questions else 'scene_id']}.json", orjson.dumps(row), n


def _header(name: str, size: int) -> bytes:
    """Header of a plain file of nobody, at time 0: what tarfile makes, in a quarter of its time.

    >>> _header("a.json", 5) == _plain("a.json", 5)
    True
    """
    if len(name) > tarfile.LENGTH_NAME or not name.isascii() or size >= 8**11:  # what needs a header of its own
        return _plain(name, size)
    start = b"%b%b%011o\0%b" % (name.encode().ljust(100, b"\0"), _PLAIN[100:124], size, _PLAIN[136:148])
    checksum = sum(start) + sum(_PLAIN[156:]) + 8 * ord(" ")
    return b"%b%06o\0 %b" % (start, checksum, _PLAIN[156:])


def _plain(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member.tobuf(_FORMAT, "utf-8", "strict")


_PLAIN: Final = _plain("", 0)


def _says(content: bytes, text: bytes) -> bool:
    """Whether JSON says what is expected, however numbers and spaces are written."""
    with suppress(orjson.JSONDecodeError):
        return content == text or orjson.dumps(orjson.loads(content)) == text
    return False


def _file(shard: str) -> str:
    return f"data/{shard}.tar"
