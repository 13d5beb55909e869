"""Bouts, choruses and antiphony: what is drawn comes out, callers stay themselves, and the planner's rules hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import PlanError
from synthscape.plan.plan import DROP_REASONS, ScenePlan
from synthscape.plan.planner import Planner
from synthscape.spec import Spec

RATE = 16000
SpecOf = Callable[..., Spec]
FREE = "events.overlap={same_class: allow, max_polyphony: null}"
PLAIN = ("events.rate=null", "events.resample=1", "empty_share=0", "classes.per_scene=1", FREE)


def calls(path: Path, rows: list[dict[str, Any]], lengths_s: list[float], pad_s: float = 0.02) -> ClipStore:
    """A store of noises, each with its active part ``pad_s`` from its start and twice that from its end."""
    rng = np.random.default_rng(len(rows))
    with StoreWriter(path, "pseudovox", RATE) as writer:
        for row, length_s in zip(rows, lengths_s, strict=True):
            n, pad = round(length_s * RATE), round(pad_s * RATE)
            known = {"species": "a", "low_hz": 900.0, "high_hz": 1100.0, "min_ratio_index": 0, **row}
            active = {"active_start": pad, "active_end": pad + n, "energy_q25": pad + n // 4,
                      "energy_q75": pad + 3 * n // 4}  # fmt: skip
            writer.add((0.1 * rng.standard_normal(n + 3 * pad)).astype(np.float32), {**active, **known})
    return ClipStore.open(path)


@pytest.fixture(scope="module")
def flock(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """Two species of six individuals, each with five calls of 0.1 to 0.3 s in two recordings."""
    rng = np.random.default_rng(5)
    rows = [
        {"species": f"s{s}", "individual": f"i{i}", "recording_id": f"r{s}-{i}-{k % 2}", "site": f"p{s}-{i}"}
        for s in range(2)
        for i in range(6)
        for k in range(5)
    ]
    return calls(tmp_path_factory.mktemp("flock") / "bank", rows, list(rng.uniform(0.1, 0.3, len(rows))))


@pytest.fixture(scope="module")
def crickets(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """One species of eight individuals, whose calls are all 0.2 s long."""
    rows = [{"individual": f"i{i}", "recording_id": f"r{i}", "medium": "air"} for i in range(8) for _ in range(2)]
    return calls(tmp_path_factory.mktemp("crickets") / "bank", rows, [0.2] * len(rows))


def of_scenes(plan: ScenePlan) -> list[slice]:
    """Where the events of each scene stand."""
    return [plan.events_of(i) for i in range(len(plan))]


# Bouts


def test_intervals_and_calls_of_bouts_have_their_distributions(
    spec_of: SpecOf, flock: ClipStore, backgrounds: ClipStore
) -> None:
    """Silences between the calls of a bout are as drawn (KS), so are the numbers of calls (chi-square)."""
    spec = spec_of(*PLAIN, "events.process=bout", "events.count=1", "duration=30",
                   "events.bout={calls: {uniform_int: [2, 6]}, interval_s: {uniform: [0.1, 0.9]}}")  # fmt: skip
    plan = Planner(spec, flock, backgrounds).plan(range(1500))
    silence_s = np.concatenate([plan.onset[e][1:] - plan.offset[e][:-1] for e in of_scenes(plan)]) / RATE
    calls_each = np.diff(plan.event_offsets)

    assert (plan.n_asked == plan.n_placed).all()
    assert scipy.stats.kstest(silence_s, scipy.stats.uniform(0.1, 0.8).cdf).pvalue > 1e-3
    assert scipy.stats.chisquare(np.bincount(calls_each, minlength=7)[2:]).pvalue > 1e-3


def test_bouts_start_anywhere_that_holds_them(spec_of: SpecOf, flock: ClipStore, backgrounds: ClipStore) -> None:
    """The start of a bout is uniform over what leaves all its clips in the scene (KS)."""
    spec = spec_of(*PLAIN, "events.process=bout", "events.count=1", "duration=10", "events.bout.calls=4")
    plan = Planner(spec, flock, backgrounds).plan(range(1500))
    first, last = plan.event_offsets[:-1], plan.event_offsets[1:] - 1
    room = plan.n_samples - (plan.clip_offset[last] - plan.clip_onset[first])

    assert (room >= 0).all()
    assert scipy.stats.kstest((plan.clip_onset[first] + 0.5) / (room + 1), "uniform").pvalue > 1e-3


def test_silences_are_rounded_once(spec_of: SpecOf, flock: ClipStore, backgrounds: ClipStore) -> None:
    """Call k begins round(k x 1600.4) samples of silence and all earlier calls after the first: errors don't add up."""
    spec = spec_of(*PLAIN, "events.process=bout", "events.count=1", "duration=20",
                   "events.bout={calls: 30, interval_s: 0.100025}")  # fmt: skip
    plan = Planner(spec, flock, backgrounds).plan(range(40))
    for e in of_scenes(plan):
        sounded = np.append(0, np.cumsum(plan.offset[e] - plan.onset[e]))[:-1]
        silent = [math.floor(k * 0.100025 * RATE + 0.5) for k in range(30)]
        np.testing.assert_array_equal(plan.onset[e] - plan.onset[e][0], sounded + silent)


