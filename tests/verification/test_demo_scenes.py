"""Labels of scenes from the demo bank against independent measurement of their stems: over 5000 events."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile

from synthscape import SceneGenerator, load_spec, render
from synthscape.bank.synthetic_voices import DEMO_RATE, voice_tracks
from tests.verification.checked import Checked, assert_asked_is_reached, assert_labels_are_true, check, largest_errors
from tests.verification.measure import delay_samples, pcm16, pcm_hash, played, sounding

GeneratorOf = Callable[..., SceneGenerator]


class Case(NamedTuple):
    """A spec to check scenes of."""

    spec: str
    scenes: int
    at_least: int  # events
    overrides: tuple[str, ...] = ()


def dense(count: int, duration: str = "3") -> tuple[str, ...]:
    """Many events in short scenes, so that much is checked in little time."""
    anything = ("events.overlap.same_class=allow", "events.overlap.max_polyphony=null", "empty_share=0.05")
    return ("events.rate=null", f"events.count={count}", f"duration={duration}", *anything)


ANY_RATIO = "events.resample={loguniform: [0.5, 2]}"
CASES = {
    "strong_detection": Case("strong_detection", 100, 300),
    "roots": Case("roots_strong_detection", 100, 300),
    "truncate": Case("strong_detection", 80, 850, (*dense(12), "events.edges=truncate", "events.reverse=0.3")),
    "local": Case("strong_detection", 80, 850, (*dense(12), "events.snr.reference=local")),
    "resampled": Case("strong_detection", 80, 800, (*dense(12, "4"), ANY_RATIO, "events.reverse=0.5")),
    "tracks": Case("strong_detection", 55, 400, (*dense(3, "8"), "events.group=track", "events.edges=truncate")),
    "two_backgrounds": Case(
        "strong_detection",
        60,
        500,
        (
            *dense(10),
            "background.mix.probability=1",
            "background.mix.ratio_db={uniform: [-10, 10]}",
            "background.resample={loguniform: [0.7, 1.4]}",
        ),
    ),
    "looped": Case("strong_detection", 8, 200, (*dense(30, "40"), "background.mix.probability=1")),
    "loud": Case(
        "strong_detection",
        60,
        500,
        (*dense(10), "background.level_dbfs={uniform: [-20, -6]}", "events.snr.reference=scene", "events.fade_s=0"),
    ),
    "as_recorded": Case(
        "strong_detection",
        60,
        450,
        (*dense(10, "{uniform: [0.6, 4]}"), "background.level_dbfs=null", "events.snr.subtract_noise=false"),
    ),
}
assert sum(case.at_least for case in CASES.values()) >= 5000


@pytest.fixture(scope="module")
def generator_of(demo_bank: tuple[Path, Path]) -> GeneratorOf:
    """Scenes of a spec over the demo bank."""

    def make(spec: str, *overrides: str) -> SceneGenerator:
        bank, backgrounds = demo_bank
        return SceneGenerator(load_spec(spec, [f"bank={bank}", f"backgrounds={backgrounds}", *overrides]))

    return make


@pytest.fixture(scope="module", params=CASES)
def checked(request: pytest.FixtureRequest, generator_of: GeneratorOf) -> Checked:
    """Each case, measured."""
    case = CASES[request.param]
    result = check(generator_of(case.spec, *case.overrides), range(case.scenes))
    print(request.param, largest_errors(result))

    assert len(result.events) >= case.at_least
    return result


def test_labels_are_what_is_measured(checked: Checked) -> None:
    """Onset and offset to the sample; SNRs within 0.05 dB; band, audible, polyphony, level, gain, mix and hash."""
    assert_labels_are_true(checked)


def test_asked_snr_is_reached(checked: Checked) -> None:
    """Within 0.05 dB in the spec's reference: of each event, and of a track's pooled power."""
    assert_asked_is_reached(checked)


def test_cases_hold_what_they_are_named_for(generator_of: GeneratorOf) -> None:
    """There are truncated, reversed, resampled, grouped, looped and scaled ones among what is checked."""
    plans = {name: generator_of(c.spec, *c.overrides).plan(range(c.scenes)) for name, c in CASES.items()}
    tracks, looped = plans["tracks"], generator_of(CASES["looped"].spec, *CASES["looped"].overrides).render([0, 1])
    loud = generator_of(CASES["loud"].spec, *CASES["loud"].overrides).render(range(20))

    assert plans["truncate"].truncated.sum() > 50
    assert plans["roots"].truncated.sum() > 10
    assert plans["roots"].reversed.any()
    assert plans["roots"].altered.any()
    assert len(np.unique(plans["resampled"].ratio)) > 50
    assert (plans["two_backgrounds"].background >= 0).all()
    assert np.bincount(tracks.gain_group[tracks.events_of(1)]).max() > 3
    assert any(np.any(scene) for scene in looped.scenes["background_looped"])
    assert (loud.scenes["scene_gain_db"] < 0).sum() > 10


def test_clips_sound_where_labels_say(generator_of: GeneratorOf, demo_bank: tuple[Path, Path]) -> None:
    """Calls of known onset: the label is within 5 ms (x the ratio) of the synthesised call, and of what an envelope
    finds in the stem; the clip stands in the stem to a thousandth of a sample.
    """
    options = (*dense(10, "5"), ANY_RATIO, "events.reverse=0.3", "events.fade_s=0.002")
    generator = generator_of("strong_detection", *options)
    batch = generator.render(range(32), stems=True)
    assert batch.stems is not None
    clips = generator.bank.clips
    row_of = {name: row for row, name in enumerate(clips["clip_id"])}
    calls = {track.recording_id: [(call.onset, call.offset) for call in track.calls] for track in voice_tracks(0)}
    assert len(batch.events) > 250

    late, wrong, found = [], [], []
    for stem, event in zip(batch.stems, batch.events.to_dict("records"), strict=True):
        row, ratio = row_of[event["clip_id"]], Fraction(event["resample"])
        clip, first = clips.iloc[row], event["clip_onset"]
        onset, offset = event["onset"], event["offset"]
        unit = played(generator.bank.pcm(row), ratio, event["reversed"])
        top_hz = 0.7 * DEMO_RATE / 2 / max(1, float(ratio))
        late.append(
            delay_samples(stem[onset:offset], unit[onset - first : offset - first], DEMO_RATE, event["low_hz"], top_hz)
        )
        begins = round(clip["track_onset_s"] * DEMO_RATE)
        in_clip = [(a - begins, b - begins) for a, b in calls[clip["recording_id"]]]
        a, b = min(in_clip, key=lambda call: abs(call[0] - clip["length"] // 2 + (call[1] - call[0]) // 2))
        if event["reversed"]:
            a, b = clip["length"] - b, clip["length"] - a
        slower = max(1.0, float(ratio)) * DEMO_RATE
        wrong.append((onset - first - a * float(ratio), offset - first - b * float(ratio)) / np.float64(slower))
        heard = sounding(stem[first : event["clip_offset"]], DEMO_RATE, event["low_hz"], event["high_hz"])
        found.append((first + heard[0] - onset, first + heard[1] - offset) / np.float64(slower))
    late_samples, wrong_s, found_s = np.abs(late), np.abs(wrong), np.abs(found)
    print(
        f"{len(late)} events: place {late_samples.max():.1e} samples, truth {wrong_s.max():.4f} s, {found_s.max():.4f}"
    )

    assert late_samples.max() < 1e-3
    assert wrong_s.max() <= 0.005
    assert found_s.max() <= 0.005


def test_flac_on_disk_is_the_audio_in_memory(
    generator_of: GeneratorOf, demo_bank: tuple[Path, Path], tmp_path: Path
) -> None:
    """Files hold clip(rint(32768 x)) of the batch's samples, and the hash in the table is theirs."""
    bank, backgrounds = demo_bank
    places = [f"bank={bank}", f"backgrounds={backgrounds}", f"output.dir={tmp_path / 'out'}"]
    spec = load_spec("strong_detection", [*places, "items=24", "duration={uniform: [1, 5]}", "output.format=folder"])
    render(spec, workers=2)
    batch = SceneGenerator(spec).render(range(24))
    for i, scene in enumerate(batch.scenes.to_dict("records")):
        (path,) = (tmp_path / "out" / "audio").rglob(f"{scene['scene_id']}.flac")
        on_disk, rate = soundfile.read(path, dtype="int16")

        assert rate == 16000
        assert np.array_equal(on_disk, pcm16(batch.audio[i, : scene["n_samples"]]))
        assert pcm_hash(on_disk) == scene["pcm_hash"]
