"""Events and scenes tables of a batch, built at once as Arrow columns.

What a column means stands in :mod:`synthscape.labels.schema`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import SynthscapeError
from synthscape.labels.batches import labelled_batch, labelled_plan
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA
from synthscape.mix.asked import bare
from synthscape.mix.batch import SceneBatch
from synthscape.plan.plan import (
    DB_STEPS,
    DROP_REASONS,
    EPOCH,
    NO_BACKGROUND,
    NO_LEVEL,
    NO_SPEAKER,
    NOISE,
    PROCEDURAL_TAIL,
    ROLES,
    ScenePlan,
)
from synthscape.units import seconds_to_samples

AUDIBLE_S: Final = 0.02  # what is shorter is not audible, however loud
UNKNOWN: Final = "unknown"  # species without a name in `speaker`, licence that is not given

_OF_CLIPS: Final = (
    "clip_id",
    "recording_id",
    "track_id",
    "licence",
    "species",
    "genus",
    "family",
    "call_type",
    "individual",
    "unit",
    "low_hz",
    "high_hz",
    "peak_hz",
    "f0_hz",
    "clip_snr_db",
)
_OF_BACKGROUNDS: Final = ("clip_id", "recording_id", "site", "licence", "animal_score")
_OF_IMPULSES: Final = ("clip_id", "licence")


class Catalogue:
    """What labels say of clips, backgrounds, impulse responses, rooms and classes: the columns they need, read once.

    Texts are kept dictionary-encoded, so that millions of clips of a thousand species cost a few bytes each.
    """

    def __init__(
        self,
        bank: ClipStore,
        backgrounds: ClipStore | None,
        class_names: Sequence[str],
        *,
        impulses: ClipStore | None = None,
        room_names: Sequence[str] = (),
        cluster_column: str = "cluster",
        audible_db: float = 0.0,
        fingerprint: str = "",
    ):
        self.clips = {name: _column(bank, name) for name in _OF_CLIPS}
        self.clips["cluster"] = _column(bank, cluster_column)
        self.backgrounds = {name: _column(backgrounds, name) for name in _OF_BACKGROUNDS}
        self.background_lengths = np.zeros(0, np.int64) if backgrounds is None else backgrounds.lengths
        self.impulses = {name: _column(impulses, name) for name in _OF_IMPULSES}
        self.room_names: pa.Array = pa.array(list(room_names), pa.string())
        self.class_names: pa.Array = pa.array(list(class_names), pa.string())
        self.audible_db = audible_db
        self.fingerprint = fingerprint


def scene_id(number: int) -> str:
    """Name of a scene.

    >>> scene_id(42), scene_id(2**40 + 42)
    ('s000000042', 'e1-s000000042')
    """
    epoch, index = divmod(number, EPOCH)
    return f"e{epoch}-s{index:09d}" if epoch else f"s{index:09d}"


def scene_ids(plan: ScenePlan) -> list[str]:
    """Names of all scenes of a plan, in its order."""
    return [scene_id(number) for number in plan.scene.tolist()]


def audible(batch: SceneBatch, audible_db: float) -> pa.Array:
    """Whether each event is heard, bool [e]: by its band SNR, over 20 ms or more; null where that is not measured.

    Nothing masks what has no background: there, long enough is audible.
    """
    plan = batch.plan
    long_enough = plan.offset - plan.onset >= seconds_to_samples(AUDIBLE_S, plan.sample_rate)
    alone = pa.array(bare(plan)[scene_of_event(plan)])
    snr_band_db = _measured(batch.snr_band_db.astype(np.float32))
    return pc.and_(pc.or_kleene(alone, pc.greater_equal(snr_band_db, audible_db)), pa.array(long_enough))


def event_table(batch: SceneBatch, catalogue: Catalogue, names: Sequence[str] | None = None) -> pa.Table:
    """One row per event but patches, of all scenes of the batch in its order; columns of ``EVENTS_SCHEMA``.

    Args:
        batch: the scenes; its audio is not looked at.
        catalogue: what is known of clips and backgrounds.
        names: one a scene, in place of :func:`scene_id`.

    Raises:
        SynthscapeError: there are more or fewer names than scenes.
    """
    batch = labelled_batch(replace(batch, background=None, stems=None))
    plan = batch.plan
    rate = plan.sample_rate
    scene = scene_of_event(plan)
    p, q = plan.ratio_p[plan.ratio].astype(np.int64), plan.ratio_q[plan.ratio].astype(np.int64)
    rows = pa.array(plan.clip)
    clips = {name: column.take(rows) for name, column in catalogue.clips.items()}
    nyquist = rate / 2
    made_up = plan.impulse != PROCEDURAL_TAIL
    columns: dict[str, Any] = {
        "scene_id": pa.array(_one_a_scene(plan, "names", names), pa.string()).take(pa.array(scene)),
        "event_id": np.arange(plan.n_events) - plan.event_offsets[scene],
        "onset": plan.onset,
        "offset": plan.offset,
        "onset_s": plan.onset / rate,
        "offset_s": plan.offset / rate,
        "clip_onset": plan.clip_onset,
        "clip_offset": plan.clip_offset,
        "low_hz": pc.min_element_wise(_as_played(clips["low_hz"], p, q), nyquist, skip_nulls=False),
        "high_hz": pc.min_element_wise(_as_played(clips["high_hz"], p, q), nyquist, skip_nulls=False),
        "peak_hz": _null_beyond(_as_played(clips["peak_hz"], p, q), nyquist),
        "f0_hz": _null_beyond(_as_played(clips["f0_hz"], p, q), nyquist),
        "speaker": _speakers(plan, scene, clips["species"]),
        "role": pa.array(ROLES).take(pa.array(plan.role)),
        "snr_db": _planned(plan.snr_db),
        "snr_scene_db": _measured(batch.snr_scene_db),
        "snr_local_db": _measured(batch.snr_local_db),
        "snr_band_db": _measured(batch.snr_band_db),
        "snr_loudness_db": _measured(batch.snr_loudness_db),
        "source_level_db": _planned(plan.source_level_db),
        "distance_m": pa.array(plan.distance_mm / 1000, mask=plan.distance_mm == 0),
        "gain_db": batch.gain_db,
        "signal_share": batch.signal_share,
        "audible": audible(batch, catalogue.audible_db),
        "resample": _ratio_names(plan, plan.ratio),
        "reversed": plan.reversed,
        "altered": plan.altered,
        "truncated": plan.truncated,
        "impulse_id": catalogue.impulses["clip_id"].take(_rows(plan.impulse)).cast(pa.string()),
        "rt60_s": pa.array(plan.rt60_ms / 1000, mask=made_up),
        "direct_to_reverberant_db": pa.array(plan.drr_db / DB_STEPS, mask=made_up),
        "tail_s": batch.tail_samples / rate,
        "class": catalogue.class_names.take(pa.array(plan.class_id)),
    }
    return _table(EVENTS_SCHEMA, {**clips, **columns})


def scene_table(
    batch: SceneBatch,
    catalogue: Catalogue,
    pcm_hashes: Sequence[str],
    audio_paths: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    item_ids: Sequence[str | None] | None = None,
    parts: Sequence[str | None] | None = None,
) -> pa.Table:
    """One row per scene, those without events too; columns of ``SCENES_SCHEMA``.

    Args:
        batch: the scenes; its audio is not looked at.
        catalogue: what is known of clips and backgrounds.
        pcm_hashes: one a scene, see :func:`synthscape.labels.pcm.pcm_hash`.
        audio_paths: one a scene, from the dataset's folder; None if nothing was written.
        names: one a scene, in place of :func:`scene_id`.
        item_ids: the item each scene is a part of; None where the item is the scene itself.
        parts: what each scene is in its item (``query``, ``a1``, ...).

    Raises:
        SynthscapeError: there are more or fewer names, items or parts than scenes.
    """
    plan = batch.plan
    n = len(plan)
    scene = scene_of_event(plan)
    labels = labelled_plan(plan)
    n_events = np.diff(labels.event_offsets)
    in_room = np.bincount(scene[plan.impulse >= 0], minlength=n) > 0  # where all is dry, nothing is heard of a room
    species = catalogue.clips["species"].take(pa.array(labels.clip))
    drops = [pa.array(plan.drops[:, i], pa.int32()) for i in range(len(DROP_REASONS))]
    columns: dict[str, Any] = {
        "scene_id": _one_a_scene(plan, "names", names),
        "item_id": pa.array([None] * n if item_ids is None else _one_a_scene(plan, "item_ids", item_ids), pa.string()),
        "part": pa.array([None] * n if parts is None else _one_a_scene(plan, "parts", parts), pa.string()),
        "scene_number": plan.scene,
        "duration_s": plan.n_samples / plan.sample_rate,
        "n_samples": plan.n_samples,
        "sample_rate": np.full(n, plan.sample_rate),
        "month": pa.array(plan.month, mask=plan.month < 0),
        "hour": pa.array(plan.hour, mask=plan.hour < 0),
        "n_asked": plan.n_asked,
        "n_placed": plan.n_placed,
        "n_outside": plan.n_outside,
        "drop_reasons": pa.StructArray.from_arrays(drops, fields=list(SCENES_SCHEMA.field("drop_reasons").type)),
        "n_redrawn": plan.n_redrawn,
        "n_ratios_refused": plan.n_ratios_refused,
        "n_events": n_events,
        "n_patches": np.diff(plan.event_offsets) - n_events,
        "n_species": _distinct(scene_of_event(labels), species, n),
        "max_polyphony": max_polyphony(labels),
        **_background_columns(plan, catalogue),
        "licences": _licences(plan, catalogue),
        "level_dbfs": _measured(np.asarray(batch.level_dbfs)),
        "level_lufs": _measured(batch.level_lufs),
        "background_spl_db": _planned(plan.background_spl_db),
        "room": catalogue.room_names.take(_rows(np.where(in_room, plan.room, -1))),
        "scene_gain_db": batch.scene_gain_db,
        "split": pa.nulls(n, pa.string()),
        "fingerprint": [catalogue.fingerprint] * n,
        "audio": pa.nulls(n, pa.string()) if audio_paths is None else list(audio_paths),
        "pcm_hash": list(pcm_hashes),
    }
    return _table(SCENES_SCHEMA, columns)


def _one_a_scene(plan: ScenePlan, what: str, given: Sequence[Any] | None) -> list[Any]:
    if given is None:
        return scene_ids(plan)
    if len(given) != len(plan):
        raise SynthscapeError(f"{what}: expected one for each of {len(plan)} scenes, got {len(given)}")
    return list(given)


def scene_of_event(plan: ScenePlan) -> NDArray[np.int64]:
    """Position in the plan of each event's scene, int64 [e]."""
    return np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))


