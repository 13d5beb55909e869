"""SceneBatch: mixed scenes with the levels that were reached."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthscape.plan.plan import ScenePlan


@dataclass(frozen=True)
class SceneBatch:
    """Audio of planned scenes and what was measured on it: ``[s]`` one entry a scene, ``[e]`` one an event.

    ``audio[i] == (background[i] + stems of scene i) * 10 ** (scene_gain_db[i] / 20)`` to float32 precision. Scenes
    shorter than the longest of the batch are zero beyond their ``plan.n_samples``. Where a scene has no background, its
    level and all its SNRs are NaN. Patches are events here like any other.
    """

    plan: ScenePlan
    audio: NDArray[np.float32]  # [s, samples]; [s, 0] where it was asked for as ``pcm``
    scene_gain_db: NDArray[np.float64]  # [s] 0 or less: what kept the peak under -1 dBFS
    level_dbfs: NDArray[np.float64]  # [s] background level in the audio as delivered, scene gain included
    level_lufs: NDArray[np.float64]  # [s] the same in LUFS; NaN unless the spec asks for LUFS

    gain_db: NDArray[np.float64]  # [e] from the clip as stored to the mix, before the scene gain
    signal_share: NDArray[np.float64]  # [e] the k in SNR = k P / P_background; 1 where the clip's own noise is ignored
    snr_scene_db: NDArray[np.float64]  # [e] against the whole background
    snr_local_db: NDArray[np.float64]  # [e] against the background in [onset, offset)
    snr_band_db: NDArray[np.float64]  # [e] both in the event's band, in [onset, offset); NaN unless measured
    snr_loudness_db: NDArray[np.float64]  # [e] LU, against the whole background; NaN unless the reference is loudness
    tail_samples: NDArray[np.int64]  # [e] length of the reverberation after offset, 0 if dry

    pcm: NDArray[np.int16] | None = None  # [s, samples] the audio as written
    stems: NDArray[np.float32] | None = None  # [e, samples] before the scene gain
    background: NDArray[np.float32] | None = None  # [s, samples] before the scene gain
    failures: dict[int, str] | None = None  # position in the batch -> why the scene could not be rendered
