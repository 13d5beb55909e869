"""Rendering a dataset: shard after shard, the scenes of a shard on threads."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from synthscape.errors import DatasetError, MixError, SpecError
from synthscape.labels import raven, rttm
from synthscape.labels.batches import join_measured, labelled_plan, without_patches
from synthscape.labels.pcm import pcm_hash
from synthscape.memory import short_of_memory
from synthscape.mix.batch import SceneBatch
from synthscape.mix.mixer import Mixer
from synthscape.output.audio import check_format, encode, encode_float
from synthscape.output.folder import DatasetFolder, Shard, ShardWriter, open_folder, shards_of
from synthscape.plan.plan import DROP_REASONS, PLAN_VERSION, ScenePlan
from synthscape.spec import Spec
from synthscape.spec.schema import SCENE_TASKS
from synthscape.tasks.answers import untrue_items
from synthscape.tasks.control import noise_like
from synthscape.tasks.generator import SceneGenerator
from synthscape.tasks.items import ItemPlan
from synthscape.tasks.scenes import ItemTables
from synthscape.units import seconds_to_samples

Progress = Callable[[int], None]  # scenes finished since the last call

_BATCH_SAMPLES: Final = 2**20  # audio a thread holds at a time: a few scenes, more would only cost memory
_DEVICE_FACTOR: Final = 16  # a GPU wants more at a time
_MOST_SCALED: Final = 0.05
_MOST_UNASKED_EMPTY: Final = 0.01
_LEAST_SCENE_BYTES: Final = 512  # on disk, however short: a file, and a row of the tables
_LEAST_SAMPLE_BYTES: Final = 0.05  # a fortieth of PCM: FLAC of any noise takes more
_SHARD_BYTES: Final = 10_000  # of memory, for a receipt
_COUNTS: Final = (
    "items",
    "delivered",
    "failed",
    "scenes",
    "n_samples",
    "empty",
    "asked",
    "placed",
    "outside",
    "events",
    "audible",
    "redrawn",
    "ratios_refused",
    "scaled",
)


@dataclass(frozen=True)
class RenderReport:
    """What a render made.

    Attributes:
        path: the dataset's folder.
        info: what its ``dataset.json`` says.
        new_shards: shards rendered now.
        kept_shards: shards that were there already.
        failures: items that could not be rendered: ``item_number``, ``item_id`` and ``reason`` of each.
    """

    path: Path
    info: dict[str, Any]
    new_shards: int
    kept_shards: int
    failures: list[dict[str, Any]]

    @property
    def counts(self) -> dict[str, Any]:
        """Items, events, hours, and what was dropped or changed on the way."""
        counts: dict[str, Any] = self.info["counts"]
        return counts


def render(
    spec: Spec,
    *,
    workers: int = 1,
    device: str = "cpu",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RenderReport:
    """Render a dataset into ``spec.output.dir``; where a part of it is there already, only the rest.

    >>> report = render(load_spec("strong_detection", ["items=100", "output.dir=out"]), workers=4)  # doctest: +SKIP
    >>> report.counts["events"]                                                                     # doctest: +SKIP
    612

    The same spec and stores give the same samples and tables, for any number of workers and however often it was
    stopped. An item that can't be rendered is listed with its reason, and tried again by the next render.

    Args:
        spec: what to render.
        workers: threads.
        device: what mixes, as for :class:`synthscape.SceneGenerator`. Samples differ between kinds of devices in their
            last bit, so a dataset is made on one kind.
        overwrite: remove the dataset that is in the folder first.
        progress: called with numbers of scenes as they are done.

    Raises:
        DatasetError: the folder holds something else, or a dataset of another spec.
        StoreError, PlanError: the stores don't fit the spec.
        MixError: scenes don't fit in memory.
        OSError: the folder can't be written; what is finished stays, and the next render goes on.
    """
    if workers < 1:
        raise SpecError(f"workers: expected 1 or more, got {workers}")
    check_format(spec.output.audio, spec.sample_rate)
    scenes = SceneGenerator(spec, device)
    n_classes = len(scenes.classes)
    scenes.plan_items([])  # finds what can't be planned, before anything is written
    if scenes.device != "cpu":
        _ = scenes.device_mixer  # ... and finds the device
    path = Path(spec.output.dir)
    _check_fits_disk(spec, path)
    shards = shards_of(spec.items, spec.output.items_per_shard)
    with open_folder(path, _origin(scenes), overwrite=overwrite) as folder:
        receipts = folder.receipts(shards)
        kept = len(receipts)
        missing = [shard for shard in shards if shard.number not in receipts]
        if progress:
            progress(sum(receipt["counts"]["delivered"] for receipt in receipts.values()))
        if missing:
            folder.check_engine(receipts)
            folder.begin()
            with _threads(workers) as pool:
                for shard in missing:
                    receipts[shard.number] = render_shard(scenes, folder, shard, pool, progress, workers)
        in_order = [receipts[shard.number] for shard in shards]
        info = folder.finish(in_order, _content(scenes, in_order, n_classes))
    failures = [failure for receipt in in_order for failure in receipt["failures"]]
    return RenderReport(path, info, len(missing), kept, failures)


def render_shard(
    scenes: SceneGenerator,
    folder: DatasetFolder,
    shard: Shard,
    pool: ThreadPoolExecutor | None = None,
    progress: Progress | None = None,
    workers: int = 1,
) -> dict[str, Any]:
    """Render one shard into the folder, and give its receipt; the scenes on the pool's ``workers`` threads if any."""
    output = scenes.spec.output
    items = scenes.plan_items(range(shard.first, shard.last))
    parts = list(_batches(items, output.stems, _BATCH_SAMPLES * (1 if scenes.device == "cpu" else _DEVICE_FACTOR)))
    _check_fits_memory(scenes.mixer, [part.scenes for part in parts], output.stems, workers)
    with folder.shard(shard) as writer:
        write = partial(_write_items, scenes, writer, output.audio, output.stems)
        written: list[_Written] = []
        for one in _in_order(write, parts, pool):
            written.append(one)
            if progress:
                progress(one.n_items)
        measured = join_measured(items.scenes, [one.batch for one in written])
        failed = {number: reason for one in written for number, reason in one.failures.items()} | items.failures
        delivered = items.take(np.flatnonzero(~np.isin(items.numbers, list(failed))))
        hashes = [pcm for one in written for pcm in one.hashes]
        paths = [writer.audio_path(name) for name in delivered.scene_ids] if writer.has_audio else None
        tables = scenes.tables(delivered, measured, hashes, paths)
        _write_beside(scenes, writer, delivered, tables)
        licences = Counter(pc.list_flatten(tables.scenes["licences"]).to_pylist())
        by_class = np.bincount(labelled_plan(measured.plan).class_id, minlength=len(scenes.classes))
        receipt = {
            "pcm_hash": blake2b("".join(hashes).encode(), digest_size=16).hexdigest(),
            "counts": _counts(len(shard), len(delivered), measured, tables.events["audible"]),
            "drop_reasons": dict(zip(DROP_REASONS, measured.plan.drops.sum(axis=0).tolist(), strict=True)),
            "class_events": by_class.tolist(),
            "licences": {name: licences[name] for name in sorted(licences)},
            "failures": [
                {"item_number": number, "item_id": scenes.item_id(number), "reason": reason}
                for number, reason in sorted(failed.items())
            ],
            "versions": _versions(),
        }
        return writer.commit(
            {"events": tables.events, "scenes": tables.scenes, "facts": tables.facts, "items": tables.items},
            receipt,
            {"chat": tables.chat_lines()} if output.chat else {},
        )


