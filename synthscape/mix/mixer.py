"""Mixer: planned scenes in, audio and achieved levels out.

One definition of SNR, everywhere: SNR = k P / P_background, an amplitude gain of 10 ** (snr / 20). P is the mean square
of what is mixed of the event - after ratio, fade and truncation - over [onset, offset). The background is the mixed
backgrounds without events: over the whole scene (``scene``), over the event's samples (``local``), or both in the
event's band by the DFT of those samples (``band``); or both are loudnesses by BS.1770 (``loudness``). k is the clip's
signal share: its own noise is not signal. Where the spec gives source levels and distances instead, SNR is an outcome.
Where a scene has no background there is no SNR: its events have the scene's level over their active parts.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import MixError, SynthscapeError
from synthscape.memory import short_of_memory
from synthscape.mix.asked import active_as_played, bare, is_excerpt, no_level, signal_share, wanted_power
from synthscape.mix.batch import SceneBatch
from synthscape.mix.levels import band_energy, reference_band, scene_gain_db, weights_in_groups
from synthscape.mix.loudness import loudness_lufs, lufs_gain_db
from synthscape.mix.noise import coloured_noise
from synthscape.mix.propagation import wet
from synthscape.mix.surroundings import Surroundings
from synthscape.plan.plan import AS_RECORDED, DB_STEPS, NO_BACKGROUND, NO_IMPULSE, NOISE, ScenePlan
from synthscape.plan.planner import listed_ratios, ratio_table
from synthscape.spec.schema import Spec
from synthscape.units import seconds_to_samples
from synthscape_kernels import mix, pcm
from synthscape_kernels.filters import FilterBank, Filters
from synthscape_kernels.place import loop_crossfade
from synthscape_kernels.ratios import UNITY

Floats = NDArray[np.float64]
Audio = NDArray[np.float32]

# Memory that mixing and encoding a scene takes beside what is kept of it, bytes per sample, measured.
_SCENE_BYTES: Final = 16
_EVENT_BYTES: Final = 48  # the transforms of the longest event
_ENCODED_STEMS: Final = 3  # copies of one on its way into a file
_MOST_KNOWN_BANDS: Final = 2**22
_REFERENCES: Final = {"scene": mix.SCENE, "local": mix.LOCAL, "band": mix.BAND}
_NONE: Final[NDArray[np.int64]] = np.zeros(0, np.int64)


@dataclass
class _Batch:
    """A plan as the kernels take it, and what is mixed and measured so far."""

    plan: ScenePlan
    filters: Filters
    bare: NDArray[np.bool_]  # [s] without a background
    events: NDArray[np.void]  # [e] of mix.EVENT; pieces are counted from the start of each scene
    levels: NDArray[np.void]  # [e] of mix.LEVEL
    active: tuple[NDArray[np.int64], NDArray[np.int64]]  # [e] each active part, uncut, in its clip as played
    known_place: NDArray[np.int64]  # [e] of its in-band energy among the known ones, or -1
    background_power: Floats  # [s]
    background_lufs: Floats  # [s] NaN where it is not measured
    loudness: Floats  # [e] LUFS at unit gain; NaN where it is not measured
    tail_samples: NDArray[np.int64]  # [e]
    scene_gain_db: Floats  # [s]
    audio: Audio | None  # [s, samples]
    pcm: NDArray[np.int16] | None  # [s, samples]
    stems: Audio | None  # [e, samples]
    background: Audio | None  # [s, samples]


class _Scratch(threading.local):
    """Arrays each thread mixes in, kept from scene to scene: fresh ones cost as much as the mixing."""

    def __init__(self) -> None:
        self._arrays: dict[str, Audio] = {}

    def __call__(self, name: str, size: int) -> Audio:
        """Array ``name`` with room for ``size`` samples, whatever it held before."""
        array = self._arrays.get(name)
        if array is None or len(array) < size:
            array = self._arrays[name] = np.empty(size, np.float32)
        return array[:size]


class Mixer:
    """Mixes planned scenes of one spec on the CPU.

    >>> batch = Mixer(spec, bank, backgrounds).render(planner.plan(range(64)))      # doctest: +SKIP
    >>> batch.audio.shape                                                           # doctest: +SKIP
    (64, 160000)

    Scenes are mixed one by one in float32, powers are summed in float64, and nothing depends on the batch a scene is
    in. A mixer may be used from several threads.
    """

    def __init__(self, spec: Spec, bank: ClipStore, backgrounds: ClipStore | None, impulses: ClipStore | None = None):
        self._bank = bank
        self._backgrounds = backgrounds
        self._seed = spec.seed
        self._snr = spec.events.snr
        self._by_source = spec.events.level.mode == "source"
        self._in_lufs = spec.background.level_lufs is not None
        self._linear_fades = spec.events.fade_shape == "linear"
        self._crossfade_samples = seconds_to_samples(spec.background.crossfade_s, spec.sample_rate)
        n = len(bank)
        self._share = np.nan_to_num(bank.numbers("signal_share"), nan=1.0) if self._snr.subtract_noise else np.ones(n)
        self._weight = weights_in_groups(spec, bank)
        self._low_hz = bank.numbers("low_hz")
        self._high_hz = bank.numbers("high_hz")
        self._background_peak = np.zeros(0) if backgrounds is None else backgrounds.numbers("peak")
        self._surroundings = Surroundings(spec, bank, impulses)
        self._filters: FilterBank | None = None
        self._scratch = _Scratch()
        self._known_bands = _KnownBands(spec, bank.lengths)

    def memory_needed(self, plan: ScenePlan, stems: bool) -> int:
        """Bytes of memory that rendering these scenes at once takes, on one thread; an estimate on the safe side."""
        if not len(plan):
            return 0
        n_samples = int(plan.n_samples.max())
        scene = np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))
        heard = np.minimum(plan.clip_offset, plan.n_samples[scene]) - np.maximum(plan.clip_onset, 0)
        made = heard + self._surroundings.longest_tails(plan)
        times = np.where(self._surroundings.propagated(plan) | self._by_source, 2, 1)  # by itself, and with the others
        pieces = int(np.bincount(scene, weights=times * np.minimum(made, plan.n_samples[scene]), minlength=1).max())
        kept = len(plan) + (len(plan) + plan.n_events + _ENCODED_STEMS if stems else 0)
        return n_samples * (4 * kept + _SCENE_BYTES) + 4 * pieces + _EVENT_BYTES * int(made.max(initial=0))

    def render(self, plan: ScenePlan, *, stems: bool = False, pcm: bool = False) -> SceneBatch:
        """Mix all scenes of a plan.

        Args:
            plan: of the same spec and stores.
            stems: also give every event and the background by itself, before the scene gain.
            pcm: give the audio as the 16-bit samples that are written (``batch.pcm``) instead of as floats.

        A scene in which an event or the background turns out to have no power is not delivered: its audio is zero and
        ``failures`` says why, naming the clip.

        Raises:
            MixError: the scenes don't fit in memory.
        """
        n_samples = int(plan.n_samples.max()) if len(plan) else 0
        short = short_of_memory(self.memory_needed(plan, stems))
        if short:
            raise MixError(
                f"{len(plan)} scenes of up to {n_samples} samples{' with stems' if stems else ''} at once: {short}; "
                "ask for fewer at a time, or for shorter ones"
            )
        batch = _Batch(
            plan=plan,
            filters=self._filters_for(plan),
            bare=bare(plan),
            events=self._events(plan),
            levels=np.full(plan.n_events, np.nan, mix.LEVEL),
            active=active_as_played(plan, self._bank) if self._by_source else (_NONE, _NONE),
            known_place=self._known_bands.places(plan, self._surroundings.propagated(plan)),
            background_power=np.full(len(plan), np.nan),
            background_lufs=np.full(len(plan), np.nan),
            loudness=np.full(plan.n_events, np.nan),
            tail_samples=np.zeros(plan.n_events, np.int64),
            scene_gain_db=np.zeros(len(plan)),
            audio=None if pcm else np.zeros((len(plan), n_samples), np.float32),
            pcm=np.zeros((len(plan), n_samples), np.int16) if pcm else None,
            stems=np.zeros((plan.n_events, n_samples), np.float32) if stems else None,
            background=np.zeros((len(plan), n_samples), np.float32) if stems else None,
        )
        failures: dict[int, str] = {}
        for i in range(len(plan)):
            try:
                self._mix(batch, i)
            except SynthscapeError as error:  # a damaged clip ends its scene, not the run
                failures[i] = str(error)
                which = plan.events_of(i)
                batch.levels[which] = np.nan
                batch.background_power[i] = batch.background_lufs[i] = np.nan
                batch.scene_gain_db[i] = 0.0
                for part, where in ((batch.pcm, i), (batch.background, i), (batch.stems, which)):
                    if part is not None:
                        part[where] = 0
        return self._measured(batch, failures)

    def _measured(self, batch: _Batch, failures: dict[int, str]) -> SceneBatch:
        plan, levels = batch.plan, batch.levels
        share = batch.events["share"]
        scene = np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))
        with np.errstate(divide="ignore"):
            gain_db = 20.0 * np.log10(levels["gain"])
            background_db = 10.0 * np.log10(batch.background_power)
            power = share * levels["energy"] / (plan.offset - plan.onset)
            return SceneBatch(
                plan=plan,
                audio=np.zeros((len(plan), 0), np.float32) if batch.audio is None else batch.audio,
                pcm=batch.pcm,
                scene_gain_db=batch.scene_gain_db,
                level_dbfs=background_db + batch.scene_gain_db,
                level_lufs=batch.background_lufs + batch.scene_gain_db if self._in_lufs else np.full(len(plan), np.nan),
                gain_db=gain_db,
                signal_share=share,
                snr_scene_db=10.0 * np.log10(power) - background_db[scene] + gain_db,
                snr_local_db=10.0 * np.log10(share * levels["energy"] / levels["local"]) + gain_db,
                snr_band_db=10.0 * np.log10(share * levels["band"] / levels["background_band"]) + gain_db,
                snr_loudness_db=10.0 * np.log10(share) + batch.loudness - batch.background_lufs[scene] + gain_db,
                tail_samples=batch.tail_samples,
                stems=batch.stems,
                background=batch.background,
                failures=failures or None,
            )

    def _events(self, plan: ScenePlan) -> NDArray[np.void]:
        """The plan's events as the kernels take them; where their clips begin is filled in scene by scene."""
        events = np.zeros(plan.n_events, mix.EVENT)
        for name in ("ratio", "clip_onset", "clip_offset", "onset", "offset", "fade_in", "fade_out"):
            events[name] = getattr(plan, name)
        events["length"] = plan.clip_end - plan.clip_start
        events["backwards"] = plan.reversed
        events["group"] = plan.gain_group
        events["share"] = signal_share(plan, self._share)
        events["apart"] = self._surroundings.propagated(plan) | self._by_source
        events["wanted"] = wanted_power(plan, self._by_source)
        events["weight"] = self._weight[plan.clip]
        n_events = np.diff(plan.event_offsets)
        n_samples = np.repeat(plan.n_samples, n_events)
        events["piece_onset"] = np.maximum(plan.clip_onset, 0)
        events["piece_length"] = np.minimum(plan.clip_offset, n_samples) - events["piece_onset"]
        ends = np.cumsum(events["piece_length"])
        before = np.append(0, ends)[plan.event_offsets[:-1]]
        events["piece"] = ends - events["piece_length"] - np.repeat(before, n_events)
        return events

    def _filters_for(self, plan: ScenePlan) -> Filters:
        """The filter tables of a plan's ratios. A grown copy replaces the shared one whole, so threads may race."""
        used = np.unique(np.concatenate([plan.ratio, plan.background_ratio.ravel()]))
        used = used[plan.ratio_p[used] != plan.ratio_q[used]]  # ratio 1 copies
        known = self._filters
        if known is not None and (known.offset[used] >= 0).all():
            return known.filters
        grown = FilterBank(plan.ratio_p, plan.ratio_q)
        before = np.flatnonzero(known.offset >= 0) if known is not None else np.zeros(0, np.int64)
        grown.require(np.union1d(used, before).astype(np.int16))
        self._filters = grown
        return grown.filters

    def _mix(self, batch: _Batch, i: int) -> None:
        """Mix one scene into the batch.

        Raises:
            SynthscapeError: the background or an event has no power; a clip is damaged.
        """
        plan = batch.plan
        n = int(plan.n_samples[i])
        which = plan.events_of(i)
        events, levels = batch.events[which], batch.levels[which]
        mixed = self._scratch("mixed", n)
        batch.background_power[i] = self._mix_background(batch, i, mixed)
        if len(events):
            packed, starts = self._bank.locate(plan.clip[which])
            events["start"] = starts + plan.clip_start[which]
            pieces = self._pieces(batch, i, packed)
            mix.measure_events(events, pieces, mixed, levels)
            if batch.bare[i]:
                levels["local"] = math.nan
            else:
                if self._snr.measure_band:
                    self._measure_bands(batch, which, pieces, mixed)
                if self._snr.reference == "loudness":
                    self._measure_loudness(batch, i, pieces, mixed)
            self._set_gains(batch, i)
            if batch.stems is not None and batch.background is not None:
                for event, level, stem in zip(events, levels, batch.stems[which], strict=True):
                    at, size = int(event["piece_onset"]), int(event["piece_length"])
                    stem[at : at + size] = pieces[event["piece"] :][:size]
                    mix.scale(stem, level["gain"])
        if batch.background is not None:
            batch.background[i, :n] = mixed
        if len(events):
            mix.add_events(events, levels, pieces, mixed)
        batch.scene_gain_db[i] = shift_db = scene_gain_db(mix.peak(mixed))
        factor = 10.0 ** (shift_db / 20.0)
        if batch.audio is not None:
            batch.audio[i, :n] = mixed if factor == 1.0 else mixed * np.float32(factor)
        if batch.pcm is not None and not pcm.to_pcm16(mixed, np.float32(factor), batch.pcm[i, :n]):
            raise MixError(f"scene {int(plan.scene[i])}: its samples are beyond all numbers; ask for lower levels")

    def _pieces(self, batch: _Batch, i: int, packed: NDArray[np.int16]) -> Audio:
        """What is heard of each event of a scene, at unit gain."""
        plan = batch.plan
        which = plan.events_of(i)
        events = batch.events[which]
        apart: list[tuple[int, Audio]] = []
        for j in np.flatnonzero(events["apart"]).tolist():
            apart.append((j, self._heard_apart(batch, i, which.start + j, packed)))
        if apart:  # longer than they were planned
            ends = np.cumsum(events["piece_length"])
            events["piece"] = ends - events["piece_length"]
        pieces = self._scratch("pieces", int(events["piece"][-1] + events["piece_length"][-1]))
        mix.play_events(packed, events, batch.filters, self._linear_fades, pieces)
        for j, piece in apart:
            begin = int(events["piece"][j])
            pieces[begin : begin + len(piece)] = piece
        return pieces

    def _heard_apart(self, batch: _Batch, i: int, e: int, packed: NDArray[np.int16]) -> Audio:
        """What is heard of an event that comes through its surroundings, or whose level is given at its source."""
        plan, events, n = batch.plan, batch.events, int(batch.plan.n_samples[i])
        clip_onset, clip_offset = int(plan.clip_onset[e]), int(plan.clip_offset[e])
        heard = self._scratch("whole", clip_offset - clip_onset)
        mix.play_whole(packed, events, e, batch.filters, self._linear_fades, heard)
        if self._by_source:
            start, end = (int(edge[e]) for edge in batch.active)
            batch.levels["signal"][e] = events["share"][e] * mix.energy(heard, start, end)  # the animal makes no noise
            batch.levels["noise"][e] = batch.background_power[i] * (end - start)
        begin = clip_onset
        if plan.distance_mm[e] > 0 or plan.impulse[e] != NO_IMPULSE:
            kernel, lead, batch.tail_samples[e] = self._surroundings.kernel(plan, i, e)
            heard, lead = wet(heard, kernel, lead)
            begin -= lead
        onset, offset = max(begin, 0), min(begin + len(heard), n)
        events["piece_onset"][e], events["piece_length"][e] = onset, offset - onset
        return heard[onset - begin : offset - begin].copy()

    def _mix_background(self, batch: _Batch, i: int, mixed: Audio) -> float:
        """Fill ``mixed`` with the scene's background at its planned level: its power, NaN where there is none."""
        plan = batch.plan
        if batch.bare[i]:
            problem = no_level(plan, i)
            if problem is not None:
                raise MixError(problem)
            mixed.fill(0.0)
            return math.nan
        n = len(mixed)
        as_recorded = plan.level_dbfs[i] == AS_RECORDED
        level = 1.0 if as_recorded else 10.0 ** (plan.level_dbfs[i] / DB_STEPS / 20.0)
        n_layers = int((plan.background[i] != NO_BACKGROUND).sum())
        for which in range(n_layers):
            layer = mixed if which == 0 else self._scratch("layer", n)
            row = int(plan.background[i, which])
            self._play_layer(batch, i, which, layer)
            power: float = mix.energy(layer, 0, n) / n
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
            if n_layers == 1 and not self._in_lufs:
                gain *= level
            mix.scale(layer, gain)
            if which > 0:
                mixed += layer
        power = mix.energy(mixed, 0, n) / n
        if power == 0:
            named = " and ".join(self._named_background(int(row)) for row in plan.background[i])
            raise MixError(f"scene {int(plan.scene[i])}: {named} cancel each other; ask for longer scenes")
        if self._in_lufs:
            batch.background_lufs[i] = lufs = plan.level_dbfs[i] / DB_STEPS
            mix.scale(mixed, 10.0 ** (lufs_gain_db(mixed, plan.sample_rate, lufs) / 20.0))
            power = mix.energy(mixed, 0, n) / n
        elif n_layers > 1 and not as_recorded:
            mix.scale(mixed, level / math.sqrt(power))
            power = mix.energy(mixed, 0, n) / n
        return power

    def _play_layer(self, batch: _Batch, i: int, which: int, layer: Audio) -> None:
        """Fill ``layer`` with one of a scene's backgrounds as stored."""
        plan = batch.plan
        row, ratio, offset = int(plan.background[i, which]), int(plan.background_ratio[i, which]), 0
        if row == NOISE:
            slope_db = int(plan.noise_slope_db[i, which]) / DB_STEPS
            scene = int(plan.scene[i])
            samples = coloured_noise(len(layer), slope_db, self._seed, scene, which, plan.sample_rate)
            samples.flags.writeable = False  # kernels are compiled for read-only audio
            ratio = UNITY
        else:
            assert self._backgrounds is not None
            samples = self._backgrounds.pcm(row)
            offset = int(plan.background_offset[i, which])
        played = -(-len(samples) * int(plan.ratio_p[ratio]) // int(plan.ratio_q[ratio]))
        mix.play_background(
            samples, 0, len(samples), ratio, batch.filters, offset,
            loop_crossfade(played, self._crossfade_samples), layer,
        )  # fmt: skip

    def _measure_bands(self, batch: _Batch, which: slice, pieces: Audio, background: Audio) -> None:
        """In-band energies of a scene's events and of the background behind them."""
        plan, events, known = batch.plan, batch.events[which], self._known_bands.energy
        rate, clips, ratios, place = plan.sample_rate, plan.clip[which], plan.ratio[which], batch.known_place[which]
        event_band, background_band = batch.levels["band"][which], batch.levels["background_band"][which]
        begins = events["piece"] + events["onset"] - events["piece_onset"]
        low_hz, high_hz = self._low_hz[clips], self._high_hz[clips]
        for j in np.flatnonzero(~np.isnan(low_hz)).tolist():
            p, q = int(plan.ratio_p[ratios[j]]), int(plan.ratio_q[ratios[j]])
            band = reference_band(low_hz[j], high_hz[j], p, q, rate / 2)
            onset, offset = int(events["onset"][j]), int(events["offset"][j])
            begin = int(begins[j])
            call, behind = pieces[begin : begin + offset - onset], background[onset:offset]
            background_band[j] = band_energy(behind, rate, *band)
            if place[j] < 0:
                event_band[j] = band_energy(call, rate, *band)
                continue
            if math.isnan(known[place[j]]):
                known[place[j]] = band_energy(call, rate, *band)
            event_band[j] = known[place[j]]

    def _measure_loudness(self, batch: _Batch, i: int, pieces: Audio, background: Audio) -> None:
        """Loudness of a scene's events, each over its active part, and of the whole background."""
        which, rate = batch.plan.events_of(i), batch.plan.sample_rate
        batch.background_lufs[i] = loudness_lufs(background, rate)
        for e in range(which.start, which.stop):
            event = batch.events[e]
            begin = event["piece"] + event["onset"] - event["piece_onset"]
            batch.loudness[e] = loudness_lufs(pieces[begin : begin + event["offset"] - event["onset"]], rate)

    def _set_gains(self, batch: _Batch, i: int) -> None:
        """Gain of every event of a scene, from what was measured."""
        plan = batch.plan
        which = plan.events_of(i)
        events, levels = batch.events[which], batch.levels[which]
        reference = self._snr.reference
        alone = bool(batch.bare[i])
        code = mix.OTHER if self._by_source or alone else _REFERENCES.get(reference, mix.OTHER)
        silent = int(mix.set_signals(events, levels, code, batch.background_power[i]))
        if silent >= 0:
            e = which.start + silent
            raise MixError(
                f"scene {int(plan.scene[i])}: nothing is heard of clip {int(plan.clip[e])} of {self._bank.path} "
                f"in samples {int(plan.onset[e])} to {int(plan.offset[e])}; exclude the clip"
            )
        samples = events["offset"] - events["onset"]
        if alone:  # wanted is a mean square, whatever share of it is signal
            levels["signal"], levels["noise"] = levels["energy"], samples
        elif reference == "loudness" and not self._by_source:  # there signals are what was measured of the whole calls
            levels["signal"] = events["share"] * 10.0 ** (batch.loudness[which] / 10.0) * samples
            levels["noise"] = 10.0 ** (batch.background_lufs[i] / 10.0) * samples
        failed = int(mix.set_gains(events, levels))
        if failed >= 0:
            members = events["group"] == events["group"][failed]
            clip = int(plan.clip[which][failed])
            what = "no background" if levels["signal"][members].sum() > 0 else "nothing of the call"
            raise MixError(
                f"scene {int(plan.scene[i])}: there is {what} in the reference band of clip {clip} of "
                f"{self._bank.path}; exclude the clip, or use events.snr.reference: local"
            )

    def _named_background(self, row: int) -> str:
        if self._backgrounds is None or row == NOISE:
            return "noise"
        return f"background {row} of {self._backgrounds.path}"


class _KnownBands:
    """In-band energies of calls heard whole and dry: nothing but clip, ratio and direction matters to them.

    Kept where a spec's ratios are few, so that such an event costs one transform less. Whether they are kept is a
    matter of the spec and the plan alone, and so is every bit of the result, whatever was mixed before.
    """

    def __init__(self, spec: Spec, lengths: NDArray[np.int64]):
        n_clips = len(lengths)
        self._lengths = lengths
        ratios = listed_ratios(spec.events.resample)
        if n_clips * len(ratios) * 2 > _MOST_KNOWN_BANDS:
            ratios = []
        table = ratio_table(spec)
        self._column = np.full(len(table), -1, np.int64)
        self._column[[table.index(ratio) for ratio in ratios]] = np.arange(len(ratios))
        self._n_columns = len(ratios)
        self.energy = np.full(n_clips * len(ratios) * 2, np.nan)

    def places(self, plan: ScenePlan, propagated: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Where in ``energy`` each event of a plan belongs, or -1, int64 [e]."""
        column = self._column[plan.ratio]
        n_samples = np.repeat(plan.n_samples, np.diff(plan.event_offsets))
        whole = (plan.clip_onset >= 0) & (plan.clip_offset <= n_samples)  # so are its fades
        whole &= ~is_excerpt(plan, self._lengths)
        place = (plan.clip * self._n_columns + column) * 2 + plan.reversed
        return np.where((column >= 0) & whole & ~propagated, place, -1)
