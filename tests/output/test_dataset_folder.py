"""Rendering into a folder: what is written, what is read back, and going on from any point."""

from __future__ import annotations

import fcntl
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from synthscape.errors import DatasetError, StoreError
from synthscape.labels.facts import FACTS_SCHEMA
from synthscape.labels.items import ITEMS_SCHEMA
from synthscape.labels.pcm import to_pcm16
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA
from synthscape.output.containers import Page
from synthscape.output.dataset import open_dataset
from synthscape.output.folder import FAILURES_SCHEMA, _seal, open_folder, shards_of
from synthscape.plan.plan import PLAN_VERSION
from synthscape.scale.progress import Step
from synthscape.scale.render import render
from synthscape.scale.shard import origin
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator
from tests.small_dataset import contents, make_stores, small_spec, write_spec

ITEMS = 23


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def whole(stores, tmp_path_factory) -> Path:
    """The dataset, rendered in one go on one thread; not to be changed."""
    folder = tmp_path_factory.mktemp("whole")
    render(small_spec(folder, stores))
    return folder / "out"


@pytest.fixture
def same(whole, tmp_path) -> Path:
    """A copy of it, where its spec renders to: ``tmp_path/out``."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


def without_place(content: dict) -> dict:
    """A dataset's content, but for the folder named in its spec."""
    info = json.loads(content["dataset.json"])
    del info["spec"]["output"]["dir"]
    return {**content, "dataset.json": info}


def test_everything_asked_for_is_there(whole):
    """As many scenes as items, a file each, tables with the documented columns, counts that agree."""
    data = open_dataset(whole)
    counts = data.info["counts"]

    assert len(data) == len(data.scenes) == ITEMS == counts["items"] == counts["delivered"]
    assert counts["events"] == len(data.events) == data.scenes["n_events"].sum()
    assert counts["asked"] == counts["placed"] + sum(counts["drop_reasons"].values())
    assert data.event_table.schema.equals(EVENTS_SCHEMA, check_metadata=True)
    assert data.scene_table.schema.equals(SCENES_SCHEMA, check_metadata=True)
    assert data.fact_table.schema.equals(FACTS_SCHEMA, check_metadata=True)
    assert data.facts["scene_id"].tolist() == data.scenes["scene_id"].tolist()
    assert sorted(path.name for path in (whole / "audio").iterdir()) == ["00000", "00001", "00002"]
    assert len(list(whole.glob("audio/*/*.flac"))) == len(list(whole.glob("raven/*/*.txt"))) == ITEMS
    assert [entry["events"] for entry in data.info["classes"]] == [
        (data.events["class"] == name).sum() for name in data.classes
    ]
    assert data.verify() == []


def test_other_readers_read_it(whole):
    """pandas and pyarrow read the table folders, soundfile the audio."""
    data = open_dataset(whole)
    scene = data.scenes.iloc[3]
    samples, rate = soundfile.read(whole / scene["audio"], dtype="float32")

    assert pd.read_parquet(whole / "events").shape == data.events.shape
    assert pq.read_table(whole / "scenes")["scene_id"].to_pylist() == data.scenes["scene_id"].tolist()
    assert (rate, len(samples)) == (scene["sample_rate"], scene["n_samples"])
    assert np.array_equal(samples, data.audio(scene["scene_id"]))


def test_disk_holds_what_memory_holds(whole, stores, tmp_path):
    """The generator gives the tables and samples of the dataset, in any order."""
    numbers = [17, 3, 3, 0, 22]
    data, scenes = open_dataset(whole), SceneGenerator(small_spec(tmp_path, stores)).render(numbers)
    on_disk = data.scenes.set_index("scene_number").loc[numbers].reset_index()

    assert scenes.scenes["pcm_hash"].tolist() == on_disk["pcm_hash"].tolist()
    pd.testing.assert_frame_equal(
        scenes.scenes.drop(columns="audio"), on_disk[scenes.scenes.columns].drop(columns="audio")
    )
    for i, number in enumerate(numbers):
        name = f"s{number:09d}"
        n = int(on_disk["n_samples"][i])

        assert np.array_equal(to_pcm16(scenes.audio[i, :n]), to_pcm16(data.audio(name)))
    facts = {row["scene_id"]: row for row in data.fact_table.to_pylist()}
    assert scenes.fact_table.to_pylist() == [facts[name] for name in on_disk["scene_id"]]
    events = scenes.events[scenes.events["scene_id"] == "s000000017"].reset_index(drop=True)
    pd.testing.assert_frame_equal(events, data.events[data.events["scene_id"] == "s000000017"].reset_index(drop=True))


