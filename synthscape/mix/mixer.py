"""Mixer: planned scenes in, audio and achieved levels out.

One definition of SNR, everywhere: SNR = k P / P_background, an amplitude gain of 10 ** (snr / 20). P is the mean square
of what is mixed of the event - after ratio, fade and truncation - over [onset, offset). The background is the mixed
backgrounds without events: over the whole scene (``scene``), over the event's samples (``local``), or both in the
event's band by the DFT of those samples (``band``). k is the clip's signal share: its own noise is not signal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import MixError, SynthscapeError
from synthscape.memory import short_of_memory
from synthscape.mix.batch import SceneBatch
from synthscape.mix.levels import band_energies, power_db, reference_band, scene_gain_db
from synthscape.plan.plan import AS_RECORDED, DB_STEPS, NO_BACKGROUND, ScenePlan
from synthscape.spec.schema import Spec
from synthscape.units import seconds_to_samples
from synthscape_kernels import mix
from synthscape_kernels.filters import FilterBank
from synthscape_kernels.place import loop_crossfade

Floats = NDArray[np.float64]

# Memory that mixing and encoding a scene takes beside what is kept of it, bytes per sample, measured.
_SCENE_BYTES: Final = 16
_EVENT_BYTES: Final = 48  # the transforms of the longest event


@dataclass(frozen=True)
class _Mixed:
    """One scene, mixed: what goes into the batch's columns."""

    audio: NDArray[np.float32]
    background: NDArray[np.float32]
    pieces: NDArray[np.float32]  # all events' pieces one after the other, at unit gain
    piece: NDArray[np.int64]  # [events + 1] where they begin
    gain: Floats
    snr_scene_db: Floats
    snr_local_db: Floats
    snr_band_db: Floats
    scene_gain_db: float
    level_dbfs: float


def memory_needed(plan: ScenePlan, stems: bool) -> int:
    """Bytes of memory that rendering these scenes at once takes, on one thread; an estimate on the safe side."""
    if not len(plan):
        return 0
    n_samples = int(plan.n_samples.max())
    scene = np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))
    heard = np.minimum(plan.clip_offset, plan.n_samples[scene]) - np.maximum(plan.clip_onset, 0)
    pieces = int(np.bincount(scene, weights=heard, minlength=1).max())
    kept = len(plan) + (len(plan) + plan.n_events if stems else 0)
    return n_samples * (4 * kept + _SCENE_BYTES) + 4 * pieces + _EVENT_BYTES * int(heard.max(initial=0))


