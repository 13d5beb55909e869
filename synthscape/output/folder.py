"""Writing a dataset, shard by shard, so that a stopped render goes on where it stopped.

::

    out/render.json                     what is rendered here: written first
    out/data/00000.parquet              audio and labels, see synthscape.output.formats; none with output.audio: none
    out/stems/00000/s000000000/         background.wav, 0.wav, 1.wav, ... (output.stems)
    out/raven/00000/                    selection tables (output.raven); rttm/ and dcase/ likewise
    out/events/00000.parquet            tables: events, scenes, facts, items
    out/chat/00000.jsonl                texts: rows for language models (output.chat)
    out/receipts/00000.json             written last: a shard without a valid receipt does not exist
    out/log/00000.json                  when and where the shard was rendered, and how long it took
    out/failures.parquet                items that could not be rendered, if any
    out/README.md, out/dataset.json     written when all is there

A shard's files are written aside and moved to their place whole. Nothing else in the folder is touched.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from synthscape.errors import DatasetError
from synthscape.files import ASIDE_PREFIX, naming
from synthscape.labels.facts import FACTS_SCHEMA
from synthscape.labels.items import ITEMS_SCHEMA
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA
from synthscape.labels.table_hash import table_hash
from synthscape.output.containers import Container, Page
from synthscape.output.formats import CONTAINER_FOLDERS, container_for
from synthscape.output.sync import SyncedFiles
from synthscape.storage import LocalPlace, Place, place_at

FORMAT: Final = "synthscape-dataset"
FORMAT_VERSION: Final = 2
DATASET_FILE: Final = "dataset.json"
ORIGIN_FILE: Final = "render.json"
FAILURES_FILE: Final = "failures.parquet"
CARD_FILE: Final = "README.md"
_LOCK_FILE: Final = ".lock"
#: The tables a shard can have, and their columns.
TABLES: Final = {"events": EVENTS_SCHEMA, "scenes": SCENES_SCHEMA, "facts": FACTS_SCHEMA, "items": ITEMS_SCHEMA}
#: The text files a shard can have, and how their names end.
TEXTS: Final = {"chat": ".jsonl"}
FAILURES_SCHEMA: Final = pa.schema(
    [
        pa.field("item_number", pa.int64(), nullable=False),
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
_BESIDE: Final = ("stems", "raven", "rttm", "dcase")  # folders of files that stand beside the audio
_FOLDERS: Final = (*TABLES, *TEXTS, *CONTAINER_FOLDERS, *_BESIDE, "receipts", "log")
_FILES: Final = (DATASET_FILE, ORIGIN_FILE, FAILURES_FILE, CARD_FILE)
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


def has_audio(output: Mapping[str, Any]) -> bool:
    """Whether a dataset written like this has audio."""
    return bool(output["audio"] != "none" and output["control"] != "text")


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
    """A dataset that is being rendered; see :func:`open_folder`. It may be sent to other processes and machines.

    Attributes:
        place: the folder.
        origin: what is rendered here: spec, fingerprints, how it is written, versions of what computes samples.
    """

    def __init__(self, place: Place, origin: Mapping[str, Any]):
        self.place = place
        self.origin = origin
        self._stale: dict[str, Any] = {}  # seal of each receipt whose shard is rendered again, by the shard's name

    def receipts(self, shards: Iterable[Shard]) -> Iterator[dict[str, Any]]:
        """Receipts of shards, in this order; of one that has none, an empty one."""
        for content in self.place.read_many(_receipt_file(shard.name) for shard in shards):
            yield _parsed(content)

    def kept(self, shards: Sequence[Shard], *, whole: bool = True) -> dict[int, dict[str, Any]]:
        """Counts of the shards that need not be rendered again: valid, of this spec and range, and without failures.

        Args:
            shards: to look for.
            whole: they are all of the dataset; otherwise no others are looked at.

        Raises:
            DatasetError: they were made by different versions, or some are missing and would be made by others.
        """
        wanted = {shard.name: shard for shard in shards}
        names = self._receipted() if whole else list(wanted)
        found: dict[int, dict[str, Any]] = {}
        items = there = shards[-1].last
        for name, content in zip(names, self.place.read_many(map(_receipt_file, names)), strict=True):
            receipt = _parsed(content)
            if self._is_ours(receipt):
                there = max(there, receipt["last"])
            if shard := wanted.get(name):
                self._stale[name] = receipt.get("seal")
                if self._is_ours(receipt, shard) and not receipt["failures"]:
                    found[shard.number] = {key: receipt[key] for key in ("files", "counts", "made_with")}
        if there > items and whole:
            raise DatasetError(
                f"{self.place} has {there} items already, the spec asks for {items}: "
                f"use its first {items} items, ask for more, or {_NEW_PLACE}"
            )
        sizes = self.place.sizes({part for receipt in found.values() for part in receipt["files"]})
        kept = {
            number: receipt
            for number, receipt in found.items()
            if all(sizes[part] == tuple(size) for part, size in receipt["files"].items())
        }
        made_with = [receipt["made_with"] for receipt in kept.values()]
        for shard in shards:
            if shard.number in kept:
                del self._stale[shard.name]
        if len(kept) < len(shards):
            for there in made_with:
                _check_made_here(self.place, there, self.origin)
        else:  # nothing will be made by what is installed here
            mixed = [words for there in made_with for words in _unlike(made_with[0], there, "{} and {}")]
            if mixed:
                raise DatasetError(
                    f"shards of {self.place} were made with different versions ({mixed[0]}), and one dataset is made "
                    f"by one; {_NEW_PLACE}"
                )
        return {number: receipt["counts"] for number, receipt in kept.items()}

    def made_meanwhile(self, shard: Shard) -> dict[str, Any] | None:
        """Receipt of a shard that another process has made since this one looked; None if none has."""
        receipt = next(self.receipts([shard]))
        new = self._is_ours(receipt, shard) and not self._is_stale(shard, receipt)
        return receipt if new else None

    def _receipted(self) -> list[str]:
        """Names of the shards that have receipts."""
        return [name.removesuffix(".json") for name in self.place.entries("receipts") if name.endswith(".json")]

    def _is_ours(self, receipt: Mapping[str, Any], shard: Shard | None = None) -> bool:
        """Whether a receipt is valid and of this spec; and, if there is one, of this shard."""
        if receipt.get("format_version") != FORMAT_VERSION or receipt.get("seal") != _seal(receipt):
            return False
        if receipt["fingerprint"] != self.origin["fingerprint"]:
            return False
        return shard is None or (receipt["first"], receipt["last"]) == (shard.first, shard.last)

    def _is_stale(self, shard: Shard, receipt: Mapping[str, Any]) -> bool:
        """Whether a receipt is the one that its shard is rendered again for."""
        return shard.name in self._stale and self._stale[shard.name] == receipt.get("seal")

    def begin(self) -> None:
        """Say what is rendered here; the dataset counts as unfinished from now on.

        Receipts stay until new ones take their place: what is made again is the same, or of another size.

        Raises:
            DatasetError: another process has begun another dataset here since the folder was opened.
        """
        said = as_json({"format": FORMAT, "format_version": FORMAT_VERSION, **self.origin})
        if not self.place.create(ORIGIN_FILE, said):
            there = self.place.read(ORIGIN_FILE)
            if "fingerprint" in _parsed(there):
                _check_same(self.place, _parsed(there), self.origin)
            if there != said:
                self.place.write(ORIGIN_FILE, said)
        self.place.remove(DATASET_FILE)

    def remove_leftovers(self) -> None:
        """Remove what killed processes have left; none may be at work here."""
        self.place.remove_leftovers(_FOLDERS)

    @contextmanager
    def shard(self, shard: Shard) -> Iterator[ShardWriter]:
        """Write a shard: what is added appears when ``commit`` is called, and vanishes otherwise."""
        output = self.origin["output"]
        with ExitStack() as last:
            workspace = self.place.workspace()
            last.callback(shutil.rmtree, workspace, ignore_errors=True)
            files = SyncedFiles()
            container: Container | None = None
            if has_audio(output):
                container = container_for(self.origin["spec"], output, workspace, shard.name, files)
                last.callback(container.discard)
            last.callback(files.close)
            yield ShardWriter(self, shard, workspace, files, container)

    def finish(self, failures: pa.Table, card: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Write ``failures.parquet`` (if any), the card and ``dataset.json``, and give what that says."""
        if len(failures):
            sink = pa.BufferOutputStream()
            pq.write_table(failures, sink)
            self.place.write(FAILURES_FILE, sink.getvalue().to_pybytes())
        else:
            self.place.remove(FAILURES_FILE)
        self.place.write(CARD_FILE, card.encode())
        info = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "fingerprint": self.origin["fingerprint"],
            **content,
        }
        self.place.write(DATASET_FILE, as_json(info))
        return info


