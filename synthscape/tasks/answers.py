"""What is right, once scenes are mixed: items that turned out not to be true, and the tables of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.labels.batches import labelled_plan
from synthscape.labels.items import ITEMS_SCHEMA
from synthscape.labels.regions import POS, Region, background_annotations, regions_of_spans, spans_of_scene
from synthscape.labels.tables import AUDIBLE_S, UNKNOWN, audible
from synthscape.mix.asked import active_as_played, bare
from synthscape.mix.batch import SceneBatch
from synthscape.plan.plan import PATCH, ROLES, TARGET, ScenePlan
from synthscape.spec.schema import Spec
from synthscape.tasks.cast import QUERY, Cast
from synthscape.tasks.items import ItemPlan
from synthscape.tasks.pools import Pools
from synthscape.units import seconds_to_samples

_OF_SOURCES: Final = ("clip_id", "recording_id", "source_uid", "recordist", "site", "licence")


class Sources:
    """What the items table says of clips and classes: the columns it needs, read once."""

    def __init__(self, bank: ClipStore, class_ids: NDArray[np.int32], class_names: Sequence[str]):
        self.of_clips = {name: _texts(bank, name) for name in (*_OF_SOURCES, "species", "call_type")}
        used = np.flatnonzero(class_ids >= 0)
        self._clip_of_class = dict(zip(class_ids[used].tolist(), used.tolist(), strict=True))
        self.class_names = list(class_names)

    def of_class(self, class_id: int, by_species: bool) -> dict[str, str | None]:
        """Name, species and call type of a class."""
        clip = self._clip_of_class[class_id]
        species, call_type = (self.of_clips[name][clip].as_py() for name in ("species", "call_type"))
        return {
            "class": self.class_names[class_id],
            "species": species,
            "call_type": None if by_species else call_type,
        }


def untrue_items(items: ItemPlan, batch: SceneBatch, audible_db: float) -> dict[int, str]:
    """Items that can't be delivered, by position: a scene failed, or what must be heard is not, as measured.

    Args:
        items: as planned.
        batch: their scenes, mixed.
        audible_db: as ``events.snr.audible_db``.
    """
    if not batch.failures and not items.scenes.required.any():
        return {}  # of scenes that ask nothing
    scene_item = items.item_of_scene
    failed = {int(scene_item[s]): reason for s, reason in sorted((batch.failures or {}).items(), reverse=True)}
    plan = items.scenes
    lost = np.flatnonzero(plan.required & ~_heard(batch, audible_db))
    for e in lost[::-1].tolist():
        s = int(np.searchsorted(plan.event_offsets, e, side="right")) - 1
        if not (batch.failures and s in batch.failures):
            failed[int(scene_item[s])] = (
                f"{items.scene_ids[s]}: a call that must be heard {_why_lost(batch, e, audible_db)}"
            )
    return failed


def _why_lost(batch: SceneBatch, e: int, audible_db: float) -> str:
    snr_db = float(batch.snr_band_db[e])
    n_samples = int(batch.plan.offset[e] - batch.plan.onset[e])
    if n_samples < seconds_to_samples(AUDIBLE_S, batch.plan.sample_rate):
        return f"is {n_samples} samples long, expected {AUDIBLE_S:g} s or more"
    if np.isnan(snr_db):
        return "has no band SNR: nothing is in its band, or the band lies beyond Nyquist as it is played"
    return (
        f"has a band SNR of {snr_db:.1f} dB, expected {audible_db:g} dB or more: the 50 ms tables it was planned by "
        "were too far off"
    )


def marked_spans(
    items: ItemPlan,
    batch: SceneBatch,
    events: pa.Table,
    spec: Spec,
    pools: Pools,
    bank: ClipStore,
    backgrounds: ClipStore | None,
) -> list[list[Region]]:
    """POS and UNK of each scene, a span for each call, where the item's type is the one asked about; [s].

    Args:
        items: of ``few_shot_scenes``, all of them delivered.
        batch: their scenes.
        events: their events table.
        spec: the dataset's.
        pools: what the bank offers.
        bank, backgrounds: the stores.
    """
    assert items.casts is not None
    plan = labelled_plan(batch.plan)
    start, end = active_as_played(plan, bank)
    crossfade_samples = seconds_to_samples(spec.background.crossfade_s, spec.sample_rate)
    spans = []
    for s, item in enumerate(items.item_of_scene.tolist()):
        which = plan.events_of(s)
        asked = items.casts[item].options[0].class_id
        classes = plan.class_id[which]
        near = np.array([pools.near(int(one), asked) for one in classes], np.bool_)
        behind = []
        if backgrounds is not None and not bare(batch.plan)[s]:
            behind = background_annotations(batch.plan, backgrounds, s, crossfade_samples)
        rows = events.slice(which.start, which.stop - which.start)
        spans.append(spans_of_scene(rows, (end - start)[which], classes == asked, near, behind))
    return spans


def item_table(
    items: ItemPlan,
    batch: SceneBatch,
    spec: Spec,
    sources: Sources | None,
    scene_licences: Sequence[Sequence[str]],
    audio: Sequence[str] | None,
    spans: list[list[Region]] | None = None,
) -> pa.Table:
    """One row per item; columns of ``ITEMS_SCHEMA``.

    Args:
        items: all of them delivered.
        batch: their scenes.
        spec: the dataset's.
        sources: what is known of clips and classes; None where an item is a scene.
        scene_licences: of each scene.
        audio: file of each scene; None if nothing was written.
        spans: of :func:`marked_spans`, with task ``few_shot_scenes``.
    """
    rows = []
    for i in range(len(items)):
        first, last = int(items.scene_offsets[i]), int(items.scene_offsets[i + 1])
        names = items.scene_ids[first:last]
        row: dict[str, Any] = {
            "item_id": items.ids[i],
            "item_number": int(items.numbers[i]),
            "task": spec.task,
            "scene_ids": names,
            "audio": None if audio is None else list(audio[first:last]),
            "query_scene_id": names[-1],
            "answer_letters": [],
            "options": [],
            "licences": sorted({licence for s in range(first, last) for licence in scene_licences[s]}),
            "wording": int(items.wordings[i]),
        }
        if items.casts is not None and sources is not None:
            row |= _asked(items, items.casts[i], first, last, batch, spec, sources)
        if spans is not None:
            row |= _marked(items, first, last, spans, spec)
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=ITEMS_SCHEMA)


def _asked(
    items: ItemPlan, cast: Cast, first: int, last: int, batch: SceneBatch, spec: Spec, sources: Sources
) -> dict[str, Any]:
    plan = items.scenes
    parts = [scene.part for scene in cast.scenes]
    of_part = dict(zip(parts, items.scene_ids[first:last], strict=True))
    rows = range(int(plan.event_offsets[first]), int(plan.event_offsets[last]))
    scene_of = np.repeat(np.arange(first, last), np.diff(plan.event_offsets[first : last + 1]))
    provenance = []
    for e, s in zip(rows, scene_of.tolist(), strict=True):
        clip = int(plan.clip[e])
        role = ROLES[plan.role[e]]
        said = {name: sources.of_clips[name][clip].as_py() for name in _OF_SOURCES}
        provenance.append({"scene_id": items.scene_ids[s], "event_id": _event_id(plan, e, s), "role": role, **said})
    options = [
        {
            "letter": option.letter,
            **sources.of_class(option.class_id, spec.classes.by == "species"),
            "present": option.present,
            "example_scene_ids": [of_part[part] for part in option.examples],
        }
        for option in cast.options
    ]
    return {
        "query_scene_id": of_part[QUERY],
        "background_scene_id": of_part.get("background"),
        "options": options,
        "answer": cast.answer,
        "answer_letters": cast.answer_letters,
        "count": cast.count,
        "times": _times(items, last - 1, batch, spec) if spec.question.with_times else None,
        "negatives": cast.negatives,
        "matched": cast.matched,
        "domain_shift": cast.domain_shift,
        "apart": list(spec.question.apart),
        "sources": provenance,
    }


def _event_id(plan: ScenePlan, e: int, s: int) -> int | None:
    """Number of an event in the events table, which has no patches."""
    if plan.role[e] == PATCH:
        return None
    first = int(plan.event_offsets[s])
    return int((plan.role[first:e] != PATCH).sum())


def _marked(items: ItemPlan, first: int, last: int, spans: list[list[Region]], spec: Spec) -> dict[str, Any]:
    """Regions of an item's scenes, and the times of POS in its query as the answer."""
    regions = [
        {"scene_id": items.scene_ids[s], "onset": region.onset, "offset": region.offset, "label": region.label}
        for s in range(first, last)
        for region in regions_of_spans(spans[s], int(items.scenes.n_samples[s]))
    ]
    rate = spec.sample_rate
    times = [(span.onset / rate, span.offset / rate) for span in spans[last - 1] if span.label == POS]
    return {
        "regions": regions,
        "times": [{"onset_s": onset_s, "offset_s": offset_s} for onset_s, offset_s in times],
        "answer": ", ".join(f"{onset_s:.3f}-{offset_s:.3f} s" for onset_s, offset_s in times) or spec.wording.none,
        "answer_letters": ["A"] if times else [],
    }


def _times(items: ItemPlan, query: int, batch: SceneBatch, spec: Spec) -> list[dict[str, float]]:
    """When audible calls of what is asked about are heard in the query."""
    plan = items.scenes
    which = plan.events_of(query)
    heard = _heard(batch, spec.events.snr.audible_db)[which]
    wanted = which.start + np.flatnonzero(heard & (plan.role[which] == TARGET))
    rate = plan.sample_rate
    return [{"onset_s": int(plan.onset[e]) / rate, "offset_s": int(plan.offset[e]) / rate} for e in wanted.tolist()]


def _heard(batch: SceneBatch, audible_db: float) -> NDArray[np.bool_]:
    """Which events are known to be audible, [e]."""
    return np.asarray(audible(batch, audible_db).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def _texts(bank: ClipStore, name: str) -> pa.Array:
    if not bank.has(name):
        return pa.nulls(len(bank), pa.string())
    column = bank.columns([name])[name].combine_chunks()
    return column.fill_null(UNKNOWN) if name == "licence" else column
