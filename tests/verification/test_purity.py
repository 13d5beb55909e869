"""The same scenes, however they are made: pieces, orders, batches, shards, threads, processes, kinds of CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthscape import Dataset, SceneGenerator, Spec, load_spec, open_dataset
from synthscape.plan.plan import PLAN_VERSION
from tests.verification.commands import synthscape
from tests.verification.golden import FILE, golden_scenes
from tests.verification.measure import pcm16, pcm_hash

ROOT = Path(__file__).resolve().parents[2]
ITEMS = 40

PLAN = """
import sys
import numpy as np
from synthscape import SceneGenerator, load_spec
scenes = SceneGenerator(load_spec(sys.argv[1], sys.argv[4:]))
print(scenes.plan(range(3000)).hash())
if sys.argv[3] != "0":
    np.save(sys.argv[2], np.concatenate([scenes.render([i]).audio[0] for i in range(int(sys.argv[3]))]))
"""


@pytest.fixture(scope="module")
def overrides(demo_bank: tuple[Path, Path]) -> tuple[str, ...]:
    """Short scenes that use much of what there is."""
    bank, backgrounds = demo_bank
    varied = ("duration={uniform: [1, 4]}", "events.edges=truncate", "events.reverse=0.2", "empty_share=0.125")
    rates = ("events.resample={loguniform: [0.8, 1.25]}", "events.rate={uniform: [0.2, 1]}")
    return (f"bank={bank}", f"backgrounds={backgrounds}", *varied, *rates)


@pytest.fixture(scope="module")
def spec(overrides: tuple[str, ...]) -> Spec:
    """The spec that the overrides make."""
    return load_spec("strong_detection", overrides)


@pytest.fixture(scope="module")
def whole(overrides: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The dataset, rendered in one go on one thread."""
    out = tmp_path_factory.mktemp("purity") / "whole"
    synthscape("render", "strong_detection", *overrides, f"items={ITEMS}", f"output.dir={out}", "--workers", 1)
    return open_dataset(out)


def hashes_of_files(data: Dataset) -> dict[str, str]:
    """Hash of the samples of every file, by scene."""
    return {name: pcm_hash(pcm16(data.audio(name))) for name in data.scenes["scene_id"]}


def assert_same(one: Dataset, other: Dataset) -> None:
    """Tables and samples are identical; only the folder that a file lies in may differ."""
    pd.testing.assert_frame_equal(one.events, other.events, check_exact=True)
    scenes = [data.scenes.drop(columns="audio") for data in (one, other)]
    pd.testing.assert_frame_equal(*scenes, check_exact=True)
    assert hashes_of_files(one) == hashes_of_files(other)
    assert one.scenes["pcm_hash"].tolist() == list(hashes_of_files(other).values())


def test_rendered_in_pieces(whole: Dataset, overrides: tuple[str, ...], tmp_path: Path) -> None:
    """Items raised step by step, on two threads, give the dataset of one go."""
    for items in (7, 19, ITEMS):
        options = (f"items={items}", f"output.dir={tmp_path / 'out'}", "--workers", 2)
        synthscape("render", "strong_detection", *overrides, *options)

    assert_same(whole, open_dataset(tmp_path / "out"))


def test_rendered_in_other_shards(whole: Dataset, overrides: tuple[str, ...], tmp_path: Path) -> None:
    """Shards of 16, in another folder, hold the same scenes."""
    options = (f"items={ITEMS}", f"output.dir={tmp_path / 'elsewhere'}", "output.items_per_shard=16", "--workers", 2)
    synthscape("render", "strong_detection", *overrides, *options)

    assert_same(whole, open_dataset(tmp_path / "elsewhere"))


@pytest.mark.parametrize("size", [1, 3, ITEMS])
def test_any_order_and_batch_size(whole: Dataset, spec: Spec, size: int) -> None:
    """In memory, in an order and in batches that nobody would choose, the scenes are those on disk."""
    order = np.random.default_rng(size).permutation(ITEMS).tolist()
    generator = SceneGenerator(spec)
    batches = [generator.render(order[i : i + size], stems=size == 3) for i in range(0, ITEMS, size)]
    events = pd.concat([batch.events for batch in batches if len(batch.events)])
    scenes = pd.concat([batch.scenes for batch in batches]).sort_values("scene_number", ignore_index=True)
    hashes = {
        name: pcm_hash(pcm16(batch.audio[i, : batch.plan.n_samples[i]]))
        for batch in batches
        for i, name in enumerate(batch.scenes["scene_id"])
    }

    in_order = events.sort_values(["scene_id", "event_id"], ignore_index=True)
    pd.testing.assert_frame_equal(in_order, whole.events, check_exact=True)
    assert scenes["pcm_hash"].tolist() == whole.scenes["pcm_hash"].tolist()
    assert hashes == hashes_of_files(whole)


