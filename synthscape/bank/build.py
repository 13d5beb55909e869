"""Building a store from recordings.

Recordings come one at a time from anywhere: files (:mod:`synthscape.bank.sources`), synthetic voices, another archive.
What can't be used is listed with its reason; the rest is built.
"""

from __future__ import annotations

import csv
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from synthscape.bank.activity import Window, cut_window, find_windows
from synthscape.bank.conditioning import HIGHPASS_ORDER, condition
from synthscape.bank.decode import HighShare, check_peak
from synthscape.bank.features import SILENT_DBFS, background_features, call_features, loudest_block_dbfs
from synthscape.bank.schema import FULL_SCALE, REJECTED_FILE
from synthscape.bank.writer import StoreWriter, to_pcm
from synthscape.errors import AudioError, SpecError, StoreError
from synthscape.units import seconds_to_samples

CUTS: Final = ("whole", "activity", "annotations")
HIGH_SHARE: Final = 0.8
# The floor is the envelope's 10th percentile and the noise its quieter fifth: with less around it, a steady call of
# over a second can't be told from a steady background.
PAD_S: Final = 0.2
LONGEST_PAD_S: Final = 3600
EDGE_SLACK_S: Final = 0.01  # rounding in annotations: a box may end this much behind the file

# The closed list of reasons a file, or a clip of it, is not in a store.
REASONS: Final = {
    "unreadable": "not a format libsndfile reads, or damaged",
    "truncated": "the header claims more samples than the file has",
    "empty": "no samples",
    "not_finite": "NaN or infinite samples, or values of 1e15 and more",
    "silent": "nothing above -90 dBFS (RMS of the loudest 50 ms) once DC is removed",
    "too_short": "less than one sample at the store's rate",
    "too_long": "more than fits in memory",
    "cancellation": "channels cancel in their mean",
    "band_above_rate": "80 % of the energy above the noise lies over the store's Nyquist",
    "no_activity": "no stretch of it is loud enough to be cut",
    "touches_edge": "the window touches the start or end of a separated stem",
    "no_mixture": "no raw recording of this name in the mixture folder, or one of another length",
    "no_annotations": "no annotation names this file",
    "bad_annotation": "a row of the annotations can't be understood",
    "outside_file": "an annotation lies outside the file",
    "not_accessible": "the file can't be opened, or is a pipe, a device or a folder that can't be listed",
}


@dataclass(frozen=True)
class Box:
    """A known call in a recording: [onset_s, offset_s), and low_hz..high_hz if known.

    ``columns`` are of this call only; ``where`` says where the box was read ("calls.csv, row 7").
    """

    onset_s: float
    offset_s: float
    low_hz: float | None = None
    high_hz: float | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True)
class Rejection:
    """A recording, or one clip of it (then ``where`` is not empty), that can't be used; ``name`` is its file."""

    name: str
    reason: str
    message: str
    where: str = ""


@dataclass(frozen=True)
class Recording:
    """One recording to cut clips from.

    Attributes:
        recording_id: what its clips are grouped by.
        samples: float32 or float64 [samples], mono, at the store's rate, original scale, not conditioned.
        columns: identity and biology of all its clips.
        boxes: the calls in it, for ``cut="annotations"``.
        mixture: the raw recording a separated stem came from, same length, for ``cut="activity"``.
        notes: what decoding found (:data:`synthscape.bank.decode.NOTES`), to be counted.
        high_share: energy above the store's rate, if it was recorded at a higher one.
        rejections: boxes of it that were refused before they came here.
        name: what it is called in ``rejected.csv``: its file; the recording_id if empty.
    """

    recording_id: str
    samples: NDArray[np.floating[Any]]
    columns: Mapping[str, Any] = field(default_factory=dict)
    boxes: Sequence[Box] = ()
    mixture: NDArray[np.floating[Any]] | None = None
    notes: Sequence[str] = ()
    high_share: HighShare | None = None
    rejections: Sequence[Rejection] = ()
    name: str = ""


