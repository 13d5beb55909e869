"""Mixer: planned scenes in, audio and achieved levels out.

One definition of SNR, everywhere: SNR = k P / P_background, an amplitude gain of 10 ** (snr / 20). P is the mean square
of what is mixed of the event - after ratio, fade and truncation - over [onset, offset). The background is the mixed
backgrounds without events: over the whole scene (``scene``), over the event's samples (``local``), or both in the
event's band by the DFT of those samples (``band``); or both are loudnesses by BS.1770 (``loudness``). k is the clip's
signal share: its own noise is not signal. Where the spec gives source levels and distances instead, SNR is an outcome.
Where a scene has no background there is no SNR: its events have the scene's level over their active parts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import MixError, SynthscapeError
from synthscape.memory import short_of_memory
from synthscape.mix.asked import active_as_played, is_excerpt, no_level, signal_share, wanted_power
from synthscape.mix.batch import SceneBatch
from synthscape.mix.levels import amplitudes, band_tables, scene_gain_db, transform_room, weights_in_groups
from synthscape.mix.loudness import loudness_lufs, lufs_gain_db
from synthscape.mix.noise import coloured_noise
from synthscape.mix.propagation import wet
from synthscape.mix.surroundings import Surroundings
from synthscape.plan.plan import AS_RECORDED, DB_STEPS, NO_BACKGROUND, NO_IMPULSE, NOISE, ScenePlan
from synthscape.plan.planner import listed_ratios, ratio_table
from synthscape.spec.schema import Spec
from synthscape.units import seconds_to_samples
from synthscape_kernels import mix, pcm
from synthscape_kernels.band import Tables
from synthscape_kernels.bins import event_bins
from synthscape_kernels.filters import FilterBank, Filters
from synthscape_kernels.ratios import UNITY

Floats = NDArray[np.float64]
Audio = NDArray[np.float32]

# Memory that mixing and encoding a scene takes beside what is kept of it, bytes per sample, measured.
_SCENE_BYTES: Final = 16
_EVENT_BYTES: Final = 96  # the transforms of the longest event, and tables for those of all shorter ones
_ENCODED_STEMS: Final = 3  # copies of one on its way into a file
_MOST_KNOWN_BANDS: Final = 2**22
_REFERENCES: Final = {"scene": mix.WHOLE, "local": mix.LOCAL, "band": mix.BAND}
_NONE: Final[NDArray[np.int64]] = np.zeros(0, np.int64)
_SILENCE: Final[NDArray[np.int16]] = np.frombuffer(b"", np.int16)  # read-only, as kernels are compiled for stored audio


@dataclass(frozen=True)
class Prepared:
    """A plan as the kernels take it: what :meth:`Mixer.prepare` makes for many scenes, which are mixed later."""

    plan: ScenePlan
    filters: Filters
    tables: Tables
    longest: int  # transform
    scenes: NDArray[np.void]  # [s] of mix.SCENE
    layers: NDArray[np.void]  # [s, 2] of mix.LAYER
    events: NDArray[np.void]  # [e] of mix.EVENT; pieces are counted from the start of each scene
    active: tuple[NDArray[np.int64], NDArray[np.int64]]  # [e] each active part, uncut, in its clip as played; or none
    scene_bytes: NDArray[np.int64]  # [s] memory that mixing it takes beside what is kept of it

    def part(self, first: int, last: int) -> Prepared:
        """Scenes ``first`` to ``last`` (exclusive); may be mixed at the same time as other parts."""
        plan, which = self.plan, slice(int(self.plan.event_offsets[first]), int(self.plan.event_offsets[last]))
        scenes = self.scenes[first:last].copy()
        scenes["first"] -= which.start
        scenes["last"] -= which.start
        return replace(
            self,
            plan=plan.part(first, last),
            scenes=scenes,
            layers=self.layers[first:last],
            events=self.events[which],
            active=(self.active[0][which], self.active[1][which]),
            scene_bytes=self.scene_bytes[first:last],
        )


@dataclass(frozen=True)
class _Batch(Prepared):
    """Prepared scenes, and what is mixed and measured so far."""

    room: Audio  # for transforms
    levels: NDArray[np.void]  # [e] of mix.LEVEL
    any_apart: bool
    background_lufs: Floats  # [s] NaN where it is not measured
    loudness: Floats  # [e] LUFS at unit gain; NaN where it is not measured
    tail_samples: NDArray[np.int64]  # [e]
    scene_gain_db: Floats  # [s]
    audio: Audio | None  # [s, samples]
    pcm: NDArray[np.int16] | None  # [s, samples]
    stems: Audio | None  # [e, samples]
    background: Audio | None  # [s, samples]


@dataclass
class _Scene:
    """A scene of a batch while it is mixed."""

    i: int
    which: slice  # its events
    events: NDArray[np.void]  # its part of the batch's
    levels: NDArray[np.void]
    sources: mix.Sources
    room: mix.Room
    written: NDArray[np.int16]  # [samples], or of none


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
        other = self._by_source or self._snr.reference not in _REFERENCES
        self._reference = mix.OTHER if other else _REFERENCES[self._snr.reference]
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

    def prepare(self, plan: ScenePlan) -> Prepared:
        """All that mixing the plan's scenes takes but audio: what is cheaper for many of them than one by one.

        Args:
            plan: of the same spec and stores.
        """
        events, tables, longest = self._events(plan)
        return Prepared(
            plan=plan,
            filters=self._filters_for(plan),
            tables=tables,
            longest=longest,
            scenes=self._scenes(plan),
            layers=self._layers(plan),
            events=events,
            active=active_as_played(plan, self._bank) if self._by_source else (_NONE, _NONE),
            scene_bytes=self._scene_bytes(plan),
        )

    def memory_needed(self, plan: ScenePlan | Prepared, stems: bool) -> int:
        """Bytes of memory that rendering these scenes at once takes, on one thread; an estimate on the safe side."""
        plan, scene_bytes = (
            (plan.plan, plan.scene_bytes) if isinstance(plan, Prepared) else (plan, self._scene_bytes(plan))
        )
        kept = len(plan) + (len(plan) + plan.n_events + _ENCODED_STEMS if stems else 0)
        return 4 * kept * int(plan.n_samples.max(initial=0)) + int(scene_bytes.max(initial=0))

    def _scene_bytes(self, plan: ScenePlan) -> NDArray[np.int64]:
        scene = np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))
        heard = np.minimum(plan.clip_offset, plan.n_samples[scene]) - np.maximum(plan.clip_onset, 0)
        made = heard + self._surroundings.longest_tails(plan)
        times = np.where(self._surroundings.propagated(plan) | self._by_source, 2, 1)  # by itself, and with the others
        pieces = np.bincount(scene, weights=times * np.minimum(made, plan.n_samples[scene]), minlength=len(plan))
        longest = np.zeros(len(plan), np.int64)
        np.maximum.at(longest, scene, made)
        return _SCENE_BYTES * plan.n_samples + 4 * pieces.astype(np.int64) + _EVENT_BYTES * longest

    def render(self, plan: ScenePlan | Prepared, *, stems: bool = False, pcm: bool = False) -> SceneBatch:
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
        prepared = plan if isinstance(plan, Prepared) else self.prepare(plan)
        plan = prepared.plan
        n_samples = int(plan.n_samples.max(initial=0))
        short = short_of_memory(self.memory_needed(prepared, stems))
        if short:
            raise MixError(
                f"{len(plan)} scenes of up to {n_samples} samples{' with stems' if stems else ''} at once: {short}; "
                "ask for fewer at a time, or for shorter ones"
            )
        batch = _Batch(
            **vars(prepared),
            room=transform_room(prepared.longest),
            levels=np.full(plan.n_events, np.nan, mix.LEVEL),
            any_apart=bool(prepared.events["apart"].any()),
            background_lufs=np.full(len(plan), np.nan),
            loudness=np.full(plan.n_events, np.nan),
            tail_samples=np.zeros(plan.n_events, np.int64),
            scene_gain_db=np.zeros(len(plan)),
            audio=None if pcm else np.zeros((len(plan), n_samples), np.float32),
            pcm=np.empty((len(plan), n_samples), np.int16) if pcm else None,
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
                batch.scenes["background_power"][i] = batch.background_lufs[i] = np.nan
                batch.scene_gain_db[i] = 0.0
                for part, where in ((batch.audio, i), (batch.pcm, i), (batch.background, i), (batch.stems, which)):
                    if part is not None:
                        part[where] = 0
        return self._measured(batch, failures)

    def _measured(self, batch: _Batch, failures: dict[int, str]) -> SceneBatch:
        plan, levels = batch.plan, batch.levels
        share = batch.events["share"]
        scene = np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))
        with np.errstate(divide="ignore"):
            gain_db = 20.0 * np.log10(levels["gain"])
            background_db = 10.0 * np.log10(batch.scenes["background_power"])
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

    def _scenes(self, plan: ScenePlan) -> NDArray[np.void]:
        """The plan's scenes as the kernels take them."""
        scenes = np.zeros(len(plan), mix.SCENE)
        scenes["first"], scenes["last"] = plan.event_offsets[:-1], plan.event_offsets[1:]
        scenes["n_layers"] = (plan.background != NO_BACKGROUND).sum(axis=1)
        scenes["as_recorded"] = plan.level_dbfs == AS_RECORDED
        scenes["rescaled"] = (scenes["n_layers"] > 1) & ~scenes["as_recorded"] & (not self._in_lufs)
        fixed = scenes["as_recorded"] | self._in_lufs  # by their gains, or later
        scenes["level"] = amplitudes(np.where(fixed, 0, plan.level_dbfs) / DB_STEPS)
        return scenes

    def _layers(self, plan: ScenePlan) -> NDArray[np.void]:
        """The layers of all backgrounds as the kernels take them."""
        layers = np.zeros((len(plan), 2), mix.LAYER)
        noise, stored = plan.background == NOISE, plan.background >= 0
        layers["length"] = plan.n_samples[:, None]
        if self._backgrounds is not None:
            layers["length"][stored] = self._backgrounds.lengths[plan.background[stored]]
        layers["ratio"] = np.where(noise, UNITY, plan.background_ratio)
        layers["offset"] = np.where(noise, 0, plan.background_offset)
        layers["crossfade"] = self._crossfade_samples
        layers["gain"][:, 0] = 1.0
        layers["gain"][:, 1] = amplitudes(plan.background_mix_db / DB_STEPS)
        as_recorded = (plan.level_dbfs == AS_RECORDED)[:, None] & stored
        layers["gain"][as_recorded] = self._background_peak[plan.background[as_recorded]] * 32768.0 / 32767.0
        return layers

    def _events(self, plan: ScenePlan) -> tuple[NDArray[np.void], Tables, int]:
        """The plan's events as the kernels take them, what their transforms take, and the length of the longest.

        Where their clips begin is filled in scene by scene.
        """
        events = np.zeros(plan.n_events, mix.EVENT)
        for name in ("ratio", "clip_onset", "clip_offset", "onset", "offset", "fade_in", "fade_out"):
            events[name] = getattr(plan, name)
        events["length"] = plan.clip_end - plan.clip_start
        events["backwards"] = plan.reversed
        events["group"] = plan.gain_group
        events["share"] = signal_share(plan, self._share)
        propagated = self._surroundings.propagated(plan)
        events["apart"] = propagated | self._by_source
        events["wanted"] = wanted_power(plan, self._by_source)
        events["weight"] = self._weight[plan.clip]
        n_events = np.diff(plan.event_offsets)
        n_samples = np.repeat(plan.n_samples, n_events)
        events["piece_onset"] = np.maximum(plan.clip_onset, 0)
        events["piece_length"] = np.minimum(plan.clip_offset, n_samples) - events["piece_onset"]
        ends = np.cumsum(events["piece_length"])
        before = np.append(0, ends)[plan.event_offsets[:-1]]
        events["piece"] = ends - events["piece_length"] - np.repeat(before, n_events)
        events["known"] = self._known_bands.places(plan, propagated)
        samples = plan.offset - plan.onset if self._snr.measure_band else _NONE
        events["transform"][: len(samples)], tables, longest = band_tables(samples)
        bins = np.full((2, plan.n_events), -1)
        event_bins(
            self._low_hz[plan.clip], self._high_hz[plan.clip], plan.ratio, plan.ratio_p, plan.ratio_q, samples,
            plan.sample_rate, *bins,
        )  # fmt: skip
        events["first_bin"], events["last_bin"] = bins
        return events, tables, longest

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
        scene = self._scene(batch, i)
        in_background = batch.scenes["n_layers"][i] > 0
        between: list[tuple[int, Callable[[_Batch, _Scene], None]]] = []  # when to do what kernels don't
        if self._in_lufs and in_background:
            between.append((mix.BACKGROUND, self._bring_to_lufs))
        if batch.any_apart and scene.events["apart"].any():
            between.append((mix.BACKGROUND, self._hear_apart))
        if self._snr.reference == "loudness" and in_background and len(scene.events):
            between.append((mix.MEASURED, self._measure_loudness))
        if batch.stems is not None:
            between.append((mix.LEVELLED, self._keep_stems))
        at = mix.EMPTY
        for state, step in between:
            self._go_on(batch, scene, at, state)
            step(batch, scene)
            at = state
        self._go_on(batch, scene, at, mix.MIXED)
        batch.scene_gain_db[i] = shift_db = scene_gain_db(float(batch.scenes["peak"][i].view(np.float32)))
        if shift_db < 0.0:
            factor = 10.0 ** (shift_db / 20.0)
            if batch.pcm is None:
                mix.scale(scene.room.mixed, factor)
            else:
                pcm.to_pcm16(scene.room.mixed, np.float32(factor), scene.written)

    def _scene(self, batch: _Batch, i: int) -> _Scene:
        """Where one scene is mixed, and from what."""
        plan, which = batch.plan, batch.plan.events_of(i)
        n, n_layers = int(plan.n_samples[i]), int(batch.scenes["n_layers"][i])
        problem = no_level(plan, i) if n_layers == 0 else None
        if problem is not None:
            raise MixError(problem)
        first, second, *_ = [*(self._layer(batch, i, layer) for layer in range(n_layers)), _SILENCE, _SILENCE]
        clips, starts = self._bank.locate(plan.clip[which])
        events = batch.events[which]
        events["start"] = starts + plan.clip_start[which]
        room = mix.Room(
            mixed=self._scratch("mixed", n) if batch.audio is None else batch.audio[i, :n],
            layer=self._scratch("layer", n if n_layers > 1 else 0),
            pieces=self._scratch("pieces", int(events["piece_length"].sum())),
            transform=batch.room,
        )
        written = np.zeros(0, np.int16) if batch.pcm is None else batch.pcm[i, :n]
        if batch.pcm is not None:
            batch.pcm[i, n:] = 0
        return _Scene(i, which, events, batch.levels[which], mix.Sources(first, second, clips), room, written)

    def _go_on(self, batch: _Batch, scene: _Scene, begin: int, end: int) -> None:
        """Mix a scene from one state to another."""
        problem, which = mix.mix_scene(
            begin, end, scene.i, batch.scenes, batch.layers, batch.events, batch.levels, scene.sources, batch.filters,
            batch.tables, self._known_bands.energy, self._reference, self._linear_fades, scene.room, scene.written,
        )  # fmt: skip
        if problem != mix.NO_PROBLEM:
            raise MixError(f"scene {int(batch.plan.scene[scene.i])}: {self._why(batch.plan, scene, problem, which)}")

    def _why(self, plan: ScenePlan, scene: _Scene, problem: int, which: int) -> str:
        """A problem of a scene in words."""
        if problem == mix.SILENT_LAYER:
            named = self._named_background(int(plan.background[scene.i, which]))
            return f"{named} is silent where it is used; exclude it, or cut the silence from it"
        if problem == mix.CANCELLED:
            named = " and ".join(self._named_background(int(row)) for row in plan.background[scene.i])
            return f"{named} cancel each other; ask for longer scenes"
        if problem == mix.BEYOND_NUMBERS:
            return "its samples are beyond all numbers; ask for lower levels"
        e = scene.which.start + which
        clip = f"clip {int(plan.clip[e])} of {self._bank.path}"
        if problem == mix.UNHEARD:
            return (
                f"nothing is heard of {clip} in samples {int(plan.onset[e])} to {int(plan.offset[e])}; exclude the clip"
            )
        members = scene.events["group"] == scene.events["group"][which]
        what = "no background" if scene.levels["signal"][members].sum() > 0 else "nothing of the call"
        return f"there is {what} in the reference band of {clip}; exclude the clip, or use events.snr.reference: local"

    def _layer(self, batch: _Batch, i: int, which: int) -> NDArray[np.int16]:
        """Audio that one of a scene's backgrounds lies in."""
        plan, layers, row = batch.plan, batch.layers, int(batch.plan.background[i, which])
        if row == NOISE:
            slope_db = int(plan.noise_slope_db[i, which]) / DB_STEPS
            n, scene = int(plan.n_samples[i]), int(plan.scene[i])
            samples = coloured_noise(n, slope_db, self._seed, scene, which, plan.sample_rate)
            samples.flags.writeable = False  # kernels are compiled for read-only audio
        else:
            assert self._backgrounds is not None
            samples, layers["start"][i, which : which + 1] = self._backgrounds.locate(
                plan.background[i, which : which + 1]
            )
            if not layers["gain"][i, which] > 0:
                raise MixError(
                    f"{self._named_background(row)} has no `peak`, so its recorded level is not known; "
                    "set background.level_dbfs"
                )
        return samples

    def _bring_to_lufs(self, batch: _Batch, scene: _Scene) -> None:
        """Give a scene's background its planned loudness."""
        mixed = scene.room.mixed
        batch.background_lufs[scene.i] = lufs = int(batch.plan.level_dbfs[scene.i]) / DB_STEPS
        mix.scale(mixed, 10.0 ** (lufs_gain_db(mixed, batch.plan.sample_rate, lufs) / 20.0))
        batch.scenes["background_power"][scene.i] = mix.energy(mixed) / len(mixed)

    def _hear_apart(self, batch: _Batch, scene: _Scene) -> None:
        """Make the pieces of events that come through their surroundings, or whose level is given at its source."""
        events = scene.events
        apart = [
            (j, self._heard_apart(batch, scene, scene.which.start + j))
            for j in np.flatnonzero(events["apart"]).tolist()
        ]
        ends = np.cumsum(events["piece_length"])  # longer than they were planned
        events["piece"] = ends - events["piece_length"]
        scene.room = scene.room._replace(pieces=self._scratch("pieces", int(ends[-1])))
        for j, piece in apart:
            scene.room.pieces[events["piece"][j] :][: len(piece)] = piece

    def _heard_apart(self, batch: _Batch, scene: _Scene, e: int) -> Audio:
        """What is heard of such an event."""
        plan, events, n = batch.plan, batch.events, len(scene.room.mixed)
        clip_onset, clip_offset = int(plan.clip_onset[e]), int(plan.clip_offset[e])
        heard = self._scratch("whole", clip_offset - clip_onset)
        mix.play_whole(scene.sources.clips, events, e, batch.filters, self._linear_fades, heard)
        if self._by_source:
            start, end = (int(edge[e]) for edge in batch.active)
            batch.levels["signal"][e] = events["share"][e] * mix.energy(heard[start:end])  # the animal makes no noise
            batch.levels["noise"][e] = batch.scenes["background_power"][scene.i] * (end - start)
        begin = clip_onset
        if plan.distance_mm[e] > 0 or plan.impulse[e] != NO_IMPULSE:
            kernel, lead, batch.tail_samples[e] = self._surroundings.kernel(plan, scene.i, e)
            heard, lead = wet(heard, kernel, lead)
            begin -= lead
        onset, offset = max(begin, 0), min(begin + len(heard), n)
        events["piece_onset"][e], events["piece_length"][e] = onset, offset - onset
        return heard[onset - begin : offset - begin].copy()

    def _measure_loudness(self, batch: _Batch, scene: _Scene) -> None:
        """Loudness of a scene's events, each over its active part, and of the whole background."""
        which, rate, events, levels = scene.which, batch.plan.sample_rate, scene.events, scene.levels
        batch.background_lufs[scene.i] = background_lufs = loudness_lufs(scene.room.mixed, rate)
        samples = events["offset"] - events["onset"]
        begins = events["piece"] + events["onset"] - events["piece_onset"]
        calls = zip(begins.tolist(), samples.tolist(), strict=True)
        loudness = np.array([loudness_lufs(scene.room.pieces[begin:][:n], rate) for begin, n in calls])
        batch.loudness[which] = loudness
        if not self._by_source:  # there signals are what was measured of the whole calls
            levels["signal"] = events["share"] * 10.0 ** (loudness / 10.0) * samples
            levels["noise"] = 10.0 ** (background_lufs / 10.0) * samples

    def _keep_stems(self, batch: _Batch, scene: _Scene) -> None:
        """Give a scene's background and every event by itself."""
        assert batch.stems is not None
        assert batch.background is not None
        batch.background[scene.i, : len(scene.room.mixed)] = scene.room.mixed
        for event, level, stem in zip(scene.events, scene.levels, batch.stems[scene.which], strict=True):
            at, size = int(event["piece_onset"]), int(event["piece_length"])
            stem[at : at + size] = scene.room.pieces[event["piece"] :][:size]
            mix.scale(stem, float(level["gain"]))

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
