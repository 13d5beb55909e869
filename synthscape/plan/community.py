"""The community table: which species are heard in a habitat, a month and an hour, and how often."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from synthscape.errors import PlanError, SpecError
from synthscape.spec.distributions import Distribution
from synthscape.spec.schema import Community as CommunitySpec
from synthscape.spec.schema import Spec
from synthscape.storage import is_url

WEIGHT_STEPS: Final = 2**20  # the largest weight of a table; others are rounded to whole steps, at least 1
_MONTHS, _HOURS = 12, 24
_COLUMNS: Final = ("species", "class", "weight", "habitat", "month", "hour")
_NAMED: Final = 5  # most names in a note


@dataclass(frozen=True)
class Community:
    """A table, as a spec uses it.

    Attributes:
        path: the file, for messages.
        names: species or classes of the rows that the spec's habitat admits, in order.
        row_name, row_month, row_hour, row_weight: of each of these rows; month and hour are -1 where they hold always,
            weights are whole numbers.
        time: int64 [13, 25]: row of ``weights`` by month (0: none is drawn) and hour + 1.
        weights: int64 [times, names].
        where: month and hour that a row of ``weights`` first stands for, in words.
        most_classes: that a scene may ask for.
    """

    path: str
    names: list[str]
    row_name: NDArray[np.int64]
    row_month: NDArray[np.int64]
    row_hour: NDArray[np.int64]
    row_weight: NDArray[np.int64]
    time: NDArray[np.int64]
    weights: NDArray[np.int64]
    where: list[str]
    most_classes: int

    def fingerprint(self) -> str:
        """BLAKE2b-128 over the rows that the spec's habitat admits, in any order; the file's path changes nothing."""
        rows = zip(
            (self.names[i] for i in self.row_name.tolist()),
            self.row_month.tolist(),
            self.row_hour.tolist(),
            self.row_weight.tolist(),
            strict=True,
        )
        text = json.dumps(sorted(rows), separators=(",", ":"), ensure_ascii=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()


def read_community(spec: Spec, path: Path | None = None) -> Community | None:
    """The spec's table, None if it has none.

    Args:
        spec: what is asked.
        path: where the table lies, if not where the spec says from the current folder.

    Raises:
        SpecError: the file is missing, is no such table, or a row is wrong; says which and what to do.
    """
    asked = spec.community
    if asked.table is None:
        return None
    if is_url(asked.table):
        raise SpecError(f"community.table: {asked.table}: expected a file on this machine, got a URL; copy it here")
    name = "species" if spec.classes.by == "species" else "class"
    table = _read(asked.table, path or Path(asked.table))
    names, weight = _names(asked.table, table, name), _weights(asked.table, table)
    month = _whole(asked.table, table, "month", 1, _MONTHS)
    hour = _whole(asked.table, table, "hour", 0, _HOURS - 1)
    here = _of_habitat(asked, table)
    names, weight, month, hour = names[here], weight[here], month[here], hour[here]
    ids, listed = pd.factorize(names, sort=True)
    months, hours = _can_be(asked.month), _can_be(asked.hour)
    time = np.zeros((_MONTHS + 1, _HOURS + 1), np.int64)
    weights: list[NDArray[np.int64]] = []
    where: list[str] = []
    known: dict[bytes, int] = {}
    for m in months:
        for h in hours:
            matches = np.ones(len(ids), dtype=bool)
            if m >= 0:
                matches &= (month == m) | (month < 0)
            if h >= 0:
                matches &= (hour == h) | (hour < 0)
            total = np.zeros(len(listed), np.int64)
            np.add.at(total, ids[matches], weight[matches])
            number = known.setdefault(total.tobytes(), len(known))
            if number == len(weights):
                weights.append(total)
                where.append(_when(m, h))
            time[max(m, 0), h + 1] = number
    return Community(
        path=asked.table,
        names=[str(one) for one in listed],
        row_name=ids.astype(np.int64),
        row_month=month,
        row_hour=hour,
        row_weight=weight,
        time=time,
        weights=np.array(weights),
        where=where,
        most_classes=int(spec.classes.per_scene.bounds()[1]),
    )


def class_weights(
    community: Community, classes: list[str], filtered: Counter[str], notes: list[str]
) -> NDArray[np.int64]:
    """Weights int64 [times, classes] of the bank's classes; what does not match is counted and noted.

    Raises:
        PlanError: at some time nothing of the table is in the bank.
    """
    column = {name: i for i, name in enumerate(community.names)}
    missing = sorted(set(community.names) - set(classes))
    if missing:
        filtered["species or classes of community.table without a usable clip"] += len(missing)
        notes.append(f"{community.path}: {len(missing)} of {len(column)} have no usable clip: {_some(missing)}")
    unlisted = sorted(set(classes) - set(column))
    if unlisted:
        notes.append(f"{len(unlisted)} classes are not in {community.path} and never drawn: {_some(unlisted)}")
    weights = np.zeros((len(community.weights), len(classes)), np.int64)
    for i, name in enumerate(classes):
        if name in column:
            weights[:, i] = community.weights[:, column[name]]
    n = (weights > 0).sum(axis=1)
    for row in np.flatnonzero(n == 0)[:1]:
        listed = [name for name, weight in zip(community.names, community.weights[row].tolist(), strict=True) if weight]
        raise PlanError(
            f"community.table: {community.path} has no class of the bank with a weight {community.where[row]}, which "
            f"can be drawn; it has {_some(listed) or 'none at all'}, the bank has {_some(classes)}; add rows, or draw "
            "other times in community.month and community.hour"
        )
    few = int((n < community.most_classes).sum())
    if few:
        notes.append(
            f"{community.path}: at {few} of {len(n)} times there are fewer classes (least: {int(n.min())}) than "
            f"classes.per_scene may ask for, {community.most_classes}; scenes then have all of them"
        )
    return weights


def _read(name: str, path: Path) -> pd.DataFrame:
    try:
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "no regular file"
            raise SpecError(f"community.table: {name}: expected a CSV or Parquet file, got {what}; set another")
        table = pd.read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise SpecError(f"community.table: {name}: expected a CSV or Parquet file, got: {why}; set another") from None
    except (ValueError, pd.errors.ParserError, pa.ArrowException) as error:
        why = str(error).splitlines()[0]
        raise SpecError(
            f"community.table: {name}: expected a CSV or Parquet table, got: {why}; mend the file"
        ) from None
    for column, n in Counter(table.columns).items():
        if n > 1 and column in _COLUMNS:
            raise SpecError(f"community.table: {name}: expected one column {column!r}, got {n}; remove all but one")
    for column in map(str, table.columns):
        known = column.strip().lower()
        if known in _COLUMNS and known not in table.columns:  # it would count as one that is not there
            raise SpecError(f"community.table: {name}: expected a column {known!r}, got {column!r}; rename it")
    if table.empty:
        raise SpecError(f"community.table: {name}: expected rows, got none; add some")
    return table


def _read_csv(path: Path) -> pd.DataFrame:
    """All cells as text; names are read as a row too, since pandas would rename some and shift rows that are longer."""
    rows = pd.read_csv(
        path, header=None, dtype=str, keep_default_na=False, na_values=[""], encoding="utf-8-sig", compression=None
    )
    table = rows.iloc[1:].reset_index(drop=True)
    table.columns = pd.Index(rows.iloc[0].fillna("").tolist(), dtype=object)
    return table


def _names(path: str, table: pd.DataFrame, column: str) -> NDArray[np.object_]:
    for needed in (column, "weight"):
        if needed not in table.columns:
            found = ", ".join(repr(str(one)) for one in table.columns)
            advice = (
                "; classes.by is not species, so the table names classes as the bank's class list does"
                if column == "class" and needed == column
                else "; add it"
            )
            raise SpecError(f"community.table: {path}: expected a column {needed!r}, got {found}{advice}")
    names = table[column]
    for row in np.flatnonzero(names.isna().to_numpy())[:1]:
        raise SpecError(f"community.table: {path}: row {row + 1}: expected a {column}, got nothing; fill it in")
    return names.astype(str).to_numpy(dtype=object)


def _weights(path: str, table: pd.DataFrame) -> NDArray[np.int64]:
    """Weights in whole steps, the largest ``WEIGHT_STEPS``; what is over 0 is at least 1."""
    given = _numbers(table["weight"])
    for row in np.flatnonzero(~(np.isfinite(given) & (given >= 0)))[:1]:
        got = table["weight"].iloc[row]
        raise SpecError(
            f"community.table: {path}: row {row + 1}: weight: expected a number from 0 on, got {got!r}; mend the row"
        )
    if given.max() <= 0:
        raise SpecError(f"community.table: {path}: weight: expected one over 0, got only 0; mend the column")
    steps = np.floor(given / given.max() * WEIGHT_STEPS + 0.5)
    return np.where(given > 0, np.maximum(steps, 1), 0).astype(np.int64)


def _numbers(column: pd.Series) -> NDArray[np.float64]:
    """Numbers, and texts and decimals that are some; NaN in place of all else, such as flags and times."""
    kind = column.dtype.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    if not (pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_string_dtype(kind) or kind == np.dtype(object)):
        return np.full(len(column), np.nan)
    if pd.api.types.is_bool_dtype(kind):
        return np.full(len(column), np.nan)
    return np.asarray(pd.to_numeric(column.astype(kind), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan))


def _whole(path: str, table: pd.DataFrame, column: str, low: int, high: int) -> NDArray[np.int64]:
    """A column of whole numbers, -1 where it is null or there is none."""
    if column not in table.columns:
        return np.full(len(table), -1, np.int64)
    null = table[column].isna().to_numpy()
    given = _numbers(table[column])
    fits = (given >= low) & (given <= high) & (given == np.floor(given))
    for row in np.flatnonzero(~(fits | null))[:1]:
        raise SpecError(
            f"community.table: {path}: row {row + 1}: {column}: expected a whole number from {low} to {high}, or "
            f"nothing, got {table[column].iloc[row]!r}; mend the row"
        )
    return np.where(null, -1, np.nan_to_num(given)).astype(np.int64)


def _of_habitat(asked: CommunitySpec, table: pd.DataFrame) -> NDArray[np.bool_]:
    if asked.habitat is None or "habitat" not in table.columns:
        return np.ones(len(table), dtype=bool)
    null = table["habitat"].isna()
    here = (null | (table["habitat"].astype(str) == asked.habitat)).to_numpy(dtype=bool)
    if not here.any():
        habitats = sorted(set(table["habitat"][~null].astype(str)))
        raise SpecError(
            f"community.habitat: {asked.table} has no row of habitat {asked.habitat!r}, it has {_some(habitats)}; "
            "use one of these, or null for all"
        )
    return here


def _can_be(draw: Distribution | None) -> list[int]:
    """Every whole number that may be drawn; -1 alone where nothing is."""
    if draw is None:
        return [-1]
    if not draw.choices:
        low, high = draw.bounds()
        return list(range(round(low), round(high) + 1))
    members = [_can_be(member) for member, weight in zip(draw.choices, draw.weights, strict=True) if weight]
    low, high = draw.bounds()
    return sorted({int(min(max(value, low), high)) for member in members for value in member})


def _when(month: int, hour: int) -> str:
    given = [f"{name} {value}" for name, value in (("month", month), ("hour", hour)) if value >= 0]
    return f"in {' and '.join(given)}" if given else "at all"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
