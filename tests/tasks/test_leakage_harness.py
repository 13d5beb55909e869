"""The harness that looks for leaks finds those that are planted, and none where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.signal

from synthscape.bank.store import ClipStore
from tests.leakage import (
    Heard,
    answer_rows,
    auc_upper_bound,
    clustered_auc,
    features,
    leak,
    nearest_extent,
    nearest_option,
    option_rows,
    options_only_rows,
    pooled,
    question_rows,
    says,
)
from tests.real_banks import make_real_bank
from tests.task_bank import make_task_backgrounds, make_task_bank

RATE = 16000
BOUND = 0.53
APART = ("recording_id", "recordist", "site")


# ---- a choice task in forty lines, right or wrong as it is asked for


def choices(store: ClipStore, n: int, *, seed: int, fault: str = "", within: bool = False) -> Heard:
    """Items with four options, an example each; every clip of the store is a scene of its own.

    ``fault``: the right example is from the query's own ``recording``; or the target is drawn ``first``, and the other
    options are those of its neighbours in the list of classes; or the right one is rarely ``A``.
    """
    clips = store.clips
    columns = {name: clips[name].to_numpy() for name in ("clip_id", *APART)}
    label = clips["cluster"].fillna(clips["call_type"]).to_numpy(str)
    apart = [clips[name].to_numpy() for name in APART if clips[name].notna().any()]
    rows_of = {name: np.flatnonzero(label == name) for name in np.unique(label)}
    rows_of = {name: rows for name, rows in rows_of.items() if clips["recording_id"].iloc[rows].nunique() > 1}
    species = {name: str(clips["species"].iloc[rows[0]]) for name, rows in rows_of.items()}
    names = list(rows_of)
    rng = np.random.default_rng(seed)
    items: list[dict[str, Any]] = []
    while len(items) < n:
        pool = names
        if within:
            one = species[names[int(rng.integers(len(names)))]]
            pool = [name for name in names if species[name] == one]
        if fault == "first":
            target = int(rng.integers(len(names)))
            options = [names[(target + step) % len(names)] for step in (-1, 0, 1, 2)]
            right = 1
        else:
            options = [str(name) for name in rng.choice(pool, 4, replace=False)]
            right = int(rng.choice(4, p=(0.1, 0.3, 0.3, 0.3))) if fault == "A" else int(rng.integers(4))
        query = int(rng.choice(rows_of[options[right]]))
        examples: list[int] = []
        for place, name in enumerate(options):
            rows = rows_of[name]
            if fault == "recording" and place == right:
                near = rows[(apart[0][rows] == apart[0][query]) & (rows != query)]
                rows = near if len(near) else rows[rows != query]
            else:
                rows = rows[np.all([column[rows] != column[query] for column in apart], axis=0)]
            if len(rows):
                examples.append(int(rng.choice(rows)))
        if len(examples) == 4:
            items.append(_item(len(items), columns, options, species, examples, query, right))
    used = {source["clip_id"]: source["row"] for item in items for source in item["sources"]}
    scenes, events, audio = [], [], {}
    for name, row in used.items():
        clip = clips.iloc[row]
        audio[name] = store.pcm(row)
        scenes.append({"scene_id": name, "scene_gain_db": 0.0, "level_dbfs": -30.0})
        onset, offset = int(clip["active_start"]), int(clip["active_end"])
        events.append(
            {
                "scene_id": name,
                "onset": onset,
                "offset": offset,
                "onset_s": onset / RATE,
                "offset_s": offset / RATE,
                "low_hz": clip["low_hz"],
                "high_hz": clip["high_hz"],
            }
        )
    return Heard(items, scenes, events, audio, RATE)


def _item(
    number: int, columns: Any, options: Sequence[str], species: Any, examples: list[int], query: int, right: int
) -> dict[str, Any]:
    ids = columns["clip_id"]
    sources = [
        {
            "scene_id": ids[row],
            "clip_id": ids[row],
            "role": "target",
            "row": row,
            "source_uid": None,
            **{name: columns[name][row] for name in APART},
        }
        for row in dict.fromkeys([*examples, query])
    ]
    return {
        "item_id": f"i{number}",
        "options": [
            {
                "letter": "ABCD"[place],
                "class": name,
                "species": species[name],
                "call_type": None,
                "present": place == right,
                "example_scene_ids": [ids[examples[place]]],
            }
            for place, name in enumerate(options)
        ],
        "answer": "ABCD"[right],
        "answer_letters": ["ABCD"[right]],
        "sources": sources,
        "query_scene_id": ids[query],
        "background_scene_id": None,
        "scene_ids": [ids[row] for row in [*examples, query]],
        "wording": number % 3,
    }


@pytest.fixture(scope="module")
def banks(tmp_path_factory: pytest.TempPathFactory) -> list[ClipStore]:
    """Two banks whose calls differ in the course of their pitch alone."""
    folder = tmp_path_factory.mktemp("banks")
    return [make_task_bank(folder / str(seed), flat=True, recordings=24, seed=seed) for seed in (1, 2)]


def test_the_bank_has_what_tasks_ask_for(banks: list[ClipStore], tmp_path: Path) -> None:
    """48 types in all recordings of their species, by all recordists at all sites; nuisances differ by recording."""
    clips = banks[0].clips
    types = clips.groupby("cluster")

    assert (clips["species"].nunique(), clips["genus"].nunique(), clips["family"].nunique()) == (12, 6, 3)
    assert (types["recording_id"].nunique() == 24).all()
    assert (types["recordist"].nunique() == 6).all()
    assert (types["site"].nunique() == 8).all()
    assert clips.groupby("species")["call_type"].nunique().tolist() == [2] * 12
    assert clips["call_type"].isna().mean() == 0.5
    for name in ("clip_snr_db", "active_start", "bandwidth_hz"):
        of_recordings = clips.groupby("recording_id")[name].mean()
        assert clips.groupby("recording_id")[name].std().median() < 0.2 * of_recordings.std()
    heard = make_task_backgrounds(tmp_path / "fields", n=6, length_s=2).clips
    assert heard["annotations"].notna().sum() == 2
    assert heard["also_species"].notna().sum() == 1
    assert set(heard["species"].dropna()) == {clips["species"].iloc[0], "Homo sapiens"}


def test_tables_may_come_in_any_form(banks: list[ClipStore]) -> None:
    """Rows, frames and Arrow tables of the same items give the same evidence."""
    rows = choices(banks[0], 30, seed=5)
    scenes, events = list(rows.scene_of.values()), [event for some in rows.events_of.values() for event in some]
    frames = Heard(pd.DataFrame(rows.items), pd.DataFrame(scenes), pd.DataFrame(events), rows.audio, RATE)
    tables = Heard(*(pa.Table.from_pylist(some) for some in (rows.items, scenes, events)), rows.audio, RATE)
    for evidence in (option_rows, options_only_rows, question_rows, answer_rows):
        for other in (frames, tables):
            assert np.array_equal(evidence(rows).x, evidence(other).x, equal_nan=True)


# ---- the bound


def test_auc_and_its_variance_are_right() -> None:
    """AUC is the share of pairs in order; its variance is that seen over repeated draws of dependent rows."""
    rng = np.random.default_rng(1)
    aucs, variances = [], []
    for _ in range(300):
        mood = np.repeat(rng.standard_normal(80), 4)
        right = np.tile(np.arange(4), 80) == np.repeat(rng.integers(4, size=80), 4)
        scores = np.round(mood + rng.standard_normal(320) + 0.4 * right, 1)
        auc, variance = clustered_auc(scores, right, np.repeat(np.arange(80), 4))
        aucs.append(auc)
        variances.append(variance)
    pairs = scores[right][:, None] - scores[~right]

    assert auc == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)))
    assert np.mean(variances) == pytest.approx(np.var(aucs), rel=0.25)


def test_nothing_is_found_where_nothing_is() -> None:
    """40 columns of noise, holes and categories: the bound is under 0.53 with 8500 items of yes and no."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((8500, 40)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 0] = rng.integers(0, 200, 8500)
    auc, bound = auc_upper_bound(x, rng.random(8500) < 0.5, np.arange(8500), [True] + [False] * 39)
    print(f"AUC {auc:.3f}, bound {bound:.3f}")

    assert bound <= BOUND


