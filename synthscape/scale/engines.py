"""Engines: what renders shards. All do the same, :func:`synthscape.scale.shard.make_shard`.

==========  ==================================================================================
``inline``  one after the other, in the caller's thread
``threads`` one after the other, the scenes of each on all cores of this machine (the default)
``ray``     many at a time, on the machines of a Ray cluster (``synthscape.scale.on_ray``)
==========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext

from synthscape.output.folder import DatasetFolder, Shard
from synthscape.scale.progress import Progress, Step
from synthscape.scale.shard import make_shard
from synthscape.tasks.generator import SceneGenerator

#: Renders shards into a folder; when all of them exist, gives how many of them another process made meanwhile.
Run = Callable[[DatasetFolder, Sequence[Shard], Progress | None], int]
#: Gets ready to render, and finds what is missing before anything is written.
Engine = Callable[[SceneGenerator], AbstractContextManager[Run]]


@contextmanager
def on_threads(scenes: SceneGenerator, workers: int) -> Iterator[Run]:
    """Render one shard after the other on threads of this process; with one worker in the caller's.

    Raises:
        MixError: there is no such device.
    """
    if scenes.device != "cpu":
        _ = scenes.device_mixer

    with ThreadPoolExecutor(workers, "synthscape") if workers > 1 else nullcontext() as pool:

        def run(folder: DatasetFolder, shards: Sequence[Shard], progress: Progress | None) -> int:
            made_meanwhile = 0
            for shard in shards:
                made_meanwhile += "kept" in make_shard(scenes, folder, shard, pool, progress, workers)
                if progress:
                    progress(Step(shard=shard.number))
            return made_meanwhile

        yield run
