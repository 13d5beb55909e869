"""How the audio of a shard is stored: ``output.format``.

==============  ===============================================================================
``parquet``     a row an item, its audio and all labels in it: ``data/00000.parquet``
``webdataset``  a tar of audio files and JSON: ``data/00000.tar``
``folder``      a file a scene: ``audio/00000/s000000000.flac``
==============  ===============================================================================

The tables, and what else ``output`` asks for, are the same in all of them, but for what they call the audio.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from synthscape.errors import DatasetError
from synthscape.output.audio_files import AudioFiles, StoredFiles
from synthscape.output.containers import Container, StoredAudio
from synthscape.output.parquet_shards import ParquetShard, StoredParquet
from synthscape.output.sync import SyncedFiles
from synthscape.output.tar_shards import StoredTars, TarShard
from synthscape.spec.schema import QUESTION_TASKS
from synthscape.storage import Place

#: Folders of a dataset that hold audio.
CONTAINER_FOLDERS: Final = ("audio", "data")


def container_for(
    spec: Mapping[str, Any], output: Mapping[str, Any], workspace: Path, shard: str, files: SyncedFiles
) -> Container:
    """A new container for a shard of a dataset.

    Args:
        spec: of the dataset.
        output: how it is written.
        workspace: folder for its files, until they are put into their place.
        shard: its name.
        files: what writes files.
    """
    kind, suffix, of_questions = output["format"], output["audio"], spec["task"] in QUESTION_TASKS
    if kind == "parquet":
        return ParquetShard(workspace, shard, suffix, spec["sample_rate"], of_questions)
    if kind == "webdataset":
        return TarShard(workspace, shard, suffix, of_questions)
    return AudioFiles(workspace, shard, suffix, files)


def stored_audio(place: Place, spec: Mapping[str, Any]) -> StoredAudio:
    """The audio of a finished dataset.

    Raises:
        DatasetError: it is stored in a way that is not known here.
    """
    kind, of_questions = spec["output"]["format"], spec["task"] in QUESTION_TASKS
    if kind == "parquet":
        return StoredParquet(place, of_questions)
    if kind == "webdataset":
        return StoredTars(place, of_questions)
    if kind == "folder":
        return StoredFiles(place)
    raise DatasetError(f"{place} has the format {kind!r}; read it with the version of synthscape that made it")
