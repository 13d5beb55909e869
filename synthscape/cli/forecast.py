"""What a dataset would hold and cost: planned in full or in part, some scenes rendered to learn size and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synthscape.cli.words import share
from synthscape.errors import SpecError
from synthscape.labels.batches import labelled_plan
from synthscape.output.audio import check_format
from synthscape.plan.plan import DB_STEPS, DROP_REASONS, NO_LEVEL, ScenePlan
from synthscape.scale.nodes import NETWORK_BYTES_PER_S, STORE_FILES_PER_S, nodes_for, on_nodes, storage
from synthscape.scale.rates import GROUPS, measure_rates
from synthscape.spec import Spec
from synthscape.storage import is_url
from synthscape.tasks.cast import Cast
from synthscape.tasks.generator import SceneGenerator

_CHUNK: Final = 1024
_BINS: Final = 12
_BAR: Final = 40


def forecast(
    spec: Spec,
    planned: int,
    progress: Callable[[int], None] | None = None,
    *,
    nodes: int | None = None,
    cores: int | None = None,
    hours: float | None = None,
) -> dict[str, Any]:
    """Plan the first ``planned`` items, render some, and scale their numbers to all items.

    Args:
        spec: what would be rendered.
        planned: how many items to plan.
        progress: told how many more are planned.
        nodes: machines to render on; one if None.
        cores: of each; as many as this machine's if None.
        hours: instead of ``nodes``: find the least number of them that are done by then.

    Returns:
        JSON content: ``items``, ``planned``, ``hours``, ``events``, ``bytes`` (of audio and what stands beside it),
        ``cpu_s`` (all of the whole dataset), ``asked`` and ``placed`` events, ``drop_reasons``, ``classes`` and
        ``histograms`` (of what was planned), ``rates`` (what was measured: :class:`synthscape.scale.rates.Rates`),
        ``storage`` and ``nodes`` (see :mod:`synthscape.scale.nodes`).

    Raises:
        SpecError: no number of nodes is done in so many hours; or both are given.
    """
    if nodes is not None and hours is not None:
        raise SpecError("--nodes and --hours: one follows from the other; give one of them")
    check_format(spec.output.audio, spec.sample_rate)
    scenes = SceneGenerator(spec)
    parts = []
    for start in range(0, planned, _CHUNK):
        parts.append(scenes.plan_items(range(start, min(start + _CHUNK, planned))))
        if progress:
            progress(min(_CHUNK, planned - start))
    plans = [part.scenes for part in parts]
    answers = Counter(_said(cast) for part in parts for cast in part.casts or ())
    labels = [labelled_plan(plan) for plan in plans]
    n_samples = _all(plan.n_samples for plan in plans)
    n_events = _all(np.diff(plan.event_offsets) for plan in labels)
    of_class = np.bincount(_all(plan.class_id for plan in labels), minlength=len(scenes.classes))
    drops = np.sum([plan.drops.sum(axis=0) for plan in plans], axis=0)
    ratios = _all(plan.ratio_p[plan.ratio] / plan.ratio_q[plan.ratio] for plan in plans)
    asked = sum(int(plan.n_asked.sum()) for plan in plans)
    factor = spec.items / planned
    rates = measure_rates(spec, float(n_samples.sum()) / planned)
    per_shard, on_server = spec.output.items_per_shard, is_url(spec.output.dir)
    size = storage(rates, spec.items, per_shard)
    cores = cores or rates.cores
    if hours is not None:
        enough = nodes_for(rates, spec.items, per_shard, hours, cores, on_server=on_server)
        if enough is None:
            shard_hours = (min(per_shard, spec.items) * rates.item_s + rates.shard_s) / rates.efficiency / 3600
            raise SpecError(
                f"--hours {hours:g}: no number of nodes is done by then; a shard of {min(per_shard, spec.items)} items "
                f"takes {shard_hours:.3g} h on one core: set a smaller output.items_per_shard, or allow more hours"
            )
        nodes = enough
    on = on_nodes(rates, spec.items, per_shard, nodes or 1, cores, on_server=on_server)
    return {
        "items": spec.items,
        "planned": planned,
        "scenes": round(factor * len(n_samples)),
        "failures": {scenes.item_id(n): reason for part in parts for n, reason in part.failures.items()},
        "scaled_up": planned < spec.items,
        "hours": factor * float(n_samples.sum()) / spec.sample_rate / 3600,
        "events": round(factor * int(n_events.sum())),
        "bytes": size["audio_bytes"] + size["beside_bytes"],
        "cpu_s": 3600 * on["core_hours"],
        "asked": asked,
        "placed": sum(int(plan.n_placed.sum()) for plan in plans),
        "drop_reasons": dict(zip(DROP_REASONS, drops.tolist(), strict=True)),
        "ratios_refused": sum(int(plan.n_ratios_refused.sum()) for plan in plans),
        "classes": [
            {"name": entry.name, "clips": entry.n_clips, "recordings": entry.n_recordings, "events": n}
            for entry, n in zip(scenes.classes, of_class.tolist(), strict=True)
        ],
        "answers": dict(sorted(answers.items())),
        "histograms": {
            "scene duration, s": _histogram(n_samples / spec.sample_rate),
            "events per scene": _histogram(n_events),
            **(
                {"SNR asked, dB": _histogram(_snr_db(labels))}
                if spec.events.level.mode == "snr"
                else {"source level, dB": _histogram(_all(plan.source_level_db for plan in plans) / DB_STEPS)}
            ),
            "ratio": _histogram(ratios),
        },
        "filtered": scenes.planner.filtered,
        "notes": scenes.planner.notes,
        "rates": asdict(rates),
        "storage": {"format": spec.output.format, "audio": spec.output.audio, **size},
        "nodes": {
            **on,
            "assumed": [
                f"each core is like one of this machine, and {cores} of them lose as much to each other as "
                f"{rates.cores} do here",
                "workers write as fast as this machine does to its temporary folder",
                "kernels are compiled, and stores lie on the nodes",
                *(["each core renders shards of its own, one thread each: --ray"] if on["workers"] > 1 else []),
                *_assumed_of_servers(on["nodes"] > 1 or on_server),
            ],
        },
    }


def forecast_lines(content: dict[str, Any]) -> list[str]:
    """The forecast as text."""
    lines = [
        f"items     {content['items']}",
        f"scenes    {content['scenes']}, {content['hours']:.3g} h",
        f"events    about {content['events']}" if content["scaled_up"] else f"events    {content['events']}",
        *_cost_lines(content),
        f"placed    {content['placed']} of {content['asked']} asked ({share(content['placed'], content['asked'])})",
    ]
    if content["scaled_up"]:
        lines.insert(
            0, f"planned   the first {content['planned']} of {content['items']} items; totals are scaled up from them"
        )
    lines += [
        f"dropped   {reason}: {n} ({share(n, content['asked'])})" for reason, n in content["drop_reasons"].items() if n
    ]
    if content["ratios_refused"]:
        lines.append(f"redrawn   {content['ratios_refused']} ratios their clips could not be played at")
    if content["failures"]:
        name, reason = next(iter(content["failures"].items()))
        lines.append(f"failed    {len(content['failures'])} items can't be planned, first {name}: {reason}")
    lines += [f"left out  {reason}: {n}" for reason, n in content["filtered"].items()]
    lines += [f"note      {note}" for note in content["notes"]]
    if content["answers"]:
        lines += ["", "answers", *_bars([(_printable(name), n) for name, n in content["answers"].items()])]
    lines += ["", "events by class"]
    lines += _bars([(_printable(entry["name"]), entry["events"]) for entry in content["classes"]])
    for name, bins in content["histograms"].items():
        lines += [
            "",
            name,
            *_bars([(f"{low:.4g} to {high:.4g}" if low < high else f"{low:.4g}", n) for low, high, n in bins]),
        ]
    return lines


def _assumed_of_servers(away: bool) -> list[str]:
    if not away:
        return []
    return [
        f"the network of a node takes {8 * NETWORK_BYTES_PER_S / 1e9:g} Gb/s, the store {STORE_FILES_PER_S} new files "
        "a second",
    ]


_LIMITS: Final = {
    "network": "the network",
    "files": "new files a second: output.format=parquet has few",
    "scheduler": "reading receipts: too many shards",
    "idle": "too few shards: nodes wait for the last ones",
}


def _cost_lines(content: dict[str, Any]) -> list[str]:
    rates, size, on = content["rates"], content["storage"], content["nodes"]
    groups = ", ".join(f"{group} {_bytes(size[f'{group}_bytes'])}" for group in GROUPS if size[f"{group}_bytes"])
    limit = _LIMITS.get(on["limit"], f"rendering, {100 * on['encode_share']:.0f} % of it encoding")
    lines = [
        f"size      about {_bytes(size['bytes'])} ({groups}) as {size['format']}",
        f"files     about {size['files']}, in {size['shards']} shards of {size['items_per_shard']} items",
        f"time      about {content['cpu_s']:.0f} s on one core",
        f"measured  {1000 * rates['item_s']:.3g} ms an item, {1000 * rates['encode_s']:.3g} of them to encode it; "
        f"{1000 * rates['shard_s']:.3g} ms a shard; {rates['setup_s']:.2g} s to set a worker up; "
        f"{rates['cores']} threads {rates['cores'] * rates['efficiency']:.3g} x one ({rates['items']} items rendered)",
        f"nodes     {on['nodes']} of {on['cores']} cores: {_hours(on['wall_hours'])}, "
        f"{on['node_hours']:.3g} node-hours, {100 * on['busy']:.0f} % of them rendering",
        f"writes    {_bytes(on['bytes_per_s'])}/s, {on['files_per_s']:.3g} files/s in all",
        f"limit     {limit}",
    ]
    if on["suggested_items_per_shard"] is not None:
        lines.append(f"better    output.items_per_shard={on['suggested_items_per_shard']} for so many nodes")
    return lines + [f"assumed   {what}" for what in on["assumed"]]


def _hours(hours: float) -> str:
    return f"{hours:.3g} h" if hours >= 1 else f"{60 * hours:.3g} min" if hours >= 1 / 60 else f"{3600 * hours:.3g} s"


def _said(cast: Cast) -> str:
    """What the answer is, for a count of them."""
    return cast.answer or ("None" if not cast.options[0].present else "times")


def _snr_db(plans: list[ScenePlan]) -> NDArray[Any]:
    steps = _all(plan.snr_db for plan in plans)
    asked: NDArray[Any] = steps[steps != NO_LEVEL] / DB_STEPS  # bare clips have none
    return asked


def _all(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(list(columns))


def _histogram(values: NDArray[Any]) -> list[tuple[float, float, int]]:
    """Bins as (from, to, number); single values where there are few of them."""
    distinct, numbers = np.unique(values, return_counts=True)
    if len(distinct) <= _BINS:
        return [(float(value), float(value), int(n)) for value, n in zip(distinct, numbers, strict=True)]
    if values.dtype.kind in "iu":  # bins of whole numbers, ends included
        width = -(-int(np.ptp(values) + 1) // _BINS)
        starts = range(int(values.min()), int(values.max()) + 1, width)
        return [(a, a + width - 1, int(((values >= a) & (values < a + width)).sum())) for a in starts]
    counts, edges = np.histogram(values, bins=_BINS)
    return [(float(a), float(b), int(n)) for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)]


def _bars(rows: list[tuple[str, int]]) -> list[str]:
    if not rows:
        return ["  none"]
    width = max(len(name) for name, _ in rows)
    most = max(max(n for _, n in rows), 1)
    return [f"  {name:<{width}}  {n:>8}  {'#' * round(_BAR * n / most)}".rstrip() for name, n in rows]


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)[1:-1]


def _bytes(n: float) -> str:
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(len(f"{n:.0f}") - 1, 12) // 3
    return f"{n / 1000**power:.3g} {units[power]}"
