"""Rendering a dataset: what is there is kept, the rest goes to an engine, and the whole is summed up."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from synthscape.errors import DatasetError, SpecError
from synthscape.memory import short_of_memory
from synthscape.output.audio import check_format
from synthscape.output.card import dataset_card
from synthscape.output.folder import FAILURES_FILE, FAILURES_SCHEMA, has_audio, open_folder, shards_of
from synthscape.plan.plan import DROP_REASONS, PLAN_VERSION
from synthscape.scale.engines import Engine, on_threads
from synthscape.scale.progress import Progress, Step
from synthscape.scale.shard import COUNTS, origin, versions
from synthscape.spec import Spec
from synthscape.spec.schema import SCENE_TASKS
from synthscape.storage import is_url, place_at
from synthscape.tasks.generator import SceneGenerator
from synthscape.units import seconds_to_samples

_MOST_SCALED: Final = 0.05
_MOST_UNASKED_EMPTY: Final = 0.01
_LEAST_SCENE_BYTES: Final = 512  # on disk, however short: a file, and a row of the tables
_LEAST_SAMPLE_BYTES: Final = 0.05  # a fortieth of PCM: FLAC of any noise takes more
_SHARD_BYTES: Final = 1000  # of memory, for what is kept of a receipt


@dataclass(frozen=True)
class RenderReport:
    """What a render made.

    Attributes:
        path: the dataset's folder; a URL if it is on a server.
        info: what its ``dataset.json`` says.
        new_shards: shards rendered now.
        kept_shards: shards that were there already, or that another process made meanwhile.
    """

    path: Path | str
    info: dict[str, Any]
    new_shards: int
    kept_shards: int

    @property
    def counts(self) -> dict[str, Any]:
        """Items, events, hours, and what was dropped or changed on the way."""
        counts: dict[str, Any] = self.info["counts"]
        return counts

    @cached_property
    def failures(self) -> list[dict[str, Any]]:
        """Items that could not be rendered: ``item_number``, ``item_id`` and ``reason`` of each."""
        if not self.counts["failed"]:
            return []
        with place_at(self.path).open(FAILURES_FILE) as file:
            rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
            return rows


def render(
    spec: Spec,
    *,
    workers: int | None = None,
    ray: str | None = None,
    device: str = "cpu",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RenderReport:
    """Render a dataset into ``spec.output.dir``; where a part of it is there already, only the rest.

    >>> report = render(load_spec("strong_detection", ["items=100", "output.dir=out"]))  # doctest: +SKIP
    >>> report.counts["events"]                                                          # doctest: +SKIP
    612

    The same spec and stores give the same samples and tables, for any engine and number of workers and however often
    it was stopped. An item that can't be rendered is listed with its reason, and tried again by the next render.

    Args:
        spec: what to render; its ``engine`` renders it.
        workers: threads; all cores of this machine if None. Of Ray, threads of each actor; 1 if None.
        ray: address of a Ray cluster (``auto``: the one this machine is in; ``local``: a new one here), whatever
            ``spec.engine`` says.
        device: what mixes, as for :class:`synthscape.SceneGenerator`. Samples differ between kinds of devices in their
            last bit, so a dataset is made on one kind.
        overwrite: remove the dataset that is in the folder first.
        progress: told of all that is done; see :class:`synthscape.scale.progress.Step`.

    Raises:
        DatasetError: the folder holds something else, or a dataset of another spec.
        StoreError, PlanError: the stores don't fit the spec.
        MixError: scenes don't fit in memory.
        OSError: the folder can't be written; what is finished stays, and the next render goes on.
    """
    engine = _engine(spec, workers, ray, device)
    scenes = _ready(spec, device)
    shards = shards_of(spec.items, spec.output.items_per_shard)
    with engine(scenes) as run, open_folder(spec.output.dir, origin(scenes), overwrite=overwrite) as folder:
        kept = folder.kept(shards)
        _tell_kept(progress, kept.values(), scenes.sample_rate)
        missing = [shard for shard in shards if shard.number not in kept]
        made_meanwhile = 0
        if missing:
            folder.begin()
            if is_url(spec.output.dir):  # processes that share the work should not meet at each shard
                random.SystemRandom().shuffle(missing)
            made_meanwhile = run(folder, missing, progress)
        total = _Totals(len(scenes.classes))
        for shard, receipt in zip(shards, folder.receipts(shards), strict=True):
            if not receipt:
                raise DatasetError(f"{folder.place}: the receipt of shard {shard.name} is gone; render again")
            total.add(receipt)
        content = _content(scenes, total)
        info = folder.finish(total.failures(), dataset_card(scenes.spec, content), content)
    new = len(missing) - made_meanwhile
    return RenderReport(folder.place.where, info, new, len(shards) - new)


def render_shard(spec: Spec, k: int, *, workers: int | None = None, device: str = "cpu") -> dict[str, Any]:
    """Render shard ``k`` of a dataset into ``spec.output.dir``, for job arrays of other schedulers; give its receipt.

    Any number of processes may render shards of one dataset at the same time. When all are there, :func:`render` sums
    them up. A shard that is there already is not rendered again, unless items of it failed.

    Args:
        spec: what to render.
        k: number of the shard: items ``k * items_per_shard`` and on.
        workers: threads; all cores of this machine if None.
        device: what mixes, as for :func:`render`.

    Raises:
        SpecError: the dataset has no such shard.
        DatasetError, StoreError, PlanError, MixError, OSError: as :func:`render`.
    """
    return next(iter(render_shards(spec, [k], workers=workers, device=device)))


def render_shards(
    spec: Spec,
    numbers: Sequence[int],
    *,
    workers: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Render some shards as :func:`render_shard` does, one after the other, and give their receipts.

    Args:
        spec: what to render.
        numbers: of the shards.
        workers: threads; all cores of this machine if None.
        device: what mixes, as for :func:`render`.
        progress: told of all that is done, as by :func:`render`.

    Raises:
        SpecError, DatasetError, StoreError, PlanError, MixError, OSError: as :func:`render_shard`.
    """
    every = shards_of(spec.items, spec.output.items_per_shard)
    for k in numbers:
        if not 0 <= k < len(every):
            raise SpecError(f"shard {k}: the dataset has shards 0 to {len(every) - 1}; name one of them")
    shards = [every[k] for k in sorted(set(numbers))]
    engine = _threads(1 if spec.engine == "inline" else workers)
    scenes = _ready(spec, device)
    with engine(scenes) as run, open_folder(spec.output.dir, origin(scenes), shared=True) as folder:
        kept = folder.kept(shards, whole=False)
        _tell_kept(progress, kept.values(), scenes.sample_rate)
        missing = [shard for shard in shards if shard.number not in kept]
        if missing:
            folder.begin()
            run(folder, missing, progress)
        return list(folder.receipts(shards))


