"""ScenePlan: what is in each scene, as columns of integers, without audio."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

PLAN_VERSION: Final = 3  # raised whenever the same spec would give another plan

EPOCH: Final = 2**40  # scene number = epoch x EPOCH + index
DB_STEPS: Final = 256  # levels are planned in steps of 1/256 dB
AS_RECORDED: Final = 2**31 - 1  # background level of scenes whose backgrounds keep their recorded level
NO_LEVEL: Final = 2**31 - 1  # no SNR, no source level or no absolute level is planned
NO_BACKGROUND: Final = -1
NOISE: Final = -2  # coloured noise in place of a background file
NO_ROOM: Final = -1
NO_IMPULSE: Final = -1
PROCEDURAL_TAIL: Final = -2  # decaying noise in place of an impulse response
NO_SPEAKER: Final = -1

TARGET, DISTRACTOR, SUPPORT, PATCH = range(4)
ROLES: Final = ("target", "distractor", "support", "patch")  # a patch is noise of a recording: mixed, not labelled

#: Why an asked event is not in its scene, in the order of the columns of ``ScenePlan.drops``.
DROP_REASONS: Final = (
    "background_recording",  # the clip is from the background's own recording
    "background_site",  # ... or from its site
    "longer_than_scene",
    "no_feasible_ratio",
    "recording_used",  # another track of the same recording is already in the scene
    "overlap_same_class",
    "polyphony",
    "too_little_left",  # truncation would leave too little of the call
    "silent_background",  # nothing to measure an SNR against
    "silent_event",  # nothing of the call would be heard
    "over_limit",  # more events than ``events.max_per_scene``
    "too_few_callers",  # the class has no other caller for a chorus, or to answer
    "inaudible",  # it must be heard, and by the tables it is not, or too much of it is cut off
    "caller_used",  # another track of the same animal is already in the scene
)


@dataclass(frozen=True)
class ScenePlan:
    """Plans of some scenes: ``[s]`` is one entry a scene, ``[e]`` one an event.

    Events stand in CSR order: those of scene i are ``event_offsets[i]:event_offsets[i + 1]``, sorted by onset. All
    columns are integers (times in samples, levels in 1/256 dB), so that a plan is bit-identical on every machine.
    """

    sample_rate: int
    ratio_p: NDArray[np.int32]  # [ratios] ratio table: the grid, then what the spec lists beside it
    ratio_q: NDArray[np.int32]

    scene: NDArray[np.int64]  # [s] scene number: epoch x 2**40 + index
    n_samples: NDArray[np.int64]  # [s]
    event_offsets: NDArray[np.int64]  # [s + 1]
    n_asked: NDArray[np.int32]  # [s] placements asked for: calls, or whole tracks where tracks are placed as one
    n_placed: NDArray[np.int32]  # [s] placements made; n_asked - n_placed == drops.sum(axis=1)
    n_outside: NDArray[np.int32]  # [s] calls of placed tracks, bouts and exchanges that the scene cuts off
    n_redrawn: NDArray[np.int32]  # [s] attempts that were redrawn
    n_ratios_refused: NDArray[np.int32]  # [s] drawn ratios the clip could not be played at
    drops: NDArray[np.int32]  # [s, len(DROP_REASONS)]
    background: NDArray[np.int64]  # [s, 2] row in the backgrounds' store, NOISE or NO_BACKGROUND
    background_ratio: NDArray[np.int16]  # [s, 2] index in the ratio table
    background_offset: NDArray[np.int64]  # [s, 2] samples of the played background before the scene starts
    noise_slope_db: NDArray[np.int32]  # [s, 2] of NOISE: slope of its power spectrum, 1/256 dB per octave; else 0
    background_mix_db: NDArray[np.int32]  # [s] second background against the first, 1/256 dB
    level_dbfs: NDArray[np.int32]  # [s] level of the mixed background, 1/256 dBFS (LUFS if the spec says), AS_RECORDED
    background_spl_db: NDArray[np.int32]  # [s] its level in nature, 1/256 dB re 20 uPa (air), 1 uPa (water), NO_LEVEL
    room: NDArray[np.int32]  # [s] index in the planner's rooms, or NO_ROOM
    month: NDArray[np.int8]  # [s] 1 to 12, -1 where none is drawn
    hour: NDArray[np.int8]  # [s] 0 to 23, -1 where none is drawn

    clip: NDArray[np.int64]  # [e] row in the bank
    clip_start: NDArray[np.int64]  # [e] the part of the clip that is played, in stored samples: all but for a PATCH
    clip_end: NDArray[np.int64]  # [e] exclusive
    class_id: NDArray[np.int32]  # [e] index in the class list
    clip_onset: NDArray[np.int64]  # [e] first sample of the whole clip, may be negative
    clip_offset: NDArray[np.int64]  # [e] one past its last sample, may lie beyond the scene
    onset: NDArray[np.int64]  # [e] first sample of the active part, cut by the scene
    offset: NDArray[np.int64]  # [e] one past its last sample, cut by the scene
    ratio: NDArray[np.int16]  # [e] index in the ratio table
    reversed: NDArray[np.bool_]  # [e]
    snr_db: NDArray[np.int32]  # [e] asked, 1/256 dB; of the whole gain group; NO_LEVEL where it is an outcome
    source_level_db: NDArray[np.int32]  # [e] at 1 m, 1/256 dB re 20 uPa (air), 1 uPa (water), or NO_LEVEL; of the group
    distance_mm: NDArray[np.int64]  # [e] 0: none
    impulse: NDArray[np.int64]  # [e] row in the store of impulse responses, PROCEDURAL_TAIL or NO_IMPULSE
    rt60_ms: NDArray[np.int32]  # [e] of PROCEDURAL_TAIL, else 0
    drr_db: NDArray[np.int32]  # [e] of PROCEDURAL_TAIL: energy of direct sound / that of the tail, 1/256 dB; else 0
    fade_in: NDArray[np.int32]  # [e] samples, from the clip's first
    fade_out: NDArray[np.int32]  # [e] samples, to the clip's last
    gain_group: NDArray[np.int32]  # [e] events of a scene with the same number share one gain
    role: NDArray[np.int8]  # [e] index in ROLES
    speaker: NDArray[np.int32]  # [e] number of the caller within the scene, or NO_SPEAKER
    truncated: NDArray[np.bool_]  # [e] the scene cuts the active part
    altered: NDArray[np.bool_]  # [e] the ratio is infeasible for the clip: part of the call is lost
    required: NDArray[np.bool_]  # [e] the item is only true if this event is audible

    def __len__(self) -> int:
        return len(self.scene)

    @property
    def n_events(self) -> int:
        """Events in all scenes."""
        return len(self.clip)

    def events_of(self, i: int) -> slice:
        """Where the events of the i-th scene stand."""
        return slice(int(self.event_offsets[i]), int(self.event_offsets[i + 1]))

    def part(self, first: int, last: int) -> ScenePlan:
        """Scenes ``first`` to ``last`` (exclusive), as views."""
        offsets = self.event_offsets[first : last + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        columns = {name: getattr(self, name)[first:last] for name in SCENE_COLUMNS}
        columns |= {name: getattr(self, name)[begin:end] for name in EVENT_COLUMNS}
        return replace(self, event_offsets=offsets - begin, **columns)

    def hash(self) -> str:
        """BLAKE2b over all columns: equal on every machine for the same spec, stores and scene numbers."""
        digest = blake2b(digest_size=16)
        for field in fields(self):
            value = getattr(self, field.name)
            array = np.asarray(value)
            digest.update(f"{field.name}:{array.dtype.str}:{array.shape};".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


_COLUMNS: Final = tuple(field.name for field in fields(ScenePlan))
#: Columns with an entry a scene, and those with one an event.
SCENE_COLUMNS: Final = tuple(
    name for name in _COLUMNS[_COLUMNS.index("scene") : _COLUMNS.index("clip")] if name != "event_offsets"
)
EVENT_COLUMNS: Final = _COLUMNS[_COLUMNS.index("clip") :]
