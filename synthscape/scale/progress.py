"""What engines tell while they render."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """What was done since the last step.

    Attributes:
        items: items that are done, delivered or failed.
        failed: those of them that failed.
        scenes: scenes delivered.
        audio_s: seconds of audio in them.
        shard: number of a shard that exists from now on; its items were told before, or are told by this step.
        kept: they were there before, which is told once, first of all, even where nothing was; or another process made
            them meanwhile.
    """

    items: int = 0
    failed: int = 0
    scenes: int = 0
    audio_s: float = 0.0
    shard: int | None = None
    kept: bool = False


Progress = Callable[[Step], None]
