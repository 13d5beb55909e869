"""Samples as they are written."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscape.errors import MixError
from synthscape.labels.pcm import from_pcm16, pcm_hash, to_pcm16


@settings(deadline=None)  # the first example compiles
@given(st.floats(-2, 2, width=32))
def test_pcm_is_rounded_half_to_even_and_limited(value):
    """clip(rint(32768 x), -32767, 32767), by exact fractions."""
    expected = max(-32767, min(32767, round(Fraction(value) * 32768)))  # round() of a Fraction is half to even

    assert to_pcm16(np.array([value], dtype=np.float32))[0] == expected


@pytest.mark.parametrize("n", [0, 1, 7, 16, 33, 1000])
@pytest.mark.parametrize("layout", ["contiguous", "strided", "float64"])
def test_pcm_of_any_layout(n, layout):
    """The same samples by the kernel and by NumPy, ties and values beyond full scale among them."""
    halves = np.random.default_rng(n).integers(-80000, 80000, n) / np.float64(65536)  # every other one is a tie
    expected = [max(-32767, min(32767, round(Fraction(value) * 32768))) for value in halves.tolist()]
    audio = {
        "contiguous": halves.astype(np.float32),
        "strided": np.repeat(halves, 2).astype(np.float32)[::2],
        "float64": halves,
    }[layout]

    assert to_pcm16(audio).tolist() == expected
    assert to_pcm16(audio.reshape(1, n)).tolist() == [expected]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 50, 100])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_is_not_finite_is_not_written(bad, at, kind):
    """No sample stands for NaN or infinity: the error says where it is."""
    audio = np.zeros(101, kind)
    audio[at] = bad

    with pytest.raises(MixError, match=f"sample {at} "):
        to_pcm16(audio)


def test_pcm_round_trip_is_exact():
    """Every written value means a float that is written as the same value."""
    pcm = np.arange(-32767, 32768).astype(np.int16)

    assert np.array_equal(to_pcm16(from_pcm16(pcm)), pcm)


@pytest.mark.parametrize("kind", ["<i2", ">i2"])
def test_pcm_hash_is_of_little_endian_samples(kind):
    """BLAKE3 of bytes 01 00 ff ff, whatever the machine's byte order; of nothing, what its authors publish."""
    assert pcm_hash(np.array([1, -1], dtype=kind)) == blake3(b"\x01\x00\xff\xff").hexdigest()[:32]
    assert pcm_hash(np.zeros(0, dtype=kind)) == "af1349b9f5f9a1a6a0404dea36dcc949"