@pytest.mark.parametrize("workers", [2, 5])
def test_threads_change_nothing(whole, stores, tmp_path, workers):
    """Every file is the same on any number of threads."""
    render(small_spec(tmp_path, stores), workers=workers)

    assert without_place(contents(tmp_path / "out")) == without_place(contents(whole))


def test_pieces_make_the_same_whole(whole, stores, tmp_path):
    """A dataset that grew from 3 over 10 items is the one rendered at once."""
    for items in (3, 10, ITEMS):
        render(small_spec(tmp_path, stores, f"items={items}"))

    assert without_place(contents(tmp_path / "out")) == without_place(contents(whole))


def test_shard_size_changes_no_sample_and_no_label(whole, stores, tmp_path):
    """Other shards hold the same scenes."""
    render(small_spec(tmp_path, stores, "output.items_per_shard=5"), workers=2)
    other, data = open_dataset(tmp_path / "out"), open_dataset(whole)

    assert other.event_table.equals(data.event_table)
    assert other.scene_table.drop_columns(["audio"]).equals(data.scene_table.drop_columns(["audio"]))
    assert other.fact_table.equals(data.fact_table)


@pytest.mark.parametrize("seed", range(8))
def test_render_goes_on_from_any_point(whole, same, stores, tmp_path, seed):
    """Whatever files are missing, the same command makes the same dataset."""
    files = [path for path in sorted(same.rglob("*")) if path.is_file()]
    chosen = random.Random(seed)
    for path in chosen.sample(files, chosen.choice([1, 1, 2, 5, len(files) - 3])):
        path.unlink()
    (same / "audio" / ".aside-0123").mkdir()
    (same / "events" / ".aside-4567.parquet").write_bytes(b"half")
    report = render(small_spec(tmp_path, stores))

    assert report.new_shards + report.kept_shards == 3
    assert without_place(contents(same)) == without_place(contents(whole))


def test_finished_shards_are_kept(same, stores, tmp_path):
    """Only the shard whose receipt is gone is rendered again, and nothing if all is there."""
    spec = small_spec(tmp_path, stores)

    assert render(spec).new_shards == 0
    (same / "receipts" / "00001.json").unlink()
    report = render(spec)

    assert (report.new_shards, report.kept_shards) == (1, 2)


def test_truncated_files_are_made_anew(whole, same, stores, tmp_path):
    """A table or audio file of another size than its receipt says makes its shard invalid."""
    for path in (same / "audio/00000/s000000002.flac", same / "events/00002.parquet"):
        path.write_bytes(path.read_bytes()[:100])

    assert render(small_spec(tmp_path, stores)).new_shards == 2
    assert without_place(contents(same)) == without_place(contents(whole))


def test_killed_renders_lose_nothing(whole, stores, tmp_path):
    """Killed again and again, then left to end: the same dataset."""
    spec = write_spec(tmp_path, stores)
    command = [sys.executable, "-c", "from synthscape.cli import main; main()", "render", str(spec), "--workers", "2"]
    out = tmp_path / "out"
    for shards in (0, 1, 2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < limit:
            if len(list(out.glob("receipts/*.json"))) > shards or (not shards and list(out.glob(".aside-*/audio/*"))):
                break
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
    render(small_spec(tmp_path, stores))

    assert without_place(contents(out)) == without_place(contents(whole))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=6", "seed 5 there, 6 asked"),
        ("events.overlap.max_polyphony=2", "events.overlap.max_polyphony 4 there, 2 asked"),
        ("output.items_per_shard=16", "output.items_per_shard 8 there, 16 asked"),
        ("output.stems=true", "output.stems false there, true asked"),
        ("items=20", "has 23 items already, the spec asks for 20"),
    ],
)
def test_another_spec_is_refused(same, stores, tmp_path, override, message):
    """Naming what differs, and touching nothing."""
    before = contents(same)
    with pytest.raises(DatasetError, match=message):
        render(small_spec(tmp_path, stores, override))

    assert contents(same) == before


