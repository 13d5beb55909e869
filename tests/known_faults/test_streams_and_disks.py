"""What surrounds a command: pipes that end, streams that are closed, disks that fill up, receipts that got damaged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from synthscape.bank.inspect import check
from synthscape.bank.store import ClipStore
from synthscape.scale.render import render
from tests.small_dataset import contents, make_stores, small_spec

COMMAND = [sys.executable, "-c", "from synthscape.cli import main; main()"]
posix = pytest.mark.skipif(os.name != "posix", reason="pipes, descriptors and limits of POSIX")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@posix
@pytest.mark.parametrize("arguments", [["spec", "schema"], ["bank", "info", "BANK", "--json"], ["--help"]])
def test_a_reader_that_stops(stores, arguments):
    """``| head`` ends a command as it ends others: by SIGPIPE, silently; not as exit code 1, "some items failed"."""
    filled = [argument.replace("BANK", str(stores / "bank")) for argument in arguments]
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run([*COMMAND, *filled], stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)

    assert ended.returncode == -signal.SIGPIPE
    assert ended.stderr == b""


@posix
def test_streams_that_are_closed(stores, tmp_path):
    """Started without standard streams, files we open don't take their places; exit codes are right."""
    source = tmp_path / "source"
    source.mkdir()
    soundfile.write(source / "a.wav", 0.1 * np.random.default_rng(1).normal(size=16000), 16000)

    def code(*arguments: str) -> int:
        # closed after fork, so that the program starts as a daemon does
        return subprocess.run([*COMMAND, *arguments], preexec_fn=lambda: os.closerange(0, 3)).returncode

    assert code("bank", "build", str(source), "--out", str(tmp_path / "bank")) == 0
    assert check(ClipStore.open(tmp_path / "bank")) == []
    assert code("bank", "info", str(tmp_path / "nothing")) == 2


@posix
@pytest.mark.parametrize("limit", [0, 512, 4096, 30_000])
def test_a_disk_that_fills_up_while_building(tmp_path, limit):
    """Wherever it shows - our files, Arrow's, SQLite's - it is one line that names the store, and nothing is left."""
    source = tmp_path / "source"
    source.mkdir()
    for k in range(3):
        soundfile.write(source / f"{k}.wav", 0.1 * np.random.default_rng(k).normal(size=16000), 16000)
    program = (
        f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); from synthscape.cli import main; main()"
    )
    build = ["bank", "build", str(source), "--out", str(tmp_path / "bank")]
    ended = subprocess.run([sys.executable, "-c", program, *build], capture_output=True, text=True)

    assert ended.returncode == 2
    assert ended.stderr.startswith(f"synthscape: {tmp_path / 'bank'}: ")
    assert len(ended.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(
    "damage",
    [
        {"last": "x"},
        {"last": None},
        {"shard": [0]},
        {"files": []},
        {"files": {}},
        {"files": {"audio/00000": 5}},
        {"files": None, "failures": None},
        {"counts": {}},
        {"engine": 5},
        {"class_events": [1, 2]},
        {"pcm_hash": "0"},
    ],
)
def test_damaged_receipts(stores, tmp_path, damage):
    """A receipt that is not as it was written counts as none: its shard is rendered again, and is what it was."""
    spec = small_spec(tmp_path, stores, "items=4", "output.items_per_shard=2")
    render(spec)
    whole = contents(tmp_path / "out")
    file = tmp_path / "out" / "receipts" / "00000.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **damage}))
    report = render(spec)

    assert (report.new_shards, report.kept_shards) == (1, 1)
    assert contents(tmp_path / "out") == whole
