"""Slips of the hand: numbers that are none, paths a shell did not expand, scenes that come out empty."""

from __future__ import annotations

import numpy as np
import pytest

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import MixError, PlanError, SpecError
from synthscape.scale.render import render
from synthscape.spec import load_spec
from synthscape.tasks.generator import SceneGenerator


@pytest.mark.parametrize("numbers", [[3.7], ["3"], [-1], [2**63], [2**70], [None], [[1]], [np.float32(2)], 5, None])
def test_scene_numbers_that_are_none(spec_of, numbers):
    """3.7 is not scene 3, nor is "3"; the message says what was got."""
    with pytest.raises(PlanError, match="expected"):
        SceneGenerator(spec_of()).plan(numbers)


def test_scene_numbers_of_all_sorts(spec_of):
    """NumPy integers, generators and repeated numbers are fine, and so are none at all."""
    scenes = SceneGenerator(spec_of())
    plan = scenes.plan(np.uint8(n) for n in (3, 3, 9))

    assert plan.scene.tolist() == [3, 3, 9]
    assert plan.hash() == scenes.plan([3, 3, 9]).hash()
    assert scenes.render([]).audio.shape == (0, 0)


@pytest.mark.parametrize("key", ["output.dir", "bank", "backgrounds"])
@pytest.mark.parametrize("path", ["~/data", '"~"'])
def test_home_that_no_shell_expanded(key, path):
    """After ``key=`` a shell leaves ``~`` as it is; a folder of that name in the current one is never meant."""
    with pytest.raises(SpecError, match=rf"{key}: expected a folder without ~, got '~.*'; write the whole path"):
        load_spec("strong_detection", [f"{key}={path}"])


def test_long_overrides_are_shown_short():
    """A whole file pasted as a value is not printed back."""
    with pytest.raises(SpecError) as refused:
        load_spec("strong_detection", ["items=" + "9" * 5000])

    assert len(str(refused.value)) < 400


def test_text_that_is_no_unicode():
    """A lone surrogate is refused as any text that is not UTF-8."""
    with pytest.raises(SpecError, match="UTF-8"):
        load_spec("strong_detection", ["items=\ud800"])


def test_gaps_longer_than_the_scene(spec_of, tmp_path):
    """A gap process that can place nothing is refused; one that rarely can says how many scenes stayed empty."""
    gaps = ("events.rate=null", "events.process=gaps")
    with pytest.raises(SpecError, match="gaps that may be shorter than a scene, 2 s"):
        spec_of(*gaps, "events.gap_s={uniform: [2, 5]}", "duration=2")
    rare = spec_of(*gaps, "events.gap_s={uniform: [1.9, 9]}", "duration=2", "items=8", f"output.dir={tmp_path / 'out'}")
    report = render(rare)

    assert report.counts["empty"] > 2
    assert any("have no events, a share of 0.1" in warning for warning in report.info["warnings"])


def test_backgrounds_that_cancel(spec_of):
    """Two backgrounds of one sample each may sum to exactly zero; that gave NaN as audio, written as noise."""
    scenes = SceneGenerator(
        spec_of("duration=0.0000625", "events.edges=truncate", "background.mix.probability=1", "empty_share=1")
    )
    with pytest.raises(MixError, match="cancel each other"):
        scenes.render(range(8))


def test_overrides_that_are_one_text():
    """A text is no list of overrides, though its letters could be read as some."""
    with pytest.raises(SpecError, match=r"expected a list such as \['items=100'\], got 'items=5'"):
        load_spec("strong_detection", "items=5")


def test_rows_from_the_end_and_past_it(bank):
    """Row -1 is the last in audio and energies alike, and a row past the end is an error in both."""
    last = len(bank) - 1

    assert np.array_equal(bank.audio(-1), bank.audio(last))
    assert np.array_equal(bank.band_energy(-1), bank.band_energy(last))
    assert len(bank.gather([])[0]) == 0
    for read in (bank.audio, bank.band_energy):
        with pytest.raises(IndexError):
            read(last + 1)


@pytest.mark.parametrize("target_exists", [True, False])
def test_a_link_as_the_place_of_a_store(tmp_path, target_exists):
    """The store goes where the link leads, also when it is replaced; the link stays one."""
    if target_exists:
        (tmp_path / "disk").mkdir()
    (tmp_path / "bank").symlink_to("disk")
    for overwrite in (False, True):
        with StoreWriter(tmp_path / "bank", "pseudovox", 16000, overwrite=overwrite) as writer:
            writer.add(np.sin(np.arange(500.0)), {})

    assert (tmp_path / "bank").is_symlink()
    assert len(ClipStore.open(tmp_path / "disk")) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank", "disk"]
