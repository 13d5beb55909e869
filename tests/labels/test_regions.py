"""POS, UNK and NEG against one decision a sample, and the DCASE CSV read back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import StoreError
from synthscape.labels.dcase import dcase_csv
from synthscape.labels.regions import (
    BackgroundCall,
    Region,
    background_annotations,
    regions_of_spans,
    sample_labels,
    spans_of_scene,
)
from synthscape.plan.plan import NO_BACKGROUND, NOISE
from synthscape_kernels import mix
from synthscape_kernels.filters import FilterBank
from tests.hand_built import RATE, hand_plan

spans = st.lists(
    st.builds(
        lambda onset, length, label: Region(onset, onset + length, label),
        st.integers(-5, 44),
        st.integers(0, 15),
        st.sampled_from(["POS", "UNK"]),
    ),
    max_size=8,
)


def label_of(sample: int, some: list[Region]) -> str:
    """POS before UNK before NEG, by definition."""
    here = {span.label for span in some if span.onset <= sample < span.offset}
    return next((label for label in ("POS", "UNK") if label in here), "NEG")


@settings(max_examples=200)
@given(spans, st.integers(1, 40))
def test_regions_label_each_sample(some, n_samples):
    """Runs have the label of each of their samples, don't overlap or touch with equal labels, and leave out NEG."""
    expected = [label_of(sample, some) for sample in range(n_samples)]
    regions = regions_of_spans(some, n_samples)
    names = np.array(["NEG", "UNK", "POS"])

    assert names[sample_labels(regions, n_samples)].tolist() == expected
    assert names[sample_labels(some, n_samples)].tolist() == expected
    assert sample_labels(regions, n_samples).dtype == np.int8
    runs = sum(a != b for a, b in zip(["NEG", *expected], expected, strict=False) if b != "NEG")
    assert len(regions) == runs
    assert regions == sorted(regions)
    assert all(0 <= region.onset < region.offset <= n_samples for region in regions)


events = st.lists(
    st.tuples(
        st.integers(0, 30),  # onset
        st.integers(1, 10),  # samples kept
        st.integers(0, 12),  # samples cut
        st.sampled_from([True, False, None]),  # audible
        st.booleans(),  # target
        st.booleans(),  # near
    ),
    max_size=6,
)


@settings(max_examples=200)
@given(events, st.lists(st.tuples(st.integers(0, 35), st.integers(1, 5)), max_size=2))
def test_spans_are_what_the_rules_say(rows, behind):
    """Each sample's label from the rules of POS and UNK, call by call."""
    table = pa.table(
        {
            "onset": pa.array([row[0] for row in rows], pa.int64()),
            "offset": pa.array([row[0] + row[1] for row in rows], pa.int64()),
            "audible": pa.array([row[3] for row in rows], pa.bool_()),
        }
    )
    full = np.array([row[1] + row[2] for row in rows], dtype=np.int64)
    target, near = (np.array([row[k] for row in rows], dtype=bool) for k in (4, 5))
    calls = [BackgroundCall(onset, onset + length, "wren") for onset, length in behind]
    found = sample_labels(regions_of_spans(spans_of_scene(table, full, target, near, calls), 40), 40)
    for sample in range(40):
        label = 0
        if any(call.onset <= sample < call.offset for call in calls):
            label = 1
        for onset, kept, cut, audible, is_target, is_like_it in rows:
            if not onset <= sample < onset + kept:
                continue
            if is_target and audible and kept / (kept + cut) >= 0.5:
                label = 2
            elif is_target or is_like_it:
                label = max(label, 1)

        assert found[sample] == label


