"""Faults of what labels claim that users met in other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from synthscape import ClipStore, PlanError, SceneGenerator, Spec, load_spec
from synthscape.bank.writer import StoreWriter

RATE = 16000
SpecOf = Callable[..., Spec]


@pytest.fixture(scope="module")
def screened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Backgrounds with an animal score from 0 to 0.9 and one that nobody screened; two are of a bank's places."""
    folder = tmp_path_factory.mktemp("screened") / "backgrounds"
    rng = np.random.default_rng(1)
    with StoreWriter(folder, "backgrounds", RATE) as writer:
        for k in range(11):
            columns = {"recording_id": f"b{k}", "medium": "air", "animal_score": k / 10}
            if k == 10:
                del columns["animal_score"]
            if k == 0:
                columns["recording_id"] = "t0-0"  # a recording of the bank
            if k == 1:
                columns["site"] = "site1-1"  # a place of the bank
            writer.add(rng.standard_normal(4 * RATE), columns)
    return folder


def test_backgrounds_with_animals_are_left_out(screened: Path, spec_of: SpecOf) -> None:
    """A limit on the animal score keeps what is above it, or was never screened, out of every scene, and counts it."""
    options = (f"backgrounds={screened}", "duration=2", "background.max_animal_score=0.35")
    generator = SceneGenerator(spec_of(*options))
    scenes = generator.render(range(60)).scenes
    scores = np.concatenate(scenes["background_animal_score"].to_list()).astype(float)

    assert scores.max() <= 0.35
    assert len(np.unique(scores)) == 4
    assert generator.planner.filtered["backgrounds over background.max_animal_score"] == 6
    assert generator.planner.filtered["backgrounds without an animal_score"] == 1
    with pytest.raises(PlanError, match="no background is left"):
        SceneGenerator(spec_of(f"backgrounds={screened}", "background.max_animal_score=-1")).plan([0])


def test_clips_never_lie_over_their_own_recording_or_place(screened: Path, spec_of: SpecOf, bank: ClipStore) -> None:
    """Where the background is of a clip's recording or site, others are taken, or the loss is counted."""
    options = (f"backgrounds={screened}", "duration=2", "events.rate=2", "background.mix.probability=0")
    batch = SceneGenerator(spec_of(*options)).render(range(300))
    site_of = dict(zip(bank.clips["clip_id"], bank.clips["site"], strict=True))
    places = batch.scenes.set_index("scene_id")
    over = {"recording": 0, "site": 0}
    for event in batch.events.to_dict("records"):
        scene = places.loc[event["scene_id"]]
        assert event["recording_id"] not in set(scene["background_recording_ids"])
        assert site_of[event["clip_id"]] not in set(scene["background_sites"])
        over["recording"] += "t0-0" in set(scene["background_recording_ids"])
        over["site"] += "site1-1" in set(scene["background_sites"])

    assert min(over.values()) > 20


def test_what_cannot_be_heard_says_so(spec_of: SpecOf) -> None:
    """At -20 dB an event keeps its label and is marked as not audible; at +10 dB it is audible."""
    for snr_db, audible in ((-20, False), (10, True)):
        events = SceneGenerator(spec_of(f"events.snr.db={snr_db}", "events.rate=1")).render(range(10)).events

        assert len(events) > 20
        assert (events["audible"] == audible).all()
        np.testing.assert_allclose(events["snr_band_db"], snr_db, atol=0.05)


def test_call_types_keep_their_identity() -> None:
    """Our spec plays calls within a sixth octave and never backwards: at a factor of 3, or reversed, a call is another
    type. The published spec does both, and flags what it loses.
    """
    ours, published = load_spec("strong_detection"), load_spec("roots_strong_detection")

    low, high = ours.events.resample.bounds()
    assert 2 ** (-1 / 6) <= low < high <= 2 ** (1 / 6)
    assert ours.events.reverse.bounds()[1] == 0
    assert published.events.resample.bounds() == (0.3, 3)
    assert published.events.resample_infeasible == "flag"
