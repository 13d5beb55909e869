"""The tasks whose items are questions, by name."""

from __future__ import annotations

from typing import Final

from synthscape.tasks.choice import Choice, SameDifferent
from synthscape.tasks.detection import Binary, Counting, FewShot, FewShotScenes
from synthscape.tasks.task import Task

TASKS: Final[dict[str, Task]] = {
    "few_shot_detection": FewShot(),
    "few_shot_scenes": FewShotScenes(),
    "call_type_mcq": Choice(named=False),
    "call_type_binary": Binary(),
    "call_type_same_different": SameDifferent(),
    "call_type_matching": Choice(named=True),
    "species_matching": Choice(named=True),
    "counting": Counting(),
}
