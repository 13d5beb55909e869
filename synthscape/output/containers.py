"""How the audio of a shard is stored: ``output.format``.

========================  ==================================================================
``folder``                a file a scene: ``audio/00000/s000000000.flac``
========================  ==================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from synthscape.output.sync import SyncedFiles

#: Folders of a dataset that hold audio.
CONTAINER_FOLDERS: Final = ("audio",)


@dataclass(frozen=True)
class Page:
    """Some items of a shard, all that were delivered of them, in order."""

    audio: list[bytes]  # encoded, one a scene; none where no audio is written
    tables: Mapping[str, pa.Table]  # events, scenes, facts, items
    texts: Mapping[str, str] = field(default_factory=dict)  # chat


class Container(ABC):
    """The audio of one shard, being written into a folder that is not its place yet."""

    @abstractmethod
    def audio_name(self, scene_id: str, item_id: str, part: str | None) -> str:
        """What the tables call the audio of a scene.

        Args:
            scene_id: the scene.
            item_id: the item it is of.
            part: what it is in its item; None where an item is a scene.
        """

    @abstractmethod
    def add(self, page: Page) -> None:
        """Write some items."""

    @abstractmethod
    def close(self) -> dict[str, Path]:
        """All is written: where each file or folder is now, by its name in the dataset."""


def container_for(output: Mapping[str, Any], workspace: Path, shard: str, files: SyncedFiles) -> Container:
    """A new container of a dataset that is written as ``output`` says, for a shard, in a folder for its files."""
    return AudioFiles(workspace, shard, output["audio"], files)


class AudioFiles(Container):
    """A file a scene."""

    def __init__(self, workspace: Path, shard: str, suffix: str, files: SyncedFiles):
        self._folder = workspace / "audio"
        self._folder.mkdir()
        self._name = f"audio/{shard}"
        self._suffix = suffix
        self._files = files

    def audio_name(self, scene_id: str, item_id: str, part: str | None) -> str:  # noqa: D102
        return f"{self._name}/{scene_id}.{self._suffix}"

    def add(self, page: Page) -> None:  # noqa: D102
        for name, content in zip(page.tables["scenes"]["scene_id"].to_pylist(), page.audio, strict=True):
            self._files.write(self._folder / f"{name}.{self._suffix}", content)

    def close(self) -> dict[str, Path]:  # noqa: D102
        return {self._name: self._folder}
