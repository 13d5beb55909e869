"""Scenes of several callers of one species: who calls, how tracks are placed, and what is written of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.signal
from numpy.typing import NDArray
from pyannote.core import Annotation, Segment, Timeline
from pyannote.database.util import load_rttm
from pyannote.metrics.diarization import DiarizationErrorRate

from synthscape import ClipStore, SceneGenerator, load_spec, open_dataset
from synthscape.bank.writer import StoreWriter
from synthscape.cli import main
from synthscape.plan.plan import DROP_REASONS, ScenePlan
from synthscape.spec import Spec
from synthscape_kernels.ratios import UNITY

RATE = 16000
SPECS = Path(__file__).resolve().parents[2] / "scene_specs"
SPECIES = ("Corvus corax", "Garrulax 'été' 山雀", "Parus major")
TRACKS = 7
SpecOf = Callable[..., Spec]


@pytest.fixture(scope="module")
def tracks(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """Tracks of three species, some longer than a scene: calls at odd samples and up to 20 dB apart.

    Of a species tracks 0 and 1 are of one animal, 2 and 3 of another and of one recording with 4, whose animal nobody
    knows; 5 and 6 are of unknown animals and recordings.
    """
    rng = np.random.default_rng(5)
    folder = tmp_path_factory.mktemp("tracks") / "pseudovox"
    with StoreWriter(folder, "pseudovox", RATE) as writer:
        for s, species in enumerate(SPECIES):
            for track in range(TRACKS):
                onset = int(rng.integers(0, 5000))
                for _ in range(12 if track == 0 else 4):
                    n, pad = int(rng.integers(1600, 8000)), int(rng.integers(200, 900))
                    t = np.arange(n) / RATE
                    f = 700 * 1.6**s * rng.uniform(0.97, 1.03)
                    call = np.sin(2 * np.pi * (f * t + 0.2 * f * t * t)) * np.minimum(1, np.minimum(t, t[::-1]) / 0.01)
                    clip = 1e-4 * rng.standard_normal(n + 2 * pad)
                    clip[pad : pad + n] += call
                    columns = {
                        "recording_id": {0: f"r{s}0", 1: f"r{s}1", 5: None, 6: None}.get(track, f"r{s}2"),
                        "individual": {0: "one", 1: "one", 2: "two", 3: "three"}.get(track),
                        "track_id": f"{species}/{track}",
                        "track_onset_s": onset / RATE,
                        "species": species,
                        "licence": "CC0-1.0",
                        "medium": "air",
                        "active_start": pad,
                        "active_end": pad + n,
                        "energy_q25": pad + n // 4,
                        "energy_q75": pad + 3 * n // 4,
                        "low_hz": 0.97 * f,
                        "high_hz": 1.25 * f,
                        "signal_share": 1.0,
                        "min_ratio_index": UNITY - 64,
                    }
                    writer.add((clip * 10 ** (-rng.uniform(6, 26) / 20)).astype(np.float32), columns)
                    onset += len(clip) + int(rng.integers(3000, 16000))
    return ClipStore.open(folder)


@pytest.fixture(scope="module")
def diarize(tracks: ClipStore, backgrounds: ClipStore) -> SpecOf:
    """One of the shipped specs over these stores, with overrides."""

    def load(*overrides: str, name: str = "detect_diarize") -> Spec:
        stores = (f"bank={tracks.path}", f"backgrounds={backgrounds.path}")
        return load_spec(SPECS / f"{name}.yaml", [*stores, *overrides])

    return load


def events_of(plan: ScenePlan, clips: pd.DataFrame) -> pd.DataFrame:
    """The events of all scenes, with what the bank says of their clips."""
    columns = {name: getattr(plan, name) for name in ("onset", "offset", "gain_group", "speaker")}
    scene = np.repeat(plan.scene, np.diff(plan.event_offsets))
    return clips.iloc[plan.clip].reset_index(drop=True).assign(scene=scene, **columns)


def animals_of(events: pd.DataFrame) -> pd.Series:
    """Who calls, as far as the bank knows: animals have names in their species, a track is of one animal."""
    return (events["species"] + "|" + events["individual"]).fillna(events["track_id"])


def most_at_once(onset: NDArray[np.int64], offset: NDArray[np.int64]) -> int:
    """Most intervals that share a sample."""
    return max(int(((onset <= at) & (at < offset)).sum()) for at in onset)


@pytest.mark.parametrize("name", ["detect_diarize", "roots_detect_diarize"])
def test_an_animal_is_in_a_scene_once(name: str, diarize: SpecOf, tracks: ClipStore) -> None:
    """One track an animal, one speaker a track, and mostly several of one species: no animal calls over itself.

    Nor are two tracks of one recording there, unless they are of two animals that are known.
    """
    plan = SceneGenerator(diarize(name=name)).plan(range(400))
    events = events_of(plan, tracks.clips)
    each = events.drop_duplicates(["scene", "gain_group"])
    each = each.assign(animal=animals_of(each))
    in_recording = each[each["recording_id"].notna()].groupby(["scene", "recording_id"])["individual"]
    of_species = each.groupby(["scene", "species"]).size().groupby("scene").max()

    assert (events.groupby(["scene", "gain_group"])[["speaker", "track_id"]].nunique() == 1).all(axis=None)
    for column in ("track_id", "animal", "speaker"):
        assert not each.duplicated(["scene", column]).any()
    assert (in_recording.count() == in_recording.size())[in_recording.size() > 1].all()
    assert (in_recording.size() > 1).sum() > 10
    assert len(of_species) == 360
    assert (of_species > 1).mean() > 0.7
    assert plan.n_placed.sum() >= 0.98 * plan.n_asked.sum()


def test_a_second_track_of_an_animal_is_counted(diarize: SpecOf, tracks: ClipStore) -> None:
    """More tracks than a species has animals: what is left out is counted, and as many as can be are there."""
    spec = diarize("classes.per_scene=1", "events.count=12", "events.overlap.max_polyphony=null", "empty_share=0")
    plan = SceneGenerator(spec).plan(range(60))
    caller_used = plan.drops[:, DROP_REASONS.index("caller_used")]
    callers = events_of(plan, tracks.clips).groupby("scene")["speaker"].nunique()

    assert (plan.n_asked == 12).all()
    assert (plan.n_placed + plan.drops.sum(axis=1) == 12).all()
    assert caller_used.sum() > 0
    assert callers.max() == 5  # "one"; "two" and "three", or the unknown one of their recording; two of no recording


@pytest.mark.parametrize(
    ("rules", "gap", "most"),
    [
        ("{same_class: forbid, max_polyphony: null, min_gap_s: 0.1}", 1600, 99),
        ("{same_class: allow, max_polyphony: 1}", None, 1),
        ("{same_class: allow, max_polyphony: 2}", None, 2),
    ],
)
def test_overlap_of_tracks_is_controlled(
    rules: str, gap: int | None, most: int, diarize: SpecOf, tracks: ClipStore
) -> None:
    """Rules hold between calls of all tracks, not of whole tracks: these may interleave, and often do."""
    plan = SceneGenerator(diarize(f"events.overlap={rules}", "events.count=4", "duration=6")).plan(range(150))
    interleaved = 0
    for _, events in events_of(plan, tracks.clips).groupby("scene"):
        assert most_at_once(events["onset"].to_numpy(), events["offset"].to_numpy()) <= most
        for _, calls in events.groupby("species"):
            one, other = calls.iloc[:-1], calls.iloc[1:]  # by onset
            changes = one["speaker"].to_numpy() != other["speaker"].to_numpy()
            between = other["onset"].to_numpy() - one["offset"].cummax().to_numpy()
            assert gap is None or (between[changes] >= gap).all()
            interleaved += changes.sum() >= calls["speaker"].nunique()

    assert interleaved > 20


def played(samples: NDArray[np.float32], ratio: Fraction) -> NDArray[np.float64]:
    """A clip at another ratio: sample n of what comes out is the clip's value at n / ratio."""
    p, q = ratio.numerator, ratio.denominator
    if p == q:
        return samples.astype(np.float64)
    half = 64 * max(p, q)
    taps = scipy.signal.firwin(2 * half + 1, 0.96 / max(p, q), window=("kaiser", 9.0))
    return scipy.signal.resample_poly(samples.astype(np.float64), p, q, window=taps)


