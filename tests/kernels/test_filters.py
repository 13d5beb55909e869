"""Ratios and their filters: tones survive in the pass band, and nothing comes through above it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from synthscape.mix.reference import resample
from synthscape_kernels import mix
from synthscape_kernels.filters import FilterBank, half_taps
from synthscape_kernels.ratios import GRID, GRID_P, GRID_Q, as_ratio, played_length

TESTED = [0, 40, 100, 118, 129, 150, 192, 256]  # 1/4 ... 4


def play(pcm: np.ndarray, index: int, *, backwards: bool = False) -> np.ndarray:
    """A whole clip through the kernel, float64."""
    bank = FilterBank(GRID_P, GRID_Q)
    bank.require(np.array([index], np.int16))
    p, q = np.int64(GRID_P[index]), np.int64(GRID_Q[index])
    out = np.zeros(played_length(len(pcm), GRID[index]), np.float32)
    mix.play(
        pcm, 0, len(pcm), p, q, bank.taps, bank.offset[index], bank.half[index], backwards, 0, len(out), out, 0
    )  # fmt: skip
    return out.astype(np.float64)


def tone(cycles_per_sample: float, n: int = 8000) -> np.ndarray:
    """A tone as int16."""
    return np.rint(20000 * np.sin(2 * np.pi * cycles_per_sample * np.arange(n) + 0.3)).astype(np.int16)


def test_the_grid() -> None:
    """257 distinct ratios with Q <= 128, each within 6 cents of its 64th octave."""
    cents = [1200 * np.log2(float(r) / 2 ** (k / 64)) for k, r in zip(range(-128, 129), GRID, strict=True)]

    assert len(set(GRID)) == 257
    assert max(r.denominator for r in GRID) <= 128
    assert np.abs(cents).max() < 6


def test_listed_ratios_are_exact() -> None:
    """The published factors keep their fractions."""
    assert [as_ratio(v) for v in (3, 1.7, 0.9, 0.3)] == [3, Fraction(17, 10), Fraction(9, 10), Fraction(3, 10)]


def test_a_ratio_without_a_small_fraction_is_refused() -> None:
    """Out of range, and coprime monsters, are refused with what to do."""
    with pytest.raises(ValueError, match="between 1/4 and 4"):
        as_ratio(5)
    with pytest.raises(ValueError, match="denominator up to 128"):
        as_ratio(3.996)  # the nearest fractions, 4 and 511/128, are 1.7 cents away


@pytest.mark.parametrize("index", TESTED)
def test_taps_are_long_enough(index: int) -> None:
    """At least 48 taps, and 1/r times as many for ratios under 1."""
    r = GRID[index]

    assert 2 * half_taps(r.numerator, r.denominator) >= 48 * max(1, 1 / r)


@pytest.mark.parametrize("index", TESTED)
@pytest.mark.parametrize("edge", [0.05, 0.5, 0.79])
def test_tones_in_the_pass_band_survive(index: int, edge: float) -> None:
    """A tone up to 0.79 of the lower Nyquist keeps its level within 0.1 dB and its pitch is divided by r."""
    r = float(GRID[index])
    cycles = edge * 0.5 * min(1.0, r)
    played = play(tone(cycles), index)
    inside = played[len(played) // 4 : 3 * len(played) // 4]

    level_db = 10 * np.log10(2 * np.mean(inside**2) / (20000 / 32768) ** 2)
    spectrum = np.abs(np.fft.rfft(inside * np.hanning(len(inside))))
    assert abs(level_db) < 0.1
    assert np.argmax(spectrum) / len(inside) == pytest.approx(cycles / r, abs=1.5 / len(inside))


@pytest.mark.parametrize(
    ("index", "edge"), [(i, edge) for i in TESTED for edge in (1.0, 1.1, 1.7) if edge * GRID[i] < 1]
)
def test_tones_beyond_the_played_nyquist_are_gone(index: int, edge: float) -> None:
    """What a ratio under 1 would move past Nyquist is over 80 dB down: it does not fold back."""
    cycles = edge * 0.5 * float(GRID[index])
    played = play(tone(cycles), index)
    inside = played[len(played) // 4 : 3 * len(played) // 4]

    assert 10 * np.log10(np.mean(inside**2) / np.mean((tone(cycles) / 32768.0) ** 2)) < -80


@pytest.mark.parametrize("index", [i for i in TESTED if GRID[i] > 1])
def test_no_images_above_a_slowed_clip(index: int) -> None:
    """Slowed down, a clip's images above its own Nyquist are over 80 dB down."""
    cycles = 0.6 * 0.5
    played = play(tone(cycles), index)
    inside = played[len(played) // 4 : 3 * len(played) // 4]
    power = np.abs(np.fft.rfft(inside * np.blackman(len(inside)))) ** 2
    frequency = np.arange(len(power)) / len(inside)

    images = power[frequency > 0.5 / float(GRID[index])]
    assert 10 * np.log10(images.max() / power.max()) < -80


@pytest.mark.parametrize("index", TESTED)
def test_a_sweep_keeps_its_timing(index: int) -> None:
    """A pulse at input sample i is heard at output sample i r, to a small part of a sample."""
    pcm = np.zeros(4000, np.int16)
    t = np.arange(-200, 201)
    width = 12 * max(1.0, 1 / float(GRID[index]))
    pcm[1300:1701] = np.rint(20000 * np.exp(-0.5 * (t / width) ** 2))
    played = play(pcm, index)

    centre = np.sum(np.arange(len(played)) * played) / np.sum(played)
    assert centre == pytest.approx(1500 * float(GRID[index]), abs=0.01)


@pytest.mark.parametrize("index", TESTED)
def test_backwards_is_the_clip_reversed(index: int) -> None:
    """Played backwards, a clip is what its reversed samples give."""
    rng = np.random.default_rng(3)
    pcm = rng.integers(-20000, 20000, 3001).astype(np.int16)

    np.testing.assert_array_equal(play(pcm, index, backwards=True), play(pcm[::-1].copy(), index))


@pytest.mark.parametrize("index", [40, 100, 150, 192])
def test_long_clips_have_no_seams(index: int) -> None:
    """Tiles join: a clip of several is the float64 formula throughout, and any stretch is cut from the whole."""
    pcm = np.random.default_rng(3).integers(-20000, 20000, 120001, dtype=np.int16)
    p, q = np.int64(GRID_P[index]), np.int64(GRID_Q[index])
    whole = play(pcm, index)
    bank = FilterBank(GRID_P, GRID_Q)
    bank.require(np.array([index], np.int16))
    stretch = np.zeros(30000, np.float32)
    mix.play(
        pcm, 0, len(pcm), p, q, bank.taps, bank.offset[index], bank.half[index], False, 10001, 30001, stretch, 7
    )  # fmt: skip

    assert np.abs(whole - resample(pcm / 32768, int(p), int(q))).max() < 1e-5
    np.testing.assert_array_equal(stretch[7:20007], whole[10001:30001].astype(np.float32))
    assert not stretch[:7].any()
    assert not stretch[20007:].any()
