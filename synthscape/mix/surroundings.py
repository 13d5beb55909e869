"""Surroundings: what a plan says of distance and room, as the kernel each event is heard through."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import MixError
from synthscape.mix.propagation import (
    KERNEL_FLOOR_DB,
    absorption_air,
    absorption_kernel,
    absorption_water,
    combine,
    direct_and_tail,
    procedural_tail,
)
from synthscape.plan.plan import DB_STEPS, NO_IMPULSE, PROCEDURAL_TAIL, ScenePlan
from synthscape.spec.schema import Spec

Kernel = tuple[NDArray[np.float64], int, int]  # taps, the one that is time 0, samples of reverberation after it

_KEPT: Final = 256
_KEPT_TAPS: Final = 2**24  # of rooms: 128 MiB, or one room if that takes more


class Surroundings:
    """Kernels of the events of a plan.

    An event may be heard from a distance (absorption in the clip's ``medium``), in a room (an impulse response or a
    procedural tail), or both, one after the other.
    """

    def __init__(self, spec: Spec, bank: ClipStore, impulses: ClipStore | None):
        self._seed = spec.seed
        self._rate = spec.sample_rate
        self._impulses = impulses
        self._by_source = spec.events.level.mode == "source"
        self._bank_path = bank.path
        self._low_hz = bank.numbers("low_hz")
        self._in_water = np.zeros(len(bank), np.bool_)
        propagation = spec.events.propagation
        if propagation.distance_m is not None:
            in_water = pc.equal(bank.columns(["medium"])["medium"], "water").fill_null(False)
            self._in_water = in_water.to_numpy()
        air, water = propagation.air, propagation.water
        self._absorption = (
            partial(
                absorption_air,
                temperature_c=air.temperature_c,
                humidity_percent=air.humidity_percent,
                pressure_kpa=air.pressure_kpa,
            ),
            partial(
                absorption_water,
                temperature_c=water.temperature_c,
                salinity_ppt=water.salinity_ppt,
                depth_m=water.depth_m,
                ph=water.ph,
            ),
        )
        self._absorbing = lru_cache(_KEPT)(self._absorbing)  # type: ignore[method-assign]
        longest = 1 if impulses is None else int(impulses.lengths.max(initial=1))
        kept = max(1, min(_KEPT, _KEPT_TAPS // longest))
        self._room = lru_cache(kept)(self._room)  # type: ignore[method-assign]

    def propagated(self, plan: ScenePlan) -> NDArray[np.bool_]:
        """Which events of a plan are not dry, [e]."""
        return np.asarray((plan.distance_mm > 0) | (plan.impulse != NO_IMPULSE))

    def longest_tails(self, plan: ScenePlan) -> NDArray[np.int64]:
        """Most samples by which each event's kernel lengthens it, absorption aside, int64 [e]."""
        tails = np.ceil(plan.rt60_ms / 1000 * self._rate).astype(np.int64)
        if self._impulses is not None:
            tails = np.where(plan.impulse >= 0, self._impulses.lengths[np.maximum(plan.impulse, 0)], tails)
        return tails

    def kernel(self, plan: ScenePlan, i: int, e: int) -> Kernel:
        """What event ``e`` of the i-th scene is heard through; it must be a propagated one.

        Raises:
            MixError: its SNR was drawn, but nothing of the call is left to bring to it.
        """
        impulse, distance_mm = int(plan.impulse[e]), int(plan.distance_mm[e])
        taps, lead, tail = np.ones(1), 0, 0
        if impulse == PROCEDURAL_TAIL:
            taps = procedural_tail(
                int(plan.rt60_ms[e]) / 1000,
                int(plan.drr_db[e]) / DB_STEPS,
                self._rate,
                self._seed,
                int(plan.scene[i]),
                int(plan.gain_group[e]),  # calls of a track come from one place
            )
            tail = len(taps) - 1
        elif impulse != NO_IMPULSE:
            taps, lead = self._room(impulse)
            tail = len(taps) - 1 - lead
        if distance_mm > 0:
            self._check_something_is_left(plan, i, e)
            absorbing = self._absorbing(distance_mm, bool(self._in_water[plan.clip[e]]))
            taps, lead = combine(absorbing, len(absorbing) // 2, taps, lead)
        return taps, lead, tail

    def _check_something_is_left(self, plan: ScenePlan, i: int, e: int) -> None:
        """Raise MixError where absorption takes a call away: its SNR would be that of the clip's noise."""
        clip, ratio, distance_m = int(plan.clip[e]), plan.ratio[e], int(plan.distance_mm[e]) / 1000
        low_hz = min(self._low_hz[clip] * plan.ratio_q[ratio] / plan.ratio_p[ratio], self._rate / 2)
        absorption = self._absorption[bool(self._in_water[clip])]
        lost_db = float(absorption(np.array([low_hz]))[0]) * distance_m  # the least of the call's band
        if lost_db > KERNEL_FLOOR_DB and not self._by_source:  # never if the band is not known
            raise MixError(
                f"scene {int(plan.scene[i])}: of clip {clip} of {self._bank_path}, a call from {low_hz:.0f} Hz on, "
                f"absorption takes {lost_db:.0f} dB over {distance_m:g} m, more than {KERNEL_FLOOR_DB:g} dB: nothing "
                "of it is left that could be brought to an SNR; lower events.propagation.distance_m, or set "
                "events.level.mode: source"
            )

    def _absorbing(self, distance_mm: int, in_water: bool) -> NDArray[np.float64]:
        return absorption_kernel(self._absorption[in_water], distance_mm / 1000, self._rate)

    def _room(self, row: int) -> tuple[NDArray[np.float64], int]:
        assert self._impulses is not None
        try:
            return direct_and_tail(self._impulses.audio(row).astype(np.float64), self._rate)
        except MixError as error:
            raise MixError(f"impulse response {row} of {self._impulses.path}: {error}") from None
