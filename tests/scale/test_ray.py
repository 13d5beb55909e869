"""Rendering on a Ray cluster: the dataset is that of one thread, whatever happens to workers, nodes and the driver."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import synthscape
from synthscape.bank.writer import StoreWriter
from synthscape.errors import DatasetError, MixError, SpecError, StoreError
from synthscape.files import ASIDE_PREFIX
from synthscape.output.dataset import open_dataset
from synthscape.output.folder import DatasetFolder, open_folder, shards_of
from synthscape.scale import on_ray
from synthscape.scale.progress import Step
from synthscape.scale.render import render
from synthscape.scale.shard import origin
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator
from tests.conftest import ROOT
from tests.hand_built import RATE, clip_columns, tone_clip
from tests.scale.watched import Elsewhere, Fatal, Watched
from tests.signals import unignored
from tests.small_dataset import contents, make_stores, small_spec, write_spec

ray = pytest.importorskip("ray")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning:ray")

ITEMS = 24
LONG = 150  # shards of a dataset that takes a while
IN_SHARDS_OF_2 = ("items=24", "output.items_per_shard=2")
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
SYNTHSCAPE = (sys.executable, "-c", "from synthscape.cli import main; main()")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Any]:
    """A cluster of three nodes with a processor each, which this process is connected to; none of it is left."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
        cluster = Cluster(initialize_head=True, head_node_args={**NODE, "_system_config": SOON})
        try:
            for _ in range(2):
                cluster.add_node(**NODE)
            with contextlib.chdir(tmp_path_factory.mktemp("empty")):  # workers look for modules where we are, first
                ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
            yield cluster
        finally:
            ray.shutdown()
            nodes = cluster.list_all_nodes()
            cluster.shutdown()
    assert [node for node in nodes if node.any_processes_alive()] == []


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def whole(stores, tmp_path_factory) -> dict[str, Any]:
    """What the dataset of twelve shards holds when one thread rendered it."""
    folder = tmp_path_factory.mktemp("whole")
    render(small_spec(folder, stores, *IN_SHARDS_OF_2, "engine=inline"))
    return without_place(contents(folder / "out"))


@pytest.fixture
def spec(stores, tmp_path) -> Spec:
    """The dataset of twelve shards, to be rendered into ``tmp_path/out``."""
    return small_spec(tmp_path, stores, *IN_SHARDS_OF_2)


def without_place(content: dict[str, Any]) -> dict[str, Any]:
    """A dataset's content, but for the folder and engine named in its spec."""
    info = json.loads(content["dataset.json"])
    del info["spec"]["output"]["dir"], info["spec"]["engine"]
    lines = content["README.md"].splitlines()
    card = [line for line in lines if not line.strip().startswith((b"dir: ", b"engine: "))]
    return {**content, "dataset.json": info, "README.md": card}


@contextmanager
def occupied(processors: int) -> Iterator[None]:
    """Something else runs on so many of the cluster's processors."""
    others = [ray.remote(num_cpus=1)(Other).remote() for _ in range(processors)]
    ray.get([other.ready.remote() for other in others])
    yield
    for other in others:
        ray.kill(other)


class Other:
    """What occupies a processor."""

    def ready(self) -> None:
        """It has one."""


def processes_of(marks: Path) -> list[int]:
    """Processes that have mixed something."""
    return [int(mark.name) for mark in marks.iterdir()]


def left_over(folder: Path) -> list[Path]:
    """What is not finished in a folder."""
    return list(folder.rglob(f"{ASIDE_PREFIX}*"))


def render_with(
    scenes: SceneGenerator,
    progress: Callable[[Step], None] | None = None,
    folder_of: Callable[[DatasetFolder], DatasetFolder] = lambda folder: folder,
) -> None:
    """Render all shards of a generator on the cluster, as ``render`` does."""
    spec = scenes.spec
    with on_ray.on_ray(scenes, "auto", 1) as run, open_folder(spec.output.dir, origin(scenes)) as folder:
        folder.begin()
        run(folder_of(folder), shards_of(spec.items, spec.output.items_per_shard), progress)


