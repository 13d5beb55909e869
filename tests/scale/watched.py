"""Generators that can be watched, held up and killed in other processes, for tests of rendering on clusters."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthscape.errors import MixError
from synthscape.mix.batch import SceneBatch
from synthscape.mix.mixer import Prepared
from synthscape.plan.plan import ScenePlan
from synthscape.spec import Spec
from synthscape.storage import LocalPlace
from synthscape.tasks.generator import SceneGenerator

_LONGEST_WAIT_S = 40.0


def _numbers(plan: ScenePlan | Prepared) -> NDArray[np.int64]:
    return plan.plan.scene if isinstance(plan, Prepared) else plan.scene


class Watched(SceneGenerator):
    """Each process that mixes leaves a file named by its id in ``marks``; mixing a batch takes ``delay_s`` longer.

    From item ``held_from`` on, mixing waits until ``processes`` have mixed something.
    """

    def __init__(
        self, spec: Spec, marks: Path, delay_s: float = 0.0, held_from: int | None = None, processes: int = 0
    ) -> None:
        super().__init__(spec)
        marks.mkdir(exist_ok=True)
        self.watch = {"marks": marks, "delay_s": delay_s, "held_from": held_from, "processes": processes}

    def __getstate__(self) -> dict[str, Any]:
        """With what is watched."""
        return {**super().__getstate__(), "watch": self.watch}

    def mix_as_written(self, plan: ScenePlan | Prepared, *, stems: bool = False) -> SceneBatch:
        """The usual scenes, later."""
        numbers = _numbers(plan)
        marks: Path = self.watch["marks"]
        (marks / str(os.getpid())).touch()
        time.sleep(self.watch["delay_s"])
        held_from, last = self.watch["held_from"], time.monotonic() + _LONGEST_WAIT_S
        while held_from is not None and numbers.max() >= held_from and time.monotonic() < last:
            if len(list(marks.iterdir())) >= self.watch["processes"]:
                break
            time.sleep(0.05)
        return super().mix_as_written(plan, stems=stems)


class Fatal(SceneGenerator):
    """Mixing the item of number ``item`` ends the process, finds the disk full, or fails."""

    def __init__(self, spec: Spec, item: int, end: str) -> None:
        super().__init__(spec)
        self.fate = {"item": item, "end": end}

    def __getstate__(self) -> dict[str, Any]:
        """With what it comes to."""
        return {**super().__getstate__(), "fate": self.fate}

    def mix_as_written(self, plan: ScenePlan | Prepared, *, stems: bool = False) -> SceneBatch:
        """The usual scenes, but for that one."""
        if self.fate["item"] in _numbers(plan):
            match self.fate["end"]:
                case "exit":
                    os._exit(1)
                case "full disk":
                    raise OSError(errno.ENOSPC, "No space left on device", "out/audio")
                case "refused":
                    raise MixError("the item is too much")
        return super().mix_as_written(plan, stems=stems)


class Elsewhere(LocalPlace):
    """A folder that other processes see another folder under its name, as on machines that share no file system."""

    def __init__(self, where: Path, other: Path):
        super().__init__(where)
        self.other = other

    def __getstate__(self) -> dict[str, Any]:
        """What the other process has."""
        return {"where": self.other}
