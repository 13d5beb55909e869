"""Rendering on a Ray cluster: actors that render shards, as many as the cluster has room for.

What goes to an actor is the spec and a path or URL, what comes back are counts: audio goes from the actor to its place.
"""

from __future__ import annotations

import os
import pickle
import platform
import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from queue import SimpleQueue
from threading import current_thread, main_thread
from typing import Any, Final

import ray
import ray.exceptions

import synthscape
import synthscape_kernels
from synthscape.errors import DatasetError, SpecError, SynthscapeError
from synthscape.output.folder import ORIGIN_FILE, DatasetFolder, Shard
from synthscape.scale.engines import Run
from synthscape.scale.progress import Progress, Step
from synthscape.scale.shard import made_with, make_shard, warm_up
from synthscape.tasks.generator import SceneGenerator

_LOOK_S: Final = 1.0  # between two looks at what is free
_MOST_LOSSES: Final = 3
_STOP_S: Final = 30.0  # that actors have to give up a shard: a batch of scenes takes a fraction of a second
_ARRIVAL_S: Final = 60.0  # file systems of clusters may show a new file that late
_CONNECT_S: Final = 5.0
_OBJECT_STORE_BYTES: Final = 2**27  # of clusters started here: nearly the least Ray takes, as nothing large goes there
_START: Final = "start one with `ray start --head` (and `ray start --address=HOST:PORT` on other machines)"


@contextmanager
def on_ray(scenes: SceneGenerator, address: str, workers: int) -> Iterator[Run]:
    """Render many shards at a time, each by an actor of a Ray cluster.

    There are as many actors as the cluster has free processors (or GPUs) for: nodes that are added while it runs get
    some, and the shards of lost ones are rendered again. A Ray that this process has initialised is used as it is.

    Args:
        scenes: what to render; on ``cuda``, each actor has a GPU.
        address: ``auto``, ``local`` or ``HOST:PORT``.
        workers: threads of each actor.

    Raises:
        SpecError: no cluster is there, or none of its nodes has what an actor needs.
    """
    if scenes.device not in ("cpu", "cuda"):
        raise SpecError(f"device {scenes.device!r}: on Ray, each actor has a GPU of its own; say cpu or cuda")
    need = {"CPU": float(workers), **({} if scenes.device == "cpu" else {"GPU": 1.0})}
    connected = _connected(address)

    def connect() -> None:
        connected.__enter__()
        if not any(_times(need, node["Resources"]) for node in ray.nodes() if node["Alive"]):
            asked = " and ".join(f"{n:g} {name}" for name, n in need.items())
            error = SpecError(
                f"ray: an actor needs {asked}, and no node of the cluster has as many; add one, or set --workers"
            )
            connected.__exit__(type(error), error, None)
            raise error

    def run(folder: DatasetFolder, shards: Sequence[Shard], progress: Progress | None) -> int:
        steps: SimpleQueue[Step | None] = SimpleQueue()
        crew = _Crew(scenes, folder, need, steps.put)
        made = with_ray.submit(crew.render, shards)
        made.add_done_callback(lambda _: steps.put(None))
        try:
            while step := steps.get():
                if progress:
                    progress(step)
            return made.result()
        finally:
            crew.stop()

    # What signals raise comes in the main thread, and Ray's native code there would make a crash of it.
    with ThreadPoolExecutor(1, "synthscape-ray") as with_ray:
        connecting = with_ray.submit(connect)
        try:
            connecting.result()
            if current_thread() is main_thread():
                signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # Ray has set its own
            yield run
        finally:
            if connecting.exception() is None:
                with_ray.submit(connected.__exit__, None, None, None).result()


