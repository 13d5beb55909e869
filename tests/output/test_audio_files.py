"""Audio files of a dataset: lossless, at every rate that is offered."""

from __future__ import annotations

import io
import os
import sys

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscape.errors import DatasetError
from synthscape.output.audio import check_format, encode, encode_float, read_float
from synthscape.storage import LocalPlace

FULL = np.random.default_rng(0).integers(-32767, 32768, 3000).astype(np.int16)


@pytest.mark.parametrize(
    ("audio", "rate"),
    [("flac", rate) for rate in (1000, 8000, 11127, 44100, 65535, 192_000, 250_000, 256_000, 384_000, 655_350)]
    + [("wav", rate) for rate in (8000, 65537, 256_000, 1_000_000)],
)
def test_samples_come_back_exactly(audio, rate):
    """Bit for bit at voices' rates and at bats'."""
    check_format(audio, rate)
    samples, read_rate = soundfile.read(io.BytesIO(encode(FULL, rate, audio)), dtype="int16")

    assert read_rate == rate
    assert np.array_equal(samples, FULL)


@pytest.mark.parametrize("rate", [65537, 96001, 655_360, 1_000_000])
def test_rates_flac_does_not_hold_are_refused(rate):
    """Before rendering, with the way out; and libsndfile does refuse them."""
    with pytest.raises(DatasetError, match=r"output\.audio=wav"):
        check_format("flac", rate)
    with pytest.raises(soundfile.LibsndfileError):
        encode(FULL, rate, "flac")


@settings(max_examples=30)
@given(st.integers(1, 5000))
def test_scenes_of_any_length(length):
    """One sample is enough."""
    samples, _ = soundfile.read(io.BytesIO(encode(FULL[:1].repeat(length), 8000, "flac")), dtype="int16")

    assert len(samples) == length


@pytest.mark.parametrize("audio", ["flac", "wav"])
def test_where_files_in_memory_are_limited_or_not_there(audio, monkeypatch):
    """The bytes are the same whatever size the system limits files to, and where it has no files in memory."""
    resource = pytest.importorskip("resource")
    samples = np.random.default_rng(1).integers(-2000, 2000, 20000).astype(np.int16)
    expected = encode(samples, 8000, audio)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for limit in (0, 10, 5000, len(expected) - 1, len(expected)):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
            assert encode(samples, 8000, audio) == expected
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.delattr(os, "memfd_create", raising=False)

    assert encode(samples, 8000, audio) == expected


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="elsewhere files are made in Python's memory")
def test_libsndfile_writes_without_python():
    """A long scene calls no more of Python than a short one, so that threads encode side by side."""

    def calls(length: int) -> int:
        seen = 0

        def count(frame, event, argument):
            nonlocal seen
            seen += event in ("call", "c_call")

        samples = np.resize(FULL, length)
        sys.setprofile(count)
        try:
            encode(samples, 8000, "flac")
        finally:
            sys.setprofile(None)
        return seen

    assert calls(1000) == calls(200_000)


def test_float_stems_come_back_exactly():
    """Values over 1 and tiny ones too."""
    stem = np.array([0.0, 1.5, -3e-20, 0.1], dtype=np.float32)
    samples, rate = soundfile.read(io.BytesIO(encode_float(stem, 256_000)), dtype="float32")

    assert rate == 256_000
    assert np.array_equal(samples, stem)


def test_files_are_never_guessed(tmp_path):
    """A damaged file is an error by name, and so is one that is missing."""
    path = tmp_path / "a.flac"
    path.write_bytes(encode(FULL, 8000, "flac")[:200])
    with pytest.raises(DatasetError, match=r"a\.flac can't be read"):
        read_float(LocalPlace(tmp_path), "a.flac")
    with pytest.raises(DatasetError, match=r"b\.flac is missing"):
        read_float(LocalPlace(tmp_path), "b.flac")
