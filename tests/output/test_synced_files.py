"""Files that are written now and synced soon: all of them, before anything says that they exist."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Event, Thread

import pytest

from synthscape.output import sync
from synthscape.output.sync import SyncedFiles
from synthscape.scale.render import render
from synthscape.storage import LocalPlace

CONTENTS = [bytes([i]) * (1000 + i) for i in range(50)]


@pytest.fixture
def synced(monkeypatch):
    """Sizes of the files that were synced, by inode."""
    sizes: dict[int, int] = {}
    fsync = os.fsync

    def recorded(descriptor):
        fsync(descriptor)
        status = os.fstat(descriptor)
        sizes[status.st_ino] = status.st_size

    monkeypatch.setattr(sync.os, "fsync", recorded)
    return sizes


def test_all_is_synced_whole(tmp_path, synced):
    """Every file is synced with all its content by the time the block is left, and none is written over."""
    with SyncedFiles() as files:
        for i, content in enumerate(CONTENTS):
            files.write(tmp_path / str(i), content)
        with pytest.raises(FileExistsError, match=r"'.*/0'"):
            files.write(tmp_path / "0", b"")

    for i, content in enumerate(CONTENTS):
        assert (tmp_path / str(i)).read_bytes() == content
        assert synced[(tmp_path / str(i)).stat().st_ino] == len(content)


def test_a_disk_that_is_full_when_it_is_synced(tmp_path, monkeypatch):
    """The error names its file, and comes before the block is left; nothing hangs."""

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sync.os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"), SyncedFiles() as files:
        files.write(tmp_path / "a", b"content")


def test_writing_waits_for_a_disk_that_is_slow(tmp_path, monkeypatch):
    """There are never more than some files that are not on the disk."""
    go_on = Event()
    monkeypatch.setattr(sync.os, "fsync", lambda descriptor: go_on.wait())

    def write_all():
        with SyncedFiles() as files:
            for i, content in enumerate(CONTENTS):
                files.write(tmp_path / str(i), content)

    writer = Thread(target=write_all)
    writer.start()
    writer.join(0.3)
    try:
        assert writer.is_alive()
        assert 0 < len(list(tmp_path.iterdir())) <= sync._MOST_UNSYNCED + 1
    finally:
        go_on.set()
        writer.join()
    assert len(list(tmp_path.iterdir())) == len(CONTENTS)


def test_a_receipt_is_written_when_all_else_is_on_the_disk(spec_of, tmp_path, synced, monkeypatch):
    """Stems too: when a shard's receipt is written, every other file of it was synced."""
    unsynced: list[Path] = []
    create = LocalPlace.create

    def checked(place, name, content):
        files = [file for part in ("audio", "stems", "raven", "events", "scenes")
                 for file in (place.where / part).rglob("*.*")]  # fmt: skip
        if name == "receipts/00000.json":
            assert len(files) > 8
            unsynced.extend(file for file in files if synced.get(file.stat().st_ino) != file.stat().st_size)
        return create(place, name, content)

    monkeypatch.setattr(LocalPlace, "create", checked)
    render(spec_of("items=4", "output.stems=true", "output.raven=true", f"output.dir={tmp_path / 'out'}"), workers=2)

    assert list((tmp_path / "out" / "receipts").iterdir())
    assert unsynced == []


def test_a_file_that_grows_is_left_as_it_is(tmp_path):
    """Syncing what is there changes nothing of a file that others write; one that is gone is told."""
    with (tmp_path / "grows").open("xb") as file, SyncedFiles() as files:
        for k in range(100):
            file.write(bytes([k]) * 1000)
            file.flush()
            files.sync_so_far(tmp_path / "grows")
        with pytest.raises(FileNotFoundError, match="gone"):
            files.sync_so_far(tmp_path / "gone")
    assert (tmp_path / "grows").read_bytes() == b"".join(bytes([k]) * 1000 for k in range(100))