def max_polyphony(plan: ScenePlan) -> NDArray[np.int64]:
    """Most events active in one sample of each scene, int64 [s]; active parts are half-open."""
    scene = np.tile(scene_of_event(plan), 2)
    time = np.concatenate([plan.onset, plan.offset])
    step = np.repeat([1, -1], plan.n_events)
    # at equal times ends come before starts: what touches does not overlap
    order = np.lexsort((step, time, scene))
    # every scene's steps sum to zero, so the running sum starts each scene at zero
    active = np.cumsum(step[order])
    highest = np.zeros(len(plan), dtype=np.int64)
    np.maximum.at(highest, scene[order], active)
    return highest


def _table(schema: pa.Schema, columns: dict[str, Any]) -> pa.Table:
    arrays = []
    for field in schema:
        column = columns[field.name]
        array = column if isinstance(column, pa.Array) else pa.array(column)
        arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(store: ClipStore | None, name: str) -> pa.Array:
    kind = pa.float64() if name.endswith(("_hz", "_db", "_score")) else pa.string()
    if store is None:
        return pa.nulls(0, kind)
    if not store.has(name):
        return pa.nulls(len(store), kind)
    column = store.columns([name])[name].combine_chunks().cast(kind)
    return column.dictionary_encode() if kind == pa.string() else column


