"""The table that says what each file is: a CSV or TSV with a column ``file`` and any identity or biology columns."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from synthscape.bank.schema import COLUMNS, MEDIA, METADATA_COLUMNS, is_cluster, nearest
from synthscape.errors import SpecError

FILE_COLUMNS: Final = ("file", "path")


@dataclass
class Metadata:
    """What a metadata table says about the files of a folder.

    Attributes:
        columns: of each file (its path relative to the folder): values by column, typed; what is empty is left out.
        without_row: files no row names.
        without_file: rows that name no file of the folder, as they name it.
        elsewhere: number of rows whose file exists, but outside the folder.
        renormalised: files found only after Unicode normalisation (NFC and NFD look the same).
        cluster_columns: the ``cluster_*`` columns of the table.
    """

    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    without_row: list[str] = field(default_factory=list)
    without_file: list[str] = field(default_factory=list)
    elsewhere: int = 0
    renormalised: list[str] = field(default_factory=list)
    cluster_columns: tuple[str, ...] = ()


def read_table(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Rows of a CSV (or TSV, by its extension) as text: no type is guessed, so a species code "NA" stays one.

    Columns without a name and cells beyond the header may be there if they are empty, as spreadsheets leave them.

    Returns:
        The names of columns, and rows: the line each ends on, and its cells by column.

    Raises:
        SpecError: the table can't be read, has no header, or a row has more cells than the header.
    """
    is_tsv = path.suffix.lower() in (".tsv", ".tab")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t" if is_tsv else ",", strict=True)
            header = [name.strip() for name in next(reader, [])]
            _check_header(path, header, is_tsv)
            rows = []
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                for place, cell in enumerate(cells):
                    if cell.strip() and (place >= len(header) or not header[place]):
                        raise SpecError(
                            f"{path}, line {reader.line_num}: cell {place + 1} ({cell[:40]!r}) is in no named column "
                            f"of {len(header)}; name the column, empty it, or quote a cell with a comma in it"
                        )
                filled = cells + [""] * (len(header) - len(cells))
                rows.append((reader.line_num, {name: cell for name, cell in zip(header, filled, strict=False) if name}))
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: expected UTF-8 text, got other bytes ({error.reason}); save it as UTF-8") from None
    except csv.Error as error:
        raise SpecError(f"{path} is not a table of comma-separated values: {error}; is a quote not closed?") from None
    return [name for name in header if name], rows


def _check_header(path: Path, header: Sequence[str], is_tsv: bool) -> None:
    if not any(header):
        raise SpecError(f"{path} has no header: its first line should name the columns")
    twice = {name for name in header if name and header.count(name) > 1}
    if twice:
        raise SpecError(f"{path} has the column {sorted(twice)[0]!r} twice")
    others = [sign for sign in (";", "\t", ",") if len(header) == 1 and sign in header[0]]
    if others:
        expected = "tabs, as its name says" if is_tsv else "commas (tabs in a .tsv)"
        raise SpecError(f"{path}: expected columns apart by {expected}, got {header[0][:60]!r}; save it again as that")