class Worker:
    """An actor: opens the stores once, warms up once, then renders shards. Other threads may tell it to stop."""

    def __init__(self) -> None:
        self._stopped = False

    def open(self, sent: bytes, expected: dict[str, str], workers: int) -> str:
        """Get ready, and give the name of this node.

        Args:
            sent: the generator and the folder, pickled.
            expected: what the driver renders with, as of ``_software``.
            workers: threads.

        Raises:
            DatasetError: this node has other software, or does not see the folder.
            StoreError: it does not see the stores.
        """
        node = platform.node()
        here = _software(expected["device"])
        differing = [f"{name} {here.get(name)}, not {there}" for name, there in expected.items() if here[name] != there]
        if differing:
            raise DatasetError(
                f"node {node} has {'; '.join(differing)} (in {Path(synthscape.__file__).parent}): install the same on "
                "all nodes"
            )
        try:
            self._scenes, self._folder = pickle.loads(sent)
        except SynthscapeError as error:
            error.args = (f"node {node}: {error}", *error.args[1:])
            raise
        if not self._folder.place.exists(ORIGIN_FILE):
            raise _not_shared(self._folder, node)
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, "synthscape") if workers > 1 else None
        warm_up(self._scenes)
        return node

    def make(self, shard: Shard) -> Step:
        """Render a shard, and say what is in it."""

        def go_on(_: Step) -> None:
            if self._stopped:
                raise _StoppedError

        receipt = make_shard(self._scenes, self._folder, shard, self._pool, go_on, self._workers)
        counts = receipt["counts"]
        return Step(
            items=counts["items"],
            failed=counts["failed"],
            scenes=counts["scenes"],
            audio_s=counts["n_samples"] / self._scenes.sample_rate,
            shard=shard.number,
            kept="kept" in receipt,
        )

    def stop(self) -> None:
        """Give up the shard that is being rendered, and leave nothing of it."""
        self._stopped = True


class _StoppedError(Exception):
    """The driver wants no more shards."""


@dataclass
class _Member:
    """An actor, as the driver knows it."""

    actor: Any
    node: str = ""  # unknown until it is ready
    shard: Shard | None = None  # that it renders
    proven: bool = False  # a shard of it has been seen


class _Crew:
    """The driver's side: who renders what."""

    def __init__(self, scenes: SceneGenerator, folder: DatasetFolder, need: dict[str, float], progress: Progress):
        self._folder = folder
        self._need = need
        self._progress = progress
        self._sent = pickle.dumps((scenes, folder))
        self._software = _software(scenes.device)
        self._actors = ray.remote(
            num_cpus=need["CPU"],
            num_gpus=need.get("GPU", 0),
            max_restarts=0,
            scheduling_strategy="SPREAD",
            concurrency_groups={"stop": 1},
        )(Worker)
        self._working: dict[Any, _Member] = {}  # by what their answer is called
        self._looked = -_LOOK_S
        self._made_meanwhile = 0
        self._stopping = False

    def stop(self) -> None:
        """Give up what is being rendered; ``render``, in another thread, then ends with an error of no meaning."""
        self._stopping = True

    def render(self, shards: Iterable[Shard]) -> int:
        waiting = deque(shards)
        losses: Counter[int | None] = Counter()  # by shard; None: before it had one
        try:
            while waiting or any(member.shard for member in self._working.values()):
                if self._stopping:
                    raise _StoppedError
                self._hire(len(waiting))
                for answer in ray.wait(list(self._working), timeout=_LOOK_S)[0]:
                    member = self._working.pop(answer)
                    try:
                        self._heed(member, ray.get(answer))
                    except ray.exceptions.RayTaskError as error:
                        raise _own(error) from None
                    except ray.exceptions.RayError as error:  # the actor or its node is lost
                        ray.kill(member.actor)
                        if member.shard:
                            waiting.appendleft(member.shard)
                        _count_loss(losses, member.shard, error)
                        continue
                    if member.shard is None:
                        losses[None] = 0
                    if waiting:
                        member.shard = waiting.popleft()
                        self._working[member.actor.make.remote(member.shard)] = member
                    else:
                        ray.kill(member.actor)  # others may use its place
        finally:
            self._dismiss()
        return self._made_meanwhile

    def _hire(self, n_waiting: int) -> None:
        """Ask for as many actors as there is room and work for; one in any case, which is waited for."""
        if self._working and time.monotonic() < self._looked + _LOOK_S:
            return
        self._looked = time.monotonic()
        asked_for = sum(not member.node for member in self._working.values())
        room = _times(self._need, ray.available_resources())
        for _ in range(min(n_waiting, room if self._working else max(room, 1)) - asked_for):
            actor = self._actors.remote()
            answer = actor.open.remote(self._sent, self._software, int(self._need["CPU"]))
            self._working[answer] = _Member(actor)

    def _heed(self, member: _Member, said: str | Step) -> None:
        if isinstance(said, str):
            member.node = said
            return
        if member.shard and not member.proven:
            _wait_for_receipt(self._folder, member.shard, member.node)
            member.proven = True
        self._made_meanwhile += said.kept
        self._progress(said)

    def _dismiss(self) -> None:
        """End all actors, those that render when they have given up, and remove what lost ones left."""
        rendering = [answer for answer, member in self._working.items() if member.shard]
        for answer in rendering:
            self._working[answer].actor.stop.options(concurrency_group="stop").remote()
        if rendering:
            ray.wait(rendering, num_returns=len(rendering), timeout=_STOP_S)
        for member in self._working.values():
            ray.kill(member.actor)
        self._folder.remove_leftovers()


