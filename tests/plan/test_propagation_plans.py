"""Levels, propagation, rooms and noise as they are planned: drawn as the spec says, without moving other draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import PlanError, StoreError
from synthscape.plan.plan import (
    AS_RECORDED,
    NO_BACKGROUND,
    NO_IMPULSE,
    NO_LEVEL,
    NO_ROOM,
    NOISE,
    PROCEDURAL_TAIL,
    ScenePlan,
)
from synthscape.plan.planner import Planner
from synthscape.spec import Spec
from synthscape_kernels import place
from tests.scenes import RATE, make_bank, make_impulses

SpecOf = Callable[..., Spec]
SOURCE = (
    "events.level={mode: source, source_level_db: {normal: [80, 3]}}",
    "events.propagation.distance_m={loguniform: [2, 200]}",
    "background.spl_db={uniform: [30, 50]}",
)


@pytest.fixture(scope="module")
def impulses(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """Impulse responses of four rooms."""
    return make_impulses(tmp_path_factory.mktemp("impulses") / "rooms")


def fits(values: np.ndarray, distribution: object) -> bool:
    """Kolmogorov-Smirnov."""
    return bool(scipy.stats.kstest(values, distribution.cdf).pvalue > 1e-4)  # type: ignore[attr-defined]


def differing(one: ScenePlan, other: ScenePlan) -> set[str]:
    """Names of columns that are not equal."""
    names = [field.name for field in fields(ScenePlan)]
    return {name for name in names if not np.array_equal(getattr(one, name), getattr(other, name))}


def scene_of_event(plan: ScenePlan) -> np.ndarray:
    """Position of each event's scene."""
    return np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))


