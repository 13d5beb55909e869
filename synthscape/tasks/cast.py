"""What an item is made of before anything is placed: who is heard in which scene, what is asked, what is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from synthscape.plan.plan import DISTRACTOR, NO_BACKGROUND, PATCH, SUPPORT, TARGET

__all__ = ["DISTRACTOR", "PATCH", "SUPPORT", "TARGET", "Cast", "Cue", "Option", "SceneCast"]

CLIP, SCENE, SUPPORT_SCENE = range(3)  # kinds of scenes: length and SNR come from `clips`, or from the spec itself
QUERY: Final = "query"


class Cue(NamedTuple):
    """An event that a scene shall have: everything but when, and how loud.

    Attributes:
        clip: row in the bank.
        class_id: index in the class list.
        ratio: index in the planner's ratio table.
        backwards: played backwards.
        role: TARGET (of a type that is asked about), DISTRACTOR, SUPPORT (in an example), or PATCH.
        required: the item is only true if this event is audible, so the item fails if it is not.
        start, end: of a patch: the part of the clip, in stored samples.
    """

    clip: int
    class_id: int
    ratio: int
    backwards: bool = False
    role: int = TARGET
    required: bool = False
    start: int = 0
    end: int = 0


@dataclass
class SceneCast:
    """A scene or clip of an item."""

    part: str  # its name within the item: query, background, support, a1, a2, b1, ...
    kind: int = SCENE
    backgrounds: tuple[int, int] = (NO_BACKGROUND, NO_BACKGROUND)  # rows, or NOISE; without any a clip is bare
    cues: list[Cue] = field(default_factory=list)


@dataclass(frozen=True)
class Option:
    """Something that is asked about."""

    letter: str
    class_id: int
    present: bool
    examples: Sequence[str]  # parts


@dataclass
class Cast:
    """An item: its scenes in the order they are heard, and question and answer, as in the items table."""

    scenes: list[SceneCast]
    options: list[Option] = field(default_factory=list)
    answer: str = ""
    answer_letters: list[str] = field(default_factory=list)
    count: int | None = None
    negatives: str | None = None
    matched: bool = False
    domain_shift: bool = False
