"""One shard: planned, mixed, written, receipted. The only thing any engine does."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import blake2b
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synthscape.errors import MixError
from synthscape.labels import raven, rttm
from synthscape.labels.batches import join_measured, labelled_plan, without_patches
from synthscape.labels.pcm import pcm_hash
from synthscape.memory import short_of_memory
from synthscape.mix.batch import SceneBatch
from synthscape.mix.mixer import Mixer, Prepared
from synthscape.output.audio import encode, encode_float
from synthscape.output.containers import Page
from synthscape.output.folder import DatasetFolder, Shard, ShardWriter, as_json
from synthscape.plan.plan import DROP_REASONS, PLAN_VERSION, ScenePlan
from synthscape.scale.progress import Progress, Step
from synthscape.tasks.answers import untrue_items
from synthscape.tasks.control import noise_like
from synthscape.tasks.generator import SceneGenerator
from synthscape.tasks.items import ItemPlan, join_items

_BATCH_SAMPLES: Final = 2**20  # audio a thread holds at a time: a few scenes, more would only cost memory
_DEVICE_FACTOR: Final = 16  # a GPU wants more at a time
_PAGE_SAMPLES: Final = 2**25  # audio of which the tables are made together: rows that Parquet readers read at once
_PAGE_ITEMS: Final = 1024
_PLANNED_ITEMS: Final = 128  # planned at a time
_AHEAD: Final = 2  # batches a thread may be ahead of what is written

T = TypeVar("T")


def make_shard(
    scenes: SceneGenerator,
    folder: DatasetFolder,
    shard: Shard,
    pool: ThreadPoolExecutor | None = None,
    progress: Progress | None = None,
    workers: int = 1,
) -> dict[str, Any]:
    """Render one shard into the folder, and give its receipt; the scenes on the pool's ``workers`` threads if any.

    Where another process has made it meanwhile, its receipt is given, with ``kept: True``.
    """
    return begin_shard(scenes, folder, shard, pool, progress, workers).result()


def begin_shard(
    scenes: SceneGenerator,
    folder: DatasetFolder,
    shard: Shard,
    pool: ThreadPoolExecutor | None = None,
    progress: Progress | None = None,
    workers: int = 1,
    writing: ThreadPoolExecutor | None = None,
) -> Future[dict[str, Any]]:
    """Render one shard, as :func:`make_shard`, and return when all is mixed: its receipt is there when it is written.

    Args:
        writing: one thread, which writes while the next scenes are mixed, of this shard or another; if None, the
            caller's.
    """
    if there := folder.made_meanwhile(shard):
        if progress:
            counts = there["counts"]
            progress(
                Step(
                    len(shard), counts["failed"], counts["scenes"], counts["n_samples"] / scenes.sample_rate, kept=True
                )
            )
        return _later(None, lambda: {**there, "kept": True})
    begun, start = datetime.now(UTC), time.perf_counter()
    output, rate = scenes.spec.output, scenes.sample_rate
    said = _Said(len(scenes.classes))
    pages: deque[tuple[ItemPlan, int]] = deque()  # those under way, and in how many batches they are mixed

    def batches() -> Iterator[_Batch]:
        for page in _pages(_planned(scenes, shard)):
            if progress and page.failures:
                progress(Step(len(page.failures), len(page.failures)))
            prepared = scenes.prepare(page.scenes)
            of_page = list(_batches(page, prepared, output.stems, scenes.device))
            _check_fits_memory(scenes.mixer, [batch.scenes for batch in of_page], output.stems, workers)
            pages.append((page, len(of_page)))
            yield from of_page

    def add(page: ItemPlan, done: Sequence[_Mixed]) -> None:
        for failures in (page.failures, *(one.failures for one in done)):
            said.failures |= failures
        writer.add(_page(scenes, writer, page, done, said))

    def commit(added: Future[None], discarding: ExitStack) -> dict[str, Any]:
        with discarding:
            added.result()
            receipt = writer.commit(
                {
                    "pcm_hash": said.pcm.hexdigest(),
                    "counts": {"items": len(shard), "failed": len(said.failures), **said.counts},
                    "drop_reasons": said.drop_reasons,
                    "class_events": said.class_events.tolist(),
                    "licences": {name: said.licences[name] for name in sorted(said.licences)},
                    "parts": {name: said.parts[name] for name in sorted(said.parts)},
                    "failures": [
                        {"item_number": number, "item_id": scenes.item_id(number), "reason": reason}
                        for number, reason in sorted(said.failures.items())
                    ],
                    "versions": versions(),
                    "cpu": cpu_target(),
                }
            )
        seconds = time.perf_counter() - start
        log = {
            "begun": begun.isoformat(timespec="milliseconds"),
            "seconds": round(seconds, 3),
            "items_per_s": round(len(shard) / seconds, 2),
            "workers": workers,
            "host": platform.node(),
            "process": os.getpid(),
        }
        folder.place.write(f"log/{shard.name}.json", as_json(log))
        return receipt

    with ExitStack() as stack:
        writer = stack.enter_context(folder.shard(shard))
        added: deque[Future[None]] = deque()
        stack.callback(wait, added)  # nothing may write any more when the writer discards
        mixed = stack.enter_context(
            closing(_in_order(partial(_mix_items, scenes, writer), batches(), pool, _AHEAD * workers))
        )
        done: list[_Mixed] = []
        for one in mixed:
            done.append(one)
            if progress:
                progress(Step(one.n_items, len(one.failures), len(one.hashes), one.n_samples / rate))
            page, n_batches = pages[0]
            if len(done) == n_batches:
                if added:
                    added.popleft().result()  # no more than a page waits to be written
                added.append(_later(writing, partial(add, page, done)))
                pages.popleft()
                done = []
        return _later(writing, partial(commit, added.pop(), stack.pop_all()))


def _later(writing: ThreadPoolExecutor | None, do: Callable[[], T]) -> Future[T]:
    """Have something done by the thread that writes; if there is none, now."""
    if writing is not None:
        return writing.submit(do)
    done: Future[T] = Future()
    done.set_result(do())
    return done


def warm_up(scenes: SceneGenerator) -> None:
    """Mix the first item, and forget it: kernels are compiled or loaded, and a device holds what it needs."""
    items = scenes.plan_items([0])
    if len(items):
        _check_fits_memory(scenes.mixer, [items.scenes], False, 1)
        scenes.mix_as_written(items.scenes)


class _Said:
    """What the receipt of a shard will say, page by page."""

    def __init__(self, n_classes: int) -> None:
        self.pcm = blake2b(digest_size=16)
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self.drop_reasons = dict.fromkeys(DROP_REASONS, 0)
        self.class_events = np.zeros(n_classes, np.int64)
        self.licences: Counter[str] = Counter()
        self.parts: Counter[str] = Counter()
        self.failures: dict[int, str] = {}


#: What is counted in the pages of a shard.
COUNTS: Final = (
    "delivered",
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


def _page(scenes: SceneGenerator, writer: ShardWriter, page: ItemPlan, done: Sequence[_Mixed], said: _Said) -> Page:
    """The tables of some items, and what is written beside their audio."""
    output = scenes.spec.output
    measured = join_measured(page.scenes, [one.batch for one in done])
    delivered = page.take(np.flatnonzero(~np.isin(page.numbers, list(said.failures))))
    hashes = [pcm for one in done for pcm in one.hashes]
    names = None
    if writer.has_audio:
        of_item = delivered.item_of_scene.tolist()
        kinds: Sequence[str | None] = delivered.parts or [None] * len(of_item)
        names = [
            str(writer.audio_name(scene, delivered.ids[i], kind))
            for scene, i, kind in zip(delivered.scene_ids, of_item, kinds, strict=True)
        ]
    tables = scenes.tables(delivered, measured, hashes, names)
    if output.raven:
        for name, text in raven.raven_tables(tables.events, delivered.scene_ids, scenes.sample_rate):
            writer.add_text("raven", f"{name}{raven.SUFFIX}", text)
    if output.rttm:
        for name, text in rttm.rttm_texts(tables.events, delivered.scene_ids, scenes.sample_rate):
            writer.add_text("rttm", f"{name}{rttm.SUFFIX}", text)
    if output.dcase:
        for name, text in tables.dcase(output.audio):
            writer.add_text("dcase", name, text)
    said.pcm.update("".join(hashes).encode())
    said.counts.update(_counts(len(delivered), measured, tables.events["audible"]))
    for name, n in zip(DROP_REASONS, measured.plan.drops.sum(axis=0).tolist(), strict=True):
        said.drop_reasons[name] += n
    said.class_events += np.bincount(labelled_plan(measured.plan).class_id, minlength=len(said.class_events))
    said.parts.update(delivered.parts or ())
    said.licences.update(pc.list_flatten(tables.scenes["licences"]).to_pylist())
    return Page(
        {"events": tables.events, "scenes": tables.scenes, "facts": tables.facts, "items": tables.items},
        {"chat": tables.chat_lines()} if output.chat else {},
    )


def _counts(delivered: int, measured: SceneBatch, audible: pa.ChunkedArray) -> dict[str, int]:
    plan, labels = measured.plan, labelled_plan(measured.plan)
    return {
        "delivered": delivered,
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


@dataclass(frozen=True)
class _Batch:
    """Items that are mixed together."""

    items: ItemPlan
    scenes: ScenePlan | Prepared  # theirs, as they are mixed


@dataclass(frozen=True)
class _Mixed:
    """Items that were mixed."""

    batch: SceneBatch  # what was measured, without audio; scenes of failed items are failures
    hashes: list[str]  # of each scene that was delivered
    failures: dict[int, str]  # item number -> reason
    n_items: int
    n_samples: int  # delivered


def _mix_items(scenes: SceneGenerator, writer: ShardWriter, to_mix: _Batch) -> _Mixed:
    """Mix some items, and encode those that turned out to be true."""
    items, output = to_mix.items, scenes.spec.output
    plan = items.scenes
    batch = scenes.mix_as_written(to_mix.scenes, stems=output.stems)
    assert batch.pcm is not None
    failed = untrue_items(items, batch, scenes.spec.events.snr.audible_db)
    lost = {s: failed[i] for s, i in enumerate(items.item_of_scene.tolist()) if i in failed}
    rate = plan.sample_rate
    background, event_stems = without_patches(plan, batch.background, batch.stems)
    labels = labelled_plan(plan)
    hashes, n_samples = [], 0
    for s, name in enumerate(items.scene_ids):
        if s in lost:
            continue
        n = int(plan.n_samples[s])
        pcm = batch.pcm[s, :n]
        if output.control == "noise":
            pcm = noise_like(pcm, scenes.spec.seed, int(plan.scene[s]))
        n_samples += n
        hashes.append(pcm_hash(pcm))
        if writer.has_audio:
            writer.add_audio(name, encode(pcm, rate, output.audio))
        if event_stems is not None:
            events = event_stems[labels.events_of(s), :n]
            writer.add_stems(
                name, encode_float(background[s, :n], rate), (encode_float(event, rate) for event in events)
            )
    measured = replace(batch, pcm=None, stems=None, background=None, failures=lost or None)
    reasons = {int(items.numbers[i]): reason for i, reason in failed.items()}
    return _Mixed(measured, hashes, reasons, len(items), n_samples)


def _check_fits_memory(mixer: Mixer, parts: Sequence[ScenePlan | Prepared], stems: bool, workers: int) -> None:
    needed = sorted((mixer.memory_needed(part, stems) for part in parts), reverse=True)
    short = short_of_memory(sum(needed[:workers]))
    if short:
        plans = (part.plan if isinstance(part, Prepared) else part for part in parts)
        longest = max(int(plan.n_samples.max()) for plan in plans)
        what = f"scenes of up to {longest} samples{' with stems' if stems else ''}"
        raise MixError(
            f"{what} on {workers} threads: {short}; ask for a shorter duration, fewer events, fewer --workers, or "
            "output.stems=false"
        )


def _planned(scenes: SceneGenerator, shard: Shard) -> Iterator[ItemPlan]:
    """The shard's items, some at a time, so that the first are mixed while others are planned."""
    for first in range(shard.first, shard.last, _PLANNED_ITEMS):
        yield scenes.plan_items(range(first, min(first + _PLANNED_ITEMS, shard.last)))


