"""The facts table: what can be said of a scene in words, for text to be made from. One row a scene, for every task.

Columns and their meaning stand in :data:`FACTS_SCHEMA`. Values speak of calls that are heard (``audible``). Each has a
flag of its name in ``ambiguous``, true where no question should be built on it: a fact must be the same whether or not
the *doubtful* calls count, and whichever way near-ties are decided.

A call is doubtful if it is not audible, if its audibility is not known, or if the scene cuts it; in facts that name or
compare animals also if its species is not known, or if it is altered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from synthscape.labels.schema import described, listed

NEAR_S: Final = 0.05  # times that differ by no more are a tie
NEAR_RATIO: Final = 2.0 ** (1 / 12)  # frequencies: a semitone
NEAR_DB: Final = 1.0  # levels
THIRDS: Final = ("start", "middle", "end")

_NEAR_MS: Final = round(NEAR_S * 1000)
_TEXT, _INT32, _FLOAT, _DOUBLE, _BOOL = pa.string(), pa.int32(), pa.float32(), pa.float64(), pa.bool_()
_COUNT: Final = pa.struct([pa.field("species", _TEXT), pa.field("n_calls", _INT32)])
_THIRDS: Final = pa.struct([pa.field("species", _TEXT), pa.field("thirds", listed(_TEXT))])
_PAIR: Final = pa.struct([pa.field("species", _TEXT), pa.field("other", _TEXT)])
_RANGE: Final = pa.struct([pa.field("species", _TEXT), pa.field("low_hz", _FLOAT), pa.field("high_hz", _FLOAT)])

_FACTS: Final = (
    described("n_calls", _INT32, "", "calls heard"),
    described("species", listed(_TEXT), "", "species heard, sorted"),
    described("n_species", _INT32, "", "how many they are"),
    described("calls_per_species", listed(_COUNT), "", "calls heard of each species, sorted by species"),
    described("most_frequent", _TEXT, "", "species of most calls; null if several have as many"),
    described("order", listed(_TEXT), "", "species by the onset of their first call; null if two begin in one sample"),
    described("first", _TEXT, "", "species of the call that begins first"),
    described("last", _TEXT, "", "species of the call that begins last; ambiguous if another's ends last"),
    described(
        "first_third",
        _TEXT,
        "",
        "start, middle or end: third of the scene in which the middle of the active part of the first call lies; "
        "ambiguous if the call lies across a border",
    ),
    described("last_third", _TEXT, "", "the same of the last call"),
    described("thirds", listed(_THIRDS), "", "the thirds in which each species is heard, in order"),
    described("any_overlap", _BOOL, "", "two calls, of one species or two, are heard at once"),
    described("overlapping", listed(_PAIR), "", "pairs of different species that are heard at once, sorted"),
    described("max_simultaneous", _INT32, "", "most calls heard in one sample"),
    described("highest", _TEXT, "", "species of the call of highest pitch, by pitch_measure"),
    described("lowest", _TEXT, "", "species of the call of lowest pitch, by pitch_measure"),
    described("longest", _TEXT, "", "species of the call of longest active part, as the scene cuts it"),
    described("longest_s", _DOUBLE, "s", "length of that active part"),
    described("loudest", _TEXT, "", "species of the loudest call, by loudness_measure"),
    described(
        "frequency_ranges",
        listed(_RANGE),
        "Hz",
        "lowest lower and highest upper edge of the bands of each species' calls, as played; null if one is not known",
    ),
)
_MEASURES: Final = (
    described(
        "pitch_measure",
        _TEXT,
        "",
        "column of the events table that highest and lowest go by: f0_hz where all calls heard have it, else peak_hz "
        "where all have that, else null",
    ),
    described(
        "loudness_measure",
        _TEXT,
        "",
        "column of the events table that loudest goes by: snr_loudness_db where all calls heard have it, else "
        "snr_scene_db where all have that (both order by level, as the background is the same), else null",
    ),
)

FACTS_SCHEMA: Final = pa.schema(
    [
        described("scene_id", _TEXT, "", "the scene", nullable=False),
        *_FACTS,
        *_MEASURES,
        described(
            "ambiguous",
            pa.struct([pa.field(field.name, _BOOL, nullable=False) for field in _FACTS]),
            "",
            "of each fact, whether it hangs on a near-tie (50 ms, a semitone, a tenth of the length, 1 dB) or on a "
            "doubtful call: no question should be built on it",
            nullable=False,
        ),
    ]
)

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]
_Floats = NDArray[np.float64]
_NONE: Final = -1  # code of what is not known


@dataclass
class _Calls:
    """The events of all scenes, by scene and onset; [e] unless said otherwise."""

    n_scenes: int
    names: list[str]  # species, sorted
    scene: _Ints
    species: _Ints  # index in names, or _NONE
    onset: _Ints
    offset: _Ints
    n_samples: _Ints  # of the call's scene
    near: _Ints  # NEAR_S in samples of its rate, rounded down
    tail: _Ints  # samples of reverberation
    longest: _Ints  # samples that the active part may have, were it not cut
    rate: _Ints
    heard: _Flags
    sure: _Flags  # not doubtful as a call
    named: _Flags  # ... nor as one of an animal that can be named and compared
    measured: dict[str, _Floats]  # NaN where not known

    def any(self, flags: _Flags) -> _Flags:
        """Scenes with a call of these, [s]."""
        return np.bincount(self.scene[flags], minlength=self.n_scenes) > 0

    def count(self, flags: _Flags) -> _Ints:
        """How many of these calls each scene has, [s]."""
        return np.bincount(self.scene[flags], minlength=self.n_scenes)


@dataclass
class _Fact:
    """A fact of all scenes: its column [s], and where it is ambiguous [s]."""

    values: Any  # pa.Array
    ambiguous: _Flags


def facts_table(events: pa.Table, scenes: pa.Table) -> pa.Table:
    """One row per scene, those without events too; columns of ``FACTS_SCHEMA``.

    Where audibility is not known (``events.snr.measure_band: false``, or no band or background to measure it by) and a
    fact hangs on it, the fact is null.

    >>> facts_table(scenes.event_table, scenes.scene_table)["species"][0].as_py()   # doctest: +SKIP
    ['Corvus corax', 'Turdus merula']

    Args:
        events: rows of ``EVENTS_SCHEMA``, of these scenes, in any order.
        scenes: rows of ``SCENES_SCHEMA``.
    """
    calls = _calls(events, scenes)
    groups = _groups(calls)
    facts: dict[str, _Fact] = {**_counts(groups), **_times(calls), **_overlaps(calls)}
    pitch, pitch_measure = _pitch(calls)
    loudest, loudness_measure = _loudest(calls)
    facts |= {**pitch, **_longest(calls), "loudest": loudest, "frequency_ranges": _ranges(groups)}
    unmeasured = np.zeros(calls.n_scenes, np.bool_)
    unmeasured[_positions(events, scenes)[_flags(events["audible"].combine_chunks().is_null())]] = True
    columns: dict[str, pa.Array] = {"scene_id": scenes["scene_id"].combine_chunks()}
    for field in _FACTS:
        fact = facts[field.name]
        values, unknown = fact.values.cast(field.type), fact.ambiguous & unmeasured
        columns[field.name] = (
            pc.if_else(unknown, pa.nulls(len(values), field.type), values) if unknown.any() else values
        )
    columns |= {"pitch_measure": pitch_measure, "loudness_measure": loudness_measure}
    flags = FACTS_SCHEMA.field("ambiguous").type
    columns["ambiguous"] = pa.StructArray.from_arrays(
        [pa.array(facts[field.name].ambiguous) for field in flags], fields=list(flags)
    )
    return pa.Table.from_arrays([columns[name] for name in FACTS_SCHEMA.names], schema=FACTS_SCHEMA)


def _calls(events: pa.Table, scenes: pa.Table) -> _Calls:
    scene = _positions(events, scenes)
    onset = _whole(events["onset"])
    order = np.lexsort((onset, scene))
    scene = scene[order]

    in_order = bool((np.diff(order) == 1).all())

    def of(name: str) -> Any:
        column = events[name].combine_chunks()
        return column if in_order else column.take(pa.array(order))

    of_event = pa.array(scene)
    rate = _whole(scenes["sample_rate"].combine_chunks().take(of_event))
    onset, offset = _whole(of("onset")), _whole(of("offset"))
    texts = of("species")
    names = sorted(pc.unique(texts).drop_null().to_pylist())
    species = _whole(pc.index_in(texts, pa.array(names, pa.string())).fill_null(_NONE))
    heard, truncated = _flags(of("audible").fill_null(False)), _flags(of("truncated"))
    sure = heard & ~truncated
    measured = {
        name: of(name).to_numpy(zero_copy_only=False).astype(np.float64)  # null is NaN
        for name in ("f0_hz", "peak_hz", "low_hz", "high_hz", "snr_loudness_db", "snr_scene_db", "snr_band_db")
    }
    return _Calls(
        n_scenes=len(scenes),
        names=names,
        scene=scene,
        species=species,
        onset=onset,
        offset=offset,
        n_samples=_whole(scenes["n_samples"].combine_chunks().take(of_event)),
        near=rate * _NEAR_MS // 1000,
        tail=np.rint(of("tail_s").to_numpy() * rate).astype(np.int64),
        longest=np.where(truncated, _whole(of("clip_offset")) - _whole(of("clip_onset")), offset - onset),
        rate=rate,
        heard=heard,
        sure=sure,
        named=sure & (species != _NONE) & ~_flags(of("altered")),
        measured=measured,
    )


def _positions(events: pa.Table, scenes: pa.Table) -> _Ints:
    """Row of each event's scene."""
    ids = scenes["scene_id"].combine_chunks()
    return _whole(pc.index_in(events["scene_id"].combine_chunks(), ids))


