"""Loading specs: places of errors, overrides, references, checks across keys."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from spec_strategies import MINIMAL

from synthscape.errors import SpecError
from synthscape.spec import Distribution, Spec, load_spec, shipped_specs

Load = Callable[..., Spec]
Refusal = Callable[..., str]


def test_a_minimal_spec_is_complete(load: Load) -> None:
    """What a spec does not say has its default, parsed."""
    spec = load(MINIMAL)

    assert (spec.items, spec.sample_rate, spec.task) == (1000, 16000, "strong_detection")
    assert spec.duration == Distribution("constant", (10.0,), per="scene")
    assert spec.events.count == Distribution("constant", (3.0,), per="scene")
    assert spec.events.snr.db.bounds() == (-20.0, 15.0)
    assert spec.events.reverse == Distribution("bernoulli", (0.0,), per="event")
    assert spec.background.level_dbfs is not None
    assert spec.background.level_dbfs.bounds() == (-50.0, -30.0)


def test_specs_can_be_pickled(load: Load) -> None:
    """A spec travels to worker processes."""
    spec = load(MINIMAL)

    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("itms: 5\n", "my.yaml:1: itms: expected a key of the spec"),
        ("classes:\n  bye: species\n", "my.yaml:2: classes.bye: expected a key of classes"),
        ("events:\n  cuont: 5\n", "my.yaml:2: events.cuont: expected a key of events"),
        ("events:\n  snr:\n\n    bd: 5\n", "my.yaml:4: events.snr.bd: expected a key of events.snr"),
        ("events:\n  overlap: {min_gap: 0}\n", "my.yaml:2: events.overlap.min_gap: expected a key of events.overlap"),
        ("background:\n  mix:\n    prob: 0\n", "my.yaml:3: background.mix.prob: expected a key of background.mix"),
        ("background:\n  level: 0\n", "my.yaml:2: background.level: expected a key of background"),
        ("licences:\n  alow: []\n", "my.yaml:2: licences.alow: expected a key of licences"),
        ("output:\n  fromat: x\n", "my.yaml:2: output.fromat: expected a key of output"),
    ],
)
def test_unknown_keys_are_named_with_their_line(refusal: Refusal, text: str, place: str) -> None:
    """At every level the message has the line, the key, the keys that exist, and the nearest of them."""
    message = refusal(text)

    assert message.startswith(place)
    assert "did you mean" in message


def test_a_key_of_another_section_is_found(refusal: Refusal) -> None:
    """A key at the wrong level is answered with where it belongs."""
    assert "did you mean events.resample_infeasible?" in refusal("resample_infeasible: flag\n")
    assert "did you mean events.snr.audible_db?" in refusal(MINIMAL + "audible_db: 3\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("items: 0", "my.yaml:5: items: expected a whole number from 1 to 1099511627776, got 0"),
        ("items: 1.5", "my.yaml:5: items: expected a whole number from 1 to 1099511627776, got 1.5"),
        (
            "items: '10'",
            "my.yaml:5: items: expected a whole number from 1 to 1099511627776, got '10'; write 10, without",
        ),
        ("items: true", "my.yaml:5: items: expected a whole number from 1 to 1099511627776, got true"),
        ("items: .inf", "my.yaml:5: items: expected a whole number from 1 to 1099511627776, got inf"),
        ("items:", "my.yaml:5: items: expected a whole number from 1 to 1099511627776, got null"),
        ("items: {uniform_int: [1, 2]}", "my.yaml:5: items: expected a whole number from 1"),
        ("seed: -1", "my.yaml:5: seed: expected a whole number from 0 to 18446744073709551615, got -1"),
        ("seed: 18446744073709551616", "my.yaml:5: seed: expected a whole number from 0 to"),
        ("sample_rate: 999", "my.yaml:5: sample_rate: expected a whole number from 1000 to 1000000, got 999"),
        ("task: detection", "or counting, got 'detection'; did you mean"),
        ("duration: 0", "my.yaml:5: duration: expected numbers over 0 to 1000000, got 0"),
        (
            "duration: {normal: [10, 4]}",
            "my.yaml:5: duration: expected numbers over 0 to 1000000, got {normal: [10, 4]}",
        ),
        ("duration: {poisson: 10}", "which draws from 0 to inf; keep it in that range, for example with clip"),
        ("duration: {uniform: [2, 1]}", "my.yaml:5: duration.uniform: expected low <= high, got [2, 1]"),
        ("duration: {uniform: [1, 2], per: event}", "my.yaml:5: duration.per: expected scene, got 'event'"),
        ("duration: 1e-6", "my.yaml:5: duration: expected a scene of 1 sample or more"),
        ("duration: 200000", "my.yaml:5: duration: expected a scene of less than 2**31 samples, got 200000 s at 16000"),
        ("empty_share: 1.1", "my.yaml:5: empty_share: expected a number from 0 to 1, got 1.1"),
        ("empty_share: 0.1234567", "my.yaml:5: empty_share: expected at most 6 decimals, got 0.1234567"),
        ("empty_share: {uniform: [0, 1]}", "got {uniform: [0, 1]}; this key is one number, not drawn"),
        ("empty_share: .nan", "my.yaml:5: empty_share: expected a number from 0 to 1, got nan"),
        ("classes: {by: genus}", "my.yaml:5: classes.by: expected species, call_type, cluster or type, got 'genus'"),
        ("classes: {balance: no}", "my.yaml:5: classes.balance: expected uniform, sqrt or count, got 'no'"),
        ("classes: {per_scene: 0}", "my.yaml:5: classes.per_scene: expected whole numbers from 1 to 4096, got 0"),
        ("classes: {per_scene: 1.5}", "my.yaml:5: classes.per_scene: expected whole numbers from 1 to 4096, got 1.5"),
        ("classes: {include: []}", "my.yaml:5: classes.include: expected a list of one name or more, got []"),
        ("classes: {include: [a, b, a]}", "my.yaml:5: classes.include[2]: expected each name once, got 'a'"),
        ("classes: {include: [a, 3]}", "my.yaml:5: classes.include[1]: expected a name, got 3"),
        ("classes: {include: a}", "my.yaml:5: classes.include: expected a list of one name or more, got 'a'"),
        ("classes: {column: cluster_8}", "my.yaml:5: classes.column: expected null unless classes.by is cluster"),
        ("classes: {by: cluster, column: x}", "my.yaml:5: classes.column: expected cluster or cluster_*, got 'x'"),
        ("classes: 5", "my.yaml:5: classes: expected keys, indented under it, got 5"),
        ("output:", "my.yaml:5: output: expected keys, indented under it, got null"),
        ("output: {stems: off}", "my.yaml:5: output.stems: expected true or false, got 'off'; write true or false"),
        ("output: {dir: ''}", "my.yaml:5: output.dir: expected a folder, got ''"),
        ("output: {dir: 2024}", "my.yaml:5: output.dir: expected a folder, got 2024; write it in quotes"),
        ('output: {dir: "a\\nb"}', "my.yaml:5: output.dir: expected a folder, got 'a\\nb'"),
        ("output: {format: zarr}", "my.yaml:5: output.format: expected parquet, webdataset or folder, got 'zarr'"),
        ("output: {items_per_shard: 0}", "my.yaml:5: output.items_per_shard: expected a whole number from 1"),
        ("background: {level_dbfs: -61}", "my.yaml:5: background.level_dbfs: expected numbers from -60 to 0, got -61"),
        ("background: {level_dbfs: -61}", "16-bit audio keeps too little of a background under -60 dBFS; keep it in"),
        ("background: {level_dbfs: 1}", "my.yaml:5: background.level_dbfs: expected numbers from -60 to 0, got 1"),
        ("background: {resample: 5}", "my.yaml:5: background.resample: expected numbers from 0.25 to 4, got 5"),
        ("background: {crossfade_s: -1}", "my.yaml:5: background.crossfade_s: expected a number from 0 to 60, got -1"),
        ("background: {mix: {probability: 2}}", "my.yaml:5: background.mix.probability: expected a number from 0 to 1"),
        ("community: {month: 3}", "my.yaml:5: community.month: expected community.table beside it, got 3; add table"),
        (
            "community: {table: t.csv, month: 13}",
            "my.yaml:5: community.month: expected whole numbers from 1 to 12, got",
        ),
        ("community: {table: t.csv, hour: {uniform: [0, 5]}}", "community.hour: expected whole numbers from 0 to 23,"),
        ("licences: {unknown: maybe}", "my.yaml:5: licences.unknown: expected allow or deny, got 'maybe'"),
        (
            "licences: {allow: [CC0, CC-BY], deny: [CC0]}",
            "my.yaml:5: licences.deny: expected no licence that allow lists",
        ),
    ],
)
def test_wrong_values_are_named_with_line_key_and_range(refusal: Refusal, line: str, message: str) -> None:
    """File, line, key, what was expected and what was got stand in one line."""
    assert message in refusal(MINIMAL + line + "\n")


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ("{}", "my.yaml:3: events: expected exactly one of events.count, events.rate, events.process, got none"),
        (
            "{count: 1, rate: 1}",
            "my.yaml:3: events.rate: expected exactly one of events.count, events.rate, events.proc",
        ),
        ("{process: gaps}", "my.yaml:3: events.process: expected events.gap_s beside process: gaps, got none"),
        ("{count: 1, gap_s: 2}", "my.yaml:3: events.gap_s: expected gap_s only with process: gaps, got 2"),
        ("{process: duet}", "my.yaml:3: events.process: expected gaps, bout, chorus or antiphony, got 'duet'"),
        (
            "{process: bout}",
            "my.yaml:3: events.process: expected the number of bouts as exactly one of events.count, e",
        ),
        (
            "{process: bout, count: 1, rate: 1}",
            "my.yaml:3: events.process: expected the number of bouts as exactly one",
        ),
        (
            "{process: bout, count: 60}",
            "my.yaml:3: events.count: expected at most events.max_per_scene, 256, got up to",
        ),
        ("{process: chorus, count: 1}", "my.yaml:3: events.process: expected exactly one of events.count, events.rate"),
        (
            "{process: chorus}",
            "my.yaml:3: events.overlap.same_class: expected allow with events.process: chorus, whose",
        ),
        ("{count: 1, chorus: {duty: 0.3}}", "my.yaml:3: events.chorus: expected events.process: chorus beside it, got"),
        ("{process: antiphony, group: track}", "my.yaml:3: events.group: expected none with events.process: antiphony"),
        (
            "{process: antiphony, antiphony: {partner: other_class}}",
            "classes.per_scene: expected 2 classes or more in a",
        ),
        ("{process: antiphony, antiphony: {overlap_probability: 0.1}}", "expected allow where answers may overlap the"),
        (
            "{process: antiphony, antiphony: {exchanges: 200}}",
            "events.antiphony.exchanges: expected at most half of even",
        ),
        (
            "{process: bout, rate: 1, bout: {calls: 300}}",
            "events.bout.calls: expected at most events.max_per_scene, 25",
        ),
        ("{process: chorus, chorus: {duty: 0}}", "my.yaml:3: events.chorus.duty: expected numbers over 0 to 1, got 0"),
        (
            "{process: chorus, chorus: {synchrony: 2}}",
            "my.yaml:3: events.chorus.synchrony: expected numbers from 0 to 1",
        ),
        (
            "{process: antiphony, antiphony: {latency_s: -1}}",
            "my.yaml:3: events.antiphony.latency_s: expected numbers f",
        ),
        ("{count: 1.5}", "my.yaml:3: events.count: expected whole numbers from 0 on, got 1.5"),
        ("{count: {uniform: [1, 5]}}", "use uniform_int, poisson or a choice of whole numbers"),
        ("{count: -1}", "my.yaml:3: events.count: expected whole numbers from 0 on, got -1"),
        ("{count: {poisson: 2, per: event}}", "my.yaml:3: events.count.per: expected scene or class, got 'event'"),
        ("{count: 300}", "my.yaml:3: events.count: expected at most events.max_per_scene, 256, got up to 300; raise"),
        ("{count: 5000}", "got up to 5000; ask for at most 4096"),
        ("{count: 0}", "my.yaml:3: events.count: expected more than 0, since scenes outside empty_share have events"),
        ("{rate: 0}", "my.yaml:3: events.rate: expected more than 0"),
        ("{rate: -1}", "my.yaml:3: events.rate: expected numbers from 0 to 1000000, got -1"),
        ("{rate: 200000}", "my.yaml:3: events.rate: expected a rate x duration of at most 1000000, got up to 2000000"),
        ("{count: 1, max_per_scene: 5000}", "my.yaml:3: events.max_per_scene: expected a whole number from 1 to 4096"),
        ("{count: 1, fade_s: -0.1}", "my.yaml:3: events.fade_s: expected a number from 0 to 10, got -0.1"),
        ("{count: 1, overlap: {min_gap_s: -1}}", "my.yaml:3: events.overlap.min_gap_s: expected a number from 0"),
        ("{count: 1, resample: 0.2}", "my.yaml:3: events.resample: expected numbers from 0.25 to 4, got 0.2"),
        ("{count: 1, resample: {choice: [1, 5]}}", "which draws from 1 to 5; keep it in that range"),
        ("{count: 1, resample: 0.251}", "my.yaml:3: events.resample: expected ratios P/Q with Q <= 128, got 0.251"),
        ("{count: 1, reverse: 20}", "my.yaml:3: events.reverse: expected a probability between 0 and 1, got 20"),
        ("{count: 1, reverse: {choice: [0, 1]}}", "my.yaml:3: events.reverse: expected a bernoulli, or its number"),
        ("{count: 1, reverse: true}", "my.yaml:3: events.reverse: expected a number or a distribution"),
        ("{count: 1, group: track, reverse: 0.2}", "my.yaml:3: events.reverse: expected 0 with events.group: track"),
        ("{count: 1, snr: {db: {normal: [0, 20]}}}", "my.yaml:3: events.snr.db: expected numbers from -100 to 100"),
        ("{count: 1, snr: {reference: peak}}", "events.snr.reference: expected band, local, scene or loudness, got"),
        ("{count: 1, fade_shape: cosine}", "my.yaml:3: events.fade_shape: expected raised_cosine or linear, got"),
        ("{count: 1, propagation: {distance_m: 0}}", "propagation.distance_m: expected numbers from 0.1 to 1000000"),
        ("{count: 1, propagation: {tail: {rt60_s: 0}}}", "events.propagation.tail.rt60_s: expected numbers from 0.01"),
        ("{count: 1, propagation: {air: {humidity_percent: 0.7}}}", "humidity_percent: expected a number from 10 to"),
        ("{count: 1, propagation: {water: {ph: 9}}}", "propagation.water.ph: expected a number from 7.7 to 8.3, got 9"),
        ("{count: 1, propagation: {impulses: 5}}", "events.propagation.impulses: expected a folder, got 5"),
        (
            "{count: 1, propagation: {impulses: halls, tail: {rt60_s: 1}}}",
            "my.yaml:3: events.propagation.tail.rt60_s: expected null beside events.propagation.impulses, which "
            "reverberate themselves, got 1; remove one of the two",
        ),
        (
            "{count: 1, propagation: {probability: 0.5}}",
            "my.yaml:3: events.propagation.probability: expected distance_m, impulses or tail.rt60_s beside it, got",
        ),
        (
            "{count: 1, snr: {measure_band: false}}",
            "my.yaml:3: events.snr.measure_band: expected true with events.snr.reference: band, got false; set it to",
        ),
        (
            "{count: 1, level: {source_level_db: {uniform: [70, 90]}}}",
            "my.yaml:3: events.level.source_level_db: expected null with events.level.mode: snr, got "
            "{uniform: [70, 90]}; set events.level.mode: source, or remove it",
        ),
        (
            "{count: 1, snr: {db: {mixture: [{normal: [0, -1]}]}}}",
            "my.yaml:3: events.snr.db.mixture[0].normal: expected",
        ),
    ],
)
def test_events_that_contradict_or_do_not_fit_are_refused(refusal: Refusal, events: str, message: str) -> None:
    """Keys of ``events`` are checked by themselves and against each other."""
    assert message in refusal(f"bank: b\nbackgrounds: g\nevents: {events}\n")


SOURCE = {
    "events.level.mode": "source",
    "events.level.source_level_db": "{normal: [80, 3], per: class}",
    "events.propagation.distance_m": "{loguniform: [2, 200]}",
    "background.spl_db": "{uniform: [30, 50]}",
}


def source_overrides(**changed: str) -> list[str]:
    """Overrides for events with source levels; keywords replace the last part of a key's value."""
    return [f"{key}={changed.get(key.split('.')[-1], value)}" for key, value in SOURCE.items()]