def test_another_bank_is_refused(same, tmp_path):
    """A bank that changed under a dataset can't go on with it."""
    others = make_stores(tmp_path / "others", ("Corvus corax", "Parus major", "Sitta europaea"))
    with pytest.raises(DatasetError, match="store bank"):
        render(small_spec(tmp_path, others))


def test_another_community_is_refused(stores, tmp_path):
    """A table that changed is named as what did; rows in another order are no change."""
    table = tmp_path / "community.csv"
    species = ("Parus major", "Corvus corax")
    rows = [f"{name},{weight}" for name, weight in zip(species, (1, 2), strict=True)]
    table.write_text("\n".join(["species,weight", *rows]))
    spec = small_spec(tmp_path, stores, f"community.table={table}", "items=8", "classes.per_scene=1")
    render(spec)
    table.write_text("\n".join(["species,weight", *reversed(rows)]))
    assert render(spec).new_shards == 0
    table.write_text("\n".join(["species,weight", rows[0]]))
    with pytest.raises(DatasetError, match=r"is another dataset: community.table with the fingerprint"):
        render(spec)


def test_what_is_too_loud_is_named(stores, tmp_path):
    """Where the background's level is given in LUFS, that is the key to lower."""
    loud = ("items=8", "background={level_dbfs: null, level_lufs: -3}")
    assert "lower background.level_lufs" in render(small_spec(tmp_path, stores, *loud)).info["warnings"][0]


def test_a_moved_bank_is_the_same(same, stores, tmp_path):
    """Where the stores lie doesn't matter."""
    moved = Path(shutil.copytree(stores, tmp_path / "moved"))
    (same / "receipts" / "00000.json").unlink()

    assert render(small_spec(tmp_path, moved)).kept_shards == 2


def test_another_plan_version_is_refused(same, stores, tmp_path, monkeypatch):
    """A dataset of an older planner can't go on with a newer one."""
    monkeypatch.setattr("synthscape.tasks.generator.PLAN_VERSION", 999)
    monkeypatch.setattr("synthscape.scale.shard.PLAN_VERSION", 999)
    with pytest.raises(DatasetError, match=f"plan version {PLAN_VERSION} there, 999 asked"):
        render(small_spec(tmp_path, stores))


def test_a_dataset_that_is_being_extended_is_unfinished(same, stores, tmp_path):
    """Stopped in the middle of growing, it says so instead of showing a part as the whole."""

    calls = []

    def stop(done: Step) -> None:
        calls.append(done)
        if len(calls) > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render(small_spec(tmp_path, stores, "items=40"), workers=2, progress=stop)
    with pytest.raises(DatasetError, match="goes on"):
        open_dataset(same)
    assert not list(same.rglob(".aside-*"))
    assert render(small_spec(tmp_path, stores, "items=40")).kept_shards == 2
    assert (calls[0].kept, calls[0].items) == (True, 16)  # two of three shards are whole


def test_other_versions_are_refused(same, stores, tmp_path):
    """Shards of one dataset come from one version of what computes samples."""
    spec = small_spec(tmp_path, stores)
    receipts = sorted((same / "receipts").iterdir())
    for path in receipts[:2]:
        receipt = json.loads(path.read_text())
        receipt["made_with"]["numba"] = "0.1"
        receipt["seal"] = _seal(receipt)
        path.write_text(json.dumps(receipt))

    with pytest.raises(DatasetError, match=r"made with different versions .*numba 0\.1 and "):
        render(spec)
    receipts[2].unlink()
    with pytest.raises(DatasetError, match=r"begun with other versions .*numba 0\.1 there"):
        render(spec)
    spec = small_spec(tmp_path, stores, "items=16")
    assert render(spec).new_shards == 0  # all is there: nothing to compute


