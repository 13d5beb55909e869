"""RTTM files, read back and scored by what reads and scores them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyannote.core import Annotation, Segment, Timeline
from pyannote.database.util import load_rttm
from pyannote.metrics.diarization import DiarizationErrorRate

from synthscape.labels.rttm import rttm_texts

RATE = 16000


def events(*rows: dict) -> pa.Table:
    """An events table of the columns that matter here; events are numbered in each scene."""
    number: dict[str, int] = {}
    full = []
    for row in rows:
        scene = row.get("scene_id", "s0")
        number[scene] = number.get(scene, -1) + 1
        full.append({"scene_id": scene, "event_id": number[scene], "onset": 0, "offset": 800, "speaker": "a_1", **row})
    kinds = {"scene_id": pa.string(), "event_id": pa.int32(), "onset": pa.int64(), "offset": pa.int64()}
    kinds["speaker"] = pa.string()
    return pa.Table.from_pydict({name: pa.array([row[name] for row in full], kind) for name, kind in kinds.items()})


def text_of(table: pa.Table, rate: int = RATE) -> str:
    """The text of the only scene."""
    ((_, text),) = rttm_texts(table, ["s0"], rate)
    return text


def read(folder: Path, text: str, uri: str = "s0") -> Annotation:
    """A scene as pyannote reads it."""
    path = folder / "read.rttm"
    path.write_text(text, encoding="utf-8")
    return load_rttm(path)[uri]


def test_pyannote_reads_what_was_labelled(tmp_path: Path) -> None:
    """Callers with spaces and letters of any script, their times to the nanosecond; others' scenes stay out."""
    table = events(
        {"onset": 1, "offset": 1601, "speaker": "Corvus corax_1"},
        {"onset": 801, "offset": 4000, "speaker": "Phylloscopus sp. 'été' 山雀_1"},
        {"onset": 4000, "offset": 4001, "speaker": "Corvus corax_1"},
        {"scene_id": "s1", "onset": 5, "offset": 900},
    )
    read_back = read(tmp_path, text_of(table))
    found = [(segment.start, segment.end, label) for segment, _, label in read_back.itertracks(yield_label=True)]

    assert text_of(table).splitlines()[0] == ("SPEAKER s0 1 0.000062500 0.100000000 <NA> <NA> Corvus_corax_1 <NA> <NA>")
    assert [(round(start * RATE), round(end * RATE)) for start, end, _ in found] == [
        (1, 1601),
        (801, 4000),
        (4000, 4001),
    ]
    assert all(abs(start * RATE - round(start * RATE)) < 1e-4 for start, _, _ in found)
    assert [label for _, _, label in found] == ["Corvus_corax_1", "Phylloscopus_sp._'été'_山雀_1", "Corvus_corax_1"]


def test_only_the_truth_has_no_error(tmp_path: Path) -> None:
    """The labels scored against their own file have no error, whatever callers are called; with callers mixed up or a
    call left out they have one."""
    calls = [(1600 * k, 1600 * k + 1200 + 300 * (k % 3), f"Parus major_{1 + k % 2}") for k in range(8)]
    reference = read(tmp_path, text_of(events(*({"onset": a, "offset": b, "speaker": name} for a, b, name in calls))))
    whole = Timeline([Segment(0, 1)])

    def rate_of(names: list[str], last: int = 8) -> float:
        hypothesis = Annotation(uri="s0")
        for k, (onset, offset, _) in enumerate(calls[:last]):
            hypothesis[Segment(onset / RATE, offset / RATE), k] = names[k]
        return float(DiarizationErrorRate()(reference, hypothesis, uem=whole))

    names = [name for _, _, name in calls]
    assert abs(rate_of(names)) < 1e-9
    assert abs(rate_of(["yx"[name == names[0]] for name in names])) < 1e-9
    assert rate_of(names[:4] + names[5:] + names[:1]) > 0.3
    assert rate_of(names, last=7) > 0.1


@given(st.integers(0, 3600 * 500_000), st.integers(1, 10**6), st.sampled_from([8000, 44100, 256_000, 500_000]))
def test_sample_positions_survive(onset: int, length: int, rate: int) -> None:
    """At any rate, the written times round to the sample they came from, and one sample is no duration of zero."""
    fields = text_of(events({"onset": onset, "offset": onset + length}), rate).split()

    assert round(float(fields[3]) * rate) == onset
    assert round(float(fields[4]) * rate) == length


@given(st.lists(st.text(max_size=8), min_size=1, max_size=6))
def test_every_name_is_one_field_and_one_caller(names: list[str]) -> None:
    """Whatever is in a name, a line has ten fields, and there are as many labels as callers, in the same places."""
    lines = text_of(events(*({"speaker": f"{name}_1"} for name in names))).split("\n")
    labels = [line.split()[7] for line in lines[:-1]]

    assert lines[-1] == ""
    assert all(len(line.split(" ")) == len(line.split()) == 10 for line in lines[:-1])
    assert len(labels) == len(names)
    assert all((labels[0] == label) == (names[0] == name) for label, name in zip(labels, names, strict=True))
    assert len(set(labels)) == len(set(names))


def test_names_that_would_become_one_stay_apart(tmp_path: Path) -> None:
    """Callers that differ in nothing but a space, a tab or a quote are not merged, nor one that has such a name."""
    names = ["a b_1", "a_b_1", "a\tb_1", "a_b_1~2", 'a"b_1', "a b_1"]
    read_back = read(tmp_path, text_of(events(*({"speaker": name, "onset": k} for k, name in enumerate(names)))))
    labels = [label for _, _, label in read_back.itertracks(yield_label=True)]

    assert labels == ["a_b_1", "a_b_1~2", "a_b_1~3", "a_b_1~2~2", "a_b_1~4", "a_b_1"]


def test_unknown_callers_are_never_one(tmp_path: Path) -> None:
    """Each event without a caller is a caller of its own, and none of those that have one."""
    callers = [None, "event_2", None, "event_2", "Parus major_1"]
    read_back = read(tmp_path, text_of(events(*({"speaker": name, "onset": k} for k, name in enumerate(callers)))))
    labels = [label for _, _, label in read_back.itertracks(yield_label=True)]

    assert labels == ["event_0", "event_2", "event_2~2", "event_2", "Parus_major_1"]


def test_every_scene_has_a_file(tmp_path: Path) -> None:
    """Those without events an empty one; put together, the files are one that has each scene."""
    table = events({"scene_id": "s 2", "onset": 5}, {"scene_id": "s0", "onset": 7})
    texts = dict(rttm_texts(table, ["s0", "s1", "s 2"], RATE))
    path = tmp_path / "all.rttm"
    path.write_text("".join(texts.values()), encoding="utf-8")
    (tmp_path / "none.rttm").write_text(texts["s1"], encoding="utf-8")

    assert list(texts) == ["s0", "s1", "s 2"]
    assert texts["s1"] == ""
    assert list(load_rttm(path)) == ["s0", "s_2"]
    assert load_rttm(tmp_path / "none.rttm") == {}
