"""The planner: pure, uniform where it says so, and true to every rule of the spec."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synthscape.bank.store import ClipStore
from synthscape.errors import PlanError
from synthscape.plan.plan import DROP_REASONS, EPOCH, ScenePlan
from synthscape.plan.planner import Planner
from synthscape.spec import Spec

SpecOf = Callable[..., Spec]
BUSY = ("events.rate=null", "events.count={uniform_int: [3, 12]}", "duration=5")


def planner(spec: Spec, bank: ClipStore, backgrounds: ClipStore) -> Planner:
    """A planner over the small stores."""
    return Planner(spec, bank, backgrounds)


def columns_equal(one: ScenePlan, other: ScenePlan) -> bool:
    """Equal in every column."""
    return one.hash() == other.hash()


@pytest.fixture(scope="module")
def busy(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> Planner:
    """Many events in short scenes, resampled, reversed and cut by the edges."""
    return Planner(
        spec_of(*BUSY, "events.edges=truncate", "events.resample={loguniform: [0.25, 2]}", "events.reverse=0.3"),
        bank,
        backgrounds,
    )


def test_any_batch_gives_the_same_plan(busy: Planner) -> None:
    """One go, pieces, single scenes and another order give the same scenes."""
    whole = busy.plan(range(200))
    halves = [busy.plan(range(90)), busy.plan(range(90, 200))]
    backwards = busy.plan(range(199, -1, -1))

    np.testing.assert_array_equal(whole.clip_onset, np.concatenate([p.clip_onset for p in halves]))
    np.testing.assert_array_equal(whole.snr_db, np.concatenate([p.snr_db for p in halves]))
    for i in (0, 17, 199):
        alone = busy.plan([i])
        for name in ("clip", "onset", "offset", "ratio", "reversed", "snr_db", "fade_in", "gain_group", "speaker"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(whole, name)[whole.events_of(i)])
            np.testing.assert_array_equal(
                getattr(backwards, name)[backwards.events_of(199 - i)], getattr(whole, name)[whole.events_of(i)]
            )


def test_more_scenes_than_one_call_holds(busy: Planner) -> None:
    """A plan longer than the kernel's buffers is the concatenation of its scenes."""
    long = busy.plan(range(3000))

    assert columns_equal(busy.plan([2999]), busy.plan([2999]))
    np.testing.assert_array_equal(long.clip[long.events_of(2999)], busy.plan([2999]).clip)
    assert long.event_offsets[-1] == len(long.clip)


def test_no_scenes(busy: Planner) -> None:
    """A plan of no scenes is empty, not an error."""
    assert len(busy.plan([])) == 0
    assert busy.plan([]).n_events == 0


@pytest.mark.parametrize("number", [-1, 2**63])
def test_impossible_scene_numbers_are_refused(busy: Planner, number: int) -> None:
    """Scene numbers outside 0 .. 2**63 - 1 are refused by value."""
    with pytest.raises(PlanError, match=f"scene {number}: expected a number from 0"):
        busy.plan([number])