def test_overwrite_removes_the_dataset_and_nothing_else(same, stores, tmp_path):
    """Files that are not the dataset's stay."""
    (same / "notes.txt").write_text("mine")
    spec = small_spec(tmp_path, stores, "seed=6", "items=2")
    render(spec, overwrite=True)

    assert (same / "notes.txt").read_text() == "mine"
    assert len(open_dataset(same)) == 2
    assert len(list(same.glob("audio/*/*"))) == 2


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_something_else_is_left_alone(stores, tmp_path, overwrite):
    """Neither a folder of other files nor a file is rendered into."""
    spec = small_spec(tmp_path, stores)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(DatasetError, match=r"no dataset .*thesis\.txt"):
        render(spec, overwrite=overwrite)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DatasetError, match="is a file"):
        render(small_spec(tmp_path, stores, f"output.dir={tmp_path / 'file'}"), overwrite=overwrite)

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_two_renders_into_one_folder_are_refused(same, stores, tmp_path):
    """The second one is told, and nothing happens to the first."""
    with (same / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DatasetError, match="being rendered by another process"):
            render(small_spec(tmp_path, stores), overwrite=True)

    assert len(open_dataset(same)) == ITEMS


def test_without_audio_the_labels_are_the_same(whole, stores, tmp_path):
    """``output.control: text`` writes no audio folder; all else is as with it, and it goes on where it stopped."""
    spec = small_spec(tmp_path, stores, "output.control=text")
    render(small_spec(tmp_path, stores, "output.control=text", "items=8"))
    report = render(spec, workers=2)
    data, other = open_dataset(tmp_path / "out"), open_dataset(whole)

    assert report.kept_shards == 1
    assert render(spec).new_shards == 0
    assert not (tmp_path / "out" / "audio").exists()
    assert data.scenes["audio"].isna().all()
    assert data.scene_table.drop_columns(["audio"]).equals(other.scene_table.drop_columns(["audio"]))
    assert data.event_table.equals(other.event_table)
    assert data.verify() == []
    with pytest.raises(DatasetError, match="written without audio"):
        data.audio("s000000000")


@pytest.fixture
def asking(same, stores, tmp_path) -> Path:
    """The dataset with an item and a chat row for each scene, written as a task that asks questions does."""
    data = open_dataset(same)
    spec = small_spec(
        tmp_path, stores, f"output.dir={tmp_path / 'asking'}", "output.control=text", "output.raven=false"
    )
    shards = shards_of(spec.items, spec.output.items_per_shard)
    with open_folder(tmp_path / "asking", origin(SceneGenerator(spec))) as folder:
        folder.begin()
        for shard in shards:
            rows = [
                {"item_id": f"i{i}", "item_number": i, "task": "counting", "scene_ids": [f"s{i:09d}"], "count": i}
                for i in range(shard.first, shard.last)
            ]
            tables = {
                "events": data.event_table if shard.number == 0 else data.event_table.slice(0, 0),
                "scenes": data.scene_table.slice(shard.first, len(shard)),
                "facts": data.fact_table.slice(shard.first, len(shard)),
                "items": pa.Table.from_pylist(rows, schema=ITEMS_SCHEMA),
            }
            lines = [{"id": row["item_id"], "messages": ["\u2028 é鳥"]} for row in rows]
            chat = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            with folder.shard(shard) as writer:
                writer.add(Page(tables, {"chat": chat}))
                writer.commit({"pcm_hash": "", "failures": [], "counts": {"items": len(shard)}})
        content = {"spec": spec.plain(explicit=True), "counts": {"delivered": ITEMS, "events": 0}}
        folder.finish(FAILURES_SCHEMA.empty_table(), "", content)
        assert len(folder.kept(shards)) == len(shards)
    return tmp_path / "asking"


