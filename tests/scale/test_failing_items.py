"""Items that fail: counted, listed, tried again. Receipts: sealed, without a clock."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from synthscape import render_shard
from synthscape.errors import DatasetError
from synthscape.output.dataset import open_dataset
from synthscape.scale.render import render
from tests.scale.tiny import FORMATS, held, tiny_spec, write_tiny_spec

ITEMS = "items=40"


@pytest.mark.parametrize("name", FORMATS)
def test_asked_is_delivered_plus_failed(broken_stores, tmp_path, run, name):
    """In each format: exit code 1, all failures in a table, the first ten shown, the others delivered."""
    spec, out = write_tiny_spec(tmp_path, broken_stores), tmp_path / "out"
    code, printed, err = run("render", spec, "items=100", f"output.format={name}", "--json")
    done = json.loads(printed.splitlines()[-1])
    failures = pd.read_parquet(out / "failures.parquet")
    data = open_dataset(out)

    assert code == 1
    assert done["event"] == "done"
    assert done["counts"]["items"] == 100 == done["counts"]["delivered"] + done["counts"]["failed"]
    assert done["failures"] == failures.to_dict("records")
    assert 10 < len(failures) == done["counts"]["failed"] < 100
    assert failures["item_number"].is_monotonic_increasing
    assert failures["reason"].str.contains("clip 0 of").all()
    assert sorted([*failures["item_id"], *data.scenes["scene_id"]]) == [f"s{i:09d}" for i in range(100)]
    assert data.verify() == []
    lines = err.splitlines()
    assert lines[:10] == [
        f"synthscape: {row.item_id} failed: {row.reason}" for row in failures.head(10).itertuples(index=False)
    ]
    assert lines[10:] == [f"synthscape: all {len(failures)} in {out}/failures.parquet"]


def test_failures_are_tried_again(broken_stores, tmp_path):
    """The shards they are in are rendered again and fail again, the others are kept."""
    spec, out = tiny_spec(tmp_path, broken_stores, ITEMS), tmp_path / "out"
    report = render(spec)
    before = held(out)
    again = render(spec)

    assert again.new_shards == len({row["item_number"] // 4 for row in report.failures}) > 0
    assert again.kept_shards == 10 - again.new_shards > 0
    assert held(out) == before


def test_no_table_where_nothing_failed(tiny_stores, tmp_path):
    """One that is left from before goes when all is well."""
    spec, out = tiny_spec(tmp_path, tiny_stores), tmp_path / "out"
    render(spec)
    assert not (out / "failures.parquet").exists()
    (out / "failures.parquet").write_bytes(b"of before")
    render(spec)
    assert not (out / "failures.parquet").exists()


def test_a_failing_shard_by_itself(broken_stores, tmp_path, run):
    """Exit code 1 and the reasons; and it is rendered again when it is asked for again."""
    spec = write_tiny_spec(tmp_path, broken_stores)
    codes = {run("render", spec, ITEMS, "--shard", k)[0] for k in range(4)}
    failing = [k for k in range(4) if render_shard(tiny_spec(tmp_path, broken_stores, ITEMS), k)["failures"]]
    code, printed, err = run("render", spec, ITEMS, "--shard", failing[0], "--json")
    events = [json.loads(line) for line in printed.splitlines()]

    assert 1 in codes
    assert code == 1
    assert [event["event"] for event in events] == ["begin", "shard", "done"]
    assert events[-1]["counts"]["failed"] == len(events[-1]["failures"]) == len(err.splitlines()) > 0


def test_receipts_hold_no_clock(tiny_stores, tmp_path):
    """Made again, every file is the same byte by byte, receipts too; when it was and how long it took is in log/."""
    spec, out = tiny_spec(tmp_path, tiny_stores), tmp_path / "out"
    render(spec)
    before, receipts = held(out), {path.name: path.read_bytes() for path in (out / "receipts").iterdir()}
    logs = [json.loads(path.read_text()) for path in sorted((out / "log").iterdir())]
    shutil.rmtree(out)
    render(spec)

    assert held(out) == before
    assert {path.name: path.read_bytes() for path in (out / "receipts").iterdir()} == receipts
    assert len(logs) == len(receipts) == 3
    assert all(log["seconds"] >= 0 and log["begun"].startswith("20") for log in logs)
    assert logs != [json.loads(path.read_text()) for path in sorted((out / "log").iterdir())]


@pytest.mark.parametrize("damage", ["edited", "cut", "empty", "not JSON", "another's", "older"])
def test_receipts_that_count_as_none(tiny_stores, tmp_path, damage):
    """Their shard is rendered again, and is what it was."""
    spec, out = tiny_spec(tmp_path, tiny_stores), tmp_path / "out"
    render(spec)
    whole = held(out)
    file = out / "receipts" / "00001.json"
    text = file.read_text()
    file.write_text(
        {
            "edited": text.replace('"delivered": 4', '"delivered": 5'),
            "cut": text[: len(text) // 2],
            "empty": "",
            "not JSON": "\\x00",
            "another's": (out / "receipts" / "00000.json").read_text(),
            "older": text.replace('"format_version": 2', '"format_version": 1'),
        }[damage]
    )
    assert file.read_text() != text
    report = render(spec)

    assert (report.new_shards, report.kept_shards) == (1, 2)
    assert held(out) == whole


@pytest.mark.parametrize("left", ["render.json", "dataset.json", "receipts"])
def test_an_older_format_is_refused(tiny_stores, tmp_path, left):
    """Whatever is left to tell what is in the folder: it is named, and nothing is touched."""
    spec, out = tiny_spec(tmp_path, tiny_stores), tmp_path / "out"
    render(spec)
    for path in [out / "render.json", out / "dataset.json", *(out / "receipts").iterdir()]:
        if path.name != left and path.parent.name != left:
            path.unlink()
        else:
            path.write_text(path.read_text().replace('"format_version": 2', '"format_version": 1'))
    before = held(out)
    with pytest.raises(DatasetError, match="format version 1, this version writes 2"):
        render(spec)
    assert held(out) == before
    assert render(spec, overwrite=True).new_shards == 3