def _pages(planned: Iterable[ItemPlan]) -> Iterator[ItemPlan]:
    """Items whose tables are made together: how many there are in each depends on nothing but the plan.

    What could not be planned is with those planned with it; where nothing could be, a page of no items has it.
    """
    waiting: ItemPlan | None = None
    for items in planned:
        failures = items.failures if waiting is None else waiting.failures | items.failures
        waiting = items if waiting is None else join_items([waiting, items])
        ends = _page_ends(waiting)
        for first, last in pairwise([0, *ends]):
            yield replace(waiting.part(first, last), failures=failures)
            failures = {}
        waiting = replace(waiting.part(ends[-1] if ends else 0, len(waiting)), failures=failures)
    if waiting is not None:
        yield waiting


def _page_ends(items: ItemPlan) -> list[int]:
    """Where full pages of these items end."""
    n_samples = np.append(0, np.cumsum(items.scenes.n_samples))[items.scene_offsets]
    ends: list[int] = []
    first = 0
    for i in range(len(items)):
        if i > first and (n_samples[i + 1] - n_samples[first] > _PAGE_SAMPLES or i - first == _PAGE_ITEMS):
            ends.append(i)
            first = i
    return ends


def _batches(items: ItemPlan, scenes: ScenePlan | Prepared, stems: bool, device: str) -> Iterator[_Batch]:
    """Items that are mixed together."""
    n_scenes, step = np.diff(items.scene_offsets), max(1, len(items))
    if len(items):
        largest = int(items.scenes.n_samples.max()) * int(n_scenes.max())
        if stems:
            largest *= 1 + int(np.diff(items.scenes.event_offsets).max())
        step = max(1, _BATCH_SAMPLES * (1 if device == "cpu" else _DEVICE_FACTOR) // largest)
    for start in range(0, max(1, len(items)), step):
        end = min(start + step, len(items))
        first, last = items.scene_offsets[[start, end]].tolist()
        yield _Batch(items.part(start, end), scenes.part(first, last))


def _in_order(
    mix: Callable[[_Batch], _Mixed], batches: Iterable[_Batch], pool: ThreadPoolExecutor | None, ahead: int
) -> Generator[_Mixed]:
    """Mix batches on the pool, a bounded number of them ahead of what is asked for."""
    if pool is None:
        yield from map(mix, batches)
        return
    waiting: deque[Future[_Mixed]] = deque()
    try:
        for batch in batches:
            waiting.append(pool.submit(mix, batch))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        for future in waiting:
            if not future.cancelled():
                future.exception()


def origin(scenes: SceneGenerator) -> dict[str, Any]:
    """What is rendered, and by what: two renders into one folder must agree in it."""
    output = scenes.spec.plain(explicit=True)["output"]
    return {
        "fingerprint": scenes.fingerprint,
        "spec": scenes.spec.fingerprint_content(),
        "stores": {name: store.fingerprint for name, store in scenes.stores.items()},
        "community": None if scenes.community is None else scenes.community.fingerprint(),
        "plan_version": PLAN_VERSION,
        "output": {name: value for name, value in output.items() if name != "dir"},
        "made_with": made_with(scenes.device),
    }


def made_with(device: str) -> dict[str, str]:
    """Kind of device, and versions of what computes samples on it."""
    packages = ["synthscape", "numba", "numpy", "scipy", *([] if device == "cpu" else ["torch", "triton"])]
    return {"device": device.partition(":")[0], **{name: _version(name) for name in packages}}


@cache  # to look one up takes milliseconds
def _version(package: str) -> str:
    return version(package)


def versions() -> dict[str, str]:
    """Versions of what files depend on."""
    import soundfile

    names = ("synthscape", "numpy", "numba", "scipy", "soundfile", "pyarrow", "orjson")
    return {**{name: _version(name) for name in names}, "libsndfile": soundfile.__libsndfile_version__}


@cache
def cpu_target() -> str:
    """The kind of processor that kernels are compiled for; over kinds, samples may differ in their last bit."""
    from llvmlite.binding import get_host_cpu_name

    return os.environ.get("NUMBA_CPU_NAME") or str(get_host_cpu_name())
