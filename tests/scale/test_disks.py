"""Disks that fill up anywhere, that can't be written, and folders that are not as they should be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from synthscape.output.dataset import open_dataset
from synthscape.scale.progress import Step
from synthscape.scale.render import render
from synthscape.storage import LocalPlace
from tests.scale.tiny import FORMATS, held, leftovers, make_stores, tiny_spec, write_tiny_spec

PAGE = 4096


def leave_bytes(disk: Path, pages: int) -> None:
    """Fill the disk until so many pages are free."""
    status = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(max(0, status.f_bavail * status.f_frsize - pages * PAGE)))


def leave_files(disk: Path, files: int) -> None:
    """Fill the disk until so many files can be made."""
    (disk / "ballast").mkdir()
    for i in range(os.statvfs(disk).f_ffree - files):
        (disk / "ballast" / str(i)).touch()


def free(disk: Path) -> None:
    """Remove what filled the disk."""
    ballast = disk / "ballast"
    shutil.rmtree(ballast) if ballast.is_dir() else ballast.unlink()


@pytest.mark.parametrize(("name", "leave"), [*((name, leave_bytes) for name in FORMATS), ("folder", leave_files)])
def test_a_disk_that_is_full_anywhere(disk, tiny_stores, tmp_path, run, name, leave):
    """Wherever space ends, it is one line and exit code 2; nothing half-written counts; with space again, it goes on.

    From none at all to enough, in small steps: so that space ends in several phases of a render.
    """
    spec, out = write_tiny_spec(tmp_path, tiny_stores), disk / "out"
    command = (
        "render",
        spec,
        "items=4",
        "output.items_per_shard=2",
        f"output.dir={out}",
        f"output.format={name}",
        "-w",
        1,
    )
    assert run(*command)[0] == 0
    whole = held(out)
    ended_in = set()
    for left in range(1000):
        shutil.rmtree(out)
        leave(disk, left)
        code, printed, err = run(*command)
        if code == 0:
            break
        assert (code, printed) == (2, "")
        assert err.startswith(f"synthscape: {out}"), err
        assert err.endswith(": No space left on device; free some space, and run the same command again\n")
        assert err.count("\n") == 1
        assert not (out / "dataset.json").exists()
        assert leftovers(disk) == []
        place = Path(err.split(": ")[1]).relative_to(disk).parts[1:2] or ("out",)
        phase = "in a shard" if place[0].startswith(".aside-") else place[0]
        free(disk)
        if phase not in ended_in:  # to look each time takes twice as long
            assert run(*command)[0] == 0
            assert held(out) == whole
        ended_in.add(phase)
    assert ended_in >= {"in a shard", "render.json"}
    assert len(ended_in) > 2  # which others there are is a matter of pages: what a shard gives free may hold the rest


PHASES = ["render.json", "receipts/00000.json", "log/00000.json", "receipts/00001.json", "README.md", "dataset.json"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_disk_that_is_full_just_then(disk, tiny_stores, tmp_path, run, monkeypatch, phase):
    """Filled up before any of these files is written: that file is named, and with space again it goes on."""
    spec, out = write_tiny_spec(tmp_path, tiny_stores), disk / "out"
    command = ("render", spec, "items=4", "output.items_per_shard=2", f"output.dir={out}", "-w", 1)
    assert run(*command)[0] == 0
    whole = held(out)
    shutil.rmtree(out)
    write = LocalPlace.write

    def filled(place: LocalPlace, name: str, content: bytes) -> None:
        if name == phase:
            leave_bytes(disk, 0)
        write(place, name, content)

    monkeypatch.setattr(LocalPlace, "write", filled)
    code, printed, err = run(*command)
    monkeypatch.undo()

    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"synthscape: {out / phase}: No space left on device; free some space"), err
    assert not (out / "dataset.json").exists()
    assert leftovers(disk) == []
    free(disk)
    assert run(*command)[0] == 0
    assert held(out) == whole


@pytest.mark.parametrize("there", ["nothing", "a part", "all"])
def test_a_disk_that_cannot_be_written(disk, tiny_stores, tmp_path, run, there):
    """Exit code 2, one line that names the place, nothing changed; writable again, it goes on."""
    spec, out = write_tiny_spec(tmp_path, tiny_stores), disk / "out"
    command = ("render", spec, f"output.dir={out}")
    if there != "nothing":
        assert run(*command)[0] == 0
    whole = held(out)
    if there == "a part":
        (out / "dataset.json").unlink()
        (out / "receipts" / "00001.json").unlink()
    before = held(out)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    code, printed, err = run(*command)

    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"synthscape: {out}")
    assert err.endswith(": Read-only file system\n")
    assert held(out) == before
    if there == "all":
        assert open_dataset(out).verify() == []
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert run(*command)[0] == 0
    assert held(out) == whole or there == "nothing"


def test_a_part_of_the_dataset_on_another_disk(disk, tiny_stores, tmp_path, run):
    """Files are moved to their place, and no move goes from disk to disk: that is said, before any shard exists."""
    spec, out = write_tiny_spec(tmp_path, tiny_stores), tmp_path / "out"
    out.mkdir()
    (out / "events").symlink_to(disk)
    code, _, err = run("render", spec)

    assert code == 2
    assert err == f"synthscape: {out / 'events'} is on another disk than {out}: a dataset lies on one\n"
    assert not list(out.glob("receipts/*"))
    (out / "events").unlink()
    assert run("render", spec)[0] == 0
    assert open_dataset(out).verify() == []


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder for somebody who is not root, as whom the test goes on."""
    folder = Path(tempfile.mkdtemp(prefix="synthscape-test-"))
    was = os.geteuid()
    if was == 0:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    os.seteuid(was)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("closed", ["receipts", "scenes", "log", "."])
