"""The tables as DataFrames, for whatever has them as Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd


class DataFrames(ABC):
    """Gives ``events``, ``scenes``, ``facts`` and ``items`` from ``event_table``, ``scene_table``, and so on."""

    @property
    @abstractmethod
    def event_table(self) -> pa.Table:
        """The events table, one row per event, by scene and onset (columns: docs/labels.md)."""

    @property
    @abstractmethod
    def scene_table(self) -> pa.Table:
        """The scenes table, one row per scene (columns: docs/labels.md)."""

    @property
    @abstractmethod
    def fact_table(self) -> pa.Table:
        """The facts table, one row per scene (columns: docs/labels.md)."""

    @property
    @abstractmethod
    def item_table(self) -> pa.Table:
        """The items table, one row per item (columns: docs/tasks.md)."""

    @cached_property
    def events(self) -> pd.DataFrame:
        """The events table as a DataFrame, one row per event, by scene and onset."""
        return _frame(self.event_table)

    @cached_property
    def scenes(self) -> pd.DataFrame:
        """The scenes table as a DataFrame, one row per scene."""
        return _frame(self.scene_table)

    @cached_property
    def facts(self) -> pd.DataFrame:
        """The facts table as a DataFrame, one row per scene."""
        return _frame(self.fact_table)

    @cached_property
    def items(self) -> pd.DataFrame:
        """The items table as a DataFrame, one row per item."""
        return _frame(self.item_table)


def _frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame
