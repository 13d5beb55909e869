"""Written specs load back, and the fingerprint follows what is asked for only."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from spec_strategies import SPECS

from synthscape.spec import Spec, load_spec


def _load(content: str, *overrides: str) -> Spec:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.yaml"
        path.write_text(content, encoding="utf-8")
        return load_spec(path, overrides)


def _shuffled(tree: Any, order: random.Random) -> Any:
    """The same mapping with its keys in another order; lists keep theirs."""
    if isinstance(tree, list):
        return [_shuffled(item, order) for item in tree]
    if not isinstance(tree, dict):
        return tree
    names = order.sample(list(tree), len(tree))
    return {name: _shuffled(tree[name], order) for name in names}


def _as_floats(tree: Any) -> Any:
    """The same with 10.0 for 10."""
    if isinstance(tree, list):
        return [_as_floats(item) for item in tree]
    if isinstance(tree, dict):
        return {name: _as_floats(item) for name, item in tree.items()}
    return float(tree) if isinstance(tree, int) and not isinstance(tree, bool) and abs(tree) < 2**53 else tree


@settings(max_examples=60)
@given(SPECS, st.randoms(use_true_random=False))
def test_specs_round_trip_and_fingerprints_hold(content: dict[str, Any], order: random.Random) -> None:
    """A spec written out loads as an equal one; order, comments, floats and what is outside leave the fingerprint."""
    text = json.dumps(content, ensure_ascii=False)
    spec = _load(text)
    shuffled = json.dumps(_as_floats(_shuffled(content, order)), ensure_ascii=False)
    elsewhere = _load(text, "bank=other", "backgrounds=other", "items=3", "output={dir: other, stems: false}")

    assert _load(spec.to_yaml()) == spec
    assert _load("# a comment\n" + shuffled) == spec
    assert _load(shuffled).fingerprint_content() == spec.fingerprint_content()
    assert json.dumps(elsewhere.fingerprint_content()) == json.dumps(spec.fingerprint_content())


def test_what_is_asked_for_changes_the_fingerprint() -> None:
    """Every key but the stores' paths, items and output is part of the fingerprint."""
    base = load_spec("strong_detection")
    changes = [
        "seed=8",
        "sample_rate=22050",
        "duration=9",
        "classes.by=call_type",
        "classes.balance=count",
        "classes.per_scene=2",
        "classes.include=[a]",
        "classes.min_clips=2",
        "events={rate: null, count: 5}",
        "events.rate=0.1",
        "events.rate.per=scene",
        "events.group=track",
        "events.max_per_scene=10",
        "events.snr.reference=scene",
        "events.snr.db=5",
        "events.snr.subtract_noise=false",
        "events.snr.audible_db=1",
        "events.snr.reference=loudness",
        "events={snr: {reference: local, measure_band: false}}",
        "events={level: {mode: source, source_level_db: 80}, propagation: {distance_m: 9}}",
        "events.propagation.distance_m=9",
        "events.propagation={distance_m: 9, probability: 0.5}",
        "events.propagation.tail.rt60_s=1",
        "events.propagation.tail.direct_to_reverberant_db=3",
        "events.propagation.air.temperature_c=5",
        "events.propagation.water.depth_m=50",
        "events.fade_shape=linear",
        "events.resample=1",
        "events.resample.per=class",
        "events.resample_infeasible=flag",
        "events.reverse=0.1",
        "events.reverse={bernoulli: 0, per: class}",
        "events.fade_s=0",
        "events.overlap.same_class=allow",
        "events.overlap.max_polyphony=null",
        "events.overlap.min_gap_s=1",
        "events.edges=truncate",
        "empty_share=0",
        "background.mix.probability=0",
        "background.mix.ratio_db=1",
        "background.level_dbfs=null",
        "background={level_dbfs: null, level_lufs: -40}",
        "background.noise.probability=0.5",
        "background.noise.slope_db_per_octave=0",
        "background.resample=2",
        "background.crossfade_s=0",
        "background.max_animal_score=0.5",
        "licences.allow=[CC0]",
        "licences.deny=[]",
        "licences.unknown=deny",
    ]
    more = {change: ["background.spl_db=40"] for change in changes if "mode: source" in change}
    contents = [
        json.dumps(load_spec("strong_detection", [change, *more.get(change, [])]).fingerprint_content())
        for change in changes
    ]
    same = [
        "bank=x",
        "backgrounds=x",
        "events.propagation.impulses=x",
        "items=5",
        "output.dir=x",
        "output.stems=true",
        "output.raven=true",
    ]

    assert len({*contents, json.dumps(base.fingerprint_content())}) == len(changes) + 1
    for change in same:
        assert load_spec("strong_detection", [change]).fingerprint_content() == base.fingerprint_content()


def test_negative_zero_is_zero() -> None:
    """-0.0 and 0 are one number in a fingerprint."""
    plus, minus = (
        load_spec("strong_detection", [f"background.mix.ratio_db={zero}", f"events.snr.audible_db={zero}"])
        for zero in ("0", "-0.0")
    )

    assert json.dumps(plus.fingerprint_content()) == json.dumps(minus.fingerprint_content())
    assert plus.to_yaml() == minus.to_yaml()