# who and how many


@dataclass
class _Groups:
    """The (scene, species) pairs of some calls, by scene and species; calls of no known species are left out."""

    calls: _Calls
    scene: _Ints
    species: _Ints
    of_call: _Ints  # group of each call, or _NONE

    def count(self, flags: _Flags) -> _Ints:
        """How many of these calls each group has."""
        return np.bincount(self.of_call[flags & (self.of_call != _NONE)], minlength=len(self.scene))

    def least(self, values: NDArray[Any], flags: _Flags) -> _Floats:
        """Least value of these calls of each group, inf where there are none, NaN if one is."""
        flags = flags & (self.of_call != _NONE)
        found = np.full(len(self.scene), np.inf)
        with np.errstate(invalid="ignore"):
            np.minimum.at(found, self.of_call[flags], values[flags].astype(np.float64))
        return found

    def lists(self, *parts: tuple[str, Any], chosen: _Flags | None = None, order: _Ints | None = None) -> pa.Array:
        """A list a scene: of structs of species and these parts, or of species alone, in this order."""
        chosen = np.ones(len(self.scene), np.bool_) if chosen is None else chosen
        kept = np.flatnonzero(chosen) if order is None else order[chosen[order]]
        names = pa.array(self.calls.names, _TEXT).take(pa.array(self.species[kept]))
        values = names
        if parts:
            arrays = [part.take(pa.array(kept)) for _, part in parts]
            values = pa.StructArray.from_arrays([names, *arrays], names=["species", *(name for name, _ in parts)])
        return _lists(np.bincount(self.scene[kept], minlength=self.calls.n_scenes), values)