def _times(need: dict[str, float], resources: dict[str, float]) -> int:
    """How often the resources hold what is needed."""
    return min(int(resources.get(name, 0) / n) for name, n in need.items())


def _count_loss(losses: Counter[int | None], shard: Shard | None, error: Exception) -> None:
    number = shard.number if shard else None
    losses[number] += 1
    if losses[number] == _MOST_LOSSES:
        what = f"shard {shard.name} (items {shard.first} to {shard.last - 1})" if shard else "getting ready"
        raise DatasetError(
            f"{what} ended its worker {_MOST_LOSSES} times ({_reason(error)}); the logs of Ray on its node, "
            "/tmp/ray/session_latest/logs, may say more"
        ) from None


def _reason(error: Exception) -> str:
    """What Ray says at the end, without its guesses."""
    last = str(error).strip().splitlines()[-1].strip()
    return last.partition(" Some common causes")[0].rpartition("Worker exit detail: ")[2].rstrip(".")


def _own(error: ray.exceptions.RayTaskError) -> BaseException:
    """What an actor raised, where that is ours or the system's; a fault is shown as Ray has it, with its traceback."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, SynthscapeError | OSError | MemoryError) else error


def _wait_for_receipt(folder: DatasetFolder, shard: Shard, node: str) -> None:
    last = time.monotonic() + _ARRIVAL_S
    while not folder.made_meanwhile(shard):
        if time.monotonic() > last:
            raise _not_shared(folder, node)
        time.sleep(_LOOK_S)


def _not_shared(folder: DatasetFolder, node: str) -> DatasetError:
    return DatasetError(
        f"{folder.place}: what is there on node {node} is not what is there here; set output.dir to a folder that all "
        "nodes share, or to a URL (s3://BUCKET/FOLDER)"
    )


def _software(device: str) -> dict[str, str]:
    """What must be the same on all nodes: versions, and our own code, wherever it is installed."""
    return {**made_with(device), "code": _code()}


@cache
def _code() -> str:
    folders = [Path(str(package.__file__)).parent for package in (synthscape, synthscape_kernels)]
    files = sorted(
        (file.relative_to(folder.parent).as_posix(), file) for folder in folders for file in folder.rglob("*.py")
    )
    content = b"".join(name.encode() + file.read_bytes() for name, file in files)
    return blake2b(content, digest_size=8).hexdigest()


@contextmanager
def _connected(address: str) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or "auto"
    where = "on this machine" if address == "auto" else f"at {address}"
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address == "local":
            with _no_usage_statistics():
                ray.init("local", include_dashboard=False, object_store_memory=_OBJECT_STORE_BYTES, **quiet)
        else:
            _check_reachable(address)
            ray.init(address, **quiet)
    except SpecError:
        raise
    except Exception as error:  # Ray raises a plain one where a cluster does not come up
        said = str(error).partition("\n")[0].partition(". ")[0]
        raise SpecError(f"ray: no cluster {where} ({said}); {_START}, or say --ray local") from None
    worker = ray._private.worker
    worker._worker_logs_enabled = False  # what nodes tell would go to our standard output, and no setting stops it
    try:
        yield
    finally:
        ray.shutdown()
        worker._worker_logs_enabled = True


def _check_reachable(address: str) -> None:
    """Refuse at once what Ray would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise SpecError(f"ray: expected auto, local or HOST:PORT, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise ConnectionError(error.strerror or error) from None


@contextmanager
def _no_usage_statistics() -> Iterator[None]:
    name = "RAY_USAGE_STATS_ENABLED"
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