def test_source_levels_need_distance_and_an_absolute_background(load: Load, refusal: Refusal) -> None:
    """With mode: source all three are given, every event is propagated, and no band is needed."""
    spec = load(MINIMAL, *source_overrides())
    assert spec.events.level.source_level_db is not None
    assert spec.events.level.source_level_db.per == "class"
    assert spec.background.spl_db is not None

    for key in ("source_level_db", "distance_m", "spl_db"):
        message = refusal(MINIMAL, *source_overrides(**{key: "null"}))
        assert f"{key}: expected it to be given with events.level.mode: source, got null; add {key}: " in message
    assert "events.propagation.probability: expected 1 with events.level.mode: source" in refusal(
        MINIMAL, *source_overrides(), "events.propagation.probability=0.5"
    )
    assert not load(MINIMAL, *source_overrides(), "events.snr.measure_band=false").events.snr.measure_band
    assert "background.spl_db: expected null with events.level.mode: snr, got 40" in refusal(
        MINIMAL, "background.spl_db=40"
    )


def test_one_level_of_the_background(load: Load, refusal: Refusal) -> None:
    """Decibels of full scale, LUFS, or neither."""
    spec = load(MINIMAL, "background.level_dbfs=null", "background.level_lufs=-40")
    assert spec.background.level_lufs == Distribution("constant", (-40.0,), per="scene")

    assert "background.level_lufs: expected level_dbfs: null beside it, got level_dbfs: {uniform: [-50, -30]}" in (
        refusal(MINIMAL, "background.level_lufs=-40")
    )
    assert "background.level_lufs: expected numbers from -60 to 0, got -61" in refusal(
        MINIMAL, "background.level_lufs=-61"
    )


