"""What the planner takes from the stores, and what it refuses or counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import PlanError, StoreError
from synthscape.plan.plan import DROP_REASONS
from synthscape.plan.planner import Planner
from synthscape.spec import Spec
from tests.scenes import RATE

SpecOf = Callable[..., Spec]
BAND = {"low_hz": 900.0, "high_hz": 1100.0}


def store(path: Path, kind: str, rows: list[dict[str, Any]], *, length_s: float = 0.3, rate: int = RATE) -> ClipStore:
    """A store of noises with these columns."""
    rng = np.random.default_rng(len(rows))
    with StoreWriter(path, kind, rate) as writer:
        for row in rows:
            writer.add((0.1 * rng.standard_normal(int(length_s * rate))).astype(np.float32), row)
    return ClipStore.open(path)


@pytest.fixture
def made(tmp_path: Path) -> Callable[[list[dict[str, Any]], list[dict[str, Any]]], tuple[ClipStore, ClipStore]]:
    """Two stores from rows."""

    def make(calls: list[dict[str, Any]], fields: list[dict[str, Any]]) -> tuple[ClipStore, ClipStore]:
        return (
            store(tmp_path / "calls", "pseudovox", calls),
            store(tmp_path / "fields", "backgrounds", fields, length_s=4),
        )

    return make


SPEC = ("duration=3", "classes.per_scene=1", "background.mix.probability=0", "events.rate=1", "events.resample=1")


def test_media_are_never_mixed(made, spec_of: SpecOf) -> None:
    """Calls in air lie over air, calls in water over water; a null medium goes with both and is said."""
    calls = [{"species": f"s{i % 3}", "medium": ["air", "water", None][i % 3], **BAND} for i in range(30)]
    bank, backgrounds = made(calls, [{"medium": ["air", "water"][i % 2]} for i in range(6)])
    planner = Planner(spec_of(*SPEC), bank, backgrounds)
    plan = planner.plan(range(400))
    behind = backgrounds.clips["medium"].to_numpy()[plan.background[:, 0]]
    said = bank.clips["medium"].to_numpy()
    seen = set()
    for i in range(len(plan)):
        media = {m for m in said[plan.clip[plan.events_of(i)]] if isinstance(m, str)}
        assert media <= {behind[i]}
        seen |= media
    assert seen == {"air", "water"}
    assert any("10 clips have no medium" in note for note in planner.notes)


def test_a_medium_without_background_is_counted(made, spec_of: SpecOf) -> None:
    """Calls whose medium no background has are left out and counted; with none left it is refused."""
    calls = [{"species": "a", "medium": "air", **BAND}] * 2 + [{"species": "b", "medium": "water", **BAND}] * 3
    bank, backgrounds = made(calls, [{"medium": "air"}] * 2)
    planner = Planner(spec_of(*SPEC), bank, backgrounds)

    assert planner.filtered == {"clips without a background of medium 'water'": 3}
    assert (planner.plan(range(50)).clip < 2).all()


def test_no_common_medium_is_refused(made, spec_of: SpecOf) -> None:
    """Air calls over water backgrounds: refused, naming both stores."""
    bank, backgrounds = made([{"species": "a", "medium": "air", **BAND}], [{"medium": "water"}] * 2)
    with pytest.raises(PlanError, match="share a medium"):
        Planner(spec_of(*SPEC), bank, backgrounds)


def test_licences_are_filtered_and_counted(made, spec_of: SpecOf) -> None:
    """Denied licences are left out in whatever spelling, of calls and backgrounds, and counted by reason."""
    licences = ["CC BY-ND 4.0", "CC-BY-4.0", "CC BY-NC-ND 3.0", None, "CC0 1.0"]
    calls = [{"species": "a", "licence": licence, **BAND} for licence in licences]
    bank, backgrounds = made(calls, [{"licence": "CC-BY-ND"}, {"licence": "CC0-1.0"}, {}])
    planner = Planner(spec_of(*SPEC), bank, backgrounds)
    plan = planner.plan(range(200))

    assert planner.filtered == {"clips of a denied licence": 2, "backgrounds of a denied licence": 1}
    assert set(plan.clip.tolist()) == {1, 3, 4}
    assert set(plan.background[:, 0].tolist()) == {1, 2}

    strict = Planner(spec_of(*SPEC, "licences={allow: [CC0], deny: [], unknown: deny}"), bank, backgrounds)
    assert set(strict.plan(range(100)).clip.tolist()) == {4}
    assert strict.filtered["clips of unknown licence"] == 1
    assert strict.filtered["clips of a licence that is not allowed"] == 3


def test_all_denied_is_refused(made, spec_of: SpecOf) -> None:
    """When licences leave nothing, the message says what was left out and what to loosen."""
    bank, backgrounds = made([{"species": "a", "licence": "CC-BY-ND-4.0", **BAND}], [{}] * 2)
    with pytest.raises(PlanError, match=r"1 clips of a denied licence.*loosen"):
        Planner(spec_of(*SPEC), bank, backgrounds)


def test_excluded_clips_are_left_out(made, spec_of: SpecOf) -> None:
    """Clips and backgrounds with a reason in `excluded` are never used."""
    calls = [{"species": "a", "excluded": reason, **BAND} for reason in ("", None, "noise", "wrong species")]
    bank, backgrounds = made(calls, [{"excluded": "bird heard"}, {}, {}])
    planner = Planner(spec_of(*SPEC), bank, backgrounds)

    assert planner.filtered == {"clips excluded in the store": 2, "backgrounds excluded in the store": 1}
    assert set(planner.plan(range(100)).clip.tolist()) == {0, 1}


def test_classes(made, spec_of: SpecOf) -> None:
    """Classes are in order of names with their counts; small ones and those not included are left out and counted."""
    calls = [{"species": s, "call_type": c, "recording_id": f"r{i}", **BAND}
             for i, (s, c) in enumerate([("b", "x"), ("b", "y"), ("a", "x"), ("a", "x"), (None, "z")])]  # fmt: skip
    bank, backgrounds = made(calls, [{}] * 2)

    species = Planner(spec_of(*SPEC), bank, backgrounds)
    assert [(c.name, c.n_clips, c.n_recordings) for c in species.classes] == [("a", 2, 2), ("b", 2, 2)]
    assert species.filtered == {"clips without species": 1}
    types = Planner(spec_of(*SPEC, "classes.by=call_type"), bank, backgrounds)
    assert [c.name for c in types.classes] == ["a: x", "b: x", "b: y", "z"]
    large = Planner(spec_of(*SPEC, "classes={by: call_type, min_clips: 2}"), bank, backgrounds)
    assert [c.name for c in large.classes] == ["a: x"]
    assert large.filtered == {"clips of classes smaller than classes.min_clips": 3}
    some = Planner(spec_of(*SPEC, "classes={by: call_type, include: ['b: y', 'z']}"), bank, backgrounds)
    assert [c.name for c in some.classes] == ["b: y", "z"]


@pytest.mark.parametrize(
    ("overrides", "error", "match"),
    [
        (["classes.include=[aa]"], PlanError, "no usable clip of class 'aa'; did you mean 'a'"),
        (["classes.per_scene=3"], PlanError, "can ask for 3 classes, but .* has 2"),
        (["classes.by=call_type"], StoreError, "'call_type'.*classes.by: call_type"),
        (["classes={by: cluster, column: cluster_8}"], StoreError, "cluster_8"),
        (["events.resample={uniform: [0.9, 1.1]}"], StoreError, "min_ratio_index"),
        (["events.group=track"], StoreError, "track_id"),
        (["background.max_animal_score=0.5"], StoreError, "animal_score"),
    ],
)
def test_what_the_stores_lack_is_named(
    made, spec_of: SpecOf, overrides: list[str], error: type[Exception], match: str
) -> None:
    """A class, a number of classes or a column that is not there is refused by name."""
    bank, backgrounds = made([{"species": s, **BAND} for s in "aab"], [{}] * 2)
    with pytest.raises(error, match=match):
        Planner(spec_of(*SPEC, *overrides), bank, backgrounds)


def test_one_background_can_not_be_mixed(made, spec_of: SpecOf) -> None:
    """A second background is asked for, but there is one: refused."""
    bank, backgrounds = made([{"species": "a", **BAND}], [{}])
    with pytest.raises(PlanError, match=r"mix.probability.*only one background"):
        Planner(spec_of(*SPEC, "background.mix.probability=0.5"), bank, backgrounds)


def test_clips_without_a_band_are_counted(made, spec_of: SpecOf) -> None:
    """For band SNR a clip without a band can't be used; for local SNR it can."""
    bank, backgrounds = made([{"species": "a", **BAND}, {"species": "a"}], [{}] * 2)

    assert Planner(spec_of(*SPEC), bank, backgrounds).filtered == {"clips without a band": 1}
    assert Planner(spec_of(*SPEC, "events.snr.reference=local"), bank, backgrounds).filtered == {}


