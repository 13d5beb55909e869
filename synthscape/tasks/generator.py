"""SceneGenerator: scenes by number, in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from synthscape.bank.store import ClipStore
from synthscape.errors import MixError, PlanError, SpecError, StoreError
from synthscape.labels.tables import Catalogue, scene_id
from synthscape.mix.batch import SceneBatch
from synthscape.mix.mixer import Mixer, Prepared
from synthscape.plan.community import Community, read_community
from synthscape.plan.index import ClassEntry
from synthscape.plan.plan import PLAN_VERSION, ScenePlan
from synthscape.plan.planner import Planner
from synthscape.spec import Spec
from synthscape.spec.schema import QUESTION_TASKS
from synthscape.storage import within
from synthscape.tasks.answers import Sources, untrue_items
from synthscape.tasks.chat import check_names
from synthscape.tasks.items import ItemPlan, ItemPlanner, item_id
from synthscape.tasks.scenes import ItemTables, Scenes, Shelves
from synthscape.tasks.wording import check_templates

if TYPE_CHECKING:
    from synthscape.mix.device import DeviceMixer


class SceneGenerator:
    """Scenes by number: the same number gives the same scene, in any order, batch size, process or year.

    >>> scenes = SceneGenerator(load_spec("strong_detection"))     # doctest: +SKIP
    >>> batch = scenes.render([3, 9], stems=True)                  # doctest: +SKIP
    >>> batch.audio.shape, batch.audio.dtype                       # doctest: +SKIP
    ((2, 160000), dtype('float32'))
    >>> batch.events[["scene_id", "onset_s", "offset_s", "species"]]    # doctest: +SKIP

    Opening the stores, planning and mixing are set up when first used, and again in each process the generator is
    sent to (it pickles as the spec), so that it may be handed to the workers of a data loader.

    Args:
        device: what mixes: ``cpu``, ``cuda``, ``cuda:1``, ..., or ``auto``: a GPU where there is one. Planning is the
            same on all.

    Attributes:
        spec: what to make.
        sample_rate: Hz.
        fingerprint: hash of the spec (without ``output``, ``items`` and paths), all stores, the community table and the
            plan version.
        bank: the store of calls.
        backgrounds: the store of backgrounds; None where all backgrounds are noise.
        impulses: the store of impulse responses; None where the spec names none.
        community: the community table; None where the spec names none.

    Raises:
        StoreError: a store is missing, damaged, of another rate or kind, or lacks a column the spec needs.
        PlanError: what the spec asks can't be planned with these stores.
    """

    def __init__(self, spec: Spec, device: str = "cpu"):
        check_templates(spec.task, spec)
        self.spec = spec
        self.device = _chosen(device)
        self.sample_rate = spec.sample_rate
        self._folder = Path().absolute()  # what the spec's paths are relative to
        self._open()
        self.fingerprint = fingerprint(spec, self.bank, self.backgrounds, self.impulses, self.community)

    def _open(self) -> None:
        spec, folder = self.spec, self._folder
        files = spec.backgrounds if spec.background.noise.probability < 1 else None
        impulses = spec.events.propagation.impulses
        self.bank = _open_store(within(folder, spec.bank), "pseudovox", spec.sample_rate, "bank")
        self.backgrounds = (
            None
            if files is None
            else _open_store(within(folder, files), "backgrounds", spec.sample_rate, "backgrounds")
        )
        self.impulses = (
            None
            if impulses is None
            else _open_store(within(folder, impulses), "impulses", spec.sample_rate, "events.propagation.impulses")
        )
        table = spec.community.table
        self.community = read_community(spec, None if table is None else folder / table)

    @property
    def stores(self) -> dict[str, ClipStore]:
        """The stores in use, by name."""
        named = {"bank": self.bank, "backgrounds": self.backgrounds, "impulses": self.impulses}
        return {name: store for name, store in named.items() if store is not None}

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("spec", "device", "sample_rate", "_folder", "fingerprint")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
        if fingerprint(self.spec, self.bank, self.backgrounds, self.impulses, self.community) != self.fingerprint:
            table = self.spec.community.table
            paths = [
                *(store.where for store in self.stores.values()),
                *([] if table is None else [self._folder / table]),
            ]
            raise StoreError(f"{' or '.join(map(str, paths))} changed since the generator was made; make a new one")

    @cached_property
    def planner(self) -> Planner:
        """What plans the scenes."""
        return Planner(self.spec, self.bank, self.backgrounds, self.impulses, self.community)

    @cached_property
    def mixer(self) -> Mixer:
        """What mixes them on the CPU."""
        return Mixer(self.spec, self.bank, self.backgrounds, self.impulses)

    @cached_property
    def device_mixer(self) -> DeviceMixer:
        """What mixes them on ``device``, where that is not the CPU."""
        try:
            from synthscape.mix.device import DeviceMixer  # and torch, which takes seconds
        except ImportError as error:
            raise MixError(
                f"device {self.device!r} needs torch and Triton ({error}): pip install synthscape[gpu]"
            ) from None
        return DeviceMixer(self.spec, self.bank, self.backgrounds, self.impulses, self.device)

    @cached_property
    def catalogue(self) -> Catalogue:
        """What the tables say of clips, backgrounds and classes."""
        return Catalogue(
            self.bank,
            self.backgrounds,
            [entry.name for entry in self.classes],
            impulses=self.impulses,
            room_names=self.planner.rooms,
            cluster_column=self.spec.classes.column or "cluster",
            audible_db=self.spec.events.snr.audible_db,
            fingerprint=self.fingerprint,
        )

    @property
    def classes(self) -> list[ClassEntry]:
        """Classes in label order, with their numbers of clips and recordings."""
        return self.planner.classes

    @cached_property
    def item_planner(self) -> ItemPlanner:
        """What plans the items."""
        check_names(self.spec, self._named_classes())
        return ItemPlanner(self.spec, self.planner, self.bank, self.backgrounds)

    def _named_classes(self) -> list[dict[str, str | None]]:
        """Class, species and call type of each class."""
        ids = self.planner.index.class_ids
        _, first = np.unique(ids, return_index=True)
        rows = first[-len(self.classes) :]  # -1, of clips that are not used, comes before the classes
        there = [name for name in ("species", "call_type") if self.bank.has(name)]
        columns = self.bank.columns(there).take(rows).to_pylist() if there else [{}] * len(rows)
        return [
            {"class": entry.name, "species": None, "call_type": None, **row}
            for entry, row in zip(self.classes, columns, strict=True)
        ]

    def plan(self, numbers: Iterable[int]) -> ScenePlan:
        """Plan items, without audio: all their scenes, in the order they are heard; nothing but the numbers matters.

        Args:
            numbers: item numbers from 0, in any order; those of epoch k are ``k * 2**40 + index``.

        Raises:
            PlanError: an item can't be planned with this bank; :meth:`plan_items` gives the others.
        """
        items = self.plan_items(numbers)
        if items.failures:
            number, reason = next(iter(items.failures.items()))
            raise PlanError(f"{len(items.failures)} items could not be planned, first {self.item_id(number)}: {reason}")
        return items.scenes

    def item_id(self, number: int) -> str:
        """Name of an item."""
        return item_id(number) if self.spec.task in QUESTION_TASKS else scene_id(number)

    def plan_items(self, numbers: Iterable[int]) -> ItemPlan:
        """Plan items: their scenes, and what is asked about them; those that can't be planned are in ``failures``.

        Args:
            numbers: as in :meth:`plan`.
        """
        return self.item_planner.plan(numbers)

    def render(self, numbers: Iterable[int], *, stems: bool = False) -> Scenes:
        """Plan and mix items.

        Args:
            numbers: item numbers, as in :meth:`plan`. Where items are questions, each has several scenes.
            stems: keep each event and the background too.

        Raises:
            PlanError: an item can't be planned with this bank.
            MixError: items that could not be rendered, or turned out not to be true, by name and with the reason.
        """
        mixer = self.mixer if self.device == "cpu" else self.device_mixer
        numbers = list(numbers)
        items = self.plan_items(numbers)
        if items.failures:
            self.plan(numbers)  # says which
        batch = mixer.render(items.scenes, stems=stems)
        levels = batch if isinstance(batch, SceneBatch) else batch.levels()
        failed = untrue_items(items, levels, self.spec.events.snr.audible_db)
        if failed:
            first, reason = min(failed.items())
            raise MixError(
                f"{len(failed)} of {len(items)} items could not be rendered, first {items.ids[first]}: {reason}"
            )
        return Scenes(batch, items, self._tables_of(items, levels))

    def tables(
        self, items: ItemPlan, batch: SceneBatch, pcm_hashes: Sequence[str], audio: Sequence[str] | None = None
    ) -> ItemTables:
        """What is known of delivered items.

        Args:
            items: all of them delivered.
            batch: their scenes; its audio is not looked at.
            pcm_hashes: one a scene, see :func:`synthscape.labels.pcm.pcm_hash`.
            audio: file of each scene; None if nothing was written.
        """
        return self._tables_of(items, batch)(pcm_hashes, audio)

    def _tables_of(self, items: ItemPlan, batch: SceneBatch) -> partial[ItemTables]:
        return partial(ItemTables, self.spec, self._shelves, items, batch)

    @cached_property
    def _shelves(self) -> Shelves:
        asked = self.spec.task in QUESTION_TASKS
        names = [entry.name for entry in self.classes]
        return Shelves(
            self.catalogue,
            Sources(self.bank, self.planner.index.class_ids, names) if asked else None,
            self.item_planner,
            self.bank,
            self.backgrounds,
        )

    def prepare(self, plan: ScenePlan) -> ScenePlan | Prepared:
        """What :meth:`mix_as_written` takes of a plan, whose parts are mixed one by one.

        Args:
            plan: of this generator.
        """
        return self.mixer.prepare(plan) if self.device == "cpu" else plan

    def mix_as_written(self, plan: ScenePlan | Prepared, *, stems: bool = False) -> SceneBatch:
        """Mix planned scenes on the generator's device into the 16-bit samples that are written, on the host.

        May be called from several threads; a device mixes for one at a time.

        Args:
            plan: of this generator; as it is, or as :meth:`prepare` gives it.
            stems: keep each event and the background too.
        """
        if self.device == "cpu":
            return self.mixer.render(plan, stems=stems, pcm=True)
        with self._device_lock:
            plan = plan.plan if isinstance(plan, Prepared) else plan
            return self.device_mixer.render(plan, stems=stems, pcm=True).to_host()

    @cached_property
    def _device_lock(self) -> threading.Lock:
        return threading.Lock()


def _chosen(device: str) -> str:
    if device == "auto":
        try:
            import torch
        except ImportError:
            return "cpu"
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device != "cpu" and not device.startswith("cuda"):
        raise SpecError(f"device {device!r}: expected auto, cpu, cuda, or cuda:1 and so on")
    return device


def fingerprint(
    spec: Spec,
    bank: ClipStore,
    backgrounds: ClipStore | None,
    impulses: ClipStore | None = None,
    community: Community | None = None,
) -> str:
    """Hash of all that scenes depend on: BLAKE2b-128 over canonical JSON, hex."""
    content = {
        "spec": spec.fingerprint_content(),
        "bank": bank.fingerprint,
        "backgrounds": None if backgrounds is None else backgrounds.fingerprint,
        "impulses": None if impulses is None else impulses.fingerprint,
        "community": None if community is None else community.fingerprint(),
        "plan_version": PLAN_VERSION,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _open_store(path: Path | str, kind: str, rate: int, key: str) -> ClipStore:
    if isinstance(path, Path) and not path.exists():
        raise StoreError(f"{key}: {path} does not exist; build it with `synthscape bank build`, or set {key}=FOLDER")
    store = ClipStore.open(path)
    if store.kind != kind:
        raise StoreError(f"{key}: {path} is a store of {store.kind}, expected {kind}; set {key}=FOLDER")
    if store.sample_rate != rate:
        raise StoreError(
            f"{key}: {path} has {store.sample_rate} Hz, the spec asks for {rate} Hz; build it again with "
            f"`synthscape bank build ... --kind {kind} --rate {rate}`, or set sample_rate={store.sample_rate}"
        )
    return store
