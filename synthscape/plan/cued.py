"""Planning scenes that are cast: who is heard is given, when and how loud is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthscape.plan.program import ProgramBuilder
from synthscape.spec.distributions import Distribution
from synthscape.spec.schema import Spec
from synthscape_kernels.cues import KIND


def kinds_of_scenes(spec: Spec, builder: ProgramBuilder) -> NDArray[np.void]:
    """What the spec says of clips, scenes and support scenes: records of KIND; distributions go to the builder."""

    def kind(duration: Distribution | None, snr_db: Distribution) -> tuple[Any, ...]:
        node = -1 if duration is None else builder.add(duration)
        return node, builder.add(snr_db), builder.add(spec.clips.level_dbfs), spec.events.snr.audible_db

    rows = [
        kind(spec.clips.duration, spec.clips.snr_db),
        kind(spec.duration, spec.events.snr.db),
        kind(spec.question.support_duration, spec.events.snr.db),
    ]
    return np.array(rows, KIND)
