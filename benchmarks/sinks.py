"""The least that writes encoded scenes the way a format stores them: audio without tables, synced once a shard."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import fields
from itertools import chain, count, islice
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from synthscape.output.sync import SyncedFiles
from synthscape.spec.schema import Output

#: All formats; the first is the default.
FORMATS: Final[tuple[str, ...]] = next(f for f in fields(Output) if f.name == "format").metadata["rule"].allowed
ROWS: Final = 16  # of Parquet, written at a time: more would wait for memory
SHARD: Final = 512

Item = TypeVar("Item")


def write_all(kind: str, folder: Path, contents: Iterable[bytes]) -> None:
    """Write files of scenes into a folder, shard by shard; all are on the disk when it returns."""
    scenes = ((f"s{number:09d}.flac", content) for number, content in enumerate(contents))
    for shard in count():
        first = next(scenes, None)
        if first is None:
            return
        _SINKS[kind](folder / str(shard), chain([first], islice(scenes, SHARD - 1)))


def encode_into(kind: str, folder: Path, encode: Callable[[Item], bytes], items: list[Item], threads: int) -> None:
    """Encode on threads, write what they give, in order."""
    with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
        write_all(kind, folder, pool.map(encode, items) if pool else map(encode, items))


def _parquet(path: Path, scenes: Iterator[tuple[str, bytes]]) -> None:
    schema = pa.schema([("audio", pa.struct({"bytes": pa.binary(), "path": pa.string()}))])
    with path.open("xb") as file:
        plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with pq.ParquetWriter(file, schema, **plain) as writer:
            while page := list(islice(scenes, ROWS)):
                names, contents = zip(*page, strict=True)
                audio = pa.StructArray.from_arrays(
                    [pa.array(contents, pa.binary()), pa.array(names)], fields=list(schema.field("audio").type)
                )
                writer.write_table(pa.table([audio], schema=schema), len(page))
        file.flush()
        os.fsync(file.fileno())


def _tar(path: Path, scenes: Iterator[tuple[str, bytes]]) -> None:
    with path.open("xb") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for name, content in scenes:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        file.flush()
        os.fsync(file.fileno())


def _files(path: Path, scenes: Iterator[tuple[str, bytes]]) -> None:
    path.mkdir()
    with SyncedFiles() as files:
        for name, content in scenes:
            files.write(path / name, content)


_SINKS: Final = {"parquet": _parquet, "webdataset": _tar, "folder": _files}
