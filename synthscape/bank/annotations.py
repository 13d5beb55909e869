"""Reading boxes that others drew: Raven selection tables, Audacity labels, CSVs of onsets and offsets.

A table beside a recording belongs to it by name (for ``X.wav``: ``X.Table.1.selections.txt``, ``X.selections.txt``,
``X.txt``, ``X.csv``, ``X_annotations.csv``, ``X_anno.csv``, ``X_labels.txt``); a CSV or Raven table with a column of
file names belongs to every file of its folder that it names. A name that only differs in its extension counts, as
``X.wav`` may be kept as ``X.flac``.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from synthscape.bank.build import Box
from synthscape.bank.metadata import typed
from synthscape.bank.schema import METADATA_COLUMNS, is_cluster
from synthscape.errors import SpecError

# Names of columns in the tables of others, letters and digits only. In warbleR's and monitoR's tables (`bottom.freq`,
# `min.frq`) frequencies are kHz; everywhere else Hz.
_FILE: Final = (
    "soundfiles",
    "soundfile",
    "audiofilename",
    "filename",
    "file",
    "beginfile",
    "audiofile",
    "recording",
    "wav",
)
_ONSET: Final = (
    "begintimes",
    "starttimes",
    "starttime",
    "start",
    "onset",
    "onsets",
    "begin",
    "begins",
    "starts",
    "begintime",
)
_OFFSET: Final = ("endtimes", "endtime", "end", "offset", "offsets", "ends", "stop", "stops")
_LOW_HZ: Final = ("lowfreqhz", "lowhz", "lowfreq", "minfreqhz", "minfreq", "fmin", "lowfrequency", "freqlow")
_HIGH_HZ: Final = ("highfreqhz", "highhz", "highfreq", "maxfreqhz", "maxfreq", "fmax", "highfrequency", "freqhigh")
_LOW_KHZ: Final = ("bottomfreq", "minfrq", "lowkhz", "bottomfreqkhz")
_HIGH_KHZ: Final = ("topfreq", "maxfrq", "highkhz", "topfreqkhz")
_LABEL: Final = (
    "annotation",
    "label",
    "labelspecies",
    "species",
    "specieslabel",
    "name",
    "class",
    "commonname",
    "unit",
)
_CALL_TYPE: Final = ("calltype", "labelcalltype", "songtype")
_NOT_COLUMNS: Final = ("recording_id", "track_onset_s")


@dataclass(frozen=True)
class BadRow:
    """A row that can't be understood, and why."""

    where: str
    message: str


@dataclass
class Annotations:
    """Boxes and bad rows by file (path relative to the folder), and what was found on the way.

    Attributes:
        boxes: of each file.
        bad: rows of each file that are refused.
        by_stem: files whose table names them by another extension.
        without_file: names in tables that are no file of their folder.
        tables: the tables that were read, relative paths.
        unread: other text files that might have been meant as tables, with why they were not read as such.
    """

    boxes: dict[str, list[Box]] = field(default_factory=dict)
    bad: dict[str, list[BadRow]] = field(default_factory=dict)
    by_stem: set[str] = field(default_factory=set)
    without_file: set[str] = field(default_factory=set)
    tables: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)


def read_annotations(source: Path, files: Iterable[str], label_column: str = "species") -> Annotations:
    """Find and read the tables beside the files of a folder.

    Args:
        source: the folder.
        files: audio files, relative to it, with ``/``.
        label_column: where a table's label (annotation, species, name) goes: ``species``, ``call_type``, ...

    Raises:
        SpecError: a table belongs to a file by name and can't be read.
    """
    found = Annotations()
    folders: dict[str, list[str]] = {}
    for name in files:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    for folder, names in sorted(folders.items()):
        by_name = {name.rpartition("/")[2]: name for name in names}
        by_stem: dict[str, list[str]] = {}
        for name in by_name:
            by_stem.setdefault(Path(name).stem, []).append(name)
        for table in sorted((source / folder).iterdir()):
            if table.is_file() and table.suffix.lower() in (".txt", ".csv", ".tsv"):
                _read_table(table, source, by_name, by_stem, found, label_column)
    return found


