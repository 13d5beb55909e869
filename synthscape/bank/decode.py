"""Decoding a recording: one channel, resampled to the store's rate, nothing believed that a header says.

Files are read in blocks with libsndfile (through soundfile) and resampled with soxr while reading, so a file costs the
memory of its samples at the store's rate. No external program is run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from synthscape.errors import AudioError
from synthscape.memory import short_of_memory
from synthscape.units import seconds_to_samples

Channel = Literal["first", "mean", "loudest"]
CHANNELS: Final[tuple[Channel, ...]] = ("first", "mean", "loudest")

_BLOCK_FRAMES: Final = 65536
_MP3_SLACK_FRAMES: Final = 2 * 1152  # decoder delay and padding, which some headers count and some don't
# What programs that stream WAV write for "length not known yet", and 0 where they never came back to fill it in.
_UNKNOWN_LENGTHS: Final = frozenset({0, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000, 0x80000000, 0xFFFFFFFF - 36})
_CANCELLED_DB: Final = 6.0
LARGEST_SAMPLE: Final = 1e15  # float32 squares and their sums stay far from overflow
BYTES_PER_SAMPLE: Final = 80  # of memory that building takes, measured


@dataclass(frozen=True)
class HighShare:
    """How much energy a recording has above what a store of lower rate can hold, in frames of 5 ms.

    Attributes:
        frame_s: seconds between frames.
        low, high: float64 [frames], energy of each frame under and over ``cutoff_hz``.
        cutoff_hz: the store's Nyquist.
        loudest_dbfs: 20 log10 RMS of the loudest frame, at the file's own rate.
    """

    frame_s: float
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    cutoff_hz: float
    loudest_dbfs: float

    def share(self, onset_s: float = 0.0, offset_s: float = math.inf) -> float:
        """Share of the energy above the noise, within a stretch of time, that lies over the cutoff.

        The noise of either side is the 10th percentile over all frames, at most a quarter of the strongest frame; none
        is taken off where the recording has fewer than 10 frames.
        """
        first = max(0, int(onset_s / self.frame_s))
        last = len(self.low) if math.isinf(offset_s) else max(first + 1, math.ceil(offset_s / self.frame_s))
        low, high = (
            float(np.maximum(energy[first:last] - noise, 0.0).sum())
            for energy, noise in zip((self.low, self.high), self._noise, strict=True)
        )
        return high / (low + high) if low + high > 0 else 0.0

    @cached_property
    def _noise(self) -> tuple[float, ...]:
        if len(self.low) < 10:
            return 0.0, 0.0
        return tuple(min(float(np.percentile(side, 10)), float(side.max()) / 4) for side in (self.low, self.high))


@dataclass(frozen=True)
class Decoded:
    """One channel of a recording at the store's rate.

    Attributes:
        samples: float32 [samples], original scale (may be beyond 1), aligned with the file to the sample.
        source_rate: Hz, of the file.
        n_frames: frames really read.
        n_channels: channels of the file.
        channel: the channel taken, None for the mean.
        notes: what was found and dealt with, from :data:`NOTES`.
        high_share: energy above the store's rate; None if the file has nothing there.
    """

    samples: NDArray[np.float32]
    source_rate: int
    n_frames: int
    n_channels: int
    channel: int | None
    notes: tuple[str, ...] = ()
    high_share: HighShare | None = field(default=None, repr=False)


NOTES: Final = {
    "channels_differ": "channels are not the same; the channel policy chose",
    "beyond_full_scale": "float samples beyond full scale; the scale is kept in `peak`",
    "length_unknown": "the header didn't say how long the file is; read to its end",
}


def decode(path: Path, rate: int, channel: Channel = "loudest") -> Decoded:
    """Read a file.

    >>> recording = decode(Path("field/dawn.flac"), 16000)          # doctest: +SKIP
    >>> recording.samples                                           # float32, mono, 16 kHz         # doctest: +SKIP

    Args:
        path: any file libsndfile reads.
        rate: Hz, of the result.
        channel: ``first``; ``mean`` of all; or the ``loudest`` (largest RMS without DC; the first of equals).

    Raises:
        AudioError: ``empty``, ``unreadable``, ``truncated`` (the header claims more frames than there are),
            ``not_finite``, ``too_short`` (less than half a sample at this rate), ``too_long`` (more than fits in
            memory), ``cancellation`` (channels cancel in the mean) or ``not_accessible`` (a pipe or device).
        OSError: the file can't be opened.
    """
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):  # reading a pipe would wait forever
        what = "a folder that can't be listed" if stat.S_ISDIR(state.st_mode) else "a pipe or device, not a file"
        raise AudioError(f"it is {what}", "not_accessible")
    if state.st_size == 0:
        raise AudioError("the file has 0 bytes", "empty")
    with path.open("rb"):  # a file we may not read is an OSError that says so, not a wrong format
        pass
    claimed = _claimed_frames(path)
    with _quiet(path), _opened(path) as file:
        source_rate, n_channels = file.samplerate, file.channels
        claimed = dataclasses.replace(claimed, cut_off=claimed.cut_off or _cut_off_by_log(file))
        claimed_frames = claimed.frames if claimed.frames is not None else (file.frames if claimed.binding else 0)
        notes = ["length_unknown"] if claimed.unknown else []
        if n_channels == 1:
            choice: int | None = 0
        else:
            scan = _scan(file)
            _check_frames(scan.n_frames, claimed_frames, claimed)
            choice = _choose(scan, channel)
            if scan.differ:
                notes.append("channels_differ")
            file.close()
            file = _open(path)
        resampler = _Resampler(source_rate, rate)
        profile = _HighShareMeter(source_rate, rate)
        n_frames, peak = 0, 0.0
        with file:
            for block in _blocks(file):
                mono = block[:, choice] if choice is not None else block.mean(axis=1, dtype=np.float64)
                mono = np.ascontiguousarray(mono, dtype=np.float32)
                block_peak = float(np.max(np.abs(mono)))
                check_peak(block_peak, f" near frame {n_frames}")
                n_frames += len(mono)
                peak = max(peak, block_peak)
                _check_fits(n_frames, source_rate, rate)
                profile.add(mono)
                resampler.add(mono)
    _check_frames(n_frames, claimed_frames, claimed)
    samples = resampler.finish()
    if not len(samples):
        raise AudioError(f"{n_frames} frames at {source_rate} Hz are less than half a sample at {rate} Hz", "too_short")
    if peak > 1 and file.subtype in ("FLOAT", "DOUBLE"):
        notes.append("beyond_full_scale")
    return Decoded(samples, source_rate, n_frames, n_channels, choice, tuple(notes), profile.finish())


class _Stream(soundfile.SoundFile):  # type: ignore[misc]
    # soundfile seeks after every block where a file can seek, which breaks the state of MP3 decoders: clicks of up to
    # 40 % of full scale at block edges. Reading straight on needs no seeking.
    def seekable(self) -> bool:
        return False


def _open(path: Path) -> _Stream:
    try:
        # bytes, as a name need not be UTF-8
        return _Stream(os.fspath(path) if os.name == "nt" else os.fsencode(path))
    except soundfile.LibsndfileError as error:
        raise AudioError(f"libsndfile can't read it: {_reason(error)}", "unreadable") from None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Stream]:
    file = _open(path)
    try:
        yield file
    finally:
        file.close()


def _blocks(file: _Stream) -> Iterator[NDArray[np.float32]]:
    n_frames = 0
    while True:
        try:
            block = file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise AudioError(f"decoding failed after {n_frames} frames: {_reason(error)}", "unreadable") from None
        if not len(block):
            return
        n_frames += len(block)
        yield block


def _reason(error: soundfile.LibsndfileError) -> str:
    return str(error.error_string).strip() or f"error {error.code}"


@dataclass(frozen=True)
class _Scan:
    n_frames: int
    differ: bool
    power: NDArray[np.float64]  # of each channel, without DC
    mean_power: float  # of their mean, without DC


def _scan(file: _Stream) -> _Scan:
    n_frames, differ = 0, False
    total = np.zeros(file.channels + 1)
    squares = np.zeros(file.channels + 1)
    for block in _blocks(file):
        with np.errstate(invalid="ignore", over="ignore"):  # samples that are not finite are refused when used
            differ = differ or bool(np.any(block != block[:, :1]))
            exact = np.column_stack([block, block.mean(axis=1, dtype=np.float64)])
            n_frames += len(block)
            total += exact.sum(axis=0)
            squares += np.square(exact).sum(axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        power = np.maximum(squares / max(n_frames, 1) - np.square(total / max(n_frames, 1)), 0.0)
    if n_frames and not np.isfinite(power).all():
        raise AudioError("samples that are not finite (NaN or infinite)", "not_finite")
    return _Scan(n_frames, differ, power[:-1], float(power[-1]))


def _choose(scan: _Scan, channel: Channel) -> int | None:
    if channel == "first":
        return 0
    loudest = int(np.argmax(scan.power))
    if channel == "loudest":
        return loudest
    # Channels that have nothing in common add up to the mean of their powers over their number; well below that they
    # cancel. (Only comparing with the loudest would call one live channel among four a cancellation.)
    unrelated = float(scan.power.sum()) / len(scan.power) ** 2
    lost = scan.mean_power * 10 ** (_CANCELLED_DB / 10)
    if lost < scan.power[loudest] and scan.mean_power * 2 < unrelated:
        below_db = 10 * np.log10(scan.power[loudest] / max(scan.mean_power, 1e-30))
        raise AudioError(
            f"its {len(scan.power)} channels cancel: their mean is {below_db:.1f} dB below the loudest; use --channel "
            "loudest or first",
            "cancellation",
        )
    return None


def check_peak(peak: float, where: str = "") -> None:
    """Refuse samples that no level can be measured of.

    Raises:
        AudioError: ``not_finite``: NaN, infinite, or so large that their power is.
    """
    if not np.isfinite(peak):
        raise AudioError(f"samples that are not finite (NaN or infinite){where}", "not_finite")
    if peak > LARGEST_SAMPLE:
        raise AudioError(f"samples of {peak:.2g}{where}: that is no sound, but some other data", "not_finite")


def _check_fits(n_frames: int, source_rate: int, rate: int) -> None:
    # the length in the header is not believed, so this is asked while reading
    short = short_of_memory(n_frames / source_rate * rate * BYTES_PER_SAMPLE)
    if short:
        raise AudioError(
            f"too long to be read in one piece: for its first {n_frames / source_rate:.0f} s alone {short}; split it",
            "too_long",
        )


def _check_frames(n_frames: int, claimed_frames: int, claim: _Claim) -> None:
    if n_frames == 0:
        said = f", though its header claims {claimed_frames}" if claimed_frames else ""
        raise AudioError(f"the file holds no samples{said}", "empty")
    if claim.cut_off or n_frames + claim.slack < claimed_frames:
        said = claim.cut_off or f"{claimed_frames} frames, {n_frames} could be read"
        raise AudioError(f"the file is cut off: its header claims {said}", "truncated")


class _Resampler:
    # soxr's stream resampler is aligned: it takes its delay off the start and gives it back at the end.
    def __init__(self, source_rate: int, rate: int):
        self._stream = soxr.ResampleStream(source_rate, rate, 1, dtype="float32", quality="VHQ")
        self._same = source_rate == rate
        self._parts: list[NDArray[np.float32]] = []

    def add(self, block: NDArray[np.float32]) -> None:
        self._parts.append(block if self._same else self._stream.resample_chunk(block))

    def finish(self) -> NDArray[np.float32]:
        if not self._same:
            self._parts.append(self._stream.resample_chunk(np.zeros(0, dtype=np.float32), last=True))
        return np.concatenate(self._parts)


class _HighShareMeter:
    def __init__(self, source_rate: int, rate: int):
        self._cutoff_hz = rate / 2
        # wide enough for the window to tell the two sides apart
        self._size = max(16, seconds_to_samples(0.005, source_rate))
        self._frame_s = self._size / source_rate
        bins = np.arange(self._size // 2 + 1) * source_rate / self._size
        self._is_high = bins > self._cutoff_hz
        self._window = np.hanning(self._size).astype(np.float32)
        self._rest = np.zeros(0, dtype=np.float32)
        self._frames: list[NDArray[np.float64]] = []
        self._in_use = source_rate > rate

    def add(self, block: NDArray[np.float32]) -> None:
        if self._in_use:
            samples = np.concatenate([self._rest, block])
            whole = len(samples) // self._size * self._size
            self._measure(samples[:whole])
            self._rest = samples[whole:].copy()

    def finish(self) -> HighShare | None:
        if not self._in_use:
            return None
        if len(self._rest) * 2 >= self._size or not self._frames:
            self._measure(np.pad(self._rest, (0, self._size - len(self._rest))))
        energy = np.concatenate(self._frames)
        # one-sided, so half of the energy is in these bins
        power = 2 * float(energy.sum(axis=1).max()) / (self._size * float(np.sum(self._window**2)))
        loudest_dbfs = 10 * math.log10(max(power, 1e-30))
        return HighShare(self._frame_s, energy[:, 0], energy[:, 1], self._cutoff_hz, loudest_dbfs)

    def _measure(self, samples: NDArray[np.float32]) -> None:
        if len(samples):
            frames = samples.reshape(-1, self._size)
            # DC would leak over everything
            frames = (frames - frames.mean(axis=1, keepdims=True)) * self._window
            power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
            high = power[:, self._is_high].sum(axis=1)
            self._frames.append(np.column_stack([power.sum(axis=1) - high, high]))


@dataclass(frozen=True)
class _Claim:
    frames: int | None = None  # what the header claims, where libsndfile doesn't say so itself
    binding: bool = True  # False: libsndfile's number is an estimate
    unknown: bool = False  # the header says it doesn't know
    slack: int = 0
    cut_off: str = ""  # "<claimed> bytes of audio, <n> are there", where bytes are not frames


def _claimed_frames(path: Path) -> _Claim:
    # libsndfile silently corrects a length that is longer than the file, so truncation shows only in the header itself.
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64", b"FORM"):
            return _claimed_by_chunks(file, head)
        if head[:4] == b"fLaC":
            file.seek(0)
            info = file.read(42)
            total = int.from_bytes(info[21:26], "big") & 0xFFFFFFFFF
            return _Claim(frames=total or None, binding=bool(total), unknown=not total)
        if head[:4] == b"OggS":
            return _Claim(binding=False)  # its length is read off its last page: nothing to compare with
        if head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0):
            return _claimed_by_mp3(file, head)
    return _Claim()


def _claimed_by_chunks(file: Any, head: bytes) -> _Claim:
    order: Literal["little", "big"] = "big" if head[:4] in (b"RIFX", b"FORM") else "little"
    size_of_file = file.seek(0, os.SEEK_END)
    align, long_size, at = 0, 0, 12
    while at + 8 <= size_of_file:
        file.seek(at)
        name, size = file.read(4), int.from_bytes(file.read(4), order)
        if name == b"ds64":
            file.read(8)
            long_size = int.from_bytes(file.read(8), "little")
        elif name == b"fmt ":
            layout = file.read(16)
            code, channels = (int.from_bytes(layout[i : i + 2], order) for i in (0, 2))
            bits = int.from_bytes(layout[14:16], order)
            # where one frame is a fixed number of bytes: PCM, float, a-law, mu-law, extensible
            align = channels * ((bits + 7) // 8) if code in (1, 3, 6, 7, 0xFFFE) else 0
        elif name == b"COMM":
            layout = file.read(8)
            frames = int.from_bytes(layout[2:6], "big")
            return _Claim(binding=False, unknown=True) if frames in _UNKNOWN_LENGTHS else _Claim(frames=frames)
        elif name == b"data":
            if size == 0xFFFFFFFF and long_size:
                size = long_size
            have = size_of_file - at - 8
            if size in _UNKNOWN_LENGTHS and have != size:
                return _Claim(binding=False, unknown=True)
            if align:
                return _Claim(frames=size // align)
            return _Claim(cut_off=f"{size} bytes of audio, {have} are there" if have < size else "")
        at += 8 + size + size % 2
    return _Claim()


def _claimed_by_mp3(file: Any, head: bytes) -> _Claim:
    # Without a Xing, Info or VBRI header the length is libsndfile's estimate from the file's size.
    at = 0
    if head[:3] == b"ID3":
        at = 10 + sum((head[6 + i] & 0x7F) << (7 * (3 - i)) for i in range(4))
    file.seek(at)
    start = file.read(4096)
    says = any(tag in start for tag in (b"Xing", b"Info", b"VBRI"))
    return _Claim(binding=says, slack=_MP3_SLACK_FRAMES)


def _cut_off_by_log(file: _Stream) -> str:
    # AU, W64, CAF and others: libsndfile's log of the header says how much audio it claims and how long the file is
    if file.format in ("WAV", "WAVEX", "RF64", "AIFF"):
        return ""
    claimed = re.search(r"\b(?:data|Data Size)\s*:\s*(\d+)", file.extra_info)
    length = re.search(r"^Length\s*:\s*(\d+)", file.extra_info, re.MULTILINE)
    if claimed is None or length is None or int(claimed[1]) <= int(length[1]) or int(claimed[1]) in _UNKNOWN_LENGTHS:
        return ""
    return f"{claimed[1]} bytes of audio, the whole file has {length[1]}"


_quiet_lock = threading.Lock()
_CHATTY: Final = re.compile(rb"ID3|\xff[\xe0-\xff]|OggS", re.DOTALL)


@contextlib.contextmanager
def _quiet(path: Path) -> Iterator[None]:
    # libmpg123 inside libsndfile writes its warnings straight to the process's standard error. Only files that may be
    # MP3 pay for silencing it (by extension or first bytes), one at a time.
    with path.open("rb") as file:
        chatty = path.suffix.lower() in (".mp3", ".mp2", ".mpga") or _CHATTY.match(file.read(4)) is not None
    if not chatty:
        yield
        return
    with _quiet_lock:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        try:
            saved = os.dup(2)
        except OSError:  # standard error is closed: nothing can be heard
            yield
            return
        sink = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(sink, 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            os.close(sink)
