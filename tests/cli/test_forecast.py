"""What ``synthscape plan`` says of size, time and nodes: its arithmetic by hand, its measure beside a real render."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from synthscape.cli.forecast import forecast, forecast_lines
from synthscape.errors import SpecError
from synthscape.scale.nodes import nodes_for, on_nodes, storage
from synthscape.scale.rates import Rates
from synthscape.scale.render import render
from tests.small_dataset import make_stores, small_spec

RATES = Rates(
    cores=4,
    items=300,
    item_s=0.01,
    encode_s=0.006,
    efficiency=0.8,
    shard_s=0.05,
    setup_s=2.0,
    receipt_s=0.0001,
    item_bytes={"audio": 200_000.0, "tables": 1000.0, "beside": 0.0, "receipts": 1.0},
    shard_bytes={"audio": 500.0, "tables": 70_000.0, "beside": 0.0, "receipts": 2000.0},
    item_files=0.0,
    shard_files=7.0,
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


def test_size_is_that_of_items_and_shards():
    """1000 items in shards of 300 are 4 shards; each group is a line in both."""
    size = storage(RATES, 1000, 300)

    assert (size["shards"], size["files"]) == (4, 28)
    assert size["audio_bytes"] == 200_002_000
    assert size["tables_bytes"] == 1_280_000
    assert size["receipts_bytes"] == 9000
    assert size["bytes"] == 200_002_000 + 1_280_000 + 9000


def test_one_node_like_this_renders_shard_after_shard_on_all_cores():
    """10 000 items of 10 ms and 100 shards of 50 ms, on 4 cores that do the work of 3.2."""
    on = on_nodes(RATES, 10_000, 100, 1, 4)

    wall_s = 2 + (10_000 * 0.01 + 100 * 0.05) / 3.2
    assert on["workers"] == 1
    assert on["wall_hours"] * 3600 == pytest.approx(wall_s)
    assert on["node_hours"] == on["wall_hours"]
    assert on["core_hours"] * 3600 == pytest.approx(10_000 * 0.01 + 100 * 0.05)
    assert on["busy"] == pytest.approx(1 - 2 / wall_s)
    assert on["bytes_per_s"] == pytest.approx(storage(RATES, 10_000, 100)["bytes"] / wall_s)
    assert on["encode_share"] == pytest.approx(0.6)
    assert on["limit"] == "cpu"


def test_several_nodes_render_in_rounds():
    """10 shards on 2 nodes of 4 cores: 8 in a first round, 2 in a second, while 6 workers have nothing to do."""
    on = on_nodes(RATES, 10_000, 1000, 2, 4)

    shard_s = (1000 * 0.01 + 0.05) / 0.8
    wall_s = 2 + 2 * shard_s
    assert on["workers"] == 8
    assert on["wall_hours"] * 3600 == pytest.approx(wall_s)
    assert on["node_hours"] * 3600 == pytest.approx(2 * wall_s)
    assert on["busy"] == pytest.approx(10 * shard_s / (8 * wall_s))
    assert on["limit"] == "idle"


@pytest.mark.parametrize(
    ("limit", "change", "nodes", "seconds"),
    [
        ("network", {"item_bytes": dict.fromkeys(RATES.item_bytes, 5e8)}, 4, 4 * 5e8 * 1e6 / (4 * 1.25e9)),
        ("files", {"item_files": 10.0}, 100, 1e7 / 3500),
        ("scheduler", {"receipt_s": 10.0}, 100, 1000 * 10),
    ],
)
def test_what_is_slowest_is_the_limit(limit, change, nodes, seconds):
    """A network, a store or receipts that take longer than rendering decide how long it takes, and are named."""
    on = on_nodes(replace(RATES, **change), 1_000_000, 1000, nodes, 32)

    assert on["limit"] == limit
    assert on["wall_hours"] * 3600 == pytest.approx(seconds, rel=0.01)
    assert on["busy"] < 1


def test_a_folder_of_this_machine_has_no_network():
    """Files and bytes of a local folder are in what was measured; on a server they count by themselves."""
    rates = replace(RATES, item_files=1000.0)

    assert on_nodes(rates, 10_000, 100, 1, 4)["limit"] == "cpu"
    assert on_nodes(rates, 10_000, 100, 1, 4, on_server=True)["limit"] == "files"


@pytest.mark.parametrize("hours", [0.01, 0.02, 0.1, 0.5, 3])
def test_nodes_for_some_hours_are_the_least(hours):
    """One node less would not be done."""
    nodes = nodes_for(RATES, 200_000, 100, hours, 4)

    assert nodes is not None
    times = {n: on_nodes(RATES, 200_000, 100, n, 4)["wall_hours"] for n in range(1, nodes + 1)}
    assert times[nodes] <= hours
    assert all(times[n] > hours for n in range(1, nodes))


def test_no_number_of_nodes_beats_a_shard():
    """A shard is rendered by one core: 100 items take 1.3 s and the set-up 2 s."""
    assert nodes_for(RATES, 200_000, 100, 4 / 3600, 4) is not None
    assert nodes_for(RATES, 200_000, 100, 3 / 3600, 4) is None


@pytest.mark.parametrize(
    ("items", "per_shard", "nodes", "because"),
    [(100_000, 10_000, 8, "few"), (1_000_000, 10, 2, "small"), (100_000, 512, 2, None), (1000, 512, 1, None)],
)
def test_a_better_size_of_shards_is_told(items, per_shard, nodes, because):
    """Too few shards leave workers idle, too small ones cost more than their items; then the suggested is faster."""
    on = on_nodes(RATES, items, per_shard, nodes, 4)
    better = on["suggested_items_per_shard"]

    if because is None:
        assert better is None
        return
    assert better < per_shard if because == "few" else better > per_shard
    then = on_nodes(RATES, items, better, nodes, 4)
    assert then["wall_hours"] < 0.9 * on["wall_hours"]
    assert then["suggested_items_per_shard"] is None


@pytest.mark.parametrize("output", ["parquet", "webdataset", "folder", "none"])
def test_size_is_that_of_a_render(stores, tmp_path, output):
    """Bytes within a tenth, and the very number of files, in several shards of every format."""
    more = ["output.audio=none"] if output == "none" else [f"output.format={output}"]
    spec = small_spec(tmp_path, stores, "items=120", "output.items_per_shard=40", *more)
    size = forecast(spec, 120)["storage"]
    render(spec)

    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.parent != tmp_path / "out"]
    assert size["shards"] == 3
    assert size["files"] == len(files)
    assert size["bytes"] == pytest.approx(sum(path.stat().st_size for path in files), rel=0.1)


def test_what_is_measured_is_what_is_reckoned_with(stores, tmp_path):
    """Times follow from the rates told; nothing is left of what was rendered to measure them."""
    spec = small_spec(tmp_path, stores, "items=5000", "output.items_per_shard=100")
    before = sorted(path.name for path in tmp_path.iterdir())
    said = forecast(spec, 100, nodes=3, cores=8)
    rates, on = said["rates"], said["nodes"]

    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert rates["items"] > 1
    assert 0 < rates["encode_s"] < rates["item_s"]
    assert rates["efficiency"] > 0
    assert said["cpu_s"] == pytest.approx(5000 * rates["item_s"] + 50 * rates["shard_s"])
    rounds = -(-50 // (3 * 8))
    wall_s = rates["setup_s"] + rounds * (100 * rates["item_s"] + rates["shard_s"]) / rates["efficiency"]
    assert on["bounds_s"]["cpu"] == pytest.approx(wall_s)
    assert on["node_hours"] == pytest.approx(3 * max(on["bounds_s"].values()) / 3600)
    text = "\n".join(forecast_lines(said))
    assert "nodes     3 of 8 cores: " in text
    assert "assumed   each core is like one of this machine" in text
    json.dumps(said)


def test_hours_that_can_not_be_kept_are_refused(stores, tmp_path):
    """Less than a worker needs to start; and nodes with hours."""
    spec = small_spec(tmp_path, stores)
    with pytest.raises(SpecError, match=r"--hours 1e-09: no number of nodes.*items_per_shard"):
        forecast(spec, 10, hours=1e-9)
    with pytest.raises(SpecError, match="give one of them"):
        forecast(spec, 10, nodes=2, hours=1)
    assert forecast(spec, 10, hours=1)["nodes"]["nodes"] == 1
