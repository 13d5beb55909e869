"""Every format holds the same dataset, and whoever reads such files reads it."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
import webdataset

from synthscape.errors import DatasetError
from synthscape.output.dataset import Dataset, open_dataset
from synthscape.scale.render import render
from synthscape.spec.schema import QUESTION_TASKS
from tests.output.formats import FORMATS, ITEMS, asked, of_files, pcm, small
from tests.small_dataset import make_stores, small_spec
from tests.task_bank import make_task_backgrounds, make_task_bank

Of = Callable[..., Dataset]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def task_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank and backgrounds for questions."""
    folder = tmp_path_factory.mktemp("task_stores")
    make_task_bank(folder / "bank", recordings=12, seed=5)
    make_task_backgrounds(folder / "fields", n=8, length_s=12, seed=6)
    return folder


@pytest.fixture(scope="module")
def of(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Of:
    """The small dataset in a format; not to be changed."""
    made: dict[str, Dataset] = {}

    def get(kind: str) -> Dataset:
        if kind not in made:
            made[kind] = small(tmp_path_factory.mktemp(kind), stores, kind)
        return made[kind]

    return get


@pytest.fixture(scope="module")
def asked_of(task_stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Of:
    """Questions in a format; not to be changed."""
    made: dict[tuple[str, str], Dataset] = {}

    def get(task: str, kind: str) -> Dataset:
        if (task, kind) not in made:
            made[task, kind] = asked(tmp_path_factory.mktemp(task) / "out", task_stores, task, kind)
        return made[task, kind]

    return get


@pytest.fixture
def hub(tmp_path: Path) -> Callable[..., Any]:
    """``datasets.load_dataset`` with a cache of its own."""

    def load(*place: str, **options: Any) -> Any:
        return datasets.load_dataset(*place, split="train", cache_dir=str(tmp_path / "cache"), **options)

    return load


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows less what they call their audio."""
    return table.drop_columns([name for name in ("audio",) if name in table.column_names]).to_pylist()


def by_scene(data: Dataset) -> dict[str, list[dict[str, Any]]]:
    """Events of each scene."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in data.scenes["scene_id"]}
    for event in data.event_table.to_pylist():
        found[event["scene_id"]].append(event)
    return found


def less(row: dict[str, Any], *names: str) -> dict[str, Any]:
    """A row without some columns."""
    return {name: value for name, value in row.items() if name not in names}


def decoded(content: bytes) -> np.ndarray:
    """Samples of an encoded file."""
    return soundfile.read(io.BytesIO(content), dtype="int16")[0]


def samples(data: Dataset) -> list[dict[str, Any]]:
    """What webdataset reads."""
    urls = [str(path) for path in sorted((data.path / "data").iterdir())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves files to the garbage collector
        found = list(webdataset.WebDataset(urls, shardshuffle=False))
        gc.collect()
    return found


@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
def test_all_formats_hold_the_same_tables_and_samples(of, kind):
    """Only what the audio is called differs."""
    data, other = of(kind), of("folder")
    for name in ("event_table", "fact_table"):
        assert getattr(data, name).equals(getattr(other, name))
    for name in ("scene_table", "item_table"):
        assert rows_of(getattr(data, name)) == rows_of(getattr(other, name))
    assert [less(row, "file_name") for row in data.chat] == [less(row, "file_name") for row in other.chat]
    assert [row["file_name"] for row in data.chat] == data.scenes["audio"].tolist()
    assert data.info["content_hash"] != other.info["content_hash"]  # the scenes tables name other files
    for scene in data.scenes["scene_id"]:
        assert np.array_equal(data.audio(scene), other.audio(scene))
    assert data.verify() == other.verify() == []


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("workers", [2, 5])
def test_threads_make_the_same_bytes(of, stores, tmp_path, kind, workers):
    """Of every file, containers and card among them."""
    other = small(tmp_path, stores, kind, workers=workers)

    assert of_files(other.path) == of_files(of(kind).path)


@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
def test_threads_make_the_same_bytes_of_questions(asked_of, task_stores, tmp_path, kind):
    """Likewise where items have many scenes."""
    other = asked(tmp_path / "out", task_stores, "few_shot_detection", kind, workers=3)

    assert of_files(other.path) == of_files(asked_of("few_shot_detection", kind).path)


def test_datasets_reads_parquet(of, hub):
    """By the files and by the folder's card: exact samples, all columns, rows without events, and the tables."""
    data = of("parquet")
    by_files = hub("parquet", data_files=str(data.path / "data/*.parquet"))
    by_card = hub(str(data.path))
    events = by_scene(data)

    assert by_files.features == by_card.features
    assert by_card.features["audio"] == datasets.Audio(sampling_rate=data.sample_rate)
    for found in (by_files, by_card):
        rows = list(found.cast_column("audio", datasets.Audio(decode=False)))
        assert [less(row, "audio", "events") for row in rows] == rows_of(data.scene_table)
        for row in rows:
            assert row["audio"]["path"] == f"{row['scene_id']}.flac"
            assert np.array_equal(decoded(row["audio"]["bytes"]), pcm(data, row["scene_id"]))
            assert row["events"] == [less(event, "scene_id") for event in events[row["scene_id"]]]
    assert 0 < sum(not row["events"] for row in rows) < ITEMS
    for name, table in (("events", data.event_table), ("facts", data.fact_table), ("items", data.item_table)):
        assert list(hub(str(data.path), name)) == table.to_pylist()


def test_datasets_decodes_parquet(of, hub):
    """With torchcodec and the system's FFmpeg: the samples, at their rate."""
    if shutil.which("ffmpeg") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no FFmpeg: apt-get install ffmpeg")
    data = of("parquet")
    row = hub(str(data.path))[3]
    found = row["audio"].get_all_samples()

    assert found.sample_rate == data.sample_rate
    assert np.array_equal(found.data.numpy()[0], data.audio(row["scene_id"]))


def test_datasets_reads_tars(of, hub):
    """By the card: exact samples, and the JSON as columns."""
    data = of("webdataset")
    events = by_scene(data)
    rows = list(hub(str(data.path)).cast_column("flac", datasets.Audio(decode=False)))

    assert [less(row["json"], "events") for row in rows] == rows_of(data.scene_table)
    for row in rows:
        scene = row["json"]["scene_id"]
        assert (row["__key__"], row["flac"]["path"]) == (scene, f"{scene}.flac")
        assert np.array_equal(decoded(row["flac"]["bytes"]), pcm(data, scene))
        assert row["json"]["events"] == [less(event, "scene_id") for event in events[scene]]


def test_webdataset_reads_tars(of):
    """Its own reader finds a key an item, audio that decodes to the samples, and JSON."""
    data = of("webdataset")
    rows = samples(data)
    events = by_scene(data)

    assert [row["__key__"] for row in rows] == data.scenes["scene_id"].tolist()
    for row, scene in zip(rows, rows_of(data.scene_table), strict=True):
        said = json.loads(row["json"], parse_constant=pytest.fail)
        assert less(said, "events") == scene
        assert said["events"] == [less(event, "scene_id") for event in events[scene["scene_id"]]]
        assert np.array_equal(decoded(row["flac"]), pcm(data, scene["scene_id"]))


def test_pandas_reads_parquet(of):
    """Structs and lists as Python has them."""
    data = of("parquet")
    frame = pd.read_parquet(data.path / "data")
    scenes = data.scenes

    assert frame["scene_id"].tolist() == scenes["scene_id"].tolist()
    assert [len(events) for events in frame["events"]] == scenes["n_events"].tolist()
    assert [event["onset"] for events in frame["events"] for event in events] == data.events["onset"].tolist()
    assert np.array_equal(decoded(frame["audio"][20]["bytes"]), pcm(data, scenes["scene_id"][20]))


def test_parquet_is_laid_out_for_its_readers(of, asked_of):
    """Audio is neither packed, nor in a dictionary, nor in statistics; all else is packed. Units stay with columns."""
    for data, leaf in (
        (of("parquet"), "audio.bytes"),
        (asked_of("call_type_mcq", "parquet"), "audio.list.element.bytes"),
    ):
        path = data.path / "data/00000.parquet"
        group = pq.read_metadata(path).row_group(0)
        columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        audio = columns.pop(leaf)

        assert (audio.compression, audio.is_stats_set) == ("UNCOMPRESSED", False)
        assert "RLE_DICTIONARY" not in audio.encodings
        assert {column.compression for column in columns.values()} == {"ZSTD"}
    schema = pq.read_schema(of("parquet").path / "data/00000.parquet")
    assert schema.field("duration_s").metadata[b"unit"] == b"s"
    inner = {field.name: field for field in schema.field("events").type.value_type}
    assert inner["low_hz"].metadata[b"unit"] == b"Hz"


def test_pages_are_row_groups(of, stores, tmp_path, monkeypatch):
    """A shard of three pages has three, whatever the threads; and any scene of it is found."""
    monkeypatch.setattr("synthscape.scale.shard._PAGE_ITEMS", 3)
    data, whole = small(tmp_path, stores, "parquet", workers=2), of("parquet")
    metadata = pq.read_metadata(data.path / "data/00000.parquet")

    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [3, 3, 2]
    for scene in reversed(whole.scenes["scene_id"].tolist()):
        assert np.array_equal(data.audio(scene), whole.audio(scene))
    assert data.verify() == []


@pytest.mark.parametrize("task", ["few_shot_detection", "call_type_mcq"])
def test_datasets_and_pyarrow_read_questions(asked_of, hub, task):
    """An item's audio is a list in the order of its scenes; scenes and events are lists too."""
    data = asked_of(task, "parquet")
    found = hub(str(data.path))
    scenes = {scene["scene_id"]: scene for scene in rows_of(data.scene_table)}
    events = by_scene(data)

    assert found.features["audio"] == datasets.List(datasets.Audio(sampling_rate=data.sample_rate))
    assert found.features == hub("parquet", data_files=str(data.path / "data/*.parquet")).features
    plain = found.cast_column("audio", datasets.List(datasets.Audio(decode=False)))
    for rows in (list(plain), pq.read_table(data.path / "data").to_pylist()):
        assert [less(row, "audio", "scenes", "events") for row in rows] == rows_of(data.item_table)
        for row in rows:
            names = row["scene_ids"]
            assert [audio["path"] for audio in row["audio"]] == [f"{name}.flac" for name in names]
            assert row["scenes"] == [scenes[name] for name in names]
            assert row["events"] == [event for name in names for event in events[name]]
            for name, audio in zip(names, row["audio"], strict=True):
                assert np.array_equal(decoded(audio["bytes"]), pcm(data, name))
    assert data.verify() == []


@pytest.mark.parametrize("task", ["few_shot_detection", "call_type_mcq"])
def test_webdataset_and_datasets_read_questions(asked_of, hub, task):
    """A sample is an item: its parts are told apart behind the first dot; items may have different parts."""
    data = asked_of(task, "webdataset")
    rows = samples(data)
    by_card = hub(str(data.path))
    parts = [name for name in by_card.features if name.endswith(".flac")]

    assert sorted(parts) == sorted(f"{part}.flac" for part in set(data.scenes["part"]))
    for name in parts:
        by_card = by_card.cast_column(name, datasets.Audio(decode=False))
    for row, other, item in zip(rows, by_card, data.item_table.to_pylist(), strict=True):
        said = json.loads(row["json"])
        assert row["__key__"] == other["__key__"] == item["item_id"]
        assert less(said, "scenes", "events") == less(item, "audio")
        assert [scene["scene_id"] for scene in said["scenes"]] == item["scene_ids"]
        assert item["audio"] == [f"{item['item_id']}.{scene['part']}.flac" for scene in said["scenes"]]
        for scene in said["scenes"]:
            part = f"{scene['part']}.flac"
            assert np.array_equal(decoded(row[part]), pcm(data, scene["scene_id"]))
            assert other[part]["bytes"] == row[part]
        assert {name for name in row if name.endswith(".flac")} == {f"{scene['part']}.flac" for scene in said["scenes"]}
    assert data.verify() == []


@pytest.mark.parametrize("task", QUESTION_TASKS)
def test_parts_are_plain_names(task_stores, tmp_path, task):
    """Nothing in the name of a part ends a key of a tar, or leads out of it."""
    data = asked(tmp_path / "out", task_stores, task, "webdataset", "items=2")

    assert all(part.isascii() and part.isalnum() and part.islower() for part in data.scenes["part"])
    for path in (data.path / "data").iterdir():
        with tarfile.open(path) as tar:
            assert all(name.count("/") == 0 for name in tar.getnames())


def test_tars_have_no_clock_and_no_user(of):
    """Plain files of nobody, at time 0, in a format every tar reads."""
    with tarfile.open(of("webdataset").path / "data/00001.tar") as tar:
        members = tar.getmembers()

    assert {(m.type, m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {
        (tarfile.REGTYPE, 0, 0, 0, "", "", 0o644)
    }
    assert [m.name for m in members[:2]] == ["s000000008.flac", "s000000008.json"]
    assert not any(m.pax_headers for m in members)


def test_tars_are_what_tarfile_writes(of, tmp_path):
    """To the byte, padding and end included."""
    path = of("webdataset").path / "data/00001.tar"
    members = []
    for info, content in _members(path):
        plain = tarfile.TarInfo(info.name)
        plain.size, plain.mode = len(content), 0o644
        members.append((plain, content))
    _tar(tmp_path / "same.tar", members)

    assert path.read_bytes() == (tmp_path / "same.tar").read_bytes()


@pytest.mark.parametrize("kind", FORMATS)
def test_wav_in_every_format(stores, tmp_path, kind):
    """Names end as the files do, which are WAV, and the samples are the same."""
    data = small(tmp_path / "wav", stores, kind, "output.audio=wav", "items=6")
    other = small(tmp_path / "flac", stores, kind, "items=6")

    assert data.scenes["audio"].str.endswith(".wav").all()
    assert data.scenes["pcm_hash"].tolist() == other.scenes["pcm_hash"].tolist()
    assert data.verify() == []


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("override", ["output.audio=none", "output.control=text"])
def test_without_audio_there_is_no_container(of, stores, hub, tmp_path, kind, override):
    """Tables alone, the same in every format, with the hashes of what would be heard; the card offers the tables."""
    data = small(tmp_path, stores, kind, override)

    assert not (data.path / "data").exists()
    assert not (data.path / "audio").exists()
    assert data.scenes["audio"].isna().all()
    assert rows_of(data.scene_table) == rows_of(of("folder").scene_table)
    assert data.event_table.equals(of("folder").event_table)
    with pytest.raises(DatasetError, match="written without audio"):
        data.audio("s000000000")
    assert data.verify() == []
    assert rows_of(pa.Table.from_pylist(list(hub(str(data.path))))) == rows_of(data.scene_table)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores whose every clip is silent where it claims to be active: what a bank's builder would have refused."""
    from synthscape.bank.writer import StoreWriter
    from tests.hand_built import RATE, make_backgrounds

    folder = tmp_path_factory.mktemp("broken")
    make_backgrounds(folder / "backgrounds")
    tone = np.sin(2 * np.pi * 900 * np.arange(1600) / RATE)
    with StoreWriter(folder / "bank", "pseudovox", RATE) as writer:
        for i in range(4):
            columns = {"species": "Parus major", "recording_id": f"r{i}", "active_start": 0, "active_end": 200}
            bands = {"low_hz": 800.0, "high_hz": 1000.0, "min_ratio_index": 0, "signal_share": 1.0}
            writer.add(np.concatenate([np.zeros(200), tone[: 1400 - i]]), {**columns, **bands})
    return folder


@pytest.mark.parametrize("kind", FORMATS)
def test_a_shard_of_nothing_but_failures(broken, hub, tmp_path, kind):
    """It is there, without rows, beside those that have some; readers pass over it."""
    options = ("items=24", "classes.per_scene=1", "empty_share=0.3", "output.items_per_shard=2")
    report = render(small_spec(tmp_path, broken, f"output.format={kind}", "output.raven=false", *options))
    data = open_dataset(report.path)
    sizes = [len(data._read("scenes", shard)) for shard in data._shards()]

    assert 0 < len(data) < 24
    assert 0 in sizes
    assert report.counts["failed"] == 24 - len(data)
    assert data.verify() == []
    assert [len(data.audio(scene)) for scene in data.scenes["scene_id"]] == data.scenes["n_samples"].tolist()
    assert len(hub(str(data.path))) == len(data)
    assert render(small_spec(tmp_path, broken, f"output.format={kind}", "output.raven=false", *options)).kept_shards > 0


@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
def test_odd_names_stay_names(hub, tmp_path, kind):
    """Classes with path parts, quotes, tabs, markup and other scripts come back as they are, and name no file."""
    odd = ("../../etc/passwd", 'a "quoted"\tname', "<b>Ünï鳥</b>", "/absolute", "line\nbreak", "dots.and/slash|pipe")
    stores = make_stores(tmp_path / "stores", odd)
    data = small(tmp_path, stores, kind, "items=30", "empty_share=0", "duration=1", "output.raven=false")
    rows = list(hub(str(data.path)).cast_column(*_undecoded(kind)))
    found = [event["class"] for row in rows for event in (row if kind == "parquet" else row["json"])["events"]]

    assert set(found) == set(odd)
    assert found == data.events["class"].tolist()
    assert sorted(data.scenes["audio"]) == [f"s{i:09d}.flac" for i in range(30)]


def _undecoded(kind: str) -> tuple[str, datasets.Audio]:
    return "audio" if kind == "parquet" else "flac", datasets.Audio(decode=False)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_dataset_on_a_server_is_read_the_same(of, asked_of, kind):
    """Through fsspec: tables, rows for language models, any scene, verify."""
    server = fsspec.filesystem("memory")
    for data in (of(kind), asked_of("few_shot_detection", kind)):
        name = f"{kind}-{data.info['spec']['task']}"
        server.put(str(data.path), f"/{name}", recursive=True)
        there = open_dataset(f"memory://{name}")

        assert there.chat == data.chat
        assert there.item_table.equals(data.item_table)
        for scene in there.scenes["scene_id"][::-1]:
            assert np.array_equal(there.audio(scene), data.audio(scene))
        assert there.verify() == []


@pytest.mark.parametrize(("kind", "file"), [("parquet", "data/00001.parquet"), ("webdataset", "data/00001.tar")])
def test_a_changed_container_is_noticed(of, stores, tmp_path, kind, file):
    """Cut, its shard is rendered again; with another sample, ``verify`` names the scene; without it, the file."""
    out = Path(shutil.copytree(of(kind).path, tmp_path / "out"))
    whole = (out / file).read_bytes()
    (out / file).write_bytes(whole[:-7])
    assert render(small_spec(tmp_path, stores, f"output.format={kind}")).new_shards == 1
    assert (out / file).read_bytes() == whole

    start = whole.index(b"fLaC")
    where = whole.index(b"fLaC", start + 4) - 300 if kind == "parquet" else start + 1500
    (out / file).write_bytes(whole[:where] + bytes([whole[where] ^ 8]) + whole[where + 1 :])
    (problem,) = open_dataset(out).verify()
    assert f"{file}: s000000008.flac" in problem

    (out / file).unlink()
    (problem,) = open_dataset(out).verify()
    assert f"{file} is missing" in problem
    with pytest.raises(DatasetError, match="is missing; render the dataset again"):
        open_dataset(out).audio("s000000009")
    assert np.array_equal(open_dataset(out).audio("s000000001"), of(kind).audio("s000000001"))


def test_verify_compares_what_parquet_repeats(of, tmp_path):
    """Another label, a scene that is missing, and other names in the container are each named."""
    out = Path(shutil.copytree(of("parquet").path, tmp_path / "out"))
    path = out / "data/00000.parquet"
    table = pq.read_table(path)
    n_events = pa.array([n + 1 for n in table["n_events"].to_pylist()], pa.int32())
    place = table.column_names.index("n_events")
    pq.write_table(table.set_column(place, table.schema.field(place), n_events), path)
    assert open_dataset(out).verify() == ["data/00000.parquet: column 'n_events' is not what the tables say"]

    pq.write_table(table.slice(1), path)
    problems = open_dataset(out).verify()
    assert "data/00000.parquet: 7 items, expected 8" in problems
    assert any("s000000000.flac can't be read (there is no audio of this name)" in line for line in problems)

    pq.write_table(table.rename_columns(["sound", *table.column_names[1:]]), path)
    (problem,) = open_dataset(out).verify()
    assert "data/00000.parquet can't be read" in problem


def _tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with tarfile.open(path, "w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))


def _members(path: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(path) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]


def test_verify_compares_what_tars_repeat(of, tmp_path):
    """Another label, members that are no scene's, and links are found; nothing is written anywhere."""
    out = Path(shutil.copytree(of("webdataset").path, tmp_path / "out"))
    path = out / "data/00000.tar"
    members = _members(path)
    changed = [(info, content.replace(b'"n_events":', b'"n_events":1')) for info, content in members]
    _tar(path, changed)
    assert len(open_dataset(out).verify()) == 8
    spaced = [
        (info, json.dumps(json.loads(content)).encode() if info.name.endswith(".json") else content)
        for info, content in members
    ]
    for info, content in spaced:
        info.size = len(content)
    _tar(path, spaced)
    assert open_dataset(out).verify() == []  # how it is written does not matter
    members = _members(path)

    link = tarfile.TarInfo("s000000000.flac")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    evil = tarfile.TarInfo("../../evil.flac")
    evil.size = 4
    _tar(path, [(link, b""), (evil, b"evil"), *members[1:]])
    problems = open_dataset(out).verify()
    assert len(problems) == 2
    assert "the names of its members are not those" in problems[0]
    assert "s000000000.flac can't be read (there is no audio of this name)" in problems[1]
    assert not list(tmp_path.rglob("*evil*"))
    assert not list(tmp_path.parent.glob("*evil*"))


@pytest.mark.parametrize("size", [2**40, 10**6])
def test_headers_that_claim_too_much(of, tmp_path, size):
    """A member, or a FLAC stream, that says it is longer than it can be is an error, and takes no memory."""
    out = Path(shutil.copytree(of("webdataset").path, tmp_path / "out"))
    path = out / "data/00000.tar"
    members = _members(path)
    info = members[-2][0]
    whole = path.read_bytes()
    header = info.tobuf(tarfile.PAX_FORMAT)
    info.size = size
    lying = info.tobuf(tarfile.GNU_FORMAT)
    assert len(header) == len(lying) == 512
    path.write_bytes(whole.replace(header, lying))
    with pytest.raises(DatasetError, match="can't be read"):
        open_dataset(out).audio(info.name.removesuffix(".flac"))

    path.write_bytes(whole)
    start = whole.index(b"fLaC")
    claims = bytearray(whole)
    claims[start + 21 : start + 26] = bytes([claims[start + 21] | 15, 255, 255, 255, 255])  # 2**36 - 1 samples
    path.write_bytes(bytes(claims))
    with pytest.raises(DatasetError, match=r"s000000000\.flac can't be read"):
        open_dataset(out).audio("s000000000")


def test_a_scenes_table_can_name_nothing_else(of, tmp_path):
    """Names from another's table are looked up in the shard's file, and nowhere else."""
    (tmp_path / "secret.flac").write_bytes(b"secret")
    for kind in ("parquet", "webdataset"):
        out = Path(shutil.copytree(of(kind).path, tmp_path / kind / "out"))
        path = out / "scenes/00000.parquet"
        table = pq.read_table(path)
        names = ["../../secret.flac", *table["audio"].to_pylist()[1:]]
        place = table.schema.get_field_index("audio")
        pq.write_table(table.set_column(place, table.schema.field("audio"), [names]), path)
        with pytest.raises(DatasetError, match="there is no audio of this name"):
            open_dataset(out).audio("s000000000")


@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
@pytest.mark.parametrize("limit", [12_000, 60_000])
def test_a_full_disk_leaves_nothing_half_written(of, stores, tmp_path, kind, limit):
    """One line names the file and what to do; with space again the dataset is the same."""
    spec = small_spec(tmp_path, stores, f"output.format={kind}")
    limited = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
        "from synthscape.cli import main; main()"
    )
    command = [sys.executable, "-c", limited, "render", str(tmp_path / "small.yaml"), f"output.format={kind}"]
    ended = subprocess.run(command, capture_output=True, text=True)

    assert ended.returncode == 2
    (line,) = ended.stderr.strip().splitlines()
    assert "File too large" in line
    assert "/data." in line
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".lock", "render.json"]
    assert of_files(Path(render(spec).path)) == of_files(of(kind).path)


def test_an_unknown_format_is_refused(of, tmp_path):
    """A newer way to store audio isn't guessed at."""
    out = Path(shutil.copytree(of("folder").path, tmp_path / "out"))
    info = json.loads((out / "dataset.json").read_text())
    info["spec"]["output"]["format"] = "zarr"
    (out / "dataset.json").write_text(json.dumps(info))
    with pytest.raises(DatasetError, match="has the format 'zarr'; read it with the version"):
        open_dataset(out)


def test_nothing_of_the_readers_is_imported(stores, tmp_path):
    """Writing and reading every format takes none of datasets, torch, webdataset, fsspec."""
    (tmp_path / "out").mkdir()
    program = (
        "import sys\nfrom pathlib import Path\nfrom tests.output.formats import FORMATS, small\n"
        "for kind in FORMATS:\n    data = small(Path(sys.argv[1]) / kind, Path(sys.argv[2]), kind, 'items=3')\n"
        "    assert data.verify() == []\n"
        "print(sorted({'datasets', 'torch', 'webdataset', 'fsspec', 'huggingface_hub'} & set(sys.modules)))\n"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", program, str(tmp_path), str(stores)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=root, check=True)

    assert ended.stdout.strip() == "[]"


def test_the_same_shard_is_the_same_bytes_next_time(of, stores, tmp_path):
    """Rendered again in another place, containers are the same files."""
    for kind in ("parquet", "webdataset"):
        other = small(tmp_path / kind, stores, kind, "items=8")
        for path in (other.path / "data").iterdir():
            first = of(kind).path / "data" / path.name
            assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(first.read_bytes()).digest()