class ShardWriter:
    """Files of one shard, written aside. ``add_*`` but for ``add`` may be called from several threads."""

    def __init__(
        self, folder: DatasetFolder, shard: Shard, workspace: Path, files: SyncedFiles, container: Container | None
    ):
        self.folder = folder
        self.shard = shard
        self._workspace = workspace
        self._files = files
        self._container = container
        self._beside = [name for name in _BESIDE if folder.origin["output"][name]]
        for name in self._beside:
            (self._workspace / name).mkdir()
        self._tables: dict[str, list[pa.Table]] = {}
        self._texts: dict[str, list[str]] = {}

    @property
    def has_audio(self) -> bool:
        """Whether the dataset has audio at all."""
        return self._container is not None

    def audio_name(self, scene_id: str, item_id: str, part: str | None) -> str | None:
        """What the tables call the audio of a scene; None if none is written."""
        return None if self._container is None else self._container.audio_name(scene_id, item_id, part)

    def add(self, page: Page) -> None:
        """Add the next items of the shard."""
        if self._container is not None:
            self._container.add(page)
            if self._container.growing is not None:
                self._files.sync_so_far(self._container.growing)
        for name, table in page.tables.items():
            self._tables.setdefault(name, []).append(table)
        for name, text in page.texts.items():
            self._texts.setdefault(name, []).append(text)

    def add_audio(self, scene_id: str, content: bytes) -> None:
        """Take the audio of a scene, encoded; if it is delivered, that is before the page it is in is added."""
        if self._container is not None:
            self._container.add_audio(scene_id, content)

    def add_stems(self, scene_id: str, background: bytes, stems: Iterable[bytes]) -> None:
        """Write the background and the events of a scene, encoded, in the order of the events table, one by one."""
        folder = self._workspace / "stems" / scene_id
        folder.mkdir()
        self._files.write(folder / "background.wav", background)
        for event_id, stem in enumerate(stems):
            self._files.write(folder / f"{event_id}.wav", stem)

    def add_text(self, folder: str, name: str, text: str) -> None:
        """Write a file that goes with a scene: into ``raven``, ``rttm`` or ``dcase``, where ``output`` asks for it."""
        self._files.write(self._workspace / folder / name, text.encode())

    def commit(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """Make the shard exist, and give its receipt.

        Args:
            receipt: what else the receipt says.
        """
        place, name = self.folder.place, self.shard.name
        parts = {f"{part}/{name}": self._workspace / part for part in self._beside}
        if self._container is not None:
            parts |= self._container.close()
        self._files.wait()
        hashes = {}
        for part, tables in self._tables.items():
            table = pa.concat_tables(tables)
            hashes[part] = table_hash(table)
            path = parts[shard_file(part, name)] = self._workspace / f"{part}.parquet"
            with naming(path), pq.ParquetWriter(path, table.schema, compression="zstd") as file:
                if len(table):  # datasets can't read a row group without rows
                    file.write_table(table, _ROWS_PER_GROUP)
        for part, texts in self._texts.items():
            content = "".join(texts).encode()
            hashes[part] = text_hash(content)
            path = parts[shard_file(part, name)] = self._workspace / part
            with naming(path):
                path.write_bytes(content)
        sizes = LocalPlace(self._workspace).sizes(str(path.relative_to(self._workspace)) for path in parts.values())
        for part, path in parts.items():
            place.put(path, part)
        said = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "shard": self.shard.number,
            "first": self.shard.first,
            "last": self.shard.last,
            "fingerprint": self.folder.origin["fingerprint"],
            "made_with": self.folder.origin["made_with"],
            "output": self.folder.origin["output"],
            "hashes": hashes,
            "files": dict(zip(parts, sizes.values(), strict=True)),
            **receipt,
        }
        said["seal"] = _seal(said)
        if not place.create(_receipt_file(name), as_json(said)):
            there = _parsed(place.read(_receipt_file(name)))
            stale = self.folder._is_stale(self.shard, there)
            if not stale and any(there.get(key) != said[key] for key in ("fingerprint", "pcm_hash", "hashes")):
                raise DatasetError(
                    f"{place}: shard {name} was rendered by another process too, and it is not the same; render into "
                    "another output.dir, and report this"
                )
            if stale or there.get("files") != said["files"]:  # of its files, ours have taken the place
                place.write(_receipt_file(name), as_json(said))
        return said


