"""Samples as they are written."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscape.labels.pcm import from_pcm16, pcm_hash, to_pcm16


@given(st.floats(-2, 2, width=32))
def test_pcm_is_rounded_half_to_even_and_limited(value):
    """clip(rint(32768 x), -32767, 32767), by exact fractions."""
    expected = max(-32767, min(32767, round(Fraction(value) * 32768)))  # round() of a Fraction is half to even

    assert to_pcm16(np.array([value], dtype=np.float32))[0] == expected


def test_pcm_round_trip_is_exact():
    """Every written value means a float that is written as the same value."""
    pcm = np.arange(-32767, 32768).astype(np.int16)

    assert np.array_equal(to_pcm16(from_pcm16(pcm)), pcm)


@pytest.mark.parametrize("kind", ["<i2", ">i2"])
def test_pcm_hash_is_of_little_endian_samples(kind):
    """The known BLAKE2b-128 of bytes 01 00 ff ff, whatever the machine's byte order."""
    from hashlib import blake2b

    assert pcm_hash(np.array([1, -1], dtype=kind)) == blake2b(b"\x01\x00\xff\xff", digest_size=16).hexdigest()
