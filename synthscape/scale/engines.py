"""Engines: what renders shards. All do the same, :func:`synthscape.scale.shard.make_shard`.

==========  ==================================================================================
``inline``  one after the other, in the caller's thread
``threads`` one after the other, the scenes of each on all cores of this machine (the default)
``ray``     many at a time, on the machines of a Ray cluster (``synthscape.scale.on_ray``)
==========  ==================================================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from synthscape.output.folder import DatasetFolder, Shard
from synthscape.scale.progress import Progress, Step
from synthscape.scale.shard import begin_shard
from synthscape.tasks.generator import SceneGenerator

#: Renders shards into a folder; when all of them exist, gives how many of them another process made meanwhile.
Run = Callable[[DatasetFolder, Sequence[Shard], Progress | None], int]
#: Gets ready to render, and finds what is missing before anything is written.
Engine = Callable[[SceneGenerator], AbstractContextManager[Run]]


@contextmanager
def on_threads(scenes: SceneGenerator, workers: int) -> Iterator[Run]:
    """Render one shard after the other on threads of this process; with one worker in the caller's.

    With several, one more writes, so that they need not wait for the disk.

    Raises:
        MixError: there is no such device.
    """
    if scenes.device != "cpu":
        _ = scenes.device_mixer

    with ExitStack() as stack:
        pool = writing = None
        if workers > 1:
            pool = stack.enter_context(ThreadPoolExecutor(workers, "synthscape"))
            writing = stack.enter_context(ThreadPoolExecutor(1, "synthscape-writing"))

        def run(folder: DatasetFolder, shards: Sequence[Shard], progress: Progress | None) -> int:
            made_meanwhile = 0
            begun: deque[tuple[Shard, Future[dict[str, Any]]]] = deque()

            def end(n_left: int) -> None:
                nonlocal made_meanwhile
                while len(begun) > n_left:
                    done, receipt = begun.popleft()
                    made_meanwhile += "kept" in receipt.result()
                    if progress:
                        progress(Step(shard=done.number))

            try:
                for shard in shards:
                    begun.append((shard, begin_shard(scenes, folder, shard, pool, progress, workers, writing)))
                    end(1 if writing else 0)  # the one before was written while this one was mixed
            finally:  # what is being written when a render is stopped is finished, and told
                end(0)
            return made_meanwhile

        yield run