@pytest.mark.parametrize("kind", ["shift", "hole", "category", "joint"])
def test_a_planted_leak_is_found(kind: str) -> None:
    """A shift of a third of a deviation, holes, a category that says more, two columns that only tell together."""
    rng = np.random.default_rng(3)
    n = 4000
    y = rng.random(n) < 0.5
    x = rng.standard_normal((n, 20)).astype(np.float32)
    x[:, 0] = rng.integers(0, 100, n)
    if kind == "shift":
        x[:, 3] += 0.3 * y
    elif kind == "hole":
        x[rng.random(n) < 0.1 + 0.2 * y, 3] = np.nan
    elif kind == "category":
        x[:, 0] = np.where(rng.random(n) < 0.2, rng.integers(0, 50, n) * 2 + y, x[:, 0])
    else:
        x[:, 3] = np.where(rng.random(n) < 0.4, np.abs(x[:, 3]) * np.sign(x[:, 4]) * (2 * y - 1), x[:, 3])
    auc, _ = auc_upper_bound(x, y, np.arange(n), [True] + [False] * 19)

    assert auc > BOUND + 0.01


# ---- what is measured


def test_features_are_what_was_made() -> None:
    """A tone in low-passed noise between digital silence: level, peak, places, floor, bandwidth, tilt and offset."""
    rng = np.random.default_rng(4)
    noise = scipy.signal.sosfilt(scipy.signal.butter(16, 3000, fs=RATE, output="sos"), rng.standard_normal(2 * RATE))
    x = 0.003 * noise / noise.std() + 0.001
    x[8000:12000] += 0.5 * np.sin(2 * np.pi * 1200 * np.arange(4000) / RATE)
    x[:320], x[-640:] = 0, 0
    found = features(x, RATE, [(8000, 12000)])

    assert found["length_s"] == 2
    assert found["level_db"] == pytest.approx(10 * np.log10(np.mean(x**2)), abs=0.01)
    assert found["peak_db"] == pytest.approx(20 * np.log10(np.abs(x).max()), abs=0.01)
    assert (found["zeros_before"], found["zeros_after"]) == (320, 640)
    assert found["lead_s"] == pytest.approx(0.5, abs=0.02)
    assert found["trail_s"] == pytest.approx(1.25, abs=0.02)
    assert 0.5 <= found["loudest_s"] <= 0.75
    assert found["floor_db"] == pytest.approx(10 * np.log10(0.003**2 + 0.001**2), abs=1)
    assert found["bandwidth_hz"] == pytest.approx(3000, abs=150)
    assert found["cutoff_hz"] == pytest.approx(3200, abs=400)
    assert found["dc"] == pytest.approx(32768 * x.mean(), rel=1e-3)
    white = features(rng.standard_normal(RATE) * 0.1, RATE)
    brown = features(np.cumsum(rng.standard_normal(RATE)) * 0.001, RATE)
    assert abs(white["tilt_db"]) < 0.7
    assert brown["tilt_db"] < -4


