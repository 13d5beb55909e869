"""The benchmarks run; what they measure is not asserted."""

from __future__ import annotations

import ast
import re
import sys
import tarfile

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from benchmarks.__main__ import NOT_QUICK, PARTS
from benchmarks.scaling import thread_counts
from benchmarks.scaper import prepare, write_wav
from benchmarks.sinks import FORMATS, encode_into
from benchmarks.stores import make_calls
from benchmarks.tables import NotMeasuredError
from tests.packaging.installs import ROOT, run


def test_quick_benchmarks_leave_a_table(tmp_path):
    """``python -m benchmarks --quick`` runs every part, and names the machine, its load and the packages."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--name", "here", "--out", str(tmp_path / "results")]
    run([*command, "--folder", str(tmp_path)], cwd=ROOT)
    table = (tmp_path / "results" / "here.md").read_text(encoding="utf-8")

    titles = (
        "Rendering, stage by stage",
        "Scaling",
        "Planning",
        "Memory",
        "Very many scenes",
        "Cluster",
        "Command line",
    )
    for title in titles:
        assert f"## {title}\n" in table
    for said in ("processor", "before", "numba", "load average", "whole render", "1024", "growth", "--help", "1 actor"):
        assert said in table
    assert "nan" not in table
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]


def test_killed_renders_are_the_same(tmp_path):
    """Five kills of the part that makes hundreds: each dataset that was finished is identical, nothing is left."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "killed", "--name", "here"]
    run([*command, "--out", str(tmp_path / "results"), "--folder", str(tmp_path)], cwd=ROOT)
    rows = dict(re.findall(r"^\| ([^|]+) \| (\d+) \|$", (tmp_path / "results" / "here.md").read_text("utf-8"), re.M))

    assert rows["kills"] == "5"
    assert int(rows["datasets that were finished"]) > 0
    assert rows["of them identical"] == rows["datasets that were finished"]
    assert rows["temporary files left in them"] == "0"


@pytest.mark.parametrize("kind", FORMATS)
def test_limits_write_all_scenes(tmp_path, kind):
    """What renders are measured against holds every encoded scene, in the order given, on any number of threads."""
    contents = [bytes([k % 251]) * (k + 1) for k in range(700)]
    for threads in (1, 2):
        (tmp_path / str(threads)).mkdir()
        encode_into(kind, tmp_path / str(threads), bytes, contents, threads)
        found = []
        for shard in sorted((tmp_path / str(threads)).iterdir()):
            if kind == "parquet":
                found += [row["bytes"] for row in pq.read_table(shard)["audio"].to_pylist()]
            elif kind == "webdataset":
                with tarfile.open(shard) as tar:
                    found += [tar.extractfile(member).read() for member in tar]
            else:
                found += [path.read_bytes() for path in sorted(shard.iterdir())]
        assert found == contents


def test_scaper_is_a_part_of_its_own():
    """It needs an environment of its own, so --quick leaves it out; its script fits the Pythons it may be run by."""
    assert "scaper" in PARTS
    assert "scaper" in NOT_QUICK
    script = ROOT / "benchmarks" / "scaper_worker.py"
    ast.parse(script.read_text(encoding="utf-8"), feature_version=(3, 10))


def test_scaper_gets_the_samples_of_the_store(tmp_path):
    """Its WAV files hold the very samples of our clips, in a folder for each label."""
    calls = make_calls(tmp_path / "calls", n=3, shortest_s=0.1, longest_s=0.2)
    write_wav(calls, tmp_path / "wav", ["a", "b", "a"])

    files = sorted((tmp_path / "wav").rglob("*.wav"))
    assert [file.parent.name for file in files] == ["a", "a", "b"]
    for file, row in zip(files, (0, 2, 1), strict=True):
        samples, rate = soundfile.read(file, dtype="int16")
        assert rate == calls.sample_rate
        np.testing.assert_array_equal(samples, calls.pcm(row))


def test_what_is_missing_is_said(monkeypatch, tmp_path):
    """Without SoX the part says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotMeasuredError, match=r"sox and ffmpeg.*apt-get install"):
        prepare()


def test_threads_double_up_to_all_cores():
    """All cores are measured, whatever their number."""
    assert [thread_counts(cores) for cores in (1, 2, 3, 4, 6)] == [[1], [1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 6]]
