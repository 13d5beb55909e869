"""Writing a dataset into a folder, shard by shard, so that a stopped render goes on where it stopped.

::

    out/render.json                     what is rendered here: written first
    out/audio/00000/s000000000.flac     one folder a shard; none with output.control: text
    out/stems/00000/s000000000/         background.wav, 0.wav, 1.wav, ... (output.stems)
    out/raven/00000/                    selection tables (output.raven); rttm/ and dcase/ likewise
    out/events/00000.parquet            tables: events, scenes, facts, items
    out/chat/00000.jsonl                texts: rows for language models (output.chat)
    out/receipts/00000.json             written last: a shard without a valid receipt does not exist
    out/failures.json                   items that could not be rendered, if any
    out/dataset.json                    written when all is there

A shard's files are written aside and renamed. Nothing else in the folder is touched.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from synthscape.errors import DatasetError
from synthscape.files import ASIDE_PREFIX, write_json, written_aside
from synthscape.labels.facts import FACTS_SCHEMA
from synthscape.labels.items import ITEMS_SCHEMA
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA
from synthscape.labels.table_hash import table_hash
from synthscape.output.sync import SyncedFiles

FORMAT: Final = "synthscape-dataset"
FORMAT_VERSION: Final = 1
DATASET_FILE: Final = "dataset.json"
ORIGIN_FILE: Final = "render.json"
FAILURES_FILE: Final = "failures.json"
_LOCK_FILE: Final = ".lock"
#: The tables a shard can have, and their columns.
TABLES: Final = {"events": EVENTS_SCHEMA, "scenes": SCENES_SCHEMA, "facts": FACTS_SCHEMA, "items": ITEMS_SCHEMA}
#: The text files a shard can have, and how their names end.
TEXTS: Final = {"chat": ".jsonl"}
_MEDIA: Final = ("audio", "stems", "raven", "rttm", "dcase")
_FOLDERS: Final = (*TABLES, *TEXTS, *_MEDIA, "receipts")
_FILES: Final = (DATASET_FILE, ORIGIN_FILE, FAILURES_FILE, _LOCK_FILE)
_ROWS_PER_GROUP: Final = 65536
_NEW_PLACE: Final = "name another output.dir, or say --overwrite to lose what is there"


@dataclass(frozen=True)
class Shard:
    """Items ``first`` to ``last`` (exclusive), rendered and receipted together."""

    number: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """Name of its files: the number in five digits or more."""
        return f"{self.number:05d}"

    def __len__(self) -> int:
        return self.last - self.first


def shards_of(items: int, items_per_shard: int) -> list[Shard]:
    """All shards of a dataset.

    >>> [len(shard) for shard in shards_of(1000, 512)]
    [512, 488]
    """
    starts = range(0, items, items_per_shard)
    return [Shard(k, first, min(first + items_per_shard, items)) for k, first in enumerate(starts)]


def media_of(output: Mapping[str, Any]) -> list[str]:
    """Folders with files of scenes that a dataset written like this has."""
    return [name for name in _MEDIA if (output["control"] != "text" if name == "audio" else output[name])]


def shard_file(part: str, shard: str) -> str:
    """Where a table or text of a shard is, from the dataset's folder.

    >>> shard_file("events", "00003"), shard_file("chat", "00003")
    ('events/00003.parquet', 'chat/00003.jsonl')
    """
    return f"{part}/{shard}{'.parquet' if part in TABLES else TEXTS[part]}"


def text_hash(content: bytes) -> str:
    """BLAKE2b-128 of a text file, hex."""
    return blake2b(content, digest_size=16).hexdigest()


class DatasetFolder:
    """A folder that is being rendered into; see :func:`open_folder`.

    Attributes:
        path: the folder.
        origin: what is rendered here: spec, fingerprints, how it is written, versions of what computes samples.
    """

    def __init__(self, path: Path, origin: Mapping[str, Any]):
        self.path = path
        self.origin = origin

    def receipts(self, shards: Sequence[Shard]) -> dict[int, dict[str, Any]]:
        """The valid receipts, by shard: of this spec, this range, with all files there and no failures.

        Raises:
            DatasetError: more is rendered here already than asked for.
        """
        kept = {}
        items = there = shards[-1].last
        by_number = {shard.number: shard for shard in shards}
        for path in sorted((self.path / "receipts").glob("*.json")):
            receipt = _read_json(path)
            if receipt.get("seal") != _seal(receipt) or receipt["fingerprint"] != self.origin["fingerprint"]:
                continue
            there = max(there, receipt["last"])
            shard = by_number.get(receipt["shard"])
            if shard and path.stem == shard.name and self._is_valid(receipt, shard):
                kept[shard.number] = receipt
        if there > items:
            raise DatasetError(
                f"{self.path} has {there} items already, the spec asks for {items}: "
                f"use its first {items} items, ask for more, or {_NEW_PLACE}"
            )
        return kept

    def check_engine(self, kept: Mapping[int, Mapping[str, Any]]) -> None:
        """Refuse to add shards to those other versions made: samples could differ in their last bit.

        Raises:
            DatasetError: naming the versions.
        """
        for receipt in kept.values():
            there, here = receipt["engine"], self.origin["engine"]
            changed = [
                f"{name} {there.get(name)} there, {here[name]} here" for name in here if there.get(name) != here[name]
            ]
            if changed:
                raise DatasetError(
                    f"{self.path} was begun with other versions ({'; '.join(changed)}), and one dataset is made by "
                    f"one; install those, or {_NEW_PLACE}"
                )

    def begin(self) -> None:
        """Make the folders, and say what is rendered here; the dataset counts as unfinished from now on."""
        (self.path / DATASET_FILE).unlink(missing_ok=True)
        for name in (*media_of(self.origin["output"]), "receipts"):
            (self.path / name).mkdir(exist_ok=True)
        write_json(self.path / ORIGIN_FILE, {"format": FORMAT, "format_version": FORMAT_VERSION, **self.origin})

    @contextmanager
    def shard(self, shard: Shard) -> Iterator[ShardWriter]:
        """Write a shard: what is added appears when ``commit`` is called, and vanishes otherwise."""
        writer = ShardWriter(self, shard)
        try:
            yield writer
        finally:
            writer.discard()

    def finish(self, receipts: Sequence[Mapping[str, Any]], content: Mapping[str, Any]) -> dict[str, Any]:
        """Write ``dataset.json`` (and ``failures.json``), and give what it says."""
        failures = [failure for receipt in receipts for failure in receipt["failures"]]
        failures_file = self.path / FAILURES_FILE
        if failures:
            write_json(failures_file, failures)
        else:
            failures_file.unlink(missing_ok=True)
        hashed = [
            [receipt["first"], receipt["last"], receipt["pcm_hash"], sorted(receipt["hashes"].items())]
            for receipt in receipts
        ]
        info = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "fingerprint": self.origin["fingerprint"],
            "content_hash": blake2b(json.dumps(hashed).encode(), digest_size=16).hexdigest(),
            **content,
        }
        write_json(self.path / DATASET_FILE, info)
        _sync_folder(self.path)
        return info

    def _is_valid(self, receipt: Mapping[str, Any], shard: Shard) -> bool:
        if (receipt["first"], receipt["last"]) != (shard.first, shard.last) or receipt["failures"]:
            return False
        if "facts" not in receipt.get("hashes", {}):  # an older version wrote it
            return False
        return all(_size(self.path / part) == tuple(size) for part, size in receipt["files"].items())


class ShardWriter:
    """Files of one shard, written aside. ``add_*`` may be called from several threads."""

    def __init__(self, folder: DatasetFolder, shard: Shard):
        self.folder = folder
        self.shard = shard
        token = secrets.token_hex(8)
        output = folder.origin["output"]
        self._extension = output["audio"]
        self._aside = {name: folder.path / name / f"{ASIDE_PREFIX}{token}" for name in media_of(output)}
        for path in self._aside.values():
            path.mkdir()
        self._files = SyncedFiles()

    @property
    def has_audio(self) -> bool:
        """Whether the dataset has audio files at all."""
        return "audio" in self._aside

    def audio_path(self, scene_id: str) -> str:
        """Where a scene's audio will be, from the dataset's folder."""
        return f"audio/{self.shard.name}/{scene_id}.{self._extension}"

    def add_audio(self, scene_id: str, content: bytes) -> None:
        """Write the encoded audio of a scene."""
        self._files.write(self._aside["audio"] / f"{scene_id}.{self._extension}", content)

    def add_stems(self, scene_id: str, background: bytes, stems: Iterable[bytes]) -> None:
        """Write the background and the events of a scene, encoded, in the order of the events table, one by one."""
        folder = self._aside["stems"] / scene_id
        folder.mkdir()
        self._files.write(folder / "background.wav", background)
        for event_id, stem in enumerate(stems):
            self._files.write(folder / f"{event_id}.wav", stem)

    def add_text(self, folder: str, name: str, text: str) -> None:
        """Write a file that goes with a scene: into ``raven``, ``rttm`` or ``dcase``, where ``output`` asks for it."""
        self._files.write(self._aside[folder] / name, text.encode())

    def commit(
        self, tables: Mapping[str, pa.Table], receipt: Mapping[str, Any], texts: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Make the shard exist, and give its receipt.

        Args:
            tables: by name, one of :data:`TABLES`; events, scenes and facts are always among them.
            receipt: what else the receipt says.
            texts: whole text files by name, one of :data:`TEXTS`.
        """
        self._files.wait()
        texts = texts or {}
        root, name = self.folder.path, self.shard.name
        receipt_file = root / "receipts" / f"{name}.json"
        receipt_file.unlink(missing_ok=True)
        for part, aside in self._aside.items():
            _put_in_place(aside, root / part / name)
        parts = [f"{part}/{name}" for part in self._aside]
        for part in (*tables, *texts):
            (root / part).mkdir(exist_ok=True)
            parts.append(shard_file(part, name))
            with written_aside(root / parts[-1]) as path:
                if part in tables:
                    pq.write_table(tables[part], path, row_group_size=_ROWS_PER_GROUP, compression="zstd")
                else:
                    path.write_bytes(texts[part].encode())
        for part in (*self._aside, *tables, *texts):
            _sync_folder(root / part)
        content = {
            "format": FORMAT,
            "shard": self.shard.number,
            "first": self.shard.first,
            "last": self.shard.last,
            "fingerprint": self.folder.origin["fingerprint"],
            "engine": self.folder.origin["engine"],
            "output": self.folder.origin["output"],
            "hashes": {
                **{part: table_hash(table) for part, table in tables.items()},
                **{part: text_hash(text.encode()) for part, text in texts.items()},
            },
            "files": {part: _size(root / part) for part in parts},
            **receipt,
        }
        content["seal"] = _seal(content)
        write_json(receipt_file, content)
        _sync_folder(receipt_file.parent)
        return content

    def discard(self) -> None:
        """Remove what was not committed."""
        self._files.close()
        for path in self._aside.values():
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def open_folder(path: Path, origin: Mapping[str, Any], *, overwrite: bool = False) -> Iterator[DatasetFolder]:
    """Open a folder for rendering: a new one, or one with a part of the same dataset.

    While it is open no other process can render into it.

    Args:
        path: the folder.
        origin: ``fingerprint``, ``spec`` (its fingerprint content), ``stores`` (fingerprints), ``plan_version``,
            ``output`` (how it is written), ``engine`` (versions of what computes samples).
        overwrite: remove the dataset that is there first. What is no part of a dataset is never touched.

    Raises:
        DatasetError: the folder holds something else, a dataset of another spec or bank, or is being rendered into.
        OSError: the folder can't be written.
    """
    if path.exists() and not path.is_dir():
        raise DatasetError(f"{path} is a file: it is left alone; name another output.dir")
    _what_is_there(path)  # refuses what is no dataset, before anything is made in it
    path.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        there = _what_is_there(path)
        if there is not None and overwrite:
            for name in (*_FILES, *_FOLDERS):
                if name != _LOCK_FILE:
                    _remove(path / name)
        elif there is not None:
            _check_same(path, there, origin)
        _remove_leftovers(path)
        yield DatasetFolder(path, origin)