def is_whole(spec: Spec, whole: dict[str, Any]) -> bool:
    """Whether all shards are there and valid, nothing else is, and the sum of them is the dataset of one thread."""
    folder = Path(spec.output.dir)
    assert left_over(folder) == []
    assert render(spec).new_shards == 0
    assert open_dataset(folder).verify() == []
    return without_place(contents(folder)) == whole


def test_a_cluster_changes_nothing(cluster, spec, whole):
    """Each file is the same; all nodes had work; each shard is told once, with what is in it."""
    steps: list[Step] = []
    report = render(spec, ray="auto", progress=steps.append)

    assert (report.new_shards, report.kept_shards) == (12, 0)
    assert left_over(report.path) == []
    assert without_place(contents(report.path)) == whole
    assert steps.pop(0) == Step(kept=True)
    assert sorted(step.shard for step in steps) == list(range(12))
    counts = report.counts
    assert (
        (sum(s.items for s in steps), sum(s.scenes for s in steps)) == (counts["items"], counts["scenes"]) == (24, 24)
    )
    assert sum(step.audio_s for step in steps) == pytest.approx(3600 * counts["hours"])
    assert render(spec, ray="auto").new_shards == 0


def test_engine_and_threads_by_the_spec(cluster, stores, tmp_path, monkeypatch):
    """``engine: ray`` in the spec, an output folder relative to where we are, and threads no node has."""
    monkeypatch.chdir(tmp_path)
    asked = ("items=2", "engine=ray", "output.dir=out")
    spec = small_spec(tmp_path, stores, *asked)
    with pytest.raises(SpecError, match="an actor needs 2 CPU, and no node of the cluster has as many"):
        render(spec, workers=2)
    assert not (tmp_path / "out").exists()
    there = render(spec).info["content_hash"]
    log = json.loads((tmp_path / "out/log/00000.json").read_bytes())

    assert (log["workers"], log["process"] == os.getpid()) == (1, False)
    assert render(replace(spec, engine="inline", output=replace(spec.output, dir="same"))).info["content_hash"] == there


def test_nodes_come_and_go(cluster, spec, whole, tmp_path):
    """One node is lost, and one is added, which gets work: shards from the fifth on wait for that."""
    scenes = Watched(spec, tmp_path / "marks", delay_s=0.05, held_from=8, processes=4)
    changed = []

    def change(step: Step) -> None:
        if not changed and len(processes_of(tmp_path / "marks")) == 3:
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            changed.append(cluster.add_node(**NODE))

    render_with(scenes, change)
    processes = {json.loads(log.read_bytes())["process"] for log in (tmp_path / "out/log").iterdir()}

    assert len(processes_of(tmp_path / "marks")) >= 4
    assert len(processes) >= 3
    assert is_whole(spec, whole)


def test_workers_are_killed(cluster, spec, whole, tmp_path):
    """kill -9 of whoever is at work, after the first, fourth and eighth shard."""
    scenes = Watched(spec, tmp_path / "marks", delay_s=0.1)
    done, killed = [], []

    def kill(step: Step) -> None:
        done.append(step.shard)
        if len(done) in (1, 4, 8):
            alive = [pid for pid in processes_of(tmp_path / "marks") if Path(f"/proc/{pid}").exists()]
            os.kill(alive[-1], signal.SIGKILL)
            killed.append(alive[-1])

    with occupied(1):
        render_with(scenes, kill)

    assert len(set(killed)) == 3
    assert sorted(done) == list(range(12))
    assert is_whole(spec, whole)


