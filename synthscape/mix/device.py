"""DeviceMixer: the mixer on a GPU. Audio is made there and stays there.

The arithmetic is that of ``mixer.py``: float32 audio in plan order, float64 powers, one definition of SNR. Kernels are
launched one after the other and nothing waits for their results: gains are computed on the device, and what the host
wants to know - achieved levels, failures - is copied back while the caller goes on, and waited for when it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from synthscape.bank.schema import ALIGN_SAMPLES
from synthscape.bank.store import ClipStore
from synthscape.errors import MixError, SynthscapeError
from synthscape.mix.asked import active_as_played, bare, no_level, signal_share, wanted_power
from synthscape.mix.device_bands import BandBatch, band_batches, band_energies, transform_sizes
from synthscape.mix.device_batch import DeviceBatch, copied_later
from synthscape.mix.device_slots import Arrays, Slots, Tensors
from synthscape.mix.levels import GAIN_STEPS, scene_gain_db, weights_in_groups
from synthscape.mix.loudness import loudness_lufs
from synthscape.mix.noise import coloured_noise
from synthscape.mix.surroundings import Kernel, Surroundings
from synthscape.plan.plan import AS_RECORDED, DB_STEPS, NO_BACKGROUND, NOISE, ScenePlan
from synthscape.spec.schema import Spec
from synthscape.units import seconds_to_samples
from synthscape_kernels import bins, ramps, tiles, triton_launch
from synthscape_kernels import triton_mix as kernels
from synthscape_kernels.filters import FilterBank
from synthscape_kernels.triton_mix import TILE, Events, Layers, Ratios

Floats = NDArray[np.float64]

BANK_LIMIT_BYTES: Final = 16 * 2**30
_INT32_SAMPLES: Final = 2**31 - 8 * TILE  # positions are int32 in the kernels
_LANES: Final = 256
_LOUDEST_DB: Final = 200  # peaks up to here can be scaled to -1 dBFS
_CANCELLED: Final = 1e-12  # power of a sum of layers, against its parts, that is rounding noise


class DeviceMixer:
    """Mixes planned scenes of one spec on a CUDA device.

    >>> batch = DeviceMixer(spec, bank, backgrounds).render(planner.plan(range(64)))      # doctest: +SKIP
    >>> batch.audio.device, batch.audio.shape                                             # doctest: +SKIP
    (device(type='cuda', index=0), torch.Size([64, 160000]))

    The bank, and the backgrounds if there is room for them too, are copied to the device whole where they fit into
    ``bank_limit_bytes``. Otherwise what a batch needs is gathered into one of two reused pinned buffers and copied on a
    side stream, while the batch before it is mixed. A mixer belongs to one thread.

    Loudness is measured by the host, which waits for what it measures: specs that ask for it mix at its speed.

    Args:
        device: ``cuda``, ``cuda:1``, ...; ``cpu`` works under Triton's interpreter only, which is for tests.
        bank_limit_bytes: device memory that stores may take; never more than half of what is free.
        keep_pieces: play a resampled event once and keep its samples until the batch is mixed, instead of filtering it
            both for its power and for the mix: faster, and 4 bytes a sample of each.

    Raises:
        MixError: there is no such device.
    """

    def __init__(
        self,
        spec: Spec,
        bank: ClipStore,
        backgrounds: ClipStore | None,
        impulses: ClipStore | None = None,
        device: str | torch.device = "cuda",
        *,
        bank_limit_bytes: int = BANK_LIMIT_BYTES,
        keep_pieces: bool = True,
    ):
        self.device = _checked_device(device)
        self._bank = bank
        self._backgrounds = backgrounds
        self._seed = spec.seed
        self._reference = spec.events.snr.reference
        self._measure_band = spec.events.snr.measure_band
        self._by_source = spec.events.level.mode == "source"
        self._in_lufs = spec.background.level_lufs is not None
        self._linear_fades = spec.events.fade_shape == "linear"
        self._crossfade_samples = seconds_to_samples(spec.background.crossfade_s, spec.sample_rate)
        n = len(bank)
        self._share = (
            np.nan_to_num(bank.numbers("signal_share"), nan=1.0) if spec.events.snr.subtract_noise else np.ones(n)
        )
        self._weight = weights_in_groups(spec, bank)
        self._low_hz = bank.numbers("low_hz")
        self._high_hz = bank.numbers("high_hz")
        self._background_peak = np.zeros(0) if backgrounds is None else backgrounds.numbers("peak")
        self._surroundings = Surroundings(spec, bank, impulses)
        self._filters: FilterBank | None = None
        self._ratios: Tensors = {}
        self._keep_pieces = keep_pieces
        self._columns = Slots(self.device)
        self._clips = Slots(self.device)
        self._layers = Slots(self.device)
        fits = bank_limit_bytes
        if self.device.type == "cuda":
            fits = min(fits, torch.cuda.mem_get_info(self.device)[0] // 2)
        self._resident: dict[str, torch.Tensor] = {}
        for name, store in (("bank", bank), ("backgrounds", backgrounds)):
            size = 2 * (_samples_of(store) + TILE)
            if store is not None and size <= fits:
                fits -= size
                self._resident[name] = _resident(store, self.device)

    @property
    def resident(self) -> tuple[str, ...]:
        """Which stores lie on the device whole: ``bank``, ``backgrounds``."""
        return tuple(self._resident)

    def stream(self, plans: Iterable[ScenePlan], *, stems: bool = False, pcm: bool = False) -> Iterator[DeviceBatch]:
        """Mix plan after plan, one ahead of what was taken, so that copies run while the batch before is mixed."""
        before: DeviceBatch | None = None
        for plan in plans:
            batch = self.render(plan, stems=stems, pcm=pcm)
            if before is not None:
                yield before
            before = batch
        if before is not None:
            yield before

    def render(self, plan: ScenePlan, *, stems: bool = False, pcm: bool = False) -> DeviceBatch:
        """Mix all scenes of a plan; returns as soon as everything is queued.

        Args:
            plan: of the same spec and stores.
            stems: also give every event and the background by itself, before the scene gain.
            pcm: also give the scenes as PCM16.

        Raises:
            MixError: the scenes don't fit in the device's memory, or one is too long for the kernels. Other scenes
                that can't be mixed are named in the batch's ``failures``.
        """
        with torch.cuda.device(self.device if self.device.type == "cuda" else -1):  # -1: none
            try:
                return self._render(plan, stems, pcm)
            except torch.OutOfMemoryError:
                raise MixError(
                    f"{len(plan)} scenes of up to {int(plan.n_samples.max())} samples{' with stems' if stems else ''} "
                    f"at once don't fit in the memory of {self.device}; ask for fewer at a time, or for shorter ones"
                ) from None

    def _render(self, plan: ScenePlan, stems: bool, pcm: bool) -> DeviceBatch:
        s, e = len(plan), plan.n_events
        n_tiles = max(1, -(-int(plan.n_samples.max(initial=0)) // TILE))
        filters = self._filters_for(plan)
        broken: dict[int, str] = {}  # scenes that can't be mixed; they are, but not delivered
        apart = self._heard_through(plan, broken)
        layers = self._layer_columns(plan, broken)
        events = self._event_columns(plan, apart)
        alone = bare(plan)
        self._check_lengths(plan)
        lists = self._lists(plan, layers, events, apart, n_tiles)
        span_start = lists["span_offsets"][:-1].astype(np.int64) * TILE
        bands = self._bands(plan, span_start)
        host = {
            **{f"layer_{name}": value for name, value in layers.items()},
            **{f"event_{name}": value for name, value in events.items()},
            **{f"band_{k}": batch.table for k, batch in enumerate(bands)},
            **{f"taps_{i}": kernel[0] for i, kernel in apart.items()},
            **lists,
            "n_samples": plan.n_samples.astype(np.int32),
            "event_offsets": plan.event_offsets.astype(np.int32),
            "scene_ok": ~np.isin(np.arange(s), list(broken)),
            "scene_bare": alone,
        }
        audio_bank = self._gathered(plan, host, filters)
        device = self._columns.send_arrays(host)
        ratios = Ratios(*(self._ratios[name] for name in Ratios._fields))
        if self.device.type == "cuda":  # a caller may use several streams
            for tensor in ratios:
                tensor.record_stream(torch.cuda.current_stream())
        new, launch = self._new, triton_launch.launch
        filtered = not self._keep_pieces and bool((events["ratio_p"] != events["ratio_q"]).any())

        event_table = Events(
            pcm=audio_bank["bank"],
            pieces=new(max(int(lists["piece_samples"][0]), TILE), torch.float32),
            **{name: device[f"event_{name}"] for name in Events._fields if name not in ("pcm", "pieces")},
        )

        # Backgrounds: powers of the layers, then gains.
        loops = new(max(int(lists["loop_offsets"][-1]), 1) * TILE, torch.float32)
        layer_table = Layers(
            pcm=audio_bank["backgrounds"],
            pieces=loops,
            **{name: device[f"layer_{name}"] for name in Layers._fields if name not in ("pcm", "pieces")},
        )
        launch(
            kernels.play_layers, len(lists["loop_layer"]), layer_table, ratios, device["n_samples"],
            device["loop_layer"], device["loop_first"], loops, TILE=TILE, RESAMPLED=True,
        )  # fmt: skip
        sums = torch.zeros((3, s * n_tiles), dtype=torch.float64, device=self.device)
        launch(kernels.layer_power, s * n_tiles, layer_table, device["n_samples"], n_tiles, sums, TILE=TILE)
        layer_power, layer_gain, level_gain, background_power, background_ok = self._background_gains(
            self._totals(sums, device["scene_tiles"]), device
        )
        background = (layer_table, ratios, layer_gain, level_gain)
        unmixed = partial(self._background_audio, plan, event_table, background, device, n_tiles)
        background_lufs, loudness = np.full(s, np.nan), np.full(e, np.nan)
        if self._in_lufs or self._reference == "loudness":
            row_starts = np.arange(s) * n_tiles * TILE
            background_lufs = self._loudness(unmixed().ravel(), row_starts, plan.n_samples, plan.sample_rate)
        if self._in_lufs:
            wanted_lufs = plan.level_dbfs / DB_STEPS
            gain_to = np.where(np.isfinite(background_lufs), 10.0 ** ((wanted_lufs - background_lufs) / 20.0), 0.0)
            level_gain.copy_(torch.from_numpy(gain_to.astype(np.float32)))
            background_power *= level_gain.double().square()
            background_lufs = np.where(alone, np.nan, wanted_lufs)

        # Resampled events are played once; others are as cheap to play again as to read back.
        played = event_table._replace(
            begin=device["event_play_begin"], end=device["event_play_end"], piece=device["event_play_piece"]
        )
        launch(
            kernels.play_events, len(lists["piece_event"]), played, ratios, device["piece_event"],
            device["piece_first"], event_table.pieces, TILE=TILE, RESAMPLED=True,
        )  # fmt: skip
        self._convolve(plan, events, apart, device, event_table.pieces)

        # Energies of events and of what is behind them, then gains.
        energy, spans = self._powers(event_table, background, device, "span")
        band = torch.full((2, e), math.nan, dtype=torch.float64, device=self.device)
        for k, batch in enumerate(bands):
            band_energies(spans, device[f"band_{k}"].view(batch.table.shape), batch, out=band)
        source = None
        if self._by_source:
            whole = played._replace(onset=device["event_source_onset"], offset=device["event_source_offset"])
            samples = (device["event_source_offset"] - device["event_source_onset"]).double()
            behind = background_power[device["event_scene"].long()] * samples
            heard = self._powers(whole, background, device, "source")[0][0]
            source = torch.stack([device["event_share"] * heard, behind])
        if self._reference == "loudness":
            loudness = self._loudness(spans[0], span_start, plan.offset - plan.onset, plan.sample_rate)
            if self._in_lufs:
                background_lufs = self._loudness(unmixed().ravel(), row_starts, plan.n_samples, plan.sample_rate)
            background_lufs[alone] = np.nan
            source = self._loud(plan, loudness, background_lufs) if source is None else source
        gain, pooled, events_ok = self._event_gains(energy, band, source, background_power, alone, device)

        # The mix, its peaks, the scene gain.
        row = n_tiles * TILE
        audio = new((s, row), torch.float32)
        peak = new((s, n_tiles), torch.float32)
        visited = new((s, n_tiles), torch.int32)
        mixed = (event_table, *background, gain, device["n_samples"], n_tiles)
        launch(
            kernels.mix, s * n_tiles, *mixed, device["tile_offsets"], device["tile_events"], audio, peak, visited,
            TILE=TILE, RESAMPLED=filtered,
        )  # fmt: skip
        background_audio = stem_audio = None
        if stems:
            background_audio = unmixed()
            stem_audio = new((e, row), torch.float32)
            launch(
                kernels.stems, e * n_tiles, event_table, ratios, gain, n_tiles, stem_audio, TILE=TILE,
                RESAMPLED=filtered,
            )  # fmt: skip
        most = peak.amax(dim=1)
        thresholds, factors = _gain_table(self.device)
        steps = torch.searchsorted(thresholds, most)
        deliver = (device["scene_ok"] & background_ok & events_ok & (steps < len(factors) - 1)).to(torch.int32)
        pcm_audio = new((s, row), torch.int16) if pcm else None
        launch(
            kernels.finish, s * n_tiles, audio, factors[steps], deliver, n_tiles, pcm_audio if pcm else audio,
            TILE=TILE, PCM=pcm,
        )  # fmt: skip
        if background_audio is not None and stem_audio is not None:
            background_audio *= deliver[:, None]
            stem_audio *= deliver[device["event_scene"].long()][:, None]
        for slots in (self._columns, self._clips, self._layers):
            slots.used()
        n = int(plan.n_samples.max(initial=0))
        tail_samples = np.zeros(e, np.int64)
        tail_samples[list(apart)] = [tail for _, _, tail in apart.values()]
        return DeviceBatch(
            plan=plan,
            audio=audio[:, :n],
            pcm=pcm_audio[:, :n] if pcm_audio is not None else None,
            stems=stem_audio[:, :n] if stem_audio is not None else None,
            background=background_audio[:, :n] if background_audio is not None else None,
            visited=visited,
            signal_share=events["share"],
            tail_samples=tail_samples,
            background_lufs=background_lufs if self._in_lufs or self._reference == "loudness" else None,
            loudness=loudness,
            _in_lufs=self._in_lufs,
            _measure=copied_later(
                {
                    "peak": most, "background": background_power, "layer": layer_power, "gain": gain,
                    "event": energy[0], "local": energy[1], "event_band": band[0], "background_band": band[1],
                    "pooled": pooled,
                }
            ),
            _name_failures=lambda measured: self._failures(plan, layers, events, measured, broken),
        )  # fmt: skip

    # Columns, on the host.

    def _event_columns(self, plan: ScenePlan, apart: dict[int, Kernel]) -> Arrays:
        n_events = np.diff(plan.event_offsets)
        scene = np.repeat(np.arange(len(plan)), n_events)
        n_samples = plan.n_samples[scene]
        make = partial(ramps.fade_tables, linear=self._linear_fades)
        fades, starts = _tables(make, np.stack([plan.fade_in, plan.fade_out]), 1)
        group_of = scene * 2**32 + (plan.gain_group.astype(np.int64) - np.iinfo(np.int32).min)
        _, first, group, members = np.unique(group_of, return_index=True, return_inverse=True, return_counts=True)
        begin, end = np.maximum(plan.clip_onset, 0), np.minimum(plan.clip_offset, n_samples)
        for i, (taps, lead, _) in apart.items():
            heard_from = int(plan.clip_onset[i]) - lead
            heard_to = int(plan.clip_offset[i]) - lead + len(taps) - 1
            begin[i], end[i] = max(heard_from, 0), min(heard_to, int(n_samples[i]))
        columns = {
            "scene": scene.astype(np.int32),
            "begin": begin.astype(np.int32),
            "end": end.astype(np.int32),
            **{name: getattr(plan, name).astype(np.int32) for name in ("clip_onset", "clip_offset", "onset", "offset")},
            "clip_start": self._bank.starts[plan.clip] + plan.clip_start,
            "clip_length": (plan.clip_end - plan.clip_start).astype(np.int32),
            "ratio": plan.ratio,
            "ratio_p": plan.ratio_p[plan.ratio],
            "ratio_q": plan.ratio_q[plan.ratio],
            "backwards": plan.reversed.astype(np.int32),
            "fade_in": plan.fade_in,
            "fade_out": plan.fade_out,
            "rise": starts[0],
            "fall": starts[1],
            "fades": fades,
            "share": signal_share(plan, self._share),
            "wanted": wanted_power(plan, self._by_source),
            "weight": self._weight[plan.clip],
            "group": group.astype(np.int64),
            "group_offsets": np.append(0, np.cumsum(members)).astype(np.int32),
            "group_members": np.argsort(group, kind="stable"),
        }
        if self._by_source:
            start, stop = active_as_played(plan, self._bank)
            columns["source_onset"] = (plan.clip_onset + start).astype(np.int32)
            columns["source_offset"] = (plan.clip_onset + stop).astype(np.int32)
        return {**columns, "group_first": first}

    def _layer_columns(self, plan: ScenePlan, broken: dict[int, str]) -> Arrays:
        noise, there = plan.background == NOISE, plan.background != NO_BACKGROUND
        stored = there & ~noise
        row = np.maximum(plan.background, 0)
        p, q = (
            np.where(noise, 1, table[plan.background_ratio].astype(np.int64)) for table in (plan.ratio_p, plan.ratio_q)
        )
        n_samples = np.broadcast_to(plan.n_samples[:, None], row.shape)
        lengths, starts, recorded = np.where(noise, n_samples, 0), np.zeros_like(row), np.ones(row.shape)
        if self._backgrounds is not None:
            lengths = np.where(stored, self._backgrounds.lengths[row], lengths)
            starts = np.where(stored, self._backgrounds.starts[row], 0)
            recorded = np.where(stored, self._background_peak[row] * 32768.0 / 32767.0, 1.0)
        played = -(-lengths * p // q)
        looped = there & (played < n_samples)
        crossfade = np.where(looped, np.minimum(self._crossfade_samples, played // 4), 0)
        ramp, ramp_starts = _tables(ramps.crossfade_tables, crossfade, 2)
        as_recorded = np.broadcast_to((plan.level_dbfs == AS_RECORDED)[:, None], row.shape)
        unknown = as_recorded & stored & ~(recorded > 0)
        for scene, which in np.argwhere(unknown).tolist():
            broken[scene] = (
                f"{self._named_background(int(row[scene, which]))} has no `peak`, so its recorded level is not known; "
                "set background.level_dbfs"
            )
        for scene in np.flatnonzero(~there.any(axis=1)).tolist():
            problem = no_level(plan, scene)
            if problem is not None:
                broken[scene] = problem
        second = 10.0 ** (plan.background_mix_db / DB_STEPS / 20.0)
        level = 10.0 ** (np.where(as_recorded[:, 0], 0, plan.level_dbfs) / DB_STEPS / 20.0)
        alone = (there.sum(axis=1) == 1) & (not self._in_lufs)  # its level is part of its own gain
        gain = np.stack([np.where(alone, level, 1.0), second], axis=1)
        return {
            "start": starts,
            "length": lengths.astype(np.int32),
            "ratio": plan.background_ratio,
            "offset": np.where(noise, 0, plan.background_offset).astype(np.int32),
            "played": played.astype(np.int32),
            "crossfade": crossfade.astype(np.int32),
            "ramp": ramp_starts,
            "ramps": ramp,
            "looped": looped,
            "copied": there & (p == q) & ~looped,
            "loop_end": np.where(there & ((p != q) | looped), n_samples, 0).astype(np.int32),
            "gain": np.where(as_recorded, np.nan_to_num(recorded), gain),
            "normalise": ~as_recorded[:, 0],
            "mixed": ~as_recorded[:, 0] & ~alone & (not self._in_lufs),
            "level": level,
        }

    def _lists(self, plan: ScenePlan, layers: Arrays, events: Arrays, apart: dict[int, Kernel], n_tiles: int) -> Arrays:
        """What each program of each kernel works on; also where pieces of layers and events begin."""
        tile_offsets, tile_events = tiles.tile_lists(plan.event_offsets, events["begin"], events["end"], n_tiles, TILE)
        # Events that come through their surroundings, or from a known source, are played whole, whatever is cut.
        whole = np.zeros(plan.n_events, np.bool_)
        whole[list(apart)] = True
        whole |= self._by_source
        kept = ((events["ratio_p"] != events["ratio_q"]) & self._keep_pieces) | whole
        events["play_begin"] = np.where(whole, events["clip_onset"], events["begin"])
        events["play_end"] = np.where(whole, events["clip_offset"], events["end"])
        piece_offsets, piece_event, piece_first = tiles.chunk_lists(
            events["play_begin"], np.where(kept, events["play_end"], events["play_begin"]), TILE
        )
        events["play_piece"] = piece_offsets[:-1].astype(np.int64) * TILE
        events["piece"] = np.where(kept, events["play_piece"] + events["begin"] - events["play_begin"], -1)
        samples = int(piece_offsets[-1]) * TILE
        for i in apart:
            events["piece"][i] = samples
            samples += int(events["end"][i] - events["begin"][i])
        loop_end = layers["loop_end"].ravel()
        loop_offsets, loop_layer, loop_first = tiles.chunk_lists(np.zeros_like(loop_end), loop_end, TILE)
        layers["piece"] = np.where(loop_end > 0, loop_offsets[:-1].astype(np.int64) * TILE, -1)
        lists = {
            "tile_offsets": tile_offsets, "tile_events": tile_events,
            "piece_event": piece_event, "piece_first": piece_first, "piece_samples": np.array([samples]),
            "loop_offsets": loop_offsets, "loop_layer": loop_layer, "loop_first": loop_first,
            "scene_tiles": np.arange(len(plan) + 1, dtype=np.int32) * n_tiles,
        }  # fmt: skip
        parts = {"span": ("onset", "offset")} | (
            {"source": ("source_onset", "source_offset")} if self._by_source else {}
        )
        for name, (onset, offset) in parts.items():
            chunks = tiles.chunk_lists(events[onset], events[offset], TILE)
            lists |= {
                f"{name}_{part}": chunk for part, chunk in zip(("offsets", "event", "first"), chunks, strict=True)
            }
        return lists

    def _heard_through(self, plan: ScenePlan, broken: dict[int, str]) -> dict[int, Kernel]:
        """What each propagated event is heard through; scenes for which there is none are noted in ``broken``."""
        apart: dict[int, Kernel] = {}
        for e in np.flatnonzero(self._surroundings.propagated(plan)).tolist():
            scene = int(np.searchsorted(plan.event_offsets, e, side="right")) - 1
            try:
                apart[e] = self._surroundings.kernel(plan, scene, e)
            except SynthscapeError as error:
                broken.setdefault(scene, str(error))
        return apart

    def _bands(self, plan: ScenePlan, start: NDArray[np.int64]) -> list[BandBatch]:
        """The transforms of the events that have a band; ``start`` is where the samples of each are."""
        n = plan.offset - plan.onset
        first, last = np.full(len(n), -1, np.int64), np.full(len(n), -1, np.int64)
        if self._measure_band:
            bins.event_bins(
                self._low_hz[plan.clip], self._high_hz[plan.clip], plan.ratio, plan.ratio_p, plan.ratio_q, n,
                plan.sample_rate, first, last,
            )  # fmt: skip
        return band_batches(start, n, first, last)

    def _check_lengths(self, plan: ScenePlan) -> None:
        longest = [
            int(plan.n_samples.max(initial=0)),
            int((plan.background_offset + plan.n_samples[:, None]).max(initial=0)),
            int((plan.clip_offset - plan.clip_onset).max(initial=0)),
            int((plan.clip_end - plan.clip_start).max(initial=0)),
        ]
        stored = plan.background >= 0
        if self._backgrounds is not None and stored.any():
            lengths, ratio = self._backgrounds.lengths[plan.background[stored]], plan.background_ratio[stored]
            played = lengths * plan.ratio_p[ratio] // plan.ratio_q[ratio]
            longest += [int(lengths.max()), int(played.max())]
        if max(longest) > _INT32_SAMPLES:
            raise MixError(
                f"a scene, a clip or a background of {max(longest)} samples is too long for the device's kernels, "
                f"which take {_INT32_SAMPLES}; use device: cpu"
            )

    # Audio and filters, to the device.

    def _filters_for(self, plan: ScenePlan) -> FilterBank:
        """The filter tables of a plan's ratios, and ``_ratios`` in step with them."""
        used = np.unique(np.concatenate([plan.ratio, plan.background_ratio.ravel()]))
        used = used[plan.ratio_p[used] != plan.ratio_q[used]]
        filters = self._filters
        if filters is None:
            filters = self._filters = FilterBank(plan.ratio_p, plan.ratio_q)
        if not self._ratios or (filters.offset[used] < 0).any():
            filters.require(used.astype(np.int16))
            taps = filters.taps.copy()
            for r in np.flatnonzero(filters.offset >= 0).tolist():
                p, half, at = int(plan.ratio_p[r]), int(filters.half[r]), int(filters.offset[r])
                table = taps[at : at + 2 * half * p].reshape(p, 2 * half)
                taps[at : at + 2 * half * p] = kernels.tap_order(table, int(plan.ratio_q[r])).ravel()
            self._ratios = {
                name: torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
                for name, array in {
                    "p": plan.ratio_p,
                    "q": plan.ratio_q,
                    "table": filters.offset,
                    "half": filters.half.astype(np.int32),
                    "taps": taps if len(taps) else np.zeros(1, np.float32),
                }.items()
            }
        return filters

    def _gathered(self, plan: ScenePlan, host: Arrays, filters: FilterBank) -> Tensors:
        """Packed audio of both stores on the device; for what is not resident the starts in ``host`` are moved."""
        audio = dict(self._resident)
        if "bank" not in audio:
            rows, inverse = np.unique(plan.clip, return_inverse=True)
            starts, audio["bank"] = self._clips.send_samples([self._bank.pcm(int(row)) for row in rows])
            host["event_clip_start"] = starts[inverse] + plan.clip_start
        noise = plan.background == NOISE
        if "backgrounds" not in audio or noise.any():
            there = np.argwhere(host["layer_length"] > 0).tolist()
            windows = [self._window(plan, host, filters, scene, which) for scene, which in there]
            starts, audio["backgrounds"] = self._layers.send_samples(
                [
                    self._layer_pcm(plan, scene, which)[first:last]
                    for (scene, which), (first, last) in zip(there, windows, strict=True)
                ]
            )
            for (scene, which), start, (first, _) in zip(there, starts.tolist(), windows, strict=True):
                host["layer_start"][scene, which] = start - first  # where sample 0 would be
        host["layer_aligned"] = (
            host["layer_copied"] & ((host["layer_start"] + host["layer_offset"]) % ALIGN_SAMPLES == 0)
        ).astype(np.int32)
        return audio

    def _layer_pcm(self, plan: ScenePlan, scene: int, which: int) -> NDArray[np.int16]:
        row = int(plan.background[scene, which])
        if row == NOISE:
            slope_db, number = int(plan.noise_slope_db[scene, which]) / DB_STEPS, int(plan.scene[scene])
            return coloured_noise(int(plan.n_samples[scene]), slope_db, self._seed, number, which, plan.sample_rate)
        assert self._backgrounds is not None
        return self._backgrounds.pcm(row)

    def _window(self, plan: ScenePlan, host: Arrays, filters: FilterBank, scene: int, which: int) -> tuple[int, int]:
        """Which stored samples [first, last) of a background its scene is played from."""
        length = int(host["layer_length"][scene, which])
        if host["layer_looped"][scene, which]:
            return 0, length
        offset = int(host["layer_offset"][scene, which])
        if host["layer_copied"][scene, which]:
            return offset, min(length, offset + int(plan.n_samples[scene]))
        r = int(plan.background_ratio[scene, which])
        p, q, half = int(plan.ratio_p[r]), int(plan.ratio_q[r]), int(filters.half[r])
        last = (offset + int(plan.n_samples[scene]) - 1) * q // p
        return max(0, offset * q // p - half), min(length, last + half + 1)

    # Levels, on the device.

    def _background_gains(
        self, sums: torch.Tensor, device: Tensors
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Layer powers [s, 2], layer gains float32 [s, 2], level gain float32 [s], power [s], and if there is any."""
        n = device["n_samples"].double()
        power = sums[:2].T / n[:, None]
        there = device["layer_length"].view(-1, 2) > 0
        normalise = device["layer_normalise"]
        asked = device["layer_gain"].view(-1, 2)
        unit = torch.where(power > 0, asked / power.sqrt(), 0.0)
        gain = torch.where(there, torch.where(normalise[:, None], unit, asked), 0.0).float()
        wide = gain.double()
        parts = wide.square() * power
        mixed = parts.sum(dim=1) + 2.0 * wide[:, 0] * wide[:, 1] * (sums[2] / n)
        heard = mixed > _CANCELLED * parts.sum(dim=1)
        levelled = torch.where(heard, device["layer_level"] / mixed.sqrt(), 0.0)
        level = torch.where(device["layer_mixed"], levelled, 1.0).float()
        ok = (heard | device["scene_bare"]) & (~there | (power > 0)).all(dim=1)
        return power, gain, level, torch.where(ok, level.double().square() * mixed, 0.0), ok

    def _powers(
        self, events: Events, background: tuple[Layers, Ratios, torch.Tensor, torch.Tensor], device: Tensors, name: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Energies [2, e] of events and of what is behind them over [onset, offset), and those samples."""
        chunks = len(device[f"{name}_event"])
        sums = self._new((2, max(chunks, 1)), torch.float64)
        spans = self._new((2, max(chunks, 1) * TILE), torch.float32)
        layers, ratios, layer_gain, level_gain = background
        triton_launch.launch(
            kernels.power, chunks, events, layers, ratios, layer_gain, level_gain, device["n_samples"],
            device[f"{name}_event"], device[f"{name}_first"], sums, spans, TILE=TILE, RESAMPLED=not self._keep_pieces,
        )  # fmt: skip
        return self._totals(sums, device[f"{name}_offsets"]), spans

    def _background_audio(
        self,
        plan: ScenePlan,
        events: Events,
        background: tuple[Layers, Ratios, torch.Tensor, torch.Tensor],
        device: Tensors,
        n_tiles: int,
    ) -> torch.Tensor:
        """The mixed backgrounds, float32 [s, n_tiles x TILE]."""
        programs = len(plan) * n_tiles
        audio = self._new((len(plan), n_tiles * TILE), torch.float32)
        none = torch.zeros_like(device["tile_offsets"])  # no tile has an event
        triton_launch.launch(
            kernels.mix, programs, events, *background, background[3], device["n_samples"], n_tiles, none, none, audio,
            self._new(programs, torch.float32), self._new(programs, torch.int32), TILE=TILE, RESAMPLED=False,
        )  # fmt: skip
        return audio

    def _loudness(self, audio: torch.Tensor, start: NDArray[np.int64], n: NDArray[np.int64], rate: int) -> Floats:
        """Loudness in LUFS of stretches of ``audio`` (float32, one dimension), on the host; -inf for silence."""
        samples = audio.cpu().numpy()
        return np.array([loudness_lufs(samples[a : a + size], rate) for a, size in zip(start, n, strict=True)])

    def _loud(self, plan: ScenePlan, loudness: Floats, background_lufs: Floats) -> torch.Tensor:
        """Signal and noise of each event as loudness, [2, e]."""
        scene = np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))
        levels = np.stack([loudness, background_lufs[scene]])
        both = 10.0 ** (levels / 10.0) * (plan.offset - plan.onset)
        both[0] *= signal_share(plan, self._share)
        return torch.from_numpy(both).to(self.device)

    def _convolve(
        self, plan: ScenePlan, events: Arrays, apart: dict[int, Kernel], device: Tensors, pieces: torch.Tensor
    ) -> None:
        """From dry calls in ``pieces`` to what is heard of them through their surroundings, in float64."""
        for i, (taps, lead, _) in apart.items():
            n = int(plan.clip_offset[i] - plan.clip_onset[i])
            points = int(transform_sizes(np.array([n + len(taps) - 1]))[0])
            dry = int(events["play_piece"][i])
            spectrum = torch.fft.rfft(pieces[dry : dry + n].double(), points)
            spectrum *= torch.fft.rfft(device[f"taps_{i}"], points)
            before = int(events["begin"][i]) - (int(plan.clip_onset[i]) - lead)
            to, size = int(events["piece"][i]), int(events["end"][i] - events["begin"][i])
            pieces[to : to + size] = torch.fft.irfft(spectrum, points)[before : before + size].float()

    def _event_gains(
        self,
        energy: torch.Tensor,
        band: torch.Tensor,
        source: torch.Tensor | None,
        background_power: torch.Tensor,
        alone: NDArray[np.bool_],
        device: Tensors,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Gains float32 [e], pooled signal and noise [2, groups], and which scenes are sound [s]."""
        signal, noise = device["event_share"] * energy[0], energy[1]
        behind = background_power[device["event_scene"].long()]
        if source is not None:
            signal, noise = source[0], source[1]
        elif self._reference == "band":
            signal, noise = device["event_share"] * band[0], band[1]
        elif self._reference == "scene":
            noise = behind * (device["event_offset"] - device["event_onset"]).double()
        if alone.any():  # wanted is a mean square, whatever share of it is signal
            event_alone = device["scene_bare"][device["event_scene"].long()]
            signal = torch.where(event_alone, energy[0], signal)
            noise = torch.where(event_alone, (device["event_offset"] - device["event_onset"]).double(), noise)
        weight = device["event_weight"]
        both = torch.stack([signal * weight * weight, noise])
        pooled = self._totals(both[:, device["event_group_members"]], device["event_group_offsets"])
        sound = (pooled[0] > 0) & (pooled[1] > 0)
        group = device["event_group"]
        each = (device["event_wanted"] * pooled[1][group] / pooled[0][group]).sqrt() * weight
        gain = torch.where(sound[group], each, 0.0)
        wrong = (~sound[group] | ~(energy[0] > 0)).double()
        ok = self._totals(wrong[None], device["event_offsets"])[0] == 0
        return gain.float(), pooled, ok

    def _totals(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        values = values.contiguous()
        rows = len(offsets) - 1
        out = self._new((len(values), rows), torch.float64)
        triton_launch.launch(
            kernels.totals, len(values) * rows, values, offsets, rows, values.shape[1], out, LANES=_LANES
        )
        return out

    def _new(self, shape: int | tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=self.device)

    # Failures, by name.

    def _failures(
        self, plan: ScenePlan, layers: Arrays, events: Arrays, measured: dict[str, Floats], broken: dict[int, str]
    ) -> dict[int, str]:
        failures: dict[int, str] = {}
        for i in range(len(plan)):
            problem = self._background_problem(plan, i, layers, measured) or self._event_problem(
                plan, i, events, measured
            )
            if problem is None and not measured["peak"][i] < 10.0 ** (_LOUDEST_DB / 20.0):
                problem = f"the mix peaks at {measured['peak'][i]:g} of full scale; ask for a lower SNR"
            if i in broken:
                failures[i] = broken[i]
            elif problem is not None:
                failures[i] = f"scene {int(plan.scene[i])}: {problem}"
        return failures

    def _background_problem(self, plan: ScenePlan, i: int, layers: Arrays, measured: dict[str, Floats]) -> str | None:
        for which in range(2):
            if layers["length"][i, which] > 0 and not measured["layer"][i, which] > 0:
                named = self._named_background(int(plan.background[i, which]))
                return f"{named} is silent where it is used; exclude it, or cut the silence from it"
        if (plan.background[i] != NO_BACKGROUND).any() and not measured["background"][i] > 0:
            named = " and ".join(self._named_background(int(row)) for row in plan.background[i])
            return f"{named} cancel each other; ask for longer scenes"
        return None

    def _named_background(self, row: int) -> str:
        if self._backgrounds is None or row == NOISE:
            return "noise"
        return f"background {row} of {self._backgrounds.path}"

    def _event_problem(self, plan: ScenePlan, i: int, events: Arrays, measured: dict[str, Floats]) -> str | None:
        for e in range(plan.events_of(i).start, plan.events_of(i).stop):
            if not measured["event"][e] > 0:
                return (
                    f"nothing is heard of clip {int(plan.clip[e])} of {self._bank.path} in samples "
                    f"{int(plan.onset[e])} to {int(plan.offset[e])}; exclude the clip"
                )
        for e in range(plan.events_of(i).start, plan.events_of(i).stop):
            signal, noise = measured["pooled"][:, events["group"][e]]
            if not (signal > 0 and noise > 0):
                what = "nothing of the call" if not signal > 0 else "no background"
                return (
                    f"there is {what} in the reference band of clip {int(plan.clip[e])} of {self._bank.path}; "
                    "exclude the clip, or use events.snr.reference: local"
                )
        return None


@cache
def _gain_table(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Scene gains by peak: thresholds float32 [k], and the factor of each step, float32 [k + 1].

    Up to ``thresholds[k]`` the scene gain is -k/256 dB or nearer to 0, as ``scene_gain_db`` rounds: the largest such
    float32 number is found by trying, so that a look-up gives exactly the host's decision.
    """
    steps = np.arange((_LOUDEST_DB + 2) * GAIN_STEPS)
    thresholds = (10.0 ** ((steps / GAIN_STEPS - 1.0) / 20.0)).astype(np.float32)
    up = np.float32(np.inf)
    for k in steps.tolist():
        peak = thresholds[k]
        while scene_gain_db(float(peak)) * GAIN_STEPS < -k:
            peak = np.nextafter(peak, np.float32(0))
        while scene_gain_db(float(np.nextafter(peak, up))) * GAIN_STEPS >= -k:
            peak = np.nextafter(peak, up)
        thresholds[k] = peak
    factors = np.append(10.0 ** (-steps / GAIN_STEPS / 20.0), 0.0).astype(np.float32)
    return torch.from_numpy(thresholds).to(device), torch.from_numpy(factors).to(device)


def _tables(
    make: Callable[..., None], lengths: NDArray[Any], width: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """One table for each distinct length, ``width`` times as long, and where the table of each of ``lengths`` is."""
    distinct, which = np.unique(lengths.astype(np.int64), return_inverse=True)
    ends = np.cumsum(width * distinct)
    starts = ends - width * distinct
    out = np.zeros(max(1, int(ends[-1]) if len(ends) else 0), np.float32)
    make(distinct, starts, out)
    return out, starts[which].reshape(lengths.shape)


def _samples_of(store: ClipStore | None) -> int:
    return 0 if store is None else sum(int(entry["n_samples"]) for entry in store.info["audio"])


def _resident(store: ClipStore, device: torch.device) -> torch.Tensor:
    """All audio of a store on a device, int16, TILE samples longer."""
    total = _samples_of(store)
    audio = torch.zeros(total + TILE, dtype=torch.int16, device=device)
    at = 0
    while at < total:
        part = store.samples(at, 2**24)
        audio[at : at + len(part)] = torch.from_numpy(part.copy()).to(device)
        at += len(part)
    return audio


def _checked_device(device: str | torch.device) -> torch.device:
    from triton import knobs

    device = torch.device(device)
    if device.type == "cpu":
        if not knobs.runtime.interpret:
            raise MixError("device 'cpu' is Mixer's; these kernels run on it only with TRITON_INTERPRET=1, for tests")
        return device
    if device.type != "cuda" or not torch.cuda.is_available():
        raise MixError(f"device {str(device)!r}: torch {torch.__version__} finds no CUDA device; use device: cpu")
    if knobs.runtime.interpret:
        raise MixError(f"device {str(device)!r}: TRITON_INTERPRET is set, which is for tests on the CPU; unset it")
    index = device.index if device.index is not None else torch.cuda.current_device()
    if index >= torch.cuda.device_count():
        raise MixError(f"device {str(device)!r}: there are {torch.cuda.device_count()} CUDA devices")
    return torch.device("cuda", index)
