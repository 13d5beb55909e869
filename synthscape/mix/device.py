"""DeviceMixer: the mixer on a GPU. Audio is made there and stays there.

The arithmetic is that of ``mixer.py``: float32 audio in plan order, float64 powers, one definition of SNR. Kernels are
launched one after the other and nothing waits for their results: gains are computed on the device, and what the host
wants to know - achieved levels, failures - is copied back while the caller goes on, and waited for when it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from synthscape.bank.schema import ALIGN_SAMPLES
from synthscape.bank.store import ClipStore
from synthscape.errors import MixError
from synthscape.mix.batch import SceneBatch
from synthscape.mix.levels import GAIN_STEPS, band_bins, power_db, reference_band, scene_gain_db
from synthscape.plan.plan import AS_RECORDED, DB_STEPS, ScenePlan
from synthscape.spec.schema import Spec
from synthscape.units import seconds_to_samples
from synthscape_kernels import ramps, tiles, triton_launch
from synthscape_kernels import triton_mix as kernels
from synthscape_kernels.filters import FilterBank
from synthscape_kernels.triton_mix import TILE, Events, Layers, Ratios

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
Tensors = dict[str, torch.Tensor]

BANK_LIMIT_BYTES: Final = 16 * 2**30
_INT32_SAMPLES: Final = 2**31 - 8 * TILE  # positions are int32 in the kernels
_LANES: Final = 256
_LOUDEST_DB: Final = 200  # peaks up to here can be scaled to -1 dBFS
_CANCELLED: Final = 1e-12  # power of a sum of layers, against its parts, that is rounding noise


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
        level = np.array([power_db(power) for power in self.measured["background"].tolist()])
        return np.where(self._delivered, level + self.scene_gain_db, np.nan)

    @cached_property
    def gain_db(self) -> Floats:
        """[e] from the clip as stored to the mix, before the scene gain."""
        return self._of_events(20.0, self.measured["gain"], 1.0)

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

    def to_host(self) -> SceneBatch:
        """The same as a :class:`SceneBatch`, in NumPy."""

        def array(tensor: torch.Tensor | None) -> Any:
            return None if tensor is None else tensor.cpu().numpy()

        return SceneBatch(
            plan=self.plan,
            audio=array(self.audio),
            scene_gain_db=self.scene_gain_db,
            level_dbfs=self.level_dbfs,
            gain_db=self.gain_db,
            signal_share=self.signal_share,
            snr_scene_db=self.snr_scene_db,
            snr_local_db=self.snr_local_db,
            snr_band_db=self.snr_band_db,
            stems=array(self.stems),
            background=array(self.background),
            failures=self.failures,
        )

    @property
    def _scene(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self.plan)), np.diff(self.plan.event_offsets))

    @property
    def _delivered(self) -> NDArray[np.bool_]:
        delivered = np.ones(len(self.plan), dtype=bool)
        delivered[list(self.failures or {})] = False
        return delivered

    def _of_events(self, factor: float, value: Floats, against: Floats | float) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self._delivered[self._scene], factor * (np.log10(value) - np.log10(against)), np.nan)


class DeviceMixer:
    """Mixes planned scenes of one spec on a CUDA device.

    >>> batch = DeviceMixer(spec, bank, backgrounds).render(planner.plan(range(64)))      # doctest: +SKIP
    >>> batch.audio.device, batch.audio.shape                                             # doctest: +SKIP
    (device(type='cuda', index=0), torch.Size([64, 160000]))

    The bank, and the backgrounds if there is room for them too, are copied to the device whole where they fit into
    ``bank_limit_bytes``. Otherwise what a batch needs is gathered into one of two reused pinned buffers and copied on a
    side stream, while the batch before it is mixed. A mixer belongs to one thread.

    Args:
        device: ``cuda``, ``cuda:1``, ...; ``cpu`` works under Triton's interpreter only, which is for tests.
        bank_limit_bytes: device memory that stores may take.
        keep_pieces: play a resampled event once and keep its samples until the batch is mixed, instead of filtering it
            both for its power and for the mix: faster, and 4 bytes a sample of each.

    Raises:
        MixError: there is no such device, or no Triton for it.
    """

    def __init__(
        self,
        spec: Spec,
        bank: ClipStore,
        backgrounds: ClipStore,
        device: str | torch.device = "cuda",
        *,
        bank_limit_bytes: int = BANK_LIMIT_BYTES,
        keep_pieces: bool = True,
    ):
        self.device = _checked_device(device)
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
        self._ratios: Tensors = {}
        self._keep_pieces = keep_pieces
        self._columns = Slots(self.device)
        self._clips = Slots(self.device)
        self._layers = Slots(self.device)
        fits = bank_limit_bytes
        self._resident: dict[str, torch.Tensor] = {}
        for name, store in (("bank", bank), ("backgrounds", backgrounds)):
            size = 2 * (_samples_of(store) + TILE)
            if size <= fits:
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
            MixError: a scene or clip is too long for the kernels, or a background has no recorded level though the
                plan asks for it.
        """
        with torch.cuda.device(self.device if self.device.type == "cuda" else -1):  # -1: none
            return self._render(plan, stems, pcm)

    def _render(self, plan: ScenePlan, stems: bool, pcm: bool) -> DeviceBatch:
        s, e = len(plan), plan.n_events
        n_tiles = max(1, -(-int(plan.n_samples.max(initial=0)) // TILE))
        filters = self._filters_for(plan)
        layers = self._layer_columns(plan)
        events = self._event_columns(plan)
        bands = self._bands(plan)
        self._check_lengths(plan)
        lists = self._lists(plan, layers, events, n_tiles)
        host = {
            **{f"layer_{name}": value for name, value in layers.items()},
            **{f"event_{name}": value for name, value in events.items()},
            **lists,
            "n_samples": plan.n_samples.astype(np.int32),
            "event_offsets": plan.event_offsets.astype(np.int32),
        }
        audio_bank = self._gathered(plan, host, filters)
        device = self._columns.send_arrays(host)
        ratios = Ratios(*(self._ratios[name] for name in Ratios._fields))
        new = self._new
        filtered = not self._keep_pieces and bool((events["ratio_p"] != events["ratio_q"]).any())

        # Backgrounds: powers of the layers, then gains.
        loops = new(max(int(lists["loop_offsets"][-1]), 1) * TILE, torch.float32)
        layer_table = Layers(
            pcm=audio_bank["backgrounds"],
            pieces=loops,
            **{name: device[f"layer_{name}"] for name in Layers._fields if name not in ("pcm", "pieces")},
        )
        triton_launch.launch(
            kernels.play_layers, len(lists["loop_layer"]), layer_table._replace(pieces=layer_table.ramps), ratios,
            device["n_samples"], device["loop_layer"], device["loop_first"], loops, TILE=TILE, RESAMPLED=True,
        )  # fmt: skip
        sums = torch.zeros((3, s * n_tiles), dtype=torch.float64, device=self.device)
        triton_launch.launch(
            kernels.layer_power, s * n_tiles, layer_table, device["n_samples"], n_tiles, sums, TILE=TILE
        )
        layer_power, layer_gain, level_gain, background_power, background_ok = self._background_gains(
            self._totals(sums, device["scene_tiles"]), device
        )

        # Resampled events are played once; others are as cheap to play again as to read back.
        event_table = Events(
            pcm=audio_bank["bank"],
            pieces=new(max(int(lists["piece_offsets"][-1]), 1) * TILE, torch.float32),
            **{name: device[f"event_{name}"] for name in Events._fields if name not in ("pcm", "pieces")},
        )
        triton_launch.launch(
            kernels.play_events, len(lists["piece_event"]), event_table, ratios, device["piece_event"],
            device["piece_first"], event_table.pieces, TILE=TILE, RESAMPLED=True,
        )  # fmt: skip

        # Energies of events and of what is behind them, then gains.
        n_spans = len(lists["span_event"])
        span_sums = new((2, max(n_spans, 1)), torch.float64)
        spans = new((2, max(n_spans, 1) * TILE), torch.float32)
        triton_launch.launch(
            kernels.power, n_spans, event_table, layer_table, ratios, layer_gain, level_gain, device["n_samples"],
            device["span_event"], device["span_first"], span_sums, spans,
            TILE=TILE, RESAMPLED=filtered,
        )  # fmt: skip
        energy = self._totals(span_sums, device["span_offsets"])
        band = torch.full((2, e), math.nan, dtype=torch.float64, device=self.device)
        band_energies(spans, lists["span_offsets"][:-1].astype(np.int64) * TILE, *bands, out=band)
        gain, pooled, events_ok = self._event_gains(energy, band, background_power, device)

        # The mix, its peaks, the scene gain.
        row = n_tiles * TILE
        audio = new((s, row), torch.float32)
        peak = new((s, n_tiles), torch.float32)
        visited = new((s, n_tiles), torch.int32)
        arguments = (event_table, layer_table, ratios, layer_gain, level_gain, gain, device["n_samples"], n_tiles)
        triton_launch.launch(
            kernels.mix, s * n_tiles, *arguments, device["tile_offsets"], device["tile_events"], audio, peak, visited,
            TILE=TILE, RESAMPLED=filtered,
        )  # fmt: skip
        background_audio = stem_audio = None
        n = int(plan.n_samples.max(initial=0))
        if stems:
            background_audio = new((s, row), torch.float32)
            triton_launch.launch(
                kernels.mix, s * n_tiles, *arguments, torch.zeros_like(device["tile_offsets"]), device["tile_events"],
                background_audio, torch.empty_like(peak), torch.empty_like(visited), TILE=TILE, RESAMPLED=False,
            )  # fmt: skip
            stem_audio = new((e, row), torch.float32)
            triton_launch.launch(
                kernels.stems,
                e * n_tiles,
                event_table,
                ratios,
                gain,
                n_tiles,
                stem_audio,
                TILE=TILE,
                RESAMPLED=filtered,
            )
        most = peak.amax(dim=1)
        thresholds, factors = _gain_table(self.device)
        steps = torch.searchsorted(thresholds, most)
        deliver = (background_ok & events_ok & (steps < len(factors) - 1)).to(torch.int32)
        pcm_audio = new((s, row), torch.int16) if pcm else None
        triton_launch.launch(
            kernels.finish, s * n_tiles, audio, factors[steps], deliver, n_tiles, pcm_audio if pcm else audio,
            TILE=TILE, PCM=pcm,
        )  # fmt: skip
        if background_audio is not None and stem_audio is not None:
            background_audio *= deliver[:, None]
            stem_audio *= deliver[device["event_scene"].long()][:, None]
        for slots in (self._columns, self._clips, self._layers):
            slots.used()
        return DeviceBatch(
            plan=plan,
            audio=audio[:, :n],
            pcm=pcm_audio[:, :n] if pcm_audio is not None else None,
            stems=stem_audio[:, :n] if stem_audio is not None else None,
            background=background_audio[:, :n] if background_audio is not None else None,
            visited=visited,
            signal_share=self._share[plan.clip],
            _measure=_later(
                {
                    "peak": most, "background": background_power, "layer": layer_power, "gain": gain,
                    "event": energy[0], "local": energy[1], "event_band": band[0], "background_band": band[1],
                    "pooled": pooled,
                }
            ),
            _name_failures=lambda measured: self._failures(plan, layers, events, measured),
        )  # fmt: skip

    # Columns, on the host.

    def _event_columns(self, plan: ScenePlan) -> Arrays:
        scene = np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))
        lengths = self._bank.lengths[plan.clip]
        fades, starts = _tables(ramps.fade_tables, np.stack([plan.fade_in, plan.fade_out]), 1)
        group_of = scene * 2**32 + (plan.gain_group.astype(np.int64) - np.iinfo(np.int32).min)
        _, first, group, members = np.unique(group_of, return_index=True, return_inverse=True, return_counts=True)
        return {
            "scene": scene.astype(np.int32),
            "begin": np.maximum(plan.clip_onset, 0).astype(np.int32),
            "end": np.minimum(plan.clip_offset, plan.n_samples[scene]).astype(np.int32),
            **{name: getattr(plan, name).astype(np.int32) for name in ("clip_onset", "clip_offset", "onset", "offset")},
            "clip_start": self._bank.starts[plan.clip],
            "clip_length": lengths.astype(np.int32),
            "ratio": plan.ratio,
            "ratio_p": plan.ratio_p[plan.ratio],
            "ratio_q": plan.ratio_q[plan.ratio],
            "backwards": plan.reversed.astype(np.int32),
            "fade_in": plan.fade_in,
            "fade_out": plan.fade_out,
            "rise": starts[0],
            "fall": starts[1],
            "fades": fades,
            "share": self._share[plan.clip],
            "group": group.astype(np.int64),
            "group_offsets": np.append(0, np.cumsum(members)).astype(np.int32),
            "group_members": np.argsort(group, kind="stable"),
            "snr_gain": 10.0 ** (plan.snr_db[first] / DB_STEPS / 20.0),
        }

    def _layer_columns(self, plan: ScenePlan) -> Arrays:
        row, ratio = plan.background, plan.background_ratio
        there = row >= 0
        p, q = plan.ratio_p[ratio].astype(np.int64), plan.ratio_q[ratio].astype(np.int64)
        lengths = np.where(there, self._backgrounds.lengths[np.maximum(row, 0)], 0)
        played = -(-lengths * p // q)
        looped = there & (played < plan.n_samples[:, None])
        crossfade = np.where(looped, np.minimum(self._crossfade_samples, played // 4), 0)
        ramp, starts = _tables(ramps.crossfade_tables, crossfade, 2)
        as_recorded = plan.level_dbfs == AS_RECORDED
        recorded = np.where(there, self._background_peak[np.maximum(row, 0)] * 32768.0 / 32767.0, 1.0)
        unknown = as_recorded[:, None] & ~(recorded > 0)
        if unknown.any():
            raise MixError(
                f"background {row[unknown][0]} of {self._backgrounds.path} has no `peak`, so its recorded level is not "
                "known; set background.level_dbfs"
            )
        second = 10.0 ** (plan.background_mix_db / DB_STEPS / 20.0)
        with np.errstate(over="ignore"):
            level = np.where(as_recorded, 1.0, 10.0 ** (plan.level_dbfs / DB_STEPS / 20.0))
        return {
            "start": np.where(there, self._backgrounds.starts[np.maximum(row, 0)], 0),
            "length": lengths.astype(np.int32),
            "ratio": ratio,
            "offset": plan.background_offset.astype(np.int32),
            "played": played.astype(np.int32),
            "crossfade": crossfade.astype(np.int32),
            "ramp": starts,
            "ramps": ramp,
            "looped": looped,
            "copied": there & (p == q) & ~looped,
            "loop_end": np.where(there & ((p != q) | looped), plan.n_samples[:, None], 0).astype(np.int32),
            "gain": np.where(as_recorded[:, None], recorded, np.stack([np.ones(len(plan)), second], axis=1)),
            "normalise": ~as_recorded,
            "level": level,
        }

    def _lists(self, plan: ScenePlan, layers: Arrays, events: Arrays, n_tiles: int) -> Arrays:
        """What each program of each kernel works on; also the columns ``piece`` of layers and events."""
        tile_offsets, tile_events = tiles.tile_lists(plan.event_offsets, events["begin"], events["end"], n_tiles, TILE)
        kept = (events["ratio_p"] != events["ratio_q"]) & self._keep_pieces
        piece_offsets, piece_event, piece_first = tiles.chunk_lists(
            events["begin"], np.where(kept, events["end"], events["begin"]), TILE
        )
        events["piece"] = np.where(kept, piece_offsets[:-1].astype(np.int64) * TILE, -1)
        loop_end = layers["loop_end"].ravel()
        loop_offsets, loop_layer, loop_first = tiles.chunk_lists(np.zeros_like(loop_end), loop_end, TILE)
        layers["piece"] = np.where(loop_end > 0, loop_offsets[:-1].astype(np.int64) * TILE, -1)
        span_offsets, span_event, span_first = tiles.chunk_lists(events["onset"], events["offset"], TILE)
        return {
            "tile_offsets": tile_offsets, "tile_events": tile_events,
            "piece_offsets": piece_offsets, "piece_event": piece_event, "piece_first": piece_first,
            "loop_offsets": loop_offsets, "loop_layer": loop_layer, "loop_first": loop_first,
            "span_offsets": span_offsets, "span_event": span_event, "span_first": span_first,
            "scene_tiles": np.arange(len(plan) + 1, dtype=np.int32) * n_tiles,
        }  # fmt: skip

    def _bands(self, plan: ScenePlan) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Length of every event's transform, its first and last bin; first -1: the clip has no band."""
        n = plan.offset - plan.onset
        first, last = np.full(len(n), -1, np.int64), np.full(len(n), -1, np.int64)
        for e in range(len(n)):
            low_hz, high_hz = self._low_hz[plan.clip[e]], self._high_hz[plan.clip[e]]
            if not math.isnan(low_hz):
                r = plan.ratio[e]
                band = reference_band(low_hz, high_hz, int(plan.ratio_p[r]), int(plan.ratio_q[r]), plan.sample_rate / 2)
                first[e], last[e] = band_bins(int(n[e]), plan.sample_rate, *band)
        return n, first, last

    def _check_lengths(self, plan: ScenePlan) -> None:
        rows = plan.background.clip(0)
        played = self._backgrounds.lengths[rows] * plan.ratio_p[plan.background_ratio].astype(np.int64)
        longest = max(
            int(plan.n_samples.max(initial=0)),
            int((plan.background_offset + plan.n_samples[:, None]).max(initial=0)),
            int((played // plan.ratio_q[plan.background_ratio]).max(initial=0)),
            int(self._backgrounds.lengths[rows].max(initial=0)),
            int((plan.clip_offset - plan.clip_onset).max(initial=0)),
            int(self._bank.lengths[plan.clip].max(initial=0)),
        )
        if longest > _INT32_SAMPLES:
            raise MixError(
                f"a scene, a clip or a background of {longest} samples is too long for the device's kernels, which "
                f"take {_INT32_SAMPLES}; use device: cpu"
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
            host["event_clip_start"] = starts[inverse]
        if "backgrounds" not in audio:
            there = np.argwhere(host["layer_length"] > 0).tolist()
            windows = [self._window(plan, host, filters, scene, which) for scene, which in there]
            rows = [int(plan.background[scene, which]) for scene, which in there]
            starts, audio["backgrounds"] = self._layers.send_samples(
                [self._backgrounds.pcm(row)[first:last] for row, (first, last) in zip(rows, windows, strict=True)]
            )
            for (scene, which), start, (first, _) in zip(there, starts.tolist(), windows, strict=True):
                host["layer_start"][scene, which] = start - first  # where sample 0 would be
        host["layer_aligned"] = (
            host["layer_copied"] & ((host["layer_start"] + host["layer_offset"]) % ALIGN_SAMPLES == 0)
        ).astype(np.int32)
        return audio

    def _window(self, plan: ScenePlan, host: Arrays, filters: FilterBank, scene: int, which: int) -> tuple[int, int]:
        """Which stored samples [first, last) of a background its scene is played from."""
        length = int(host["layer_length"][scene, which])
        if host["layer_looped"][scene, which]:
            return 0, length
        r = int(plan.background_ratio[scene, which])
        p, q = int(plan.ratio_p[r]), int(plan.ratio_q[r])
        half = int(filters.half[r]) if p != q else 0
        offset = int(plan.background_offset[scene, which])
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
        level = torch.where(normalise, torch.where(heard, device["layer_level"] / mixed.sqrt(), 0.0), 1.0).float()
        ok = heard & (~there | (power > 0)).all(dim=1)
        return power, gain, level, torch.where(ok, level.double().square() * mixed, 0.0), ok

    def _event_gains(
        self, energy: torch.Tensor, band: torch.Tensor, background_power: torch.Tensor, device: Tensors
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Gains [e] float64 -> float32, pooled signal and noise [2, groups], and which scenes are sound [s]."""
        signal, noise = energy[0], energy[1]
        if self._reference == "band":
            signal, noise = band[0], band[1]
        elif self._reference == "scene":
            samples = (device["event_offset"] - device["event_onset"]).double()
            noise = background_power[device["event_scene"].long()] * samples
        both = torch.stack([device["event_share"] * signal, noise])
        pooled = self._totals(both[:, device["event_group_members"]], device["event_group_offsets"])
        sound = (pooled[0] > 0) & (pooled[1] > 0)
        of_group = torch.where(sound, device["event_snr_gain"] * (pooled[1] / pooled[0]).sqrt(), 0.0)
        group = device["event_group"]
        wrong = (~sound[group] | ~(energy[0] > 0)).double()
        ok = self._totals(wrong[None], device["event_offsets"])[0] == 0
        return of_group[group].float(), pooled, ok

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

    def _failures(self, plan: ScenePlan, layers: Arrays, events: Arrays, measured: dict[str, Floats]) -> dict[int, str]:
        failures: dict[int, str] = {}
        loudest = 10.0 ** (_LOUDEST_DB / 20.0)
        for i in range(len(plan)):
            problem = self._background_problem(plan, i, layers, measured) or self._event_problem(
                plan, i, events, measured
            )
            if problem is None and not measured["peak"][i] < loudest:
                problem = f"the mix peaks at {measured['peak'][i]:g} of full scale; ask for a lower SNR"
            if problem is not None:
                failures[i] = problem if problem.startswith("scene") else f"scene {int(plan.scene[i])}: {problem}"
        return failures

    def _background_problem(self, plan: ScenePlan, i: int, layers: Arrays, measured: dict[str, Floats]) -> str | None:
        for which in range(2):
            if layers["length"][i, which] > 0 and not measured["layer"][i, which] > 0:
                return (
                    f"background {int(plan.background[i, which])} of {self._backgrounds.path} is silent where it is "
                    "used; exclude it, or cut the silence from it"
                )
        if not measured["background"][i] > 0:
            rows = " and ".join(f"background {int(row)}" for row in plan.background[i] if row >= 0)
            return f"{rows or 'no background'} of {self._backgrounds.path} cancel each other; ask for longer scenes"
        return None

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


def band_energies(
    spans: torch.Tensor,
    start: NDArray[np.int64],
    n: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    *,
    out: torch.Tensor,
) -> None:
    """Energies of pairs of signals in their bands: ``levels.band_energies`` for many ragged pairs, on a device.

    Args:
        spans: float32 [2, samples]: signal i of each of the two is ``spans[:, start[i]:start[i] + n[i]]``.
        first, last: bins of the transform of n[i] samples, int64; first < 0: no band, ``out`` is left alone.
        out: float64 [2, signals].

    The transform of length n, whatever n is, as a convolution with a chirp (Bluestein 1970), in float64: with
    w[m] = exp(-i pi m**2 / n), Z[k] = w[k] sum_m z[m] w[m] conj w[k - m]. Chirps come from m**2 mod 2 n in integers, so
    they are exact for any length. Only bins up to ``last`` are wanted, on both sides, so n + 2 ``last`` points do.
    These are rounded up to a few common sizes, and each size is transformed in batches of one fixed number of rows: an
    event's result doesn't depend on what else is in the batch.
    """
    size = _transform_sizes(n + 2 * np.maximum(last, 0))
    for points in np.unique(size[first >= 0]).tolist():
        of_size = np.flatnonzero((size == points) & (first >= 0))
        rows = _rows_of(points)
        for begin in range(0, len(of_size), rows):
            some = of_size[begin : begin + rows]
            table = np.zeros((4, rows), np.int64)
            table[1:, :] = [[1], [0], [0]]
            table[:, : len(some)] = start[some], n[some], first[some], last[some]
            energy = _bluestein(spans, torch.from_numpy(table).to(spans.device), points, len(some))
            where = torch.from_numpy(some).to(spans.device)
            out[:, where] = energy


def _transform_sizes(points: NDArray[np.int64]) -> NDArray[np.int64]:
    """The next of 4, 5, 6, 7 times a power of two, at least 64."""
    points = np.maximum(points, 64)
    power = 2 ** np.maximum(np.ceil(np.log2(points)).astype(np.int64) - 3, 0)
    power = np.where(8 * power < points, 2 * power, power)
    return np.asarray(power * np.maximum(-(-points // power), 4))


def _rows_of(points: int) -> int:
    return max(1, min(128, 2**22 // points))


def _bluestein(spans: torch.Tensor, table: torch.Tensor, points: int, rows: int) -> torch.Tensor:
    """Band energies [2, rows] of the first rows (start, n, first, last) of ``table``, int64 [4, some fixed number]."""
    start, n, _, last = table[:, :, None]
    m = torch.arange(points, device=spans.device)[None]
    angle = (m * m % (2 * n)).double() * (-math.pi / n.double())
    chirp = torch.polar(torch.ones_like(angle), angle)
    at = (start + m).clamp_max(spans.shape[1] - 1)
    inside = m < n
    z = torch.where(inside, torch.complex(spans[0][at].double(), spans[1][at].double()) * chirp, 0.0)
    lag = torch.where(m <= last, m, points - m)
    kernel = torch.fft.fft(chirp.gather(1, lag).conj())
    z = torch.fft.ifft(torch.fft.fft(z).mul_(kernel))
    energy = torch.empty((2, rows), dtype=torch.float64, device=spans.device)
    of_rows = table.to(torch.int32)
    triton_launch.launch(
        kernels.band_sums, rows, torch.view_as_real(z), torch.view_as_real(chirp), of_rows[1], of_rows[2], of_rows[3],
        points, energy, LANES=_LANES,
    )  # fmt: skip
    return energy.div_(n[:rows, 0].double())


class Slots:
    """Two reused buffers in pinned memory, with their copies on a device, filled in turn.

    A copy runs on a side stream. The next kernels on the current stream wait for it; the host fills a buffer again only
    when its copy is through, and a copy overwrites a device buffer only when the kernels that read it are (``used``).
    On a CPU the buffer is the copy.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._cuda = device.type == "cuda"
        self._turn = 0
        self._host: list[torch.Tensor | None] = [None, None]
        self._there: list[torch.Tensor | None] = [None, None]
        self._sent = False
        if self._cuda:
            cuda: Any = torch.cuda
            self._side = cuda.Stream(device)
            self._copied, self._read = [cuda.Event(), cuda.Event()], [cuda.Event(), cuda.Event()]

    def send(self, size: int, fill: Callable[[NDArray[np.uint8]], None]) -> torch.Tensor:
        """Let ``fill`` write ``size`` bytes, and give them on the device, uint8."""
        if not self._cuda:
            buffer = torch.zeros(size, dtype=torch.uint8)
            fill(buffer.numpy())
            return buffer
        turn = self._turn
        main = torch.cuda.current_stream(self._device)
        self._copied[turn].synchronize()
        host, there = self._host[turn], self._there[turn]
        if host is None or there is None or len(host) < size:
            room = size + size // 4
            host = self._host[turn] = torch.empty(room, dtype=torch.uint8, pin_memory=True)
            there = self._there[turn] = torch.empty(room, dtype=torch.uint8, device=self._device)
            there.record_stream(self._side)
            self._side.wait_stream(main)  # its memory may just have been freed by what still runs there
        fill(host[:size].numpy())
        self._side.wait_event(self._read[turn])
        with torch.cuda.stream(self._side):
            there[:size].copy_(host[:size], non_blocking=True)
            self._copied[turn].record(self._side)
        main.wait_event(self._copied[turn])
        self._sent = True
        return there[:size]

    def send_arrays(self, arrays: Arrays) -> Tensors:
        """Arrays as tensors on the device, in one copy; each begins on a multiple of 16 bytes."""
        begins, at = {}, 0
        for name, array in arrays.items():
            begins[name] = at
            at += -(-max(array.nbytes, 1) // 16) * 16

        def fill(buffer: NDArray[np.uint8]) -> None:
            for name, array in arrays.items():
                begin = begins[name]
                buffer[begin : begin + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

        sent = self.send(at, fill)
        tensors = {}
        for name, array in arrays.items():
            raw = sent[begins[name] : begins[name] + array.nbytes]
            tensors[name] = raw.view(torch.from_numpy(array[:0].copy()).dtype)
        return tensors

    def send_samples(self, clips: Sequence[NDArray[np.int16]]) -> tuple[NDArray[np.int64], torch.Tensor]:
        """Pack clips, each on a multiple of 8 samples, with TILE samples behind the last: their starts, and int16."""
        lengths = np.array([len(clip) for clip in clips], np.int64)
        padded = -(-lengths // ALIGN_SAMPLES) * ALIGN_SAMPLES
        starts = np.cumsum(padded) - padded

        def fill(buffer: NDArray[np.uint8]) -> None:
            samples = buffer.view(np.int16)
            for clip, start in zip(clips, starts.tolist(), strict=True):
                samples[start : start + len(clip)] = clip

        return starts, self.send(2 * (int(padded.sum()) + TILE), fill).view(torch.int16)

    def used(self) -> None:
        """What reads the last buffer is queued on the current stream; the other one is next."""
        if self._sent:
            self._read[self._turn].record(torch.cuda.current_stream(self._device))
            self._turn = 1 - self._turn
            self._sent = False


def _later(tensors: Tensors) -> Callable[[], dict[str, Floats]]:
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


def _samples_of(store: ClipStore) -> int:
    return sum(int(entry["n_samples"]) for entry in store.info["audio"])


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