KEYS: dict[str, Callable[[int], dict[str, Any]]] = {
    "individual": lambda k: {"individual": f"i{k // 4}", "track_id": f"t{k // 2}", "recording_id": f"r{k // 2}"},
    "track": lambda k: {"track_id": f"t{k // 4}", "recording_id": f"r{k // 8}"},
    "recording": lambda k: {"recording_id": f"r{k // 4}"},
    "clip": lambda k: {},
}


@pytest.mark.parametrize("known", KEYS)
def test_a_bout_is_one_callers(tmp_path: Path, spec_of: SpecOf, backgrounds: ClipStore, known: str) -> None:
    """All calls of a bout are of one individual, else track, else recording, else clip, and each of its clips is used.

    They share ratio, direction, SNR and speaker.
    """
    bank = calls(tmp_path / "bank", [KEYS[known](k) for k in range(24)], [0.1] * 24)
    spec = spec_of(*PLAIN, "events.process=bout", "events.count=1", "events.bout.calls=12", "events.reverse=0.5",
                   "events.resample={uniform: [0.8, 1.25]}", "events.snr.db={uniform: [-5, 5]}")  # fmt: skip
    plan = Planner(spec, bank, backgrounds).plan(range(200))
    callers = set()
    for e in of_scenes(plan):
        clips = plan.clip[e]
        caller = set((clips // (1 if known == "clip" else 4)).tolist())
        assert len(clips) == 12
        assert len(caller) == 1
        callers |= caller
        for column in (plan.ratio, plan.reversed, plan.snr_db, plan.speaker):
            assert len(set(column[e].tolist())) == 1
    assert len(callers) == (24 if known == "clip" else 6)
    assert set(plan.clip.tolist()) == set(range(24))
    assert len(set(plan.snr_db.tolist())) > 100
    assert 0.3 < plan.reversed.mean() < 0.7


def test_an_animal_sounds_alike_in_all_its_bouts(spec_of: SpecOf, crickets: ClipStore, backgrounds: ClipStore) -> None:
    """Speakers of a scene are its individuals, each with one ratio, direction and SNR, and with one voice at a time."""
    spec = spec_of(*PLAIN, "events.process=bout", "events.count=6", "events.bout.calls=3", "events.reverse=0.5",
                   "events.resample={uniform: [0.8, 1.25]}", "events.snr.db={uniform: [-5, 5]}")  # fmt: skip
    plan = Planner(spec, crickets, backgrounds).plan(range(200))
    several = 0
    for e in of_scenes(plan):
        individual = plan.clip[e] // 2
        assert len(set(zip(individual, plan.speaker[e], strict=True))) == len(set(individual.tolist()))
        assert len(set(plan.speaker[e].tolist())) == len(set(individual.tolist()))
        for one in set(individual.tolist()):
            mine = individual == one
            several += mine.sum() > 3
            for column in (plan.ratio, plan.reversed, plan.snr_db):
                assert len(set(column[e][mine].tolist())) == 1
            assert (plan.onset[e][mine][1:] >= plan.offset[e][mine][:-1]).all()
    assert several > 100


def test_a_bout_longer_than_the_scene_is_seen_in_part(
    spec_of: SpecOf, flock: ClipStore, backgrounds: ClipStore
) -> None:
    """What does not fit is counted as outside, at both ends alike; something is always in."""
    spec = spec_of(*PLAIN, "events.process=bout", "events.count=1", "duration=2", "events.bout.calls=20")
    plan = Planner(spec, flock, backgrounds).plan(range(500))

    assert (plan.n_asked >= 1).all()
    np.testing.assert_array_equal(plan.n_asked + plan.n_outside, 20)
    assert (plan.clip_onset >= 0).all()
    assert (plan.clip_offset <= 2 * RATE).all()
    middle = np.array([(plan.onset[e] + plan.offset[e]).mean() / 2 for e in of_scenes(plan)])
    assert middle.mean() == pytest.approx(RATE, rel=0.03)


# Choruses


def shares(plan: ScenePlan, callers: np.ndarray, start_s: float, end_s: float) -> list[tuple[int, float]]:
    """(caller, share of [start, end) that it is active) for each scene and caller in it."""
    found = []
    for e in of_scenes(plan):
        inside = np.minimum(plan.offset[e], end_s * RATE) - np.maximum(plan.onset[e], start_s * RATE)
        for one in set(callers[plan.clip[e]].tolist()):
            mine = callers[plan.clip[e]] == one
            found.append((one, float(np.maximum(inside[mine], 0).sum() / ((end_s - start_s) * RATE))))
    return found


@pytest.mark.parametrize(("synchrony", "duty"), [(0, 0.3), (0.5, 0.3), (1, 0.3), (0, 0.7), (1, 0.7)])
def test_each_caller_is_active_for_its_duty(
    tmp_path: Path, spec_of: SpecOf, backgrounds: ClipStore, synchrony: float, duty: float
) -> None:
    """Long and short callers of a chorus are both active a share of the time as asked, within 3 %.

    At a duty of 0.7 single calls are longer than a period in which each caller called once.
    """
    rows = [{"individual": f"i{i}", "recording_id": f"r{i}"} for i in range(4) for _ in range(3)]
    bank = calls(tmp_path / "bank", rows, [(0.1, 0.2, 0.3)[k % 3] * (1 + k // 6) for k in range(12)])
    spec = spec_of(*PLAIN, "events.process=chorus", "duration=30", "events.max_per_scene=4096",
                   f"events.chorus={{callers: 3, duty: {duty}, synchrony: {synchrony}}}")  # fmt: skip
    plan = Planner(spec, bank, backgrounds).plan(range(300))
    found = shares(plan, np.arange(12) // 3, 5, 25)

    assert (plan.n_asked == plan.n_placed).all()
    for long in (False, True):
        assert np.mean([share for one, share in found if (one >= 2) == long]) == pytest.approx(duty, rel=0.03)


def test_every_caller_may_have_a_duty_of_its_own(spec_of: SpecOf, crickets: ClipStore, backgrounds: ClipStore) -> None:
    """With per: event half of the callers is active a tenth of the time, half of them four tenths."""
    spec = spec_of(*PLAIN, "events.process=chorus", "duration=40", "events.max_per_scene=4096",
                   "events.chorus={callers: 4, duty: {choice: [0.1, 0.4], per: event}}")  # fmt: skip
    plan = Planner(spec, crickets, backgrounds).plan(range(300))
    found = np.array([share for _, share in shares(plan, np.arange(16) // 2, 5, 35)])

    assert found[found < 0.25].mean() == pytest.approx(0.1, rel=0.05)
    assert found[found > 0.25].mean() == pytest.approx(0.4, rel=0.05)
    assert (found < 0.25).mean() == pytest.approx(0.5, abs=0.06)


def test_synchrony_is_the_resultant_of_two_callers(
    spec_of: SpecOf, crickets: ClipStore, backgrounds: ClipStore
) -> None:
    """Onsets of two callers against the period P = l / duty: independent at 0, the same at 1, and as sinc in between.

    An onset is spread over w P uniformly by its caller's phase and over w (1 - duty) P by its own, w = 1 - synchrony,
    so that the difference of two has the mean resultant (sinc(w) sinc(w (1 - duty)))^2 (Mardia and Jupp 2000).
    """
    period = 0.2 / 0.25
    for synchrony in (0.0, 0.4, 0.8, 1.0):
        spec = spec_of(*PLAIN, "events.process=chorus", f"seed={int(10 * synchrony)}",
                       f"events.chorus={{callers: 2, duty: 0.25, synchrony: {synchrony}}}")  # fmt: skip
        plan = Planner(spec, crickets, backgrounds).plan(range(2000))
        turns = []
        for e in of_scenes(plan):
            one, other = (plan.onset[e][plan.speaker[e] == k][2] / RATE for k in range(2))
            turns.append((one - other) / period % 1)
        resultant = np.abs(np.exp(2j * np.pi * np.array(turns)).mean())
        w = 1 - synchrony
        assert resultant == pytest.approx((np.sinc(w) * np.sinc(w * 0.75)) ** 2, abs=0.05)
        if synchrony == 0:
            assert scipy.stats.kstest(turns, "uniform").pvalue > 1e-3
        if synchrony == 1:
            assert np.abs(np.exp(2j * np.pi * np.array(turns)) - 1).max() < 2 * np.pi * 1.5 / (period * RATE)


def test_callers_of_a_chorus_are_different_animals(spec_of: SpecOf, flock: ClipStore, backgrounds: ClipStore) -> None:
    """As many individuals as asked or as there are, each a speaker; the missing are counted in every scene."""
    spec = spec_of(*PLAIN, "events.process=chorus", "events.chorus={callers: {uniform_int: [2, 9]}, duty: 0.3}")
    plan = Planner(spec, flock, backgrounds).plan(range(400))
    missing = plan.drops[:, DROP_REASONS.index("too_few_callers")]
    seen = set()
    for i, e in enumerate(of_scenes(plan)):
        speakers = len(set(plan.speaker[e].tolist()))
        assert len(set((plan.clip[e] // 5).tolist())) == speakers <= 6
        assert missing[i] == 0 or speakers == 6
        seen.add((speakers, int(missing[i])))
    assert seen == {(2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (6, 1), (6, 2), (6, 3)}


def test_one_recording_is_one_animal_unless_individuals_are_known(
    tmp_path: Path, spec_of: SpecOf, backgrounds: ClipStore
) -> None:
    """Two tracks of a recording are never two callers of a scene: separation may have split one animal in two."""
    rows = [{"track_id": f"t{k // 2}", "recording_id": f"r{k // 4}"} for k in range(16)]
    bank = calls(tmp_path / "bank", rows, [0.1] * 16)
    spec = spec_of(*PLAIN, "events.process=chorus", "events.chorus={callers: 5, duty: 0.3}")
    plan = Planner(spec, bank, backgrounds).plan(range(100))

    for e in of_scenes(plan):
        assert len(set(plan.speaker[e].tolist())) == 4
        assert len(set((plan.clip[e] // 4).tolist())) == 4
        assert len(set((plan.clip[e] // 2).tolist())) == 4
    assert plan.drops[:, DROP_REASONS.index("recording_used")].sum() == 100


@pytest.mark.parametrize("process", ["chorus", "antiphony", "bout, events.count=1"])
def test_edges_are_as_full_as_the_middle(
    spec_of: SpecOf, crickets: ClipStore, backgrounds: ClipStore, process: str
) -> None:
    """What runs on beyond the scene is as dense in its first and last half second as in the middle, within 5 %."""
    spec = spec_of(*PLAIN, *f"events.process={process}".split(", "), "events.edges=truncate", "duration=6")
    plan = Planner(spec, crickets, backgrounds).plan(range(8000))

    def active_s(start_s: float, end_s: float) -> float:
        inside = np.minimum(plan.offset, end_s * RATE) - np.maximum(plan.onset, start_s * RATE)
        return float(np.maximum(inside, 0).sum()) / (end_s - start_s)

    middle = active_s(1, 5)
    assert active_s(0.1, 0.6) == pytest.approx(middle, rel=0.05)
    assert active_s(5.4, 5.9) == pytest.approx(middle, rel=0.05)


# Antiphony


def test_two_take_turns(spec_of: SpecOf, flock: ClipStore, backgrounds: ClipStore) -> None:
    """Two individuals of a species alternate; latencies and pauses have their distributions (KS)."""
    spec = spec_of(*PLAIN, "events.process=antiphony", "duration=20", "events.antiphony={exchanges: 4, "
                   "latency_s: {truncnorm: [0.4, 0.2, 0.05, 2]}, pause_s: {uniform: [0.5, 3]}}")  # fmt: skip
    plan = Planner(spec, flock, backgrounds).plan(range(800))
    latency_s, pause_s = [], []
    for e in of_scenes(plan):
        animals = plan.clip[e] // 5
        assert set(np.diff(plan.speaker[e]).tolist()) <= {-1, 1}
        assert animals[0] != animals[1]
        assert (animals == np.tile(animals[:2], 4)[: len(animals)]).all()
        assert len(set(plan.class_id[e].tolist())) == 1
        if len(animals) == 8:
            silence_s = (plan.onset[e][1:] - plan.offset[e][:-1]) / RATE
            latency_s += silence_s[::2].tolist()
            pause_s += silence_s[1::2].tolist()
    assert len(latency_s) > 2000
    law = scipy.stats.truncnorm((0.05 - 0.4) / 0.2, (2 - 0.4) / 0.2, 0.4, 0.2)
    assert scipy.stats.kstest(latency_s, law.cdf).pvalue > 1e-3
    assert scipy.stats.kstest(pause_s, scipy.stats.uniform(0.5, 2.5).cdf).pvalue > 1e-3


def test_answers_overlap_as_often_as_asked(spec_of: SpecOf, crickets: ClipStore, backgrounds: ClipStore) -> None:
    """An answer begins within its call with the probability asked (binomial), and there at any time (KS)."""
    spec = spec_of(*PLAIN, "events.process=antiphony", "events.antiphony={exchanges: 1, overlap_probability: 0.3}")
    plan = Planner(spec, crickets, backgrounds).plan(range(2000))
    assert plan.n_events == 4000
    call, answer = plan.onset[::2], plan.onset[1::2]
    within = answer < plan.offset[::2]

    assert scipy.stats.binomtest(int(within.sum()), 2000, 0.3).pvalue > 1e-3
    share = ((answer - call + 0.5) / 3200)[within]
    assert scipy.stats.kstest(share, "uniform").pvalue > 1e-3
    assert ((answer - plan.offset[::2])[~within] >= 0.05 * RATE - 1).all()


def test_another_class_may_answer(spec_of: SpecOf, flock: ClipStore, backgrounds: ClipStore) -> None:
    """With other_class the two are of two species; a scene with an odd number of classes counts the one left over."""
    override = ("events.process=antiphony", "events.antiphony.partner=other_class", "classes.per_scene=2")
    plan = Planner(spec_of(*PLAIN, *override), flock, backgrounds).plan(range(100))

    for e in of_scenes(plan):
        assert set(np.diff(plan.class_id[e]).tolist()) == {-1, 1}
        assert set(np.diff(plan.speaker[e]).tolist()) == {-1, 1}


def test_no_two_animals_is_refused(tmp_path: Path, spec_of: SpecOf, backgrounds: ClipStore) -> None:
    """If no class has two callers there is no antiphony, and no chorus of three: refused with what to do."""
    bank = calls(tmp_path / "bank", [{"species": f"s{k}", "recording_id": f"r{k}"} for k in (0, 0, 1, 1)], [0.1] * 4)
    with pytest.raises(PlanError, match=r"antiphony needs 2 callers of one class.* more than 1 .*partner: other_class"):
        Planner(spec_of(*PLAIN, "events.process=antiphony"), bank, backgrounds)
    with pytest.raises(PlanError, match=r"chorus needs 3 callers of one class.*ask for fewer in events.chorus.callers"):
        Planner(spec_of(*PLAIN, "events.process=chorus", "events.chorus.callers=3"), bank, backgrounds)
    other = ("events.antiphony.partner=other_class", "classes.per_scene=2")
    assert Planner(spec_of(*PLAIN, "events.process=antiphony", *other), bank, backgrounds).plan(range(5)).n_events > 5


# All three

PROCESSES = {
    "bout": ["events.process=bout", "events.count={uniform_int: [1, 4]}"],
    "chorus": ["events.process=chorus", "events.chorus={callers: {uniform_int: [1, 4]}, synchrony: {uniform: [0, 1]}}"],
    "antiphony": ["events.process=antiphony", "events.antiphony.overlap_probability=0.2"],
    "exchanges": ["events.process=antiphony", "events.antiphony.exchanges={uniform_int: [1, 5]}"],
    "bouts of one": ["events.process=bout", "events.rate={uniform: [0.1, 0.5], per: class}", "events.bout.calls=1"],
}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    process=st.sampled_from(sorted(PROCESSES)),
    duration=st.floats(0.8, 15),
    edges=st.sampled_from(["inside", "truncate"]),
    same_class=st.sampled_from(["forbid", "allow"]),
    polyphony=st.sampled_from(["null", "1", "3"]),
    gap=st.sampled_from([0, 0.1]),
    most=st.sampled_from([10, 256]),
    resample=st.sampled_from(["1", "{uniform: [0.5, 2]}", "{choice: [0.5, 1, 2], per: class}"]),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_plan_keeps_the_rules(
    spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, process: str, duration: float, edges: str,
    same_class: str, polyphony: str, gap: float, most: int, resample: str, seed: int,
) -> None:  # fmt: skip
    """Whatever the spec, counts add up, no rule is broken, no animal calls twice at once, batches change nothing."""
    forbidden = same_class == "forbid" and process in ("bout", "exchanges", "bouts of one")
    overrides = [
        *PROCESSES[process], f"duration={duration:.4f}", f"events.edges={edges}", f"seed={seed}",
        f"events.overlap={{same_class: {'forbid' if forbidden else 'allow'}, max_polyphony: {polyphony}, "
        f"min_gap_s: {gap}}}", f"events.resample={resample}", "events.reverse=0.3", "empty_share=0.25",
        "classes.per_scene={uniform_int: [1, 3]}", f"events.max_per_scene={most}",
    ]  # fmt: skip
    if most == 10:  # so few that choruses and antiphony meet the limit
        overrides = [one.replace("count={uniform_int: [1, 4]}", "count=1") for one in overrides]
    planner = Planner(spec_of("events.rate=null", *overrides), bank, backgrounds)
    plan = planner.plan(range(24))

    np.testing.assert_array_equal(plan.n_asked, plan.n_placed + plan.drops.sum(axis=1))
    np.testing.assert_array_equal(plan.n_placed, np.diff(plan.event_offsets))
    assert (plan.n_asked == 0).sum() == 6
    assert (plan.n_placed <= most).all()
    assert (plan.offset > plan.onset).all()
    assert (plan.fade_in + plan.fade_out <= plan.clip_offset - plan.clip_onset).all()
    individual, sites = bank.clips["individual"].to_numpy(), bank.clips["site"].to_numpy()
    least = bank.clips["min_ratio_index"].to_numpy()
    for i, e in enumerate(of_scenes(plan)):
        onset, offset, speaker = plan.onset[e], plan.offset[e], plan.speaker[e]
        assert (np.diff(onset) >= 0).all()
        assert (onset >= 0).all()
        assert (offset <= plan.n_samples[i]).all()
        if edges == "inside":
            assert (plan.clip_onset[e] >= 0).all()
            assert (plan.clip_offset[e] <= plan.n_samples[i]).all()
        assert len(set(plan.gain_group[e].tolist())) == len(onset)
        assert (speaker >= 0).all()
        animals = set(zip(plan.class_id[e].tolist(), individual[plan.clip[e]], strict=True))
        assert len(animals) == len(set(speaker.tolist()))
        assert not {backgrounds.clips["site"][row] for row in plan.background[i] if row >= 0} & set(sites[plan.clip[e]])
        for j in range(len(onset)):
            later = np.arange(len(onset)) > j
            assert (onset[later & (speaker == speaker[j])] >= offset[j]).all()
            if forbidden:
                same = later & (plan.class_id[e] == plan.class_id[e][j])
                assert (onset[same] >= offset[j] + round(gap * RATE)).all()
            if polyphony != "null":
                assert ((onset <= onset[j]) & (offset > onset[j])).sum() <= int(polyphony)
    from synthscape_kernels.ratios import GRID

    ratio = plan.ratio_p[plan.ratio] / plan.ratio_q[plan.ratio]
    floor = np.array([float(GRID[k]) for k in least[plan.clip]])
    assert ((ratio >= floor - 1e-12) | (ratio == 1)).all()
    alone = planner.plan([17])
    for name in ("clip", "onset", "ratio", "snr_db", "speaker", "gain_group", "fade_out"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(plan, name)[plan.events_of(17)])


def test_speakers_are_named_without_individuals(tmp_path: Path, spec_of: SpecOf, backgrounds: ClipStore) -> None:
    """Where the bank knows nothing of its callers, the two of an antiphony still have two numbers."""
    bank = calls(tmp_path / "bank", [{} for _ in range(6)], [0.1] * 6)
    plan = Planner(spec_of(*PLAIN, "events.process=antiphony"), bank, backgrounds).plan(range(50))

    for e in of_scenes(plan):
        assert set(plan.speaker[e].tolist()) == {0, 1}
        assert len(set(plan.clip[e].tolist())) == 2


def test_an_animal_calls_from_one_place(spec_of: SpecOf, crickets: ClipStore, backgrounds: ClipStore) -> None:
    """Distances are drawn per event; here one for each caller, which holds for all its calls."""
    spec = spec_of(*PLAIN, "events.process=chorus", "events.chorus={callers: 3, duty: 0.2}",
                   "events.propagation.distance_m={uniform: [1, 100]}")  # fmt: skip
    plan = Planner(spec, crickets, backgrounds).plan(range(50))
    distances = set()
    for e in of_scenes(plan):
        places = set(zip(plan.speaker[e].tolist(), plan.distance_mm[e].tolist(), strict=True))
        assert len(places) == len(set(plan.speaker[e].tolist()))
        distances |= {distance for _, distance in places}
    assert len(distances) > 100


def test_antiphony_says_where_its_limit_cuts_it(spec_of: SpecOf, flock: ClipStore, backgrounds: ClipStore) -> None:
    """Two that would take turns for a minute, but for max_per_scene: always counted as dropped."""
    spec = spec_of(*PLAIN, "events.process=antiphony", "duration=60", "events.max_per_scene=4")
    plan = Planner(spec, flock, backgrounds).plan(range(60))
    assert (plan.n_placed == 4).all()
    assert (plan.drops[:, DROP_REASONS.index("over_limit")] > 0).all()
