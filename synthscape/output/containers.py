"""What holds the audio of a shard: written by a :class:`Container`, read back by :class:`StoredAudio`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from synthscape.errors import DatasetError
from synthscape.storage import Place


@dataclass(frozen=True)
class Page:
    """Some items of a shard, all that were delivered of them, in order."""

    tables: Mapping[str, pa.Table]  # events, scenes, facts, items
    texts: Mapping[str, str] = field(default_factory=dict)  # chat


class Container(ABC):
    """The audio of one shard, being written into a folder that is not its place yet.

    Attributes:
        growing: the file that all of it is added to; None if there is no such file.
    """

    growing: Path | None = None

    def __init__(self) -> None:
        self._waiting: dict[str, bytes] = {}  # audio whose page has not been added, by its scene

    @abstractmethod
    def audio_name(self, scene_id: str, item_id: str, part: str | None) -> str:
        """What the tables call the audio of a scene.

        Args:
            scene_id: the scene.
            item_id: the item it is of.
            part: what it is in its item; None where an item is a scene.
        """

    def add_audio(self, scene_id: str, content: bytes) -> None:
        """Audio of a scene, encoded; of all scenes of a page before the page is added. From any thread, in any order.

        Here it waits for its page; a container may as well write it at once.
        """
        self._waiting[scene_id] = content

    @abstractmethod
    def add(self, page: Page) -> None:
        """Write some items, in their order."""

    def _audio_of(self, page: Page) -> list[bytes]:
        """Audio of the scenes of a page, which no longer waits."""
        return [self._waiting.pop(scene) for scene in page.tables["scenes"]["scene_id"].to_pylist()]

    @abstractmethod
    def close(self) -> dict[str, Path]:
        """All is written: where each file or folder is now, by its name in the dataset."""

    def discard(self) -> None:
        """Nothing more will be written: let go of what is open."""
        return


class StoredAudio(ABC):
    """The audio of a finished dataset."""

    def __init__(self, place: Place):
        self.place = place

    @abstractmethod
    def read(self, shard: str, name: str) -> bytes:
        """The file of a scene.

        Args:
            shard: the shard the scene is in.
            name: what the scenes table calls it.

        Raises:
            DatasetError: it isn't there, or can't be read.
        """

    @abstractmethod
    def problems(self, shard: str, tables: Mapping[str, pa.Table]) -> Iterator[str]:
        """What the container of a shard says otherwise than its tables, one line each.

        Raises:
            DatasetError: it can't be read at all.
        """

    def whole_name(self, shard: str, name: str) -> str:
        """For people: where the file of a scene is, from the dataset's folder."""
        return name

    def unreadable(self, name: str, error: Exception | str) -> DatasetError:
        """The error for a file, or a part of one, that can't be read."""
        state = "is missing" if isinstance(error, FileNotFoundError) else f"can't be read ({error})"
        return DatasetError(f"{self.place}: {name} {state}; render the dataset again: what is missing is made anew")