def _tell_kept(progress: Progress | None, kept: Collection[Mapping[str, int]], sample_rate: int) -> None:
    if progress:
        items, n_scenes, n = (sum(counts[name] for counts in kept) for name in ("items", "scenes", "n_samples"))
        progress(Step(items, 0, n_scenes, n / sample_rate, kept=True))


def available_workers() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _engine(spec: Spec, workers: int | None, ray: str | None, device: str) -> Engine:
    if ray is not None or spec.engine == "ray":
        if device == "auto":
            raise SpecError("device auto: this machine can't tell what a cluster has; say cpu or cuda")
        try:
            from synthscape.scale.on_ray import on_ray
        except ImportError as error:
            raise SpecError(f"rendering on a cluster needs Ray ({error}): pip install synthscape[ray]") from None
        return partial(on_ray, address=ray or "auto", workers=_checked(workers, 1))
    if spec.engine == "inline":
        if _checked(workers, 1) > 1:
            raise SpecError(f"engine: inline renders in one thread, workers asks for {workers}; set engine=threads")
        return _threads(1)
    return _threads(workers)


def _threads(workers: int | None) -> Engine:
    return partial(on_threads, workers=_checked(workers, available_workers()))


def _checked(workers: int | None, default: int) -> int:
    if workers is not None and workers < 1:
        raise SpecError(f"workers: expected 1 or more, got {workers}")
    return workers or default


def _ready(spec: Spec, device: str) -> SceneGenerator:
    """What makes the scenes; all that can be found wrong before anything is written is."""
    check_format(spec.output.audio, spec.sample_rate)
    scenes = SceneGenerator(spec, device)
    scenes.plan_items([])  # finds what can't be planned
    _check_fits_disk(spec)
    return scenes


