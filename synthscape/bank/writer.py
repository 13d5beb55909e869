"""Writing a store, clip by clip, with memory that doesn't grow with their number."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import math
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from synthscape.bank.bands import band_edges_hz, band_energy, block_samples
from synthscape.bank.schema import (
    ALIGN_SAMPLES,
    BANDS_FILE,
    CLIPS_FILE,
    DUPLICATES_FILE,
    FORMAT,
    FORMAT_VERSION,
    FULL_SCALE,
    KINDS,
    PCM_PEAK,
    STORE_FILE,
    nearest,
    store_schema,
)
from synthscape.bank.store import Fingerprint, clip_hash, is_store
from synthscape.errors import AudioError, StoreError
from synthscape.files import ASIDE_PREFIX, naming

MAX_FILE_BYTES: Final = 2**30
_ROWS_PER_GROUP: Final = 8192
_SET_BY_WRITER: Final = ("clip_id", "start", "length", "peak")


class StoreWriter:
    """Write a store as a context manager; it appears at ``path``, whole, when the block ends without an error.

    >>> with StoreWriter("banks/mine", "pseudovox", 16000) as writer:           # doctest: +SKIP
    ...     writer.add(samples, {"species": "Parus major", "recording_id": "a"})
    'd41c...'

    Until then everything lies in a folder beside it (``.aside-...``), which is removed on failure.

    Args:
        path: the folder to make; its parent must exist or can be made.
        kind: ``pseudovox``, ``backgrounds`` or ``impulses``.
        sample_rate: Hz, of every clip.
        conditioning: the settings clips were conditioned with, kept in ``store.json``.
        cluster_columns: names of extra ``cluster_*`` columns.
        overwrite: replace a store that is already there. Anything else that is there is never touched.
        max_file_bytes: audio goes on in a new file beyond this (a clip is never split).

    Raises:
        StoreError: something is at ``path`` already, or the arguments make no sense.
    """

    def __init__(
        self,
        path: str | Path,
        kind: str,
        sample_rate: int,
        *,
        conditioning: Mapping[str, Any] | None = None,
        cluster_columns: Sequence[str] = (),
        overwrite: bool = False,
        max_file_bytes: int = MAX_FILE_BYTES,
    ):
        if kind not in KINDS:
            raise StoreError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if sample_rate < 1:
            raise StoreError(f"sample_rate must be a positive number of Hz, got {sample_rate}")
        self.path = Path(path)
        if self.path.is_symlink():  # the store goes where it leads, and the link stays
            self.path = self.path.resolve()
        self.kind = kind
        self.sample_rate = sample_rate
        self.n_clips = 0
        self.n_duplicates = 0
        self.fingerprint = ""
        self._overwrite = overwrite
        self._conditioning = dict(conditioning or {})
        self._max_file_samples = max(ALIGN_SAMPLES, max_file_bytes // 2)
        self._schema = store_schema(cluster_columns)
        self._n_samples = 0
        self._n_blocks = 0
        self._audio: list[dict[str, Any]] = []
        self._rows: list[dict[str, Any]] = []
        self._filled: dict[str, int] = dict.fromkeys(self._schema.names, 0)
        self._hash = Fingerprint(kind, sample_rate)
        self._audio_file: IO[bytes] | None = None
        self._bands_file: IO[bytes] | None = None
        self._table: Any = None
        self._seen: Any = None
        check_free(self.path, overwrite)

    def __enter__(self) -> StoreWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(self.path)
        self.aside = self.path.with_name(f"{ASIDE_PREFIX}{self.path.name}-{secrets.token_hex(6)}")
        self.aside.mkdir()
        self._lock = _lock(self.aside)
        try:
            with self._naming():
                self._open()
        except BaseException:
            self._abandon()
            raise
        return self

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Have a full disk, however it shows, said as an OSError that names the store."""
        try:
            with naming(self.path):
                yield
        except sqlite3.Error as error:
            full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
            number = errno.ENOSPC if full else errno.EIO
            raise OSError(number, os.strerror(number) if full else str(error), str(self.path)) from None

    def _open(self) -> None:
        self._bands_file = (self.aside / BANDS_FILE).open("wb")
        self._table = pq.ParquetWriter(self.aside / CLIPS_FILE, self._schema, compression="zstd")
        # Which audio was seen already: on disk, as a set in memory would take 100 bytes a clip.
        self._seen = sqlite3.connect(self.aside / "seen.sqlite", isolation_level=None)
        self._seen.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
            "CREATE TABLE seen (clip_id BLOB PRIMARY KEY, recording_id TEXT) WITHOUT ROWID; BEGIN;"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                with self._naming():
                    self._close()
                    self._finish()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        # what went wrong first is what the caller must hear, so nothing here may fail
        for file in (self._table, self._audio_file, self._bands_file, self._seen):
            with contextlib.suppress(Exception):
                if file is not None:
                    file.close()
        if self._table is not None:
            self._table.is_open = False  # or it tries again when it is collected, and complains
        if self._lock is not None:
            self._lock.close()
        shutil.rmtree(self.aside, ignore_errors=True)

    def add(self, samples: NDArray[np.floating[Any]], columns: Mapping[str, Any]) -> str | None:
        """Store a clip.

        Args:
            samples: float [length], original scale; stored peak-normalised, the scale goes to ``peak``.
            columns: values by name; absent and None are null. ``clip_id``, ``start``, ``length`` and ``peak`` are set
                here.

        Returns:
            The ``clip_id``, or None if the same audio is stored already (it is listed in ``duplicates.csv``).

        Raises:
            AudioError: no samples, samples that are not finite, or all zero.
            StoreError: a column is unknown or a value is not of its type.
        """
        pcm, peak = to_pcm(samples)
        row = self._row(columns)
        with self._naming():
            return self._add(pcm, peak, row)

    def _add(self, pcm: NDArray[np.int16], peak: float, row: dict[str, Any]) -> str | None:
        assert self._bands_file is not None
        clip_id = clip_hash(pcm)
        if not self._is_new(clip_id, row):
            return None
        row.update(clip_id=clip_id, start=self._write_audio(pcm), length=len(pcm), peak=peak)
        table = band_energy(pcm.astype(np.float32) / np.float32(FULL_SCALE), self.sample_rate)
        self._bands_file.write(table.astype("<f4", copy=False).tobytes())
        self._n_blocks += len(table)
        self.n_clips += 1
        self._hash.add(row)
        for name, value in row.items():
            self._filled[name] += value is not None
        self._rows.append(row)
        if len(self._rows) == _ROWS_PER_GROUP:
            self._flush()
        return clip_id

    def _row(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for name, value in columns.items():
            if name in _SET_BY_WRITER:
                continue
            if name not in self._filled:
                raise StoreError(f"a store has no column {name!r}{nearest(name, self._schema.names)}")
            if value is not None:
                row[name] = _as_type(name, value, self._schema.field(name).type)
        return row

    def _is_new(self, clip_id: str, row: dict[str, Any]) -> bool:
        key = bytes.fromhex(clip_id)
        recording = row.get("recording_id")
        added = self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (key, recording)).rowcount
        if added:
            return True
        kept = self._seen.execute("SELECT recording_id FROM seen WHERE clip_id = ?", (key,)).fetchone()[0]
        line = io.StringIO()
        table = csv.writer(line, lineterminator="\n")
        if not self.n_duplicates:
            table.writerow(["clip_id", "recording_id", "track_id", "track_onset_s", "kept_recording_id"])
        table.writerow([clip_id, recording, row.get("track_id"), row.get("track_onset_s"), kept])
        with (self.aside / DUPLICATES_FILE).open("a", encoding="utf-8", newline="") as file:
            file.write(line.getvalue())
        self.n_duplicates += 1
        return False

    def _write_audio(self, pcm: NDArray[np.int16]) -> int:
        padding = -len(pcm) % ALIGN_SAMPLES
        full = bool(self._audio) and self._audio[-1]["n_samples"] + len(pcm) + padding > self._max_file_samples
        if self._audio_file is None or full:
            if self._audio_file is not None:
                _sync_and_close(self._audio_file)
            self._audio.append({"name": f"audio-{len(self._audio):05d}.i16", "n_samples": 0})
            self._audio_file = (self.aside / self._audio[-1]["name"]).open("wb")
        self._audio_file.write(pcm.astype("<i2", copy=False).tobytes() + bytes(2 * padding))
        start = self._n_samples
        self._audio[-1]["n_samples"] += len(pcm) + padding
        self._n_samples += len(pcm) + padding
        return start

    def _flush(self) -> None:
        if self._rows:
            self._table.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()

    def _close(self) -> None:
        # a full disk may show only now, so nothing counts as written before this
        self._flush()
        self._table.close()
        if self._audio_file is not None:
            _sync_and_close(self._audio_file)
        if self._bands_file is not None:
            _sync_and_close(self._bands_file)
        self._seen.close()
        (self.aside / "seen.sqlite").unlink(missing_ok=True)

    def _finish(self) -> None:
        if not self.n_clips:
            raise StoreError(f"nothing to store at {self.path}: not one clip was added")
        self.fingerprint = self._hash.hexdigest()
        info = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "sample_rate": self.sample_rate,
            "n_clips": self.n_clips,
            "n_duplicates": self.n_duplicates,
            "n_samples": self._n_samples,
            "fingerprint": self.fingerprint,
            "conditioning": self._conditioning,
            "audio": self._audio,
            "block_samples": block_samples(self.sample_rate),
            "n_blocks": self._n_blocks,
            "band_edges_hz": band_edges_hz(self.sample_rate).tolist(),
            "filled": self._filled,
        }
        with (self.aside / STORE_FILE).open("wb") as file:
            file.write((json.dumps(info, indent=1, ensure_ascii=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        with (self.aside / CLIPS_FILE).open("rb") as table:
            os.fsync(table.fileno())
        replaced = self.path.with_name(f"{self.aside.name}-old")
        check_free(self.path, self._overwrite)
        if self._lock is not None:
            self._lock.close()
            (self.aside / _LOCK_FILE).unlink()
        if is_store(self.path):
            self.path.rename(replaced)
        elif self.path.is_dir():
            self.path.rmdir()
        try:
            self.aside.rename(self.path)
        except OSError:
            if replaced.exists():
                replaced.rename(self.path)
            raise
        shutil.rmtree(replaced, ignore_errors=True)


def to_pcm(samples: NDArray[np.floating[Any]]) -> tuple[NDArray[np.int16], float]:
    """Peak-normalise to int16, and the peak: pcm = rint(x / peak x 32767), half to even.

    Raises:
        AudioError: no samples, samples that are not finite, or all zero.
    """
    exact = np.asarray(samples, dtype=np.float64)
    if exact.ndim != 1 or not exact.size:
        raise AudioError(f"a clip must be one channel of at least one sample, got shape {exact.shape}", "empty")
    peak = float(np.max(np.abs(exact)))
    if not math.isfinite(peak):
        raise AudioError("the clip has samples that are not finite (NaN or infinite)", "not_finite")
    if peak < np.finfo(np.float32).tiny:
        raise AudioError("the clip is silent: every sample is zero", "silent")
    return np.rint(exact / peak * PCM_PEAK).astype(np.int16), peak


def check_free(path: Path, overwrite: bool) -> None:
    """Refuse to write where something is that we must not replace.

    Raises:
        StoreError: the path is a file, or a folder with content, unless it is a store and ``overwrite`` is set.
    """
    if path.is_dir():
        if not any(path.iterdir()):
            return
        if not is_store(path):
            raise StoreError(f"{path} exists and is not a store: it is left alone; name another folder")
        if not overwrite:
            raise StoreError(f"{path} is a store already: name another folder, or say --overwrite")
    elif path.exists():
        raise StoreError(f"{path} exists and is not a folder: it is left alone; name another folder")


def _as_type(name: str, value: Any, kind: pa.DataType) -> Any:
    try:
        if pa.types.is_string(kind):
            if not isinstance(value, str):
                raise TypeError
            value.encode()  # names of files may hold bytes that are not UTF-8, tables may not
            return value
        if pa.types.is_list(kind):
            return [_as_type(name, item, kind.value_type) for item in value]
        if pa.types.is_struct(kind):
            return {
                field.name: None if value.get(field.name) is None else _as_type(name, value[field.name], field.type)
                for field in kind
            }
        number = float(value) if pa.types.is_floating(kind) else int(value)
        if number != value or not math.isfinite(number):
            raise TypeError
        return number
    except (TypeError, ValueError, AttributeError, OverflowError):
        raise StoreError(f"column {name!r} holds {kind}, got {value!r}") from None


def _sync_and_close(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


_LOCK_FILE: Final = "lock"


def _lock(folder: Path) -> IO[bytes] | None:
    # Held while we write, so that another process can tell a folder in use from one that a killed process left.
    try:
        import fcntl
    except ImportError:  # not on Windows: abandoned folders stay there
        return None
    file = (folder / _LOCK_FILE).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _remove_abandoned(path: Path) -> None:
    for folder in path.parent.glob(f"{ASIDE_PREFIX}*"):
        name = folder.name.removeprefix(f"{ASIDE_PREFIX}{path.name}-")
        if name == folder.name or len(name.removesuffix("-old")) != 12 or not (folder / _LOCK_FILE).is_file():
            continue
        lock = _lock(folder)
        if lock is not None:
            lock.close()
            shutil.rmtree(folder, ignore_errors=True)