def test_items_and_chat_are_part_of_a_shard(asking, same):
    """Both are read back, hashed and verified."""
    data = open_dataset(asking)

    assert data.item_table.schema.equals(ITEMS_SCHEMA, check_metadata=True)
    assert data.items["count"].tolist() == list(range(ITEMS))
    assert [row["id"] for row in data.chat] == data.items["item_id"].tolist()
    assert {row["messages"][0] for row in data.chat} == {"\u2028 é鳥"}
    (asking / "chat/00001.jsonl").write_text("{}\n")
    (asking / "items/00002.parquet").unlink()
    problems = [line for line in data.verify() if "audio" not in line]
    assert len(problems) == 2
    assert all(any(name in line for line in problems) for name in ("chat/00001.jsonl", "items/00002.parquet"))


@pytest.mark.parametrize("lost", ["items/00001.parquet", "chat/00001.jsonl"])
def test_a_shard_without_its_items_does_not_exist(asking, stores, tmp_path, lost):
    """A table or text that is lost or cut makes its shard invalid, as with the others."""
    (asking / lost).write_bytes((asking / lost).read_bytes()[:-1])
    spec = small_spec(tmp_path, stores, f"output.dir={asking}", "output.control=text", "output.raven=false")
    with open_folder(asking, origin(SceneGenerator(spec))) as folder:
        assert sorted(folder.kept(shards_of(ITEMS, 8))) == [0, 2]


def test_stems_sum_to_the_scene(stores, tmp_path):
    """Background and events times the scene gain are the scene, within half a step of 16 bits."""
    render(small_spec(tmp_path, stores, "output.stems=true", "items=6", "output.raven=false"), workers=2)
    data = open_dataset(tmp_path / "out")
    for scene in data.scenes.itertuples():
        background, stems = data.stems(scene.scene_id)
        mix = (background + stems.sum(axis=0)) * 10 ** (scene.scene_gain_db / 20)

        assert len(stems) == scene.n_events
        assert np.abs(mix - data.audio(scene.scene_id)).max() <= 0.5 / 32768 + 1e-6
    assert not (tmp_path / "out" / "raven").exists()


def test_float_stems_hold_no_clock(stores, tmp_path):
    """The same stem is the same file, today and tomorrow, and soundfile reads it exactly."""
    render(small_spec(tmp_path, stores, "output.stems=true", "items=2", "empty_share=0"))
    data = open_dataset(tmp_path / "out")
    path = tmp_path / "out/stems/00000/s000000000/0.wav"
    samples, _ = soundfile.read(path, dtype="float32")

    assert b"PEAK" not in path.read_bytes()
    assert soundfile.info(path).subtype == "FLOAT"
    assert np.array_equal(samples, data.stems("s000000000")[1][0])
    assert np.abs(samples).max() > 0


def test_unknown_scenes_and_unfinished_datasets(same):
    """A wrong scene id is answered with a near one; an unfinished dataset with what to do; a folder with what lacks."""
    data = open_dataset(same)
    with pytest.raises(DatasetError, match="did you mean 's0"):
        data.audio("s00000003")
    with pytest.raises(DatasetError, match="no stems"):
        data.stems("s000000003")
    (same / "dataset.json").unlink()
    with pytest.raises(DatasetError, match="goes on"):
        open_dataset(same)
    with pytest.raises(DatasetError, match="is no dataset"):
        open_dataset(same / "audio")
    (same / "dataset.json").write_text("{}")
    with pytest.raises(DatasetError, match="can't be read"):
        open_dataset(same)


