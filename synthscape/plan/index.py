"""What the planner knows of the stores: which clips may be used, in which class, over which backgrounds."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from synthscape.bank.licences import licence_matches
from synthscape.bank.store import ClipStore
from synthscape.errors import PlanError, StoreError
from synthscape.plan.callers import TAKES_CALLERS, caller_names, cast_columns, check_callers
from synthscape.plan.community import Community, class_weights
from synthscape.spec.schema import CHOICE_TASKS, QUESTION_TASKS, Licences, Spec
from synthscape.units import seconds_to_samples
from synthscape_kernels.cues import LEAST_S
from synthscape_kernels.place import BACKDROP_ROW, CLIP_ROW, MEMBER
from synthscape_kernels.ratios import UNITY

Mask = NDArray[np.bool_]
Groups = tuple[NDArray[np.int64], NDArray[np.void]]  # first member of each group and an end; records of MEMBER
Text = pd.Series  # of str or null

#: Columns of the store that examples and query must differ in, by the word in ``question.apart``.
APART_COLUMNS: Final = {
    "recording": ("recording_id", "source_uid", "duplicate_group"),
    "recordist": ("recordist",),
    "site": ("site",),
}
_SINGLE: Final = "clips of classes with a single"
_FEWER: Final = "clips of classes with fewer than"
_WEIGHTS: Final[dict[str, Callable[[int], int]]] = {
    "uniform": lambda count: 1,
    "sqrt": lambda count: math.isqrt(count << 20),
    "count": lambda count: count,
}


@dataclass(frozen=True)
class ClassEntry:
    """One class of the class list: its name and what the bank has of it."""

    name: str
    n_clips: int
    n_recordings: int


@dataclass
class Index:
    """The stores as the planner's kernel reads them, and an account of what was left out."""

    tables: dict[str, NDArray[Any]]  # columns of the kernel's Tables that come from the stores
    block_samples: int
    largest_group: int
    classes: list[ClassEntry]
    class_ids: NDArray[np.int32]  # [clips] -1: not used
    media: list[str]
    cast: dict[str, NDArray[Any]] = field(default_factory=dict)  # columns of the kernel's Cast, where callers matter
    filtered: dict[str, int] = field(default_factory=dict)  # reason -> clips or backgrounds left out
    notes: list[str] = field(default_factory=list)
    rooms: list[str] = field(default_factory=list)  # by number