def _measured(values: NDArray[np.floating[Any]]) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def _planned(steps: NDArray[np.int32]) -> pa.Array:
    return pa.array(steps / DB_STEPS, mask=steps == NO_LEVEL)


def _rows(rows: NDArray[np.integer[Any]]) -> pa.Array:
    return pa.array(rows, mask=rows < 0)


def _as_played(hz: pa.Array, p: NDArray[np.int64], q: NDArray[np.int64]) -> pa.Array:
    return pc.divide(pc.multiply(hz, pa.array(q, pa.float64())), pa.array(p, pa.float64()))


def _null_beyond(hz: pa.Array, nyquist: float) -> pa.Array:
    return pc.if_else(pc.less_equal(hz, nyquist), hz, None)


def _ratio_names(plan: ScenePlan, ratio: NDArray[np.int16]) -> pa.Array:
    used, position = np.unique(ratio, return_inverse=True)
    names = [f"{p}/{q}" for p, q in zip(plan.ratio_p[used].tolist(), plan.ratio_q[used].tolist(), strict=True)]
    return pa.array(names, pa.string()).take(pa.array(position))


def _codes(texts: pa.Array) -> tuple[NDArray[np.int64], list[str]]:
    """Numbers for texts (-1 for null), and the texts they stand for, sorted."""
    encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    names: list[str] = encoded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names) + 1, dtype=np.int64)
    rank[order] = np.arange(len(names))
    rank[-1] = -1
    codes = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
    return rank[codes], [names[i] for i in order]