def test_calls_are_no_noise() -> None:
    """With the call known, floor, bandwidth and tilt are those of what is around it; without room they are unknown."""
    rng = np.random.default_rng(5)
    x = 0.01 * rng.standard_normal(RATE)
    with_call = x.copy()
    with_call[4000:12000] += np.sin(np.arange(8000) / 2)
    alone, heard = features(x, RATE, [(4000, 12000)]), features(with_call, RATE, [(4000, 12000)])
    for name in ("floor_db", "bandwidth_hz", "tilt_db", "cutoff_hz", "floor_500_db", "gap_level_db"):
        assert heard[name] == alone[name]
    assert np.isnan(features(with_call, RATE, [(100, 15900)])["floor_db"])
    assert features((with_call * 8000).astype(np.int16), RATE).keys() == features(with_call, RATE).keys()


# ---- items


def test_items_without_leaks_pass(banks: list[ClipStore]) -> None:
    """3000 items of two banks: neither option against query, nor options alone, nor the question gives the answer."""
    for within in (False, True):
        heard = [choices(bank, 1500, seed=6 + part, within=within) for part, bank in enumerate(banks)]
        for rows in (option_rows, options_only_rows, question_rows):
            auc, bound = leak(pooled(*(rows(one) for one in heard)))
            print(f"{rows.__name__}, within {within}: AUC {auc:.3f}, bound {bound:.3f}")

            assert bound <= BOUND