def _what_is_there(path: Path) -> dict[str, Any] | None:
    """What is rendered in a folder (only the fingerprint may be known); None for a free folder."""
    entries = [entry.name for entry in path.iterdir()] if path.exists() else []
    entries = [name for name in entries if name != _LOCK_FILE and not name.startswith(ASIDE_PREFIX)]
    if not entries:
        return None
    for file in (path / ORIGIN_FILE, *sorted((path / "receipts").glob("*.json")), path / DATASET_FILE):
        content = _read_json(file)
        if content.get("format") == FORMAT and "fingerprint" in content:
            return content if file.name != DATASET_FILE else {"fingerprint": content["fingerprint"]}
    if set(entries) <= set(_FOLDERS):
        return None  # a render that was stopped before it had begun
    raise DatasetError(f"{path} is not empty and no dataset ({sorted(entries)[0]!r} is in it): name another output.dir")


def _check_same(path: Path, there: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
    if there.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
        raise DatasetError(
            f"{path} is a dataset of format version {there['format_version']}, this version writes {FORMAT_VERSION}; "
            f"{_NEW_PLACE}"
        )
    changed = [
        f"{key} {_shown(old)} there, {_shown(new)} asked"
        for section, prefix in (
            ("output", "output."),
            ("spec", ""),
            ("stores", "store "),
            ("community", "community.table with the fingerprint"),
            ("plan_version", "plan version"),
        )
        if section in there
        for key, old, new in _differences(there[section], origin[section], prefix)
    ]
    if not changed and there["fingerprint"] != origin["fingerprint"]:
        changed = [f"fingerprint {there['fingerprint']} there, {origin['fingerprint']} asked"]
    if changed:
        more = f", and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise DatasetError(f"{path} is another dataset: {'; '.join(changed[:3])}{more}; {_NEW_PLACE}")


def _differences(old: Any, new: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*old, *new)):
            inner = f"{key}{name}" if not key or key.endswith((".", " ")) else f"{key}.{name}"
            yield from _differences(old.get(name), new.get(name), inner)
    elif json.dumps(old) != json.dumps(new):
        yield key, old, new


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with (path / _LOCK_FILE).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatasetError(f"{path} is being rendered by another process: wait for it, or stop it") from None
        yield


def _remove_leftovers(path: Path) -> None:
    for folder in (path, *(path / name for name in _FOLDERS)):
        for entry in folder.glob(f"{ASIDE_PREFIX}*"):
            _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _put_in_place(aside: Path, path: Path) -> None:
    if path.exists():
        old = path.with_name(f"{ASIDE_PREFIX}{secrets.token_hex(8)}")
        path.rename(old)
        shutil.rmtree(old)
    aside.rename(path)


def _size(path: Path) -> tuple[int, int]:
    """Number of files at or under a path, and their bytes."""
    if path.is_file():
        return 1, path.stat().st_size
    files = bytes_ = 0
    for folder, _, names in os.walk(path):
        files += len(names)
        bytes_ += sum((Path(folder) / name).stat().st_size for name in names)
    return files, bytes_


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _seal(receipt: Mapping[str, Any]) -> str:
    """Hash of all else a receipt says: one that is damaged or was edited counts as none."""
    said = {key: value for key, value in receipt.items() if key != "seal"}
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


def _sync_folder(path: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
