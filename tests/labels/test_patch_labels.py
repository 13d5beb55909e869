"""Patches are mixed, but not labelled; scenes without a background have labels; scenes of items have names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from synthscape.bank.store import ClipStore
from synthscape.errors import SynthscapeError
from synthscape.labels.batches import join_measured, labelled_batch, labelled_plan, take_scenes
from synthscape.labels.frames import frame_counts
from synthscape.labels.tables import Catalogue, event_table, scene_table
from synthscape.output.folder import Shard, open_folder
from synthscape.plan.plan import DISTRACTOR, NO_BACKGROUND, NO_LEVEL, PATCH, TARGET
from synthscape.scale.shard import make_shard, origin
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator
from synthscape.tasks.items import ItemPlan
from tests.hand_built import SPECIES, hand_batch, hand_plan, make_backgrounds, make_bank


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """Three species of four clips, four backgrounds."""
    folder = tmp_path_factory.mktemp("stores")
    bank, backgrounds = make_bank(folder / "bank"), make_backgrounds(folder / "backgrounds")
    return Catalogue(bank, backgrounds, SPECIES, audible_db=0.0, fingerprint="f" * 32)


class WithPatches(SceneGenerator):
    """A generator whose every third event is a patch."""

    def plan_items(self, numbers: Iterable[int]) -> ItemPlan:
        """The usual plan; patches lack the last two samples of their clip."""
        items = super().plan_items(numbers)
        plan = items.scenes
        patch = np.arange(plan.n_events) % 3 == 1
        scenes = replace(
            plan,
            role=np.where(patch, PATCH, TARGET).astype(np.int8),
            clip_end=plan.clip_end - 2 * patch,
            clip_offset=plan.clip_offset - 2 * patch,
            offset=plan.offset - 2 * patch,
        )
        return replace(items, scenes=scenes)


@pytest.fixture(scope="module")
def spec(spec_of: Callable[..., Spec]) -> Spec:
    """Scenes with six events each."""
    return spec_of("events.rate=null", "events.count=6", "duration=4", "empty_share=0", "output.stems=true",
                   "output.raven=true", "events.resample=1")  # fmt: skip


def test_tables_leave_patches_out(catalogue: Catalogue) -> None:
    """Other events keep their values and are numbered without gaps; what counts events counts no patches."""
    events = [
        {"onset": 0, "offset": 500, "clip": 0, "class_id": 0, "speaker": 7},
        {"onset": 100, "offset": 900, "clip": 4, "class_id": 1, "role": PATCH, "clip_end": 300, "speaker": 1},
        {"onset": 200, "offset": 400, "clip": 9, "class_id": 2, "role": DISTRACTOR, "speaker": 2},
    ]
    only_a_patch = [{"onset": 5, "offset": 80, "clip": 1, "role": PATCH, "clip_end": 75}]
    plan = hand_plan(({}, events), ({}, only_a_patch), ({}, []))
    batch = hand_batch(plan, snr_band_db=np.array([1.0, 2.0, 3.0, 4.0]), gain_db=np.array([-1.0, -2.0, -3.0, -4.0]))
    rows = event_table(batch, catalogue).to_pylist()
    scenes = scene_table(batch, catalogue, ["a", "b", "c"]).to_pylist()

    assert [(row["scene_id"], row["event_id"], row["onset"], row["role"], row["class"]) for row in rows] == [
        ("s000000000", 0, 0, "target", SPECIES[0]),
        ("s000000000", 1, 200, "distractor", SPECIES[2]),
    ]
    assert [(row["snr_band_db"], row["gain_db"], row["speaker"]) for row in rows] == [
        (1.0, -1.0, "Corvus corax_1"), (3.0, -3.0, "Turdus merula_1"),
    ]  # fmt: skip
    assert [(s["n_events"], s["n_patches"], s["n_species"], s["max_polyphony"]) for s in scenes] == [
        (2, 1, 2, 2), (0, 1, 0, 0), (0, 0, 0, 0),
    ]  # fmt: skip
    # clip 1 is CC0-1.0 as the background is, clips 0, 4 and 8 are CC-BY-4.0
    assert [s["licences"] for s in scenes] == [["CC-BY-4.0", "CC0-1.0"], ["CC0-1.0"], ["CC0-1.0"]]
    only_patch_licence = hand_plan(({}, [{"clip": 4, "role": PATCH}]))
    assert scene_table(hand_batch(only_patch_licence), catalogue, ["a"])["licences"].to_pylist() == [
        ["CC-BY-4.0", "CC0-1.0"]
    ]


def test_plans_without_patches_are_left_alone() -> None:
    """What has no patches is not copied; what has keeps each scene's other events and all columns in step."""
    plain = hand_plan(({}, [{"onset": 1}]))
    batch = hand_batch(plain)
    assert labelled_plan(plain) is plain
    assert labelled_batch(batch) is batch

    roles = [[TARGET, PATCH], [], [PATCH], [PATCH, TARGET, TARGET]]
    plan = hand_plan(
        *(({}, [{"role": role, "onset": 10 * i + j} for j, role in enumerate(of)]) for i, of in enumerate(roles))
    )
    labels = labelled_plan(plan)
    assert [labels.onset[labels.events_of(i)].tolist() for i in range(4)] == [[0], [], [], [31, 32]]
    assert labels.event_offsets.dtype == plan.event_offsets.dtype


