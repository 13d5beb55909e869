"""Several processes over one dataset: a second render is refused, shards of job arrays go side by side."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from synthscape import render_shard
from synthscape.errors import DatasetError, SpecError
from synthscape.output.dataset import open_dataset
from synthscape.output.folder import _seal
from synthscape.scale.render import render
from tests.scale.tiny import held, leftovers, tiny_spec, write_tiny_spec

OVERRIDES = ("items=20", "output.format=folder", "output.raven=true")  # folders, which can't be renamed over others
COMMAND = [sys.executable, "-c", "from synthscape.cli import main; main()"]


@pytest.fixture
def whole(tiny_stores, tmp_path) -> dict[str, object]:
    """What the dataset holds; its folder is empty again."""
    render(tiny_spec(tmp_path, tiny_stores, *OVERRIDES))
    content = held(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    return content


def shards(spec: Path, *numbers: int) -> subprocess.Popen[bytes]:
    """A process that renders some shards."""
    options = [word for k in numbers for word in ("--shard", str(k))]
    return subprocess.Popen(
        [*COMMAND, "render", str(spec), *OVERRIDES, *options, "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_second_render_is_refused_at_once(tiny_stores, tmp_path, run):
    """While one is at it, another is told so in one line, as are single shards; killed, it gives the folder free."""
    spec = write_tiny_spec(tmp_path, tiny_stores, items=40_000)
    first = subprocess.Popen(
        [*COMMAND, "render", str(spec), "-w", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        limit = time.monotonic() + 60
        while not list((tmp_path / "out").glob("receipts/0*.json")) and time.monotonic() < limit:
            time.sleep(0.01)
        refused = f"synthscape: {tmp_path / 'out'} is being rendered by another process: wait for it, or stop it\n"
        for words in ([], ["--overwrite"], ["--shard", "9999"]):
            assert run("render", spec, *words) == (2, "", refused)
        assert first.poll() is None
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    there = list((tmp_path / "out" / "receipts").glob("0*.json"))
    report = render(tiny_spec(tmp_path, tiny_stores, f"items={4 * (len(there) + 2)}"))
    assert report.kept_shards == len(there)
    assert open_dataset(tmp_path / "out").verify() == []
    assert leftovers(tmp_path / "out") == []


def test_shards_side_by_side_make_the_dataset(whole, tiny_stores, tmp_path):
    """Processes render all shards, some of them twice at the same moment; summed up, it is the dataset of one render.

    There is no dataset before that.
    """
    spec, out = write_tiny_spec(tmp_path, tiny_stores), tmp_path / "out"
    jobs = [shards(spec, *numbers) for numbers in ((0, 1), (1, 0), (4, 2, 3), (3, 4))]
    for job in jobs:
        _, err = job.communicate()
        assert job.returncode == 0, err  # where the machine is slow, progress is told there
    with pytest.raises(DatasetError, match="is not finished"):
        open_dataset(out)
    report = render(tiny_spec(tmp_path, tiny_stores, *OVERRIDES))

    assert (report.new_shards, report.kept_shards) == (0, 5)
    assert held(out) == whole
    assert leftovers(out) == []


def test_shards_at_the_same_moment(whole, tiny_stores, tmp_path):
    """Forty renders of five shards at once, each shard eight times: no one gets in another's way."""
    spec = tiny_spec(tmp_path, tiny_stores, *OVERRIDES)
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda i: render_shard(spec, i // 8, workers=1), range(40)))

    assert [receipt["shard"] for receipt in receipts] == [i // 8 for i in range(40)]
    assert len({json.dumps({**receipt, "kept": None}, sort_keys=True) for receipt in receipts}) == 5
    render(spec)
    assert held(tmp_path / "out") == whole


def test_a_shard_by_itself(tiny_stores, tmp_path, run):
    """It says what it made and how to go on, is kept when asked for again, and counts for the whole."""
    spec = write_tiny_spec(tmp_path, tiny_stores, items=18)
    code, out, err = run("render", spec, "--shard", 4, "--shard", 1)

    assert (code, err) == (0, "")
    assert "shards    1, 4; when all are there, render without --shard to sum them up\n" in out
    assert "items     6 of 6\n" in out
    code, out, _ = run("render", spec, "--shard", 1, "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events] == ["begin", "done"]
    assert events[0]["kept"] == events[1]["counts"]["delivered"] == 4
    assert sorted(path.stem for path in (tmp_path / "out" / "receipts").iterdir()) == ["00001", "00004"]
    code, out, _ = run("render", spec)
    assert code == 0
    assert "(2 shards were there)" in out


@pytest.mark.parametrize("k", [-1, 3])
def test_there_is_no_such_shard(tiny_stores, tmp_path, k):
    """The error names those there are."""
    with pytest.raises(SpecError, match=rf"shard {k}: the dataset has shards 0 to 2"):
        render_shard(tiny_spec(tmp_path, tiny_stores), k)


def test_shards_do_not_remove_what_others_made(tiny_stores, tmp_path, run):
    """--shard with --overwrite is refused."""
    code, _, err = run("render", write_tiny_spec(tmp_path, tiny_stores), "--shard", 1, "--overwrite")

    assert (code, err.count("\n")) == (2, 1)
    assert "--overwrite" in err


def test_shards_of_other_versions_are_refused(tiny_stores, tmp_path):
    """A job with another numba than the first one's is told so when it begins, not when all is summed up."""
    spec = tiny_spec(tmp_path, tiny_stores)
    render_shard(spec, 0)
    for path in (tmp_path / "out" / "render.json", tmp_path / "out" / "receipts" / "00000.json"):
        content = json.loads(path.read_text())
        content["made_with"]["numba"] = "0.1"
        if "seal" in content:
            content["seal"] = _seal(content)
        path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=r"numba 0\.1 there"):
        render_shard(spec, 1)
    with pytest.raises(DatasetError, match=r"numba 0\.1 there"):
        render(spec)


def test_a_job_reads_its_own_receipt_only(tiny_stores, tmp_path, monkeypatch):
    """A shard of many costs no more than one of few: of other shards it reads nothing."""
    from synthscape.storage import LocalPlace

    spec = tiny_spec(tmp_path, tiny_stores, "items=20")
    for k in range(4):
        render_shard(spec, k)
    read, opened = LocalPlace.read, []

    def noted(place, name):
        opened.append(name)
        return read(place, name)

    monkeypatch.setattr(LocalPlace, "read", noted)
    render_shard(spec, 4)

    assert {name for name in opened if name.startswith("receipts/")} == {"receipts/00004.json"}