def _groups(calls: _Calls) -> _Groups:
    width = max(len(calls.names), 1)
    known = calls.species != _NONE
    keys, of_known = np.unique(calls.scene[known] * width + calls.species[known], return_inverse=True)
    of_call = np.full(len(calls.scene), _NONE)
    of_call[known] = of_known
    return _Groups(calls, keys // width, keys % width, of_call)


def _counts(groups: _Groups) -> dict[str, _Fact]:
    calls = groups.calls
    everything = np.ones(len(calls.scene), np.bool_)
    unnamed = calls.species == _NONE
    heard, sure = groups.count(calls.heard), groups.count(calls.named)
    possible = groups.count(everything)
    n_calls = calls.count(calls.heard)
    n_species = np.bincount(groups.scene[heard > 0], minlength=calls.n_scenes)
    n_sure = np.bincount(groups.scene[sure > 0], minlength=calls.n_scenes)
    n_possible = np.bincount(groups.scene, minlength=calls.n_scenes)
    who = (n_sure != n_possible) | calls.any(unnamed)
    facts = {
        "n_calls": _Fact(pa.array(n_calls), calls.count(calls.sure) != calls.count(everything)),
        "species": _Fact(groups.lists(chosen=heard > 0), who),
        "n_species": _Fact(pa.array(n_species), who),
        "calls_per_species": _Fact(
            groups.lists(("n_calls", pa.array(heard, _INT32)), chosen=heard > 0), calls.any(~calls.named)
        ),
        "most_frequent": _most_frequent(groups, heard, sure, possible, calls.count(unnamed)),
    }
    facts["order"] = _order(groups, heard, who)
    facts["thirds"] = _thirds(groups, heard)
    return facts


def _most_frequent(groups: _Groups, heard: _Ints, sure: _Ints, possible: _Ints, n_unnamed: _Ints) -> _Fact:
    calls = groups.calls
    values, _ = _best(heard.astype(np.float64), groups.scene, groups.species, heard > 0, calls.n_scenes)
    _, best = _best(sure.astype(np.float64), groups.scene, groups.species, sure > 0, calls.n_scenes)
    # what the others may have at most, the unnamed among them
    most = np.zeros(calls.n_scenes, np.int64)
    others = np.arange(len(groups.scene)) != np.where(best < 0, _NONE, best)[groups.scene]
    np.maximum.at(most, groups.scene[others], possible[others])
    least = np.where(best < 0, 0, sure[best]) if len(sure) else np.zeros(calls.n_scenes, np.int64)
    ambiguous = calls.any(np.ones(len(calls.scene), np.bool_)) & (least <= most + n_unnamed)
    return _Fact(_named(calls, values), ambiguous)


def _order(groups: _Groups, heard: _Ints, who: _Flags) -> _Fact:
    calls = groups.calls
    first_heard = groups.least(calls.onset, calls.heard)
    order = np.lexsort((first_heard, groups.scene))
    order = order[heard[order] > 0]
    same_sample = (np.diff(groups.scene[order]) == 0) & (np.diff(first_heard[order]) == 0)
    undecided = np.zeros(calls.n_scenes, np.bool_)
    undecided[groups.scene[order[1:]][same_sample]] = True
    lists = groups.lists(chosen=heard > 0, order=np.lexsort((first_heard, groups.scene)))
    values = pc.if_else(pa.array(undecided), pa.nulls(calls.n_scenes, lists.type), lists)
    # A species begins between its first call of all and its first sure one. The order is certain if no two such spans
    # come near each other.
    earliest = groups.least(calls.onset, np.ones(len(calls.scene), np.bool_))
    latest = groups.least(calls.onset, calls.named)
    near = np.zeros(calls.n_scenes, np.int64)
    near[calls.scene] = calls.near
    order = np.lexsort((latest, groups.scene))
    follows = np.diff(groups.scene[order]) == 0
    close = latest[order[:-1]] + near[groups.scene[order[:-1]]] >= earliest[order[1:]]
    ambiguous = who.copy()
    ambiguous[groups.scene[order[1:]][follows & close]] = True
    return _Fact(values, ambiguous)


def _third(calls: _Calls) -> tuple[_Ints, _Flags]:
    """Third of the scene in which the middle of each call lies, and whether the call lies across a border."""
    middle = 3 * (calls.onset + calls.offset) // (2 * calls.n_samples)
    first, last = _touched(calls)
    return np.minimum(middle, 2), first != last


def _touched(calls: _Calls) -> tuple[_Ints, _Ints]:
    """First and last third of the scene that each call touches, by its active part."""
    # Third k is the real interval [k n / 3, (k + 1) n / 3): an offset on a border touches nothing beyond it.
    return 3 * calls.onset // calls.n_samples, (3 * calls.offset - 1) // calls.n_samples


def _thirds(groups: _Groups, heard: _Ints) -> _Fact:
    calls = groups.calls
    n_groups = len(groups.scene)
    middle, across = _third(calls)
    known = groups.of_call != _NONE
    here, sure, possible = (np.zeros((n_groups, 3), np.bool_) for _ in range(3))
    flags = calls.heard & known
    here[groups.of_call[flags], middle[flags]] = True
    flags = calls.named & ~across
    sure[groups.of_call[flags], middle[flags]] = True
    first, last = _touched(calls)
    for third in range(3):
        flags = known & (first <= third) & (third <= last)
        possible[groups.of_call[flags], third] = True
    texts = pa.array(THIRDS, _TEXT).take(pa.array(np.nonzero(here)[1]))
    lists = groups.lists(("thirds", _lists(here.sum(axis=1), texts)), chosen=heard > 0)
    ambiguous = calls.any(~known)
    ambiguous[groups.scene[(sure != possible).any(axis=1)]] = True
    return _Fact(lists, ambiguous)


# extremes: the call of which something is largest


def _best(values: _Floats, scene: _Ints, codes: _Ints, chosen: _Flags, n_scenes: int) -> tuple[_Ints, _Ints]:
    """Code of the chosen rows of largest value (_NONE if they differ, or there are none), and the first such row."""
    largest = np.full(n_scenes, -np.inf)
    np.fmax.at(largest, scene[chosen], values[chosen])
    rows = np.flatnonzero(chosen & (values == largest[scene]))
    first = np.full(n_scenes, _NONE)
    first[scene[rows[::-1]]] = rows[::-1]
    code = np.where(first < 0, _NONE, codes[first]) if len(codes) else first.copy()
    code[scene[rows[codes[rows] != code[scene[rows]]]]] = _NONE
    return code, first


def _extreme(
    calls: _Calls,
    values: _Floats,
    rival_from: Callable[[_Floats], _Floats],
    *,
    possible: _Floats | None = None,
    codes: _Ints | None = None,
    rival_codes: _Ints | None = None,
    sure: _Flags | None = None,
) -> tuple[_Ints, _Ints, _Flags]:
    """The call of largest value of each scene.

    Args:
        calls: the calls.
        values: of each call; NaN where not known.
        rival_from: from which value on a call may be taken for the largest, given the largest, [calls] each.
        possible: largest value each call may have, where doubtful; None: ``values``.
        codes: what is asked about it; None: the species.
        rival_codes: the same, _NONE where it is ambiguous; None: ``codes``.
        sure: calls that are not doubtful; None: ``calls.named``.

    Returns:
        Code of the largest call heard (_NONE if a value is not known, or several are largest and differ), its row
        (_NONE: none), and where it is ambiguous: [s] each.
    """
    codes = calls.species if codes is None else codes
    rival_codes = codes if rival_codes is None else rival_codes
    possible = values if possible is None else possible
    sure = calls.named if sure is None else sure
    known = ~np.isnan(values)
    if not (calls.heard & known).any():  # as where a frequency is not measured at all
        none = np.full(calls.n_scenes, _NONE)
        return none, none, calls.any(np.ones(len(calls.scene), np.bool_))
    value, row = _best(values, calls.scene, codes, calls.heard & known, calls.n_scenes)
    unknown = calls.any(calls.heard & ~known)
    value[unknown] = row[unknown] = _NONE
    _, certain = _best(values, calls.scene, codes, sure & known, calls.n_scenes)
    ambiguous = calls.any(np.ones(len(calls.scene), np.bool_)) & ((certain < 0) | unknown)
    best = certain[calls.scene]
    rivals = np.isnan(possible) | (possible >= rival_from(values[best]))
    ambiguous[calls.scene[(best >= 0) & rivals & (rival_codes != codes[best])]] = True
    return value, row, ambiguous


def _times(calls: _Calls) -> dict[str, _Fact]:
    third, across = _third(calls)
    rival_third = np.where(across, _NONE, third)
    onset, offset = calls.onset.astype(np.float64), calls.offset.astype(np.float64)

    def near(best: _Floats) -> _Floats:
        return best - calls.near

    facts = {}
    for name, values, others in (("first", -onset, None), ("last", onset, offset)):
        value, _, ambiguous = _extreme(calls, values, near)
        at, _, at_ambiguous = _extreme(
            calls, values, near, codes=third, rival_codes=rival_third, sure=calls.sure & ~across
        )
        if others is not None:  # of two that are last, one may begin last and the other end last
            other, _, unclear = _extreme(calls, others, near)
            ambiguous = ambiguous | unclear | (other != value)
            other, _, unclear = _extreme(
                calls, others, near, codes=third, rival_codes=rival_third, sure=calls.sure & ~across
            )
            at_ambiguous = at_ambiguous | unclear | (other != at)
        facts[name] = _Fact(_named(calls, value), ambiguous)
        facts[f"{name}_third"] = _Fact(_chosen(pa.array(THIRDS, _TEXT), at), at_ambiguous)
    return facts


def _pitch(calls: _Calls) -> tuple[dict[str, _Fact], pa.Array]:
    measured = {name: _all_known(calls, name) for name in ("f0_hz", "peak_hz")}
    facts = {}
    for name, sign in (("highest", 1.0), ("lowest", -1.0)):

        def near(best: _Floats, sign: float = sign) -> _Floats:
            return np.asarray(best / NEAR_RATIO**sign)  # of negative values, the lower frequency is the larger one

        by_f0, by_peak = (_extreme(calls, sign * calls.measured[measure], near) for measure in ("f0_hz", "peak_hz"))
        value = np.where(measured["f0_hz"], by_f0[0], by_peak[0])
        ambiguous = np.where(measured["f0_hz"], by_f0[2], by_peak[2])
        # a low voice with strong overtones: which is high depends on who listens
        ambiguous |= measured["f0_hz"] & measured["peak_hz"] & (by_f0[0] != by_peak[0])
        facts[name] = _Fact(_named(calls, value), ambiguous)
    return facts, _measure(measured)


def _longest(calls: _Calls) -> dict[str, _Fact]:
    length = (calls.offset - calls.onset).astype(np.float64)
    value, row, ambiguous = _extreme(
        calls, length, lambda best: best * 9 / 10, possible=calls.longest.astype(np.float64)
    )
    length_s = _chosen(pa.array((calls.offset - calls.onset) / calls.rate, _DOUBLE), row)
    # How long it is may be said if the longest sure call is longest of all, whoever calls.
    surely = np.full(calls.n_scenes, -np.inf)
    np.maximum.at(surely, calls.scene[calls.sure], length[calls.sure])
    longer = ~calls.sure & (calls.longest >= surely[calls.scene])
    return {"longest": _Fact(_named(calls, value), ambiguous), "longest_s": _Fact(length_s, calls.any(longer))}


def _loudest(calls: _Calls) -> tuple[_Fact, pa.Array]:
    names = ("snr_loudness_db", "snr_scene_db")
    measured = {name: _all_known(calls, name) for name in names}

    def near(best: _Floats) -> _Floats:
        return best - NEAR_DB

    by_loudness, by_level, by_band = (_extreme(calls, calls.measured[name], near) for name in (*names, "snr_band_db"))
    value = np.where(measured["snr_loudness_db"], by_loudness[0], by_level[0])
    ambiguous = np.where(measured["snr_loudness_db"], by_loudness[2], by_level[2])
    # what stands out most from the noise around it may be taken for the loudest
    ambiguous |= by_band[2] | (by_band[0] != value)
    return _Fact(_named(calls, value), ambiguous), _measure(measured)


def _all_known(calls: _Calls, name: str) -> _Flags:
    """Scenes in which calls are heard, and all that are have this measure."""
    return calls.any(calls.heard) & ~calls.any(calls.heard & np.isnan(calls.measured[name]))


def _measure(measured: dict[str, _Flags]) -> pa.Array:
    (first, by_first), (second, by_second) = measured.items()
    return pc.if_else(pa.array(by_first), first, pc.if_else(pa.array(by_second), second, pa.scalar(None, _TEXT)))


def _ranges(groups: _Groups) -> _Fact:
    calls = groups.calls
    everything = np.ones(len(calls.scene), np.bool_)
    heard = groups.count(calls.heard) > 0
    low, high = calls.measured["low_hz"], -calls.measured["high_hz"]
    edges = [groups.least(low, calls.heard), -groups.least(high, calls.heard)]
    parts = [
        (name, pa.array(edge, _FLOAT, mask=np.isnan(edges).any(axis=0) | ~heard))
        for name, edge in zip(("low_hz", "high_hz"), edges, strict=True)
    ]
    certain = [groups.least(low, calls.named), -groups.least(high, calls.named)]
    possible = [groups.least(low, everything), -groups.least(high, everything)]
    with np.errstate(invalid="ignore"):
        clear = (certain[0] <= possible[0] * NEAR_RATIO) & (certain[1] * NEAR_RATIO >= possible[1])
    clear &= groups.count(calls.named) > 0
    ambiguous = calls.any(calls.species == _NONE)
    ambiguous[groups.scene[~clear]] = True
    return _Fact(groups.lists(*parts, chosen=heard), ambiguous)


# at once


def _overlaps(calls: _Calls) -> dict[str, _Fact]:
    everything = np.ones(len(calls.scene), np.bool_)
    half, rest = calls.near // 2, calls.near - calls.near // 2
    # Two calls overlap for certain if they do by more than NEAR_S, and can't if they are further apart.
    shrunk, grown = (calls.onset + half, calls.offset - rest), (calls.onset - half, calls.offset + calls.tail + rest)
    heard = _pairs(calls, calls.onset, calls.offset, calls.heard)
    sure = _pairs(calls, *shrunk, calls.sure)
    named = _pairs(calls, *shrunk, calls.named)
    possible = _pairs(calls, *grown, everything)
    keys, named_keys, possible_keys = (_species_pairs(calls, pairs) for pairs in (heard, named, possible))
    unnamed = np.zeros(calls.n_scenes, np.bool_)
    for rows in possible:
        unnamed[calls.scene[rows[calls.species[rows] == _NONE]]] = True
    width = max(len(calls.names), 1)
    names = pa.array(calls.names, _TEXT)
    species, other = (names.take(pa.array(code)) for code in (keys // width % width, keys % width))
    pairs = pa.StructArray.from_arrays([species, other], names=["species", "other"])
    n_pairs, n_named, n_possible = (
        np.bincount(which // width**2, minlength=calls.n_scenes) for which in (keys, named_keys, possible_keys)
    )
    any_sure, any_possible = (_scenes_of(calls, pairs) for pairs in (sure, possible))
    most_sure = np.maximum(_most_at_once(calls, *shrunk, calls.sure), calls.any(calls.sure))
    most_possible = _most_at_once(calls, *grown, everything)
    return {
        "any_overlap": _Fact(pa.array(_scenes_of(calls, heard)), any_sure != any_possible),
        "overlapping": _Fact(_lists(n_pairs, pairs), (n_named != n_possible) | unnamed),
        "max_simultaneous": _Fact(
            pa.array(_most_at_once(calls, calls.onset, calls.offset, calls.heard)), most_sure != most_possible
        ),
    }


def _pairs(calls: _Calls, start: _Ints, end: _Ints, chosen: _Flags) -> tuple[_Ints, _Ints]:
    """All pairs of chosen calls that overlap, as rows; calls must be sorted by ``start`` in each scene."""
    rows = np.flatnonzero(chosen & (start < end))
    first, second = [], []
    active, lag = np.arange(len(rows)), 1
    while len(active):
        active = active[active + lag < len(rows)]
        left, right = rows[active], rows[active + lag]
        # later ones start later still, so what this one doesn't reach it doesn't overlap
        active = active[(calls.scene[left] == calls.scene[right]) & (start[right] < end[left])]
        first.append(rows[active])
        second.append(rows[active + lag])
        lag += 1
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *first]), np.concatenate([none, *second])


def _species_pairs(calls: _Calls, pairs: tuple[_Ints, _Ints]) -> _Ints:
    """Different known species that overlap: sorted keys (scene, lower species, upper species), each once."""
    width = max(len(calls.names), 1)
    codes = [calls.species[rows] for rows in pairs]
    lower, upper = np.minimum(*codes), np.maximum(*codes)
    kept = (lower != upper) & (lower != _NONE)
    return np.unique((calls.scene[pairs[0]][kept] * width + lower[kept]) * width + upper[kept])


def _scenes_of(calls: _Calls, pairs: tuple[_Ints, _Ints]) -> _Flags:
    return np.bincount(calls.scene[pairs[0]], minlength=calls.n_scenes) > 0


def _most_at_once(calls: _Calls, start: _Ints, end: _Ints, chosen: _Flags) -> _Ints:
    rows = np.flatnonzero(chosen & (start < end))
    scene, time = np.tile(calls.scene[rows], 2), np.concatenate([start[rows], end[rows]])
    step = np.repeat([1, -1], len(rows))
    order = np.lexsort((step, time, scene))  # what touches does not overlap
    highest = np.zeros(calls.n_scenes, np.int64)
    np.maximum.at(highest, scene[order], np.cumsum(step[order]))
    return highest


# columns


def _lists(sizes: _Ints, values: pa.Array) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    kind = listed(values.type)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def _chosen(values: pa.Array, rows: _Ints) -> pa.Array:
    return values.take(pa.array(rows, mask=rows < 0))


def _named(calls: _Calls, codes: _Ints) -> pa.Array:
    return _chosen(pa.array(calls.names, _TEXT), codes)


def _flags(column: Any) -> _Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _whole(column: Any) -> _Ints:
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)