def _distinct(scene: NDArray[np.int64], texts: pa.Array, n_scenes: int) -> NDArray[np.int64]:
    codes, names = _codes(texts)
    pairs = np.unique(scene[codes >= 0] * len(names) + codes[codes >= 0])
    return np.bincount(pairs // max(len(names), 1), minlength=n_scenes)


def _speakers(plan: ScenePlan, scene: NDArray[np.int64], species: pa.Array) -> pa.Array:
    told_apart = np.flatnonzero(plan.speaker != NO_SPEAKER)
    codes, names = _codes(species)
    codes = np.where(codes < 0, len(names), codes)  # callers without a species are counted together
    scene, speaker, codes = scene[told_apart], plan.speaker[told_apart].astype(np.int64), codes[told_apart]
    _, first, caller = np.unique(np.stack([scene, speaker]), axis=1, return_index=True, return_inverse=True)
    # Events are sorted by onset, so callers sorted by their first event are sorted by first onset; numbering restarts
    # with each (scene, species).
    order = np.lexsort((first, codes[first], scene[first]))
    group = (scene[first] * (len(names) + 1) + codes[first])[order]
    _, group_start, group_size = np.unique(group, return_index=True, return_counts=True)
    number = np.empty(len(first), dtype=np.int64)
    number[order] = np.arange(len(first)) - np.repeat(group_start, group_size) + 1
    name = pa.array([*names, UNKNOWN], pa.string()).take(pa.array(codes[first]))
    labels = pc.binary_join_element_wise(name, pa.array(number).cast(pa.string()), "_")
    position = np.full(plan.n_events, -1)
    position[told_apart] = caller
    return labels.take(pa.array(position, mask=position < 0))


def _background_columns(plan: ScenePlan, catalogue: Catalogue) -> dict[str, pa.Array]:
    used = plan.background != NO_BACKGROUND
    offsets = pa.array(np.concatenate([[0], np.cumsum(used.sum(axis=1))]), pa.int32())
    rows = plan.background[used]
    ratio = plan.background_ratio[used]
    noise = rows == NOISE
    p, q = plan.ratio_p[ratio].astype(np.int64), plan.ratio_q[ratio].astype(np.int64)
    looped = np.zeros(len(rows), dtype=bool)
    n_samples = np.broadcast_to(plan.n_samples[:, None], used.shape)[used]
    looped[~noise] = (-(-catalogue.background_lengths[rows[~noise]] * p[~noise] // q[~noise])) < n_samples[~noise]
    of_rows = {name: column.take(_rows(rows)) for name, column in catalogue.backgrounds.items()}
    values = {
        "background_clip_ids": of_rows["clip_id"].cast(pa.string()),
        "background_recording_ids": of_rows["recording_id"].cast(pa.string()),
        "background_sites": of_rows["site"].cast(pa.string()),
        "background_licences": of_rows["licence"].cast(pa.string()),
        "background_animal_score": of_rows["animal_score"],
        "background_noise_slope_db": pa.array(plan.noise_slope_db[used] / DB_STEPS, mask=~noise),
        "background_resample": pc.if_else(pa.array(noise), None, _ratio_names(plan, ratio)),
        "background_looped": pa.array(looped),
    }
    return {name: pa.ListArray.from_arrays(offsets, column) for name, column in values.items()}


def _licences(plan: ScenePlan, catalogue: Catalogue) -> pa.Array:
    used = plan.background >= 0
    heard = plan.impulse >= 0
    of_event = scene_of_event(plan)
    scene = np.concatenate([of_event, np.nonzero(used)[0], of_event[heard]])
    given = [
        catalogue.clips["licence"].take(pa.array(plan.clip)).cast(pa.string()),
        catalogue.backgrounds["licence"].take(pa.array(plan.background[used])).cast(pa.string()),
        catalogue.impulses["licence"].take(pa.array(plan.impulse[heard])).cast(pa.string()),
    ]
    codes, names = _codes(pa.concat_arrays(given).fill_null(UNKNOWN))
    pairs = np.unique(scene * len(names) + codes)
    counts = np.bincount(pairs // max(len(names), 1), minlength=len(plan))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(names, pa.string()).take(pa.array(pairs % max(len(names), 1))))