def test_frames_count_no_patches() -> None:
    """Neither by the plan's classes nor by given ones."""
    events = [{"onset": 0, "offset": 100}, {"onset": 0, "offset": 100, "class_id": 1, "role": PATCH}]
    plan = hand_plan(({"n_samples": 200}, events))

    assert frame_counts(plan, 2, 100).tolist() == [[[1, 0], [0, 0]]]
    assert frame_counts(plan, 2, 100, class_id=np.array([1, 1])).tolist() == [[[0, 1], [0, 0]]]


def test_parts_of_batches_keep_the_columns_of_patches() -> None:
    """Scenes taken or joined keep which part of a clip is played, and what is required."""
    events = [[{"clip_start": 10 * i + j, "clip_end": 100 + i, "required": j == 1} for j in range(2)] for i in range(3)]
    plan = hand_plan(*(({}, of) for of in events))
    taken = take_scenes(plan, np.array([2, 0]))
    joined = join_measured(plan, [hand_batch(take_scenes(plan, np.array([i])), failures={0: "no"} if i == 1 else None)
                                  for i in range(3)])  # fmt: skip

    assert taken.clip_start.tolist() == [20, 21, 0, 1]
    assert taken.clip_end.tolist() == [102, 102, 100, 100]
    assert joined.plan.clip_start.tolist() == [0, 1, 20, 21]
    assert joined.plan.required.tolist() == [False, True, False, True]


def test_labels_of_a_scene_without_background(catalogue: Catalogue) -> None:
    """No SNR and no level; long enough is audible, as nothing masks it; beside it scenes are as ever."""
    none = {"background": (NO_BACKGROUND, NO_BACKGROUND), "level_dbfs": -20 * 256}
    events = [{"onset": 0, "offset": 160, "snr_db": NO_LEVEL}, {"onset": 0, "offset": 159, "snr_db": NO_LEVEL}]
    plan = hand_plan((none, events), ({}, [{"onset": 0, "offset": 160}, {"onset": 0, "offset": 160}]))
    snr_db = np.array([np.nan, np.nan, 2.0, np.nan])
    measured = dict.fromkeys(("snr_scene_db", "snr_local_db", "snr_band_db"), snr_db)
    batch = hand_batch(plan, **measured, level_dbfs=np.array([np.nan, -30.0]))
    table, scenes = event_table(batch, catalogue), scene_table(batch, catalogue, ["a", "b"])

    assert table["audible"].to_pylist() == [True, False, True, None]
    for name in ("snr_db", "snr_scene_db", "snr_local_db", "snr_band_db", "snr_loudness_db"):
        assert table[name].to_pylist()[:2] == [None, None], name
    assert scenes["level_dbfs"].to_pylist() == [None, -30.0]
    assert scenes["background_clip_ids"].to_pylist()[0] == []
    assert scenes["licences"].to_pylist()[0] == ["CC-BY-4.0"]


