"""Stores whose tables or headers say what is not so: kernels read by them, so they are refused, never followed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synthscape.bank.inspect import check
from synthscape.bank.store import ClipStore
from synthscape.errors import PlanError, StoreError
from synthscape.tasks.generator import SceneGenerator

RESAMPLED = "events.resample={uniform: [0.5, 2]}"
AS_TRACKS = ("events.group=track", "events.resample=1", "events.reverse=0")


def _with_column(store: ClipStore, folder: Path, name: str, values: pa.Array) -> Path:
    shutil.copytree(store.path, folder)
    table = pq.read_table(folder / "clips.parquet")
    table = table.set_column(table.column_names.index(name), name, values)
    pq.write_table(table, folder / "clips.parquet")
    return folder


def _saying(store: ClipStore, folder: Path, **said: Any) -> Path:
    shutil.copytree(store.path, folder)
    content = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps({**content, **said}))
    return folder


@pytest.mark.parametrize(
    ("name", "value", "overrides"),
    [
        ("start", -1, ()),
        ("start", 2**40, ()),
        ("length", 0, ()),
        ("length", -5, ()),
        ("length", 2**40, ()),
        ("length", 1, ()),
        ("active_start", -5, ()),
        ("active_end", 2**40, ()),
        ("active_end", 0, ()),
        ("low_hz", float("nan"), ()),
        ("high_hz", float("inf"), ()),
        ("signal_share", float("nan"), ()),
        ("signal_share", -1.0, ()),
        ("min_ratio_index", 300, (RESAMPLED,)),
        ("min_ratio_index", -7, (RESAMPLED,)),
        ("track_onset_s", 1e300, AS_TRACKS),
    ],
)
def test_extents_and_numbers_are_checked_before_kernels_use_them(bank, spec_of, tmp_path, name, value, overrides):
    """A clip outside its audio, a NaN share, a ratio off the grid (read past arrays) is refused."""
    values = bank.columns([name])[name].to_pylist()
    values[3] = value
    lying = _with_column(bank, tmp_path / "lying", name, pa.array(values, bank.columns([name]).schema.field(name).type))
    generator = SceneGenerator(spec_of(f"bank={lying}", *overrides))

    with pytest.raises(StoreError, match=r"lying.*copy it again"):
        generator.render(range(3))
    assert check(ClipStore.open(lying))


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.list_(pa.int64())])
def test_a_column_of_another_type_is_refused_when_opening(bank, tmp_path, kind):
    """A table of another program may call a column as ours and hold something else in it."""
    lying = _with_column(bank, tmp_path / "lying", "length", pa.nulls(len(bank), kind))

    with pytest.raises(StoreError, match="'length' should hold int64, got"):
        ClipStore.open(lying)


@pytest.mark.parametrize(
    "said",
    [
        {"audio": []},
        {"audio": [{"name": "..", "n_samples": 2048}]},
        {"audio": [{"name": "audio-00000.i16", "n_samples": -5}]},
        {"band_edges_hz": []},
        {"band_edges_hz": [0.0, "x"]},
        {"band_edges_hz": [[0], [1]]},
        {"sample_rate": 2**70},
        {"n_blocks": 2**62},
        {"filled": {"species": "all"}},
    ],
)
def test_a_header_of_another_store_is_refused(bank, spec_of, tmp_path, said):
    """What ``store.json`` says is compared with what is there, and never used as it stands."""
    lying = _saying(bank, tmp_path / "lying", **said)

    with pytest.raises(StoreError, match="lying"):
        SceneGenerator(spec_of(f"bank={lying}")).render([0])


def test_a_header_without_end_is_refused(bank, tmp_path):
    """JSON nested past what Python reads is a damaged store, not a RecursionError."""
    lying = _saying(bank, tmp_path / "lying")
    (lying / "store.json").write_text("[" * 100_000)

    with pytest.raises(StoreError, match="damaged"):
        ClipStore.open(lying)


def test_backgrounds_without_a_recorded_level(backgrounds, spec_of, tmp_path):
    """With backgrounds as recorded, those of unknown level are left out and counted; not every scene fails later."""
    peaks = backgrounds.columns(["peak"])["peak"].to_pylist()
    some = _with_column(backgrounds, tmp_path / "some", "peak", pa.array([None, *peaks[1:]], pa.float64()))
    none = _with_column(backgrounds, tmp_path / "none", "peak", pa.nulls(len(backgrounds), pa.float64()))
    scenes = SceneGenerator(spec_of(f"backgrounds={some}", "background.level_dbfs=null"))
    rows = np.unique(scenes.plan(range(50)).background)

    assert scenes.planner.filtered == {"backgrounds without a recorded level": 1}
    assert 0 not in rows
    assert not scenes.render(range(5)).batch.failures
    with pytest.raises((StoreError, PlanError), match=r"peak|recorded level"):
        SceneGenerator(spec_of(f"backgrounds={none}", "background.level_dbfs=null")).plan([0])
