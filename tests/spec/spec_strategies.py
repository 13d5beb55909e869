"""Hypothesis strategies of valid specs, as the plain values a YAML file holds."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

MINIMAL = "bank: b\nbackgrounds: g\nevents:\n  count: 3\n"

NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12).filter(
    lambda name: "${" not in name and name not in ("???", "~") and not name.startswith("~/")
)


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers in a range, often whole ones."""
    whole = st.integers(int(-(-low // 1)), int(high // 1))
    return whole | st.floats(low, high, allow_nan=False)


@st.composite
def plain_draws(draw: st.DrawFn, low: float, high: float, per: tuple[str, ...], depth: int = 0) -> Any:
    """A distribution of which every draw lies in [low, high], whatever its parameters draw."""
    middle = (low + high) / 2
    below, above = numbers(low, middle), numbers(middle, high)
    if depth < 1:
        below = below | plain_draws(low, middle, ("scene",), depth + 1)
        above = above | plain_draws(middle, high, ("scene",), depth + 1)
    kind = draw(st.sampled_from(["constant", "uniform", "normal", "truncnorm", "triangular", "choice", "mixture"]))
    extras: dict[str, Any] = {}
    if kind == "constant":
        return draw(numbers(low, high))
    if kind == "uniform":
        content: Any = [draw(below), draw(above)]
    elif kind == "normal":
        content = [draw(below), draw(numbers(0, high - low))]
        extras["clip"] = [low, high]
    elif kind == "truncnorm":
        content = [middle, draw(numbers(1e-3, 10)), draw(below), draw(above)]
    elif kind == "triangular":
        content = [draw(below), middle, draw(above)]
    else:
        member = numbers(low, high) if kind == "choice" else plain_draws(low, high, (), depth)
        content = draw(st.lists(member, min_size=1, max_size=3))
        if draw(st.booleans()):
            extras["weights"] = draw(
                st.lists(st.integers(1, 5) | st.sampled_from([0.1, 0.25]), min_size=len(content), max_size=len(content))
            )
    if per and draw(st.booleans()):
        extras["per"] = draw(st.sampled_from(per))
    return {kind: content, **extras}


EVENT = ("event", "scene", "class")
COUNTS = st.one_of(
    st.integers(1, 50),
    st.builds(lambda mean: {"poisson": mean}, st.floats(0.1, 20)),
    st.builds(
        lambda low, more: {"uniform_int": [low, low + more], "per": "class"}, st.integers(0, 9), st.integers(1, 9)
    ),
)
EVENTS = st.one_of(
    st.fixed_dictionaries({"count": COUNTS}),
    st.fixed_dictionaries({"rate": plain_draws(0.125, 4, ("scene", "class"))}),
    st.fixed_dictionaries({"process": st.just("gaps"), "gap_s": plain_draws(-4, 2, EVENT)}),
    st.fixed_dictionaries(
        {
            "process": st.just("bout"),
            "count": st.integers(1, 9),
            "bout": st.fixed_dictionaries({}, optional={"calls": st.just(4), "interval_s": plain_draws(0, 3, EVENT)}),
        }
    ),
    st.fixed_dictionaries(
        {
            "process": st.just("antiphony"),
            "antiphony": st.fixed_dictionaries(
                {}, optional={"exchanges": st.none() | st.integers(1, 9), "latency_s": plain_draws(0, 3, EVENT)}
            ),
        }
    ),
)
EVENT_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "snr": st.fixed_dictionaries(
            {},
            optional={
                "reference": st.sampled_from(["band", "local", "scene", "loudness"]),
                "db": plain_draws(-20, 20, EVENT),
            },
        ),
        "reverse": st.floats(0, 1) | st.builds(lambda p: {"bernoulli": p, "per": "class"}, st.floats(0, 1)),
        "resample": st.sampled_from([1, {"choice": [0.9, 1, 1.1]}, {"loguniform": [0.5, 2], "per": "class"}]),
        "fade_s": st.floats(0, 1),
        "fade_shape": st.sampled_from(["raised_cosine", "linear"]),
        "propagation": st.fixed_dictionaries(
            {},
            optional={
                "distance_m": plain_draws(1, 1000, EVENT),
                "tail": st.fixed_dictionaries(
                    {"rt60_s": plain_draws(0.1, 5, EVENT)},
                    optional={"direct_to_reverberant_db": plain_draws(-10, 30, EVENT)},
                ),
                "air": st.fixed_dictionaries({}, optional={"temperature_c": st.floats(-20, 50)}),
            },
        )
        | st.fixed_dictionaries({"impulses": NAMES}, optional={"probability": st.floats(0, 1)}),
        "overlap": st.just({"max_polyphony": None}),
        "edges": st.sampled_from(["inside", "truncate"]),
    },
)
SPECS = st.fixed_dictionaries(
    {
        "bank": NAMES,
        "backgrounds": NAMES,
        "events": st.builds(lambda given, more: {**given, **more}, EVENTS, EVENT_OPTIONS),
    },
    optional={
        "seed": st.integers(0, 2**64 - 1),
        "items": st.integers(1, 2**40),
        "duration": plain_draws(3, 60, ("scene",)),
        "classes": st.fixed_dictionaries(
            {}, optional={"include": st.lists(NAMES, min_size=1, max_size=3, unique=True)}
        ),
        "empty_share": st.sampled_from([0, 0.1, 0.333333, 1]),
        "background": st.fixed_dictionaries(
            {},
            optional={"level_dbfs": st.none() | plain_draws(-60, 0, ("scene",)), "mix": st.just({"probability": 0.5})},
        )
        | st.fixed_dictionaries(
            {
                "level_dbfs": st.none(),
                "level_lufs": plain_draws(-60, 0, ("scene",)),
                "noise": st.fixed_dictionaries(
                    {"probability": st.floats(0, 1)}, optional={"slope_db_per_octave": plain_draws(-6, 3, ("scene",))}
                ),
            }
        ),
        "licences": st.fixed_dictionaries({}, optional={"deny": st.lists(NAMES, max_size=3, unique=True)}),
        "output": st.fixed_dictionaries({}, optional={"dir": NAMES, "stems": st.booleans()}),
    },
)