def test_scenes_of_items_have_names(catalogue: Catalogue) -> None:
    """Names are given in place of those by number, in both tables; items and parts where there are any."""
    batch = hand_batch(hand_plan(({}, [{}, {}]), ({}, []), ({}, [{}])))
    names = ["i000000042-query", "i000000042-a1", "i000000043-query"]
    items, parts = ["i000000042", "i000000042", None], ["query", "a1", None]
    table = scene_table(batch, catalogue, ["a", "b", "c"], names=names, item_ids=items, parts=parts)

    assert event_table(batch, catalogue, names)["scene_id"].to_pylist() == [names[0], names[0], names[2]]
    assert [table[name].to_pylist() for name in ("scene_id", "item_id", "part")] == [names, items, parts]
    plain = scene_table(batch, catalogue, ["a", "b", "c"])
    assert [plain[name].to_pylist() for name in ("item_id", "part")] == [[None] * 3] * 2
    with pytest.raises(SynthscapeError, match="names: expected one for each of 3 scenes, got 2"):
        event_table(batch, catalogue, names[:2])
    with pytest.raises(SynthscapeError, match="parts: expected one for each of 3 scenes, got 1"):
        scene_table(batch, catalogue, ["a", "b", "c"], parts=["query"])


def test_scenes_in_memory(spec: Spec, bank: ClipStore) -> None:
    """Stems are those of the events; patches are in the background, and the sum is still the audio."""
    scenes = WithPatches(spec).render(range(3), stems=True)
    plan, batch = scenes.plan, scenes.batch
    labelled = np.flatnonzero(plan.role != PATCH)

    assert scenes.scenes["n_patches"].sum() == plan.n_events - len(labelled) > 3
    assert len(scenes.events) == len(scenes.stems) == len(labelled)
    assert scenes.events["onset"].tolist() == plan.onset[labelled].tolist()
    assert (scenes.stems == batch.stems[labelled]).all()
    for i in range(3):
        mine = scenes.events["scene_id"] == f"s{i:09d}"
        whole = scenes.background[i].astype(float) + scenes.stems[mine.to_numpy()].astype(float).sum(axis=0)
        assert np.abs(whole * 10 ** (batch.scene_gain_db[i] / 20) - scenes.audio[i]).max() < 5e-7
    # The SNR in the label is against the background as it was before the patches came.
    e = int(labelled[0])
    part = slice(int(plan.onset[e]), int(plan.offset[e]))
    share = bank.clips["signal_share"].iloc[plan.clip[e]]
    signal, noise = (np.mean(x.astype(float) ** 2) for x in (scenes.stems[0, part], batch.background[0, part]))
    assert scenes.events["snr_local_db"][0] == pytest.approx(10 * np.log10(share * signal / noise), abs=0.01)
    assert not (scenes.background == batch.background).all()


def test_scenes_on_disk(spec: Spec, tmp_path: Path) -> None:
    """Written stems, selection tables and counts know the events of the labels only."""
    generator = WithPatches(spec)
    shard = Shard(0, 0, 3)
    with open_folder(tmp_path / "out", origin(generator)) as folder:
        folder.begin()
        receipt = make_shard(generator, folder, shard)
    scenes = WithPatches(spec).render(range(3), stems=True)

    counts = scenes.scenes["n_events"].tolist()
    assert receipt["counts"]["events"] == sum(receipt["class_events"]) == sum(counts) < scenes.plan.n_events
    at = 0
    for i, (name, n) in enumerate(zip(scenes.scenes["scene_id"], counts, strict=True)):
        stems = tmp_path / "out/stems/00000" / name
        assert sorted(path.name for path in stems.iterdir()) == sorted(
            [*(f"{k}.wav" for k in range(n)), "background.wav"]
        )
        assert (soundfile.read(stems / "background.wav", dtype="float32")[0] == scenes.background[i]).all()
        for k in range(n):
            assert (soundfile.read(stems / f"{k}.wav", dtype="float32")[0] == scenes.stems[at + k]).all()
        (selections,) = (tmp_path / "out/raven/00000").glob(f"{name}*")
        assert len(selections.read_text().splitlines()) == 1 + n
        at += n
