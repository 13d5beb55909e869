"""Faults of levels that users met in other tools, where building a bank is what avoids them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from synthscape.bank.build import Recording, build_store
from synthscape.bank.decode import decode
from synthscape.bank.features import call_features
from synthscape.bank.sources import find_files, read_recordings
from synthscape.bank.store import ClipStore
from synthscape.errors import AudioError

RATE = 16000


def _built(
    tmp_path: Path, samples: np.ndarray, kind: str = "pseudovox", channel: str = "loudest", **options
) -> ClipStore:
    (tmp_path / "source").mkdir()
    soundfile.write(tmp_path / "source" / "a.wav", samples, RATE, **options)
    folder = find_files(tmp_path / "source")
    build_store(read_recordings(folder, RATE, channel), tmp_path / "bank", kind)
    return ClipStore.open(tmp_path / "bank")


def _tone(hz: float = 1000, seconds: float = 1.0) -> np.ndarray:
    return np.sin(2 * np.pi * hz * np.arange(round(seconds * RATE)) / RATE)


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000, 6399, 6401])
def test_clips_of_any_length_have_a_level(n):
    """Loudness is wrong, or raises, for clips under 0.4-0.5 s elsewhere: here it is a number, and steady."""
    clip = (_tone(1000, n / RATE + 1 / RATE)[1 : n + 1] * 0.9).astype(np.float32)
    features = call_features(clip, RATE)

    assert np.isfinite(features["rms_db"])
    assert np.isfinite(features["lufs"])
    if n >= 100:
        assert features["rms_db"] == pytest.approx(20 * np.log10(0.9 / np.sqrt(2)), abs=0.3)
        assert features["lufs"] == pytest.approx(20 * np.log10(0.9 / np.sqrt(2)) - 0.691 + 0.69, abs=0.6)


def test_padding_does_not_lower_a_level():
    """A 0.2 s call in a 3.2 s clip came out 7.6 dB low, with a label of 3.2 s: both are of the active part here."""
    clip = np.zeros(int(3.2 * RATE), dtype=np.float32)
    clip[8000:11200] = _tone(1500, 0.2) * 0.99
    alone = call_features(clip[8000:11200], RATE)
    padded = call_features(clip, RATE)

    assert padded["rms_db"] == pytest.approx(alone["rms_db"], abs=0.2)
    assert padded["active_end"] - padded["active_start"] == pytest.approx(3200, abs=160)


def test_a_click_on_the_first_sample_does_not_make_all_active(tmp_path):
    """A click on the first sample, as loud as anything, leaves the active part on the call."""
    rng = np.random.default_rng(1)
    for click in (0.9, -0.9):
        samples = rng.normal(size=2 * RATE) * 0.003
        samples[16000:22400] += 0.3 * _tone(2000, 0.4)
        samples[0] = click
        build_store([Recording("r", samples)], tmp_path / f"bank{click}")
        clip = ClipStore.open(tmp_path / f"bank{click}").clips.iloc[0]

        assert abs(clip["active_start"] - 16000) <= 80
        assert abs(clip["active_end"] - 22400) <= 80


@pytest.mark.parametrize("channel", ["loudest", "first"])
def test_antiphase_stereo_keeps_its_level(tmp_path, channel):
    """Antiphase stereo vanished in a downmix, 26.7 dB low: taking one channel keeps it whole."""
    tone = 0.5 * _tone()
    bank = _built(tmp_path, np.column_stack([tone, -0.99 * tone]), channel=channel)
    original_db = bank.clips["rms_db"][0] + 20 * np.log10(bank.clips["peak"][0])

    assert original_db == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=0.1)


def test_cancellation_in_a_mean_is_reported(tmp_path):
    """Where the mean is asked for and the channels cancel, the file is refused and the loss named."""
    tone = 0.5 * _tone()
    soundfile.write(tmp_path / "a.wav", np.column_stack([tone, -0.9 * tone]), RATE, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"their mean is 26\.0 dB below the loudest") as caught:
        decode(tmp_path / "a.wav", RATE, "mean")

    assert caught.value.reason == "cancellation"


def test_float_beyond_full_scale(tmp_path):
    """A float file that peaks at 3.0 came out +5.4 dB: here its shape and its scale are exact."""
    samples = 3.0 * _tone(800) * np.linspace(0.2, 1, RATE)
    bank = _built(tmp_path, samples, subtype="FLOAT")
    back = bank.pcm(0) / 32767 * bank.clips["peak"][0]

    assert bank.clips["peak"][0] == pytest.approx(np.abs(samples).max(), rel=2e-3)
    assert np.abs(back - samples)[800:-800].max() < 3e-3


def test_dc_does_not_set_the_level_of_a_background(tmp_path):
    """DC of a "clean" background puts SNRs off by 25 dB: its level is that of its sound, and the DC is on record."""
    noise = np.random.default_rng(2).normal(size=4 * RATE) * 0.01
    bank = _built(tmp_path, noise + 0.01 * 10 ** (25 / 20), kind="backgrounds", subtype="FLOAT")
    original_db = bank.clips["rms_db"][0] + 20 * np.log10(bank.clips["peak"][0])

    assert original_db == pytest.approx(-40, abs=0.1)
    assert bank.clips["dc_removed"][0] == pytest.approx(0.1778, rel=0.01)


@pytest.mark.parametrize("kind", ["pseudovox", "backgrounds"])
def test_silence_is_refused_and_quiet_sound_is_not(tmp_path, kind):
    """Silence, DC alone, and dither of one step are refused; a quiet recording at -70 dBFS is legal."""
    rng = np.random.default_rng(3)
    recordings = [
        Recording("zeros", np.zeros(RATE)),
        Recording("dc", np.full(RATE, 0.25)),
        Recording("dither", rng.integers(-1, 2, RATE) / 32768),
        Recording("quiet", _tone() * np.sqrt(2) * 10 ** (-70 / 20)),
    ]
    report = build_store(recordings, tmp_path / "bank", kind)
    bank = ClipStore.open(tmp_path / "bank")

    assert list(bank.clips["recording_id"]) == ["quiet"]
    assert report.reasons == {"silent": 3}
    assert np.isfinite(bank.clips["rms_db"][0])


def test_one_bad_file_does_not_end_the_run(tmp_path):
    """One exception ended whole runs elsewhere: here it is a row with a reason, and the others are built."""
    recordings = [
        Recording("good", _tone()),
        Recording("nan", np.array([0.1, np.nan])),
        Recording("empty", np.array([])),
        Recording("better", _tone(3000)),
    ]
    report = build_store(recordings, tmp_path / "bank")

    assert report.n_with_clips == 2
    assert report.reasons == {"empty": 1, "not_finite": 1}