def read_metadata(
    table: Path,
    source: Path,
    files: Sequence[str],
    rename: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
) -> Metadata:
    """Match a metadata table to the files of a folder.

    >>> said = read_metadata(Path("calls.csv"), Path("calls"), ["a.wav"], {"species": "species_scientific"})
    ... # doctest: +SKIP
    >>> said.columns["a.wav"]                                                                      # doctest: +SKIP
    {'species': 'Parus major'}

    The column ``file`` (or ``path``) is relative to ``source`` or to the table's folder. Names are opaque: nothing in
    them is decoded. ``also_species`` holds several, apart by ``;``.

    Args:
        table: the table.
        source: the folder of the files.
        files: paths of the files, relative to ``source``, with ``/``.
        rename: the table's name of a column, by ours (``{"species": "species_scientific"}``).
        ignore: columns of the table not to use; ``*`` stands for every one that is not known.

    Raises:
        SpecError: a column is unknown, two rows name one file, or a cell is not of its column's type.
    """
    header, rows = read_table(table)
    ours = _our_names(table, header, rename or {}, ignore)
    key = next((name for name in header if ours.get(name) == "file"), None)
    if key is None:
        raise SpecError(f"{table} has no column `file` (or `path`): it has {', '.join(header)}; say --column file=NAME")
    result = Metadata(cluster_columns=tuple(name for name in ours.values() if is_cluster(name) and name != "cluster"))
    at_hand = {(source / name).resolve(strict=False).as_posix(): name for name in files}
    normal = {unicodedata.normalize("NFC", path): name for path, name in at_hand.items()}
    seen: dict[str, int] = {}
    for line, row in rows:
        said = row[key]
        places = [path for folder in (source, table.parent) if (path := _place(folder, said))]
        name = next((at_hand[path.as_posix()] for path in places if path.as_posix() in at_hand), None)
        if name is None:
            alike = (unicodedata.normalize("NFC", path.as_posix()) for path in places)
            name = next((normal[path] for path in alike if path in normal), None)
            if name is not None:
                result.renormalised.append(name)
        if name is None:
            if any(path.is_file() for path in places):
                result.elsewhere += 1
            else:
                result.without_file.append(said or f"(line {line}: empty)")
            continue
        if name in seen:
            raise SpecError(f"{table}, lines {seen[name]} and {line} are both for {name!r}: leave one row per file")
        seen[name] = line
        result.columns[name] = {
            ours[column]: typed(ours[column], cell.strip(), f"{table}, line {line}")
            for column, cell in row.items()
            if column in ours and column != key and cell.strip()
        }
    result.without_row = [name for name in files if name not in seen]
    return result


def _place(folder: Path, name: str) -> Path | None:
    """Where a name leads; None if it can't be a file's at all (empty, a NUL in it, longer than names may be)."""
    if not name or "\0" in name:
        return None
    try:
        path = (folder / name).resolve(strict=False)
        path.is_file()
    except (OSError, RuntimeError):
        return None
    return path


def typed(column: str, cell: str, where: str) -> Any:
    """A cell as the type of its column.

    Raises:
        SpecError: it isn't of that type.
    """
    kind = COLUMNS.get(column, pa.string())
    if pa.types.is_list(kind):
        return [part.strip() for part in cell.split(";") if part.strip()]
    if pa.types.is_floating(kind):
        try:
            value = float(cell)
        except ValueError:
            raise SpecError(
                f"{where}: {column!r} should be a number with a decimal point, got {cell!r}; correct it"
            ) from None
        if value != value or value in (float("inf"), float("-inf")):
            raise SpecError(f"{where}: {column!r} should be a finite number, got {cell!r}; leave it empty if unknown")
        return value
    if column == "medium" and cell not in MEDIA:
        raise SpecError(f"{where}: 'medium' should be one of {', '.join(MEDIA)}, got {cell!r}; correct it")
    return cell


def _our_names(table: Path, header: Sequence[str], rename: Mapping[str, str], ignore: Sequence[str]) -> dict[str, str]:
    known = (*FILE_COLUMNS, *METADATA_COLUMNS)
    for ours, theirs in rename.items():
        if ours not in known and not is_cluster(ours):
            raise SpecError(f"--column {ours}={theirs}: a store has no column {ours!r}{nearest(ours, known)}")
        if theirs not in header:
            raise SpecError(f"--column {ours}={theirs}: {table} has no column {theirs!r}{nearest(theirs, header)}")
    for theirs in rename.values():
        if list(rename.values()).count(theirs) > 1:
            raise SpecError(f"--column: {theirs!r} is named for two columns of a store; name it for one")
    for name in ignore:
        if name != "*" and name not in header:
            raise SpecError(f"--ignore-columns: {table} has no column {name!r}{nearest(name, header)}")
    by_theirs = {theirs: ours for ours, theirs in rename.items()}
    names: dict[str, str] = {}
    for name in header:
        ours = by_theirs.get(name, name)
        if ours in rename and by_theirs.get(name) != ours:
            continue  # another column was named for it
        if name in ignore:
            continue
        if ours in known or is_cluster(ours):
            names[name] = "file" if ours in FILE_COLUMNS else ours
        elif name not in by_theirs and "*" not in ignore:
            raise SpecError(
                f"{table}: unknown column {name!r}{nearest(name, known)}; name it with --column OURS={name}, or leave "
                f"it out with --ignore-columns {name}"
            )
    if list(names.values()).count("file") > 1:
        raise SpecError(f"{table} has both `file` and `path`: leave one out with --ignore-columns")
    return names