def test_verify_finds_what_changed(same):
    """Other samples, a lost file and another table are each named."""
    audio = same / "audio/00001/s000000009.flac"
    samples, rate = soundfile.read(audio, dtype="int16")
    samples[100] ^= 1
    soundfile.write(audio, samples, rate)
    (same / "audio/00000/s000000001.flac").unlink()
    table = pq.read_table(same / "events/00002.parquet")
    pq.write_table(table.slice(1), same / "events/00002.parquet")
    (same / "facts/00002.parquet").unlink()
    problems = open_dataset(same).verify()

    assert len(problems) == 4
    names = ("s000000009", "s000000001", "events/00002", "facts/00002")
    assert all(any(name in line for line in problems) for name in names)


def test_a_table_can_name_no_file_outside(same):
    """A scenes table from somebody else can't make us read other files."""
    path = same / "scenes/00000.parquet"
    table = pq.read_table(path)
    names = ["../../secret.flac", *table["audio"].to_pylist()[1:]]
    pq.write_table(table.set_column(table.schema.get_field_index("audio"), table.schema.field("audio"), [names]), path)

    with pytest.raises(DatasetError, match="no file of this dataset"):
        open_dataset(same).audio("s000000000")


def test_odd_names_stay_names(tmp_path):
    """Classes with path parts, quotes, tabs, markup and other scripts are labels, never paths."""
    odd = ("../../etc/passwd", 'a "quoted"\tname', "<b>Ünï鳥</b>", "/absolute", "line\nbreak", "%20")
    stores = make_stores(tmp_path / "stores", odd)
    render(small_spec(tmp_path, stores, "items=30", "empty_share=0", "output.stems=true", "duration=1"))
    data = open_dataset(tmp_path / "out")
    names = {path.name for path in tmp_path.rglob("*")}

    assert set(data.classes) == set(odd)
    assert set(data.events["class"]) == set(odd)
    assert not any(part in name for name in names for part in ("passwd", "quoted", "absolute", "break", "%20"))
    assert set(json.loads((tmp_path / "out/dataset.json").read_text())["classes"][0]) >= {"name", "clips", "events"}
    assert not list(tmp_path.parent.glob("passwd*"))


def test_a_full_disk_costs_nothing_already_made(whole, stores, tmp_path):
    """Stopped by the system in the middle, one line is said; with space again the dataset is the same."""
    spec = write_spec(tmp_path, stores)
    render(small_spec(tmp_path, stores, "items=8"))  # one shard is there
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (12000, 12000)); "
        "from synthscape.cli import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", limited, "render", str(spec)], capture_output=True, text=True)

    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "File too large" in ended.stderr
    assert not list((tmp_path / "out").rglob(".aside-*"))
    assert render(small_spec(tmp_path, stores)).kept_shards == 1
    assert without_place(contents(tmp_path / "out")) == without_place(contents(whole))


def test_wrong_rates_and_missing_stores_say_what_to_do(stores, tmp_path):
    """The error names the store, both rates, and the command."""
    with pytest.raises(StoreError, match="8000 Hz, the spec asks for 16000 Hz; build it again"):
        SceneGenerator(small_spec(tmp_path, stores, "sample_rate=16000"))
    with pytest.raises(StoreError, match="does not exist; build it"):
        SceneGenerator(small_spec(tmp_path, stores, "bank=nowhere"))
    with pytest.raises(StoreError, match="store of backgrounds, expected pseudovox"):
        SceneGenerator(small_spec(tmp_path, stores, f"bank={stores / 'backgrounds'}"))


def spec_of(tmp_path: Path, stores: Path) -> Spec:
    """The small spec with the pickled generator's settings."""
    return small_spec(tmp_path, stores, "items=4")


def test_generators_travel_to_workers(stores, tmp_path):
    """A pickled generator gives the same scenes, and notices another bank."""
    import pickle

    moved = Path(shutil.copytree(stores, tmp_path / "moved"))
    scenes = SceneGenerator(spec_of(tmp_path, moved))
    sent = pickle.dumps(scenes)

    assert len(sent) < 20_000
    assert np.array_equal(pickle.loads(sent).render([7]).audio, scenes.render([7]).audio)
    shutil.rmtree(moved)
    make_stores(moved, ("Sitta europaea",))
    with pytest.raises(StoreError, match="changed"):
        pickle.loads(sent)