def test_noise_in_place_of_backgrounds(load: Load, refusal: Refusal) -> None:
    """A store of backgrounds is needed unless all of them are noise, and noise needs a level."""
    assert load(MINIMAL, "backgrounds=null", "background.noise.probability=1").backgrounds is None
    assert load(MINIMAL, "background.noise.probability=0.5").background.noise.probability == 0.5

    assert "backgrounds: expected a folder, unless background.noise.probability is 1, got null with 0.5" in refusal(
        MINIMAL, "backgrounds=null", "background.noise.probability=0.5"
    )
    assert "override 'backgrounds=null': backgrounds: expected a folder, unless" in refusal(MINIMAL, "backgrounds=null")
    assert "background.noise.probability: expected 0 where backgrounds are as loud as recorded" in refusal(
        MINIMAL, "background={noise: {probability: 0.5}, level_dbfs: null}"
    )
    assert "background.noise.slope_db_per_octave: expected numbers from -12 to 12, got -20" in refusal(
        MINIMAL, "background.noise.slope_db_per_octave=-20"
    )


def test_lines_reach_into_distributions(refusal: Refusal) -> None:
    """A distribution over several lines is wrong on the line of its wrong number."""
    text = (
        MINIMAL + "  snr:\n    db:\n      mixture:\n        - 3\n        - normal:\n            - 0\n            - x\n"
    )

    assert refusal(text).startswith(
        "my.yaml:11: events.snr.db.mixture[1].normal[1]: expected a number for sigma, got 'x'"
    )


