"""SceneGenerator: scenes by number, in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import MixError, SpecError, StoreError
from synthscape.labels.batches import without_patches
from synthscape.labels.facts import facts_table
from synthscape.labels.pcm import pcm_hash, to_pcm16
from synthscape.labels.tables import Catalogue, event_table, scene_id, scene_table
from synthscape.mix.batch import SceneBatch
from synthscape.mix.mixer import Mixer
from synthscape.plan.community import Community, read_community
from synthscape.plan.index import ClassEntry
from synthscape.plan.plan import PLAN_VERSION, ScenePlan
from synthscape.plan.planner import Planner
from synthscape.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    from synthscape.mix.device import DeviceMixer
    from synthscape.mix.device_batch import DeviceBatch


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
        self.bank = _open_store(folder / spec.bank, "pseudovox", spec.sample_rate, "bank")
        self.backgrounds = (
            None if files is None else _open_store(folder / files, "backgrounds", spec.sample_rate, "backgrounds")
        )
        self.impulses = (
            None
            if impulses is None
            else _open_store(folder / impulses, "impulses", spec.sample_rate, "events.propagation.impulses")
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
                *(store.path for store in self.stores.values()),
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

    def plan(self, numbers: Iterable[int]) -> ScenePlan:
        """Plan scenes, without audio; nothing but the numbers matters.

        Args:
            numbers: scene numbers from 0, in any order; those of epoch k are ``k * 2**40 + index``.
        """
        return self.planner.plan(numbers)

    def render(self, numbers: Iterable[int], *, stems: bool = False) -> Scenes:
        """Plan and mix scenes.

        Args:
            numbers: scene numbers, as in :meth:`plan`.
            stems: keep each event and the background too.

        Raises:
            MixError: scenes that could not be rendered, by name and with the reason.
        """
        mixer = self.mixer if self.device == "cpu" else self.device_mixer
        batch = mixer.render(self.plan(numbers), stems=stems)
        if batch.failures:
            first, reason = next(iter(batch.failures.items()))
            raise MixError(
                f"{len(batch.failures)} of {len(batch.plan)} scenes could not be rendered, first "
                f"{scene_id(int(batch.plan.scene[first]))}: {reason}"
            )
        return Scenes(batch, self.catalogue)

    def mix_as_written(self, plan: ScenePlan, *, stems: bool = False) -> SceneBatch:
        """Mix planned scenes on the generator's device into the 16-bit samples that are written, on the host.

        May be called from several threads; a device mixes for one at a time.

        Args:
            plan: of this generator.
            stems: keep each event and the background too.
        """
        if self.device == "cpu":
            return self.mixer.render(plan, stems=stems, pcm=True)
        with self._device_lock:
            return self.device_mixer.render(plan, stems=stems, pcm=True).to_host()

    @cached_property
    def _device_lock(self) -> threading.Lock:
        return threading.Lock()


class Scenes:
    """Rendered scenes and their labels.

    ``audio == (background + sum of the scene's stems) * 10 ** (scene_gain_db / 20)`` to float32 precision.

    Attributes:
        audio: float32 [scenes, samples]; scenes shorter than the longest of the batch are zero at the end. Where the
            generator's device is not the CPU, this and the next two are torch tensors there.
        stems: float32 [events, samples] in the order of ``events``, before the scene gain; None unless asked for.
        background: float32 [scenes, samples], before the scene gain, patches included; None unless asked for.
        plan: what was planned, patches among the events.
        batch: what the mixer gave, likewise.
    """

    def __init__(self, batch: SceneBatch | DeviceBatch, catalogue: Catalogue):
        self.batch = batch
        self.plan: ScenePlan = batch.plan
        self.audio: Any = batch.audio
        self.background: Any
        self.stems: Any
        self.background, self.stems = without_patches(batch.plan, batch.background, batch.stems)
        self._catalogue = catalogue

    def __len__(self) -> int:
        return len(self.plan)

    def pcm(self, i: int) -> NDArray[np.int16]:
        """The i-th scene as it would be written, int16 [n_samples]."""
        scene = self.audio[i, : self.plan.n_samples[i]]
        return to_pcm16(scene if isinstance(scene, np.ndarray) else scene.cpu().numpy())

    @cached_property
    def _levels(self) -> SceneBatch:
        return self.batch if isinstance(self.batch, SceneBatch) else self.batch.levels()

    @cached_property
    def event_table(self) -> pa.Table:
        """The events table, one row per event (columns: docs/labels.md)."""
        return event_table(self._levels, self._catalogue)

    @cached_property
    def scene_table(self) -> pa.Table:
        """The scenes table, one row per scene (columns: docs/labels.md)."""
        return scene_table(self._levels, self._catalogue, [pcm_hash(self.pcm(i)) for i in range(len(self))])

    @cached_property
    def fact_table(self) -> pa.Table:
        """The facts table, one row per scene (columns: docs/labels.md)."""
        return facts_table(self.event_table, self.scene_table)

    @cached_property
    def events(self) -> pd.DataFrame:
        """The events table as a DataFrame."""
        frame: pd.DataFrame = self.event_table.to_pandas()
        return frame

    @cached_property
    def scenes(self) -> pd.DataFrame:
        """The scenes table as a DataFrame."""
        frame: pd.DataFrame = self.scene_table.to_pandas()
        return frame

    @cached_property
    def facts(self) -> pd.DataFrame:
        """The facts table as a DataFrame."""
        frame: pd.DataFrame = self.fact_table.to_pandas()
        return frame


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


def _open_store(path: Path, kind: str, rate: int, key: str) -> ClipStore:
    if not path.exists():
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