def test_another_seed_shares_no_scene(whole: Dataset, overrides: tuple[str, ...]) -> None:
    """No non-empty scene of two seeds, or of two epochs, has the same samples."""
    other = SceneGenerator(load_spec("strong_detection", [*overrides, "seed=8"])).render(range(ITEMS)).scenes
    numbers = [2**40 + i for i in range(ITEMS)]
    later = SceneGenerator(load_spec("strong_detection", overrides)).render(numbers).scenes
    hashes = [set(table.loc[table["n_events"] > 0, "pcm_hash"]) for table in (whole.scenes, other, later)]

    assert min(len(found) for found in hashes) > ITEMS // 2
    assert len(set.union(*hashes)) == sum(len(found) for found in hashes)


def elsewhere(work: Path, spec: tuple[str, ...], n_audio: int, **environment: str) -> tuple[str, Path]:
    """Plan 3000 scenes, and render some, in a process with another environment: the plan's hash, and a file."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    ended = subprocess.run(
        [sys.executable, "-c", PLAN, "strong_detection", str(work / "audio.npy"), str(n_audio), *spec],
        env=os.environ | {"PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip(), work / "audio.npy"


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a process that computes as on a plain CPU of 2003: no AVX, no FMA.

    To compile kernels for it takes a minute: the next run finds them. What numba keeps goes by all kernels' source, its
    own version and the CPU; in a folder of their own they are never mixed up with those of another.
    """
    cache = getattr(request.config, "cache", None)  # there is none with -p no:cacheprovider
    folder = cache.mkdir("kernels-generic") if cache else tmp_path_factory.mktemp("kernels")
    return {"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(folder), "NPY_DISABLE_CPU_FEATURES": simd_found()}


def simd_found() -> str:
    """What NumPy chose for this CPU beyond its baseline, for NPY_DISABLE_CPU_FEATURES."""
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]
    return " ".join(extensions.get("found", []))


def test_plans_do_not_depend_on_the_cpu(spec: Spec, overrides: tuple[str, ...], tmp_path: Path) -> None:
    """Without NumPy's AVX2 and AVX-512 the plan of 3000 scenes has the same hash."""
    here = SceneGenerator(spec).plan(range(3000)).hash()
    there, _ = elsewhere(tmp_path, overrides, 0, NPY_DISABLE_CPU_FEATURES=simd_found())

    assert there == here


def test_audio_of_another_kind_of_cpu(
    spec: Spec, overrides: tuple[str, ...], tmp_path: Path, plain: dict[str, str]
) -> None:
    """Kernels compiled for a plain CPU give the same plan, and samples within 1 LSB, over 99.9 % of them equal."""
    generator = SceneGenerator(spec)
    here = np.concatenate([generator.render([i]).audio[0] for i in range(ITEMS)])
    plan_hash, file = elsewhere(tmp_path, overrides, ITEMS, **plain)
    difference = np.abs(pcm16(np.load(file)).astype(int) - pcm16(here))
    print(f"{(difference > 0).sum()} of {len(difference)} samples differ")

    assert plan_hash == generator.plan(range(3000)).hash()
    assert difference.max() <= 1
    assert (difference == 0).mean() > 0.999


def test_golden_scenes(tmp_path: Path) -> None:
    """Plan and samples of eight scenes are those that this plan version has always given."""
    golden, made = json.loads(FILE.read_text(encoding="utf-8")), golden_scenes(tmp_path)

    assert golden["plan_version"] == PLAN_VERSION, "write the golden file anew: python -m tests.verification.golden"
    assert made == golden, "a change of output needs a new PLAN_VERSION"


def test_golden_scenes_on_a_plain_cpu(plain: dict[str, str]) -> None:
    """Kernels compiled for a plain CPU give the golden plan and samples too, bit for bit."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.verification.golden", "--print"],
        cwd=ROOT,
        env=os.environ | plain,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == json.loads(FILE.read_text(encoding="utf-8"))
