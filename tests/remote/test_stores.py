"""Stores behind URLs: copied to this machine once, whole, and again when they have changed."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections import Counter, namedtuple
from pathlib import Path

import numpy as np
import pytest

from synthscape.bank.cache import cache_folder
from synthscape.bank.store import ClipStore
from synthscape.errors import SpecError, StorageError, StoreError
from synthscape.scale.render import render
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator
from tests.hand_built import make_bank
from tests.remote.proxy import Proxy, Request, Trouble
from tests.small_dataset import small_spec


def send(folder: Path, url: str) -> None:
    """Copy a store to a URL."""
    import fsspec

    files, root = fsspec.core.url_to_fs(url)
    files.pipe({f"{root}/{path.name}": path.read_bytes() for path in folder.iterdir() if path.is_file()})


@pytest.fixture
def banks(s3: Proxy, bucket: str, stores: Path) -> str:
    """URL of a folder with the small bank and backgrounds."""
    for name in ("bank", "backgrounds"):
        send(stores / name, f"{bucket}/{name}")
    s3.log.clear()
    return bucket


def fetched(s3: Proxy) -> Counter[str]:
    """How often each file was asked for."""
    return Counter(request.path.rpartition("/")[2] for request, _ in s3.asked("GET") if not request.query)


def copies() -> list[Path]:
    """What is in the cache, but for locks."""
    return [path for path in (cache_folder() / "stores").glob("*") if path.suffix != ".lock"]


def remote_spec(folder: Path, stores: Path, banks: str, *overrides: str) -> Spec:
    """The small spec over the stores behind a URL."""
    return small_spec(folder, stores, f"bank={banks}/bank", f"backgrounds={banks}/backgrounds", *overrides)


def test_a_store_is_copied_once(s3, banks, stores, caplog):
    """The second time only ``store.json`` is read; rows and samples are the store's. A line tells of the copy."""
    store, other = ClipStore.open(f"{banks}/bank"), ClipStore.open(stores / "bank")
    first = fetched(s3)
    again = ClipStore.open(f"{banks}/bank/")

    assert (store.fingerprint, store.where) == (other.fingerprint, f"{banks}/bank")
    assert np.array_equal(store.audio(3), other.audio(3))
    assert store.clips.equals(other.clips)
    assert set(first.values()) == {1}
    assert fetched(s3) - first == {"store.json": 1}
    assert copies() == [store.path] == [again.path]
    assert f"copying {banks}/bank" in caplog.text
    assert repr(store).startswith(f"<ClipStore {banks}/bank (")


def test_scenes_of_a_store_on_s3_are_the_same(s3, banks, stores, tmp_path):
    """A dataset of stores behind URLs, behind a URL, has the content of the local one, and its fingerprint."""
    here = render(small_spec(tmp_path, stores), workers=1)
    there = render(remote_spec(tmp_path, stores, banks, f"output.dir={banks}/data"), workers=1)

    assert there.info["content_hash"] == here.info["content_hash"]
    assert there.info["fingerprint"] == here.info["fingerprint"]


def test_a_store_that_changed_is_another(s3, banks, stores, tmp_path):
    """It is copied anew; generators that are on their way to workers notice."""
    generator = SceneGenerator(remote_spec(tmp_path, stores, banks))
    sent = pickle.dumps(generator)
    assert pickle.loads(sent).fingerprint == generator.fingerprint
    old = ClipStore.open(f"{banks}/bank")
    make_bank(tmp_path / "changed", ("Corvus corax", "Parus major", "Sitta europaea"))
    send(tmp_path / "changed", f"{banks}/bank")
    new = ClipStore.open(f"{banks}/bank")

    assert new.fingerprint == ClipStore.open(tmp_path / "changed").fingerprint != old.fingerprint
    assert new.path != old.path
    with pytest.raises(StoreError, match=f"{banks}/bank or .* changed since the generator was made"):
        pickle.loads(sent)


def test_a_store_that_is_cut_short_is_refused(s3, banks, tmp_path):
    """A file that is shorter than ``store.json`` says is no store, and nothing of it stays."""
    import s3fs

    files = s3fs.S3FileSystem()
    (audio,) = files.glob(f"{banks}/bank/*.i16")
    files.pipe(audio, files.cat(audio)[:-2])

    with pytest.raises(StoreError, match=rf"s3://{audio} has \d+ bytes, store.json says \d+: copy the store there"):
        ClipStore.open(f"{banks}/bank")
    files.rm(audio)
    with pytest.raises(StoreError, match=rf"s3://{audio} is missing"):
        ClipStore.open(f"{banks}/bank")
    assert copies() == []


