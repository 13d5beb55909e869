"""Places: folders on this machine, in memory and on S3 take the same calls and give the same answers."""

from __future__ import annotations

import io
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from synthscape.errors import StorageError
from synthscape.remote import RemotePlace
from synthscape.storage import LocalPlace, Place, place_at

FILES = ("top", "a/x", "a/y", "b/x")
FOLDERS = ("c/0", "c/1")


class Model(dict[str, bytes]):
    """What a place holds, by name; what every place must answer."""

    def under(self, name: str) -> dict[str, bytes]:
        """What is at or under a name."""
        return {path: content for path, content in self.items() if path == name or path.startswith(f"{name}/")}

    def size(self, name: str) -> tuple[int, int]:
        """Number of these, and bytes in all."""
        return len(self.under(name)), sum(map(len, self.under(name).values()))


def step(rng: random.Random, place: Place, model: Model, folder: Path) -> None:
    """Do something at random, to both, and compare."""
    name, content = rng.choice(FILES), rng.randbytes(rng.randrange(0, 3000))
    inner = rng.choice(FOLDERS)
    action = rng.choice(("write", "create", "put", "put folder", "remove", "remove folder"))
    if action == "write":
        place.write(name, content)
        model[name] = content
    elif action == "create":
        assert place.create(name, content) == (name not in model)
        model.setdefault(name, content)
    elif action == "put":
        (folder / "file").write_bytes(content)
        place.put(folder / "file", name)
        model[name] = content
    elif action == "put folder":
        new = {f"{inner}/{i}": rng.randbytes(9) for i in rng.sample(range(30), rng.randrange(1, 25))}
        (folder / "new").mkdir()
        for path, content in new.items():
            (folder / "new" / Path(path).name).write_bytes(content)
        place.put(folder / "new", inner)
        shutil.rmtree(folder / "new", ignore_errors=True)
        for path in model.under(inner):
            del model[path]
        model.update(new)
    else:
        gone = name if action == "remove" else inner
        place.remove(gone)
        for path in model.under(gone):
            del model[path]


def compare(place: Place, model: Model) -> None:
    """A place holds what the model does, whatever is asked."""
    names = [*FILES, *(f"c/0/{i}" for i in range(3)), "gone", "a", "c/0", "c/1", "c"]
    assert place.sizes(names) == {name: model.size(name) for name in names}
    files = [*FILES, "c/1/2", "gone"]
    assert list(place.read_many(files)) == [model.get(name) for name in files]
    assert [place.exists(name) for name in files] == [name in model for name in files]
    for folder in ("a", "b", "c/0", "c/1", "gone"):
        assert place.entries(folder) == sorted(name.rpartition("/")[2] for name in model.under(folder))
    for name in FILES:
        if name in model:
            assert place.read(name) == model[name]
            with place.open(name) as file:
                assert file.seek(0, io.SEEK_END) == len(model[name])
                file.seek(7)
                assert file.read(5) == model[name][7:12]
                assert file.read() == model[name][12:]
        else:
            for read in (place.read, place.open):
                with pytest.raises(FileNotFoundError):
                    read(name)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["folder", "local", "memory", "s3"])
def test_all_places_are_alike(kind, seed, request, tmp_path):
    """Thirty random changes leave each kind of place with what a dictionary holds."""
    where = {
        "folder": lambda: tmp_path / "place",
        "local": lambda: f"local://{tmp_path}/place",  # by fsspec: one with folders, that looks before it creates
        "memory": lambda: f"memory://place{seed}",
        "s3": lambda: f"{request.getfixturevalue('bucket')}/some/place",
    }[kind]()
    rng, place, model = random.Random(seed), place_at(where), Model()
    place.make()
    for n in range(30):
        step(rng, place, model, tmp_path)
        if n % 10 == 9:
            compare(pickle.loads(pickle.dumps(place)), model)
    assert any(model.under(folder) for folder in FOLDERS)


def test_neighbours_are_left_alone(bucket):
    """A place ends where its name ends: one whose name begins alike is another."""
    place, other = place_at(f"{bucket}/data"), place_at(f"{bucket}/data2/x")
    place.write("log/1", b"1")
    place.write("log2/1", b"22")
    other.write("log/1", b"333")
    assert place.sizes(["log"]) == {"log": (1, 1)}
    place.remove("log")

    assert place.entries() == ["log2"]
    assert other.read("log/1") == b"333"


def test_more_names_than_are_looked_for_one_by_one(bucket):
    """Sizes of many names come from listings of their folders."""
    place = place_at(f"{bucket}/data")
    import s3fs

    s3fs.S3FileSystem().pipe({f"{bucket[5:]}/data/a/{i}": b"x" * (i % 3) for i in range(100)})
    names = [f"a/{i}" for i in range(101)]

    assert place.sizes(names) == {f"a/{i}": (1, i % 3) if i < 100 else (0, 0) for i in range(101)}
    assert len(place.entries("a")) == 100