def test_a_shard_that_kills_its_workers_ends_the_run(cluster, stores, tmp_path):
    """The third time, naming the shard and its items; what is finished stays, and the rest can be rendered."""
    spec = small_spec(tmp_path, stores, "items=6", "output.items_per_shard=2")
    with (
        occupied(2),
        pytest.raises(DatasetError, match=r"^shard 00001 \(items 2 to 3\) ended its worker 3 times \(.+\)"),
    ):
        render_with(Fatal(spec, 3, "exit"))
    assert left_over(tmp_path / "out") == []
    report = render(spec)

    assert (report.kept_shards, report.new_shards) == (1, 2)
    assert open_dataset(report.path).verify() == []


def test_errors_come_back_as_themselves(cluster, stores, tmp_path):
    """An error of ours, and one of the system with the file it is about; nothing of a shard stays behind."""
    spec = small_spec(tmp_path, stores, "items=2")
    with pytest.raises(MixError, match=r"^the item is too much$"):
        render_with(Fatal(spec, 1, "refused"))
    with pytest.raises(OSError, match="No space left on device: 'out/audio'") as caught:
        render_with(Fatal(spec, 1, "full disk"))
    assert type(caught.value) is OSError
    assert left_over(tmp_path / "out") == []
    assert not (tmp_path / "out/receipts").exists()


def test_failed_items_are_listed(cluster, tmp_path, stores):
    """Reasons and counts are those of one thread, and progress tells them."""
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        for i in range(6):
            writer.add(tone_clip(i, 900.0), clip_columns("Parus major", i, 900.0))
        silent = {**clip_columns("Parus major", 7, 900.0), "active_start": 0, "active_end": 200}
        writer.add(np.concatenate([np.zeros(200), tone_clip(9, 900.0)[700:1400]]), silent)
    bank = (f"bank={tmp_path / 'bank'}", "classes.per_scene=1", "events.resample=1", "empty_share=0")
    (tmp_path / "here").mkdir()
    steps: list[Step] = []
    here = render(small_spec(tmp_path / "here", stores, *bank))
    with occupied(2):
        there = render(small_spec(tmp_path, stores, *bank), ray="auto", progress=steps.append)

    assert there.counts == here.counts
    assert there.failures == here.failures
    assert sum(step.failed for step in steps) == there.counts["failed"] > 0


def test_a_node_with_other_software_is_refused(cluster, stores, tmp_path):
    """Versions are named; so is other code of the same version, as of an editable install elsewhere."""
    spec = small_spec(tmp_path, stores, "items=2")
    metadata = tmp_path / "code/numba-0.1.dist-info/METADATA"
    shutil.copytree(Path(synthscape.__file__).parent, tmp_path / "code/synthscape")
    with (tmp_path / "code/synthscape/units.py").open("a") as file:
        file.write("# changed\n")
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.1\n")
    path = os.pathsep.join([str(tmp_path / "code"), os.environ["PYTHONPATH"]])
    said = (
        rf"^node \S+ has numba 0\.1, not \d[^;]+; code \w+, not \w+ \(in {tmp_path}/code/synthscape\): "
        "install the same on all nodes$"
    )
    with occupied(3):
        node = cluster.add_node(**NODE, env_vars={"PYTHONPATH": path})
        try:
            with pytest.raises(DatasetError, match=said):
                render(spec, ray="auto")
        finally:
            cluster.remove_node(node)


def test_stores_a_node_does_not_see(cluster, stores, tmp_path):
    """The error names node and store."""
    scenes = SceneGenerator(small_spec(tmp_path, stores, "items=2"))
    scenes.spec = replace(scenes.spec, bank=str(tmp_path / "none"))
    with pytest.raises(StoreError, match=r"^node \S+: bank: .+/none does not exist"):
        render_with(scenes)


@pytest.mark.parametrize("stale", [False, True])
def test_a_folder_nodes_do_not_share(cluster, stores, tmp_path, monkeypatch, stale):
    """Refused before anything is rendered; or, where an old copy of the folder is there, after the first shard."""
    monkeypatch.setattr(on_ray, "_ARRIVAL_S", 1.0)
    other = tmp_path / "other"
    if stale:
        other.mkdir()

    def elsewhere(folder: DatasetFolder) -> DatasetFolder:
        if stale:
            shutil.copy(tmp_path / "out/render.json", other)
        return DatasetFolder(Elsewhere(tmp_path / "out", other), folder.origin)

    with pytest.raises(DatasetError, match=r"/o\w+: what is there on node \S+ is not .* a folder that all nodes share"):
        render_with(SceneGenerator(small_spec(tmp_path, stores, "items=2")), folder_of=elsewhere)
    assert other.exists() == stale


