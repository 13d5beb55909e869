"""What a plan asks of its events: which part of a clip is played, and how strong it shall be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.plan.plan import AS_RECORDED, DB_STEPS, NO_BACKGROUND, PATCH, ScenePlan

Floats = NDArray[np.float64]


def bare(plan: ScenePlan) -> NDArray[np.bool_]:
    """Which scenes have no background, [s].

    There is no SNR in them: ``level_dbfs`` is the level of each event (of its gain group) over its active part.
    """
    return np.asarray((plan.background == NO_BACKGROUND).all(axis=1))


def no_level(plan: ScenePlan, i: int) -> str | None:
    """What is wrong with the i-th scene if it has events, but neither a background nor a level."""
    if plan.level_dbfs[i] != AS_RECORDED or (plan.background[i] != NO_BACKGROUND).any():
        return None
    if plan.event_offsets[i] == plan.event_offsets[i + 1]:
        return None
    return (
        f"scene {int(plan.scene[i])} has neither a background nor a level, so nothing says how loud its events are; "
        "set background.level_dbfs"
    )


def signal_share(plan: ScenePlan, of_clips: Floats) -> Floats:
    """Share of each event's power that is signal, [e]: the clip's, but all of a patch, which holds no call.

    Args:
        of_clips: of each clip of the bank.
    """
    return np.where(plan.role == PATCH, 1.0, of_clips[plan.clip])


def wanted_power(plan: ScenePlan, by_source: bool) -> Floats:
    """Signal power over background power that each event shall have, [e]; in bare scenes its mean square.

    Args:
        by_source: levels are given at the source and lose by spherical spreading, instead of as SNRs.
    """
    n_events = np.diff(plan.event_offsets)
    alone = np.repeat(bare(plan), n_events)
    level_db = np.repeat(np.where(plan.level_dbfs == AS_RECORDED, 0, plan.level_dbfs), n_events)
    if by_source:
        above_db = (plan.source_level_db - np.repeat(plan.background_spl_db, n_events)) / DB_STEPS
        distance_m = np.where((plan.distance_mm > 0) & ~alone, plan.distance_mm / 1000.0, 1.0)
        return np.asarray(10.0 ** (np.where(alone, level_db / DB_STEPS, above_db) / 10.0) / distance_m**2)
    return np.asarray(10.0 ** (np.where(alone, level_db, plan.snr_db) / (10.0 * DB_STEPS)))


def is_excerpt(plan: ScenePlan, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which events play a part of their clip only, [e].

    Args:
        lengths: of each clip of the bank, samples.
    """
    return np.asarray((plan.clip_start > 0) | (plan.clip_end < lengths[plan.clip]))


def active_as_played(plan: ScenePlan, bank: ClipStore) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each event's whole active part in its clip as played, whatever the scene cuts: start, end (exclusive).

    Of an excerpt all is active.
    """
    excerpt, length = is_excerpt(plan, bank.lengths), plan.clip_end - plan.clip_start
    start, end = (edge[plan.clip] for edge in bank.active)
    start, end = np.where(excerpt, 0, start), np.where(excerpt, length, end)
    start, end = (
        np.where(plan.reversed, length - end, start),
        np.where(plan.reversed, length - start, end),
    )
    p, q = plan.ratio_p[plan.ratio].astype(np.int64), plan.ratio_q[plan.ratio].astype(np.int64)
    return start * p // q, -(-end * p // q)
