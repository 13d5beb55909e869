"""Plans of excerpts and of scenes without a background, for the mixers of either kind."""

from __future__ import annotations

from typing import Any

from synthscape.plan.plan import NO_LEVEL, PATCH, PROCEDURAL_TAIL, ScenePlan
from tests.gpu.scenes import RATIOS, event, plan_of, scene

#: What specs may ask of levels.
ASKED = {
    "band": [],
    "scene": ["events.snr.reference=scene"],
    "loudness": ["events.snr.reference=loudness", "background.level_dbfs=null", "background.level_lufs=-35"],
    "source": ["events.propagation.distance_m=30", "events.level.mode=source", "events.level.source_level_db=80",
               "background.spl_db=50"],
}  # fmt: skip


def excerpt(
    clip: int, start: int, end: int, onset: int, n_samples: int, ratio: int = 0, **columns: Any
) -> dict[str, Any]:
    """A patch: samples [start, end) of a clip from ``onset`` on, active throughout, cut by the scene."""
    p, q = RATIOS[ratio]
    last = onset - (-(end - start) * p // q)
    active = {"onset": max(onset, 0), "offset": min(last, n_samples)}
    where = {"clip_start": start, "clip_end": end, "clip_onset": onset, "clip_offset": last, "ratio": ratio}
    return {"clip": clip, "role": PATCH, **where, **active, **columns}


def nothing_behind(n_samples: int, level_db: float) -> dict[str, Any]:
    """Columns of a scene without a background."""
    return scene(n_samples, (-1, 0, 0), level_db=level_db)


def special_plan(asked: str) -> ScenePlan:
    """Excerpts over backgrounds and without, beside ordinary events; bare scenes among others."""
    level: dict[str, Any] = {}
    if asked == "source":
        level = {"source_level_db": 80 * 256, "snr_db": NO_LEVEL, "distance_mm": 3000}
    tail = {"impulse": PROCEDURAL_TAIL, "rt60_ms": 50, "drr_db": 3 * 256}
    none = {"snr_db": NO_LEVEL}
    return plan_of(
        (
            scene(1024, (0, 0, 8), level_db=-20, background_spl_db=50 * 256),
            [
                excerpt(3, 100, 600, -90, 1024, fade_in=20, fade_out=30, **level),
                event(2, 200, 1024, **level),
                excerpt(0, 13, 303, 500, 1024, 1, reversed=True, fade_in=50, **level),
                excerpt(3, 801, 1001, 800, 1024, 2, fade_out=9, **tail, **level),
            ],
        ),
        (
            nothing_behind(1000, -25),
            [excerpt(3, 50, 400, 100, 1000, **none), event(2, 300, 1000, 3, **none), event(1, 700, 1000, **none)],
        ),
        (nothing_behind(600, -10), [event(1, -60, 600, reversed=True, fade_out=70, **tail, **none)]),
    )