def test_what_is_required_is_asked_for(refusal: Refusal) -> None:
    """A spec without stores says which key is missing and how to give it."""
    message = refusal("backgrounds: g\nevents: {count: 1}\n")

    assert message == "my.yaml: bank: expected it to be given, got nothing; add 'bank: ...' or override bank=..."


def test_empty_scenes_only_need_no_events(load: Load) -> None:
    """With an empty share of 1, a count of 0 is no contradiction."""
    assert load(MINIMAL.replace("3", "0") + "empty_share: 1\n").empty_share == 1


# Overrides


def test_overrides_set_what_they_name(load: Load) -> None:
    """Numbers, text, distributions and sections are overridden, and the last one wins."""
    spec = load(
        MINIMAL + "output: {stems: true}\n",
        "items=100",
        "items=7",
        "events.snr.db=5",
        "events.resample={choice: [0.9,1.1]}",
        "output={dir: elsewhere}",
        "classes.include=[b, a]",
    )

    assert spec.items == 7
    assert spec.events.snr.db == Distribution("constant", (5.0,))
    assert spec.events.resample.constants() == (0.9, 1.1)
    assert (spec.output.dir, spec.output.stems) == ("elsewhere", True)
    assert spec.classes.include == ("a", "b")


@pytest.mark.parametrize("written", ["10", "{uniform: [5, 6]}", "{mixture: [1, {uniform: [5, 6]}], clip: [2, 6]}"])
@pytest.mark.parametrize("override", ["3", "{uniform: [1, 2]}", "{mixture: [{uniform: [1, 2]}, 4], weights: [1, 2]}"])
def test_an_override_replaces_a_distribution(load: Load, written: str, override: str) -> None:
    """Whatever stood there, in the file or by default, nothing of it is left."""
    alone = load(MINIMAL + f"duration: {override}\n")

    assert load(MINIMAL + f"duration: {written}\n", f"duration={override}") == alone
    assert load(MINIMAL, f"duration={written}", f"duration={override}") == alone


