"""Noise in place of audio: its level, its whiteness, and what it depends on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.stats
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthscape.errors import SpecError
from synthscape.labels.pcm import pcm_hash
from synthscape.scale.render import render
from synthscape.spec import load_spec
from synthscape.tasks.control import noise_like
from tests.small_dataset import make_stores, small_spec


def rms_db(pcm: NDArray[np.int16]) -> float:
    """RMS level of samples, dB re one step."""
    return float(10 * np.log10(np.mean(pcm.astype(float) ** 2)))


def sound(n: int, rms: float, seed: int = 0) -> NDArray[np.int16]:
    """A pulsed tone with a little noise, of about the RMS asked for."""
    t = np.arange(n)
    wave = np.sin(0.3 * t) * (np.sin(0.002 * t) > 0.3) + 0.01 * np.random.default_rng(seed).standard_normal(n)
    wave *= rms / np.sqrt(np.mean(wave**2))
    return np.clip(np.rint(wave), -32767, 32767).astype(np.int16)


@pytest.mark.parametrize("rms", [0.4, 1, 3, 30, 1000, 8000, 14000])
@pytest.mark.parametrize("n", [4000, 48_001])
def test_length_and_level_are_those_of_the_audio(n: int, rms: float) -> None:
    """To 0.01 dB, from less than a step to loud."""
    pcm = sound(n, rms)
    noise = noise_like(pcm, 7, 12)

    assert noise.dtype == np.int16
    assert noise.shape == (n,)
    assert rms_db(noise) == pytest.approx(rms_db(pcm), abs=0.01)
    assert noise.min() >= -32767


@pytest.mark.parametrize("level", [29204, 32767, -32768])
def test_near_full_scale_it_is_limited_and_still_as_loud(level: int) -> None:
    """A square wave at -1 dBFS, at full scale, and beyond what is written: nothing wraps."""
    pcm = np.full(20_000, level, np.int16)
    noise = noise_like(pcm, 7, 12)

    assert np.abs(noise.astype(int)).max() == 32767
    assert rms_db(noise) == pytest.approx(min(rms_db(pcm), 20 * np.log10(32767)), abs=0.01)
    assert abs(noise.astype(float).mean()) < 5 * 32767 / np.sqrt(20_000)


def test_no_sample_is_limited_16_db_under_full_scale() -> None:
    """At -16.1 dBFS the largest number that can be drawn, 6.34, fits; so does all that is."""
    rms = 32768 * 10 ** (-16.1 / 20)
    noise = noise_like(sound(500_000, rms), 3, 4)

    assert -scipy.stats.norm.ppf(0.5 * 2.0**-32) * rms < 32767
    assert np.abs(noise.astype(int)).max() < 32767


def test_it_is_white_and_gaussian() -> None:
    """No sample tells the next 50, all frequencies are as strong, amplitudes are normal, though the audio's aren't."""
    noise = noise_like(sound(160_000, 2000), 1, 5).astype(float)
    lagged = [np.corrcoef(noise[lag:], noise[:-lag])[0, 1] for lag in range(1, 51)]
    power = np.abs(np.fft.rfft(noise)[1:-1]) ** 2
    octaves = [power[a : 2 * a].mean() for a in (1250, 2500, 5000, 10_000, 20_000)]

    assert np.abs(lagged).max() < 5 / np.sqrt(len(noise))
    assert 10 * np.log10(octaves) == pytest.approx(10 * np.log10(power.mean()), abs=10 * np.log10(1 + 5 / 1250**0.5))
    assert scipy.stats.kstest(power / power.mean(), "expon").pvalue > 1e-4
    assert scipy.stats.normaltest(noise).pvalue > 1e-4


def test_it_follows_nothing_of_the_audio_but_length_and_level() -> None:
    """Reversed, or with its samples shuffled, audio has the same noise."""
    pcm = sound(30_000, 500)
    shuffled = np.random.default_rng(3).permutation(pcm)

    assert np.array_equal(noise_like(pcm, 1, 2), noise_like(shuffled, 1, 2))
    assert np.array_equal(noise_like(pcm[::-1], 1, 2), noise_like(pcm, 1, 2))


def test_seeds_and_scenes_are_independent() -> None:
    """Equal again for equal keys; seeds, scenes and epochs are uncorrelated."""
    pcm = sound(20_000, 1000)
    keys = [(seed, scene) for seed in (0, 1, 2**64 - 1) for scene in (0, 1, 2**40, 2**40 + 1)]
    noises = np.array([noise_like(pcm, *key) for key in keys], float)
    again = np.array([noise_like(pcm, *key) for key in reversed(keys)][::-1], float)

    assert np.array_equal(noises, again)
    assert np.abs(np.corrcoef(noises) - np.eye(len(keys))).max() < 5 / np.sqrt(20_000)


def test_silence_stays_silent() -> None:
    """Zeros, and no samples at all."""
    assert not noise_like(np.zeros(1000, np.int16), 1, 2).any()
    assert len(noise_like(np.zeros(0, np.int16), 1, 2)) == 0


@given(st.lists(st.integers(-32768, 32767), min_size=1, max_size=40), st.integers(0, 2**64 - 1))
def test_any_samples_have_noise(samples: list[int], seed: int) -> None:
    """However few: never a wrapped sample; one gain comes as near as rounding lets it."""
    pcm = np.array(samples, np.int16)
    noise = noise_like(pcm, seed, 3)
    wanted, got = np.sum(pcm.astype(float) ** 2), np.sum(noise.astype(float) ** 2)

    assert noise.min() >= -32767
    assert bool(noise.any()) == bool(pcm.any())
    if np.abs(pcm.astype(int)).max() <= 32767 and wanted >= len(pcm) * 100.0**2:
        assert got == pytest.approx(wanted, rel=0.03)  # rounding of the largest of a few samples of some 100 steps


def test_a_dataset_is_written_again_under_controls(tmp_path: Path) -> None:
    """The same labels; noise as long and as loud in place of each file; or no file at all."""
    stores = make_stores(tmp_path)
    found = {}
    for control in ("none", "noise", "text"):
        folder = tmp_path / control
        folder.mkdir()
        render(small_spec(folder, stores, f"output.control={control}", "items=6", "output.raven=false"))
        out = folder / "out"
        scenes, events = (pq.read_table(out / name / "00000.parquet") for name in ("scenes", "events"))
        found[control] = (
            scenes,
            events,
            {path.name: soundfile.read(path, dtype="int16")[0] for path in out.rglob("*.flac")},
        )
    scenes, events, audio = found["none"]
    noise_scenes, noise_events, noise = found["noise"]
    text_scenes, text_events, silent = found["text"]

    assert events.equals(noise_events)
    assert events.equals(text_events)
    assert scenes.drop(["pcm_hash"]).equals(noise_scenes.drop(["pcm_hash"]))
    assert scenes.drop(["audio"]).equals(text_scenes.drop(["audio"]))
    assert text_scenes["audio"].null_count == 6
    assert not silent
    assert set(noise) == set(audio)
    assert len(audio) == 6
    for row in noise_scenes.to_pylist():
        name = f"{row['scene_id']}.flac"
        assert row["pcm_hash"] == pcm_hash(noise[name])
        assert len(noise[name]) == len(audio[name])
        assert rms_db(noise[name]) == pytest.approx(rms_db(audio[name]), abs=0.01)
        assert abs(np.corrcoef(noise[name], audio[name])[0, 1]) < 5 / np.sqrt(len(audio[name]))


@pytest.mark.parametrize("control", ["noise", "text"])
def test_stems_are_not_written_under_controls(control: str) -> None:
    """They are the real audio."""
    overrides = ["bank=b", "backgrounds=c", "output.stems=true", f"output.control={control}"]
    with pytest.raises(SpecError, match=r"output\.stems: expected false with output\.control"):
        load_spec("strong_detection", overrides)
