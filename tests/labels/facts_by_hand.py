"""Facts of one scene, computed from the rows of its events one question at a time: what the facts table must say."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

SEMITONE = 2.0 ** (1 / 12)
THIRDS = ("start", "middle", "end")
Row = dict[str, Any]


def facts_by_hand(scene: Row, events: list[Row]) -> Row:
    """A row of the facts table, from a row of scenes and the rows of its events."""
    n, rate = scene["n_samples"], scene["sample_rate"]
    near = rate * 50 // 1000
    heard = [e for e in events if e["audible"]]
    sure = [e for e in heard if not e["truncated"]]
    named = [e for e in sure if e["species"] is not None and not e["altered"]]
    species = sorted({e["species"] for e in heard if e["species"] is not None})
    everyone = {e["species"] for e in events}

    def third(event: Row) -> str:
        return THIRDS[int(Fraction(event["onset"] + event["offset"], 2) * 3 / n)]

    def touched(event: Row) -> set[str]:
        return {THIRDS[k] for k in range(3) if event["onset"] * 3 < (k + 1) * n and event["offset"] * 3 > k * n}

    def of(who: Any, rows: list[Row]) -> list[Row]:
        return [e for e in rows if e["species"] == who]

    def species_of(event: Row) -> str | None:
        return event["species"]

    def extreme(value, is_rival, what=species_of, whose=None, trusted=named, possible=None) -> tuple[Any, bool, Any]:
        """Answer, whether it is ambiguous, and the event: ``is_rival(value, best)`` says what could be taken for it."""
        whose, possible = whose or what, possible or value
        answer = event = None
        if heard and all(value(e) is not None for e in heard):
            best = max(value(e) for e in heard)
            at_best = [e for e in heard if value(e) == best]
            event = at_best[0]
            answer = what(event) if len({what(e) for e in at_best}) == 1 else None
        certain = [e for e in trusted if value(e) is not None]
        if not events:
            return None, False, None
        if not certain or any(value(e) is None for e in heard):
            return answer, True, event
        best = max(value(e) for e in certain)
        answers = {what(e) for e in certain if value(e) == best}
        for e in events:
            if possible(e) is None or is_rival(possible(e), best):
                answers.add(whose(e))
        return answer, len(answers) > 1 or None in answers, event

    facts: Row = {"scene_id": scene["scene_id"]}
    unsure: Row = {}
    facts["n_calls"], unsure["n_calls"] = len(heard), len(sure) < len(events)
    facts["species"], facts["n_species"] = species, len(species)
    who = everyone != {e["species"] for e in named}
    unsure["species"] = unsure["n_species"] = who
    facts["calls_per_species"] = [{"species": s, "n_calls": len(of(s, heard))} for s in species]
    unsure["calls_per_species"] = len(named) < len(events)

    most = max((len(of(s, heard)) for s in species), default=0)
    leaders = [s for s in species if len(of(s, heard)) == most]
    facts["most_frequent"] = leaders[0] if len(leaders) == 1 else None
    unsure["most_frequent"] = bool(events) and not any(
        all(len(of(s, named)) > len(of(t, events)) + len(of(None, events)) for t in everyone - {s, None} | {"nobody"})
        for s in everyone - {None}
    )

    begins = sorted((min(e["onset"] for e in of(s, heard)), s) for s in species)
    tied = len({onset for onset, _ in begins}) < len(begins)
    facts["order"] = None if tied else [s for _, s in begins]
    unsure["order"] = who or any(
        not (
            min(e["onset"] for e in of(s, named)) + near < min(e["onset"] for e in of(t, events))
            or min(e["onset"] for e in of(t, named)) + near < min(e["onset"] for e in of(s, events))
        )
        for s, t in combinations(sorted(everyone), 2)
    )

    def within(value: float, best: float) -> bool:
        return value >= best - near

    def clear_third(event: Row) -> str | None:
        return third(event) if len(touched(event)) == 1 else None

    inside = [e for e in sure if clear_third(e) is not None]
    in_third: Row = {"what": third, "whose": clear_third, "trusted": inside}
    facts["first"], unsure["first"], _ = extreme(lambda e: -e["onset"], within)
    facts["first_third"], unsure["first_third"], _ = extreme(lambda e: -e["onset"], within, **in_third)
    for name, more in (("last", {}), ("last_third", in_third)):
        begins_last, unclear, _ = extreme(lambda e: e["onset"], within, **more)
        ends_last, unclear_too, _ = extreme(lambda e: e["offset"], within, **more)
        facts[name], unsure[name] = begins_last, unclear or unclear_too or begins_last != ends_last

    facts["thirds"] = [
        {"species": s, "thirds": [t for t in THIRDS if t in {third(e) for e in of(s, heard)}]} for s in species
    ]
    certain = {(e["species"], third(e)) for e in named if len(touched(e)) == 1}
    unsure["thirds"] = None in everyone or certain != {(e["species"], t) for e in events for t in touched(e)}

    half, rest = near // 2, near - near // 2

    def tail(event: Row) -> int:
        return round(event["tail_s"] * rate)

    def spans(rows: list[Row], before: int, after: int, with_tail: bool = False) -> list[tuple[int, int, Row]]:
        made = [(e["onset"] - before, e["offset"] + after + (tail(e) if with_tail else 0), e) for e in rows]
        return [span for span in made if span[0] < span[1]]

    def at_once(one: list[tuple[int, int, Row]]) -> list[tuple[Row, Row]]:
        return [(a[2], b[2]) for a, b in combinations(one, 2) if a[0] < b[1] and b[0] < a[1]]

    def pairs(rows: list[tuple[Row, Row]]) -> set[Any]:
        named_pairs = {tuple(sorted((a["species"] or "", b["species"] or ""))) for a, b in rows}
        return {pair for pair in named_pairs if pair[0] != pair[1]}

    def most_at_once(one: list[tuple[int, int, Row]]) -> int:
        return max((sum(a[0] <= b[0] < a[1] for a in one) for b in one), default=0)

    exact, possible = spans(heard, 0, 0), spans(events, half, rest, with_tail=True)
    shrunk, shrunk_named = spans(sure, -half, -rest), spans(named, -half, -rest)
    facts["any_overlap"] = bool(at_once(exact))
    unsure["any_overlap"] = bool(at_once(shrunk)) != bool(at_once(possible))
    facts["overlapping"] = [
        {"species": a, "other": b} for a, b in sorted(pair for pair in pairs(at_once(exact)) if "" not in pair)
    ]
    could_be = at_once(possible)
    nameless = any(None in (a["species"], b["species"]) for a, b in could_be)
    unsure["overlapping"] = nameless or pairs(at_once(shrunk_named)) != pairs(could_be)
    facts["max_simultaneous"] = most_at_once(exact)
    unsure["max_simultaneous"] = max(most_at_once(shrunk), min(len(sure), 1)) != most_at_once(possible)

    def known(name: str) -> bool:
        return bool(heard) and all(e[name] is not None for e in heard)

    facts["pitch_measure"] = next((name for name in ("f0_hz", "peak_hz") if known(name)), None)
    measure = facts["pitch_measure"] or "peak_hz"
    for name, sign, rival in (
        ("highest", 1, lambda hz, best: hz >= best / SEMITONE),
        ("lowest", -1, lambda hz, best: hz >= best / SEMITONE**-1.0),
    ):

        def pitch(column: str, sign: int = sign) -> Any:
            return lambda e: None if e[column] is None else sign * e[column]

        facts[name], unsure[name], _ = extreme(pitch(measure), rival)
        if known("f0_hz") and known("peak_hz") and extreme(pitch("peak_hz"), rival)[0] != facts[name]:
            unsure[name] = True

    def could_last(event: Row) -> int:
        whole = event["clip_offset"] - event["clip_onset"]
        return whole if event["truncated"] else event["offset"] - event["onset"]

    facts["longest"], unsure["longest"], event = extreme(
        lambda e: e["offset"] - e["onset"], lambda length, best: 10 * length >= 9 * best, possible=could_last
    )
    facts["longest_s"] = None if event is None else (event["offset"] - event["onset"]) / rate
    longest_sure = max((e["offset"] - e["onset"] for e in sure), default=-1)
    unsure["longest_s"] = any(could_last(e) >= longest_sure for e in events if e not in sure)

    def in_db(value: float, best: float) -> bool:
        return value >= best - 1

    levels = ("snr_loudness_db", "snr_scene_db")
    facts["loudness_measure"] = next((name for name in levels if known(name)), None)
    measure = facts["loudness_measure"] or "snr_scene_db"
    facts["loudest"], unclear, _ = extreme(lambda e: e[measure], in_db)
    stands_out, unclear_too, _ = extreme(lambda e: e["snr_band_db"], in_db)
    unsure["loudest"] = unclear or unclear_too or stands_out != facts["loudest"]

    facts["frequency_ranges"], unsure["frequency_ranges"] = [], who and bool(events)
    for s in sorted(everyone - {None}):
        bands = [[(e["low_hz"], e["high_hz"]) for e in of(s, rows)] for rows in (heard, named, events)]
        low, high = (
            [
                None if any(band[k] is None for band in part) or not part else pick(band[k] for band in part)
                for part in bands
            ]
            for k, pick in ((0, min), (1, max))
        )
        if s in species:
            both = low[0] is not None and high[0] is not None
            facts["frequency_ranges"].append(
                {"species": s, "low_hz": low[0] if both else None, "high_hz": high[0] if both else None}
            )
        if None in (*low[1:], *high[1:]) or low[1] > low[2] * SEMITONE or high[1] * SEMITONE < high[2]:
            unsure["frequency_ranges"] = True

    if any(e["audible"] is None for e in events):
        facts |= {name: None for name in unsure if unsure[name]}
    return {**facts, "ambiguous": unsure}