def test_dry_events_have_no_propagation(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Where the spec says nothing of it, every new column holds its word for nothing."""
    plan = Planner(spec_of(), bank, backgrounds).plan(range(200))

    assert (plan.room == NO_ROOM).all()
    assert (plan.background_spl_db == NO_LEVEL).all()
    assert (plan.source_level_db == NO_LEVEL).all()
    assert (plan.impulse == NO_IMPULSE).all()
    for name in ("noise_slope_db", "distance_mm", "rt60_ms", "drr_db"):
        assert not getattr(plan, name).any()


def test_what_is_drawn_besides_moves_nothing(
    spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, impulses: ClipStore
) -> None:
    """Distances, tails, rooms and source levels have streams of their own: all other columns stay."""
    base = ("events.snr={reference: local, db: {normal: [{uniform: [-5, 5]}, 3]}}", "events.rate=1")
    dry = Planner(spec_of(*base), bank, backgrounds).plan(range(300))
    tail = ("events.propagation={distance_m: {uniform: [1, 9]}, tail: {rt60_s: {uniform: [0.2, 2]}}}",)
    far = Planner(spec_of(*base, *tail), bank, backgrounds).plan(range(300))
    rooms = Planner(spec_of(*base, f"events.propagation.impulses={impulses.path}"), bank, backgrounds, impulses).plan(
        range(300)
    )
    loud = Planner(spec_of(*base, "events.snr.reference=scene"), bank, backgrounds).plan(range(300))
    source = Planner(spec_of(*base, *SOURCE), bank, backgrounds).plan(range(300))

    assert differing(dry, far) == {"distance_mm", "impulse", "rt60_ms", "drr_db"}
    assert differing(dry, rooms) == {"room", "impulse"}
    assert differing(loud, source) == {"snr_db", "source_level_db", "distance_mm", "background_spl_db"}
    assert differing(dry, Planner(spec_of(*base), bank, backgrounds).plan(range(300))) == set()


def test_draws_follow_their_distributions(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Distance in mm, RT60 in ms, levels in 1/256 dB (Kolmogorov-Smirnov); independent of each other."""
    tail = "events.propagation.tail={rt60_s: {uniform: [0.2, 2]}, direct_to_reverberant_db: {normal: [3, 4]}}"
    plan = Planner(spec_of(*SOURCE, tail, "events.rate=1"), bank, backgrounds).plan(range(1500))
    columns = [plan.distance_mm / 1000, plan.rt60_ms / 1000, plan.drr_db / 256, plan.source_level_db / 256]

    assert plan.n_events > 5000
    assert fits(columns[0], scipy.stats.loguniform(2, 200))
    assert fits(columns[1], scipy.stats.uniform(0.2, 1.8))
    assert fits(columns[2], scipy.stats.norm(3, 4))
    assert fits(columns[3], scipy.stats.norm(80, 3))
    assert fits(plan.background_spl_db / 256, scipy.stats.uniform(30, 20))
    assert (plan.impulse == PROCEDURAL_TAIL).all()
    assert (plan.snr_db == NO_LEVEL).all()
    together = scipy.stats.spearmanr(np.stack(columns), axis=1).statistic
    assert np.abs(together - np.eye(4)).max() < 0.06


def test_draws_of_a_class_or_scene_are_shared(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """With per: class one distance for the class in a scene, with per: scene one tail for all of it."""
    spec = spec_of(
        "events.propagation.distance_m={uniform: [1, 50], per: class}", "events.rate=1",
        "events.propagation.tail.rt60_s={uniform: [0.2, 2], per: scene}",
    )  # fmt: skip
    plan = Planner(spec, bank, backgrounds).plan(range(300))
    scene = scene_of_event(plan)
    classes = {}
    for i, class_id, distance in zip(scene, plan.class_id, plan.distance_mm, strict=True):
        classes.setdefault((i, class_id), set()).add(int(distance))

    assert {len(found) for found in classes.values()} == {1}
    assert len({next(iter(found)) for found in classes.values()}) > 0.9 * len(classes)
    for i in np.unique(scene):
        assert len(set(plan.rt60_ms[plan.events_of(i)])) == 1
    assert len(set(plan.rt60_ms)) > 200


def test_some_events_are_dry(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, impulses: ClipStore) -> None:
    """Each is propagated with the probability asked for, wholly or not at all."""
    spec = spec_of(
        f"events.propagation={{probability: 0.3, distance_m: 5, impulses: '{impulses.path}'}}", "events.rate=1"
    )
    plan = Planner(spec, bank, backgrounds, impulses).plan(range(600))
    propagated = plan.distance_mm > 0

    assert scipy.stats.binomtest(int(propagated.sum()), plan.n_events, 0.3).pvalue > 1e-4
    np.testing.assert_array_equal(propagated, plan.impulse >= 0)
    assert (plan.distance_mm[propagated] == 5000).all()
    assert (plan.room >= 0).all()


def test_a_scene_is_in_one_room(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, impulses: ClipStore) -> None:
    """All events of a scene are heard through impulse responses of its room; rooms are equally likely."""
    spec = spec_of(f"events.propagation.impulses={impulses.path}", "events.rate=1")
    planner = Planner(spec, bank, backgrounds, impulses)
    plan = planner.plan(range(2000))
    clips = impulses.clips
    alone = clips["clip_id"][7]
    members = {"hall": {0, 3}, "cave": {1, 2, 4}, "wood": {5, 6}, alone: {7}}

    assert sorted(planner.rooms) == sorted(members)
    for i in range(len(plan)):
        assert set(plan.impulse[plan.events_of(i)]) <= members[planner.rooms[plan.room[i]]]
    assert scipy.stats.chisquare(np.bincount(plan.room, minlength=4)).pvalue > 1e-4
    in_cave = plan.impulse[plan.room[scene_of_event(plan)] == planner.rooms.index("cave")]
    assert scipy.stats.chisquare(np.unique(in_cave, return_counts=True)[1]).pvalue > 1e-4


def test_rooms_are_of_the_medium_of_the_scene(
    tmp_path: Path, spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore
) -> None:
    """A call in air is not heard through water; a site with both is two rooms; excluded and denied ones are out."""
    rows = [
        {"site": "pool", "medium": "water"},
        {"site": "pool", "medium": "air"},
        {"site": "pool", "medium": "air", "excluded": "clipped"},
        {"site": "anywhere"},
        {"site": "closed", "licence": "CC-BY-ND-4.0"},
    ]
    mixed = make_impulses(tmp_path / "mixed", rows)
    spec = spec_of(f"events.propagation.impulses={mixed.path}", "events.rate=1")
    planner = Planner(spec, bank, backgrounds, mixed)
    plan = planner.plan(range(200))

    assert set(plan.impulse) == {1, 3}
    assert planner.rooms == ["anywhere", "pool", "pool"]
    assert planner.filtered["impulse responses excluded in the store"] == 1
    assert planner.filtered["impulse responses of a denied licence"] == 1
    assert "1 impulse responses have no medium: they go with every medium" in planner.notes

    wet = make_impulses(tmp_path / "wet", rows[:1])
    spec = spec_of(f"events.propagation.impulses={wet.path}")
    with pytest.raises(PlanError, match="no impulse response is of medium 'air'"):
        Planner(spec, bank, backgrounds, wet)


def test_impulse_stores_that_do_not_fit_are_refused(
    tmp_path: Path, spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, impulses: ClipStore
) -> None:
    """Another rate, another kind, none where the spec names one, one where it names none."""
    spec = spec_of(f"events.propagation.impulses={impulses.path}")
    with pytest.raises(StoreError, match=r"events.propagation.impulses: .* is at 8000 Hz, the spec's sample_rate is"):
        Planner(spec, bank, backgrounds, make_impulses(tmp_path / "slow", rate=8000))
    with pytest.raises(StoreError, match="is a store of backgrounds, expected impulses"):
        Planner(spec, bank, backgrounds, backgrounds)
    with pytest.raises(PlanError, match="expected the store that the spec names, got none"):
        Planner(spec, bank, backgrounds)
    with pytest.raises(PlanError, match=r"expected the store that the spec names, got .*rooms; name it in the spec"):
        Planner(spec_of(), bank, backgrounds, impulses)


def test_calls_of_a_track_come_from_one_place(
    spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, impulses: ClipStore
) -> None:
    """Distance, impulse response and source level are the group's."""
    spec = spec_of(*SOURCE, f"events.propagation.impulses={impulses.path}", "events.group=track", "duration=8")
    plan = Planner(spec, bank, backgrounds, impulses).plan(range(300))
    scene = scene_of_event(plan)
    groups: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for e in range(plan.n_events):
        place_of = (plan.distance_mm[e], plan.impulse[e], plan.source_level_db[e])
        groups.setdefault((int(scene[e]), int(plan.gain_group[e])), set()).add(tuple(map(int, place_of)))

    assert plan.n_events > 1.5 * len(groups) > 100
    assert {len(found) for found in groups.values()} == {1}


def test_distance_needs_a_medium(tmp_path: Path, spec_of: SpecOf, backgrounds: ClipStore) -> None:
    """What was recorded with contact microphones, or nobody knows how, is left out and counted."""
    full = make_bank(tmp_path / "full", n_species=2)
    clips = full.clips.drop(columns=["clip_id", "start", "length", "peak"]).to_dict("records")
    with StoreWriter(tmp_path / "some", "pseudovox", RATE) as writer:
        for row, said in enumerate(clips):
            said = {name: value for name, value in said.items() if value is not None and value == value}
            said["medium"] = [None, "contact", "air"][row % 3]
            writer.add(full.audio(row), {name: value for name, value in said.items() if value is not None})
    some = ClipStore.open(tmp_path / "some")
    spec = spec_of("events.propagation.distance_m=5", "classes.per_scene=1")
    planner = Planner(spec, some, backgrounds)

    assert planner.filtered["clips without a medium that sound travels in (air, water)"] == 16
    assert set(some.clips["medium"][planner.plan(range(100)).clip]) == {"air"}


def test_levels_in_lufs_stand_where_dbfs_do(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """The column of the level holds LUFS, from the same draw."""
    dbfs = Planner(spec_of("background.level_dbfs={uniform: [-45, -35]}"), bank, backgrounds).plan(range(500))
    lufs = Planner(spec_of("background={level_dbfs: null, level_lufs: {uniform: [-45, -35]}}"), bank, backgrounds).plan(
        range(500)
    )

    assert differing(dbfs, lufs) == set()
    assert fits(lufs.level_dbfs / 256, scipy.stats.uniform(-45, 10))
    assert (lufs.level_dbfs != AS_RECORDED).all()


def test_noise_layers(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Each layer is noise with the probability asked for, with a slope of its own; files stay equally likely."""
    noise = "background={mix: {probability: 0.5}, noise: {probability: 0.4, slope_db_per_octave: {uniform: [-6, 3]}}}"
    plan = Planner(spec_of(noise), bank, backgrounds).plan(range(4000))
    first, second = plan.background.T
    mixed = second != NO_BACKGROUND

    assert scipy.stats.binomtest(int((first == NOISE).sum()), len(plan), 0.4).pvalue > 1e-4
    assert scipy.stats.binomtest(int((second == NOISE).sum()), int(mixed.sum()), 0.4).pvalue > 1e-4
    pairs = np.histogram2d(first[mixed] == NOISE, second[mixed] == NOISE, bins=2)[0]
    assert scipy.stats.chi2_contingency(pairs).pvalue > 1e-4
    for files in (first[first >= 0], second[(second >= 0) & (first == NOISE)]):
        assert scipy.stats.chisquare(np.bincount(files, minlength=5)).pvalue > 1e-4
    assert (first[(first >= 0) & mixed] != second[(first >= 0) & mixed]).all()
    is_noise = plan.background == NOISE
    assert fits(plan.noise_slope_db[is_noise] / 256, scipy.stats.uniform(-6, 9))
    assert not plan.noise_slope_db[~is_noise].any()
    assert not plan.background_offset[is_noise].any()
    both = plan.noise_slope_db[is_noise.all(axis=1)]
    assert abs(scipy.stats.spearmanr(both).statistic) < 0.12


def test_noise_does_not_move_the_choice_of_files(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Scenes whose backgrounds are files all the same have those they had without noise."""
    plain = Planner(spec_of(), bank, backgrounds).plan(range(500))
    noisy = Planner(spec_of("background.noise.probability=0.3"), bank, backgrounds).plan(range(500))
    files = (noisy.background != NOISE).all(axis=1)

    assert 100 < files.sum() < 400
    np.testing.assert_array_equal(noisy.background[files], plain.background[files])
    np.testing.assert_array_equal(noisy.background_offset[files], plain.background_offset[files])


def test_noise_alone_needs_no_store(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """With probability 1 no background is a file; a store that is given changes nothing."""
    spec = spec_of("backgrounds=null", "background.noise.probability=1")
    plan = Planner(spec, bank, None).plan(range(300))
    given = Planner(spec_of("background.noise.probability=1"), bank, backgrounds).plan(range(300))

    assert plan.hash() == given.hash()
    assert set(plan.background[:, 0]) == {NOISE}
    assert set(plan.background[:, 1]) == {NOISE, NO_BACKGROUND}
    assert plan.n_placed.sum() > 0.97 * plan.n_asked.sum()
    with pytest.raises(PlanError, match="backgrounds: expected a store, got none"):
        Planner(spec_of("background.noise.probability=0.5"), bank, None)


@pytest.mark.parametrize("slope_db", [-12, -6, -10 * np.log10(2), 0.0, 4.5, 12])
def test_power_of_noise_in_a_band(slope_db: float) -> None:
    """The planner's share agrees with the integral of the spectrum: flat to 20 Hz, then slope dB per octave."""

    def density(hz: float) -> float:
        return float(10 ** (slope_db * np.log2(max(hz / 20, 1)) / 10))

    whole = scipy.integrate.quad(density, 0, 8000, points=[20, 100, 1000], limit=200)[0]
    for low, high in ((0, 8000), (0, 10), (10, 50), (900, 1100), (4000, 8000), (7000, 20000)):
        part = scipy.integrate.quad(density, low, min(high, 8000), points=[20, 100] if low < 20 else None, limit=200)[0]
        assert place.noise_share(slope_db, float(low), float(high), 8000.0) == pytest.approx(part / whole, rel=1e-6)


def test_noise_too_faint_in_a_band_is_no_reference(tmp_path: Path, spec_of: SpecOf, bank: ClipStore) -> None:
    """Over noise that falls below the rounding of 16 bits high calls are not placed; over white noise all are."""
    common = ("backgrounds=null", "background.level_dbfs=-58", "background.mix.probability=0")
    counts = {}
    for name, slope_db in (("white", 0), ("falling", -12)):
        noise = f"background.noise={{probability: 1, slope_db_per_octave: {slope_db}}}"
        plan = Planner(spec_of(*common, noise), bank, None).plan(range(300))
        counts[name] = plan.drops[:, place.SILENT_BACKGROUND].sum()

    assert counts["white"] == 0
    assert counts["falling"] > 50


def test_source_levels_need_no_background_in_the_band(tmp_path: Path, spec_of: SpecOf, bank: ClipStore) -> None:
    """No SNR is set, so a background that is silent where a call lies drops nothing."""
    noise = np.random.default_rng(0).standard_normal(12 * RATE)
    noise[RATE : 11 * RATE] = 0
    with StoreWriter(tmp_path / "fields", "backgrounds", RATE) as writer:
        for k in range(2):
            writer.add((0.1 * np.roll(noise, k)).astype(np.float32), {})
    fields_ = ClipStore.open(tmp_path / "fields")
    asked = Planner(spec_of(), bank, fields_).plan(range(100))
    source = Planner(spec_of(*SOURCE), bank, fields_).plan(range(100))

    assert asked.drops[:, place.SILENT_BACKGROUND].sum() > 50
    assert source.drops[:, place.SILENT_BACKGROUND].sum() == 0


def test_constants_are_in_step_with_the_kernel() -> None:
    """What stands for nothing, noise and tails is the same number in plan and kernel."""
    assert (place.NO_LEVEL, place.NOISE, place.PROCEDURAL_TAIL) == (NO_LEVEL, NOISE, PROCEDURAL_TAIL)
    streams = (place.SCENES, place.EMPTY, place.NOISES, place.PROPAGATION, place.SURROUNDINGS)
    assert len({int(stream) for stream in streams}) == 5
