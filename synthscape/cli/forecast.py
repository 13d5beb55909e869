"""What a dataset would hold: planned in full or in part, a few scenes rendered to learn size and time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from synthscape.cli.words import share
from synthscape.labels.batches import labelled_plan, take_scenes
from synthscape.output.audio import check_format, encode
from synthscape.plan.plan import DB_STEPS, DROP_REASONS, NO_LEVEL, ScenePlan
from synthscape.spec import Spec
from synthscape.tasks.cast import Cast
from synthscape.tasks.generator import SceneGenerator
from synthscape.tasks.items import ItemPlan

_CHUNK: Final = 1024
_TRIED_S: Final = 60.0  # seconds of scenes that are mixed and encoded
_BINS: Final = 12
_BAR: Final = 40


def forecast(spec: Spec, planned: int, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Plan the first ``planned`` items, and scale their numbers to all items.

    Returns:
        JSON content: ``items``, ``planned``, ``hours``, ``events``, ``bytes``, ``cpu_s`` (all of the whole dataset),
        ``asked`` and ``placed`` events, ``drop_reasons``, ``classes`` and ``histograms`` (of what was planned).
    """
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
    pcm_bytes = 2 * int(n_samples.sum())
    compression, s_per_sample = _tried(scenes, parts[0])
    stem_bytes = int((4 * n_samples * (1 + n_events)).sum()) if spec.output.stems else 0
    return {
        "items": spec.items,
        "planned": planned,
        "scenes": round(factor * len(n_samples)),
        "failures": {scenes.item_id(n): reason for part in parts for n, reason in part.failures.items()},
        "scaled_up": planned < spec.items,
        "hours": factor * float(n_samples.sum()) / spec.sample_rate / 3600,
        "events": round(factor * int(n_events.sum())),
        "bytes": round(factor * (pcm_bytes * compression + stem_bytes)),
        "cpu_s": factor * float(n_samples.sum()) * s_per_sample,
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
    }


def forecast_lines(content: dict[str, Any]) -> list[str]:
    """The forecast as text."""
    lines = [
        f"items     {content['items']}",
        f"scenes    {content['scenes']}, {content['hours']:.3g} h",
        f"events    about {content['events']}" if content["scaled_up"] else f"events    {content['events']}",
        f"size      about {_bytes(content['bytes'])}",
        f"time      about {content['cpu_s']:.0f} s on one core",
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


def _tried(scenes: SceneGenerator, items: ItemPlan) -> tuple[float, float]:
    """Bytes per byte of PCM and seconds per sample, from planning, mixing and encoding a few items."""
    if not len(items):
        return 0.0, 0.0
    spec, plan = scenes.spec, items.scenes
    item_samples = np.add.reduceat(plan.n_samples, items.scene_offsets[:-1])
    n = min(max(1, round(_TRIED_S * spec.sample_rate / max(int(item_samples[0]), 1))), len(items))
    scenes.mixer.render(take_scenes(plan, np.arange(min(len(plan), 1))))  # compiles what is not compiled yet
    start = time.perf_counter()
    encoded = samples = 0
    for number in items.numbers[:n].tolist():
        batch = scenes.mixer.render(scenes.plan([number]), pcm=True)
        assert batch.pcm is not None
        for pcm, length in zip(batch.pcm, batch.plan.n_samples.tolist(), strict=True):
            encoded += len(encode(pcm[:length], spec.sample_rate, spec.output.audio))
            samples += length
    return encoded / (2 * samples), (time.perf_counter() - start) / samples


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
