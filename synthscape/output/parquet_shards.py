"""``output.format: parquet``: a row an item, its audio and all labels in it, ``data/00000.parquet``.

``audio`` is what the hub's ``datasets`` calls an Audio feature: a struct of the encoded file and its name, or a list of
them where an item is a question. Rows that are made together (a page) are a row group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from synthscape.errors import DatasetError
from synthscape.files import naming
from synthscape.labels.schema import described, listed
from synthscape.output.containers import Container, Page, StoredAudio
from synthscape.output.rows import hub_features, item_rows, rows_schema
from synthscape.storage import Place

_AUDIO: Final = pa.struct({"bytes": pa.binary(), "path": pa.string()})
_MOST_BYTES: Final = 2**31 - 1  # that Arrow's binary columns hold in one piece
_ROWS_AT_ONCE: Final = 16  # small pieces of audio need less memory, and less time for it
_MOST_INDEXED: Final = 256  # shards whose names are kept in memory

T = TypeVar("T")


def shard_schema(of_questions: bool, sample_rate: int) -> pa.Schema:
    """Columns of ``data/00000.parquet``, with what the hub's readers want to know of them."""
    kind, meaning = _AUDIO, "its audio file: content and name"
    if of_questions:
        kind, meaning = listed(_AUDIO), "its audio files, content and name of each, in the order of scene_ids"
    schema = pa.schema([described("audio", kind, "", meaning), *rows_schema(of_questions)])
    features = hub_features(schema, {"audio": sample_rate})
    return schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})


class ParquetShard(Container):
    """A Parquet file, being written row group by row group."""

    def __init__(self, workspace: Path, shard: str, suffix: str, sample_rate: int, of_questions: bool):
        super().__init__()
        self._path = self.growing = workspace / "data.parquet"
        self._name = _file(shard)
        self._suffix = suffix
        self._of_questions = of_questions
        self._schema = shard_schema(of_questions, sample_rate)
        packed = [name for name in _leaves(self._schema) if name != _leaf(of_questions, "bytes")]
        with naming(self._path):
            self._writer = pq.ParquetWriter(  # encoded audio neither packs nor repeats
                self._path,
                self._schema,
                compression=dict.fromkeys(packed, "zstd"),
                use_dictionary=packed,
                write_statistics=packed,
                write_batch_size=_ROWS_AT_ONCE,
            )

    def audio_name(self, scene_id: str, item_id: str, part: str | None) -> str:  # noqa: D102
        return f"{scene_id}.{self._suffix}"

    def add(self, page: Page) -> None:  # noqa: D102
        rows = item_rows(page.tables, self._of_questions)
        if not len(rows):
            return
        contents = self._audio_of(page)
        if sum(map(len, contents)) > _MOST_BYTES:
            raise DatasetError(
                f"{self._name}: an item of more than 2 GiB of audio, which a Parquet file can't hold; ask for a "
                "shorter duration, or output.format=folder"
            )
        names = page.tables["scenes"]["audio"].combine_chunks()
        audio = pa.StructArray.from_arrays([pa.array(contents, pa.binary()), names], fields=_AUDIO.fields)
        if self._of_questions:
            audio = pa.ListArray.from_arrays(rows["scenes"].combine_chunks().offsets, audio, type=listed(_AUDIO))
        with naming(self._path):
            self._writer.write_table(rows.add_column(0, self._schema.field("audio"), audio), len(rows))

    def close(self) -> dict[str, Path]:  # noqa: D102
        with naming(self._path):
            self._writer.close()
        return {self._name: self._path}

    def discard(self) -> None:  # noqa: D102
        with suppress(OSError, pa.ArrowException):  # of a file that is thrown away
            self._writer.close()


class StoredParquet(StoredAudio):
    """Parquet files, read back by row group; the last one is kept in memory."""

    def __init__(self, place: Place, of_questions: bool):
        super().__init__(place)
        self._of_questions = of_questions
        self._indexes: dict[str, dict[str, tuple[int, int]]] = {}
        self._last: tuple[tuple[str, int], pa.Array] | None = None

    def read(self, shard: str, name: str) -> bytes:  # noqa: D102
        if shard not in self._indexes:
            while len(self._indexes) >= _MOST_INDEXED:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[shard] = self._opened(shard, self._index)
        found = self._indexes[shard].get(name)
        if found is None:
            raise self.unreadable(self.whole_name(shard, name), "there is no audio of this name")
        group, position = found
        last = self._last
        if last is None or last[0] != (shard, group):
            last = self._last = (shard, group), self._opened(shard, lambda file: self._column(file, group, "bytes"))
        content: bytes | None = last[1][position].as_py()
        if content is None:
            raise self.unreadable(self.whole_name(shard, name), "it is null")
        return content

    def problems(self, shard: str, tables: Mapping[str, pa.Table]) -> Iterator[str]:  # noqa: D102
        yield from self._opened(shard, lambda file: list(self._problems(file, shard, tables)))

    def whole_name(self, shard: str, name: str) -> str:  # noqa: D102
        return f"{_file(shard)}: {name}"

    def _problems(self, file: pq.ParquetFile, shard: str, tables: Mapping[str, pa.Table]) -> Iterator[str]:
        expected, names = item_rows(tables, self._of_questions), tables["scenes"]["audio"].to_pylist()
        first, found = 0, []
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=expected.column_names).select(expected.column_names)
            for name in expected.column_names:
                if not rows[name].equals(expected[name].slice(first, len(rows))):
                    yield f"{_file(shard)}: column {name!r} is not what the tables say"
            first += len(rows)
            found += self._column(file, group, "path").to_pylist()
        if first != len(expected):
            yield f"{_file(shard)}: {first} items, expected {len(expected)}"
        if found != names:
            yield f"{_file(shard)}: the names of its audio are not those of the scenes table"

    def _index(self, file: pq.ParquetFile) -> dict[str, tuple[int, int]]:
        return {
            name: (group, position)
            for group in range(file.num_row_groups)
            for position, name in enumerate(self._column(file, group, "path").to_pylist())
        }

    def _column(self, file: pq.ParquetFile, group: int, part: str) -> pa.Array:
        """``bytes`` or ``path`` of all audio of a row group."""
        leaf = _leaf(self._of_questions, part)
        audio = pa.concat_arrays(file.read_row_group(group, columns=[leaf])["audio"].chunks)
        return (audio.flatten() if self._of_questions else audio).field(part)

    def _opened(self, shard: str, use: Callable[[pq.ParquetFile], T]) -> T:
        try:
            with self.place.open(_file(shard)) as opened, pq.ParquetFile(opened) as file:
                if not file.schema_arrow.field("audio").type.equals(listed(_AUDIO) if self._of_questions else _AUDIO):
                    raise self.unreadable(_file(shard), f"'audio' is {file.schema_arrow.field('audio').type}")
                return use(file)
        except (OSError, pa.ArrowException, KeyError) as error:
            raise self.unreadable(_file(shard), error) from None


def _file(shard: str) -> str:
    return f"data/{shard}.parquet"


def _leaf(of_questions: bool, part: str) -> str:
    return f"audio.list.element.{part}" if of_questions else f"audio.{part}"


def _leaves(schema: pa.Schema) -> list[str]:
    """Columns as Parquet has them, parts of structs and lists each by itself."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    columns = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [columns.column(i).path for i in range(len(columns))]