def _read_table(
    table: Path,
    source: Path,
    by_name: Mapping[str, str],
    by_stem: Mapping[str, list[str]],
    found: Annotations,
    label_column: str,
) -> None:
    owner = _owner(table.name, by_name, by_stem)
    relative = table.relative_to(source).as_posix()
    try:
        text = table.read_text(encoding="utf-8-sig")
        is_audacity = owner is not None and _is_audacity(text)
        rows = [] if is_audacity else _rows(text)
    except (UnicodeDecodeError, csv.Error) as error:
        is_text = isinstance(error, csv.Error)
        why = f"not a table ({error}: is a quote not closed?)" if is_text else "not UTF-8 text"
        if owner is not None and not (is_text and table.suffix.lower() == ".txt"):  # that may be notes
            raise SpecError(f"{relative} is named after a recording, but is {why}; correct it, or rename it") from None
        found.unread[relative] = why
        return
    if owner is not None and is_audacity:
        found.tables.append(relative)
        _read_audacity(text, relative, by_name[owner], found, label_column)
        return
    names = rows[0] if rows else []
    header = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in names]
    onset, offset = _column(header, _ONSET), _column(header, _OFFSET)
    file_column = _column(header, _FILE)
    if onset is None or offset is None or (owner is None and file_column is None):
        # any text may lie beside recordings; one that is plainly meant as their table must be understood
        lacking = "columns of begin and end times" if onset is None or offset is None else "column that names files"
        why = f"no {lacking}, apart by commas or tabs; its first line is {', '.join(names)[:80]!r}"
        if owner is not None and ".selections." in table.name:
            raise SpecError(f"{relative}: {why}; export it again, or rename it")
        found.unread[relative] = why
        return
    found.tables.append(relative)
    view = _column(header, ("view",))
    views = {row[view] for row in rows[1:] if view is not None and len(row) > view}
    # Raven lists a selection once for each view: in the waveform and in the spectrogram
    skipped_view = "Waveform" if any(name.startswith("Spectrogram") for name in views) else None
    for number, cells in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if view is not None and skipped_view and len(cells) > view and cells[view].startswith(skipped_view):
            continue
        name = by_name[owner] if owner is not None else None
        if owner is None and file_column is not None:
            said = cells[file_column].replace("\\", "/").rpartition("/")[2] if len(cells) > file_column else ""
            match = said if said in by_name else next(iter(by_stem.get(Path(said).stem, ())), None)
            if match is None:
                found.without_file.add(said or f"({relative}, row {number}: empty)")
                continue
            name = by_name[match]
            if match != said:
                found.by_stem.add(name)
        assert name is not None
        where = f"{relative}, row {number}"
        try:
            box = _box(names, header, cells, onset, offset, where, label_column)
        except (ValueError, SpecError) as error:
            found.bad.setdefault(name, []).append(BadRow(where, f"can't be understood: {error}"))
            continue
        found.boxes.setdefault(name, []).append(box)


def _rows(text: str) -> list[list[str]]:
    """Rows of cells apart by tabs or commas, as the first line has them.

    Quotes may hold commas and line breaks. A quote that is never closed would swallow the rows after it: in a table
    with tabs, where Raven writes quotes as they are, they then mean nothing; in one with commas it is an error.
    """
    if "\t" not in text.split("\n", 1)[0]:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True))
    except csv.Error:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE))


def _box(
    names: list[str], header: list[str], cells: list[str], onset: int, offset: int, where: str, label_column: str
) -> Box:
    def number(column: int | None, scale: float = 1.0) -> float | None:
        cell = cells[column].strip() if column is not None and column < len(cells) else ""
        if cell in ("", "NA"):
            return None
        try:
            return float(cell) * scale
        except ValueError:
            raise ValueError(f"expected a number with a decimal point, got {cell[:40]!r}") from None

    if any(cell.strip() for cell in cells[len(header) :]):
        raise ValueError(f"{len(cells)} cells, the header has {len(header)}; quote a cell with a comma in it")

    start, end = number(onset), number(offset)
    if start is None or end is None:
        raise ValueError("begin or end is empty")
    low, high = number(_column(header, _LOW_HZ)), number(_column(header, _HIGH_HZ))
    if low is None and high is None:
        low, high = number(_column(header, _LOW_KHZ), 1000.0), number(_column(header, _HIGH_KHZ), 1000.0)
    columns: dict[str, Any] = {}
    for name, plain, cell in zip(names, header, cells, strict=False):
        is_ours = name in METADATA_COLUMNS or is_cluster(name)
        if cell.strip() and is_ours and name not in _NOT_COLUMNS and plain not in (*_FILE, *_ONSET, *_OFFSET):
            columns[name] = typed(name, cell.strip(), where)
    for wanted, candidates in ((label_column, _LABEL), ("call_type", _CALL_TYPE)):
        column = _column(header, candidates)
        if column is not None and column < len(cells) and cells[column].strip():
            columns.setdefault(wanted, typed(wanted, cells[column].strip(), where))
    return Box(start, end, low, high, columns, where)


def _is_audacity(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\\")]
    return bool(lines) and all(re.match(r"\s*-?[\d.]+(e-?\d+)?\t\s*-?[\d.]+", line) for line in lines)


def _read_audacity(text: str, relative: str, name: str, found: Annotations, label_column: str) -> None:
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("\\"):
            continue
        where = f"{relative}, row {number}"
        cells = line.split("\t")
        below = lines[number] if number < len(lines) and lines[number].startswith("\\") else ""
        try:
            low, high = (float(cell) for cell in below.split("\t")[1:3]) if below else (None, None)
            label = cells[2].strip() if len(cells) > 2 else ""
            columns = {label_column: typed(label_column, label, where)} if label else {}
            # Audacity writes -1 where a label has no bounds in frequency
            low, high = (None if edge is not None and edge < 0 else edge for edge in (low, high))
            box = Box(float(cells[0]), float(cells[1]), low, high, columns, where)
        except (ValueError, SpecError) as error:
            found.bad.setdefault(name, []).append(BadRow(where, f"can't be understood: {error}"))
            continue
        found.boxes.setdefault(name, []).append(box)


def _owner(table: str, by_name: Mapping[str, str], by_stem: Mapping[str, list[str]]) -> str | None:
    whole = Path(table).stem
    for stem in (whole, re.sub(r"((\.Table\.\d+)?\.selections|[._-](anno|annotations?|labels?))$", "", whole)):
        if stem in by_name:
            return stem
        if stem in by_stem:
            return by_stem[stem][0]
    return None


def _column(header: list[str], names: Iterable[str]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)