def test_a_copy_that_is_cut_short_is_made_again(s3, banks, stores, monkeypatch):
    """Connections that are lost in the middle of files are no end; a server that loses all of them is an error."""
    monkeypatch.setattr("synthscape.remote._FIRST_WAIT_S", 0.01)
    cut: Counter[str] = Counter()

    def once(request: Request) -> Trouble | None:
        cut[request.path] += request.method == "GET"
        return Trouble(drop="middle") if cut[request.path] == 1 and request.method == "GET" else None

    s3.trouble = once
    store = ClipStore.open(f"{banks}/bank")
    assert np.array_equal(store.audio(5), ClipStore.open(stores / "bank").audio(5))

    monkeypatch.setattr("synthscape.remote._PATIENCE_S", 0.3)
    s3.trouble = lambda request: Trouble(drop="middle") if request.path.endswith(".i16") else None
    with pytest.raises(StorageError, match=f"{banks}/backgrounds/audio"):
        ClipStore.open(f"{banks}/backgrounds")
    assert copies() == [store.path]


def test_a_damaged_copy_is_replaced(s3, banks):
    """A file of the cache that was cut is fetched again."""
    store = ClipStore.open(f"{banks}/bank")
    (audio,) = store.path.glob("*.i16")
    whole = audio.read_bytes()
    audio.write_bytes(whole[:-2])

    assert ClipStore.open(f"{banks}/bank").path == store.path
    assert audio.read_bytes() == whole


def test_processes_share_a_copy(s3, banks):
    """Of two that want a store at the same time one copies it, and the other waits."""
    s3.trouble = lambda request: Trouble(delay_s=0.2) if request.path.endswith(".i16") else None
    script = f"from synthscape.bank.store import ClipStore; print(ClipStore.open('{banks}/bank').path)"
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0].strip() for process in both]

    assert said == [str(path) for path in copies()] * 2
    assert {name: n for name, n in fetched(s3).items() if name != "store.json"} == dict.fromkeys(
        (path.name for path in copies()[0].iterdir() if path.name != "store.json"), 1
    )


def test_a_disk_that_is_too_small(s3, banks, monkeypatch):
    """Nothing is begun that can't be finished."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 10**6, 10**6))

    with pytest.raises(
        StoreError, match=r"GB on this machine, .* has 0.001 GB free; free some, or set SYNTHSCAPE_CACHE"
    ):
        ClipStore.open(f"{banks}/bank")
    assert copies() == []


def test_names_of_others_become_no_paths(s3, banks):
    """A store whose ``store.json`` names a file outside its folder is refused before anything is copied."""
    import s3fs

    files = s3fs.S3FileSystem()
    info = json.loads(files.cat(f"{banks}/bank/store.json"))
    info["audio"][0]["name"] = "../../evil.i16"
    files.pipe(f"{banks}/bank/store.json", json.dumps(info).encode())
    s3.log.clear()

    with pytest.raises(StoreError, match=r"bank/store.json: an audio file should have a plain name"):
        ClipStore.open(f"{banks}/bank")
    assert set(fetched(s3)) == {"store.json"}


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        ("{banks}/nothing", StoreError, "no store at {banks}/nothing: there is no store.json"),
        ("nosuch://bucket/bank", StorageError, "nosuch://bucket/bank: Protocol not known"),
    ],
)
def test_stores_that_are_none(banks, url, error, said):
    """One line says what is wrong."""
    with pytest.raises(error, match=said.format(banks=banks)):
        ClipStore.open(url.format(banks=banks))


def test_a_store_in_memory(s3, stores):
    """Other URLs are stores too."""
    send(stores / "bank", "memory://stores/bank")
    assert len(ClipStore.open("memory://stores/bank")) == len(ClipStore.open(stores / "bank"))
    assert ClipStore.open(f"file://{stores}/bank").path == stores / "bank"


def test_a_community_table_is_a_file_here(stores, tmp_path):
    """A table by URL is refused, with what to do."""
    spec = small_spec(tmp_path, stores, "community.table=s3://bucket/table.csv")
    with pytest.raises(SpecError, match=r"community.table: s3://bucket/table.csv: expected a file on this machine"):
        SceneGenerator(spec)


def test_spec_check_looks_behind_urls(s3, banks, stores, tmp_path):
    """Stores that are there are found, others are listed."""
    from synthscape.cli.spec import _missing_stores
    from synthscape.spec.load import load_with_origins

    remote_spec(tmp_path, stores, banks)
    ask = [f"bank={banks}/bank", f"backgrounds={banks}/gone"]
    (missing,) = _missing_stores(*load_with_origins(str(tmp_path / "small.yaml"), ask))

    assert f"backgrounds: expected a clip store at {banks}/gone, got no such folder" in missing