@pytest.fixture(scope="module")
def backgrounds(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """Two backgrounds that are silent but where they are annotated, 1 s and 3 s, and one without annotations."""
    folder: Path = tmp_path_factory.mktemp("annotated")
    rng = np.random.default_rng(4)
    with StoreWriter(folder, "backgrounds", RATE) as writer:
        for length_s, boxes in ((1.0, [(0.05, 0.11), (0.9, 0.95)]), (3.0, [(0.5, 0.9), (2.0, 2.05)]), (2.0, None)):
            samples = np.zeros(round(length_s * RATE))
            for start, end in boxes or [(0.0, length_s)]:
                part = slice(round(start * RATE), round(end * RATE))
                samples[part] = rng.choice([-0.5, 0.5], part.stop - part.start)
            names = ("onset_s", "offset_s", "low_hz", "high_hz", "label")
            annotations = None if boxes is None else [
                dict(zip(names, (*box, None, None, f"wren {k}"), strict=True)) for k, box in enumerate(boxes)
            ]  # fmt: skip
            writer.add(samples, {"recording_id": f"b{length_s}", "annotations": annotations})
    return ClipStore.open(folder)


RATIOS = ((1, 1), (3, 4), (3, 2))


@settings(max_examples=40)
@given(
    row=st.integers(0, 1),
    ratio=st.integers(0, 2),
    crop=st.floats(0, 1),
    n_samples=st.integers(3000, 20000),
    crossfade=st.sampled_from([0, 800, 10**6]),
)
def test_annotations_are_where_the_background_is_heard(backgrounds, row, ratio, crop, n_samples, crossfade):
    """Mixed by the kernel, a background that is silent outside of its annotations is heard inside of them only."""
    p, q = RATIOS[ratio]
    played = -(-int(backgrounds.lengths[row]) * p // q)
    fade = min(crossfade, played // 4)
    room = played - n_samples + 1 if played >= n_samples else played - fade
    offset = min(int(crop * room), room - 1)
    scene = {
        "n_samples": n_samples,
        "background": (NOISE, row),
        "background_ratio": (0, ratio),
        "background_offset": (0, offset),
    }
    plan = hand_plan((scene, []), ratios=RATIOS)
    calls = background_annotations(plan, backgrounds, 0, crossfade)
    pcm = backgrounds.pcm(row)
    heard = np.zeros(n_samples, np.float32)
    filters = FilterBank(plan.ratio_p, plan.ratio_q)
    filters.require(np.arange(3, dtype=np.int16))
    mix.play_background(pcm, 0, len(pcm), ratio, filters.filters, offset, fade, heard)
    inside = np.zeros(n_samples, bool)
    for call in calls:
        inside[call.onset : call.offset] = True
    reach = 0 if p == q else 60  # of the resampling filter
    wide = np.convolve(inside, np.ones(2 * reach + 1), "same") > 0

    seen = slice(reach, n_samples - reach)  # what lies just outside of the scene may ring into it
    assert not heard[seen][~wide[seen]].any()
    for call in calls:
        middle = heard[call.onset : call.offset]
        assert len(middle) < 3 or np.abs(middle).max() > 0.01


def test_annotations_that_are_not_there(backgrounds, tmp_path):
    """Noise, no background, one without annotations: none. A box without an end is an error."""
    none = hand_plan(
        ({"background": (NOISE, NO_BACKGROUND)}, []), ({"background": (2, NOISE)}, []), ({"background": (1, 2)}, [])
    )
    plain = tmp_path / "plain"
    with StoreWriter(plain, "backgrounds", RATE) as writer:
        writer.add(np.ones(800) * 0.1, {"annotations": [{"onset_s": 0.05, "offset_s": None}]})

    assert background_annotations(none, backgrounds, 0, 0) == background_annotations(none, backgrounds, 1, 0) == []
    assert background_annotations(none, backgrounds, 2, 0) == [BackgroundCall(4000, 7200, "wren 0")]
    with pytest.raises(StoreError, match=r"background 0: expected onset_s up to offset_s, got 0\.05 and None"):
        background_annotations(hand_plan(({}, [])), ClipStore.open(plain), 0, 0)


@given(
    st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 2**20), st.sampled_from(["POS", "UNK"])), max_size=6),
    st.sampled_from([8000, 16000, 22050, 44100, 48000, 384000, 999_983]),
)
def test_dcase_csv_reads_back_to_the_sample(rows, rate):
    """pandas gives every time back to the sample, sorted as the evaluation wants it, one row a call."""
    some = [Region(onset, onset + length, label) for onset, length, label in rows]
    text = dcase_csv("s1.wav", some, rate)
    table = pd.read_csv(io.StringIO(text), dtype={"Starttime": float, "Endtime": float})

    assert list(table.columns) == ["Audiofilename", "Starttime", "Endtime", "Q"]
    back = [
        Region(round(row.Starttime * rate), round(row.Endtime * rate), row.Q) for row in table.itertuples(index=False)
    ]
    assert back == sorted(some)
    assert set(table["Audiofilename"]) <= {"s1.wav"}


def test_dcase_csv_of_nothing_is_its_header():
    """No POS, no UNK: a table with columns and no rows; a name with a comma stays one cell."""
    assert dcase_csv("a.wav", [], 8000) == "Audiofilename,Starttime,Endtime,Q\n"
    (_, row) = csv.reader(io.StringIO(dcase_csv("a,b.wav", [Region(0, 8, "UNK")], 8000)))
    assert row == ["a,b.wav", "0.000000000", "0.001000000", "UNK"]
