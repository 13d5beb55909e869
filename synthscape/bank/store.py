"""Reading a store: clips by row, without reading what isn't asked for."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from synthscape.bank.schema import (
    ALIGN_SAMPLES,
    BANDS_FILE,
    CLIPS_FILE,
    COLUMNS,
    FORMAT,
    FORMAT_VERSION,
    FULL_SCALE,
    KINDS,
    METADATA_COLUMNS,
    RANGES,
    REQUIRED,
    STORE_FILE,
    is_cluster,
    nearest,
)
from synthscape.errors import StoreError
from synthscape.storage import within

_NULLABLE_INTEGERS: Final = {pa.int64(): pd.Int64Dtype(), pa.int16(): pd.Int16Dtype()}


class ClipStore:
    """A folder of clips, memory-mapped.

    >>> bank = ClipStore.open("banks/demo/pseudovox")       # doctest: +SKIP
    >>> len(bank), bank.sample_rate                         # doctest: +SKIP
    (1240, 16000)
    >>> bank.audio(3)                                       # float32 [length], peak 32767 / 32768  # doctest: +SKIP
    >>> bank.columns(["species", "call_type"])              # pyarrow.Table, only these are read    # doctest: +SKIP

    Rows are numbered from 0 in the order of ``clips.parquet``. Opening reads two small files and the sizes of the
    others; columns and audio are read when asked for. A store may be read from several threads.

    Attributes:
        path: the folder, on this machine.
        where: what it was opened by: its path, or its URL.
        kind: ``pseudovox``, ``backgrounds`` or ``impulses``.
        sample_rate: Hz, of every clip.
        fingerprint: hash of everything the rows say (and so, by ``clip_id``, of all audio), wherever the folder lies.
        block_samples: samples of a block of the band-energy table.
        band_edges_hz: float64 [n_bands + 1].
        column_names: all columns of the table, also those that hold nothing.
        info: what ``store.json`` says.
    """

    def __init__(self, path: Path, info: dict[str, Any], table: pq.ParquetFile):
        self.path = path
        self.where: Path | str = path
        self.info = info
        self.column_names: list[str] = table.schema_arrow.names
        self._table = table  # kept open: to open it again takes longer than to read a column
        self._reading = Lock()
        self.kind: str = info["kind"]
        self.sample_rate: int = info["sample_rate"]
        self.fingerprint: str = info["fingerprint"]
        self.block_samples: int = info["block_samples"]
        self.band_edges_hz: NDArray[np.float64] = np.array(info["band_edges_hz"], dtype=np.float64)
        ends = np.cumsum([0] + [entry["n_samples"] for entry in info["audio"]], dtype=np.int64)
        self._file_starts: NDArray[np.int64] = ends[:-1]
        self._maps: dict[int, NDArray[np.int16]] = {}

    @classmethod
    def open(cls, path: str | Path) -> ClipStore:
        """Open a store.

        Args:
            path: the folder, a path or URL; one behind a URL is copied to this machine first, once (docs/storage.md).

        Raises:
            StoreError: the folder is no store, of another format version, or a part of it is missing or damaged; the
                message names the file, and its expected and real size.
        """
        url = within(Path(), path)
        if isinstance(url, str):
            from synthscape.bank.cache import local_copy  # and fsspec, which few need

            store = cls.open(local_copy(url))
            store.where = url
            return store
        folder = url
        info = read_info(_store_file(folder), str(folder / STORE_FILE))
        for name, size in expected_sizes(info).items():
            _check_size(folder / name, size)
        try:
            # not memory-mapped: if it were cut while we have it open, to read it would end the process
            table = pq.ParquetFile(folder / CLIPS_FILE)
        except FileNotFoundError:
            raise StoreError(f"{folder / CLIPS_FILE} is missing: copy the store again, or build it again") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise StoreError(f"{folder / CLIPS_FILE} is damaged ({error}): copy the store again") from None
        n_rows, schema = table.metadata.num_rows, table.schema_arrow
        if n_rows != info["n_clips"]:
            raise StoreError(
                f"{folder / CLIPS_FILE} has {n_rows} rows, {STORE_FILE} says {info['n_clips']}: the parts of this "
                "store don't belong together; copy it again"
            )
        for name in schema.names:
            expected = COLUMNS.get(name, pa.string() if is_cluster(name) else None)
            if expected is not None and schema.field(name).type != expected:
                raise StoreError(
                    f"{folder / CLIPS_FILE}: column {name!r} should hold {expected}, got {schema.field(name).type}; "
                    "build the store again"
                )
        for name in REQUIRED:
            if name not in schema.names:
                raise StoreError(
                    f"{folder / CLIPS_FILE} has no column {name!r}, which every store needs; build it again"
                )
        return cls(folder, info, table)

    def __len__(self) -> int:
        return int(self.info["n_clips"])

    def __repr__(self) -> str:
        return f"<ClipStore {self.where} ({self.kind}, {len(self)} clips, {self.sample_rate} Hz)>"

    def has(self, name: str) -> bool:
        """True if the column exists and at least one clip has a value in it."""
        return name in self.column_names and self.info["filled"].get(name, 0) > 0

    def require(self, names: Iterable[str], why: str) -> None:
        """Refuse a store that lacks a column.

        Args:
            names: columns that must hold at least one value.
            why: what needs them, for the message ("classes.by: call_type needs it").

        Raises:
            StoreError: naming the missing column.
        """
        for name in names:
            if not self.has(name):
                state = "is empty" if name in self.column_names else "doesn't exist" + nearest(name, self.column_names)
                said = name in METADATA_COLUMNS or is_cluster(name)
                advice = " with a metadata table that has it (`synthscape bank build --metadata`)" if said else " again"
                raise StoreError(f"{self.path}: column {name!r} {state}, but {why}; build the store{advice}")

    def columns(self, names: Sequence[str]) -> pa.Table:
        """These columns of all rows, in this order; nothing else is read.

        Raises:
            StoreError: a column doesn't exist, or the table is damaged.
        """
        for name in names:
            if name not in self.column_names:
                raise StoreError(f"{self.path}: no column {name!r}{nearest(name, self.column_names)}")
        try:
            with self._reading:
                return self._table.read(list(names), use_threads=len(names) > 1).select(list(names))
        except (pa.ArrowInvalid, OSError) as error:
            raise StoreError(f"{self.path / CLIPS_FILE} is damaged ({error}): copy the store again") from None

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of numbers, float64 [n]; NaN where it is null or doesn't exist.

        Raises:
            StoreError: a number is not finite or not one its column can have (:data:`synthscape.bank.schema.RANGES`).
        """
        if not self.has(name):
            return np.full(len(self), np.nan)
        column = self.columns([name])[name]
        values: NDArray[np.float64] = column.to_numpy().astype(np.float64)
        low, high = RANGES[name]
        wrong = np.asarray(column.is_valid()) & ~((values >= low) & (values <= high))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self._damaged(row, f"{name} {values[row]:g}, expected {low:g} to {high:g}")
        return values

    @cached_property
    def clips(self) -> pd.DataFrame:
        """All columns of all rows; integers that may be null are ``Int64``."""
        table: pd.DataFrame = self.columns(self.column_names).to_pandas(types_mapper=_NULLABLE_INTEGERS.get)
        return table.astype({"start": np.int64, "length": np.int64})

    @property
    def starts(self) -> NDArray[np.int64]:
        """First sample of each clip in the concatenated audio files, int64 [n]."""
        return self._extents[0]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Samples of each clip, int64 [n]."""
        return self._extents[1]

    @cached_property
    def _extents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # Kernels read audio by these without looking, so they must lie in it whatever the table says.
        starts, lengths = self.raw_extents()
        n_samples = sum(entry["n_samples"] for entry in self.info["audio"])
        inside = (lengths >= 1) & (lengths <= n_samples) & (starts >= 0) & (starts <= n_samples - lengths)
        if not inside.all():
            row = int(np.argmin(inside))
            raise self._damaged(row, f"{lengths[row]} samples from {starts[row]} on, of {n_samples} in the audio files")
        return starts, lengths

    def raw_extents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``start`` and ``length`` as the table has them, each int64 [n], though they may lie outside the audio."""
        return self._int64("start"), self._int64("length")

    @cached_property
    def active(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Active part of each clip: start and end (exclusive), each int64 [n]; the whole clip where null.

        Raises:
            StoreError: one does not lie inside its clip.
        """
        start, end = self.raw_active()
        inside = (start >= 0) & (start < end) & (end <= self.lengths)
        if not inside.all():
            row = int(np.argmin(inside))
            raise self._damaged(row, f"an active part [{start[row]}, {end[row]}) in {self.lengths[row]} samples")
        return start, end

    def raw_active(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As ``active``, though parts may lie outside their clips."""
        lengths = self._int64("length")
        if not self.has("active_start") or not self.has("active_end"):
            return np.zeros(len(self), dtype=np.int64), lengths
        table = self.columns(["active_start", "active_end"])
        end = table["active_end"]
        known = np.asarray(end.is_valid())
        return table["active_start"].fill_null(0).to_numpy(), np.where(known, end.fill_null(0).to_numpy(), lengths)

    def _damaged(self, row: int, says: str) -> StoreError:
        return StoreError(
            f"{self.path / CLIPS_FILE}: clip {row} has {says}: the store is damaged; copy it again, or build it again"
        )

    def pcm(self, row: int) -> NDArray[np.int16]:
        """The clip as stored, a read-only view, int16 [length]. Raises IndexError for a row there isn't."""
        row = range(len(self))[row]
        start, length = int(self.starts[row]), int(self.lengths[row])
        clip = self.samples(start, length)
        if len(clip) != length:
            raise StoreError(f"{self.path}: clip {row} lies in two audio files; run `synthscape bank check` on it")
        return clip

    def samples(self, start: int, length: int) -> NDArray[np.int16]:
        """A stretch of the concatenated audio files, a read-only view; shorter where the file it begins in ends."""
        file = int(np.searchsorted(self._file_starts, start, side="right")) - 1
        offset = start - int(self._file_starts[file])
        return self._audio(file)[offset : offset + length]

    def audio(self, row: int) -> NDArray[np.float32]:
        """The clip's stored value, int16 / 32768, float32 [length]. Original value = pcm / 32767 x peak."""
        return self.pcm(row).astype(np.float32) / np.float32(FULL_SCALE)

    def gather(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        """Copy clips into one array, each on a multiple of 8 samples, zeros between.

        Args:
            rows: int64 [n]; a row may stand in it twice.

        Returns:
            packed int16 [samples], and the start of each clip in it, int64 [n].
        """
        rows = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[rows]
        padded = -(-lengths // ALIGN_SAMPLES) * ALIGN_SAMPLES
        ends = np.cumsum(padded)
        starts = ends - padded
        packed = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.int16)
        for row, start, length in zip(rows.tolist(), starts.tolist(), lengths.tolist(), strict=True):
            packed[start : start + length] = self.pcm(row)
        return packed, starts

    def locate(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        """Audio that holds these clips, read-only, and where each begins in it: the file that all lie in, or a copy.

        Args:
            rows: int64 [n]; a row may stand in it twice.

        Returns:
            int16 [samples], and int64 [n].
        """
        starts = self.starts[rows]
        if len(self._file_starts) == 1:
            return self._audio(0), starts
        file = int(np.searchsorted(self._file_starts, starts.min(initial=0), side="right")) - 1
        audio = self._audio(file)
        starts = starts - self._file_starts[file]
        if (starts + self.lengths[rows] > len(audio)).any():
            audio, starts = self.gather(rows)
            audio.flags.writeable = False  # kernels are compiled for read-only audio
        return audio, starts

    @cached_property
    def block_starts(self) -> NDArray[np.int64]:
        """Row of ``band_energy_all`` where each clip begins, and their number: int64 [n + 1]."""
        blocks = -(-self.lengths // self.block_samples)
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(blocks)])
        if starts[-1] != self.info["n_blocks"]:
            raise StoreError(
                f"{self.path / BANDS_FILE} has {self.info['n_blocks']} blocks, the clips need {starts[-1]}: the parts "
                "of this store don't belong together; copy it again"
            )
        return starts

    @cached_property
    def band_energy_all(self) -> NDArray[np.float32]:
        """Energy of every block of every clip in every band, a read-only view, float32 [blocks, n_bands]."""
        shape = (int(self.info["n_blocks"]), len(self.band_edges_hz) - 1)
        return np.memmap(self.path / BANDS_FILE, dtype="<f4", mode="r", shape=shape)

    def band_energy(self, row: int) -> NDArray[np.float32]:
        """The clip's energy (sum of squares of stored values) by 50 ms block and band, float32 [blocks, n_bands]."""
        row = range(len(self))[row]
        return self.band_energy_all[self.block_starts[row] : self.block_starts[row + 1]]

    def _audio(self, file: int) -> NDArray[np.int16]:
        if file not in self._maps:
            self._maps[file] = np.memmap(self.path / self.info["audio"][file]["name"], dtype="<i2", mode="r")
        return self._maps[file]

    def _int64(self, name: str) -> NDArray[np.int64]:
        column = self.columns([name])[name]
        if column.null_count:
            raise StoreError(
                f"{self.path / CLIPS_FILE}: {column.null_count} clips have no {name!r}: the store is damaged; copy it "
                "again, or build it again"
            )
        values: NDArray[np.int64] = column.to_numpy()
        return values


def iter_rows(path: Path, batch_rows: int = 8192) -> Iterator[dict[str, Any]]:
    """The rows of a ``clips.parquet`` as dicts, in order, a batch in memory at a time."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=batch_rows):
            yield from batch.to_pylist()


class Fingerprint:
    """Hash of what the rows of a store say, in order: BLAKE2b over one canonical line of JSON per row.

    Null columns are left out, keys are sorted, floats are written in their shortest exact form; so the result depends
    on neither paths, nor file sizes, nor the versions of the packages that wrote the table.
    """

    def __init__(self, kind: str, sample_rate: int):
        self._hash = hashlib.blake2b(digest_size=16)
        self._hash.update(f"{FORMAT} {FORMAT_VERSION} {kind} {sample_rate}\n".encode())

    def add(self, row: dict[str, Any]) -> None:
        """Count a row in."""
        said = {name: value for name, value in row.items() if value is not None}
        line = json.dumps(said, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
        self._hash.update(line.encode() + b"\n")

    def hexdigest(self) -> str:
        """32 hex digits."""
        return self._hash.hexdigest()


def clip_hash(pcm: NDArray[np.int16]) -> str:
    """The ``clip_id`` of stored audio: BLAKE2b over its little-endian samples and their number, 32 hex digits."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(np.ascontiguousarray(pcm, dtype="<i2").data)
    digest.update(len(pcm).to_bytes(8, "little"))
    return digest.hexdigest()


def is_store(folder: Path) -> bool:
    """True if the folder says it is a store (it may still be damaged)."""
    try:
        return bool(json.loads((folder / STORE_FILE).read_text(encoding="utf-8")).get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


_AUDIO_NAME: Final = re.compile(r"[\w-]+\.i16")
_INFO_TYPES: Final[dict[str, type]] = {
    "kind": str,
    "sample_rate": int,
    "n_clips": int,
    "n_samples": int,
    "n_blocks": int,
    "block_samples": int,
    "fingerprint": str,
    "audio": list,
    "band_edges_hz": list,
    "filled": dict,
    "conditioning": dict,
}


def _store_file(folder: Path) -> bytes:
    file = folder / STORE_FILE
    if not folder.exists():
        raise StoreError(f"no store at {folder}: no such folder; build one with `synthscape bank build`")
    if not file.is_file():
        raise StoreError(f"{folder} is not a store: it has no {STORE_FILE}; build one with `synthscape bank build`")
    return file.read_bytes()


def read_info(content: bytes, file: str) -> dict[str, Any]:
    """What a ``store.json`` says, checked: names in it are plain names.

    Args:
        content: the file.
        file: its path or URL, for messages.

    Raises:
        StoreError: it is damaged, or of another version.
    """
    try:
        info = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is damaged, not JSON ({error}): copy the store again") from None
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise StoreError(f'{file} doesn\'t describe a store (expected "format": {FORMAT!r})')
    if info.get("format_version") != FORMAT_VERSION:
        raise StoreError(
            f"{file} has format version {info.get('format_version')}, this synthscape reads {FORMAT_VERSION}: "
            "build the store again, or use the version that wrote it"
        )
    for key, kind in _INFO_TYPES.items():
        if not isinstance(info.get(key), kind):
            raise StoreError(f"{file}: {key!r} should be {kind.__name__}, got {info.get(key)!r}: copy the store again")
    if info["kind"] not in KINDS:
        raise StoreError(f"{file}: kind should be one of {', '.join(KINDS)}, got {info['kind']!r}")
    for key in ("sample_rate", "n_clips", "n_blocks", "block_samples"):
        if not 1 <= info[key] < 2**53:
            raise StoreError(f"{file}: {key!r} should be positive, got {info[key]}: copy the store again")
    for entry in info["audio"]:
        name, n_samples = (entry.get("name"), entry.get("n_samples")) if isinstance(entry, dict) else (None, None)
        # a store from elsewhere must not make us read outside its folder
        plain = isinstance(name, str) and _AUDIO_NAME.fullmatch(name)
        if not plain or not isinstance(n_samples, int) or not 1 <= n_samples < 2**53:
            raise StoreError(f"{file}: an audio file should have a plain name and a number of samples, got {entry!r}")
    edges = info["band_edges_hz"]
    if len(edges) < 2 or not all(isinstance(edge, int | float) and math.isfinite(edge) for edge in edges):
        raise StoreError(f"{file}: 'band_edges_hz' should be two or more numbers, got {edges!r}: copy the store again")
    if not all(isinstance(count, int) for count in info["filled"].values()):
        raise StoreError(f"{file}: 'filled' should hold whole numbers, got {info['filled']!r}: copy the store again")
    return info


def expected_sizes(info: dict[str, Any]) -> dict[str, int]:
    """Bytes of each file that ``store.json`` knows the size of, by its name: audio and bands."""
    sizes: dict[str, int] = {entry["name"]: entry["n_samples"] * 2 for entry in info["audio"]}
    sizes[BANDS_FILE] = info["n_blocks"] * (len(info["band_edges_hz"]) - 1) * 4
    return sizes


def _check_size(file: Path, size: int) -> None:
    try:
        got = file.stat().st_size
    except FileNotFoundError:
        raise StoreError(
            f"{file} is missing (expected {size} bytes): copy the store again, or build it again"
        ) from None
    if got != size:
        raise StoreError(f"{file} has {got} bytes, expected {size}: it is damaged; copy the store again")