def test_a_section_override_replaces_distributions_too(load: Load) -> None:
    """Inside a section each key is replaced as a whole, and keys that are not named stay."""
    spec = load(MINIMAL + "  fade_s: 0.5\n  snr: {db: {normal: [0, 1]}}\n", "events={snr: {db: {uniform: [1, 2]}}}")

    assert spec.events.snr.db == Distribution("uniform", (1.0, 2.0))
    assert spec.events.fade_s == 0.5


def test_an_override_can_reach_into_a_distribution(load: Load) -> None:
    """One part of a distribution, here a default's clip, can be set by itself."""
    spec = load(MINIMAL, "events.snr.db.clip=[-5, 5]")

    assert spec.events.snr.db.clip == (-5.0, 5.0)
    assert spec.events.snr.db.kind == "mixture"


def test_text_overrides_stand_as_they_are(load: Load) -> None:
    """A path needs no quotes, whatever YAML would read in it."""
    spec = load(MINIMAL, "bank=2024", "backgrounds=C:\\data #1 [x", "output.dir='out: 3'", "classes.column=null")

    assert (spec.bank, spec.backgrounds, spec.output.dir) == ("2024", "C:\\data #1 [x", "out: 3")
    assert spec.classes.column is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("items", "override 'items': expected key=value, got 'items'"),
        ("=5", "override '=5': expected key=value"),
        ("events..count=5", "override 'events..count=5': expected key=value"),
        ("itms=5", "override 'itms=5': itms: expected a key of the spec"),
        ("events.snr.bd=5", "override 'events.snr.bd=5': events.snr.bd: expected a key of events.snr (reference, db"),
        ("events={cuont: 5}", "override 'events={cuont: 5}': events.cuont: expected a key of events"),
        ("events=5", "override 'events=5': events: expected keys, indented under it, got 5"),
        ("items=0", "override 'items=0': items: expected a whole number from 1 to 1099511627776, got 0"),
        ("items=", "override 'items=': items: expected a whole number from 1 to 1099511627776, got null"),
        ("items.x=3", "override 'items.x=3': items: expected a whole number from 1"),
        ("duration=[1", "override 'duration=[1': expected YAML, got something else"),
        ("duration={uniform: [1, 2], uniform: [1, 3]}", "duration.uniform: expected each key once"),
        ("duration=!!python/name:os.system x", "duration: expected a plain value, got the tag"),
        ("duration={uniform: [2, 1]}", "override 'duration={uniform: [2, 1]}': duration.uniform: expected low <= high"),
        (
            "events.snr.db.clip=[1]",
            "override 'events.snr.db.clip=[1]': events.snr.db.clip: expected [low, high], got [1]",
        ),
        ("events.count=null", "events: expected exactly one of events.count, events.rate, events.process, got none"),
        ("output.dir=${oc.env:HOME}", "override 'output.dir=${oc.env:HOME}': output.dir: expected a reference"),
    ],
)
def test_wrong_overrides_are_quoted(refusal: Refusal, override: str, message: str) -> None:
    """An override is named as it was typed, with the key it sets."""
    assert message in refusal(MINIMAL, override)


