"""Links, pipes, devices, folders and files of other data among recordings: rejected by name, never waited for."""

from __future__ import annotations

import csv
import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from synthscape import memory
from synthscape.bank.build import Recording, build_store
from synthscape.bank.decode import decode
from synthscape.bank.sources import find_files, read_recordings
from synthscape.errors import AudioError, SpecError
from tests.ordinary_user import AS_ORDINARY_USER

RATE = 16000


def _noise(seed: int, n: int = RATE) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).normal(size=n)


def _rejected(bank: Path) -> dict[str, str]:
    with (bank / "rejected.csv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row["reason"] for row in csv.DictReader(file)}


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
def test_what_looks_like_a_recording_and_is_none(tmp_path):
    """Broken and circular links, pipes and devices are rejected, without reading from them; folders are entered."""
    source = tmp_path / "source"
    (source / "folder.wav").mkdir(parents=True)
    soundfile.write(source / "folder.wav" / "good.wav", _noise(1), RATE)
    (source / "link.wav").symlink_to("folder.wav/good.wav")
    (source / "broken.wav").symlink_to("nothing.wav")
    (source / "circle.wav").symlink_to("circle.wav")
    (source / "zeros.wav").symlink_to("/dev/zero")
    os.mkfifo(source / "pipe.wav")
    (source / "elsewhere").symlink_to(tmp_path)
    (source / ".hidden").mkdir()
    folder = find_files(source)
    report = build_store(read_recordings(folder, RATE), tmp_path / "bank")

    assert (report.n_recordings, report.n_with_clips, report.n_duplicates) == (6, 2, 1)
    assert _rejected(tmp_path / "bank") == dict.fromkeys(
        ["broken.wav", "circle.wav", "pipe.wav", "zeros.wav"], "not_accessible"
    )
    assert folder.ignored == [".hidden/", "elsewhere/"]


@pytest.mark.skipif(os.name != "posix", reason="folders are locked by their mode")
def test_a_folder_that_can_not_be_listed(tmp_path):
    """Its recordings can't be built, so it is rejected by name; the rest is built, and the exit code says so."""
    source = tmp_path / "source"
    (source / "locked").mkdir(parents=True)
    soundfile.write(source / "good.wav", _noise(1), RATE)
    (source / "locked").chmod(0)
    build = ["-c", "from synthscape.cli import main; main()", "bank", "build", source, "--out", tmp_path / "bank"]
    try:
        ended = subprocess.run([sys.executable, "-c", AS_ORDINARY_USER, sys.executable, *build], check=False)
    finally:
        (source / "locked").chmod(0o700)

    assert ended.returncode == 1
    assert _rejected(tmp_path / "bank") == {"locked": "not_accessible"}


@pytest.mark.parametrize("peak", [1e16, 3e38])
def test_floats_that_are_other_data(tmp_path, peak):
    """Bits of something else read as float give such values; they overflow every power, and no sound has them."""
    soundfile.write(tmp_path / "data.wav", np.sin(np.arange(999)) * peak, 44100, subtype="FLOAT")
    with pytest.raises(AudioError, match="no sound") as refused:
        decode(tmp_path / "data.wav", RATE)
    good = Recording("good", _noise(2).astype(np.float32))
    build_store([good, Recording("data", np.full(RATE, peak, np.float32))], tmp_path / "bank")

    assert refused.value.reason == "not_finite"
    assert _rejected(tmp_path / "bank") == {"data": "not_finite"}


def test_a_million_times_full_scale_is_a_recording(tmp_path):
    """Uncalibrated float data is legal: scaled, and the scale kept."""
    soundfile.write(tmp_path / "loud.wav", np.sin(np.arange(RATE)) * 1e6, RATE, subtype="FLOAT")

    assert float(np.abs(decode(tmp_path / "loud.wav", RATE).samples).max()) == pytest.approx(1e6, rel=0.01)


def test_a_rate_in_the_header_that_blows_a_file_up(tmp_path, monkeypatch):
    """A header saying 1 Hz makes hours of a second: more than fits in memory is rejected while it is read."""
    n = 70_000
    head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 1, 2, 2, 16) + b"data" + struct.pack("<I", 2 * n)
    (tmp_path / "slow.wav").write_bytes(b"RIFF" + struct.pack("<I", 4 + len(head) + 2 * n) + head + b"\1\0" * n)
    monkeypatch.setattr(memory, "_machine_bytes", lambda: 2**30)
    with pytest.raises(AudioError, match=r"too long .* GB of memory, .* GB are free; split it") as refused:
        decode(tmp_path / "slow.wav", RATE)

    assert refused.value.reason == "too_long"


def test_memory_that_is_free_is_within_limits():
    """Free memory is positive, at most what the machine has, and an impossible need is said in words."""
    assert 0 < memory.available_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory.short_of_memory(1) is None
    assert "GB are free" in str(memory.short_of_memory(1e30))


def test_only_little_memory_is_granted_on_a_recent_look(monkeypatch):
    """What is much, and anything a second later, is compared with what is free at that moment."""
    free, now = 64_000, 100.0
    monkeypatch.setattr(memory, "_last", (-math.inf, 0))
    monkeypatch.setattr(memory, "available_bytes", lambda: free)
    monkeypatch.setattr(memory.time, "monotonic", lambda: now)
    assert memory.short_of_memory(64_000) is None
    free = 10
    assert memory.short_of_memory(1_000) is None
    assert memory.short_of_memory(1_001) is not None  # which looked it up again
    assert memory.short_of_memory(11) is not None
    free = 64_000
    assert memory.short_of_memory(11) is None
    free, now = 10, 101.0
    assert memory.short_of_memory(11) is not None


@pytest.mark.parametrize("pad_s", [math.inf, math.nan, -1.0, 1e300])
def test_a_padding_that_is_no_time(tmp_path, pad_s):
    """Refused before anything is read."""
    with pytest.raises(SpecError, match="padding around a box must be 0 to 3600 s"):
        build_store([], tmp_path / "bank", cut="annotations", pad_s=pad_s)
