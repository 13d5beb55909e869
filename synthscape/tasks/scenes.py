"""Rendered items: their audio in memory, and all tables that tell of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.labels.batches import without_patches
from synthscape.labels.dataframes import DataFrames
from synthscape.labels.dcase import SUFFIX, dcase_csv
from synthscape.labels.facts import facts_table
from synthscape.labels.pcm import pcm_hash, to_pcm16
from synthscape.labels.regions import Region
from synthscape.labels.tables import Catalogue, event_table, scene_table
from synthscape.mix.batch import SceneBatch
from synthscape.plan.plan import ScenePlan
from synthscape.spec import Spec
from synthscape.tasks.answers import Sources, item_table, marked_spans
from synthscape.tasks.chat import chat_lines, chat_rows
from synthscape.tasks.items import ItemPlan, ItemPlanner

if TYPE_CHECKING:
    from synthscape.mix.device_batch import DeviceBatch


@dataclass(frozen=True)
class Shelves:
    """What tables of items look things up in."""

    catalogue: Catalogue
    sources: Sources | None  # None where items are scenes
    planner: ItemPlanner
    bank: ClipStore
    backgrounds: ClipStore | None


class ItemTables:
    """The tables of delivered items, made when asked for (columns: docs/labels.md, docs/tasks.md)."""

    def __init__(
        self,
        spec: Spec,
        shelves: Shelves,
        items: ItemPlan,
        batch: SceneBatch,
        pcm_hashes: Sequence[str],
        audio: Sequence[str] | None = None,
    ):
        self._spec = spec
        self._shelves = shelves
        self._planned = items
        self._batch = batch
        self._pcm_hashes = pcm_hashes
        self._audio = audio

    @cached_property
    def events(self) -> pa.Table:
        """One row per event."""
        return event_table(self._batch, self._shelves.catalogue, self._planned.scene_ids)

    @cached_property
    def scenes(self) -> pa.Table:
        """One row per scene."""
        items = self._planned
        item_ids = None if items.casts is None else [items.ids[i] for i in items.item_of_scene.tolist()]
        return scene_table(
            self._batch,
            self._shelves.catalogue,
            self._pcm_hashes,
            self._audio,
            items.scene_ids,
            item_ids=item_ids,
            parts=items.parts,
        )

    @cached_property
    def facts(self) -> pa.Table:
        """One row per scene: what can be said of it in words."""
        return facts_table(self.events, self.scenes)

    @cached_property
    def items(self) -> pa.Table:
        """One row per item."""
        licences = self.scenes["licences"].to_pylist()
        return item_table(
            self._planned, self._batch, self._spec, self._shelves.sources, licences, self._audio, self._spans
        )

    @cached_property
    def _spans(self) -> list[list[Region]] | None:
        shelves = self._shelves
        if self._spec.task != "few_shot_scenes":
            return None
        return marked_spans(
            self._planned,
            self._batch,
            self.events,
            self._spec,
            shelves.planner.pools,
            shelves.bank,
            shelves.backgrounds,
        )

    def chat_lines(self) -> str:
        """Rows for language models as JSON lines."""
        return chat_lines(self._named_items, self.events, self._spec)

    def chat(self) -> list[dict[str, Any]]:
        """Rows for language models; where no audio is written, scene ids stand in place of files."""
        return chat_rows(self._named_items, self.events, self._spec)

    @property
    def _named_items(self) -> pa.Table:
        if self._audio is not None or self._spec.output.control == "text":
            return self.items
        place = self.items.schema.get_field_index("audio")
        return self.items.set_column(place, self.items.schema.field("audio"), self.items["scene_ids"])

    def dcase(self, audio_suffix: str) -> list[tuple[str, str]]:
        """Name and text of the DCASE CSV of each scene, with task ``few_shot_scenes``."""
        rate, names = self._spec.sample_rate, self._planned.scene_ids
        return [
            (f"{name}{SUFFIX}", dcase_csv(f"{name}.{audio_suffix}", spans, rate))
            for name, spans in zip(names, self._spans or [], strict=True)
        ]


class Scenes(DataFrames):
    """Rendered scenes of some items, and their labels.

    ``audio == (background + sum of the scene's stems) * 10 ** (scene_gain_db / 20)`` to float32 precision.

    Attributes:
        audio: float32 [scenes, samples]; scenes shorter than the longest of the batch are zero at the end. Where the
            generator's device is not the CPU, this and the next two are torch tensors there.
        stems: float32 [events, samples] in the order of ``events``, before the scene gain; None unless asked for.
        background: float32 [scenes, samples], before the scene gain, patches included; None unless asked for.
        plan: what was planned, patches among the events.
        batch: what the mixer gave, likewise.
    """

    def __init__(self, batch: SceneBatch | DeviceBatch, items: ItemPlan, tables: Callable[[Sequence[str]], ItemTables]):
        self.batch = batch
        self.plan: ScenePlan = batch.plan
        self.audio: Any = batch.audio
        self.background: Any
        self.stems: Any
        self.background, self.stems = without_patches(batch.plan, batch.background, batch.stems)
        self.scene_ids = items.scene_ids
        self._make_tables = tables

    def __len__(self) -> int:
        return len(self.plan)

    def pcm(self, i: int) -> NDArray[np.int16]:
        """The i-th scene as it would be written, int16 [n_samples]."""
        scene = self.audio[i, : self.plan.n_samples[i]]
        return to_pcm16(scene if isinstance(scene, np.ndarray) else scene.cpu().numpy())

    @cached_property
    def tables(self) -> ItemTables:
        """All tables, as Arrow."""
        return self._make_tables([pcm_hash(self.pcm(i)) for i in range(len(self))])

    @property
    def event_table(self) -> pa.Table:
        """The events table, one row per event (columns: docs/labels.md)."""
        return self.tables.events

    @property
    def scene_table(self) -> pa.Table:
        """The scenes table, one row per scene (columns: docs/labels.md)."""
        return self.tables.scenes

    @property
    def fact_table(self) -> pa.Table:
        """The facts table, one row per scene (columns: docs/labels.md)."""
        return self.tables.facts

    @property
    def item_table(self) -> pa.Table:
        """The items table, one row per item (columns: docs/tasks.md)."""
        return self.tables.items

    @cached_property
    def chat(self) -> list[dict[str, Any]]:
        """Rows for language models, one per item (docs/tasks.md)."""
        return self.tables.chat()
