"""DeviceBatch: mixed scenes on a device, and the levels that were reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synthscape.mix.asked import bare
from synthscape.mix.batch import SceneBatch
from synthscape.mix.levels import scene_gain_db
from synthscape.plan.plan import ScenePlan

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DeviceBatch:
    """Mixed scenes on a device; fields and properties are those of :class:`synthscape.mix.batch.SceneBatch`.

    ``audio`` and the others may be used at once, in stream order. The first look at a level or at ``failures`` waits
    until the scenes are mixed. Scenes that failed are zero.
    """

    plan: ScenePlan
    audio: torch.Tensor  # float32 [s, samples]
    pcm: torch.Tensor | None  # int16 [s, samples], if asked for
    stems: torch.Tensor | None  # float32 [e, samples], if asked for, before the scene gain
    background: torch.Tensor | None  # float32 [s, samples], if asked for, before the scene gain
    visited: torch.Tensor  # int32 [s, tiles]: events that were looked at for each tile
    _measure: Callable[[], dict[str, Floats]] = field(repr=False)
    _name_failures: Callable[[dict[str, Floats]], dict[int, str]] = field(repr=False)
    signal_share: Floats = field(repr=False)
    tail_samples: NDArray[np.int64] = field(repr=False)
    background_lufs: Floats | None = field(repr=False)  # [s] before the scene gain; None where it is not measured
    loudness: Floats = field(repr=False)  # [e] LUFS at unit gain
    _in_lufs: bool = field(repr=False)

    @cached_property
    def measured(self) -> dict[str, Floats]:
        """Energies and gains as the kernels found them, float64."""
        return self._measure()

    @cached_property
    def failures(self) -> dict[int, str] | None:
        """Position in the batch -> why the scene could not be mixed."""
        return self._name_failures(self.measured) or None

    @cached_property
    def scene_gain_db(self) -> Floats:
        """[s] 0 or less: what kept the peak under -1 dBFS."""
        return np.where(self._delivered, [scene_gain_db(peak) for peak in self.measured["peak"].tolist()], 0.0)

    @cached_property
    def level_dbfs(self) -> Floats:
        """[s] background level in the audio as delivered, scene gain included."""
        with np.errstate(divide="ignore"):
            level = 10.0 * np.log10(self.measured["background"])
        return np.where(self._delivered & ~bare(self.plan), level + self.scene_gain_db, np.nan)

    @cached_property
    def level_lufs(self) -> Floats:
        """[s] the same in LUFS; NaN unless the spec asks for LUFS."""
        if self.background_lufs is None or not self._in_lufs:
            return np.full(len(self.plan), np.nan)
        return np.where(self._delivered, self.background_lufs + self.scene_gain_db, np.nan)

    @cached_property
    def gain_db(self) -> Floats:
        """[e] from the clip as stored to the mix, before the scene gain."""
        return self._of_events(20.0, self.measured["gain"], 1.0, self._delivered)

    @cached_property
    def snr_scene_db(self) -> Floats:
        """[e] against the whole background."""
        samples = self.plan.offset - self.plan.onset
        noise = self.measured["background"][self._scene] * samples
        return self._of_events(10.0, self.signal_share * self.measured["event"], noise) + self.gain_db

    @cached_property
    def snr_local_db(self) -> Floats:
        """[e] against the background in [onset, offset)."""
        return self._of_events(10.0, self.signal_share * self.measured["event"], self.measured["local"]) + self.gain_db

    @cached_property
    def snr_band_db(self) -> Floats:
        """[e] both in the event's band, in [onset, offset)."""
        signal = self.signal_share * self.measured["event_band"]
        return self._of_events(10.0, signal, self.measured["background_band"]) + self.gain_db

    @cached_property
    def snr_loudness_db(self) -> Floats:
        """[e] LU, against the whole background; NaN unless the reference is loudness."""
        if self.background_lufs is None:
            return np.full(self.plan.n_events, np.nan)
        above = self.loudness - self.background_lufs[self._scene]
        return self._of_events(10.0, self.signal_share, 1.0) + above + self.gain_db

    def levels(self) -> SceneBatch:
        """What was measured, as a :class:`SceneBatch` in NumPy with audio of no samples."""
        return SceneBatch(
            plan=self.plan,
            audio=np.zeros((len(self.plan), 0), np.float32),
            scene_gain_db=self.scene_gain_db,
            level_dbfs=self.level_dbfs,
            level_lufs=self.level_lufs,
            gain_db=self.gain_db,
            signal_share=self.signal_share,
            snr_scene_db=self.snr_scene_db,
            snr_local_db=self.snr_local_db,
            snr_band_db=self.snr_band_db,
            snr_loudness_db=self.snr_loudness_db,
            tail_samples=self.tail_samples,
            failures=self.failures,
        )

    def to_host(self) -> SceneBatch:
        """The same as a :class:`SceneBatch`, copied to NumPy; as there, ``pcm`` is in place of ``audio``."""
        names = ["audio" if self.pcm is None else "pcm", "stems", "background"]
        tensors = {name: getattr(self, name) for name in names}
        arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items() if tensor is not None}
        return replace(self.levels(), **arrays)

    @property
    def _scene(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self.plan)), np.diff(self.plan.event_offsets))

    @property
    def _delivered(self) -> NDArray[np.bool_]:
        delivered = np.ones(len(self.plan), dtype=bool)
        delivered[list(self.failures or {})] = False
        return delivered

    def _of_events(
        self, factor: float, value: Floats, against: Floats | float, scenes: NDArray[np.bool_] | None = None
    ) -> Floats:
        """A ratio in dB of the events of some scenes: by default those delivered with a background."""
        if scenes is None:
            scenes = self._delivered & ~bare(self.plan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(scenes[self._scene], factor * (np.log10(value) - np.log10(against)), np.nan)


def copied_later(tensors: Mapping[str, torch.Tensor]) -> Callable[[], dict[str, Floats]]:
    """Start copying tensors to the host, as float64; the function waits for them and gives them."""
    packed = torch.cat([tensor.double().reshape(-1) for tensor in tensors.values()])
    event: Any = None
    if packed.is_cuda:
        cuda: Any = torch.cuda
        host = torch.empty(packed.shape, dtype=torch.float64, pin_memory=True)
        host.copy_(packed, non_blocking=True)
        event = cuda.Event()
        event.record()
    else:
        host = packed
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}

    def wait() -> dict[str, Floats]:
        if event is not None:
            event.synchronize()
        values, at, found = host.numpy(), 0, {}
        for name, shape in shapes.items():
            size = math.prod(shape)
            found[name] = values[at : at + size].reshape(shape).copy()
            at += size
        return found

    return wait
