"""Stores, plans and batches written down by hand, for tests that must know the truth without the planner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.mix.batch import SceneBatch
from synthscape.plan.plan import (
    AS_RECORDED,
    DROP_REASONS,
    NO_BACKGROUND,
    NO_IMPULSE,
    NO_LEVEL,
    NO_ROOM,
    NO_SPEAKER,
    ScenePlan,
)

RATE = 8000
SPECIES = ("Corvus corax", "Parus major", "Turdus merula")


def tone_clip(number: int, hz: float, rate: int = RATE) -> np.ndarray:
    """0.3 s with a tone of 0.2 s in its middle, over a faint noise that tells clips apart."""
    rng = np.random.default_rng(number)
    n, active = int(0.3 * rate), int(0.2 * rate)
    clip = 1e-4 * rng.standard_normal(n)
    start = (n - active) // 2
    clip[start : start + active] += np.sin(2 * np.pi * hz * np.arange(active) / rate) * np.hanning(active) ** 0.25
    return clip


def clip_columns(species: str, number: int, hz: float, rate: int = RATE) -> dict[str, Any]:
    """What a store says of ``tone_clip``."""
    n, active = int(0.3 * rate), int(0.2 * rate)
    start = (n - active) // 2
    return {
        "recording_id": f"rec-{species}-{number}",
        "species": species,
        "genus": species.split(" ")[0],
        "family": "Passeridae",
        "call_type": "song" if number % 2 else "call",
        "individual": f"{species} {number % 3}",
        "licence": "CC0-1.0" if number % 2 else "CC-BY-4.0",
        "cluster": str(number % 2),
        "active_start": start,
        "active_end": start + active,
        "energy_q25": start + active // 4,
        "energy_q75": start + 3 * active // 4,
        "low_hz": hz - 100.0,
        "high_hz": hz + 100.0,
        "peak_hz": hz,
        "f0_hz": hz,
        "signal_share": 1.0,
        "min_ratio_index": 0,
    }


def make_bank(path: Path, species: tuple[str, ...] = SPECIES, clips: int = 4, rate: int = RATE) -> ClipStore:
    """A bank of tones, some clips of each species."""
    with StoreWriter(path, "pseudovox", rate) as writer:
        for s, name in enumerate(species):
            for i in range(clips):
                hz = 500.0 + 400.0 * s + 40.0 * i
                writer.add(tone_clip(100 * s + i, hz, rate), clip_columns(name, i, hz, rate))
    return ClipStore.open(path)


def make_backgrounds(path: Path, files: int = 4, seconds: float = 1.5, rate: int = RATE) -> ClipStore:
    """A few noises; the last has no licence."""
    with StoreWriter(path, "backgrounds", rate) as writer:
        for i in range(files):
            rng = np.random.default_rng(1000 + i)
            columns = {"recording_id": f"bg-{i}", "site": f"site-{i}", "animal_score": 0.1 * i}
            if i < files - 1:
                columns["licence"] = "CC0-1.0"
            writer.add(0.1 * rng.standard_normal(int(seconds * rate)), columns)
    return ClipStore.open(path)


_SCENE = {
    "scene": 0, "n_samples": RATE, "n_asked": 0, "n_placed": 0, "n_outside": 0, "n_redrawn": 0, "n_ratios_refused": 0,
    "background": (0, NO_BACKGROUND), "background_ratio": (0, 0), "background_offset": (0, 0),
    "noise_slope_db": (0, 0), "background_mix_db": 0, "level_dbfs": AS_RECORDED,
    "background_spl_db": NO_LEVEL, "room": NO_ROOM, "month": -1, "hour": -1,
}  # fmt: skip
_EVENT = {
    "clip": 0, "class_id": 0, "clip_onset": 0, "clip_offset": 800, "onset": 100, "offset": 700, "ratio": 0,
    "reversed": False, "snr_db": 0, "fade_in": 0, "fade_out": 0, "gain_group": 0, "role": 0, "speaker": NO_SPEAKER,
    "truncated": False, "altered": False, "required": False, "clip_start": 0, "clip_end": -1,
    "source_level_db": NO_LEVEL, "distance_mm": 0, "impulse": NO_IMPULSE,
    "rt60_ms": 0, "drr_db": 0,
}  # fmt: skip
_DTYPES = {
    "scene": "i8", "n_samples": "i8", "n_asked": "i4", "n_placed": "i4",
    "n_outside": "i4", "n_redrawn": "i4", "n_ratios_refused": "i4", "background": "i8",
    "background_ratio": "i2", "background_offset": "i8", "background_mix_db": "i4", "level_dbfs": "i4",
    "month": "i1", "hour": "i1", "clip": "i8",
    "class_id": "i4", "clip_onset": "i8", "clip_offset": "i8", "onset": "i8", "offset": "i8", "ratio": "i2",
    "reversed": "?", "snr_db": "i4", "fade_in": "i4", "fade_out": "i4", "gain_group": "i4", "role": "i1",
    "speaker": "i4", "truncated": "?", "altered": "?", "required": "?",
    "clip_start": "i8", "clip_end": "i8", "noise_slope_db": "i4", "background_spl_db": "i4",
    "room": "i4", "source_level_db": "i4", "distance_mm": "i8", "impulse": "i8", "rt60_ms": "i4", "drr_db": "i4",
}  # fmt: skip


def hand_plan(
    *scenes: tuple[dict[str, Any], list[dict[str, Any]]], ratios: tuple[tuple[int, int], ...] = ((1, 1),)
) -> ScenePlan:
    """A plan of scenes, each (scene columns, [event columns, ...]); what is not given has a default.

    The clip ends (``clip_end``) where its ``clip_offset`` says, unless it is given.
    """
    of_scenes = [{**_SCENE, "scene": i, **scene} for i, (scene, _) in enumerate(scenes)]
    of_events = [{**_EVENT, **event} for _, events in scenes for event in events]
    for event in of_events:
        if event["clip_end"] < 0:
            p, q = ratios[event["ratio"]]
            event["clip_end"] = event["clip_start"] + (event["clip_offset"] - event["clip_onset"]) * q // p
    drops = np.zeros((len(scenes), len(DROP_REASONS)), dtype=np.int32)
    for i, scene in enumerate(of_scenes):
        for reason, n in scene.pop("drops", {}).items():
            drops[i, DROP_REASONS.index(reason)] = n
    columns = {name: np.array([row[name] for row in of_scenes], dtype=_DTYPES[name]) for name in _SCENE}
    columns |= {name: np.array([row[name] for row in of_events], dtype=_DTYPES[name]) for name in _EVENT}
    return ScenePlan(
        sample_rate=RATE,
        ratio_p=np.array([p for p, _ in ratios], dtype=np.int32),
        ratio_q=np.array([q for _, q in ratios], dtype=np.int32),
        event_offsets=np.cumsum([0, *(len(events) for _, events in scenes)]),
        drops=drops,
        **columns,
    )


def hand_batch(plan: ScenePlan, **measured: Any) -> SceneBatch:
    """A batch of silence, with what was measured as given or zero."""
    of_scenes = {name: np.zeros(len(plan)) for name in ("scene_gain_db", "level_dbfs")}
    of_scenes["level_lufs"] = np.full(len(plan), np.nan)
    of_events = {name: np.zeros(plan.n_events) for name in ("gain_db", "snr_scene_db", "snr_local_db", "snr_band_db")}
    of_events |= {"snr_loudness_db": np.full(plan.n_events, np.nan), "tail_samples": np.zeros(plan.n_events, int)}
    audio = np.zeros((len(plan), int(plan.n_samples.max(initial=0))), dtype=np.float32)
    content = {"audio": audio, "signal_share": np.ones(plan.n_events), **of_scenes, **of_events, **measured}
    return SceneBatch(plan=plan, **content)
