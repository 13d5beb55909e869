"""Engines: what renders shards. All do the same, :func:`synthscape.scale.shard.make_shard`.

==========  ==================================================================================
``inline``  one after the other, in the caller's thread
``threads`` one after the other, the scenes of each on all cores of this machine (the default)
``ray``     many at a time, on the machines of a Ray cluster (``synthscape.scale.on_ray``)
==========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from synthscape.output.folder import DatasetFolder, Shard
from synthscape.scale.progress import Progress, Step
from synthscape.scale.shard import make_shard
from synthscape.tasks.generator import SceneGenerator


class Engine(Protocol):
    """What renders shards."""

    def run(
        self, scenes: SceneGenerator, folder: DatasetFolder, shards: Sequence[Shard], progress: Progress | None
    ) -> Iterator[dict[str, Any]]:
        """Render these shards; give the receipt of each when it exists, in any order."""
        ...


class Threads:
    """Renders on threads of this process; with one worker in the caller's."""

    def __init__(self, workers: int):
        self.workers = workers

    def run(
        self, scenes: SceneGenerator, folder: DatasetFolder, shards: Sequence[Shard], progress: Progress | None
    ) -> Iterator[dict[str, Any]]:
        """Render these shards one after the other."""
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="synthscape") if self.workers > 1 else None
        try:
            for shard in shards:
                receipt = make_shard(scenes, folder, shard, pool, progress, self.workers)
                if progress:
                    progress(Step(shard=shard.number))
                yield receipt
        finally:
            if pool is not None:
                pool.shutdown()
