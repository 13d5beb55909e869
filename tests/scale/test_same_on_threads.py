"""Any number of threads gives the same dataset, in every format."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthscape.output.dataset import open_dataset
from synthscape.scale import shard
from synthscape.scale.render import render
from tests.scale.tiny import FORMATS, held, leftovers, tiny_spec

ITEMS = "items=30"
#: How a dataset may be written: each format with each kind of audio that could make a difference.
WAYS = [*((f"output.format={name}",) for name in FORMATS), ("output.audio=wav",), ("output.audio=none",)]


@pytest.fixture(scope="module", params=WAYS, ids=" ".join)
def way(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """One way to write a dataset."""
    return request.param


@pytest.fixture(scope="module")
def inline(way, tiny_stores, tmp_path_factory) -> Path:
    """The dataset, rendered in the caller's thread."""
    folder = tmp_path_factory.mktemp("inline")
    render(tiny_spec(folder, tiny_stores, ITEMS, "engine=inline", *way))
    return folder / "out"


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_threads_change_no_byte(way, inline, tiny_stores, tmp_path, monkeypatch, workers):
    """Every file of the dataset is the same on 1, 2, 3, 5 and 8 threads as in the caller's, in every format.

    But for the engine, which the spec in dataset.json and the card may name.
    """
    monkeypatch.setattr(shard, "_BATCH_SAMPLES", 3000)  # so that a shard is more than one batch
    render(tiny_spec(tmp_path, tiny_stores, ITEMS, *way), workers=workers)
    rendered, expected = held(tmp_path / "out"), held(inline)
    differing = {name for name in expected if rendered.get(name) != expected[name]}

    assert rendered.keys() == expected.keys()
    assert differing <= {"dataset.json", "README.md"}
    assert open_dataset(tmp_path / "out").info["content_hash"] == open_dataset(inline).info["content_hash"]
    assert leftovers(tmp_path / "out") == []


def test_the_dataset_is_varied(inline):
    """The comparison is worth something: shards of several scenes with events, not all alike."""
    data = open_dataset(inline)

    assert len(data) == 30
    assert data.scenes["pcm_hash"].nunique() == 30
    assert len(data.events) >= 20