def test_animal_scores_screen_backgrounds(made, spec_of: SpecOf) -> None:
    """Backgrounds over the limit, or without a score, are left out and counted."""
    bank, backgrounds = made([{"species": "a", **BAND}], [{"animal_score": s} for s in (0.1, 0.9, None, 0.5)])
    planner = Planner(spec_of(*SPEC, "background.max_animal_score=0.5"), bank, backgrounds)

    assert set(planner.plan(range(100)).background[:, 0].tolist()) == {0, 3}
    assert sum(planner.filtered.values()) == 2


def test_stores_of_another_rate_are_refused(tmp_path: Path, spec_of: SpecOf) -> None:
    """A store's rate must be the spec's; the message says how to build it again."""
    bank = store(tmp_path / "calls", "pseudovox", [{"species": "a", **BAND}], rate=22050)
    backgrounds = store(tmp_path / "fields", "backgrounds", [{}], length_s=4)
    with pytest.raises(StoreError, match=r"at 22050 Hz.*16000.*--rate 16000"):
        Planner(spec_of(*SPEC), bank, backgrounds)


def test_silence_in_a_background_is_never_a_reference(tmp_path: Path, spec_of: SpecOf) -> None:
    """Events are not placed where the background is digitally silent; they are redrawn or dropped with the reason."""
    rng = np.random.default_rng(0)
    noise = (0.1 * rng.standard_normal(4 * RATE)).astype(np.float32)
    noise[RATE : 3 * RATE] = 0
    with StoreWriter(tmp_path / "fields", "backgrounds", RATE) as writer:
        writer.add(noise, {})
    bank = store(tmp_path / "calls", "pseudovox", [{"species": "a", **BAND}] * 3)
    backgrounds = ClipStore.open(tmp_path / "fields")
    spec = spec_of(*SPEC, "duration=4", "events.rate=null", "events.count=1", "empty_share=0",
                   "events.overlap={same_class: allow}")  # fmt: skip
    plan = Planner(spec, bank, backgrounds).plan(range(300))

    assert plan.n_redrawn.sum() > 100
    for i in range(len(plan)):
        for e in range(plan.events_of(i).start, plan.events_of(i).stop):
            part = noise[int(plan.onset[e]) : int(plan.offset[e])]
            assert np.mean(part.astype(float) ** 2) > 10**-9