def found(stem: NDArray[np.float64], wave: NDArray[np.float64]) -> tuple[int, float]:
    """The sample at which a waveform begins in a stem, and its gain there, without 10 ms at its ends, for fades."""
    at = int(np.argmax(np.abs(scipy.signal.correlate(stem, wave, method="fft")))) - (len(wave) - 1)
    inside = wave[RATE // 100 : -RATE // 100]
    there = stem[at + RATE // 100 :][: len(inside)]
    return at, float(there @ inside / (inside @ inside))


def test_tracks_keep_their_spacing_and_levels_in_the_stems(diarize: SpecOf, tracks: ClipStore) -> None:
    """In the stems, calls of a track are as far apart as in their recording, times the ratio, and as loud to each
    other: to the sample and 0.01 dB. Calls that the scene's edge cuts are left out.
    """
    spec = diarize("duration=5", "events.resample={choice: [0.9, 1, 1.1]}", "empty_share=0", "events.snr.db=10")
    batch = SceneGenerator(spec).render(range(40), stems=True)
    assert batch.stems is not None
    clips = tracks.clips.set_index("clip_id")
    row_of = {clip_id: row for row, clip_id in enumerate(tracks.clips["clip_id"])}
    inside = (batch.events["clip_onset"] >= 0) & (batch.events["clip_offset"] <= 5 * RATE)
    compared = {Fraction(9, 10): 0, Fraction(1): 0, Fraction(11, 10): 0}
    worst_db = 0.0
    for (_, _), calls in batch.events[inside].groupby(["scene_id", "track_id"]):
        ratio = Fraction(calls["resample"].iloc[0])
        assert calls["resample"].nunique() == 1
        if len(calls) < 2:
            continue
        source = clips.loc[calls["clip_id"]]
        first = clips.loc[clips["track_id"] == source["track_id"].iloc[0], "track_onset_s"].min()
        since = np.rint((source["track_onset_s"] - first).to_numpy() * RATE).astype(int)
        measured = [
            found(batch.stems[event].astype(np.float64), played(tracks.audio(row_of[clip_id]), ratio))
            for event, clip_id in calls["clip_id"].items()
        ]
        begins = [
            at - int(np.floor(delta * ratio + Fraction(1, 2)))
            for (at, _), delta in zip(measured, since.tolist(), strict=True)
        ]
        assert len(set(begins)) == 1
        gains = np.array([gain for _, gain in measured]) / source["peak"].to_numpy()
        worst_db = max(worst_db, float(np.ptp(20 * np.log10(gains))))
        compared[ratio] += len(calls)
    print(f"{compared}: levels within {worst_db:.5f} dB")

    assert worst_db < 0.01
    assert min(compared.values()) > 15
    assert np.ptp(20 * np.log10(clips["peak"])) > 15


def annotation(uri: str, calls: pd.DataFrame, labels: list[str]) -> Annotation:
    """Calls with these labels, as pyannote has them."""
    of_scene = Annotation(uri=uri)
    for k, (onset, offset) in enumerate(zip(calls["onset_s"], calls["offset_s"], strict=True)):
        of_scene[Segment(onset, offset), k] = labels[k]
    return of_scene


def test_rendered_rttm_scores_only_the_truth_as_right(
    diarize: SpecOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``render`` writes a file a scene: pyannote finds the labels without error, and mixed-up callers not."""
    spec = tmp_path / "diarize.yaml"
    spec.write_text(diarize("items=24", f"output.dir={json.dumps(str(tmp_path / 'out'))}").to_yaml(), encoding="utf-8")
    monkeypatch.setattr(
        sys, "argv", ["synthscape", "render", str(spec), "output.items_per_shard=16", "output.raven=true"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    data = open_dataset(tmp_path / "out")
    events = dict(list(data.events.groupby("scene_id")))
    right, renamed, shuffled = (DiarizationErrorRate() for _ in range(3))
    for number, scene in enumerate(data.scenes["scene_id"]):
        file = data.path / f"rttm/{number // 16:05d}/{scene}.rttm"
        if scene not in events:
            assert file.read_bytes() == b""
            assert load_rttm(file) == {}
            continue
        calls = events[scene]
        reference = load_rttm(file)[scene]
        whole = Timeline([Segment(0, 10)])
        speakers = calls["speaker"].tolist()
        assert reference.labels() == sorted({name.replace(" ", "_") for name in speakers})
        assert len(list(reference.itertracks())) == len(calls)
        right(reference, annotation(scene, calls, speakers), uem=whole)
        renamed(reference, annotation(scene, calls, [f"x{name}" for name in speakers]), uem=whole)
        shuffled(reference, annotation(scene, calls, speakers[1:] + speakers[:1]), uem=whole)

    assert ended.value.code == 0
    assert capsys.readouterr().err == ""
    assert data.verify() == []
    assert 0 < len(events) < 24
    assert data.events["track_id"].notna().all()
    assert abs(right) < 1e-6
    assert abs(renamed) < 1e-6
    assert abs(shuffled) > 0.1
