"""An item is a function of its number and the spec; items of two answers differ in who calls and in nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import synthscape as ss
from synthscape.plan.plan import EPOCH, PATCH, TARGET
from synthscape.tasks.casting import Casting, MiscastError
from synthscape.tasks.catalogue import TASKS
from synthscape.tasks.deck import Card
from synthscape.tasks.draws import Draws
from tests.tasks.planned import make_stores

Paths = tuple[Path, Path]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """A bank and backgrounds."""
    bank, fields = make_stores(tmp_path_factory.getbasetemp() / "planned")
    return bank.path, fields.path


def generator(paths: Paths, task: str, *overrides: str) -> ss.SceneGenerator:
    """Of a shipped spec, over these stores."""
    return ss.SceneGenerator(ss.load_spec(task, [f"bank={paths[0]}", f"backgrounds={paths[1]}", *overrides]))


@pytest.mark.parametrize("task", TASKS)
def test_items_depend_on_number_and_seed_alone(task: str, paths: Paths) -> None:
    """Whatever the batch, its order and ``items``; another epoch or seed has other items."""
    made = generator(paths, task, "items=30")
    whole = made.plan_items(range(30))
    order = np.random.default_rng(3).permutation(30)
    more = generator(paths, task, "items=1000000")
    again = more.plan_items(order.tolist())
    assert again.scenes.hash() == whole.take(order).scenes.hash()
    assert whole.casts is not None
    assert again.casts == [whole.casts[i] for i in order]
    one = more.plan_items([29])
    assert one.scenes.hash() == whole.take(np.array([29])).scenes.hash()
    assert one.ids == [whole.ids[29]]
    assert more.fingerprint == made.fingerprint
    # Of another epoch or seed, letters may be the same, clips are not.
    for other in (more.plan_items(range(EPOCH, EPOCH + 30)), generator(paths, task, "seed=8").plan_items(range(30))):
        clips = [set(plan.clip.tolist()) for plan in (whole.scenes, other.scenes)]
        assert clips[0] != clips[1]
        same = [a == b for a, b in zip(whole.casts, other.casts or [], strict=True)]
        assert not any(same)


def test_another_process_plans_the_same_items(paths: Paths) -> None:
    """Whatever text hashes to there."""
    made = {task: generator(paths, task) for task in TASKS}
    code = (
        "import sys, synthscape as ss\n"
        "for task in sys.argv[3:]:\n"
        "    spec = ss.load_spec(task, [f'bank={sys.argv[1]}', f'backgrounds={sys.argv[2]}'])\n"
        "    print(ss.SceneGenerator(spec).plan_items(range(7, 19)).scenes.hash())"
    )
    arguments = [sys.executable, "-c", code, *map(str, paths), *made]
    environment = os.environ | {"PYTHONHASHSEED": "5", "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert told == [one.plan_items(range(7, 19)).scenes.hash() for one in made.values()]


@pytest.mark.parametrize("task", ["few_shot_detection", "few_shot_scenes", "call_type_binary", "counting"])
def test_the_other_answer_is_the_same_scene_with_other_callers(task: str, paths: Paths) -> None:
    """An item cast for two answers by the same numbers: examples, distractors, patches, backgrounds and slots agree."""
    made = generator(
        paths,
        task,
        "events.resample={choice: [0.9, 1, 1.1], per: class}",
        "events.reverse={bernoulli: 0.5, per: class}",
    )
    planner, pools = made.item_planner, made.item_planner.pools
    cards = {
        "few_shot_detection": (Card((0, 2), 3, "within_species"), Card((), 3, "within_species")),
        "counting": (Card((), 6, "random"), Card((), 0, "random")),
    }.get(task, (Card((0,), 1, "within_species"), Card((), 1, "within_species")))
    active = np.diff(np.array(made.bank.active), axis=0)[0]
    ordered = np.sort(active[pools.class_ids >= 0])
    edges = np.array([ordered[len(ordered) * k // 10] for k in range(1, 10)])
    n_cast, n_replaced = 0, 0
    for number in range(300):
        casts = []
        for card in cards:
            draws = Draws(7, number)
            try:
                share = TASKS[task].query_share
                casts.append(TASKS[task].cast(Casting(planner._props, card, draws, draws, share)))
            except MiscastError:
                casts.append(None)
        one, other = casts
        assert (one is None) == (other is None), "the answer decides whether an item can be cast"
        if one is None or other is None:
            continue
        n_cast += 1
        assert [scene.part for scene in one.scenes] == [scene.part for scene in other.scenes]
        assert [scene.backgrounds for scene in one.scenes] == [scene.backgrounds for scene in other.scenes]
        assert one.scenes[:-1] == other.scenes[:-1]
        assert [option.class_id for option in one.options] == [option.class_id for option in other.options]
        assert len(one.scenes[-1].cues) == len(other.scenes[-1].cues)
        for a, b in zip(one.scenes[-1].cues, other.scenes[-1].cues, strict=True):
            if a == b:
                continue
            n_replaced += 1
            assert (a.role == TARGET) != (b.role == TARGET)
            assert PATCH not in (a.role, b.role)
            assert a.class_id != b.class_id
            assert (a.ratio, a.backwards, a.required) == (b.ratio, b.backwards, b.required)
            bins = [(active[cue.clip] >= edges).sum() for cue in (a, b)]
            assert bins[0] == bins[1]
        kinds = [len({cue.class_id for cue in cast.scenes[-1].cues if cue.role != PATCH}) for cast in casts if cast]
        assert kinds[0] == kinds[1]
    assert n_cast > 50
    assert n_replaced > n_cast