def test_another_seed_shares_no_scene(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Two seeds have no non-empty scene in common among 500 each; nor have two epochs."""

    def scenes(plan: ScenePlan) -> set[bytes]:
        found = set()
        for i in range(len(plan)):
            e = plan.events_of(i)
            if e.stop > e.start:
                found.add(plan.clip[e].tobytes() + plan.clip_onset[e].tobytes() + plan.snr_db[e].tobytes())
        return found

    one = scenes(planner(spec_of("seed=1"), bank, backgrounds).plan(range(500)))
    two = scenes(planner(spec_of("seed=2"), bank, backgrounds).plan(range(500)))
    epoch = scenes(planner(spec_of("seed=1"), bank, backgrounds).plan(range(EPOCH, EPOCH + 500)))

    assert len(one) > 350
    assert not one & two
    assert not one & epoch


def test_events_are_sorted_and_inside(busy: Planner) -> None:
    """Events of a scene are in order of onset; active parts lie inside the scene and are not empty."""
    plan = busy.plan(range(500))
    for i in range(len(plan)):
        e = plan.events_of(i)
        assert (np.diff(plan.onset[e]) >= 0).all()
        assert (plan.offset[e] > plan.onset[e]).all()
        assert (plan.onset[e] >= 0).all()
        assert (plan.offset[e] <= plan.n_samples[i]).all()


def test_onset_and_offset_follow_the_definition(busy: Planner, bank: ClipStore) -> None:
    """onset = clip_onset + floor(a P/Q), offset = clip_onset + ceil(b P/Q), with [L-b, L-a) when reversed."""
    plan = busy.plan(range(300))
    n = np.repeat(plan.n_samples, np.diff(plan.event_offsets))
    clips = bank.clips
    for e in range(plan.n_events):
        row = clips.iloc[plan.clip[e]]
        p, q = int(plan.ratio_p[plan.ratio[e]]), int(plan.ratio_q[plan.ratio[e]])
        a, b, length = int(row.active_start), int(row.active_end), int(row.length)
        if plan.reversed[e]:
            a, b = length - b, length - a
        onset = plan.clip_onset[e] + a * p // q
        offset = plan.clip_onset[e] - (-b * p // q)
        assert plan.clip_offset[e] == plan.clip_onset[e] - (-length * p // q)
        assert plan.onset[e] == max(onset, 0)
        assert plan.offset[e] == min(offset, n[e])
        assert plan.truncated[e] == (onset < 0 or offset > n[e])


def test_what_truncation_keeps(busy: Planner, bank: ClipStore) -> None:
    """A cut call keeps 50 ms or half of its active part, and has no fade at the scene's edge."""
    plan = busy.plan(range(1000))
    n = np.repeat(plan.n_samples, np.diff(plan.event_offsets))
    cut = np.flatnonzero(plan.truncated)
    assert len(cut) > 200
    for e in cut:
        row = bank.clips.iloc[plan.clip[e]]
        r = plan.ratio_p[plan.ratio[e]] / plan.ratio_q[plan.ratio[e]]
        kept = plan.offset[e] - plan.onset[e]
        assert kept >= 0.05 * 16000 or kept >= 0.5 * (row.active_end - row.active_start) * r - 1
        assert plan.clip_onset[e] >= 0 or plan.fade_in[e] == 0
        assert plan.clip_offset[e] <= n[e] or plan.fade_out[e] == 0


def test_inside_keeps_whole_clips(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """With edges: inside every whole clip lies in its scene."""
    plan = planner(spec_of(*BUSY), bank, backgrounds).plan(range(500))
    n = np.repeat(plan.n_samples, np.diff(plan.event_offsets))

    assert (plan.clip_onset >= 0).all()
    assert (plan.clip_offset <= n).all()
    assert not plan.truncated.any()


def test_onsets_are_uniform_over_what_is_feasible(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Clip onsets are uniform on [0, T - L] (Kolmogorov-Smirnov, n = 3 000 lone events, p > 1e-4)."""
    spec = spec_of("events.rate=null", "events.count=1", "empty_share=0", "duration=2")
    plan = planner(spec, bank, backgrounds).plan(range(3000))
    room = np.repeat(plan.n_samples, np.diff(plan.event_offsets)) - (plan.clip_offset - plan.clip_onset)
    u = (plan.clip_onset + 0.5) / (room + 1)

    assert scipy.stats.kstest(u, "uniform").pvalue > 1e-4


def test_edges_are_as_full_as_the_rule_lets_them(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """With truncate, calls cover the first and last 100 ms as often as the middle, but for those with too little left.

    A call of length L may lose L - max(L/4, min(50 ms, L/2)) at an edge, so at a time t from it the part of all
    possible onsets that is kept is min(1, (that + t) / L). n = 120 000 calls, agreement within 3 %.
    """
    spec = spec_of(
        "events.rate=null", "events.count=8", "empty_share=0", "duration=4", "events.edges=truncate",
        "events.overlap={same_class: allow, max_polyphony: null}", "classes.per_scene=4",
    )  # fmt: skip
    plan = planner(spec, bank, backgrounds).plan(range(15_000))
    step = 160
    cover = np.zeros(4 * 16000 // step + 1)
    np.add.at(cover, np.maximum(0, -(-(plan.onset - step // 2) // step)), 1)  # sampled at the middle of each step
    np.add.at(cover, np.maximum(0, -(-(plan.offset - step // 2) // step)), -1)
    cover = np.cumsum(cover)[:-1]

    whole = ~plan.truncated
    length = (plan.offset - plan.onset)[whole][:, None].astype(float)
    lost = length - np.maximum(length / 4, np.minimum(800, length / 2))
    kept = np.minimum(1, (lost + (np.arange(10) + 0.5)[None, :] * step) / length)
    expected = (kept * length).sum(axis=0) / length.sum()
    middle = cover[100:-100].mean()
    edges = (cover[:10] + cover[-1:-11:-1]) / 2 / middle
    assert edges.mean() == pytest.approx(expected.mean(), rel=0.03)
    assert cover[:10].mean() == pytest.approx(cover[-10:].mean(), rel=0.05)


def test_overlap_rules(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """No two events of a class within the gap, and never more than max_polyphony at once."""
    spec = spec_of(
        "events.rate=null", "events.count=20", "duration=4",
        "events.overlap={same_class: forbid, max_polyphony: 2, min_gap_s: 0.1}",
    )  # fmt: skip
    plan = planner(spec, bank, backgrounds).plan(range(300))
    assert plan.drops.sum() > 100  # the rules bite
    for i in range(len(plan)):
        e = plan.events_of(i)
        onset, offset, classes = plan.onset[e], plan.offset[e], plan.class_id[e]
        for j in range(len(onset)):
            later = np.arange(len(onset)) > j
            same = later & (classes == classes[j])
            assert (onset[same] >= offset[j] + 1600).all()
            assert ((onset <= onset[j]) & (offset > onset[j])).sum() <= 2


def test_asked_is_placed_plus_dropped(busy: Planner) -> None:
    """Every event asked for is placed or dropped with a reason, in every scene."""
    plan = busy.plan(range(1000))

    np.testing.assert_array_equal(plan.n_asked, plan.n_placed + plan.drops.sum(axis=1))
    np.testing.assert_array_equal(plan.n_placed, np.diff(plan.event_offsets))


@pytest.mark.parametrize("share", ["0.25", "0.1", "0.123456", "0.7", "1", "0"])
def test_empty_share_is_exact(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, share: str) -> None:
    """Of any first n scenes n x share have no events asked, to less than one; all others ask for one or more."""
    n = 6400
    plan = planner(spec_of(f"empty_share={share}"), bank, backgrounds).plan(range(n))

    empty = np.cumsum(plan.n_asked == 0)
    assert np.abs(empty - np.arange(1, n + 1) * float(share)).max() < 1 + 1e-9  # of any shorter dataset too


def test_empty_scenes_are_no_pattern(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Which scenes are empty does not depend on the number's last digits (chi-square over scene mod 8)."""
    plan = planner(spec_of("empty_share=0.25"), bank, backgrounds).plan(range(6400))
    empty = np.flatnonzero(plan.n_asked == 0)

    assert scipy.stats.chisquare(np.bincount(empty % 8, minlength=8)).pvalue > 1e-4


def test_counts_are_poisson_given_one(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """A rate gives Poisson counts conditioned on at least one event (chi-square, n = 5 000)."""
    plan = planner(spec_of("events.rate=0.2", "duration=10", "empty_share=0"), bank, backgrounds).plan(range(5000))
    seen = np.bincount(np.minimum(plan.n_asked, 6), minlength=7)[1:]
    law = scipy.stats.poisson(2.0)
    expected = np.array([law.pmf(k) for k in range(1, 6)] + [law.sf(5)]) / law.sf(0) * 5000

    assert scipy.stats.chisquare(seen, expected).pvalue > 1e-4


def test_classes_follow_the_balance(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """With balance: count classes are drawn in proportion to their clips (chi-square, one class a scene)."""
    spec = spec_of("classes.by=call_type", "classes.balance=count", "classes.per_scene=1", "empty_share=0",
                   "events.rate=null", "events.count=1")  # fmt: skip
    made = planner(spec, bank, backgrounds)
    plan = made.plan(range(6000))
    weights = np.array([entry.n_clips for entry in made.classes], float)
    seen = np.bincount(plan.class_id, minlength=len(weights))

    assert scipy.stats.chisquare(seen, weights / weights.sum() * seen.sum()).pvalue > 1e-4


def test_classes_of_a_scene_are_different(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """per_scene: 3 with many events shows exactly three classes, and over scenes every class."""
    spec = spec_of("classes.per_scene=3", "events.rate=null", "events.count=40", "empty_share=0", "duration=60")
    plan = planner(spec, bank, backgrounds).plan(range(60))
    per_scene = [len(set(plan.class_id[plan.events_of(i)].tolist())) for i in range(60)]

    assert max(per_scene) == 3
    assert np.mean(per_scene) > 2.9
    assert set(plan.class_id.tolist()) == set(range(5))


def test_never_the_backgrounds_own_site(tmp_path_factory: pytest.TempPathFactory, spec_of: SpecOf) -> None:
    """A clip never lies over a background of its own recording or site; what could not be placed is counted."""
    from tests.scenes import make_backgrounds, make_bank

    folder = tmp_path_factory.mktemp("sites")
    bank = make_bank(folder / "bank")
    backgrounds = make_backgrounds(folder / "backgrounds")
    # Half of the bank's sites are renamed to those of the backgrounds, in the columns the planner reads.
    table = bank.clips
    sites = {site: f"field{i % 5}" for i, site in enumerate(sorted(table["site"].unique())) if i % 2}
    renamed = _renamed(bank, folder / "renamed", sites)
    spec = spec_of("events.rate=null", "events.count=6", f"bank={renamed.path}", f"backgrounds={backgrounds.path}")
    plan = Planner(spec, renamed, backgrounds).plan(range(500))

    site = renamed.clips["site"].to_numpy()
    field = backgrounds.clips["site"].to_numpy()
    for i in range(len(plan)):
        behind = {field[row] for row in plan.background[i] if row >= 0}
        assert not behind & set(site[plan.clip[plan.events_of(i)]])
    assert plan.n_redrawn.sum() > 0


def _renamed(bank: ClipStore, path: object, sites: dict[str, str]) -> ClipStore:
    """A copy of a store with other sites."""
    from pathlib import Path

    from synthscape.bank.writer import StoreWriter

    with StoreWriter(Path(str(path)), "pseudovox", bank.sample_rate) as writer:
        for row, clip in enumerate(bank.clips.to_dict("records")):
            keep = {
                name: value
                for name, value in clip.items()
                if name not in ("clip_id", "start", "length", "peak") and not _is_null(value)
            }
            keep["site"] = sites.get(keep["site"], keep["site"])
            writer.add(bank.audio(row), keep)
    return ClipStore.open(Path(str(path)))


def _is_null(value: object) -> bool:
    return value is None or value != value


def test_ratios_are_feasible(busy: Planner, bank: ClipStore) -> None:
    """No clip is played at a ratio under its smallest feasible one, and refused draws are counted."""
    from synthscape_kernels.ratios import GRID

    plan = busy.plan(range(500))
    least = bank.clips["min_ratio_index"].to_numpy()
    for e in range(plan.n_events):
        r = plan.ratio_p[plan.ratio[e]] / plan.ratio_q[plan.ratio[e]]
        assert r == 1 or r >= float(GRID[least[plan.clip[e]]])
    assert plan.n_ratios_refused.sum() > 0
    assert not plan.altered.any()


def test_flagged_ratios_are_played_and_said(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """resample_infeasible: flag plays any ratio and marks the events that lose part of the call."""
    spec = spec_of("events.resample={choice: [0.3, 1]}", "events.resample_infeasible=flag", "events.rate=1")
    plan = planner(spec, bank, backgrounds).plan(range(300))
    r = plan.ratio_p[plan.ratio] / plan.ratio_q[plan.ratio]

    assert set(np.round(np.unique(r), 6)) == {0.3, 1.0}
    assert plan.altered[r < 1].any()
    assert not plan.altered[r == 1].any()


def test_tracks_keep_their_spacing(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Calls of a placed track share a gain group and ratio; their spacing is the track's times P/Q, to the sample."""
    spec = spec_of("events.group=track", "events.resample={choice: [0.9, 1, 1.1]}", "events.edges=truncate",
                   "events.rate=0.3", "duration=6")  # fmt: skip
    plan = planner(spec, bank, backgrounds).plan(range(300))
    table = bank.clips
    seen = 0
    for i in range(len(plan)):
        e = plan.events_of(i)
        for group in np.unique(plan.gain_group[e]):
            members = e.start + np.flatnonzero(plan.gain_group[e] == group)
            assert len({int(plan.ratio[m]) for m in members}) == 1
            assert len({table["track_id"].iloc[plan.clip[m]] for m in members}) == 1
            assert len({int(plan.snr_db[m]) for m in members}) == 1
            p, q = int(plan.ratio_p[plan.ratio[members[0]]]), int(plan.ratio_q[plan.ratio[members[0]]])
            delta = [round(table["track_onset_s"].iloc[plan.clip[m]] * 16000) for m in members]
            starts = {int(plan.clip_onset[m]) - (2 * d * p + q) // (2 * q) for m, d in zip(members, delta, strict=True)}
            assert len(starts) == 1
            seen += len(members) > 1
    assert seen > 100


def test_one_track_per_recording(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Two tracks of one scene never come from the same recording."""
    spec = spec_of("events.group=track", "events.rate=1", "duration=10", "classes.per_scene=1",
                   "events.overlap={same_class: allow, max_polyphony: null}")  # fmt: skip
    plan = planner(spec, bank, backgrounds).plan(range(200))
    recording = bank.clips["recording_id"].to_numpy()
    for i in range(len(plan)):
        e = plan.events_of(i)
        pairs = {(int(g), recording[c]) for g, c in zip(plan.gain_group[e], plan.clip[e], strict=True)}
        assert len({r for _, r in pairs}) == len(pairs)
    assert plan.drops[:, DROP_REASONS.index("recording_used")].sum() > 0


def test_gap_process(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """With constant gaps, clips of a class follow each other by exactly the gap."""
    spec = spec_of("events.rate=null", "events.process=gaps", "events.gap_s=0.25", "classes.per_scene=1",
                   "empty_share=0", "duration=6")  # fmt: skip
    plan = planner(spec, bank, backgrounds).plan(range(100))
    for i in range(len(plan)):
        e = plan.events_of(i)
        assert plan.clip_onset[e][0] == 4000
        np.testing.assert_array_equal(plan.clip_onset[e][1:] - plan.clip_offset[e][:-1], 4000)
        assert plan.n_samples[i] - plan.clip_offset[e][-1] < 4000 + 16000  # it goes on to the end


def test_zero_gaps_are_bounded(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """Gaps of nothing end at max_per_scene, and the next one is counted as over the limit."""
    spec = spec_of("events.rate=null", "events.process=gaps", "events.gap_s=0", "classes.per_scene=1",
                   "empty_share=0", "duration=30", "events.max_per_scene=5")  # fmt: skip
    plan = planner(spec, bank, backgrounds).plan(range(20))

    assert (np.diff(plan.event_offsets) == 5).all()
    assert (plan.drops[:, DROP_REASONS.index("over_limit")] == 1).all()


def test_two_backgrounds_are_different(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """A mixed scene has two different backgrounds, every pair about as often as any other."""
    plan = planner(spec_of("background.mix={probability: 1, ratio_db: 0}"), bank, backgrounds).plan(range(2000))
    pairs = plan.background[:, 0] * 5 + plan.background[:, 1]

    assert (plan.background[:, 0] != plan.background[:, 1]).all()
    assert scipy.stats.chisquare(np.unique(pairs, return_counts=True)[1]).pvalue > 1e-4
    assert len(np.unique(pairs)) == 20


def test_crops_stay_inside_the_background(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """A long background is cropped within itself, at offsets uniform over the room there is."""
    plan = planner(spec_of("duration=10", "background.mix.probability=0"), bank, backgrounds).plan(range(3000))
    length = backgrounds.lengths[plan.background[:, 0]]
    long = length >= plan.n_samples
    room = (length - plan.n_samples)[long]
    offset = plan.background_offset[long, 0]

    assert (offset <= room).all()
    assert scipy.stats.kstest((offset + 0.5) / (room + 1), "uniform").pvalue > 1e-4


def test_levels_and_snrs_have_their_distributions(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> None:
    """SNR and level are drawn from what the spec says, quantised to 1/256 dB (Kolmogorov-Smirnov)."""
    spec = spec_of("events.snr.db={normal: [2, 4]}", "background.level_dbfs={uniform: [-45, -35]}", "events.rate=1")
    plan = planner(spec, bank, backgrounds).plan(range(2000))

    assert scipy.stats.kstest(plan.snr_db / 256, scipy.stats.norm(2, 4).cdf).pvalue > 1e-4
    assert scipy.stats.kstest(plan.level_dbfs / 256, scipy.stats.uniform(-45, 10).cdf).pvalue > 1e-4


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 30),
    duration=st.floats(0.5, 20),
    edges=st.sampled_from(["inside", "truncate"]),
    reverse=st.floats(0, 1),
    polyphony=st.sampled_from(["null", "1", "3"]),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_plan_keeps_the_rules(
    spec_of: SpecOf,
    bank: ClipStore,
    backgrounds: ClipStore,
    count: int,
    duration: float,
    edges: str,
    reverse: float,
    polyphony: str,
    seed: int,
) -> None:
    """Whatever the spec, events lie in their scene, counts add up, and fades fit the clip."""
    spec = spec_of(
        "events.rate=null", f"events.count={count}", f"duration={duration:.4f}", f"events.edges={edges}",
        f"events.reverse={reverse:.4f}", f"events.overlap.max_polyphony={polyphony}", f"seed={seed}",
    )  # fmt: skip
    plan = Planner(spec, bank, backgrounds).plan(range(20))

    np.testing.assert_array_equal(plan.n_asked, plan.n_placed + plan.drops.sum(axis=1))
    assert (plan.offset > plan.onset).all()
    assert (plan.onset >= plan.clip_onset).all()
    assert (plan.offset <= plan.clip_offset).all()
    assert (plan.fade_in + plan.fade_out <= plan.clip_offset - plan.clip_onset).all()
    assert (plan.n_samples == int(float(f"{duration:.4f}") * 16000 + 0.5)).all()


def test_reasons_are_in_step_with_the_kernel() -> None:
    """Each reason of the plan is the number of that name in the kernel, so no drop is booked under another's name."""
    from synthscape_kernels import place

    assert [int(getattr(place, reason.upper())) for reason in DROP_REASONS] == list(range(len(DROP_REASONS)))
