"""Delivery: faults of other tools (scenes that vanish, runs that end, shards written twice)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthscape.bank.writer import StoreWriter
from synthscape.errors import MixError
from synthscape.output.dataset import open_dataset
from synthscape.scale.progress import Step
from synthscape.scale.render import render
from synthscape.tasks.generator import SceneGenerator
from tests.hand_built import RATE, make_backgrounds, make_bank
from tests.small_dataset import contents, make_stores, small_spec


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of which one clip is silent where it claims to be active: what a bank's builder would have refused."""
    folder = tmp_path_factory.mktemp("broken")
    make_bank(folder / "sound", ("Corvus corax",))
    make_backgrounds(folder / "backgrounds")
    tone = np.sin(2 * np.pi * 900 * np.arange(1600) / RATE)
    bands = {"low_hz": 800.0, "high_hz": 1000.0, "min_ratio_index": 0, "signal_share": 1.0}
    with StoreWriter(folder / "bank", "pseudovox", RATE) as writer:
        for i in range(9):
            columns = {"species": "Parus major", "recording_id": f"sound-{i}", "active_start": 0, "active_end": 1600}
            writer.add(tone * (1 + 0.01 * i * np.arange(1600) / 1600), {**columns, **bands})
        silent = {"species": "Parus major", "recording_id": "silent", "active_start": 0, "active_end": 200}
        writer.add(np.concatenate([np.zeros(200), tone[:1400]]), {**silent, **bands})
    return folder


def test_loud_scenes_are_delivered(stores, tmp_path):
    """Scenes that would clip are scaled and counted, not left out (DNS-Challenge) and not clipped (scaper)."""
    loud = ("background.level_dbfs=-6", "items=12", "events.snr.db=15", "events.snr.reference=scene")
    report = render(small_spec(tmp_path, stores, *loud))
    data = open_dataset(tmp_path / "out")
    peaks = [np.abs(data.audio(name)).max() for name in data.scenes["scene_id"]]

    assert report.counts["delivered"] == 12
    assert report.counts["scaled"] == (data.scenes["scene_gain_db"] < 0).sum() > 0
    assert max(peaks) <= 10 ** (-1 / 20) + 1 / 32768
    assert "were scaled down" in report.info["warnings"][0]


def test_asked_is_delivered_plus_failed(broken, tmp_path):
    """A bad item is reported by name and tried again; all others are there (one exception ended a whole run)."""
    options = ("classes.per_scene=1", "items=40", "duration=2", "empty_share=0", "events.resample=1")
    report = render(small_spec(tmp_path, broken, *options), workers=2)
    counts, data = report.counts, open_dataset(tmp_path / "out")
    failed = {failure["item_id"] for failure in report.failures}

    assert counts["items"] == 40 == counts["delivered"] + counts["failed"]
    assert 0 < counts["failed"] == len(failed) < 40
    assert all("clip 9 of" in failure["reason"] for failure in report.failures)
    assert failed.isdisjoint(data.scenes["scene_id"])
    assert len(list((tmp_path / "out").glob("audio/*/*.flac"))) == counts["delivered"]
    assert pd.read_parquet(tmp_path / "out/failures.parquet").to_dict("records") == report.failures
    assert data.verify() == []
    again = render(small_spec(tmp_path, broken, *options))
    assert again.failures == report.failures
    assert again.new_shards == len({failure["item_number"] // 8 for failure in report.failures})
    with pytest.raises(MixError, match=report.failures[0]["item_id"]):
        SceneGenerator(small_spec(tmp_path, broken, *options)).render(range(40))


def test_a_receipt_is_the_last_file_of_its_shard(stores, tmp_path):
    """What has a receipt is complete, whenever one looks (files broken or written twice in NeMo, ray)."""
    spec = small_spec(tmp_path, stores, "output.stems=true")
    out = tmp_path / "out"
    seen = []

    def look(_: Step) -> None:
        for path in out.glob("receipts/*.json"):
            receipt = json.loads(path.read_text())
            for part, (files, size) in receipt["files"].items():
                found = [file for file in [out / part, *(out / part).rglob("*")] if file.is_file()]
                seen.append((path.stem, part))
                assert (len(found), sum(file.stat().st_size for file in found)) == (files, size)

    render(spec, progress=look)
    before = contents(out)
    render(spec)

    assert {shard for shard, _ in seen} == {"00000", "00001", "00002"}
    assert {part.split("/")[0] for _, part in seen} == {
        *("audio", "stems", "raven", "events", "scenes", "facts", "items", "chat")
    }
    assert contents(out) == before
    names = open_dataset(out).scenes["scene_id"]
    assert names.is_unique