@contextmanager
def open_folder(
    where: Path | str, origin: Mapping[str, Any], *, overwrite: bool = False, shared: bool = False
) -> Iterator[DatasetFolder]:
    """Open a folder for rendering: a new one, or one with a part of the same dataset.

    While it is open no other process can render into it (on servers, several can: they write the same, and receipts
    tell whose is kept).

    Args:
        where: the folder, a path or URL.
        origin: ``fingerprint``, ``spec`` (its fingerprint content), ``stores`` (fingerprints), ``plan_version``,
            ``output`` (how it is written), ``made_with`` (versions of what computes samples).
        overwrite: remove the dataset that is there first. What is no part of a dataset is never touched.
        shared: let others in that say so too, to render other shards.

    Raises:
        DatasetError: the folder holds something else, a dataset of another spec or bank, or is being rendered into.
        OSError: the folder can't be written.
    """
    if str(where).startswith(("http://", "https://")):
        raise DatasetError(
            f"{where}: a web server can't be written to; name a folder, or a URL such as s3://BUCKET/FOLDER"
        )
    place = place_at(where)
    if isinstance(place, LocalPlace) and place.where.exists() and not place.where.is_dir():
        raise DatasetError(f"{where} is a file: it is left alone; name another output.dir")
    if isinstance(place, LocalPlace) and place.where.is_symlink() and not place.where.exists():
        raise DatasetError(f"{where} is a link to nothing: make the folder it names, or name another output.dir")
    _what_is_there(place)  # refuses what is no dataset, before anything is made in it
    place.make()
    with place.locked(shared=shared):
        there = _what_is_there(place)
        if there is not None and overwrite:
            for name in (*_FILES, *_FOLDERS):
                place.remove(name)
        elif there is not None:
            _check_same(place, there, origin)
            if shared and "made_with" in there:  # others may be at it
                _check_made_here(place, there["made_with"], origin)
        folder = DatasetFolder(place, origin)
        if not shared:
            folder.remove_leftovers()
        yield folder