def test_one_of_many_creates(s3, bucket):
    """Of those who create a file at once, one does; the server sees to that."""
    from concurrent.futures import ThreadPoolExecutor

    place = place_at(f"{bucket}/data")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: place.create("receipts/0.json", bytes([i])), range(8)))
    asked = s3.asked("PUT", "receipts/0.json")

    assert sum(won) == 1
    assert place.read("receipts/0.json") == bytes([won.index(True)])
    assert len(asked) == 8
    assert all(request.conditional for request, _ in asked)
    assert sorted(status for _, status in asked) == [200] + [412] * 7


def test_parts_of_a_large_file_are_read_alone(s3, bucket):
    """To read 100 bytes of 6 MB, at most what is read at once is fetched."""
    content = random.Random(0).randbytes(6_000_000)
    place = place_at(f"{bucket}/data")
    place.write("big", content)
    before = s3.sent_bytes
    with place.open("big") as file:
        file.seek(3_000_000)
        assert file.read(100) == content[3_000_000:3_000_100]
        file.seek(-50, io.SEEK_END)
        assert file.read() == content[-50:]

    assert s3.sent_bytes - before < 1_200_000


def test_what_passes_is_waited_for(s3, bucket, monkeypatch):
    """Errors of a busy server and lost connections are tried again, each request once more here."""
    from tests.remote.proxy import Trouble

    monkeypatch.setattr("synthscape.remote._FIRST_WAIT_S", 0.01)
    place = place_at(f"{bucket}/data")
    troubles = (
        Trouble(503),
        Trouble(500),
        Trouble(507),
        Trouble(drop="before"),
        Trouble(drop="after"),
        Trouble(drop="middle"),
    )
    for i, trouble in enumerate(troubles):
        first = {"GET": True, "PUT": True, "HEAD": True}

        def once(request, trouble=trouble, first=first):
            return trouble if first.pop(request.method, False) else None

        s3.trouble = once
        place.write(f"a/{i}", b"content" * 1000)
        assert place.read(f"a/{i}") == b"content" * 1000
        assert not first


def test_what_does_not_pass_is_said(s3, bucket, impatient, caplog):
    """A server that is down is one error, which names the URL and says that the same command goes on."""
    from tests.remote.proxy import Trouble

    s3.trouble = lambda _: Trouble(drop="before")
    with pytest.raises(StorageError, match=rf"{bucket}/data/x: .*run the same command again"):
        place_at(f"{bucket}/data").write("x", b"")
    assert len(s3.log) > 2


def test_a_wait_is_told_of(s3, bucket, monkeypatch, caplog):
    """Nobody is left to wonder: after some seconds a line says what is waited for."""
    from tests.remote.proxy import Trouble

    monkeypatch.setattr("synthscape.remote._FIRST_WAIT_S", 0.02)
    monkeypatch.setattr("synthscape.remote._SAID_FROM_S", 0.04)
    s3.trouble = lambda _: Trouble(500) if len(s3.asked("PUT", "data/x")) < 4 else None
    place_at(f"{bucket}/data").write("x", b"")

    assert f"{bucket}/data/x: We encountered an internal error. Please try again.; trying again" in caplog.text


def test_workspaces_of_killed_processes_go(bucket, tmp_path, monkeypatch):
    """A new workspace removes those of processes that are no more, and no others."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = place_at(f"{bucket}/data")
    mine = place.workspace()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-"))
    (left / "audio").mkdir(parents=True)
    strangers = tmp_path / "synthscape-notes"
    strangers.mkdir()
    place.workspace()

    assert not left.exists()
    assert mine.exists()
    assert strangers.exists()


def test_file_urls_are_folders(tmp_path):
    """``file://`` is a folder on this machine, with its lock and its syncs."""
    place = place_at(f"file://{tmp_path}/a%20b")

    assert isinstance(place, LocalPlace)
    assert place.where == tmp_path / "a b"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://bucket/data", "nosuch"),
        ("s3://", "expected a bucket or folder after ://"),
        ("memory://", "expected a bucket or folder after ://"),
        ("s3://bucket/da*ta", r"without any of"),
    ],
)
def test_urls_that_are_none_are_refused(url, said):
    """One line says what is wrong with a URL."""
    with pytest.raises(StorageError, match=said):
        RemotePlace(url)


def test_passwords_are_refused_and_never_shown():
    """A URL with a password would end up in the dataset; the message does not repeat it."""
    with pytest.raises(StorageError, match="environment") as refused:
        place_at("sftp://me:s3cret@host/data")
    assert "s3cret" not in str(refused.value)