def build_index(
    spec: Spec,
    bank: ClipStore,
    backgrounds: ClipStore | None,
    impulses: ClipStore | None = None,
    community: Community | None = None,
) -> Index:
    """Read the columns the plan needs and sort clips into classes.

    Raises:
        StoreError: a column the spec needs is missing; the two stores don't fit together.
        PlanError: no class, or too few classes or backgrounds, are left for what the spec asks.
    """
    if spec.background.noise.probability == 1:
        backgrounds = None  # no file is ever drawn
    elif backgrounds is None:
        raise PlanError("backgrounds: expected a store, got none; only noise with probability 1 does without")
    if (impulses is None) != (spec.events.propagation.impulses is None):
        got, advice = ("none", "open it") if impulses is None else (str(impulses.path), "name it in the spec")
        raise PlanError(f"events.propagation.impulses: expected the store that the spec names, got {got}; {advice}")
    _check_stores(spec, bank, backgrounds, impulses)
    filtered: Counter[str] = Counter()
    notes: list[str] = []

    usable = _allowed(bank, spec.licences, filtered, "clips")
    names = _class_names(spec, bank)
    usable &= _keep(names.notna().to_numpy(), usable, filtered, f"clips without {spec.classes.by}")
    low_hz, high_hz = bank.numbers("low_hz"), bank.numbers("high_hz")
    asked = spec.task in QUESTION_TASKS
    if asked or (spec.events.snr.reference == "band" and spec.events.level.mode == "snr"):
        why = f"task: {spec.task} needs calls" if asked else "events.snr.reference: band measures"
        bank.require(("low_hz", "high_hz"), f"{why} in the call's own band")
        usable &= _keep(~np.isnan(low_hz) & ~np.isnan(high_hz), usable, filtered, "clips without a band")
    if spec.events.group == "none":
        usable &= _keep(bank.lengths <= _longest(spec), usable, filtered, "clips longer than any scene")
    if spec.events.propagation.distance_m is not None:
        bank.require(("medium",), "events.propagation.distance_m: sound is absorbed by air or water")
        absorbs = _text(bank, "medium").isin(("air", "water")).to_numpy()
        usable &= _keep(absorbs, usable, filtered, "clips without a medium that sound travels in (air, water)")
    if asked:
        shortest = seconds_to_samples(LEAST_S, spec.sample_rate) / min(1.0, spec.events.resample.bounds()[0])
        heard = bank.active[1] - bank.active[0] >= shortest
        usable &= _keep(
            heard, usable, filtered, f"clips of calls under {LEAST_S * 1000:g} ms, which count as inaudible"
        )
        usable &= _askable(spec, bank, names, usable, filtered)
    class_ids, classes = _sort_into_classes(spec, bank, names, usable, filtered)
    usable &= class_ids >= 0

    ready = np.zeros(0, dtype=bool) if backgrounds is None else _ready(spec, backgrounds, filtered)
    groups = _groups(spec, bank, usable, class_ids, filtered)
    weights = None if community is None else class_weights(community, [c.name for c in classes], filtered, notes)
    media, by_medium = _by_medium(
        spec, bank, backgrounds, usable, ready, class_ids, len(classes), groups, weights, filtered, notes
    )
    by_medium["time"] = np.zeros((13, 25), np.int64) if community is None else community.time
    rooms, by_room = _rooms(spec, impulses, media, filtered, notes)
    recording, background_recording = _codes(bank, backgrounds, "recording_id")
    source, background_source = _codes(bank, backgrounds, "source_uid")
    site, background_site = _codes(bank, backgrounds, "site")
    if (unknown := int((site[usable] < 0).sum())) and (background_site[ready] >= 0).any():
        notes.append(f"{unknown} clips have no site: they may be placed over a background of the place they are from")

    active_start, active_end = bank.active
    clip: dict[str, NDArray[Any]] = {
        "length": bank.lengths,
        "active_start": active_start,
        "active_end": active_end,
        "energy_q25": _int(bank, "energy_q25", active_start + (active_end - active_start) // 4),
        "energy_q75": _int(bank, "energy_q75", active_end - (active_end - active_start) // 4),
        "low_hz": low_hz,
        "high_hz": high_hz,
        "min_ratio": _min_ratio(spec, bank),
        "recording": recording,
        "source": source,
        "site": site,
        "individual": _code(_strings(bank, "individual")),
        "speaker": _code(_speakers(bank, every_caller=spec.events.process in TAKES_CALLERS)),
    }
    backdrop: dict[str, NDArray[Any]] = {
        "length": np.zeros(0, np.int64) if backgrounds is None else backgrounds.lengths,
        "peak": np.zeros(0) if backgrounds is None else backgrounds.numbers("peak"),
        "recording": background_recording,
        "source": background_source,
        "site": background_site,
    }
    group_first, members = groups
    tables = {
        "clip": _rows(clip, CLIP_ROW),
        "group_first": group_first,
        "member": members,
        "clip_bands": np.asarray(bank.band_energy_all),
        "clip_block": np.array(bank.block_starts),
        "backdrop": _rows(backdrop, BACKDROP_ROW),
        "backdrop_bands": np.asarray((bank if backgrounds is None else backgrounds).band_energy_all),
        "backdrop_block": np.zeros(1, np.int64) if backgrounds is None else np.array(backgrounds.block_starts),
        "band_edge_hz": np.array(bank.band_edges_hz),
        **by_medium,
        **by_room,
    }
    cast: dict[str, NDArray[Any]] = {}
    if spec.events.process in TAKES_CALLERS:
        cast = cast_columns(by_medium["class_first"], by_medium["class_group"], members["clip"], tables["clip"])
        check_callers(spec, cast["class_first"], bank.path)
    return Index(
        tables=tables,
        block_samples=bank.block_samples,
        largest_group=int(np.diff(group_first).max()),
        classes=classes,
        class_ids=class_ids,
        media=media,
        cast=cast,
        filtered=dict(sorted(filtered.items())),
        notes=notes,
        rooms=rooms,
    )


def _ready(spec: Spec, backgrounds: ClipStore, filtered: Counter[str]) -> Mask:
    """Backgrounds the spec admits."""
    ready = _allowed(backgrounds, spec.licences, filtered, "backgrounds")
    limit = spec.background.max_animal_score
    if limit is not None:
        backgrounds.require(("animal_score",), "background.max_animal_score compares it")
        score = backgrounds.numbers("animal_score")
        ready &= _keep(~np.isnan(score), ready, filtered, "backgrounds without an animal_score")
        ready &= _keep(score <= limit, ready, filtered, "backgrounds over background.max_animal_score")
    if spec.background.level_dbfs is None and spec.background.level_lufs is None:
        backgrounds.require(("peak",), "background.level_dbfs: null asks for backgrounds as loud as recorded")
        ready &= _keep(~np.isnan(backgrounds.numbers("peak")), ready, filtered, "backgrounds without a recorded level")
    if not ready.any():
        raise PlanError(
            f"{backgrounds.path}: no background is left to use ({_listed(filtered)}); loosen the spec's filters"
        )
    return ready


def _rooms(
    spec: Spec, impulses: ClipStore | None, media: list[str], filtered: Counter[str], notes: list[str]
) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """Names of rooms, and impulse responses of each room and rooms of each medium as tables.

    A room is a ``site``; impulse responses without one are of the room of their ``recording_id``, and those without
    either are each a room. What was recorded in air and in water is never one room.
    """
    if impulses is None:
        nothing = np.zeros(0, np.int64)
        return [], {
            "room_first": np.zeros(1, np.int64),
            "room_impulse": nothing,
            "medium_room_first": np.zeros(len(media) + 1, np.int64),
            "medium_room": nothing,
        }
    usable = _allowed(impulses, spec.licences, filtered, "impulse responses")
    if not usable.any():
        raise PlanError(f"{impulses.path}: no impulse response is left to use ({_listed(filtered)}); loosen licences")
    site, recording, medium = (_text(impulses, name) for name in ("site", "recording_id", "medium"))
    table = pd.DataFrame(
        {
            "name": site.fillna(recording).fillna(_text(impulses, "clip_id")),
            "by": np.select([site.notna(), recording.notna()], [0, 1], 2),
            "medium": medium.fillna(""),
            "row": np.arange(len(impulses)),
        }
    )[usable].sort_values(["name", "by", "medium", "row"])
    room = table.groupby(["name", "by", "medium"]).ngroup().to_numpy()
    of_room = table[np.append(True, room[1:] != room[:-1])]
    known = [name for name in media if name]
    if known and (null := int(medium[usable].isna().sum())):
        notes.append(f"{null} impulse responses have no medium: they go with every medium")
    rooms_of = [
        np.flatnonzero(of_room["medium"].isin(("", name)) if name else np.ones(len(of_room), dtype=bool))
        for name in media
    ]
    for name, rooms in zip(media, rooms_of, strict=True):
        if len(rooms) == 0:
            raise PlanError(
                f"{impulses.path}: no impulse response is of medium {name!r}, which clips and backgrounds are of "
                f"({', '.join(known)}); add some, or leave out those clips"
            )
    return of_room["name"].to_list(), {
        "room_first": np.append(0, np.cumsum(np.bincount(room))).astype(np.int64),
        "room_impulse": table["row"].to_numpy(dtype=np.int64),
        "medium_room_first": np.append(0, np.cumsum([len(rooms) for rooms in rooms_of])).astype(np.int64),
        "medium_room": np.concatenate(rooms_of).astype(np.int64),
    }


def _rows(columns: dict[str, NDArray[Any]], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Columns as records."""
    rows = np.zeros(len(columns["length"]), dtype)
    for name in dtype.names or ():
        rows[name] = columns[name]
    return rows


def _check_stores(spec: Spec, bank: ClipStore, backgrounds: ClipStore | None, impulses: ClipStore | None) -> None:
    for store, key, kind in (
        (bank, "bank", "pseudovox"),
        (backgrounds, "backgrounds", "backgrounds"),
        (impulses, "events.propagation.impulses", "impulses"),
    ):
        if store is None:
            continue
        if store.sample_rate != spec.sample_rate:
            raise StoreError(
                f"{key}: {store.path} is at {store.sample_rate} Hz, the spec's sample_rate is {spec.sample_rate}; "
                f"build it again with `synthscape bank build ... --rate {spec.sample_rate}`, or change sample_rate"
            )
        if store.kind != kind:
            raise StoreError(f"{key}: {store.path} is a store of {store.kind}, expected {kind}; name another store")
        if len(store) == 0:
            raise StoreError(f"{key}: {store.path} holds no clips; build it again")
    if backgrounds is not None and (
        bank.block_samples != backgrounds.block_samples
        or not np.array_equal(bank.band_edges_hz, backgrounds.band_edges_hz)
    ):
        raise StoreError(f"{backgrounds.path}: its band table has another grid than {bank.path}; build both again")


def _strings(store: ClipStore, name: str) -> pa.ChunkedArray:
    if not store.has(name):
        return pa.chunked_array([pa.nulls(len(store), pa.string())])
    return store.columns([name])[name]


def _text(store: ClipStore, name: str) -> Text:
    column: Text = _strings(store, name).to_pandas().astype("str")
    return column


def _int(store: ClipStore, name: str, where_null: NDArray[np.int64]) -> NDArray[np.int64]:
    values = store.numbers(name)
    return np.where(np.isnan(values), where_null, np.nan_to_num(values).astype(np.int64))


def _keep(condition: Mask, among: Mask, filtered: Counter[str], reason: str) -> Mask:
    """The condition, with those of ``among`` that fail it counted under ``reason``."""
    if lost := int((among & ~condition).sum()):
        filtered[reason] += lost
    return condition


def _allowed(store: ClipStore, licences: Licences, filtered: Counter[str], what: str) -> Mask:
    """Clips that are not excluded and whose licence the spec admits."""
    usable = np.ones(len(store), dtype=bool)
    if store.has("excluded"):
        excluded = _text(store, "excluded")
        usable &= _keep(
            (excluded.isna() | (excluded == "")).to_numpy(), usable, filtered, f"{what} excluded in the store"
        )

    def verdict(licence: str | None) -> str:
        if licence is None:
            return "" if licences.unknown == "allow" else "of unknown licence"
        if any(licence_matches(licence, pattern) for pattern in licences.deny):
            return "of a denied licence"
        if licences.allow is not None and not any(licence_matches(licence, pattern) for pattern in licences.allow):
            return "of a licence that is not allowed"
        return ""

    codes, names = pd.factorize(_text(store, "licence"))  # few licences, millions of clips
    verdicts = [verdict(str(name)) for name in names] + [verdict(None)]  # code -1, null, is the last
    for reason in sorted(set(verdicts) - {""}):
        judged = np.array([one != reason for one in verdicts])
        usable &= _keep(judged[codes], usable, filtered, f"{what} {reason}")
    return usable


def _class_names(spec: Spec, bank: ClipStore) -> Text:
    """The class of each clip as text; null where the bank doesn't say.

    Call types and clusters belong to a species: two species' "song" are two classes.
    """
    by = spec.classes.by
    if by == "type":
        return _type_names(spec, bank)
    column = (spec.classes.column or "cluster") if by == "cluster" else by
    bank.require((column,), f"classes.by: {by} sorts clips by it")
    names = _text(bank, column)
    if by == "species":
        return names
    species = _text(bank, "species")
    return (species + ": " + names).where(species.notna(), names)


def _type_names(spec: Spec, bank: ClipStore) -> Text:
    """Types: a species' call_type where it is known, else its clusters of both sizes; null where neither is."""
    fine, coarse = spec.classes.column or "cluster", spec.classes.coarse
    bank.require(("species",), "classes.by: type tells the call types of a species apart")
    species, call_type, cluster = (_text(bank, name) for name in ("species", "call_type", fine))
    if call_type.isna().all():
        bank.require((fine,), "classes.by: type needs it where call_type is not known")
    names = species + " [" + cluster + "]"
    if coarse is not None and cluster[call_type.isna()].notna().any():
        bank.require((coarse,), "classes.coarse names it")
        names = species + " [" + cluster + "/" + _text(bank, coarse) + "]"
    return (species + ": " + call_type).where(call_type.notna(), names)


def _askable(spec: Spec, bank: ClipStore, names: Text, usable: Mask, filtered: Counter[str]) -> Mask:
    """Clips of classes that have enough examples and queries, of which some share no recording, recordist or site.

    Others are left out of scenes too: a type that is heard but never asked about would give answers away.
    """
    kept = usable.copy()
    for what in spec.question.apart:
        values = _text(bank, APART_COLUMNS[what][0])
        if what == "recording":
            bank.require(("recording_id",), "question.apart: recording keeps examples and query in different ones")
            kept &= _keep(values.notna().to_numpy(), kept, filtered, "clips without a recording_id")
        table = pd.DataFrame({"class": names, "value": values})[kept]
        unknown = table["value"].isna().astype(np.int64).groupby(table["class"]).sum()
        one = table.groupby("class")["value"].nunique() + unknown < 2
        kept &= _keep(~names.isin(one[one].index).to_numpy(), kept, filtered, f"{_SINGLE} {what}")
    least = _least_clips(spec)
    counts = names[kept].value_counts()
    small = names.isin(counts[counts < least].index).to_numpy()
    kept &= _keep(~small, kept, filtered, f"{_FEWER} the {least} that an item takes")
    return kept


def _least_clips(spec: Spec) -> int:
    """The fewest clips of one class that an item of the task can be made of: no clip is in it twice."""
    question = spec.question
    calls = 1 if spec.events.count is None else int(spec.events.count.bounds()[0])
    if spec.task == "counting":
        calls = question.most
    if spec.task == "few_shot_scenes":
        return int(question.support_calls.bounds()[0]) + calls
    return (1 if spec.task in CHOICE_TASKS else int(question.examples.bounds()[0])) + calls


def _sort_into_classes(
    spec: Spec, bank: ClipStore, names: Text, usable: Mask, filtered: Counter[str]
) -> tuple[NDArray[np.int32], list[ClassEntry]]:
    """A class number for each clip (-1: none), and the class list in the order of names."""
    counts = names[usable].value_counts()
    kept = set(counts.index)
    if spec.classes.include is not None:
        for wanted in spec.classes.include:
            if wanted not in kept:
                near = difflib.get_close_matches(wanted, sorted(kept), n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has {len(kept)} classes"
                raise PlanError(f"classes.include: {bank.path} has no usable clip of class {wanted!r}{hint}")
        kept = set(spec.classes.include)
        _keep(names.isin(kept).to_numpy(), usable, filtered, "clips of classes not in classes.include")
    small = {name for name in kept if counts[name] < spec.classes.min_clips}
    _keep(~names.isin(small).to_numpy(), usable, filtered, "clips of classes smaller than classes.min_clips")
    order = sorted(kept - small)
    if not order:
        raise PlanError(
            f"{bank.path}: no class is left to place ({_listed(filtered) or 'all classes are too small'}); "
            f"{_advice(filtered)}loosen classes.include, classes.min_clips or licences, or ask for longer scenes"
        )
    number = {name: i for i, name in enumerate(order)}
    ids = np.where(usable, names.map(number).fillna(-1).to_numpy(dtype=np.int64), -1).astype(np.int32)
    recordings = _code(_strings(bank, "recording_id"))
    known = (ids >= 0) & (recordings >= 0)
    pairs = np.unique(ids[known] * np.int64(len(bank)) + recordings[known])
    sizes, distinct = np.bincount(ids[ids >= 0]), np.bincount(pairs // len(bank), minlength=len(order))
    return ids, [ClassEntry(name, int(sizes[i]), int(distinct[i])) for i, name in enumerate(order)]


def _advice(filtered: Counter[str]) -> str:
    """What to do where too little of each class can be asked about; empty where that is not why."""
    reasons = " ".join(filtered)
    said = ""
    if _SINGLE in reasons:
        said += "add recordings, or set question.apart: [] where examples and query may share theirs; "
    if _FEWER in reasons:
        said += "add clips, or ask for fewer in an item (question.examples, support_calls, most, or events.count); "
    return said


def _groups(spec: Spec, bank: ClipStore, usable: Mask, class_ids: NDArray[np.int32], filtered: Counter[str]) -> Groups:
    """What is placed as one: every clip by itself, or all clips of a track."""
    if spec.events.group == "none":
        rows = np.flatnonzero(usable).astype(np.int64)
        return np.arange(len(rows) + 1, dtype=np.int64), _members(rows, np.zeros_like(rows))
    if spec.classes.by != "species":
        raise PlanError(
            f"events.group: track places whole tracks, which hold several {spec.classes.by}s; use classes.by: species"
        )
    bank.require(("track_id", "track_onset_s", "peak"), "events.group: track places the calls of a track together")
    table = pd.DataFrame(
        {
            "track": _text(bank, "track_id"),
            "onset_s": bank.numbers("track_onset_s"),
            "row": np.arange(len(bank)),
            "class": class_ids,
            "offset_s": bank.numbers("track_onset_s") + bank.lengths / spec.sample_rate,
        }
    )
    known = (table["track"].notna() & table["onset_s"].notna()).to_numpy()
    usable = usable & _keep(known, usable, filtered, "clips without a track")
    levelled = ~np.isnan(bank.numbers("peak"))
    table = table[usable & _keep(levelled, usable, filtered, "clips of tracks without a recorded level")]
    several = table.groupby("track")["class"].transform("nunique") > 1
    if several.any():
        filtered["clips of tracks with several classes"] += int(several.sum())
        table = table[~several]
    of_track = table.groupby("track")
    span_s = of_track["offset_s"].transform("max") - of_track["onset_s"].transform("min")
    long = span_s > _longest(spec) / spec.sample_rate
    if long.any():
        filtered["clips of tracks longer than any scene"] += int(long.sum())
        table = table[~long]
    if table.empty:
        raise PlanError(f"{bank.path}: no track is left to place ({_listed(filtered)})")
    table = table.sort_values(["track", "onset_s", "row"], kind="stable")
    begins = table["track"].ne(table["track"].shift()).to_numpy()
    since = table["onset_s"] - table.groupby("track")["onset_s"].transform("min")
    delta = np.array([seconds_to_samples(value, spec.sample_rate) for value in since], dtype=np.int64)
    first = np.append(np.flatnonzero(begins), len(table)).astype(np.int64)
    return first, _members(table["row"].to_numpy(dtype=np.int64), delta)


def _longest(spec: Spec) -> float:
    """Samples of the longest clip that may lie whole inside the longest scene; infinite where edges may cut.

    In a question any clip may be in any of its scenes: it must fit into the shortest, at the highest ratio.
    """
    if spec.task in QUESTION_TASKS:
        lengths = []
        if spec.task == "few_shot_scenes":
            if spec.events.edges != "truncate":
                lengths = [spec.duration, spec.question.support_duration]
        else:
            lengths = [draw for draw in (spec.clips.duration,) if draw is not None]
            if spec.task not in CHOICE_TASKS:
                lengths.append(spec.duration)
        shortest = min((draw.bounds()[0] for draw in lengths), default=math.inf)
        return shortest * spec.sample_rate / max(1.0, spec.events.resample.bounds()[1])
    if spec.events.edges == "truncate":
        return math.inf
    scene = seconds_to_samples(spec.duration.bounds()[1], spec.sample_rate)
    return scene / min(1.0, spec.events.resample.bounds()[0])


def _members(clips: NDArray[np.int64], delta: NDArray[np.int64]) -> NDArray[np.void]:
    members = np.zeros(len(clips), MEMBER)
    members["clip"], members["delta"] = clips, delta
    return members


def _by_medium(
    spec: Spec,
    bank: ClipStore,
    backgrounds: ClipStore | None,
    usable: Mask,
    ready: Mask,
    class_ids: NDArray[np.int32],
    n_classes: int,
    groups: Groups,
    weights_of: NDArray[np.int64] | None,
    filtered: Counter[str],
    notes: list[str],
) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """The media, and groups of each class and backgrounds for each in turn; a null medium goes with every medium.

    ``weights_of`` [times, classes] are the community's, None where classes.balance decides.
    """
    group_first, members = groups
    leaders = members["clip"][group_first[:-1]]
    clip_medium = _text(bank, "medium")
    leader_medium = clip_medium.iloc[leaders].reset_index(drop=True)
    leader_class = class_ids[leaders]
    backdrop_medium = pd.Series([], dtype="str") if backgrounds is None else _text(backgrounds, "medium")
    known = set(clip_medium[usable].dropna()) | set(backdrop_medium[ready].dropna())
    for what, medium, mask in (("clips", clip_medium, usable), ("backgrounds", backdrop_medium, ready)):
        if known and (null := int(medium[mask].isna().sum())):
            notes.append(f"{null} {what} have no medium: they go with every medium")

    highest = 1.0 if spec.task in QUESTION_TASKS else spec.classes.per_scene.bounds()[1]
    weight_of = _WEIGHTS[spec.classes.balance]
    media: list[str] = []
    firsts, class_groups, all_weights, rows, row_first = [], [], [], [], [0]
    offset = 0
    for name in sorted(known) or [""]:
        fits = (leader_medium.isna() | (leader_medium == name)).to_numpy()
        back = np.flatnonzero(ready & (backdrop_medium.isna() | (backdrop_medium == name)).to_numpy())
        if not fits.any():
            continue
        if len(back) == 0 and backgrounds is not None:
            filtered[f"clips without a background of medium {name!r}"] += int((leader_medium == name).sum())
            continue
        counts = np.bincount(leader_class[fits], minlength=n_classes)
        where = f"in medium {name!r} " if name else ""
        if weights_of is None and highest > (counts > 0).sum():
            have = int((counts > 0).sum())
            fewer = "1" if have == 1 else f"{{uniform_int: [1, {have}]}}"
            raise PlanError(
                f"classes.per_scene can ask for {highest:g} classes, but {bank.path} has {have} "
                f"{where}({_listed(filtered) or 'nothing was filtered'}); ask for fewer, classes.per_scene: {fewer}"
            )
        if spec.background.mix.probability > 0 and len(back) < 2 and backgrounds is not None:
            raise PlanError(f"background.mix.probability: {backgrounds.path} has only one background {where}to mix")
        if spec.task in QUESTION_TASKS and spec.question.domain_shift > 0 and backgrounds is not None:
            if len(back) < 2:
                raise PlanError(
                    f"question.domain_shift: examples and query need 2 backgrounds {where}between them, "
                    f"{backgrounds.path} has {len(back)}; set it to 0, or add backgrounds"
                )
            if spec.background.mix.probability > 0 and len(back) < 4:
                notes.append(
                    f"{len(back)} backgrounds {where}are too few to mix two behind examples and two others behind the "
                    "query: fewer items have a domain shift than question.domain_shift says"
                )
        order = np.flatnonzero(fits)[np.argsort(leader_class[fits], kind="stable")]
        firsts.append(offset + np.append(0, np.cumsum(counts)))
        class_groups.append(order)
        offset += len(order)
        if weights_of is None:
            all_weights.append(np.array([[weight_of(int(count)) if count else 0 for count in counts]]))
        else:
            all_weights.append(weights_of * (counts > 0))
        rows.append(back)
        row_first.append(row_first[-1] + len(back))
        media.append(name)
    if not media and backgrounds is not None:
        raise PlanError(
            f"no clip of {bank.path} and background of {backgrounds.path} share a medium ({_listed(filtered)}); "
            "check the `medium` columns"
        )
    weights = np.stack(all_weights, axis=1)  # [times, media, classes]
    totals = weights.sum(axis=2)
    return media, {
        "class_first": np.array(firsts, dtype=np.int64),
        "class_group": np.concatenate(class_groups).astype(np.int64),
        "class_before": _before(weights.reshape(-1, n_classes)),
        "class_weighted": (weights > 0).sum(axis=2).ravel(),
        "medium_first": np.array(row_first, dtype=np.int64),
        "medium_row": np.concatenate(rows).astype(np.int64),
        "medium_before": _before(totals),
    }


def _before(weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums of the weights before each, and of all, along the last axis."""
    return np.pad(np.cumsum(weights, axis=1), ((0, 0), (1, 0))).astype(np.float64)


def _min_ratio(spec: Spec, bank: ClipStore) -> NDArray[np.int16]:
    """Grid index of each clip's smallest feasible ratio; -1 where none is."""
    if spec.events.resample.bounds() == (1.0, 1.0):
        return np.full(len(bank), UNITY, dtype=np.int16)
    bank.require(("min_ratio_index",), "events.resample must know which ratios a clip can be played at")
    return _int(bank, "min_ratio_index", np.full(len(bank), -1, dtype=np.int64)).astype(np.int16)


def _speakers(bank: ClipStore, *, every_caller: bool) -> pa.ChunkedArray:
    """Who calls: the individual where it is known, else the track (one track is one caller), else null.

    With ``every_caller`` null is nobody: see :func:`caller_names`.
    """
    if every_caller:
        columns = (_text(bank, name) for name in ("species", "individual", "track_id", "recording_id"))
        return pa.chunked_array([pa.array(caller_names(*columns), pa.string())])
    species, individual, track = (_strings(bank, name) for name in ("species", "individual", "track_id"))
    known = pc.binary_join_element_wise("individual", species.fill_null(""), individual, "\0")
    return pc.coalesce(known, pc.binary_join_element_wise("track", track, "\0"))


def _codes(bank: ClipStore, backgrounds: ClipStore | None, column: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Numbers for equal values of a column over both stores; -1 for null."""
    stores = [bank] if backgrounds is None else [bank, backgrounds]
    codes = _code(pa.chunked_array([chunk for store in stores for chunk in _strings(store, column).chunks]))
    return codes[: len(bank)].copy(), codes[len(bank) :].copy()


def _code(values: pa.ChunkedArray) -> NDArray[np.int32]:
    """Numbers for equal values, in the order in which they first occur; -1 for null."""
    codes: NDArray[np.int32] = values.dictionary_encode().combine_chunks().indices.fill_null(-1).to_numpy()
    return codes


def _listed(filtered: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(filtered.items()))