def test_a_folder_that_may_not_be_written(nobody, run, closed):
    """The line names what is denied; nothing half-written is left or counted; with leave, it goes on."""
    spec, out = write_tiny_spec(nobody, make_stores(nobody)), nobody / "out"
    assert run("render", spec)[0] == 0
    whole = held(out)
    (out / "receipts" / "00001.json").unlink()
    (out / "dataset.json").unlink()
    (out / closed).chmod(0o555)
    code, _, err = run("render", spec)

    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"synthscape: {out / closed}")
    assert err.endswith(": Permission denied\n")
    assert not (out / "dataset.json").exists()
    (out / closed).chmod(0o755)
    assert leftovers(out) == []
    assert run("render", spec)[0] == 0
    assert held(out) == whole


def test_a_folder_that_vanishes(tiny_stores, tmp_path):
    """Removed while it is rendered into, it is an error that names a file in it, and it does not come back in part."""
    out = tmp_path / "out"

    def remove(step: Step) -> None:
        if step.shard == 1:
            shutil.rmtree(out)

    with pytest.raises(FileNotFoundError) as failed:
        render(tiny_spec(tmp_path, tiny_stores), workers=2, progress=remove)
    assert str(failed.value.filename).startswith(str(out))
    assert not out.exists()


@pytest.mark.parametrize("part", ["audio", "receipts", "chat"])
def test_a_file_where_a_folder_should_be(tiny_stores, tmp_path, run, part):
    """It is said in one line, and left alone."""
    spec, out = write_tiny_spec(tmp_path, tiny_stores), tmp_path / "out"
    assert run("render", spec, "items=4", "output.format=folder")[0] == 0
    shutil.rmtree(out / part)
    (out / part).write_text("mine")
    code, _, err = run("render", spec, "output.format=folder")

    assert code == 2
    assert (err.startswith(f"synthscape: {out / part}"), err.count("\n")) == (True, 1)
    assert (out / part).read_text() == "mine"