def test_items_with_leaks_fail(banks: list[ClipStore], tmp_path: Path) -> None:
    """An example from the query's recording, a target drawn first, a rare letter, and a bank of telling recordings."""
    heard = choices(banks[0], 500, seed=7, fault="A")
    assert leak(options_only_rows(heard))[0] > BOUND
    assert leak(question_rows(heard))[0] > BOUND
    heard = choices(banks[0], 500, seed=7, fault="first")
    assert leak(options_only_rows(heard))[0] > BOUND
    hostile = make_task_bank(tmp_path / "hostile", flat=True, hostile=True, recordings=12)
    assert leak(option_rows(choices(hostile, 400, seed=7)))[0] > 0.9
    heard = choices(hostile, 400, seed=7, fault="recording")
    shared = option_rows(heard)
    assert leak(shared)[0] > 0.95
    assert shared.x[shared.y, shared.names.index("same recording_id")].mean() > 0.9


@pytest.mark.parametrize("name", ["floor_db", "#recordist 0", "nothing"])
def test_answers_that_go_with_a_nuisance_are_found(banks: list[ClipStore], name: str) -> None:
    """Yes is said more often over loud noise, or of some recordists: heard in the query, unknown to the question."""
    heard = choices(banks[0], 900, seed=8)
    nuisance = answer_rows(heard, says("A"))
    rng = np.random.default_rng(9)
    says_yes = rng.random(len(heard.items)) < 0.5
    if name != "nothing":
        column = nuisance.x[:, [one.endswith(name) for one in nuisance.names]][:, 0]
        says_yes = np.where(rng.random(len(says_yes)) < 0.4, column > np.nanmedian(column), says_yes)
    for item, yes in zip(heard.items, says_yes, strict=True):
        item["answer"] = "Yes" if yes else "No"
    by_hearing, by_reading = leak(answer_rows(heard, says("Yes")))[0], leak(question_rows(heard, says("Yes")))[0]

    assert (by_hearing > 0.6) == (name != "nothing")
    assert by_reading < 0.56


# ---- the tasks can be solved


@pytest.mark.parametrize(("part", "at_least"), [("hermit", 0.75), ("orca", 0.5), ("finch", 0.8)])
def test_real_call_types_can_be_told(shared_data: Path, tmp_path: Path, part: str, at_least: float) -> None:
    """The example that sounds most like the query is of its type, where chance is 0.25."""
    heard = choices(make_real_bank(tmp_path / part, shared_data, [part]), 300, seed=8)
    by_sound, by_extent = nearest_option(heard), nearest_extent(heard)
    print(f"{part}: {by_sound:.2f} by sound, {by_extent:.2f} by duration and band")

    assert by_sound >= at_least
