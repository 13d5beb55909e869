"""Datasets behind URLs: the same as on this machine, whatever the server and other processes do."""

from __future__ import annotations

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from synthscape.errors import DatasetError, StorageError
from synthscape.labels.pcm import pcm_hash
from synthscape.output.dataset import open_dataset
from synthscape.remote import RemotePlace
from synthscape.scale.progress import Step
from synthscape.scale.render import render, render_shard
from synthscape.spec import Spec
from tests.remote.proxy import Proxy, Request, Trouble
from tests.small_dataset import contents, small_spec, write_spec

SHARDS = 3
FEW = ("items=11", "output.items_per_shard=4")


def files_at(url: str) -> dict[str, bytes]:
    """All files behind a URL, by name."""
    import fsspec

    files, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    return {path[len(root) + 1 :]: files.cat_file(path) for path in files.find(root)}


def contents_at(url: str) -> dict[str, Any]:
    """What a dataset behind a URL says, as ``contents`` gives it, without its place."""
    found = {
        name: pcm_hash(soundfile.read(io.BytesIO(content), dtype="int16")[0]) if name.endswith(".flac") else content
        for name, content in files_at(url).items()
        if not name.startswith("log/")
    }
    return without_place(found)


def without_place(found: dict[str, Any]) -> dict[str, Any]:
    """A dataset's content, but for the folder named in its spec."""
    info = json.loads(found["dataset.json"])
    del info["spec"]["output"]["dir"]
    return {**found, "dataset.json": info}