ODD = ["50%20 off", "a b  c", "鳥のåudio", "'single' \"double\" `back`", "#x: {y: [1]}", "$HOME", "-x", "☃" * 60]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_of_folders(tiny_stores, tmp_path, name):
    """A folder of any name is rendered into, gone on with and opened; nothing beside it is made."""
    (tmp_path / "in").mkdir()
    out = tmp_path / "in" / name
    spec = tiny_spec(tmp_path, tiny_stores, f"output.dir={json.dumps(str(out))}")
    render(spec)
    (out / "receipts" / "00001.json").unlink()

    assert render(spec).new_shards == 1
    assert open_dataset(out).verify() == []
    assert [path.name for path in (tmp_path / "in").iterdir()] == [name]


def test_a_name_of_several_lines_is_refused(tiny_stores, tmp_path, run, monkeypatch):
    """Messages are one line each, so no folder may break them; it is shown with its break escaped."""
    monkeypatch.chdir(tmp_path)  # long values are shortened
    code, _, err = run("render", write_tiny_spec(tmp_path, tiny_stores), 'output.dir="line\\nbreak"')

    assert (code, err.count("\n")) == (2, 1)
    assert r"line\nbreak" in err


def test_a_path_that_is_too_long(tiny_stores, tmp_path, run):
    """One line; and one that is nearly too long is fine."""
    long = tmp_path.joinpath(*["x" * 200] * 14)
    spec = write_tiny_spec(tmp_path, tiny_stores)
    assert run("render", spec, f"output.dir={long}")[0] == 0
    assert open_dataset(long).verify() == []
    code, _, err = run("render", spec, f"output.dir={tmp_path / ('x' * 300)}")

    assert (code, err.count("\n")) == (2, 1)
    assert err.endswith(": File name too long\n")


def test_a_link_to_a_folder(tiny_stores, tmp_path):
    """A dataset is rendered through a link, gone on with where the link leads to, and the link stays."""
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    spec = tiny_spec(tmp_path, tiny_stores)
    render(spec)
    (tmp_path / "real" / "receipts" / "00001.json").unlink()
    through = tiny_spec(tmp_path, tiny_stores, f"output.dir={tmp_path / 'real'}")

    assert render(through).kept_shards == 2
    assert render(spec, overwrite=True).new_shards == 3
    assert (tmp_path / "out").is_symlink()
    assert open_dataset(tmp_path / "out").verify() == []


def test_what_others_write_aside_is_left_alone(tiny_stores, tmp_path):
    """Only a dataset's own folders are looked through for leftovers: one inside another may be at work."""
    spec, out = tiny_spec(tmp_path, tiny_stores), tmp_path / "out"
    render(spec)
    for folder in (out / "another", tmp_path / "linked"):
        folder.mkdir()
        (folder / ".aside-0123").write_text("being written")
    (out / "link").symlink_to(tmp_path / "linked")
    (out / "events" / ".aside-0123").write_text("left by a render that was killed")
    render(spec)

    assert leftovers(out) == ["another/.aside-0123"]
    assert (tmp_path / "linked" / ".aside-0123").exists()


def test_a_link_that_leads_nowhere(tiny_stores, tmp_path, run):
    """It is said in one line."""
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    code, _, err = run("render", write_tiny_spec(tmp_path, tiny_stores))

    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"synthscape: {tmp_path / 'out'}")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("file://tmp/out", "got the host 'tmp'; add a slash"),
        ("https://example.invalid/out", "a web server can't be written to"),
        ("memory://out", "would be gone with this command"),
        ("dangling", "is a link to nothing"),
    ],
)
def test_places_where_nothing_can_be(tiny_stores, tmp_path, run, monkeypatch, where, message):
    """Each is refused at once, in one line, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    spec = write_tiny_spec(tmp_path, tiny_stores)
    before = sorted(tmp_path.iterdir())
    code, out, err = run("render", spec, f"output.dir={where}")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(tmp_path.iterdir()) == before