def _receipt_file(shard: str) -> str:
    return f"receipts/{shard}.json"


def as_json(content: Any) -> bytes:
    """JSON as it is written: UTF-8, keys in the order given, readable."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _what_is_there(place: Place) -> dict[str, Any] | None:
    """What is rendered in a folder (only the fingerprint may be known); None for a free folder."""
    entries = [name for name in place.entries() if name != _LOCK_FILE and not name.startswith(ASIDE_PREFIX)]
    if not entries:
        return None
    for name in _that_tell(place):
        content = _parsed(next(place.read_many([name])))
        if content.get("format") == FORMAT and "fingerprint" in content:
            known = ("format_version", "fingerprint") if name == DATASET_FILE else content
            return {key: content.get(key) for key in known}
    if set(entries) <= set(_FOLDERS):
        return None  # a render that was stopped before it had begun
    raise DatasetError(f"{place} is not empty and no dataset ({entries[0]!r} is in it): name another output.dir")


def _that_tell(place: Place) -> Iterator[str]:
    """Files that say what is rendered in a folder; on servers, to list all receipts takes its time."""
    yield ORIGIN_FILE
    yield from (f"receipts/{name}" for name in place.entries("receipts"))
    yield DATASET_FILE


def _check_same(place: Place, there: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
    if there.get("format_version") != FORMAT_VERSION:
        raise DatasetError(
            f"{place} is a dataset of format version {there.get('format_version', 1)}, this version writes "
            f"{FORMAT_VERSION}; {_NEW_PLACE}"
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
        raise DatasetError(f"{place} is another dataset: {'; '.join(changed[:3])}{more}; {_NEW_PLACE}")


def _check_made_here(place: Place, there: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
    """Refuse to go on with other versions: samples could differ in their last bit."""
    changed = _unlike(there, origin["made_with"], "{} there, {} here")
    if changed:
        raise DatasetError(
            f"{place} was begun with other versions ({'; '.join(changed)}), and one dataset is made by one; install "
            f"those, or {_NEW_PLACE}"
        )


def _unlike(made_with: Mapping[str, Any], other: Mapping[str, Any], words: str) -> list[str]:
    names = dict.fromkeys((*made_with, *other))
    values = ((name, made_with.get(name), other.get(name)) for name in names)
    return [f"{name} {words.format(a, b)}" for name, a, b in values if a != b]


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


def _parsed(content: bytes | None) -> dict[str, Any]:
    try:
        said = json.loads(content or b"")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _seal(receipt: Mapping[str, Any]) -> str:
    """Hash of all else a receipt says: one that is damaged or was edited counts as none."""
    said = {key: value for key, value in receipt.items() if key != "seal"}
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()