def test_an_error_beside_an_override_keeps_its_line(refusal: Refusal) -> None:
    """Only what an override sets is blamed on it."""
    assert refusal(MINIMAL + "duration: 0\n", "items=5").startswith("my.yaml:5: duration:")
    assert refusal(MINIMAL + "events2: 0\n", "items=5").startswith("my.yaml:5: events2:")
    assert refusal(MINIMAL, "events={rate: 1}").startswith("override 'events={rate: 1}': events.rate: expected exactly")


# References


def test_references_stand_for_numbers_and_text(load: Load) -> None:
    """A reference gives the other key's value, as a number if it is one; what is kept is resolved."""
    spec = load(
        MINIMAL + 'seed: 7\nitems: ${seed}\noutput: {dir: "out/${seed}/${bank}"}\nduration: {uniform: [1, "${seed}"]}\n'
    )

    assert spec.items == 7
    assert spec.output.dir == "out/7/b"
    assert spec.duration.bounds() == (1.0, 7.0)
    assert "${" not in spec.to_yaml()


@pytest.mark.parametrize(
    "line",
    [
        'output: {dir: "${oc.env:HOME}"}',
        'output: {dir: "${nothing}"}',
        'output: {dir: "${output.dir}"}',
        'output: {dir: "${duration}/x"}\nduration: {uniform: [1, 2]}',
        'output: {dir: "${bank"}',
        'output: {dir: "\\\\${bank}"}',
        'output: {dir: "${.audio}"}',
        'output: {dir: "${bank}${bank:x}"}',
        'output: {dir: "${${bank}}"}',
    ],
)
def test_other_references_are_refused(refusal: Refusal, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """A reference out of the spec, to nothing, to a reference or to a distribution is refused by its key."""
    monkeypatch.setenv("HOME", "/secret-home")

    message = refusal(MINIMAL + line + "\n")

    assert message.startswith("my.yaml:5: output.dir: expected ")
    assert "/secret-home" not in message


# Files and names


def test_shipped_specs_are_found_by_name() -> None:
    """A name without a separator or .yaml is one of ours; a wrong one is answered with the list and the nearest."""
    assert {"strong_detection", "roots_strong_detection"} <= set(shipped_specs())
    with pytest.raises(SpecError, match=r"roots_strong_detection, .*strong_detection.*did you mean strong_detection"):
        load_spec("strong_detecton")


def test_a_folder_does_not_hide_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset folder named like a spec is not taken for one."""
    monkeypatch.chdir(tmp_path)
    Path("strong_detection").mkdir()

    assert load_spec("strong_detection").task == "strong_detection"


def test_a_missing_file_or_folder_is_said(tmp_path: Path) -> None:
    """Paths that are no file are named."""
    with pytest.raises(SpecError, match=r"none\.yaml: expected a spec file, got nothing"):
        load_spec(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match="expected a spec file, got a folder"):
        load_spec(os.fspath(tmp_path))


def test_a_file_without_suffix_is_read(load: Load) -> None:
    """A file that exists is a spec whatever its name."""
    spec = load(MINIMAL)
    Path("recipe").write_text(MINIMAL)

    assert load_spec("recipe") == spec
    assert load_spec(Path("recipe")) == spec


@pytest.mark.parametrize("content", ["", "# nothing\n", "---\n", "5\n", "- a\n", "text\n"])
def test_a_file_that_is_no_mapping_is_refused(refusal: Refusal, content: str) -> None:
    """Empty files, lists and single values are no specs."""
    assert "expected keys such as 'items: 1000', got" in refusal(content)
