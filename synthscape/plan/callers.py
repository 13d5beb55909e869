"""Callers: which clips of a class are one animal's, as far as the bank tells animals apart."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthscape.errors import PlanError
from synthscape.spec.schema import Spec

TAKES_CALLERS: Final = ("bout", "chorus", "antiphony")


def caller_names(species: pd.Series, individual: pd.Series, track: pd.Series, recording: pd.Series) -> pd.Series:
    """Who calls, as text, one for each clip: the individual, else the track, else the recording, else the clip itself.

    Individuals are named within their species. Where only the recording is known, all that is heard in it of a class
    counts as one animal.
    """
    name = "clip\0" + pd.Series(np.arange(len(species)).astype(str), dtype="str")
    name = ("recording\0" + species.fillna("") + "\0" + recording).where(recording.notna(), name)
    name = ("track\0" + track).where(track.notna(), name)
    return ("individual\0" + species.fillna("") + "\0" + individual).where(individual.notna(), name)


def cast_columns(
    class_first: NDArray[np.int64], class_member: NDArray[np.int64], clips: NDArray[np.int64], rows: NDArray[np.void]
) -> dict[str, NDArray[Any]]:
    """The members of each class sorted by caller: columns of the kernel's Cast.

    Args:
        class_first: [media, classes + 1] into class_member.
        class_member: members of the classes.
        clips: [members] their clips.
        rows: of CLIP_ROW; ``speaker`` is the caller.
    """
    sizes = np.diff(class_first, axis=1).ravel()
    of_class = np.repeat(np.arange(len(sizes)), sizes)  # medium x classes + class
    caller, recording = rows["speaker"][clips[class_member]], rows["recording"][clips[class_member]]
    order = np.lexsort((class_member, recording, caller, of_class))
    of_class, caller = of_class[order], caller[order]
    begins = np.append(True, (of_class[1:] != of_class[:-1]) | (caller[1:] != caller[:-1]))
    first = np.flatnonzero(begins)
    before = np.append(0, np.cumsum(np.bincount(of_class[first], minlength=len(sizes))))
    n_classes = class_first.shape[1] - 1
    return {
        "class_first": np.array([before[i : i + n_classes + 1] for i in range(0, len(sizes), n_classes)], np.int64),
        "member_first": np.append(first, len(order)).astype(np.int64),
        "member": class_member[order].astype(np.int64),
    }


def check_callers(spec: Spec, class_first: NDArray[np.int64], where: object) -> None:
    """Raise PlanError if no class has as many callers as the process needs.

    Args:
        spec: what is asked.
        class_first: [media, classes + 1], see Cast.
        where: the bank, for the message.
    """
    events = spec.events
    needed = {"bout": 1.0, "chorus": events.chorus.callers.bounds()[0], "antiphony": 2.0}[events.process or "bout"]
    if events.process == "antiphony" and events.antiphony.partner == "other_class":
        needed = 1.0
    most = int(np.diff(class_first, axis=1).max())
    if most >= needed:
        return
    advice = {"chorus": "ask for fewer in events.chorus.callers", "antiphony": "use partner: other_class"}
    raise PlanError(
        f"events.process: {events.process} needs {needed:g} callers of one class, but no class of {where} has "
        f"more than {most} (told apart by individual, track_id or recording_id); {advice[str(events.process)]}, or "
        "another bank"
    )
