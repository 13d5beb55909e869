"""What rendering costs on this machine: a few scenes, rendered the way a render does, into a temporary folder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from synthscape.labels.batches import take_scenes
from synthscape.output.audio import encode
from synthscape.output.folder import TABLES, TEXTS, DatasetFolder, Shard, has_audio, open_folder
from synthscape.output.formats import CONTAINER_FOLDERS
from synthscape.scale.engines import on_threads
from synthscape.scale.render import available_workers
from synthscape.scale.shard import make_shard, origin
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator

_BUSY_S: Final = 0.7  # of rendering, on one thread and on all, twice each
_THREADED_SHARDS: Final = 4  # on all cores, where one is written while the next is mixed
_FIRST_ITEMS: Final = 8  # from which the number that takes so long is reckoned
_READINGS: Final = 100  # of receipts

#: What takes bytes: containers of audio, tables and texts, files that stand beside the audio, receipts and logs.
GROUPS: Final = ("audio", "tables", "beside", "receipts")


@dataclass(frozen=True)
class Rates:
    """What an item and a shard cost: a shard of n items takes ``shard_s + n * item_s`` on one thread.

    Attributes:
        cores: processor cores of the machine this was measured on.
        items: items rendered to measure it.
        item_s: seconds an item takes on one thread.
        encode_s: seconds of ``item_s`` that encoding takes.
        efficiency: speed of all cores, shard after shard, as a share of ``cores`` times that of one thread.
        shard_s: seconds a shard takes besides its items.
        setup_s: seconds until a worker has opened the stores and is ready, with kernels compiled.
        receipt_s: seconds to read the receipt of a shard.
        item_bytes: bytes an item takes, by group; see :data:`GROUPS`.
        shard_bytes: bytes a shard takes besides its items, likewise.
        item_files: files an item takes.
        shard_files: files a shard takes besides its items.
    """

    cores: int
    items: int
    item_s: float
    encode_s: float
    efficiency: float
    shard_s: float
    setup_s: float
    receipt_s: float
    item_bytes: dict[str, float]
    shard_bytes: dict[str, float]
    item_files: float
    shard_files: float


def measure_rates(spec: Spec, item_samples: float) -> Rates:
    """Render some of the first items, for a few seconds, on one thread and on all; nothing is left.

    Args:
        spec: what would be rendered.
        item_samples: audio of the dataset's mean item; what is measured is scaled to it.

    Raises:
        MixError: scenes don't fit in memory.
        OSError: the temporary folder can't be written.
    """
    begin = time.perf_counter()
    scenes = SceneGenerator(spec)
    scenes.plan_items([])
    scenes.mixer  # noqa: B018  (is made when first asked for)
    opened_s = time.perf_counter() - begin
    cores = available_workers()
    with _trial_folder(scenes) as folder:
        trials = _Trials(scenes, folder)
        first = trials.shard(1)  # the kernels of this spec are loaded, or compiled
        one = trials.faster(1)
        some = one
        if spec.items > 1 and one.seconds < _BUSY_S:
            few = trials.shard(min(_FIRST_ITEMS, spec.items))
            item_s = max((few.seconds - one.seconds) / max(few.items - 1, 1), few.seconds / few.items / 4)
            some = trials.faster(_as_many(item_s, few.items, spec.items))
        item_s, shard_s = _line(one.seconds, some.seconds, some.items)
        if not item_s:  # too few to tell them from the rest
            item_s, shard_s = some.seconds / some.items, 0.0
        efficiency = 1.0
        if some.items > cores > 1:
            each = max(1, _as_many(item_s / cores, some.items, spec.items) // _THREADED_SHARDS)
            work_s = _THREADED_SHARDS * (each * item_s + shard_s)
            efficiency = work_s / (cores * trials.threaded_s(each, cores))
        receipt_s = trials.reading_s()
    longer = item_samples / (some.samples / some.items) if some.samples else 1.0
    item_bytes, shard_bytes = {}, {}
    for group in GROUPS:
        item_bytes[group], shard_bytes[group] = _line(one.bytes[group], some.bytes[group], some.items)
    for group in ("audio", "beside"):
        item_bytes[group] *= longer
    item_files, shard_files = _line(one.files, some.files, some.items)
    return Rates(
        cores=cores,
        items=some.items,
        item_s=longer * item_s,
        encode_s=longer * _encode_s(scenes, some.items) if has_audio(spec.plain()["output"]) else 0.0,
        efficiency=efficiency,
        shard_s=shard_s,
        setup_s=opened_s + max(0.0, first.seconds - one.seconds),
        receipt_s=receipt_s,
        item_bytes=item_bytes,
        shard_bytes=shard_bytes,
        item_files=item_files,
        shard_files=shard_files,
    )


@dataclass(frozen=True)
class _Trial:
    """A shard that was rendered."""

    items: int
    seconds: float
    samples: int
    bytes: Counter[str]  # by group
    files: int


class _Trials:
    """Shards of the first items, one beside the other."""

    def __init__(self, scenes: SceneGenerator, folder: DatasetFolder):
        self._scenes, self._folder = scenes, folder
        self._numbers = count()
        self._shards: list[Shard] = []

    def shard(self, items: int) -> _Trial:
        shard = Shard(next(self._numbers), 0, items)
        self._shards.append(shard)
        begin = time.perf_counter()
        receipt = make_shard(self._scenes, self._folder, shard)
        seconds = time.perf_counter() - begin
        place = self._folder.place
        said = place.sizes([f"{name}/{shard.name}.json" for name in ("receipts", "log")])
        sizes: Counter[str] = Counter(dict.fromkeys(GROUPS, 0))
        for name, (_, n_bytes) in {**receipt["files"], **said}.items():
            sizes[_group(name)] += n_bytes
        for name in receipt["files"]:
            place.remove(name)
        n_files = sum(n for n, _ in (*receipt["files"].values(), *said.values()))
        return _Trial(items, seconds, receipt["counts"]["n_samples"], sizes, n_files)

    def faster(self, items: int) -> _Trial:
        """Of two: what else the machine does can only slow one."""
        return min((self.shard(items) for _ in range(2)), key=lambda trial: trial.seconds)

    def threaded_s(self, items: int, cores: int) -> float:
        """Seconds of some shards, one after the other on all cores."""
        times = []
        with on_threads(self._scenes, cores) as run:
            for _ in range(2):
                shards = [Shard(next(self._numbers), 0, items) for _ in range(_THREADED_SHARDS)]
                begin = time.perf_counter()
                run(self._folder, shards, None)
                times.append(time.perf_counter() - begin)
        return min(times)

    def reading_s(self) -> float:
        """Seconds to read a receipt."""
        shards = self._shards * -(-_READINGS // len(self._shards))
        begin = time.perf_counter()
        for _ in self._folder.receipts(shards):
            pass
        return (time.perf_counter() - begin) / len(shards)


@contextmanager
def _trial_folder(scenes: SceneGenerator) -> Iterator[DatasetFolder]:
    with (
        TemporaryDirectory(prefix="synthscape-plan-") as temporary,
        open_folder(Path(temporary) / "out", origin(scenes)) as folder,
    ):
        yield folder


def _group(name: str) -> str:
    folder = name.partition("/")[0]
    if folder in CONTAINER_FOLDERS:
        return "audio"
    return "tables" if folder in (*TABLES, *TEXTS) else "receipts" if folder in ("receipts", "log") else "beside"


def _as_many(item_s: float, least: int, most: int) -> int:
    """How many items to render, so that it takes about as long as it may."""
    return max(least, min(most, round(_BUSY_S / item_s)))


def _line(of_one: float, of_all: float, n: int) -> tuple[float, float]:
    """What each item adds, and what there is besides: the line through one item and n."""
    if n == 1:
        return float(of_one), 0.0
    each = max(0.0, (of_all - of_one) / (n - 1))
    return each, max(0.0, of_one - each)


def _encode_s(scenes: SceneGenerator, n_items: int) -> float:
    """Seconds an item's encoding takes on one thread."""
    items = scenes.plan_items(range(min(n_items, _FIRST_ITEMS)))
    if not len(items):
        return 0.0
    total = 0.0
    for s, n in enumerate(items.scenes.n_samples.tolist()):
        pcm: Any = scenes.mix_as_written(take_scenes(items.scenes, np.array([s]))).pcm
        seconds = []
        for _ in range(2):  # the first may meet with something else
            begin = time.perf_counter()
            encode(pcm[0, :n], scenes.sample_rate, scenes.spec.output.audio)
            seconds.append(time.perf_counter() - begin)
        total += min(seconds)
    return total / len(items)