def test_no_background_is_silent_where_it_is_used(tmp_path: Path, spec_of: SpecOf) -> None:
    """Neither the first background of a scene nor the second begins in a silent stretch, if others can be found."""
    rng = np.random.default_rng(0)
    with StoreWriter(tmp_path / "fields", "backgrounds", RATE) as writer:
        for _ in range(3):
            noise = (0.1 * rng.standard_normal(12 * RATE)).astype(np.float32)
            noise[3 * RATE : 9 * RATE] = 0
            writer.add(noise, {})
    bank = store(tmp_path / "calls", "pseudovox", [{"species": "a", **BAND}] * 3)
    fields = ClipStore.open(tmp_path / "fields")
    spec = spec_of(*SPEC, "duration=2", "background.mix.probability=1")
    plan = Planner(spec, bank, fields).plan(range(300))
    for i in range(len(plan)):
        for row, offset in zip(plan.background[i], plan.background_offset[i], strict=True):
            assert fields.pcm(int(row))[offset : offset + 2 * RATE].any()


def test_clips_longer_than_any_scene_are_counted_once(tmp_path: Path, spec_of: SpecOf) -> None:
    """What can't lie in a scene is left out of the classes and counted; where edges may cut, it is used."""
    bank = store(tmp_path / "calls", "pseudovox", [{"species": "long", **BAND}] * 2, length_s=3.5)
    backgrounds = store(tmp_path / "fields", "backgrounds", [{}] * 2, length_s=4)
    with pytest.raises(PlanError, match="2 clips longer than any scene"):
        Planner(spec_of(*SPEC), bank, backgrounds)

    assert Planner(spec_of(*SPEC, "duration={uniform: [3, 4]}"), bank, backgrounds).filtered == {}
    assert Planner(spec_of(*SPEC, "events.edges=truncate"), bank, backgrounds).plan(range(50)).n_events > 20


def test_no_reference_under_the_rounding_of_16_bits(tmp_path: Path, spec_of: SpecOf) -> None:
    """A call in a band where the delivered background would be weaker than PCM16's rounding noise is not placed."""
    rng = np.random.default_rng(0)
    spectrum = np.fft.rfft(rng.standard_normal(4 * RATE))
    spectrum[4 * 3000 :] *= 10 ** (-60 / 20)  # 60 dB down above 3 kHz: over -90 dBFS as stored
    noise = np.fft.irfft(spectrum)
    with StoreWriter(tmp_path / "fields", "backgrounds", RATE) as writer:
        writer.add((0.9 * noise / np.abs(noise).max()).astype(np.float32), {})
    high = {"low_hz": 4000.0, "high_hz": 5000.0}
    bank = store(tmp_path / "calls", "pseudovox", [{"species": "a", **high}] * 3)
    fields = ClipStore.open(tmp_path / "fields")
    one = ("events.rate=null", "events.count=1", "empty_share=0")
    loud = Planner(spec_of(*SPEC, *one, "background.level_dbfs=-20"), bank, fields).plan(range(50))
    faint = Planner(spec_of(*SPEC, *one, "background.level_dbfs=-58"), bank, fields).plan(range(50))

    assert loud.n_events == 50
    assert faint.n_events == 0
    assert faint.drops[:, DROP_REASONS.index("silent_background")].sum() == 50
