"""Datasets rendered in every format, for tests that read them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synthscape.output.dataset import Dataset, open_dataset
from synthscape.scale.render import render
from synthscape.spec import load_spec
from tests.small_dataset import small_spec

FORMATS: Final = ("parquet", "webdataset", "folder")
ITEMS: Final = 23  # of the small spec, in three shards


def small(folder: Path, stores: Path, kind: str, *overrides: str, workers: int = 1) -> Dataset:
    """The small spec in a format, rendered into ``folder/out``."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = small_spec(folder, stores, f"output.format={kind}", *overrides)
    return open_dataset(render(spec, workers=workers).path)


def asked(folder: Path, stores: Path, task: str, kind: str, *overrides: str, workers: int = 1) -> Dataset:
    """Six questions over a task bank, in two shards, rendered into ``folder``."""
    spec = load_spec(
        task,
        [
            f"bank={json.dumps(str(stores / 'bank'))}",
            f"backgrounds={json.dumps(str(stores / 'fields'))}",
            f"output={{dir: {json.dumps(str(folder))}, format: {kind}, items_per_shard: 4}}",
            "items=6",
            "clips.duration=2",
            *overrides,
        ],
    )
    return open_dataset(render(spec, workers=workers).path)


def pcm(data: Dataset, scene_id: str) -> NDArray[np.int16]:
    """Samples of a scene as they were written."""
    return np.round(data.audio(scene_id) * 32768).astype(np.int16)


def of_files(folder: Path) -> dict[str, bytes]:
    """All files of a dataset but for logs, and what says where it lies."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    info: dict[str, Any] = json.loads(files.pop("dataset.json"))
    del info["spec"]["output"]["dir"]
    kept = {name: content for name, content in files.items() if name != ".lock" and not name.startswith("log/")}
    return kept | {"dataset.json": json.dumps(info).encode()}
