"""Processes that write the same shard: what one takes away, another may be looking at."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

from synthscape.storage import LocalPlace


def test_files_that_go_while_they_are_counted(tmp_path, monkeypatch):
    """A folder that is replaced between listing and counting is not all there; it was an error, of one of several."""
    folder = tmp_path / "audio" / "00000"
    folder.mkdir(parents=True)
    for name in ("a.flac", "b.flac"):
        (folder / name).write_bytes(b"12345")
    scandir = os.scandir

    @contextmanager
    def then_gone(path):
        with scandir(path) as entries:
            listed = list(entries)
        monkeypatch.undo()
        shutil.rmtree(path)
        yield listed

    monkeypatch.setattr(os, "scandir", then_gone)
    assert LocalPlace(tmp_path).sizes(["audio/00000"]) == {"audio/00000": (0, 0)}
    assert not folder.exists()
    assert LocalPlace(tmp_path).sizes(["audio/00000"]) == {"audio/00000": (0, 0)}


def test_files_under_a_file(tmp_path):
    """A file where a folder was: nothing is there, as far as counting and listing go."""
    (tmp_path / "audio").write_bytes(b"")

    assert LocalPlace(tmp_path).sizes(["audio/00000", "audio"]) == {"audio/00000": (0, 0), "audio": (1, 0)}
    assert LocalPlace(tmp_path).entries("audio/00000") == LocalPlace(tmp_path).entries("audio") == []


def test_links_between_files(tmp_path):
    """Links to files count as those do (data tools put them there); those to folders are not followed in circles."""
    folder = tmp_path / "audio"
    folder.mkdir()
    (tmp_path / "kept.flac").write_bytes(b"12345")
    (folder / "a.flac").symlink_to(tmp_path / "kept.flac")
    (folder / "above").symlink_to(tmp_path)
    (folder / "gone.flac").symlink_to(tmp_path / "nothing")

    assert LocalPlace(tmp_path).sizes(["audio"]) == {"audio": (1, 5)}