@dataclass
class BuildReport:
    """What came of a build: ``n_recordings == n_with_clips + n_rejected``, always.

    A recording counts as rejected if none of its clips could be used; one whose audio is all in the store already (a
    duplicate) counts as one with clips.
    """

    path: str
    n_recordings: int = 0
    n_with_clips: int = 0
    n_rejected: int = 0
    n_clips: int = 0
    n_duplicates: int = 0
    n_rejected_clips: int = 0
    clip_seconds: float = 0.0
    fingerprint: str = ""
    reasons: dict[str, int] = field(default_factory=dict)  # rows of rejected.csv by reason
    notes: dict[str, int] = field(default_factory=dict)  # recordings by note

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def build_store(
    recordings: Iterable[Recording | Rejection],
    out: str | Path,
    kind: str = "pseudovox",
    rate: int = 16000,
    cut: str = "whole",
    *,
    highpass_hz: float = 20.0,
    pad_s: float = PAD_S,
    overwrite: bool = False,
    cluster_columns: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> BuildReport:
    """Cut recordings into clips, measure them, and write a store.

    >>> report = build_store(recordings, "banks/mine", cut="annotations")       # doctest: +SKIP
    >>> report.n_clips, report.reasons                                          # doctest: +SKIP
    (412, {'silent': 2})

    Recordings are conditioned (DC, high-pass) before they are cut; impulse responses are stored whole and as they are,
    as a zero-phase filter would put sound before their direct sound. Clips are measured as stored.

    - ``whole``: a recording is a clip.
    - ``annotations``: a clip per box, with up to ``pad_s`` of recording on each side, never reaching into another box.
      It is measured as any clip: the box says where to look, its active part is what sounds there.
    - ``activity``: a clip per window of :func:`synthscape.bank.activity.find_windows`.

    Clips cut from a recording say where they come from: ``track_onset_s`` is their first sample, ``track_id`` the
    recording (activity), or recording, species and individual (annotations), unless columns give a track.

    Args:
        recordings: one in memory at a time if this is a generator; in the order of the store.
        out: folder to write; also gets ``rejected.csv`` if anything is.
        kind: ``pseudovox``, ``backgrounds`` or ``impulses``.
        rate: Hz, of all samples.
        cut: ``whole``, ``activity`` or ``annotations``.
        highpass_hz: 0 = DC only.
        pad_s: what is kept around a box, seconds.
        overwrite: replace a store at ``out``.
        cluster_columns: ``cluster_*`` columns the recordings have.
        settings: how the recordings were read, kept in ``store.json``.

    Raises:
        SpecError: an argument makes no sense.
        StoreError: something that must not be replaced is at ``out``; or nothing could be used - then no store is left,
            and the reasons are in ``<out>.rejected.csv``.
    """
    if cut not in CUTS:
        raise SpecError(f"cut must be one of {', '.join(CUTS)}, got {cut!r}")
    if kind == "impulses" and cut != "whole":
        raise SpecError(f"cut must be whole for impulses, got {cut!r}: an impulse response is all of its file")
    if not 0 <= highpass_hz < rate / 2:
        raise SpecError(f"the high-pass must lie between 0 and {rate / 2} Hz (Nyquist), got {highpass_hz}")
    if not 0 <= pad_s <= LONGEST_PAD_S:
        raise SpecError(f"the padding around a box must be 0 to {LONGEST_PAD_S} s, got {pad_s}")
    conditioning = {
        **({"dc_removed": False} if kind == "impulses" else {"dc_removed": True, "highpass_hz": highpass_hz}),
        **({} if kind == "impulses" else {"highpass_order": HIGHPASS_ORDER, "zero_phase": True}),
        "cut": cut,
        **({"pad_s": pad_s} if cut == "annotations" else {}),
        **(settings or {}),
    }
    report = BuildReport(path=str(out))
    reasons: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    unwritten = Path(f"{out}.rejected.csv")
    writer = StoreWriter(
        out, kind, rate, conditioning=conditioning, cluster_columns=cluster_columns, overwrite=overwrite
    )
    n_samples = 0
    with writer, _RejectedList(writer.aside / REJECTED_FILE) as listing:
        for recording in recordings:
            report.n_recordings += 1
            used = False
            for result in _clips(recording, kind, rate, cut, highpass_hz, pad_s):
                if isinstance(result, Rejection):
                    listing.add(result)
                    reasons[result.reason] += 1
                    report.n_rejected_clips += bool(result.where)
                    continue
                used = True
                samples, columns = result
                if writer.add(samples, columns) is not None:
                    n_samples += len(samples)
            report.n_with_clips += used
            report.n_rejected += not used
            if isinstance(recording, Recording):
                notes.update(recording.notes)
        listing.close()
        if not writer.n_clips:
            counts = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
            if not report.n_recordings:
                raise StoreError(f"no store written at {out}: there are no recordings")
            shutil.copyfile(writer.aside / REJECTED_FILE, unwritten)
            raise StoreError(
                f"no store written at {out}: none of {report.n_recordings} recordings could be used ({counts}); see "
                f"{unwritten}"
            )
    assert report.n_recordings == report.n_with_clips + report.n_rejected
    report.n_clips, report.n_duplicates = writer.n_clips, writer.n_duplicates
    report.clip_seconds = n_samples / rate
    report.fingerprint = writer.fingerprint
    report.reasons, report.notes = dict(sorted(reasons.items())), dict(sorted(notes.items()))
    return report


_Clip = tuple[NDArray[np.float32], dict[str, Any]]


@dataclass(frozen=True)
class _Cut:
    start: int
    end: int
    columns: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    box: Box | None = None
    window: Window | None = None


def _clips(
    recording: Recording | Rejection, kind: str, rate: int, cut: str, highpass_hz: float, pad_s: float
) -> Iterator[_Clip | Rejection]:
    if isinstance(recording, Rejection):
        yield recording
        return
    yield from recording.rejections
    name = recording.name or recording.recording_id
    samples = np.asarray(recording.samples, dtype=np.float32)
    if samples.ndim != 1 or not samples.size:
        yield Rejection(name, "empty", "no samples")
        return
    try:
        check_peak(float(np.max(np.abs(samples))))
    except AudioError as error:
        yield Rejection(name, error.reason, str(error))
        return
    columns: dict[str, Any] = {**recording.columns, "recording_id": recording.recording_id}
    if kind != "impulses":
        samples, columns["dc_removed"] = condition(samples, rate, highpass_hz)
    for piece in _cuts(recording, samples, rate, cut, pad_s):
        if isinstance(piece, Rejection):
            yield piece
            continue
        try:
            if kind == "pseudovox":
                _refuse_above_rate(recording.high_share, rate, piece)
            clip = samples[piece.start : piece.end]
            if piece.window is not None:
                clip = cut_window(samples, piece.window)
            yield clip, {**columns, **piece.columns, **_measured(clip, kind, rate)}
        except AudioError as error:
            yield Rejection(name, error.reason, str(error), piece.where)


def _cuts(
    recording: Recording, samples: NDArray[np.float32], rate: int, cut: str, pad_s: float
) -> Iterator[_Cut | Rejection]:
    if cut == "whole":
        yield _Cut(0, len(samples))
    elif cut == "annotations":
        yield from _around_boxes(recording, len(samples), rate, pad_s)
    else:
        yield from _around_activity(recording, samples, rate)


def _around_boxes(recording: Recording, n_samples: int, rate: int, pad_s: float) -> Iterator[_Cut | Rejection]:
    name = recording.name or recording.recording_id
    boxes: list[tuple[int, int, Box]] = []
    for box in recording.boxes:
        message = _wrong_box(box, n_samples / rate)
        if message:
            yield Rejection(name, *message, box.where or f"{box.onset_s}-{box.offset_s} s")
            continue
        onset = max(0, seconds_to_samples(box.onset_s, rate))
        offset = min(n_samples, max(onset + 1, seconds_to_samples(box.offset_s, rate)))
        boxes.append((min(onset, offset - 1), offset, box))
    if not recording.boxes and not recording.rejections:
        yield Rejection(name, "no_annotations", REASONS["no_annotations"])
    pad = seconds_to_samples(pad_s, rate)
    onsets, offsets = np.sort([box[0] for box in boxes]), np.sort([box[1] for box in boxes])
    for onset, offset, box in boxes:
        # the margin must not hold another call: it stops at the last box that ended, and at the next that begins
        before = offsets[: np.searchsorted(offsets, onset, side="right")]
        after = onsets[np.searchsorted(onsets, offset, side="left") :]
        start = max(0, onset - pad, int(before[-1]) if len(before) else 0)
        end = min(n_samples, offset + pad, int(after[0]) if len(after) else n_samples)
        said = {**recording.columns, **box.columns}
        track = " | ".join(
            str(part) for part in (recording.recording_id, said.get("species"), said.get("individual")) if part
        )
        columns = {"track_id": said.get("track_id") or track, "track_onset_s": start / rate, **box.columns}
        yield _Cut(start, end, columns, box.where or f"{box.onset_s}-{box.offset_s} s", box=box)


def _wrong_box(box: Box, duration_s: float) -> tuple[str, str] | None:
    if not (math.isfinite(box.onset_s) and math.isfinite(box.offset_s)) or box.offset_s <= box.onset_s:
        return "bad_annotation", f"the box should end after it begins, got {box.onset_s} to {box.offset_s} s"
    if box.low_hz is not None and box.high_hz is not None and not 0 <= box.low_hz < box.high_hz:
        return "bad_annotation", f"the box should have 0 <= low < high, got {box.low_hz} to {box.high_hz} Hz"
    if box.onset_s < -EDGE_SLACK_S or box.offset_s > duration_s + EDGE_SLACK_S or box.onset_s >= duration_s:
        return "outside_file", f"{box.onset_s} to {box.offset_s} s is outside the file, which has {duration_s:.4f} s"
    return None


def _around_activity(recording: Recording, samples: NDArray[np.float32], rate: int) -> Iterator[_Cut | Rejection]:
    name = recording.name or recording.recording_id
    mixture = recording.mixture
    if mixture is not None and abs(len(mixture) - len(samples)) > seconds_to_samples(EDGE_SLACK_S, rate):
        message = f"its mixture has {len(mixture)} samples at {rate} Hz, it has {len(samples)}: not cut from the same"
        yield Rejection(name, "no_mixture", message)
        return
    level_dbfs = loudest_block_dbfs(samples, rate)
    windows = find_windows(samples, rate, mixture) if level_dbfs >= SILENT_DBFS else []
    if not windows:
        try:  # of a bat nothing is left at 16 kHz: that is why, not silence
            _refuse_above_rate(recording.high_share, rate, _Cut(0, len(samples)))
            if level_dbfs < SILENT_DBFS:
                raise AudioError(_silent_message(level_dbfs), "silent")
            raise AudioError(REASONS["no_activity"], "no_activity")
        except AudioError as error:
            yield Rejection(name, error.reason, str(error))
    for window in windows:
        where = f"{window.tight_start / rate:.3f}-{window.tight_end / rate:.3f} s"
        if mixture is not None and window.touches_edge:
            yield Rejection(name, "touches_edge", REASONS["touches_edge"], where)
            continue
        track = recording.columns.get("track_id") or recording.recording_id
        columns = {"track_id": track, "track_onset_s": window.start / rate}
        yield _Cut(window.start, window.end, columns, where, window=window)


def _refuse_above_rate(high_share: HighShare | None, rate: int, piece: _Cut) -> None:
    box = piece.box
    if box is not None and box.low_hz is not None and box.low_hz >= rate / 2:
        raise AudioError(
            f"the call lies over {box.low_hz:.0f} Hz, a store at {rate} Hz holds up to {rate // 2} Hz",
            "band_above_rate",
        )
    # what is silent at its own rate is that, not out of band
    if high_share is None or high_share.loudest_dbfs < SILENT_DBFS:
        return
    if box is not None:
        share = high_share.share(box.onset_s, box.offset_s)
    elif piece.window is not None:
        share = high_share.share(piece.window.tight_start / rate, piece.window.tight_end / rate)
    else:
        share = high_share.share()
    if share >= HIGH_SHARE:
        raise AudioError(
            f"{share:.0%} of its energy above the noise lies over {rate // 2} Hz, the most a store at {rate} Hz holds; "
            "build one with a higher --rate",
            "band_above_rate",
        )


def _measured(clip: NDArray[np.float32], kind: str, rate: int) -> dict[str, Any]:
    level_dbfs = loudest_block_dbfs(clip, rate)
    # an impulse response has no level of its own
    if level_dbfs < SILENT_DBFS and kind != "impulses":
        raise AudioError(_silent_message(level_dbfs), "silent")
    pcm, _ = to_pcm(clip)
    stored = pcm.astype(np.float32) / np.float32(FULL_SCALE)
    return call_features(stored, rate) if kind == "pseudovox" else background_features(stored, rate)


def _silent_message(level_dbfs: float) -> str:
    return f"silent: its loudest 50 ms have {level_dbfs:.1f} dBFS once DC is removed, the least is {SILENT_DBFS:.0f}"


class _RejectedList:
    # rejected.csv, written as it comes: not kept in memory
    def __init__(self, path: Path):
        self._file: IO[str] | None = None
        self._path = path

    def add(self, rejection: Rejection) -> None:
        if rejection.reason not in REASONS:
            raise ValueError(f"{rejection.reason!r} is not one of the reasons a recording may be rejected for")
        if self._file is None:
            self._file = self._path.open("w", encoding="utf-8", newline="")
            self._csv = csv.writer(self._file, lineterminator="\n")
            self._csv.writerow(["file", "where", "reason", "message"])
        self._csv.writerow([rejection.name, rejection.where, rejection.reason, rejection.message])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> _RejectedList:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