class Mixer:
    """Mixes planned scenes of one spec on the CPU.

    >>> batch = Mixer(spec, bank, backgrounds).render(planner.plan(range(64)))      # doctest: +SKIP
    >>> batch.audio.shape                                                           # doctest: +SKIP
    (64, 160000)

    Scenes are mixed one by one in float32, powers are summed in float64, and nothing depends on the batch a scene is
    in. A mixer may be used from several threads.
    """

    def __init__(self, spec: Spec, bank: ClipStore, backgrounds: ClipStore | None, impulses: ClipStore | None = None):
        if backgrounds is None:
            raise MixError("background.noise: not mixed yet; name a store of backgrounds")
        self._bank = bank
        self._backgrounds = backgrounds
        self._reference = spec.events.snr.reference
        self._crossfade_samples = seconds_to_samples(spec.background.crossfade_s, spec.sample_rate)
        n = len(bank)
        self._share = (
            np.nan_to_num(bank.numbers("signal_share"), nan=1.0) if spec.events.snr.subtract_noise else np.ones(n)
        )
        self._low_hz = bank.numbers("low_hz")
        self._high_hz = bank.numbers("high_hz")
        self._background_peak = backgrounds.numbers("peak")
        self._filters: FilterBank | None = None

    def render(self, plan: ScenePlan, *, stems: bool = False) -> SceneBatch:
        """Mix all scenes of a plan.

        Args:
            plan: of the same spec and stores.
            stems: also give every event and the background by itself, before the scene gain.

        A scene in which an event or the background turns out to have no power is not delivered: its audio is zero and
        ``failures`` says why, naming the clip.

        Raises:
            MixError: the scenes don't fit in memory.
        """
        n_samples = int(plan.n_samples.max()) if len(plan) else 0
        short = short_of_memory(memory_needed(plan, stems))
        if short:
            raise MixError(
                f"{len(plan)} scenes of up to {n_samples} samples{' with stems' if stems else ''} at once: {short}; "
                "ask for fewer at a time, or for shorter ones"
            )
        audio = np.zeros((len(plan), n_samples), np.float32)
        stem_audio = np.zeros((plan.n_events, n_samples), np.float32) if stems else None
        background_audio = np.zeros((len(plan), n_samples), np.float32) if stems else None
        scene_gain, level = np.zeros(len(plan)), np.full(len(plan), np.nan)
        gain, scene_db, local_db, band_db = (np.full(plan.n_events, np.nan) for _ in range(4))
        failures: dict[int, str] = {}
        filters = self._filters_for(plan)
        for i in range(len(plan)):
            events = plan.events_of(i)
            try:
                mixed = self._mix(plan, i, filters)
            except SynthscapeError as error:  # a damaged clip ends its scene, not the run
                failures[i] = str(error)
                continue
            audio[i, : len(mixed.audio)] = mixed.audio
            scene_gain[i], level[i] = mixed.scene_gain_db, mixed.level_dbfs
            gain[events] = mixed.gain
            scene_db[events], local_db[events] = mixed.snr_scene_db, mixed.snr_local_db
            band_db[events] = mixed.snr_band_db
            if stem_audio is not None and background_audio is not None:
                background_audio[i, : len(mixed.background)] = mixed.background
                for j, e in enumerate(range(events.start, events.stop)):
                    begin, end = mixed.piece[j], mixed.piece[j + 1]
                    at = max(int(plan.clip_onset[e]), 0)
                    stem_audio[e, at : at + end - begin] = np.float32(mixed.gain[j]) * mixed.pieces[begin:end]
        with np.errstate(divide="ignore"):
            gain_db = 20.0 * np.log10(gain)
        return SceneBatch(
            plan=plan,
            audio=audio,
            scene_gain_db=scene_gain,
            level_dbfs=level,
            level_lufs=np.full(len(plan), np.nan),
            gain_db=gain_db,
            signal_share=self._share[plan.clip],
            snr_scene_db=scene_db,
            snr_local_db=local_db,
            snr_band_db=band_db,
            snr_loudness_db=np.full(plan.n_events, np.nan),
            tail_samples=np.zeros(plan.n_events, np.int64),
            stems=stem_audio,
            background=background_audio,
            failures=failures or None,
        )

    def _filters_for(self, plan: ScenePlan) -> FilterBank:
        """The filter tables of a plan's ratios. A grown copy replaces the shared one whole, so threads may race."""
        used = np.unique(np.concatenate([plan.ratio, plan.background_ratio.ravel()]))
        used = used[plan.ratio_p[used] != plan.ratio_q[used]]  # ratio 1 copies
        known = self._filters
        if known is not None and (known.offset[used] >= 0).all():
            return known
        grown = FilterBank(plan.ratio_p, plan.ratio_q)
        before = np.flatnonzero(known.offset >= 0) if known is not None else np.zeros(0, np.int64)
        grown.require(np.union1d(used, before).astype(np.int16))
        self._filters = grown
        return grown

    def _mix(self, plan: ScenePlan, i: int, filters: FilterBank) -> _Mixed:
        n = int(plan.n_samples[i])
        background = self._mix_background(plan, i, filters)
        background_power = mix.energy(background, 0, n) / n

        events = plan.events_of(i)
        clips = plan.clip[events]
        clip_onset, clip_offset = plan.clip_onset[events], plan.clip_offset[events]
        heard = np.minimum(clip_offset, n) - np.maximum(clip_onset, 0)
        piece = np.append(0, np.cumsum(heard)).astype(np.int64)
        pieces = np.empty(int(piece[-1]), np.float32)
        packed, start = self._bank.gather(clips)
        mix.play_events(
            packed, start, self._bank.lengths[clips], plan.ratio[events], plan.reversed[events],
            clip_onset, clip_offset, plan.fade_in[events], plan.fade_out[events],
            plan.ratio_p, plan.ratio_q, filters.taps, filters.offset, filters.half, n, piece, pieces,
        )  # fmt: skip

        power = self._powers(plan, i, background, pieces, piece)
        gain = self._gains(plan, i, power, background_power)
        audio = background.copy()
        mix.add_events(clip_onset, piece, gain, pieces, audio)
        shift_db = scene_gain_db(mix.peak(audio))
        if shift_db < 0:
            mix.scale(audio, 10.0 ** (shift_db / 20.0))
        gain_db = 20.0 * np.log10(gain)
        return _Mixed(
            audio=audio,
            background=background,
            pieces=pieces,
            piece=piece,
            gain=gain,
            snr_scene_db=_db(power.share * power.event / power.samples) - power_db(background_power) + gain_db,
            snr_local_db=_db(power.share * power.event) - _db(power.local) + gain_db,
            snr_band_db=_db(power.share * power.event_band) - _db(power.background_band) + gain_db,
            scene_gain_db=shift_db,
            level_dbfs=power_db(background_power) + shift_db,
        )

    def _mix_background(self, plan: ScenePlan, i: int, filters: FilterBank) -> NDArray[np.float32]:
        """The scene's background at its planned level, float32 [samples]."""
        n = int(plan.n_samples[i])
        as_recorded = plan.level_dbfs[i] == AS_RECORDED
        mixed = np.zeros(n, np.float32)
        for which in range(2):
            row = int(plan.background[i, which])
            if row == NO_BACKGROUND:
                continue
            ratio = int(plan.background_ratio[i, which])
            p, q = int(plan.ratio_p[ratio]), int(plan.ratio_q[ratio])
            pcm = self._backgrounds.pcm(row)
            layer = np.empty(n, np.float32)
            mix.play_background(
                pcm, 0, len(pcm), p, q, filters.taps, filters.offset[ratio], filters.half[ratio],
                int(plan.background_offset[i, which]),
                loop_crossfade(-(-len(pcm) * p // q), self._crossfade_samples), layer,
            )  # fmt: skip
            power = mix.energy(layer, 0, n) / n
            if power == 0:
                raise MixError(
                    f"scene {int(plan.scene[i])}: {self._named_background(row)} is silent where it is used; "
                    "exclude it, or cut the silence from it"
                )
            if as_recorded:
                gain = self._background_peak[row] * 32768.0 / 32767.0
                if not gain > 0:
                    raise MixError(
                        f"{self._named_background(row)} has no `peak`, so its recorded level is not known; "
                        "set background.level_dbfs"
                    )
            else:
                gain = 10.0 ** (which * plan.background_mix_db[i] / DB_STEPS / 20.0) / math.sqrt(power)
            mix.scale(layer, gain)
            mixed += layer
        if not as_recorded:
            power = mix.energy(mixed, 0, n) / n
            if power == 0:
                rows = " and ".join(self._named_background(int(row)) for row in plan.background[i] if row >= 0)
                raise MixError(f"scene {int(plan.scene[i])}: {rows} cancel each other; ask for longer scenes")
            mix.scale(mixed, 10.0 ** (plan.level_dbfs[i] / DB_STEPS / 20.0) / math.sqrt(power))
        return mixed

    def _powers(
        self,
        plan: ScenePlan,
        i: int,
        background: NDArray[np.float32],
        pieces: NDArray[np.float32],
        piece: NDArray[np.int64],
    ) -> _Powers:
        """Energies of every event at unit gain and of the background behind it, over [onset, offset)."""
        events = plan.events_of(i)
        count = events.stop - events.start
        event, local, event_band, background_band = (np.full(count, np.nan) for _ in range(4))
        nyquist_hz = plan.sample_rate / 2
        for j in range(count):
            e = events.start + j
            onset, offset = int(plan.onset[e]), int(plan.offset[e])
            begin = int(piece[j]) + onset - max(int(plan.clip_onset[e]), 0)
            event[j] = mix.energy(pieces, begin, begin + offset - onset)
            local[j] = mix.energy(background, onset, offset)
            clip = int(plan.clip[e])
            low_hz, high_hz = self._low_hz[clip], self._high_hz[clip]
            if not math.isnan(low_hz):
                p, q = int(plan.ratio_p[plan.ratio[e]]), int(plan.ratio_q[plan.ratio[e]])
                band = reference_band(low_hz, high_hz, p, q, nyquist_hz)
                call = pieces[begin : begin + offset - onset]
                event_band[j], background_band[j] = band_energies(
                    call, background[onset:offset], plan.sample_rate, *band
                )
            if event[j] == 0:
                raise MixError(
                    f"scene {int(plan.scene[i])}: nothing is heard of clip {clip} of {self._bank.path} "
                    f"in samples {onset} to {offset}; exclude the clip"
                )
        samples = (plan.offset[events] - plan.onset[events]).astype(np.float64)
        return _Powers(samples, self._share[plan.clip[events]], event, local, event_band, background_band)

    def _gains(self, plan: ScenePlan, i: int, power: _Powers, background_power: float) -> Floats:
        """Amplitude gain of each event: one for all of a gain group, for the group's pooled active power."""
        events = plan.events_of(i)
        group = plan.gain_group[events]
        signal = power.share * (power.event_band if self._reference == "band" else power.event)
        noise = {
            "scene": background_power * power.samples,
            "local": power.local,
            "band": power.background_band,
        }[self._reference]
        gain = np.empty(len(group))
        for number in np.unique(group):
            members = group == number
            pooled_signal, pooled_noise = float(signal[members].sum()), float(noise[members].sum())
            if not (pooled_signal > 0 and pooled_noise > 0):
                clip = int(plan.clip[events.start + int(np.flatnonzero(members)[0])])
                what = "nothing of the call" if not pooled_signal > 0 else "no background"
                raise MixError(
                    f"scene {int(plan.scene[i])}: there is {what} in the reference band of clip {clip} of "
                    f"{self._bank.path}; exclude the clip, or use events.snr.reference: local"
                )
            snr_db = plan.snr_db[events][members][0] / DB_STEPS
            gain[members] = 10.0 ** (snr_db / 20.0) * math.sqrt(pooled_noise / pooled_signal)
        return gain

    def _named_background(self, row: int) -> str:
        return f"background {row} of {self._backgrounds.path}"


@dataclass(frozen=True)
class _Powers:
    """Energies of a scene's events over [onset, offset), float64 [events]; NaN bands where a clip has none."""

    samples: Floats
    share: Floats
    event: Floats
    local: Floats
    event_band: Floats
    background_band: Floats


def _db(power: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(power))
