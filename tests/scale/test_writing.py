"""The thread that writes while others mix: what it can't write is told, and nothing half-written stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthscape.scale.progress import Step
from synthscape.scale.render import render
from tests.small_dataset import contents, make_stores, small_spec


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_shard_that_can_not_be_put_in_its_place_ends_the_render(stores, tmp_path, workers):
    """A file stands where the folder of the audio should: the error comes through, the next render goes on."""
    spec = small_spec(tmp_path, stores, "items=40", "output.items_per_shard=8")
    render(small_spec(tmp_path, stores, "items=8", "output.items_per_shard=8"))
    there = {path: path.read_bytes() for path in (tmp_path / "out" / "events").iterdir()}
    (tmp_path / "out" / "facts").rename(tmp_path / "facts")
    (tmp_path / "out" / "facts").write_text("in the way")
    with pytest.raises(OSError, match="facts"):
        render(spec, workers=workers)

    assert not list((tmp_path / "out").rglob(".aside-*"))
    assert all(path.read_bytes() == content for path, content in there.items())
    (tmp_path / "out" / "facts").unlink()
    (tmp_path / "facts").rename(tmp_path / "out" / "facts")
    render(spec, workers=workers)
    resumed = contents(tmp_path / "out")
    render(spec, workers=1, overwrite=True)
    assert contents(tmp_path / "out") == resumed


@pytest.mark.parametrize("workers", [1, 2])
def test_shards_are_told_when_they_exist(stores, tmp_path, workers):
    """Each once, in order, its receipt in place, its items told before."""
    told: list[int] = []
    items = 0

    def look(step: Step) -> None:
        nonlocal items
        items += step.items
        if step.shard is not None:
            assert (tmp_path / "out" / "receipts" / f"{step.shard:05d}.json").is_file()
            assert items >= min(8 * (step.shard + 1), 23)
            assert items <= 8 * (step.shard + workers)  # with one worker, before the next is begun
            told.append(step.shard)

    render(small_spec(tmp_path, stores, "output.items_per_shard=8"), workers=workers, progress=look)

    assert told == [0, 1, 2]
    assert items == 23