def _check_fits_disk(spec: Spec) -> None:
    """Refuse what no disk of this size can hold, or what is in more shards than can be kept account of."""
    if not is_url(spec.output.dir):
        path = Path(spec.output.dir).absolute()
        there = next(folder for folder in (path, *path.parents) if folder.exists())
        scene_samples = seconds_to_samples(spec.duration.bounds()[0], spec.sample_rate)
        audio_bytes = _LEAST_SAMPLE_BYTES * scene_samples if has_audio(spec.plain()["output"]) else 0
        least = spec.items * (_LEAST_SCENE_BYTES + audio_bytes)
        size = shutil.disk_usage(there).total
        if size and least > size:  # 0: a file system that doesn't say
            raise DatasetError(
                f"items: {spec.items} scenes take {least / 1e9:.3g} GB at least, the disk of {there} has "
                f"{size / 1e9:.3g} GB in all; ask for fewer, or name an output.dir on another disk"
            )
    n_shards = -(-spec.items // spec.output.items_per_shard)
    short = short_of_memory(n_shards * _SHARD_BYTES)
    if short:
        raise SpecError(f"output.items_per_shard: {n_shards} shards to keep account of, {short}; raise it")


class _Totals:
    """Sums over receipts, which are added in the order of shards and not kept."""

    def __init__(self, n_classes: int) -> None:
        self.counts = dict.fromkeys(("items", "failed", *COUNTS), 0)
        self.drop_reasons = dict.fromkeys(DROP_REASONS, 0)
        self.class_events = [0] * n_classes
        self.licences: Counter[str] = Counter()
        self.parts: Counter[str] = Counter()
        self.cpus: Counter[str] = Counter()
        self.content = blake2b(digest_size=16)
        self._failures = [FAILURES_SCHEMA.empty_table()]

    def add(self, receipt: Mapping[str, Any]) -> None:
        _add(self.counts, receipt["counts"])
        _add(self.drop_reasons, receipt["drop_reasons"])
        self.class_events = [a + b for a, b in zip(self.class_events, receipt["class_events"], strict=True)]
        self.licences.update(receipt["licences"])
        self.parts.update(receipt["parts"])
        self.cpus[receipt["cpu"]] += 1
        if receipt["failures"]:
            self._failures.append(pa.Table.from_pylist(receipt["failures"], FAILURES_SCHEMA))
        said = [receipt["first"], receipt["last"], receipt["pcm_hash"], sorted(receipt["hashes"].items())]
        self.content.update(f"{said}\n".encode())

    def failures(self) -> pa.Table:
        return pa.concat_tables(self._failures)


def _add(total: dict[str, int], counts: Mapping[str, int]) -> None:
    for name in total:
        total[name] += counts[name]


def _content(scenes: SceneGenerator, total: _Totals) -> dict[str, Any]:
    """What ``dataset.json`` says of the whole."""
    return {
        "content_hash": total.content.hexdigest(),
        "spec": scenes.spec.plain(explicit=True),
        "stores": {
            name: {"fingerprint": store.fingerprint, "clips": len(store)} for name, store in scenes.stores.items()
        },
        "community": None if scenes.community is None else scenes.community.fingerprint(),
        "plan_version": PLAN_VERSION,
        "versions": versions(),
        "cpus": dict(sorted(total.cpus.items())),
        "counts": {
            **total.counts,
            "hours": total.counts["n_samples"] / scenes.sample_rate / 3600,
            "drop_reasons": total.drop_reasons,
        },
        "classes": [
            {"name": entry.name, "clips": entry.n_clips, "recordings": entry.n_recordings, "events": n}
            for entry, n in zip(scenes.classes, total.class_events, strict=True)
        ],
        "licences": {name: total.licences[name] for name in sorted(total.licences)},
        "parts": {name: total.parts[name] for name in sorted(total.parts)},
        "filtered": scenes.planner.filtered,
        "notes": scenes.planner.notes,
        "warnings": list(_warnings(scenes.spec, total)),
    }


def _warnings(spec: Spec, total: _Totals) -> Iterable[str]:
    counts = total.counts
    if counts["scaled"] > _MOST_SCALED * counts["scenes"]:
        loud = "events.snr.db" if spec.events.level.mode == "snr" else "events.level.source_level_db"
        level = "level_dbfs" if spec.background.level_lufs is None else "level_lufs"
        yield (
            f"{counts['scaled']} of {counts['scenes']} scenes were scaled down to stay under -1 dBFS; "
            f"lower background.{level} or {loud}"
        )
    share = spec.empty_share
    if spec.task in SCENE_TASKS and counts["empty"] > (share + _MOST_UNASKED_EMPTY) * counts["delivered"] + 1:
        yield (
            f"{counts['empty']} of {counts['delivered']} scenes have no events, a share of {share:.3g} was asked for; "
            "see what was dropped, or lower events.gap_s"
        )
    if len(total.cpus) > 1:
        yield (
            f"shards were rendered on different kinds of processors ({', '.join(sorted(total.cpus))}): single samples "
            "may differ by 1 from those of one kind; docs/cluster.md says how to make them equal"
        )
