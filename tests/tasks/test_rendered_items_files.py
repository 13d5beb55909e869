"""Datasets of questions are the same however they are rendered, and their controls ask the same without the audio."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import synthscape as ss
from synthscape.output.dataset import Dataset
from synthscape.spec import Spec, load_spec
from tests.task_bank import make_task_backgrounds, make_task_bank

ITEMS = 20
TABLES = ("event_table", "scene_table", "fact_table", "item_table")

Load = Callable[..., Spec]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    folder = tmp_path_factory.mktemp("stores")
    make_task_bank(folder / "bank", recordings=12, seed=5)
    make_task_backgrounds(folder / "fields", n=8, length_s=6, seed=6)
    return folder


@pytest.fixture(scope="module")
def overrides(stores: Path) -> list[str]:
    """Of a shipped spec, for short items over them."""
    short = ["duration=3", "clips.duration=2", "question.examples=1", f"items={ITEMS}"]
    return [f"bank={stores / 'bank'}", f"backgrounds={stores / 'fields'}", "output.format=folder", *short]


@pytest.fixture(scope="module")
def rendered(overrides: list[str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Dataset]:
    """Renders the few-shot spec into a folder of its own, or one that is given."""

    def make(*more: str, workers: int = 1, out: Path | None = None) -> Dataset:
        out = out or tmp_path_factory.mktemp("out") / "out"
        spec = load_spec("few_shot_detection", [*overrides, f"output.dir={out}", *more])
        return ss.open_dataset(ss.render(spec, workers=workers).path)

    return make


@pytest.fixture(scope="module")
def whole(rendered: Callable[..., Dataset]) -> Dataset:
    """The dataset rendered at once by one worker."""
    return rendered("output.items_per_shard=512")


def said(data: Dataset) -> dict[str, Any]:
    """All tables and chat rows, less the shard that file names begin with; samples are in the tables by their hash."""
    tables = {name: getattr(data, name).to_pylist() for name in TABLES}
    text = json.dumps([tables, data.chat], default=str)
    for shard in {Path(path).parts[1] for path in data.scene_table["audio"].to_pylist()}:
        text = text.replace(f"audio/{shard}/", "audio/")
    found, chat = json.loads(text)
    return {**found, "chat": chat}


@pytest.mark.parametrize(("items_per_shard", "workers"), [(1, 1), (7, 1), (7, 2), (512, 2)])
def test_shards_and_workers_change_nothing(whole, rendered, items_per_shard, workers):
    """Tables, hashes of samples, and rows for language models are the same."""
    other = rendered(f"output.items_per_shard={items_per_shard}", workers=workers)

    assert said(other) == said(whole)
    assert len(other.chat) == len(other.items) == ITEMS
    assert other.verify() == []


def test_killed_and_resumed_it_is_the_same(whole, rendered, overrides, tmp_path):
    """Killed by SIGKILL once some of it was there, and again later; then left to end."""
    out = tmp_path / "out"
    more = [f"output.dir={out}", "output.items_per_shard=3"]
    program = "import sys, synthscape as ss\nss.render(ss.load_spec('few_shot_detection', sys.argv[1:]), workers=2)\n"
    kept = []
    for receipts in (1, 4):
        process = subprocess.Popen([sys.executable, "-c", program, *overrides, *more], stdout=subprocess.DEVNULL)
        limit = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < limit:
            if len(list(out.glob("receipts/*.json"))) >= receipts:
                break
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        kept.append(len(list(out.glob("receipts/*.json"))))
        assert not (out / "dataset.json").exists()
    resumed = rendered("output.items_per_shard=3", out=out)

    assert 1 <= kept[0] <= kept[1] < 7
    assert said(resumed) == said(whole)
    assert resumed.verify() == []


def test_memory_and_files_say_the_same(whole, overrides):
    """A generator's items, in any order, are those of the dataset."""
    scenes = ss.SceneGenerator(load_spec("few_shot_detection", overrides)).render([11, 3])
    of_files = {item["item_id"]: item for item in whole.item_table.to_pylist()}
    for item in scenes.item_table.to_pylist():
        of_file = of_files[item["item_id"]]
        assert {**item, "audio": None} == {**of_file, "audio": None}
        for name in item["scene_ids"]:
            i = scenes.scene_ids.index(name)
            assert np.array_equal(scenes.pcm(i), np.round(whole.audio(name) * 32768).astype(np.int16))


def less_control(rows: list[dict[str, Any]], control: str) -> list[dict[str, Any]]:
    """Rows for language models less what they say of the control, which is this one."""
    kept = []
    for row in rows:
        about = json.loads(row["metadata"])
        assert about.pop("control") == control
        kept.append({**row, "metadata": about})
    return kept


def test_noise_asks_the_same(whole, rendered):
    """Every row is the same, paths too, but that it says so; no file has anything of the audio."""
    noise = rendered("output.items_per_shard=512", "output.control=noise")

    assert less_control(noise.chat, "noise") == less_control(whole.chat, "none")
    assert noise.item_table.equals(whole.item_table)
    for table in ("event_table", "fact_table"):
        assert getattr(noise, table).equals(getattr(whole, table))
    for path in whole.scene_table["audio"].to_pylist():
        one, other = (soundfile.read(data.path / path, dtype="int16")[0].astype(np.float64) for data in (whole, noise))
        assert len(one) == len(other)
        spectra = np.fft.rfft(one, 2 * len(one)), np.fft.rfft(other, 2 * len(one))
        across = np.fft.irfft(spectra[0] * spectra[1].conj())
        # Of independent signals, one white, the deviation is 1 / sqrt(n) at most; of 2 n lags none is beyond 7 of them.
        assert np.abs(across).max() < 7 / np.sqrt(len(one)) * np.linalg.norm(one) * np.linalg.norm(other)


def test_text_asks_the_same(whole, rendered):
    """Every row is the same less audio; there are no paths, no placeholders and no files."""
    text = rendered("output.items_per_shard=512", "output.control=text")
    placeholder = text.spec["wording"]["audio"]

    assert all(row["audio_paths"] == [] for row in text.chat)
    assert not any(placeholder in one["content"] for row in text.chat for one in row["messages"])
    for one, other in zip(less_control(text.chat, "text"), less_control(whole.chat, "none"), strict=True):
        assert one.pop("messages")[1] == other.pop("messages")[1]
        assert {**one, "audio_paths": None} == {**other, "audio_paths": None}
    assert text.item_table.drop(["audio"]).equals(whole.item_table.drop(["audio"]))
    assert text.event_table.equals(whole.event_table)
    assert not [path for path in text.path.rglob("*") if path.suffix in (".flac", ".wav")]