@pytest.fixture(scope="module")
def local(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the dataset holds when it is rendered on this machine."""
    folder = tmp_path_factory.mktemp("local")
    render(small_spec(folder, stores, *FEW), workers=1)
    return without_place(contents(folder / "out"))


@pytest.fixture
def spec(stores: Path, bucket: str, tmp_path: Path) -> Spec:
    """The small spec, rendering into a new bucket."""
    return small_spec(tmp_path, stores, *FEW, f"output.dir={bucket}/data")


@pytest.fixture
def command(stores: Path, spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that renders it; temporary files are the test's own."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    file = write_spec(tmp_path, stores)
    return [
        sys.executable,
        "-c",
        "from synthscape.cli import main; main()",
        "render",
        str(file),
        f"output.dir={spec.output.dir}",
        *FEW,
        "--workers=1",
    ]


def seldom(seed: int, share: float, *troubles: Trouble) -> Callable[[Request], Trouble | None]:
    """Trouble with a share of the requests, by chance."""
    rng, lock = random.Random(seed), threading.Lock()

    def choose(_: Request) -> Trouble | None:
        with lock:
            return rng.choice(troubles) if rng.random() < share else None

    return choose


def test_a_dataset_on_s3_is_the_local_one(s3, spec, local):
    """Every file is the same, and the reader reads the same; the server had no trouble."""
    report = render(spec, workers=2)

    assert (report.path, report.new_shards, report.kept_shards) == (spec.output.dir, SHARDS, 0)
    assert contents_at(spec.output.dir) == local
    data = open_dataset(spec.output.dir)
    assert data.verify() == []
    assert len(data.events) == report.counts["events"]
    assert pcm_hash((data.audio("s000000003") * 32768).astype(np.int16)) == local["audio/00000/s000000003.flac"]
    s3.log.clear()
    assert render(spec).new_shards == 0
    assert not [request for request, _ in s3.asked("PUT") if "/log/" in request.path or "/audio/" in request.path]


def test_receipts_come_last_and_are_conditional(s3, spec):
    """A shard's receipt is asked to be written when all its files are there, unless there is one."""
    render(spec, workers=1)
    puts = [(request.path.removeprefix("/"), request.conditional) for request, _ in s3.asked("PUT")]
    names = [path.partition("/data/")[2] for path, _ in puts]

    for shard in range(SHARDS):
        receipt = names.index(f"receipts/{shard:05d}.json")
        of_shard = [i for i, name in enumerate(names) if f"/{shard:05d}" in name and not name.startswith("log/")]
        assert max(of_shard) == receipt
        assert puts[receipt][1]
    assert names[-1] == "dataset.json"
    assert {name for name, (_, conditional) in zip(names, puts, strict=True) if conditional} == {
        "render.json",
        *(f"receipts/{shard:05d}.json" for shard in range(SHARDS)),
    }


def test_trouble_changes_nothing(s3, spec, local, monkeypatch):
    """With a fifth of all requests failing in every way there is, and late answers, the dataset is the same."""
    monkeypatch.setattr("synthscape.remote._FIRST_WAIT_S", 0.01)
    troubles = [Trouble(status) for status in (500, 503, 507)]
    troubles += [Trouble(drop=when) for when in ("before", "after", "middle")] + [Trouble(delay_s=0.05)]
    s3.trouble = seldom(1, 0.2, *troubles)
    render(spec, workers=2)
    assert open_dataset(spec.output.dir).verify() == []
    s3.trouble = lambda _: None

    assert {status for _, status in s3.log} >= {0, 200, 500, 503, 507}
    assert contents_at(spec.output.dir) == local


def test_stems_go_many_at_a_time(s3, stores, bucket, tmp_path):
    """Small files are sent side by side, and read back."""
    busy, most, lock = [0], [0], threading.Lock()

    def count(request: Request) -> Trouble | None:
        if "/stems/" not in request.path:
            return None
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        threading.Event().wait(0.05)
        with lock:
            busy[0] -= 1
        return None

    s3.trouble = count
    spec = small_spec(tmp_path, stores, f"output.dir={bucket}/data", "output.stems=true", "items=4")
    render(spec, workers=1)
    data = open_dataset(spec.output.dir)
    background, stems = data.stems("s000000000")
    gain = 10 ** (data.scenes["scene_gain_db"][0] / 20)

    assert most[0] > 4
    assert np.abs((background + stems.sum(axis=0)) * gain - data.audio("s000000000")).max() < 1 / 32768


def test_killed_and_resumed(s3, spec, command, local, tmp_path, monkeypatch):
    """Killed twice in the middle of sending, the same command ends with the same dataset, and cleans up."""
    process: list[subprocess.Popen[bytes]] = []
    at = [8, 22]

    def kill(request: Request) -> Trouble | None:
        sends = request.method == "PUT" and not request.path.endswith(".json")  # a file of a shard
        if at and sends and len(s3.asked("PUT")) >= at[0] and process:
            at.pop(0)
            process.pop().send_signal(signal.SIGKILL)
            return Trouble(drop="before")
        return None

    for _ in range(2):
        s3.trouble = kill
        process.append(started := subprocess.Popen(command, stderr=subprocess.PIPE))
        started.communicate()
        assert started.returncode == -signal.SIGKILL
        assert list((tmp_path / "tmp").iterdir())
        with pytest.raises(DatasetError, match="is not finished"):
            open_dataset(spec.output.dir)
    s3.trouble = lambda _: None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    render(spec, workers=1)

    assert not list((tmp_path / "tmp").iterdir())
    assert contents_at(spec.output.dir) == local


def test_two_processes_at_once(s3, spec, command, local):
    """Both end well, whoever comes first at a shard; the dataset is the same."""
    s3.trouble = lambda request: Trouble(delay_s=0.02) if request.method == "PUT" else None
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    for process in both:
        process.communicate()

    assert [process.returncode for process in both] == [0, 0]
    assert open_dataset(spec.output.dir).verify() == []
    assert contents_at(spec.output.dir) == local


def test_what_another_process_made_is_not_made_again(s3, spec, local):
    """A process that finds a shard's receipt when it comes to it takes it as it is."""
    others = []

    def another_comes(done: Step) -> None:
        if done.items and not others:  # the first shard is being mixed
            others.append(None)
            others[0] = render(spec, workers=1)

    report = render(spec, workers=1, progress=another_comes)

    assert (others[0].new_shards, others[0].kept_shards) == (SHARDS, 0)
    assert (report.new_shards, report.kept_shards) == (1, SHARDS - 1)
    assert report.info == others[0].info
    assert contents_at(spec.output.dir) == local


def test_another_dataset_that_began_at_the_same_time_is_refused(s3, spec, stores, tmp_path, monkeypatch):
    """Of two specs that find a folder free at the same time, the first to say so has it."""
    other = small_spec(tmp_path, stores, f"output.dir={spec.output.dir}", *FEW, "seed=6")
    made = RemotePlace.make

    def made_late(place: RemotePlace) -> None:
        made(place)
        monkeypatch.setattr(RemotePlace, "make", made)
        monkeypatch.setattr("synthscape.output.folder._what_is_there", lambda _: None)
        render(other, workers=1)

    monkeypatch.setattr(RemotePlace, "make", made_late)
    with pytest.raises(DatasetError, match="seed 6 there, 5 asked"):
        render(spec, workers=1)
    assert open_dataset(spec.output.dir).verify() == []


def test_a_job_array_makes_the_same_dataset(s3, spec, local):
    """Shards rendered one by one, in any order, once each, are summed up by the same command."""
    receipts = [render_shard(spec, k, workers=1) for k in (2, 0, 1)]
    s3.log.clear()
    assert render_shard(spec, 1, workers=1) == json.loads(json.dumps(receipts[2]))
    assert not s3.asked("PUT", ".flac")
    report = render(spec, workers=1)

    assert (report.new_shards, report.kept_shards) == (0, SHARDS)
    assert contents_at(spec.output.dir) == local


def test_what_is_lost_or_damaged_is_made_anew(s3, spec, local):
    """A shard with a file that is missing or cut, or a receipt that was edited, does not count."""
    render(spec, workers=1)
    place = RemotePlace(spec.output.dir)
    place.remove("events/00000.parquet")
    place.write("audio/00001/s000000005.flac", place.read("audio/00001/s000000005.flac")[:-1])
    receipt = json.loads(place.read("receipts/00002.json"))
    place.write("receipts/00002.json", json.dumps({**receipt, "pcm_hash": "0" * 32}).encode())
    report = render(spec, workers=1)

    assert (report.new_shards, report.kept_shards) == (3, 0)
    assert contents_at(spec.output.dir) == local


def test_failures_are_tried_again(s3, spec, local, monkeypatch):
    """A shard with a failed item is rendered again by the next command, and its receipt replaced."""
    from synthscape.scale import shard

    true = shard.untrue_items
    monkeypatch.setattr(
        shard, "untrue_items", lambda items, *rest: {0: "bad luck"} if 8 in items.numbers else true(items, *rest)
    )
    first = render(spec, workers=1)
    assert [failure["reason"] for failure in first.failures] == ["bad luck"] * len(first.failures) != []
    monkeypatch.setattr(shard, "untrue_items", true)
    report = render(spec, workers=1)

    assert (report.new_shards, report.kept_shards, report.failures) == (1, 2, [])
    assert contents_at(spec.output.dir) == local


def test_overwrite_removes_the_dataset_and_nothing_else(s3, spec, stores, tmp_path):
    """What is not the dataset's stays."""
    place = RemotePlace(spec.output.dir)
    render(spec, workers=1)
    place.write("notes.txt", b"mine")
    other = small_spec(tmp_path, stores, f"output.dir={spec.output.dir}", *FEW, "items=4", "output.raven=false")
    with pytest.raises(DatasetError, match=r"output\.raven true there, false asked"):
        render(other, workers=1)
    render(other, workers=1, overwrite=True)

    assert place.read("notes.txt") == b"mine"
    assert place.entries("audio") == ["00000"]
    assert not place.exists("raven")
    assert open_dataset(spec.output.dir).verify() == []


def test_a_folder_of_others_is_left_alone(s3, spec):
    """A place that holds something else is refused, and nothing is written to it."""
    RemotePlace(spec.output.dir).write("thesis.tex", b"\\end")
    with pytest.raises(DatasetError, match=r"not empty and no dataset \('thesis.tex' is in it\)"):
        render(spec, workers=1)
    assert list(files_at(spec.output.dir)) == ["thesis.tex"]


@pytest.mark.parametrize("url", ["memory://datasets/small", "file://{folder}/out"])
def test_other_urls(stores, tmp_path, local, url):
    """Memory and folders of this machine have URLs too."""
    where = url.format(folder=tmp_path)
    spec = small_spec(tmp_path, stores, f"output.dir={where}", *FEW)
    render(small_spec(tmp_path, stores, f"output.dir={where}", *FEW, "items=4"), workers=1)
    report = render(spec, workers=1)

    assert report.kept_shards == 1
    assert open_dataset(where).verify() == []
    if url.startswith("file"):
        assert without_place(contents(tmp_path / "out")) == local
    else:
        assert contents_at(where) == local


def line_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """The one line that the command line says when it ends with exit code 2."""
    from synthscape import cli

    monkeypatch.setattr(sys, "argv", ["synthscape", *arguments])
    monkeypatch.setattr(cli, "_settle_streams", lambda: None)  # of this process, they are not to be touched
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("trouble", [Trouble(507), Trouble(drop="after")])
def test_a_server_that_goes_down(s3, spec, command, local, capsys, monkeypatch, trouble):
    """One line, exit code 2; nothing half-written counts, and the same command goes on when it is up again."""
    s3.trouble = lambda _: trouble if len(s3.log) > 30 else None
    line = line_of(capsys, monkeypatch, *command[3:])
    assert re.match(rf"synthscape: {spec.output.dir}[\w/.]*: .*run the same command again: it goes on", line)
    s3.trouble = lambda _: None
    kept = len(RemotePlace(spec.output.dir).entries("receipts"))
    with pytest.raises(DatasetError, match="is not finished"):
        open_dataset(spec.output.dir)
    report = render(spec, workers=1)

    assert report.kept_shards == kept
    assert contents_at(spec.output.dir) == local


@pytest.mark.usefixtures("impatient")
def test_a_reader_says_that_the_server_is_down(s3, spec):
    """Nothing is called damaged that could not be asked for."""
    render(spec, workers=1)
    data = open_dataset(spec.output.dir)
    s3.trouble = lambda _: Trouble(503)

    with pytest.raises(StorageError, match=r"data/[a-z/0-9.]*: .*see that the server can be reached"):
        open_dataset(spec.output.dir)
    with pytest.raises(StorageError, match=r"data/[a-z/0-9.]*: .*see that the server can be reached"):
        data.verify()


def no_bucket(url: str, s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket that there isn't."""
    return "s3://no-such-bucket-at-all/data"


def no_credentials(url: str, s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """Nobody to be."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "cachable", False)  # those that are there have credentials
    return url


def no_access(url: str, s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """Somebody who may look, and not write."""
    s3.trouble = lambda request: Trouble(403) if request.method == "PUT" else None
    return url


def no_package(url: str, s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """What speaks to S3 is not installed."""
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    return url


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_bucket, "s3://no-such-bucket-at-all/data: there is no such bucket or folder; make it, or name another"),
        (no_credentials, r"<url>.*credentials; give credentials in the environment \(docs/storage.md\)"),
        (no_access, r"<url>.*: access is denied \(Access Denied\); check the credentials in the environment, and that"),
        (no_package, r"<url>: .*pip install synthscape\[remote\]"),
        (lambda *_: "s4://bucket/data", "s4://bucket/data: .*s4"),
        (lambda *_: "sftp://me:s3cret@host/data", r"sftp://\*\*\*@host/data: a URL with a password"),
    ],
    ids=["no bucket", "no credentials", "no access", "no package", "no protocol", "password"],
)
def test_refusals_are_one_line(s3, spec, command, capsys, monkeypatch, change, said):
    """Each says what is wrong and what to do, and no secret; at once, not after two minutes."""
    url = change(spec.output.dir, s3, monkeypatch)
    arguments = [f"output.dir={url}" if part.startswith("output.dir=") else part for part in command[3:]]
    line = line_of(capsys, monkeypatch, *arguments)

    assert re.match(f"synthscape: {said.replace('<url>', re.escape(url))}", line), line
    assert "s3cret" not in line


def test_local_renders_need_no_fsspec(stores, tmp_path):
    """Neither fsspec nor what it brings is imported where no URL is."""
    write_spec(tmp_path, stores)
    script = (
        "import sys; from synthscape import render, load_spec; "
        f"render(load_spec({str(tmp_path / 'small.yaml')!r}, ['items=2']), workers=1); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('fsspec', 's3fs', 'aiohttp', 'botocore')])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)

    assert ended.stdout.strip() == "[]"
