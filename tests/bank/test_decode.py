"""Decoding: alignment, channels, headers that lie, and formats."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import soundfile

from synthscape.bank.decode import decode
from synthscape.errors import AudioError

RATE = 16000


def _reason(path, **options) -> tuple[str, str]:
    with pytest.raises(AudioError) as caught:
        decode(path, RATE, **options)
    return caught.value.reason, str(caught.value)


@pytest.mark.parametrize("rate", [7777, 8000, 16000, 22050, 44100, 48000, 96000, 250000, 384000, 500000])
def test_resampling_is_aligned(write, rate):
    """A band-limited pulse stays where it is, to a fiftieth of a sample, at every rate; so does the length."""
    n = 3 * rate // 4
    at_s = 0.31
    t = np.arange(n) / rate - at_s
    pulse = np.exp(-((t * 1500) ** 2)) * np.cos(2 * np.pi * 1500 * t)
    decoded = decode(write("a.wav", pulse, rate, subtype="FLOAT"), RATE)
    t = np.arange(len(decoded.samples)) / RATE - at_s
    expected = np.exp(-((t * 1500) ** 2)) * np.cos(2 * np.pi * 1500 * t)

    assert abs(len(decoded.samples) - n * RATE / rate) <= 0.5
    assert np.abs(decoded.samples - expected).max() < 2 * np.pi * 1500 / RATE / 50
    assert decoded.source_rate == rate


@pytest.mark.parametrize(("channel", "expected"), [("first", 0.1), ("loudest", 0.4), ("mean", 0.5 / 3)])
def test_channel_policies(write, channel, expected):
    """First is first, the loudest has the largest RMS without its DC, the mean is of all; it is reported."""
    tone = np.sin(2 * np.pi * 440 * np.arange(8000) / RATE)
    path = write("a.wav", np.column_stack([0.1 * tone, np.full(8000, 0.9), 0.4 * tone]), subtype="FLOAT")
    decoded = decode(path, RATE, channel)
    level = np.std(decoded.samples) * np.sqrt(2)

    assert level == pytest.approx(expected, rel=1e-3)
    assert decoded.notes == ("channels_differ",)
    assert decoded.channel == {"first": 0, "loudest": 2, "mean": None}[channel]


def test_equal_channels_are_not_reported(write, rng):
    """Two times the same is mono in a stereo file, and loudest takes the first."""
    samples = rng.normal(size=500) * 0.1
    decoded = decode(write("a.wav", np.column_stack([samples, samples])), RATE)

    assert decoded.notes == ()
    assert decoded.channel == 0


def test_one_live_channel_among_four_is_no_cancellation(write, rng):
    """Three dead channels only dilute the mean by 12 dB: nothing cancels."""
    samples = np.zeros((4000, 4))
    samples[:, 2] = rng.normal(size=4000) * 0.2

    assert np.std(decode(write("a.wav", samples, subtype="FLOAT"), RATE, "mean").samples) == pytest.approx(
        0.05, rel=0.05
    )


def test_truncated_names_both_counts(write, rng):
    """A file cut off in its samples is refused with what its header claims and what there is."""
    path = write("a.wav", rng.normal(size=1000) * 0.1)
    path.write_bytes(path.read_bytes()[:-701])
    reason, message = _reason(path)

    assert reason == "truncated"
    assert "1000" in message
    assert "649" in message


@pytest.mark.parametrize(
    ("name", "subtype"),
    [("a.aiff", "PCM_16"), ("a.au", "PCM_16"), ("a.w64", "PCM_24"), ("a.flac", "PCM_16"), ("a.wav", "IMA_ADPCM")],
)
def test_truncated_in_other_formats(write, rng, name, subtype):
    """Half a file is not taken for a whole one in any format that says how long it is."""
    path = write(name, rng.normal(size=60_000) * 0.1, subtype=subtype)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    assert _reason(path)[0] in ("truncated", "unreadable")


def test_a_claim_of_4_gb_allocates_nothing(write, rng):
    """A header that claims nearly 4 GB over 2000 bytes is refused in the memory of a small file."""
    path = write("a.wav", rng.normal(size=1000) * 0.1)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"data") + 4
    raw[at : at + 4] = (0xFFFFFF00).to_bytes(4, "little")
    path.write_bytes(bytes(raw))
    tracemalloc.start()
    reason, _ = _reason(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert reason == "truncated"
    assert peak < 5_000_000


@pytest.mark.parametrize("claim", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000])
def test_streamed_headers_are_legal(write, rng, claim):
    """What programs that stream write for an unknown length is no claim: the file is read to its end, and noted."""
    samples = rng.normal(size=1000) * 0.1
    path = write("a.wav", samples, subtype="FLOAT")
    raw = bytearray(path.read_bytes())
    at = raw.index(b"data") + 4
    raw[at : at + 4] = claim.to_bytes(4, "little")
    path.write_bytes(bytes(raw))
    decoded = decode(path, RATE)

    assert np.array_equal(decoded.samples, samples.astype(np.float32))
    assert decoded.notes == ("length_unknown",)


def test_what_holds_no_samples(write, tmp_path):
    """No bytes, no frames, and less than half a sample at the rate asked for are told apart."""
    empty = tmp_path / "empty.wav"
    empty.touch()
    text = tmp_path / "text.wav"
    text.write_text("not audio at all, though it is named so")

    assert _reason(empty)[0] == "empty"
    assert _reason(write("none.wav", np.zeros(0)))[0] == "empty"
    assert _reason(write("one.wav", np.ones(1) * 0.5, 48000))[0] == "too_short"
    assert _reason(text)[0] == "unreadable"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("channels", [1, 2])
def test_not_finite(write, value, channels):
    """NaN and infinity in float files are refused, in any block and channel."""
    samples = np.zeros((70_000, channels)) + 0.1
    samples[66_000, -1] = value

    assert _reason(write("a.wav", samples, subtype="FLOAT"))[0] == "not_finite"


def test_float_beyond_full_scale_is_kept(write):
    """A float file that peaks at 3 is read as it is, and noted."""
    samples = 3 * np.sin(np.arange(1000) / 5)
    decoded = decode(write("a.wav", samples, subtype="FLOAT"), RATE)

    assert np.abs(decoded.samples).max() == pytest.approx(3, rel=1e-3)
    assert decoded.notes == ("beyond_full_scale",)


def test_blocks_of_mp3_are_seamless(write):
    """Decoding in blocks gives what decoding at once gives: no clicks where a decoder would be made to seek."""
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(44100 * 6) / 44100)
    path = write("a.mp3", tone, 44100)
    decoded = decode(path, 44100).samples[4000:-4000]
    steps = np.abs(np.diff(decoded, 2))

    assert len(decoded) > 3 * 65536 - 8000
    assert steps.max() < 0.5 * (2 * np.pi * 440 / 44100) ** 2 * 1.2


def test_libraries_do_not_talk_to_the_user(write, rng, tmp_path):
    """What libmpg123 prints about a damaged MP3 does not reach standard error."""
    path = write("a.mp3", rng.normal(size=40_000) * 0.1, 44100)
    raw = path.read_bytes()
    path.write_bytes(raw[:417] + bytes(300) + raw[900:-100])
    script = (
        "import sys; from pathlib import Path; from synthscape.bank.decode import decode\n"
        "try: decode(Path(sys.argv[1]), 16000)\nexcept Exception: pass\n"
        "print('after', file=sys.stderr)"
    )
    said = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)

    assert said.stderr == "after\n"
    assert said.stdout == ""


def test_high_share_tells_bats_from_birds(write, rng):
    """A call above the store's Nyquist is seen in steady noise below it, and the other way round."""
    rate, n = 200_000, 100_000
    noise = rng.normal(size=n) * 0.01
    for hz, expected in ((45_000, 1.0), (3_000, 0.0)):
        samples = noise.copy()
        samples[40_000:44_000] += 0.2 * np.sin(2 * np.pi * hz * np.arange(4000) / rate)
        share = decode(write("a.wav", samples, rate, subtype="FLOAT"), RATE).high_share

        assert share is not None
        assert share.share(0.2, 0.22) == pytest.approx(expected, abs=0.1)
        assert share.share() == pytest.approx(expected, abs=0.2)


def test_every_format_libsndfile_writes_is_read(tmp_path, rng):
    """Whatever soundfile can write, in its first subtype and at a common rate, is read back at its level."""
    samples = np.sin(2 * np.pi * 500 * np.arange(RATE) / RATE) * 0.5
    read = 0
    for container in soundfile.available_formats():
        if container in (
            "RAW",
            "SD2",
            "MPC2K",
            "WVE",
            "XI",
            "SVX",
            "MAT4",
            "MAT5",
            "PVF",
            "IRCAM",
            "AVR",
            "NIST",
            "PAF",
        ):
            continue
        path = tmp_path / f"a.{container.lower()}"
        try:
            soundfile.write(path, samples, RATE, format=container)
        except (ValueError, soundfile.LibsndfileError):
            continue
        read += 1

        assert np.std(decode(path, RATE).samples) == pytest.approx(0.5 / np.sqrt(2), rel=0.1), container
    assert read >= 9
