"""``output.format: folder``: a file a scene, ``audio/00000/s000000000.flac``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import pyarrow as pa

from synthscape.errors import DatasetError
from synthscape.output.containers import Container, Page, StoredAudio
from synthscape.output.sync import SyncedFiles


class AudioFiles(Container):
    """A file a scene, being written."""

    def __init__(self, workspace: Path, shard: str, suffix: str, files: SyncedFiles):
        super().__init__()
        self._folder = workspace / "audio"
        self._folder.mkdir()
        self._name = f"audio/{shard}"
        self._suffix = suffix
        self._files = files

    def audio_name(self, scene_id: str, item_id: str, part: str | None) -> str:  # noqa: D102
        return f"{self._name}/{scene_id}.{self._suffix}"

    def add_audio(self, scene_id: str, content: bytes) -> None:  # noqa: D102
        self._files.write(self._folder / f"{scene_id}.{self._suffix}", content)

    def add(self, page: Page) -> None:  # noqa: D102
        return  # its audio is there

    def close(self) -> dict[str, Path]:  # noqa: D102
        return {self._name: self._folder}


class StoredFiles(StoredAudio):
    """A file a scene, read back."""

    def read(self, shard: str, name: str) -> bytes:  # noqa: D102
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or len(path.parts) != 3:
            raise DatasetError(f"{self.place}: the scenes table names {name!r}, which is no file of this dataset")
        try:
            return self.place.read(str(path))
        except OSError as error:
            raise self.unreadable(str(path), error) from None

    def problems(self, shard: str, tables: Mapping[str, pa.Table]) -> Iterator[str]:  # noqa: D102
        yield from ()
