"""Can the answer be had from what should say nothing? A classifier looks for leaks in the items of a question task.

::

    heard = Heard(items, scenes, events, audio, 16000)     # tables as rows or frames; audio: scene_id -> samples
    leak(answer_rows(heard, says("Yes")))                  # nuisances of the whole item -> the answer
    leak(option_rows(heard))                               # nuisances of option against query -> is it the right one
    leak(question_rows(heard, says("Yes")))                # the question without audio; of choices without `says`
    leak(options_only_rows(heard))                         # an option among the others, without the query
    baseline(heard), nearest_extent(heard)                 # duration and band, which may tell
    nearest_option(heard)                                  # share of items answered by likeness of sound: solvable?

``leak`` gives the cross-fitted AUC and its upper 95 % bound. With no leak the bound is under 0.53 in 99.9 % of runs
from 8500 items of yes and no on, or 2800 items of four options; in 95 % of runs from half as many on.

A proof needs items from two banks or more (:func:`pooled`): in any one, some types are recorded alike by accident.
Noise, bandwidth and tilt are measured where no event is, so that a call's own sound, by which an item is to be
answered, isn't taken for a trace of its recording. Level, peak and length of a clip that is nothing but a call depend
on the call all the same: look for leaks with banks whose calls differ in the course of their pitch alone
(``make_task_bank(flat=True)``).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.fft
from numpy.typing import NDArray

from synthscape.labels.items import ITEMS_SCHEMA

Rows = list[dict[str, Any]]
FloatArray = NDArray[np.floating[Any]]

FRAME_S = 0.02
BAND_EDGES_HZ = (60.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0)
SCALE = 32768.0
SHARED = ("recording_id", "recordist", "site", "source_uid")
SHARED += ("background_clip_ids", "background_recording_ids", "background_sites")
_TINY = 1e-12
_CATEGORIES = 250  # as many as the classifier takes


# ---- what can be heard of a recording, whatever calls in it


def features(audio: NDArray[Any], rate: int, active: Sequence[tuple[int, int]] | None = None) -> dict[str, float]:
    """Nuisances of a clip or scene, by name; NaN is what can't be measured in it.

    Args:
        audio: int16, or float of full scale 1, [samples].
        rate: Hz.
        active: [onset, offset) of all events in samples: floor, bandwidth and tilt are measured outside of them, and
            are NaN where less than three frames are left. None: anywhere.
    """
    x = np.asarray(audio)
    x = x.astype(np.float32) / np.float32(SCALE) if x.dtype.kind == "i" else x.astype(np.float32, copy=False)
    assert len(x), "a scene without samples: nothing can be measured in it"
    size = int(FRAME_S * rate)
    if len(x) < size:
        x = np.pad(x, (0, size - len(x)))
    frames = x[: len(x) // size * size].reshape(-1, size)
    energy = np.einsum("ij,ij->i", frames, frames) / size
    energy_db = 10 * np.log10(energy + _TINY)
    peak = float(np.abs(x).max())
    level_db = 10 * np.log10(float(np.mean(energy)) + _TINY)
    found = {
        "length_s": len(audio) / rate,
        "level_db": level_db,
        "peak_db": 20 * np.log10(peak + 1e-6),
        "crest_db": 20 * np.log10(peak + 1e-6) - level_db,
        "dc": float(x.mean()) * SCALE,
        "level_spread_db": float(energy_db.std()),
    }

    # where it sounds
    loud = np.flatnonzero(energy_db > np.quantile(energy_db, 0.1) + 10)
    smooth = np.convolve(energy, np.ones(min(5, len(energy))), mode="same")
    sounds = np.flatnonzero(x)
    found |= {
        "lead_s": float(loud[0]) * FRAME_S if len(loud) else np.nan,
        "trail_s": float(len(frames) - 1 - loud[-1]) * FRAME_S if len(loud) else np.nan,
        "loudest_s": float(smooth.argmax()) * FRAME_S,
        "loudest_share": float(smooth.argmax()) / len(frames),
        "zeros_before": float(sounds[0]) if len(sounds) else np.nan,
        "zeros_after": float(len(x) - 1 - sounds[-1]) if len(sounds) else np.nan,
    }

    # what else sounds
    outside = np.ones(len(frames), dtype=bool)
    for onset, offset in active or ():
        outside[max(0, onset // size) : -(-offset // size)] = False
    names = [f"floor_{int(low)}_db" for low in BAND_EDGES_HZ[:-1]]
    names += ["floor_db", "bandwidth_hz", "cutoff_hz", "cutoff_db", "tilt_db", "gap_level_db"]
    if active is not None:
        found["outside_s"] = float(outside.sum()) * FRAME_S
    if outside.sum() < 3:
        return found | dict.fromkeys(names, np.nan)
    gaps, gap_energy = frames[outside], energy[outside]
    hz, window, starts = _bins(size, rate)
    power = scipy.fft.rfft(gaps * window, axis=1)
    power = power.real**2 + power.imag**2
    bands = np.add.reduceat(power, starts, axis=1)[:, : len(BAND_EDGES_HZ) - 1]
    tenth = len(bands) // 10
    floor = np.partition(bands, tenth, axis=0)[tenth]
    quiet = power[gap_energy <= np.partition(gap_energy, len(gap_energy) // 5)[len(gap_energy) // 5]].mean(axis=0)
    quiet_db = 10 * np.log10(quiet + _TINY)
    summed = np.cumsum(quiet)
    used = slice(int(starts[0]), len(hz) - 2)
    octaves = np.log2(hz[used])
    octaves -= octaves.mean()
    width = 8
    sums = np.concatenate([[0.0], np.cumsum(quiet_db)])
    means = (sums[width:] - sums[:-width]) / width
    steps = means[:-width][width:] - means[2 * width :]  # below the edge less above it; not of the lowest bins
    values = [
        *(10 * np.log10(floor + _TINY)),
        float(np.quantile(energy_db[outside], 0.1)),
        float(hz[np.searchsorted(summed, 0.99 * summed[-1])]),
        float(hz[int(steps.argmax()) + 2 * width]),
        float(steps.max()),
        float(octaves @ quiet_db[used] / (octaves @ octaves)),
        10 * np.log10(float(gap_energy.mean()) + _TINY),
    ]
    return found | {name: float(value) for name, value in zip(names, values, strict=True)}


@lru_cache
def _bins(size: int, rate: int) -> tuple[FloatArray, NDArray[np.float32], NDArray[np.int64]]:
    hz = scipy.fft.rfftfreq(size, 1 / rate)
    starts = np.searchsorted(hz, [edge for edge in BAND_EDGES_HZ if edge < rate / 2])
    return hz, np.hanning(size + 2)[1:-1].astype(np.float32), starts


# ---- items, and what can be known of their scenes


@dataclass
class Heard:
    """Items with the tables and the audio of their scenes.

    Attributes:
        items: rows of :data:`ITEMS_SCHEMA`; a frame, an Arrow table, or dicts.
        scenes, events: the tables of their scenes, in the same forms.
        audio: samples by scene_id, int16 or float [samples]. Scenes without audio have no features.
        rate: Hz.
        anywhere: measure noise also where calls are, for what has no events table.
    """

    items: Any
    scenes: Any
    events: Any
    audio: Mapping[str, NDArray[Any]]
    rate: int
    anywhere: bool = False
    _known: dict[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = rows_of(self.items)
        missing = {"item_id", "options", "answer", "sources", "query_scene_id"} - set(self.items[0])
        assert not missing, f"items lack {missing}; their columns are {ITEMS_SCHEMA.names}"
        self.scene_of = {row["scene_id"]: row for row in rows_of(self.scenes)}
        self.events_of: dict[str, Rows] = {}
        for row in rows_of(self.events):
            self.events_of.setdefault(row["scene_id"], []).append(row)

    @cached_property
    def names(self) -> list[str]:
        """Names of the features of a scene."""
        some = next(iter(self.audio), None)
        return [] if some is None else list(self._measured(some))

    def of(self, scene_id: str) -> FloatArray:
        """Nuisances of a scene, in the order of ``names``: those of :func:`features`, and what its tables say."""
        if scene_id not in self._known:
            found = self._measured(scene_id) if scene_id in self.audio else dict.fromkeys(self.names, np.nan)
            self._known[scene_id] = np.array(list(found.values()))
        return self._known[scene_id]

    def mean_of(self, scene_ids: Sequence[str]) -> FloatArray:
        """Mean of each feature over scenes, of those in which it is known."""
        if len(scene_ids) == 1:
            return self.of(scene_ids[0])
        table = np.array([self.of(one) for one in scene_ids]).reshape(-1, len(self.names))
        known = ~np.isnan(table)
        with np.errstate(invalid="ignore"):
            return np.where(known, table, 0).sum(axis=0) / known.sum(axis=0)

    def _measured(self, scene_id: str) -> dict[str, float]:
        samples, events = self.audio[scene_id], self.events_of.get(scene_id, [])
        active = [(int(event["onset"]), int(event["offset"])) for event in events]
        edges = [edge for one in active for edge in one]
        scene = self.scene_of.get(scene_id, {})
        return features(samples, self.rate, None if self.anywhere else active) | {
            "first_s": min(edges) / self.rate if active else np.nan,
            "after_last_s": (len(samples) - max(edges)) / self.rate if active else np.nan,
            "middle_share": float(np.mean(edges)) / max(1, len(samples)) if active else np.nan,
            "n_events": float(len(events)),
            "scene_gain_db": _number(scene.get("scene_gain_db")),
            "scene_level_db": _number(scene.get("level_dbfs")),
            "n_backgrounds": float(len(_listed(scene.get("background_clip_ids")))),
        }

    def origins(self, item: Mapping[str, Any], scene_ids: Iterable[str]) -> dict[str, set[str]]:
        """Recordings, recordists, sites and archive numbers of the events of scenes, and of their backgrounds."""
        wanted = set(scene_ids)
        found: dict[str, set[str]] = {}
        for name in SHARED[:4]:
            found[name] = {
                source[name] for source in _listed(item["sources"]) if source["scene_id"] in wanted and source[name]
            }
        for name in SHARED[4:]:
            found[name] = {
                value for one in wanted for value in _listed(self.scene_of.get(one, {}).get(name)) if value is not None
            }
        return found


def rows_of(table: Any) -> Rows:
    """Rows as dicts, of a frame, an Arrow table or dicts; what is missing is None."""
    if isinstance(table, pd.DataFrame):
        table = pa.Table.from_pandas(table, preserve_index=False)
    return list(table.to_pylist() if isinstance(table, pa.Table) else table)


def examples_of(item: Mapping[str, Any]) -> list[str]:
    """All example clips of an item: what its options name, else all it has beside query and background."""
    named = [one for option in _listed(item["options"]) for one in _listed(option["example_scene_ids"])]
    rest = [
        one
        for one in _listed(item.get("scene_ids"))
        if one not in (item["query_scene_id"], item["background_scene_id"])
    ]
    return list(dict.fromkeys(named)) or rest


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value)


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)


def _code(value: Any) -> float:
    """A category; different names rarely share one."""
    return np.nan if value is None else float(zlib.crc32(str(value).encode()) % _CATEGORIES)


# ---- rows for the classifier


@dataclass
class Evidence:
    """What is known of each row, and what is to be guessed.

    Attributes:
        x: float32 [rows, features], NaN where unknown.
        y: bool [rows].
        groups: number of the item of each row.
        names: of the features; those that begin with ``#`` are categories.
        parts: number of the bank each row's item was made from, where they are several; see :func:`pooled`.
    """

    x: NDArray[np.float32]
    y: NDArray[np.bool_]
    groups: NDArray[Any]
    names: list[str]
    parts: NDArray[Any] | None = None

    def without(self, *words: str) -> Evidence:
        """The same, less the features whose name has one of these words in it."""
        kept = [name for name in self.names if not any(word in name for word in words)]
        columns = [self.names.index(name) for name in kept]
        return Evidence(self.x[:, columns], self.y, self.groups, kept, self.parts)


def pooled(*evidence: Evidence) -> Evidence:
    """Rows of items from several banks, each tested by what was learnt from the others.

    In any one bank some types are recorded alike by accident, which a classifier finds however the items are made.
    What it finds in all banks comes from how items are made. Give the items of each bank a seed of their own: the same
    numbers would draw the same classes and answers again.
    """
    counts = np.cumsum([0, *(one.groups.max() + 1 for one in evidence[:-1])])
    return Evidence(
        np.concatenate([one.x for one in evidence]),
        np.concatenate([one.y for one in evidence]),
        np.concatenate([one.groups + before for one, before in zip(evidence, counts, strict=True)]),
        evidence[0].names,
        np.repeat(np.arange(len(evidence)), [len(one.y) for one in evidence]),
    )


Item = Mapping[str, Any]
Right = Callable[[Item], "bool | None"]


def says(answer: str) -> Right:
    """Is this the answer?"""
    return lambda item: item["answer"] == answer


def answer_rows(heard: Heard, right: Right | None = None) -> Evidence:
    """Nuisances of the query and of its backgrounds and sources, and how far the examples differ in them.

    ``right`` says of an item what is to be guessed (None leaves it out), a row an item; without it there is a row an
    option: does its letter belong to the answer?
    """
    names = [f"query {name}" for name in heard.names] + _WHEREABOUTS + _apart_names(heard)

    def known(item: Item) -> list[FloatArray]:
        return [heard.of(item["query_scene_id"]), _whereabouts(heard, item), _apart(heard, item, examples_of(item))]

    return _of_items(heard, names, known, right)


def question_rows(heard: Heard, right: Right | None = None) -> Evidence:
    """All a reader of the question knows who hears nothing; rows as in :func:`answer_rows`."""
    names = ["#wording", "#negatives", "#matched", "#domain_shift", "n_options", "n_examples", "n_scenes", "n_species"]
    names += ["has_background", *(f"#{name} {place}" for place in range(8) for name in ("class", "species"))]

    def known(item: Item) -> list[FloatArray]:
        options = _listed(item["options"])
        codes = [_code(item.get(name)) for name in ("wording", "negatives", "matched", "domain_shift")]
        counts = [
            len(options),
            len(examples_of(item)),
            len(_listed(item.get("scene_ids"))),
            len({option["species"] for option in options}),
            item["background_scene_id"] is not None,
        ]
        padded = [*options, *([{}] * 8)][:8]
        return [np.array([*codes, *counts, *(_code(one.get(name)) for one in padded for name in ("class", "species"))])]

    return _of_items(heard, names, known, right)


def option_rows(heard: Heard) -> Evidence:
    """A row an option: how far its examples differ from the query in each nuisance, and what origin they share."""

    def known(item: Item) -> Iterable[FloatArray]:
        for option in _listed(item["options"]):
            yield _apart(heard, item, _listed(option["example_scene_ids"]))

    return _of_options(heard, _apart_names(heard), known)


def options_only_rows(heard: Heard) -> Evidence:
    """A row an option: its name, letter and kin, and how it sounds among the others; nothing of the query."""
    names = ["#letter", "#class", "#species", "#call_type", "#wording"]
    names += ["n_options", "n_same_species", "n_same_genus", "n_examples", *heard.names]
    names += [f"{name} from others" for name in heard.names] + [f"{name} to nearest" for name in heard.names]

    def known(item: Item) -> Iterable[FloatArray]:
        options = _listed(item["options"])
        table = np.array([heard.mean_of(_listed(option["example_scene_ids"])) for option in options])
        for place, option in enumerate(options):
            others = [other for other in options if other is not option]
            rest = np.delete(table, place, axis=0)
            codes = [_code(option[name]) for name in ("letter", "class", "species", "call_type")]
            counts = [
                len(options),
                sum(other["species"] == option["species"] for other in others),
                sum(_genus(other) == _genus(option) for other in others),
                len(_listed(option["example_scene_ids"])),
            ]
            if len(rest):
                far = [table[place] - rest.mean(axis=0), np.abs(rest - table[place]).min(axis=0)]
            else:
                far = [np.full(table.shape[1], np.nan)] * 2
            yield np.concatenate([codes, [_code(item.get("wording"))], counts, table[place], *far])

    return _of_options(heard, names, known)


def _genus(option: Mapping[str, Any]) -> str:
    return str(option["species"]).split(" ")[0]


_PLACES = ("background_clip_ids", "background_sites")
_ORIGINS = ("recordist", "site", "recording_id")
_WHEREABOUTS = ["n_patches", *(f"#{name} {place}" for place in range(2) for name in (*_PLACES, *_ORIGINS))]


def _whereabouts(heard: Heard, item: Item) -> FloatArray:
    """Background, site and recordist of the query, as categories."""
    query = item["query_scene_id"]
    scene = heard.scene_of.get(query, {})
    sources = [source for source in _listed(item["sources"]) if source["scene_id"] == query]
    known: list[float] = [sum(source["role"] == "patch" for source in sources)]
    for place in range(2):
        for name in _PLACES:
            values = _listed(scene.get(name))
            known.append(_code(values[place] if place < len(values) else None))
        known += [_code(sources[place][name] if place < len(sources) else None) for name in _ORIGINS]
    return np.array(known)


def _apart_names(heard: Heard) -> list[str]:
    return [f"{name} apart" for name in heard.names] + [f"same {name}" for name in SHARED]


def _apart(heard: Heard, item: Item, examples: Sequence[str]) -> FloatArray:
    query = item["query_scene_id"]
    of_examples, of_query = heard.origins(item, examples), heard.origins(item, [query])
    same = [len(of_examples[name] & of_query[name]) / max(1, len(of_examples[name])) for name in SHARED]
    return np.concatenate([np.abs(heard.mean_of(examples) - heard.of(query)), same])


def _of_options(heard: Heard, names: list[str], known: Callable[[Item], Iterable[FloatArray]]) -> Evidence:
    rows, right, groups = [], [], []
    for number, item in enumerate(heard.items):
        for row, option in zip(known(item), _listed(item["options"]), strict=True):
            rows.append(row)
            right.append(bool(option["present"]))
            groups.append(number)
    return Evidence(np.array(rows, dtype=np.float32), np.array(right), np.array(groups), names)


def _of_items(
    heard: Heard, names: list[str], known: Callable[[Item], list[FloatArray]], right: Right | None
) -> Evidence:
    rows, found, groups = [], [], []
    for number, item in enumerate(heard.items):
        row = np.concatenate(known(item))
        if right is None:
            letters = set(_listed(item["answer_letters"]))
            asked = [(option["letter"], option["letter"] in letters) for option in _listed(item["options"])]
        else:
            is_right = right(item)
            asked = [] if is_right is None else [("", is_right)]
        for letter, is_right in asked:
            rows.append(np.append(row, _code(letter)))
            found.append(is_right)
            groups.append(number)
    return Evidence(np.array(rows, dtype=np.float32), np.array(found), np.array(groups), [*names, "#letter"])


# ---- what a classifier makes of them


def leak(evidence: Evidence) -> tuple[float, float]:
    """AUC and its upper 95 % bound, of :func:`auc_upper_bound`."""
    categories = [name.startswith("#") for name in evidence.names]
    return auc_upper_bound(evidence.x, evidence.y, evidence.groups, categories, evidence.parts)


def auc_upper_bound(
    x: FloatArray,
    y: NDArray[np.bool_],
    groups: NDArray[Any],
    categories: Sequence[bool] | None = None,
    parts: NDArray[Any] | None = None,
    seed: int = 0,
) -> tuple[float, float]:
    """AUC of gradient boosting on items it was not fitted to, and its one-sided upper 95 % bound.

    Args:
        x: [rows, features], NaN where unknown.
        y: what is to be guessed, [rows].
        groups: item of each row; rows of an item are never in fitting and testing at once, and their dependence is in
            the bound (Obuchowski 1997: DeLong's variance for clusters).
        categories: which columns are categories.
        parts: the part of the items that each row's belongs to, tested in turn by what was learnt from the others
            (None: five at random); AUCs are those of each part, weighted by its pairs.
        seed: of the parts.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    items, item_of = np.unique(groups, return_inverse=True)
    if parts is None:
        parts = np.random.default_rng(seed).permutation(np.arange(len(items)) % 5)[item_of]
    x = np.asarray(x, dtype=np.float32)
    unknown = np.flatnonzero(
        np.isnan(x).all(axis=0) & ~np.array([False] * x.shape[1] if categories is None else categories)
    )
    assert not len(unknown), (
        f"columns {unknown.tolist()} were measured nowhere: what they would tell was not looked for"
    )
    aucs, variances, weights = [], [], []
    for one in np.unique(parts):
        test = parts == one
        model = HistGradientBoostingClassifier(
            learning_rate=0.08,
            max_iter=80,
            max_leaf_nodes=15,
            min_samples_leaf=40,
            l2_regularization=1.0,
            early_stopping=False,
            categorical_features=None if categories is None or not any(categories) else np.array(categories),
            random_state=seed,
        )
        with threadpool_limits(1):  # threads that wait for each other take ten times as long on a busy machine
            model.fit(x[~test], y[~test])
            scores = model.decision_function(x[test])
        assert np.ptp(scores) > 0, (
            "all rows have the same score: the classifier found nothing to begin with, as where the rows of an item "
            "differ in their letter alone and one of them is right; ask with a row an item (`right`)"
        )
        auc, variance = clustered_auc(scores, y[test], item_of[test])
        aucs.append(auc)
        variances.append(variance)
        weights.append(float(y[test].sum()) * float((~y[test]).sum()))
    share = np.array(weights) / np.sum(weights)
    auc = float(share @ np.array(aucs))
    return auc, auc + 1.645 * float(np.sqrt(share**2 @ np.array(variances)))


def clustered_auc(scores: FloatArray, y: NDArray[np.bool_], groups: NDArray[Any]) -> tuple[float, float]:
    """AUC (ties count half) and its variance, rows of a group being dependent (Obuchowski 1997)."""
    true, false = np.sort(scores[y]), np.sort(scores[~y])
    m, n = len(true), len(false)
    beaten = (np.searchsorted(false, scores[y], "left") + np.searchsorted(false, scores[y], "right")) / (2 * n)
    beats = 1 - (np.searchsorted(true, scores[~y], "left") + np.searchsorted(true, scores[~y], "right")) / (2 * m)
    auc = float(beaten.mean())
    _, group = np.unique(groups, return_inverse=True)
    count = int(group.max()) + 1
    above = np.bincount(group[y], beaten - auc, count)
    below = np.bincount(group[~y], beats - auc, count)
    variance = count / (count - 1) * float(np.sum((above / m + below / n) ** 2))
    return auc, variance


# ---- what may tell


def baseline(heard: Heard) -> tuple[float, float]:
    """AUC of duration and band alone, option against query: legitimate, reported, and to be matched in hard modes."""

    def known(item: Item) -> Iterable[FloatArray]:
        query = _extent(heard, [item["query_scene_id"]])
        for option in _listed(item["options"]):
            yield np.abs(_extent(heard, option["example_scene_ids"]) - query)

    return leak(_of_options(heard, ["octaves of duration", "octaves of frequency"], known))


def _extent(heard: Heard, scene_ids: Sequence[str]) -> FloatArray:
    """Mean duration and mean centre of the band of the calls of scenes, octaves."""
    events = [event for one in scene_ids for event in heard.events_of.get(one, [])]
    bands = [np.sqrt(event["low_hz"] * event["high_hz"]) for event in events if event["low_hz"]]
    lengths = [event["offset_s"] - event["onset_s"] for event in events]
    return np.log2([np.mean(values) if values else np.nan for values in (lengths, bands)])


MELS, WINDOW, HOP_S, RANGE_DB = 40, 256, 0.004, 30.0


def picture(audio: NDArray[Any], rate: int, active: tuple[int, int] | None = None) -> NDArray[np.float32]:
    """Mel spectrogram of a call and 50 ms around it, in dB within 30 dB of its loudest point, zero mean: [times, MELS].

    Args:
        audio: int16, or float of full scale 1, [samples].
        rate: Hz.
        active: [onset, offset) of the call in samples; None: all of it.
    """
    onset, offset = active if active is not None else (0, len(audio))
    around = int(0.05 * rate)
    x = np.asarray(audio)[max(0, onset - around) : offset + around].astype(np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(x, WINDOW // 2), WINDOW)[:: int(HOP_S * rate)]
    power = np.abs(scipy.fft.rfft(frames * np.hanning(WINDOW).astype(np.float32), axis=1)) ** 2
    mel = power @ _mel(WINDOW, rate)
    levels_db = 10 * np.log10(np.maximum(mel / (mel.max() + _TINY), 10 ** (-RANGE_DB / 10)))
    shown = levels_db - levels_db.mean()
    return (shown / (np.linalg.norm(shown) + _TINY)).astype(np.float32)


def likeness(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Cosine of two pictures where they fit best, moved in time and by a band: spectrographic correlation."""
    size = scipy.fft.next_fast_len(len(one) + len(other), real=True)
    a, b = scipy.fft.rfft(one, size, axis=0), scipy.fft.rfft(other, size, axis=0).conj()
    moved = [(a * b).sum(axis=1), (a[:, 1:] * b[:, :-1]).sum(axis=1), (a[:, :-1] * b[:, 1:]).sum(axis=1)]
    return float(scipy.fft.irfft(np.stack(moved), size, axis=1).max())


@lru_cache
def _mel(size: int, rate: int) -> NDArray[np.float32]:
    """Triangles of equal width on the mel scale, [bins, MELS]."""
    hz = scipy.fft.rfftfreq(size, 1 / rate)
    edges = 700 * (10 ** (np.linspace(np.log10(1 + 100 / 700), np.log10(1 + rate / 2 / 700), MELS + 2)) - 1)
    rise = (hz[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - hz[:, None]) / (edges[2:] - edges[1:-1])
    return np.clip(np.minimum(rise, fall), 1e-6, None).astype(np.float32)


def nearest_option(heard: Heard, most: int = 500) -> float:
    """Share of items with one right option, of which that is the one whose examples sound most like the query.

    ``most`` items are looked at. Chance is one by the number of options.
    """
    known: dict[str, list[NDArray[np.float32]]] = {}

    def calls(scene_id: str) -> list[NDArray[np.float32]]:
        if scene_id not in known:
            events = [(int(event["onset"]), int(event["offset"])) for event in heard.events_of.get(scene_id, [])]
            samples = heard.audio[scene_id]
            known[scene_id] = [picture(samples, heard.rate, one) for one in events or [(0, len(samples))]]
        return known[scene_id]

    def alike(option: Item, query: str) -> float:
        examples = [call for one in _listed(option["example_scene_ids"]) for call in calls(one)]
        return max(likeness(example, call) for example in examples for call in calls(query))

    return _share_right(heard, alike, most)


def nearest_extent(heard: Heard) -> float:
    """The same by duration and band alone, an octave of either counting alike: a legitimate cue."""
    return _share_right(
        heard,
        lambda option, query: (
            -float(np.sum(np.abs(_extent(heard, option["example_scene_ids"]) - _extent(heard, [query]))))
        ),
        len(heard.items),
    )


def _share_right(heard: Heard, alike: Callable[[Item, str], float], most: int) -> float:
    hits: list[bool] = []
    for item in heard.items:
        options = [option for option in _listed(item["options"]) if len(_listed(option["example_scene_ids"]))]
        if sum(bool(option["present"]) for option in options) != 1 or len(hits) == most:
            continue
        best = max(options, key=lambda option: alike(option, item["query_scene_id"]))
        hits.append(bool(best["present"]))
    return float(np.mean(hits))