@pytest.fixture(scope="module")
def long(stores, tmp_path_factory) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Overrides of a dataset that takes a while, and what it holds."""
    folder = tmp_path_factory.mktemp("long")
    overrides = (f"items={8 * LONG}", "output.items_per_shard=8")
    render(small_spec(folder, stores, *overrides))
    return overrides, without_place(contents(folder / "out"))


def test_the_driver_is_stopped(cluster, stores, tmp_path, long):
    """Ctrl-C ends with 130, one line, and nothing unfinished; after kill -9, too, the same command goes on."""
    overrides, whole = long
    command = (*SYNTHSCAPE, "render", str(write_spec(tmp_path, stores)), *overrides, "--ray", cluster.address)
    receipts = tmp_path / "out/receipts"

    def stopped(how: signal.Signals) -> tuple[int, str, str]:
        before = len(list(receipts.iterdir())) if receipts.exists() else 0
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=unignored
        )
        while driver.poll() is None and not (receipts.exists() and len(list(receipts.iterdir())) > before + 4):
            time.sleep(0.01)
        driver.send_signal(how)
        said, complaint = driver.communicate()
        assert before + 4 < len(list(receipts.iterdir())) < LONG
        return driver.returncode, said, complaint

    with occupied(2):
        code, said, complaint = stopped(signal.SIGINT)
        assert (code, said) == (130, "")
        assert re.fullmatch(r"synthscape: interrupted; the same command goes on from here \(.+ finished\)\n", complaint)
        assert left_over(tmp_path / "out") == []
        assert stopped(signal.SIGKILL)[0] == -signal.SIGKILL
        again = subprocess.run(command, capture_output=True, text=True)

    assert again.returncode == 0
    assert all(line.startswith("synthscape: ") for line in again.stderr.splitlines())  # nothing of Ray's
    assert left_over(tmp_path / "out") == []
    assert without_place(contents(tmp_path / "out")) == whole


def test_no_cluster(stores, tmp_path):
    """One line says what was looked for, and what to do; nothing is written."""
    spec = str(write_spec(tmp_path, stores))
    for address, expected in (
        ("127.0.0.1:9", "synthscape: ray: no cluster at 127.0.0.1:9 (Connection refused); start one with `ray start"),
        ("ray://somewhere:10001", "synthscape: ray: expected auto, local or HOST:PORT, got 'ray://somewhere:10001'"),
    ):
        command = (*SYNTHSCAPE, "render", spec, "--ray", "auto")
        ended = subprocess.run(command, env={**os.environ, "RAY_ADDRESS": address}, capture_output=True, text=True)

        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith(expected)
        assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_cluster_of_ones_own(stores, tmp_path):
    """``--ray local`` starts one, and ends it; it reports no usage to anyone, and prints nothing."""
    script = """
import os, sys
from pathlib import Path
from synthscape.scale.render import render
from synthscape.spec import load_spec

def look(step):
    import ray
    print(ray.is_initialized())
    for child in " ".join(file.read_text() for file in Path("/proc/self/task").glob("*/children")).split():
        print(b"RAY_USAGE_STATS_ENABLED=0" in Path("/proc", child, "environ").read_bytes())

report = render(load_spec(sys.argv[1], ["items=2"]), ray="local", progress=look)
import ray
print(ray.is_initialized(), report.new_shards)
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", script, str(write_spec(tmp_path, stores))]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")
    said = ended.stdout.split()
    assert len(said) > 4
    assert said == ["True"] * (len(said) - 2) + ["False", "1"]
