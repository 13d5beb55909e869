"""Which engine renders, and what is refused before one is asked."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from synthscape.errors import SpecError
from synthscape.scale.render import render, render_shard
from tests.small_dataset import contents, make_stores, small_spec


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


def test_inline_renders_in_the_callers_thread(stores, tmp_path):
    """No other thread mixes or writes, however many cores there are, and files are those of threads.

    Only the disk is waited for by others.
    """
    (tmp_path / "inline").mkdir()
    (tmp_path / "threads").mkdir()
    threads = set()

    def look(_):
        ours = {thread.name for thread in threading.enumerate() if thread.name.startswith("synthscape")}
        threads.update(name for name in ours if not name.startswith("synthscape-sync"))

    render(small_spec(tmp_path / "inline", stores, "engine=inline"), progress=look)
    assert not threads
    render(small_spec(tmp_path / "threads", stores, "engine=threads"), workers=2, progress=look)
    assert threads
    inline, threaded = (contents(tmp_path / name / "out") for name in ("inline", "threads"))
    assert inline.pop("dataset.json") != threaded.pop("dataset.json")  # the folder is named there
    assert inline == threaded


def test_shards_one_by_one_make_the_dataset(stores, tmp_path):
    """Jobs that render a shard each, whatever the spec's engine, leave nothing to do but to sum up."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "whole").mkdir()
    spec = small_spec(tmp_path / "jobs", stores, "engine=ray")
    for k in (2, 0, 1):
        receipt = render_shard(spec, k, workers=1)
        assert (receipt["shard"], receipt["first"]) == (k, 8 * k)
    summed = render(small_spec(tmp_path / "jobs", stores, "engine=inline"))
    whole = render(small_spec(tmp_path / "whole", stores))

    assert (summed.new_shards, summed.kept_shards) == (0, 3)
    assert summed.info["content_hash"] == whole.info["content_hash"]


def test_what_engines_refuse(stores, tmp_path):
    """Threads that would not be used, devices that only nodes know; nothing is written."""
    inline, ray = (small_spec(tmp_path, stores, f"engine={name}") for name in ("inline", "ray"))
    with pytest.raises(SpecError, match="inline renders in one thread, workers asks for 2; set engine=threads"):
        render(inline, workers=2)
    with pytest.raises(SpecError, match="workers: expected 1 or more, got 0"):
        render(ray, workers=0)
    with pytest.raises(SpecError, match=r"device auto: .* say cpu or cuda"):
        render(ray, device="auto")
    with pytest.raises(SpecError, match="device 'cuda:1': on Ray, each actor has a GPU of its own"):
        render(ray, device="cuda:1")
    assert not (tmp_path / "out").exists()


def test_ray_is_not_installed(stores, tmp_path, monkeypatch):
    """What to install is said in one line."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "synthscape.scale.on_ray", raising=False)
    with pytest.raises(SpecError, match=r"pip install synthscape\[ray\]"):
        render(small_spec(tmp_path, stores), ray="local")
