"""Which stores a scene generator opens, checks and counts into the fingerprint."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from synthscape.bank.store import ClipStore
from synthscape.cli.spec import spec_app
from synthscape.errors import StoreError
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator
from tests.scenes import make_impulses

SpecOf = Callable[..., Spec]


@pytest.fixture
def impulses(tmp_path: Path) -> ClipStore:
    """Impulse responses of four rooms."""
    return make_impulses(tmp_path / "rooms")


def heard_through(store: ClipStore | Path) -> str:
    """The override that names a store of impulse responses."""
    return f"events.propagation.impulses={store.path if isinstance(store, ClipStore) else store}"


def test_impulses_are_part_of_the_fingerprint_not_where_they_lie(
    tmp_path: Path, spec_of: SpecOf, impulses: ClipStore
) -> None:
    """A copy elsewhere is the same; other ones, or none, are not."""
    dry = SceneGenerator(spec_of())
    here = SceneGenerator(spec_of(heard_through(impulses)))
    moved = SceneGenerator(spec_of(heard_through(Path(shutil.copytree(impulses.path, tmp_path / "moved")))))
    fewer = SceneGenerator(spec_of(heard_through(make_impulses(tmp_path / "fewer", [{"site": "hall"}]))))

    assert (dry.impulses, dry.stores.keys()) == (None, {"bank", "backgrounds"})
    assert here.impulses is not None
    assert here.stores["impulses"].fingerprint == impulses.fingerprint
    assert here.fingerprint == moved.fingerprint
    assert len({dry.fingerprint, here.fingerprint, fewer.fingerprint}) == 3
    assert here.plan(range(5)).hash() == moved.plan(range(5)).hash()


def test_relative_paths_hold_after_a_change_of_folder(
    tmp_path: Path, spec_of: SpecOf, impulses: ClipStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generator that is sent elsewhere finds its stores, and notices others in their place."""
    monkeypatch.chdir(tmp_path)
    sent = pickle.dumps(SceneGenerator(spec_of(heard_through(Path("rooms")))))
    monkeypatch.chdir(tmp_path.parent)

    assert pickle.loads(sent).impulses.fingerprint == impulses.fingerprint
    shutil.rmtree(tmp_path / "rooms")
    make_impulses(tmp_path / "rooms", [{"site": "hall"}])
    with pytest.raises(StoreError, match=r"rooms changed since the generator was made"):
        pickle.loads(sent)


def test_impulses_that_do_not_fit_are_refused(tmp_path: Path, spec_of: SpecOf, backgrounds: ClipStore) -> None:
    """Missing, of another kind, at another rate: the key is named."""
    slow = make_impulses(tmp_path / "slow", rate=8000)
    for store, message in (
        (tmp_path / "none", r"events.propagation.impulses: .*none does not exist; build it"),
        (backgrounds, r"events.propagation.impulses: .* is a store of backgrounds, expected impulses"),
        (slow, r"events.propagation.impulses: .* has 8000 Hz, .* --kind impulses --rate 16000"),
    ):
        with pytest.raises(StoreError, match=message):
            SceneGenerator(spec_of(heard_through(store)))


def test_noise_alone_opens_no_backgrounds(spec_of: SpecOf) -> None:
    """Whether their store is null or nowhere to be found."""
    without = SceneGenerator(spec_of("backgrounds=null", "background.noise.probability=1"))
    nowhere = SceneGenerator(spec_of("backgrounds=nowhere", "background.noise.probability=1"))

    assert (without.backgrounds, without.stores.keys()) == (None, {"bank"})
    assert without.fingerprint == nowhere.fingerprint
    assert without.plan([3]).hash() == nowhere.plan([3]).hash()


def test_spec_check_looks_for_the_stores_in_use(impulses: ClipStore, bank: ClipStore) -> None:
    """Impulse responses that are named, and no backgrounds where all are noise."""
    noise = ["backgrounds=null", "background.noise.probability=1", f"bank={bank.path}"]
    found = CliRunner().invoke(spec_app, ["check", "strong_detection", "--json", *noise, heard_through(impulses)])
    missing = CliRunner().invoke(spec_app, ["check", "strong_detection", *noise, heard_through(Path("gone"))])

    assert json.loads(found.stdout)["missing"] == []
    assert missing.exit_code == 1
    assert "events.propagation.impulses: expected a clip store at gone, got no such folder" in missing.stderr
