"""Reading a rendered dataset."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from synthscape.errors import DatasetError
from synthscape.labels.pcm import from_pcm16, pcm_hash
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA
from synthscape.labels.table_hash import table_hash
from synthscape.output.audio import read_float, read_pcm
from synthscape.output.folder import DATASET_FILE, FORMAT, FORMAT_VERSION, ORIGIN_FILE, shards_of

if TYPE_CHECKING:
    import pandas as pd


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
    folder = Path(path)
    try:
        info = json.loads((folder / DATASET_FILE).read_text(encoding="utf-8"))
        known = info["format"] == FORMAT
    except FileNotFoundError:
        if (folder / ORIGIN_FILE).is_file() or any((folder / "receipts").glob("*.json")):
            raise DatasetError(
                f"{folder} is not finished: run `synthscape render` with the same spec again, and it goes on"
            ) from None
        raise DatasetError(f"{folder} is no dataset: there is no {DATASET_FILE} in it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{folder / DATASET_FILE} can't be read ({error}); render the dataset again") from None
    if not known or info.get("format_version") != FORMAT_VERSION:
        raise DatasetError(
            f"{folder / DATASET_FILE}: expected {FORMAT} version {FORMAT_VERSION}, got {info['format']!r} version "
            f"{info.get('format_version')!r}; read it with the version of synthscape that made it"
        )
    return Dataset(folder, info)


class Dataset:
    """A rendered dataset: tables as DataFrames, audio by scene id.

    Attributes:
        path: the folder.
        info: what ``dataset.json`` says: spec, fingerprints, versions, counts, licences.
    """

    def __init__(self, path: Path, info: dict[str, Any]):
        self.path = path
        self.info = info

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
        return self._table("events", EVENTS_SCHEMA)

    @cached_property
    def scene_table(self) -> pa.Table:
        """The scenes table (columns: docs/labels.md)."""
        return self._table("scenes", SCENES_SCHEMA)

    @cached_property
    def events(self) -> pd.DataFrame:
        """The events table as a DataFrame, one row per event, by scene and onset."""
        frame: pd.DataFrame = self.event_table.to_pandas()
        return frame

    @cached_property
    def scenes(self) -> pd.DataFrame:
        """The scenes table as a DataFrame, one row per scene, by number."""
        frame: pd.DataFrame = self.scene_table.to_pandas()
        return frame

    def audio(self, scene_id: str) -> NDArray[np.float32]:
        """Samples of a scene, int16 / 32768, float32 [n_samples].

        Raises:
            DatasetError: there is no such scene, or its file is missing or damaged.
        """
        return from_pcm16(read_pcm(self._audio_file(self._position(scene_id))))

    def stems(self, scene_id: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Background float32 [n_samples] and events float32 [events, n_samples] of a scene, before the scene gain.

        Raises:
            DatasetError: there is no such scene, or the dataset has no stems.
        """
        position = self._position(scene_id)
        if not self.spec["output"]["stems"]:
            raise DatasetError(f"{self.path} has no stems: render it with output.stems=true into another folder")
        folder = self.path / "stems" / self._audio_file(position).parent.name / scene_id
        background = read_float(folder / "background.wav")
        n_events = self.scene_table["n_events"][position].as_py()
        stems = np.zeros((n_events, len(background)), dtype=np.float32)
        for event_id in range(n_events):
            stems[event_id] = read_float(folder / f"{event_id}.wav")
        return background, stems

    def verify(self) -> list[str]:
        """Hash all audio and tables again; give what is wrong, one line each: none if all is as it was written."""
        return list(self._problems())

    def _problems(self) -> Iterator[str]:
        for shard in self._shards():
            receipt_file = self.path / "receipts" / f"{shard}.json"
            try:
                receipt: Mapping[str, Any] = json.loads(receipt_file.read_text(encoding="utf-8"))
                for kind, schema in (("events", EVENTS_SCHEMA), ("scenes", SCENES_SCHEMA)):
                    if table_hash(self._read(kind, shard, schema)) != receipt[f"{kind}_hash"]:
                        yield f"{kind}/{shard}.parquet: not what was written"
            except (OSError, ValueError, KeyError) as error:
                yield f"{receipt_file}: can't be read ({error})"
        for position, expected in enumerate(self.scene_table["pcm_hash"].to_pylist()):
            try:
                if pcm_hash(read_pcm(self._audio_file(position))) != expected:
                    yield f"{self.scene_table['audio'][position]}: not what was written"
            except DatasetError as error:
                yield str(error)

    def _shards(self) -> list[str]:
        return [shard.name for shard in shards_of(self.spec["items"], self.spec["output"]["items_per_shard"])]

    def _read(self, kind: str, shard: str, schema: pa.Schema) -> pa.Table:
        path = self.path / kind / f"{shard}.parquet"
        try:
            table = pq.read_table(path, partitioning=None)
        except (OSError, pa.ArrowInvalid) as error:
            raise DatasetError(f"{path} can't be read ({error}); render the dataset again") from None
        missing = [name for name in schema.names if name not in table.column_names]
        if missing:
            raise DatasetError(
                f"{path} has no column {missing[0]!r}; read it with the version of synthscape that made it"
            )
        return table

    def _table(self, kind: str, schema: pa.Schema) -> pa.Table:
        return pa.concat_tables([self._read(kind, shard, schema) for shard in self._shards()])

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

    def _audio_file(self, position: int) -> Path:
        name = PurePosixPath(self.scene_table["audio"][position].as_py())
        if name.is_absolute() or ".." in name.parts or len(name.parts) != 3:
            raise DatasetError(f"{self.path}: the scenes table names {str(name)!r}, which is no file of this dataset")
        return self.path / name
