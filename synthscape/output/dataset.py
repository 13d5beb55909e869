"""Reading a rendered dataset."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from synthscape.errors import DatasetError
from synthscape.labels.dataframes import DataFrames
from synthscape.labels.pcm import from_pcm16, pcm_hash
from synthscape.labels.table_hash import table_hash
from synthscape.output.audio import decode, read_float
from synthscape.output.folder import (
    DATASET_FILE,
    FORMAT,
    FORMAT_VERSION,
    ORIGIN_FILE,
    TABLES,
    has_audio,
    shard_file,
    shards_of,
    text_hash,
)
from synthscape.output.formats import stored_audio
from synthscape.storage import Place, place_at


def open_dataset(path: str | Path) -> Dataset:
    """Open a dataset made by :func:`synthscape.render`.

    >>> data = open_dataset("out")                       # doctest: +SKIP
    >>> data.scenes.scene_id[0], len(data.events)        # doctest: +SKIP
    ('s000000000', 3127)
    >>> data.audio("s000000000").dtype                   # doctest: +SKIP
    dtype('float32')

    Raises:
        DatasetError: the folder is no dataset, is not finished, or was written by a newer version.
    """
    place = place_at(path)
    try:
        info = json.loads(place.read(DATASET_FILE))
        known = info["format"] == FORMAT
    except FileNotFoundError:
        if place.exists(ORIGIN_FILE) or place.entries("receipts"):
            raise DatasetError(
                f"{place} is not finished: run `synthscape render` with the same spec again, and it goes on"
            ) from None
        raise DatasetError(f"{place} is no dataset: there is no {DATASET_FILE} in it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{place}: {DATASET_FILE} can't be read ({error}); render the dataset again") from None
    if not known or info.get("format_version") != FORMAT_VERSION:
        raise DatasetError(
            f"{place}: {DATASET_FILE}: expected {FORMAT} version {FORMAT_VERSION}, got {info['format']!r} version "
            f"{info.get('format_version')!r}; read it with the version of synthscape that made it"
        )
    return Dataset(place, info)


class Dataset(DataFrames):
    """A rendered dataset: tables as DataFrames, audio by scene id.

    Attributes:
        place: where it lies.
        path: the folder; a URL if it is on a server.
        info: what ``dataset.json`` says: spec, fingerprints, versions, counts, licences.
    """

    def __init__(self, place: Place, info: dict[str, Any]):
        self.place = place
        self.path = place.where
        self.info = info
        self._audio = stored_audio(place, self.spec)

    def __len__(self) -> int:
        return int(self.info["counts"]["delivered"])

    def __repr__(self) -> str:
        counts = self.info["counts"]
        return f"<Dataset {self.path} ({counts['delivered']} scenes, {counts['events']} events)>"

    @property
    def spec(self) -> dict[str, Any]:
        """The spec it was rendered from, every key."""
        spec: dict[str, Any] = self.info["spec"]
        return spec

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in label order."""
        return [entry["name"] for entry in self.info["classes"]]

    @property
    def sample_rate(self) -> int:
        """Hz."""
        return int(self.spec["sample_rate"])

    @cached_property
    def event_table(self) -> pa.Table:
        """The events table (columns: docs/labels.md)."""
        return self._table("events")

    @cached_property
    def scene_table(self) -> pa.Table:
        """The scenes table (columns: docs/labels.md)."""
        return self._table("scenes")

    @cached_property
    def fact_table(self) -> pa.Table:
        """The facts table (columns: docs/labels.md)."""
        return self._table("facts")

    @cached_property
    def item_table(self) -> pa.Table:
        """The items table (columns: docs/tasks.md)."""
        return self._table("items")

    @cached_property
    def chat(self) -> list[dict[str, Any]]:
        """Rows for language models, one per item; raises DatasetError where they were not written."""
        texts = [self._text("chat", shard).decode() for shard in self._shards()]
        return [json.loads(line) for text in texts for line in text.split("\n") if line]

    def audio(self, scene_id: str) -> NDArray[np.float32]:
        """Samples of a scene, int16 / 32768, float32 [n_samples].

        Raises:
            DatasetError: there is no such scene, the dataset was written without audio, or the file is missing or
                damaged.
        """
        position = self._position(scene_id)
        name, n_samples = (self.scene_table[key][position].as_py() for key in ("audio", "n_samples"))
        if name is None:
            raise DatasetError(f"{self.path} was written without audio (output.audio: none, or output.control: text)")
        return from_pcm16(self._pcm(self._shard_of[position], name, n_samples))

    def stems(self, scene_id: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Background float32 [n_samples] and events float32 [events, n_samples] of a scene, before the scene gain.

        Raises:
            DatasetError: there is no such scene, or the dataset has no stems.
        """
        position = self._position(scene_id)
        if not self.spec["output"]["stems"]:
            raise DatasetError(f"{self.path} has no stems: render it with output.stems=true into another folder")
        folder = f"stems/{self._shard_of[position]}/{scene_id}"
        background = read_float(self.place, f"{folder}/background.wav")
        n_events = self.scene_table["n_events"][position].as_py()
        stems = np.zeros((n_events, len(background)), dtype=np.float32)
        for event_id in range(n_events):
            stems[event_id] = read_float(self.place, f"{folder}/{event_id}.wav")
        return background, stems

    def verify(self) -> list[str]:
        """Hash all audio, tables and texts again; give what is wrong, one line each: none if all is as it was written.

        Scenes that were written without audio have none to be wrong.
        """
        return list(self._problems())

    def _problems(self) -> Iterator[str]:
        for shard in self._shards():
            receipt_file = f"receipts/{shard}.json"
            tables: dict[str, pa.Table] = {}
            try:
                receipt: Mapping[str, Any] = json.loads(self.place.read(receipt_file))
                for kind, expected in receipt["hashes"].items():
                    yield from self._problems_of(kind, shard, expected, tables)
            except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
                yield f"{receipt_file}: can't be read ({error})"
            if "scenes" in tables and has_audio(self.spec["output"]):
                yield from self._problems_of_audio(shard, tables)

    def _problems_of(self, kind: str, shard: str, expected: str, tables: dict[str, pa.Table]) -> Iterator[str]:
        """What is wrong with a table or text; a table without fault is put into ``tables``."""
        try:
            if kind in TABLES:
                table = self._read(kind, shard)
                there = table_hash(table)
            else:
                there = text_hash(self._text(kind, shard))
        except DatasetError as error:
            yield str(error)
        else:
            if there != expected:
                yield f"{shard_file(kind, shard)}: not what was written"
            elif kind in TABLES:
                tables[kind] = table

    def _problems_of_audio(self, shard: str, tables: Mapping[str, pa.Table]) -> Iterator[str]:
        try:
            if {"events", "scenes", "items"} <= tables.keys():
                yield from self._audio.problems(shard, tables)
        except DatasetError as error:
            yield str(error)
            return
        columns = (tables["scenes"][key].to_pylist() for key in ("audio", "n_samples", "pcm_hash"))
        for name, n_samples, expected in zip(*columns, strict=True):
            try:
                if name is None or pcm_hash(self._pcm(shard, name, n_samples)) != expected:
                    yield f"{self._audio.whole_name(shard, name)}: not what was written"
            except DatasetError as error:
                yield str(error)

    def _shards(self) -> list[str]:
        return [shard.name for shard in shards_of(self.spec["items"], self.spec["output"]["items_per_shard"])]

    def _read(self, kind: str, shard: str) -> pa.Table:
        path = shard_file(kind, shard)
        try:
            with self.place.open(path) as file:
                table = pq.read_table(file, partitioning=None)
        except (OSError, pa.ArrowInvalid) as error:
            raise self._unreadable(kind, path, error) from None
        missing = [name for name in TABLES[kind].names if name not in table.column_names]
        if missing:
            raise DatasetError(
                f"{self.path}: {path} has no column {missing[0]!r}; read it with the version of synthscape that made it"
            )
        return table

    def _text(self, kind: str, shard: str) -> bytes:
        path = shard_file(kind, shard)
        try:
            return self.place.read(path)
        except OSError as error:
            raise self._unreadable(kind, path, error) from None

    def _unreadable(self, kind: str, name: str, error: Exception) -> DatasetError:
        if not self.place.exists(kind):
            older = "an older version made it"
            why = {"facts": older, "items": older, "chat": "it was rendered with output.chat: false"}
            return DatasetError(f"{self.path} has no {kind}: {why.get(kind, 'copy it again, whole')}")
        return DatasetError(f"{self.path}: {name} can't be read ({error}); render the dataset again")

    def _table(self, kind: str) -> pa.Table:
        return pa.concat_tables(self._scenes if kind == "scenes" else [self._read(kind, k) for k in self._shards()])

    @cached_property
    def _scenes(self) -> list[pa.Table]:
        """The scenes of each shard."""
        return [self._read("scenes", shard) for shard in self._shards()]

    @cached_property
    def _shard_of(self) -> list[str]:
        """Shard of each scene."""
        return [shard for shard, scenes in zip(self._shards(), self._scenes, strict=True) for _ in range(len(scenes))]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.scene_table["scene_id"].to_pylist())}

    def _position(self, scene_id: str) -> int:
        position = self._positions.get(scene_id)
        if position is None:
            near = (
                difflib.get_close_matches(str(scene_id), self._positions, n=1) if len(self._positions) < 100_000 else []
            )
            names = f"; did you mean {near[0]!r}?" if near else "; scene ids are in the scenes table"
            raise DatasetError(f"{self.path} has no scene {scene_id!r}{names}")
        return position

    def _pcm(self, shard: str, name: str, n_samples: int) -> NDArray[np.int16]:
        content = self._audio.read(shard, name)
        try:
            pcm = decode(content, "int16")
        except DatasetError as error:
            raise self._audio.unreadable(self._audio.whole_name(shard, name), error) from None
        if pcm.shape != (n_samples,):
            what = f"{' x '.join(map(str, pcm.shape))} samples, expected {n_samples}"
            raise self._audio.unreadable(self._audio.whole_name(shard, name), what)
        return pcm
