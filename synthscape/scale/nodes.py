"""From what an item costs here to what a dataset costs on many machines: arithmetic, nothing is measured."""

from __future__ import annotations

from typing import Any, Final

from synthscape.scale.rates import GROUPS, Rates

NETWORK_BYTES_PER_S: Final = 1.25e9  # of a node: 10 Gb/s
STORE_FILES_PER_S: Final = 3500  # new files of one prefix, as S3 takes them
_SHARDS_A_WORKER: Final = 8  # or more; with fewer, many workers wait for the last ones
_SHARD_OVERHEAD: Final = 0.05  # of a shard's time, at most, for what it takes besides its items
_MOST_SHARDS: Final = 100_000
_LARGEST_SHARD: Final = 1_000_000  # as the schema has it
_IDLE: Final = 0.1  # from which on it is told


def storage(rates: Rates, items: int, items_per_shard: int) -> dict[str, Any]:
    """What a dataset takes: ``bytes`` in all, ``<group>_bytes``, ``files``, ``shards`` and ``items_per_shard``."""
    shards = -(-items // items_per_shard)
    groups = {
        f"{group}_bytes": round(items * rates.item_bytes[group] + shards * rates.shard_bytes[group]) for group in GROUPS
    }
    return {
        "bytes": sum(groups.values()),
        **groups,
        "files": round(items * rates.item_files + shards * rates.shard_files),
        "shards": shards,
        "items_per_shard": items_per_shard,
    }


def on_nodes(
    rates: Rates, items: int, items_per_shard: int, nodes: int, cores: int, *, on_server: bool = False
) -> dict[str, Any]:
    """How long nodes with so many cores take, and what holds them up.

    One node like this one renders shard after shard on all its cores, as was measured; otherwise each core renders
    shards of its own, as on Ray. The slowest of four decides: rendering (shards in rounds, as a worker renders one
    after the other), the network, new files, and the one process that reads all receipts.

    Args:
        rates: what items and shards cost on a core like those of the nodes.
        items: of the dataset.
        items_per_shard: as ``output`` has it.
        nodes: number of machines.
        cores: of each.
        on_server: one node writes to a server too, as several always do.

    Returns:
        ``nodes``, ``cores``, ``workers``, ``core_hours`` (of one core alone), ``wall_hours``, ``node_hours``, ``busy``
        (share of the nodes' time that is rendering), ``bytes_per_s`` and ``files_per_s`` in all, ``bounds_s`` (seconds
        of each of the four), ``limit`` (which is the largest, or ``idle``), ``encode_share`` of rendering, and
        ``suggested_items_per_shard`` (None: as it is).
    """
    size = storage(rates, items, items_per_shard)
    threads = cores if nodes == 1 and cores == rates.cores else 1  # of a worker
    workers = nodes * cores // threads
    speed = threads * rates.efficiency
    shard_s = (min(items_per_shard, items) * rates.item_s + rates.shard_s) / speed
    work_s = (items * rates.item_s + size["shards"] * rates.shard_s) / speed
    rounds = -(-size["shards"] // workers)
    away = on_server or nodes > 1
    bounds_s = {
        "cpu": rates.setup_s + min(rounds * shard_s, work_s),
        "network": size["bytes"] / (nodes * NETWORK_BYTES_PER_S) if away else 0.0,
        "files": size["files"] / STORE_FILES_PER_S if away else 0.0,
        "scheduler": size["shards"] * rates.receipt_s,
    }
    wall_s = max(bounds_s.values())
    busy = work_s / (workers * wall_s) if wall_s else 1.0
    limit = max(bounds_s, key=lambda name: bounds_s[name])
    if limit == "cpu" and min(rounds * shard_s, work_s) * workers > (1 + _IDLE) * work_s:
        limit = "idle"
    return {
        "nodes": nodes,
        "cores": cores,
        "workers": workers,
        "core_hours": (items * rates.item_s + size["shards"] * rates.shard_s) / 3600,
        "wall_hours": wall_s / 3600,
        "node_hours": nodes * wall_s / 3600,
        "busy": busy,
        "bytes_per_s": size["bytes"] / wall_s if wall_s else 0.0,
        "files_per_s": size["files"] / wall_s if wall_s else 0.0,
        "bounds_s": bounds_s,
        "limit": limit,
        "encode_share": rates.encode_s / rates.item_s if rates.item_s else 0.0,
        "suggested_items_per_shard": _suggested(rates, items, items_per_shard, workers),
    }


def nodes_for(
    rates: Rates, items: int, items_per_shard: int, hours: float, cores: int, *, on_server: bool = False
) -> int | None:
    """The least number of nodes that are done in so many hours; None if no number is."""

    def done(nodes: int) -> bool:
        wall_hours: float = on_nodes(rates, items, items_per_shard, nodes, cores, on_server=on_server)["wall_hours"]
        return wall_hours <= hours

    if done(1):
        return 1
    low, high = 2, max(2, -(-items // items_per_shard))  # a node a shard: more would have nothing to do
    if not done(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if done(middle) else (middle + 1, high)
    return low


def _suggested(rates: Rates, items: int, items_per_shard: int, workers: int) -> int | None:
    """A better ``items_per_shard``, where this one costs time: too few shards for all, or too small ones."""
    most = items if workers == 1 else max(1, items // (_SHARDS_A_WORKER * workers))
    worth = (1 / _SHARD_OVERHEAD - 1) * rates.shard_s / rates.item_s if rates.item_s else 1.0
    least = max(1, round(worth), -(-items // _MOST_SHARDS))
    best = min(max(items_per_shard, least), max(most, min(least, -(-items // workers))), _LARGEST_SHARD)
    return best if best != min(items_per_shard, items) else None