def _write_beside(scenes: SceneGenerator, writer: ShardWriter, items: ItemPlan, tables: ItemTables) -> None:
    """Files of others' formats that stand beside the audio."""
    output, rate = scenes.spec.output, scenes.sample_rate
    if output.raven:
        for name, text in raven.raven_tables(tables.events, items.scene_ids, rate):
            writer.add_text("raven", f"{name}{raven.SUFFIX}", text)
    if output.rttm:
        for name, text in rttm.rttm_texts(tables.events, items.scene_ids, rate):
            writer.add_text("rttm", f"{name}{rttm.SUFFIX}", text)
    if output.dcase:
        for name, text in tables.dcase(output.audio):
            writer.add_text("dcase", name, text)


def _check_fits_disk(spec: Spec, path: Path) -> None:
    """Refuse what no disk of this size can hold, or what is in more shards than can be kept account of."""
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    scene_samples = seconds_to_samples(spec.duration.bounds()[0], spec.sample_rate)
    audio_bytes = 0 if spec.output.control == "text" else _LEAST_SAMPLE_BYTES * scene_samples
    least = spec.items * (_LEAST_SCENE_BYTES + audio_bytes)
    size = shutil.disk_usage(there).total
    if size and least > size:  # 0: a file system that doesn't say
        raise DatasetError(
            f"items: {spec.items} scenes take {least / 1e9:.3g} GB at least, the disk of {there} has {size / 1e9:.3g} "
            "GB in all; ask for fewer, or name an output.dir on another disk"
        )
    n_shards = -(-spec.items // spec.output.items_per_shard)
    short = short_of_memory(n_shards * _SHARD_BYTES)
    if short:
        raise SpecError(f"output.items_per_shard: {n_shards} shards to keep account of, {short}; raise it")


def _check_fits_memory(mixer: Mixer, parts: Sequence[ScenePlan], stems: bool, workers: int) -> None:
    needed = sorted((mixer.memory_needed(part, stems) for part in parts), reverse=True)
    short = short_of_memory(sum(needed[:workers]))
    if short:
        longest = max(int(part.n_samples.max()) for part in parts)
        what = f"scenes of up to {longest} samples{' with stems' if stems else ''}"
        raise MixError(
            f"{what} on {workers} threads: {short}; ask for a shorter duration, fewer events, fewer --workers, or "
            "output.stems=false"
        )


def _batches(items: ItemPlan, stems: bool, n_samples: int) -> Iterator[ItemPlan]:
    """Items that are mixed together: as many as hold about ``n_samples``."""
    if not len(items):
        yield items  # nothing could be planned: the shard holds nothing but its failures
        return
    largest = int(items.scenes.n_samples.max()) * int(np.diff(items.scene_offsets).max())
    if stems:
        largest *= 1 + int(np.diff(items.scenes.event_offsets).max())
    step = max(1, n_samples // largest)
    for start in range(0, len(items), step):
        yield items.take(np.arange(start, min(start + step, len(items))))


@dataclass(frozen=True)
class _Written:
    """What is kept of items that were mixed and written."""

    batch: SceneBatch  # what was measured, without audio; scenes of failed items are failures
    hashes: list[str]  # of each scene that was delivered
    failures: dict[int, str]  # item number -> reason
    n_items: int


def _write_items(scenes: SceneGenerator, writer: ShardWriter, audio: str, stems: bool, items: ItemPlan) -> _Written:
    """Mix some items and write those that turned out to be true."""
    plan = items.scenes
    batch = scenes.mix_as_written(plan, stems=stems)
    assert batch.pcm is not None
    failed = untrue_items(items, batch, scenes.spec.events.snr.audible_db)
    lost = {s: failed[i] for s, i in enumerate(items.item_of_scene.tolist()) if i in failed}
    rate, control = plan.sample_rate, scenes.spec.output.control
    background, event_stems = without_patches(plan, batch.background, batch.stems)
    labels = labelled_plan(plan)
    hashes = []
    for s, name in enumerate(items.scene_ids):
        if s in lost:
            continue
        n = int(plan.n_samples[s])
        pcm = batch.pcm[s, :n]
        if control == "noise":
            pcm = noise_like(pcm, scenes.spec.seed, int(plan.scene[s]))
        hashes.append(pcm_hash(pcm))
        if writer.has_audio:
            writer.add_audio(name, encode(pcm, rate, audio))
        if event_stems is not None:
            events = event_stems[labels.events_of(s), :n]
            writer.add_stems(
                name, encode_float(background[s, :n], rate), (encode_float(event, rate) for event in events)
            )
    measured = replace(batch, pcm=None, stems=None, background=None, failures=lost or None)
    reasons = {int(items.numbers[i]): reason for i, reason in failed.items()}
    return _Written(measured, hashes, reasons, len(items))


def _in_order(
    write: Callable[[ItemPlan], _Written], batches: Iterable[ItemPlan], pool: ThreadPoolExecutor | None
) -> Iterator[_Written]:
    if pool is None:
        yield from map(write, batches)
        return
    futures: list[Future[_Written]] = [pool.submit(write, batch) for batch in batches]
    try:
        for future in futures:
            yield future.result()
    finally:  # nothing may write any more when the shard is given up
        for future in futures:
            future.cancel()
        for future in futures:
            if not future.cancelled():
                future.exception()


@contextmanager
def _threads(workers: int) -> Iterator[ThreadPoolExecutor | None]:
    if workers == 1:
        yield None
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="synthscape") as pool:
        yield pool


def _counts(items: int, delivered: int, measured: SceneBatch, audible: Any) -> dict[str, int]:
    plan, labels = measured.plan, labelled_plan(measured.plan)
    return {
        "items": items,
        "delivered": delivered,
        "failed": items - delivered,
        "scenes": len(plan),
        "n_samples": int(plan.n_samples.sum()),
        "empty": int((np.diff(labels.event_offsets) == 0).sum()),
        "asked": int(plan.n_asked.sum()),
        "placed": int(plan.n_placed.sum()),
        "outside": int(plan.n_outside.sum()),
        "events": labels.n_events,
        "audible": pc.sum(audible).as_py() or 0,
        "redrawn": int(plan.n_redrawn.sum()),
        "ratios_refused": int(plan.n_ratios_refused.sum()),
        "scaled": int((measured.scene_gain_db < 0).sum()),
    }


def _origin(scenes: SceneGenerator) -> dict[str, Any]:
    output = scenes.spec.plain(explicit=True)["output"]
    engine = ["synthscape", "numba", "numpy", "scipy", *([] if scenes.device == "cpu" else ["torch", "triton"])]
    return {
        "fingerprint": scenes.fingerprint,
        "spec": scenes.spec.fingerprint_content(),
        "stores": {name: store.fingerprint for name, store in scenes.stores.items()},
        "community": None if scenes.community is None else scenes.community.fingerprint(),
        "plan_version": PLAN_VERSION,
        "output": {name: value for name, value in output.items() if name != "dir"},
        "engine": {
            "device": scenes.device.partition(":")[0],
            **{name: _version(name) for name in engine},
        },
    }


@cache  # to look one up takes milliseconds
def _version(package: str) -> str:
    return version(package)


def _versions() -> dict[str, str]:
    import soundfile

    names = ("synthscape", "numpy", "numba", "scipy", "soundfile", "pyarrow")
    return {**{name: _version(name) for name in names}, "libsndfile": soundfile.__libsndfile_version__}


def _content(scenes: SceneGenerator, receipts: Sequence[Mapping[str, Any]], n_classes: int) -> dict[str, Any]:
    """What ``dataset.json`` says of the whole, from the receipts alone."""
    total = {name: sum(receipt["counts"][name] for receipt in receipts) for name in _COUNTS}
    drops = {name: sum(receipt["drop_reasons"][name] for receipt in receipts) for name in DROP_REASONS}
    class_events = [sum(receipt["class_events"][i] for receipt in receipts) for i in range(n_classes)]
    licences: Counter[str] = Counter()
    for receipt in receipts:
        licences.update(receipt["licences"])
    warnings = []
    loud = "events.snr.db" if scenes.spec.events.level.mode == "snr" else "events.level.source_level_db"
    level = "level_dbfs" if scenes.spec.background.level_lufs is None else "level_lufs"
    if total["scaled"] > _MOST_SCALED * total["scenes"]:
        warnings.append(
            f"{total['scaled']} of {total['scenes']} scenes were scaled down to stay under -1 dBFS; "
            f"lower background.{level} or {loud}"
        )
    share = scenes.spec.empty_share
    if scenes.spec.task in SCENE_TASKS and total["empty"] > (share + _MOST_UNASKED_EMPTY) * total["delivered"] + 1:
        warnings.append(
            f"{total['empty']} of {total['delivered']} scenes have no events, a share of {share:.3g} was asked for; "
            "see what was dropped, or lower events.gap_s"
        )
    return {
        "spec": scenes.spec.plain(explicit=True),
        "stores": {
            name: {"fingerprint": store.fingerprint, "clips": len(store)} for name, store in scenes.stores.items()
        },
        "community": None if scenes.community is None else scenes.community.fingerprint(),
        "plan_version": PLAN_VERSION,
        "versions": _versions(),
        "counts": {**total, "hours": total["n_samples"] / scenes.sample_rate / 3600, "drop_reasons": drops},
        "classes": [
            {"name": entry.name, "clips": entry.n_clips, "recordings": entry.n_recordings, "events": n}
            for entry, n in zip(scenes.classes, class_events, strict=True)
        ],
        "licences": {name: licences[name] for name in sorted(licences)},
        "filtered": scenes.planner.filtered,
        "notes": scenes.planner.notes,
        "warnings": warnings,
    }


def available_workers() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
