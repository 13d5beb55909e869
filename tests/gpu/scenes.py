"""Small scenes for the GPU kernels, and the launches that mixing them takes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.plan.plan import AS_RECORDED, ScenePlan
from synthscape.spec import Spec, load_spec
from synthscape_kernels.ratios import UNITY
from tests.hand_built import RATE, hand_plan

#: 1, up, down, and two with large p and q.
RATIOS = ((1, 1), (9, 10), (3, 2), (109, 100), (113, 127)) + ((1, 1),) * UNITY  # which is where made-up noise looks
CLIP_SAMPLES = (700, 512, 333, 1001)
BACKGROUND_SAMPLES = (4003, 4096, 700)  # the last is looped


@dataclass(frozen=True)
class World:
    """Two stores and a spec over them."""

    spec: Spec
    bank: ClipStore
    backgrounds: ClipStore


def make_world(folder: Path, *overrides: str) -> World:
    """Clips of noise with a band, and backgrounds of noise."""
    rng = np.random.default_rng(5)
    with StoreWriter(folder / "bank", "pseudovox", RATE) as writer:
        for k, n in enumerate(CLIP_SAMPLES):
            clip = rng.standard_normal(n) * np.hanning(n) + 0.02 * rng.standard_normal(n)
            writer.add(
                clip.astype(np.float32),
                {"species": f"Genus {k}", "low_hz": 600.0 + 200 * k, "high_hz": 1500.0 + 300 * k, "signal_share": 0.9},
            )
    with StoreWriter(folder / "backgrounds", "backgrounds", RATE) as writer:
        for n in BACKGROUND_SAMPLES:
            writer.add((0.1 * rng.standard_normal(n)).astype(np.float32), {"recording_id": f"r{n}"})
    spec = load_spec(
        "strong_detection",
        [f"bank={folder / 'bank'}", f"backgrounds={folder / 'backgrounds'}", f"sample_rate={RATE}",
         "background.crossfade_s=0.02", *overrides],
    )  # fmt: skip
    return World(spec, ClipStore.open(folder / "bank"), ClipStore.open(folder / "backgrounds"))


def event(clip: int, onset: int, n_samples: int, ratio: int = 0, **columns: Any) -> dict[str, Any]:
    """An event whose clip begins at ``onset``, active but for 20 samples on each side, cut by the scene."""
    p, q = RATIOS[ratio]
    end = onset - (-CLIP_SAMPLES[clip] * p // q)
    active = {"onset": max(onset + 20, 0), "offset": min(end - 20, n_samples)}
    where = {"clip_onset": onset, "clip_offset": end, "clip_end": CLIP_SAMPLES[clip]}
    return {"clip": clip, "ratio": ratio, **where, **active, **columns}


def plan_of(*scenes: tuple[dict[str, Any], list[dict[str, Any]]]) -> ScenePlan:
    """A plan at these ratios; every event is a gain group of its own unless it says so."""
    for _, events in scenes:
        for number, one in enumerate(events):
            one.setdefault("gain_group", number)
    return hand_plan(*scenes, ratios=RATIOS)


def scene(
    n_samples: int, *backgrounds: tuple[int, int, int], level_db: float = -30.0, **columns: Any
) -> dict[str, Any]:
    """Columns of a scene; backgrounds as (row, ratio, offset)."""
    rows, ratios, offsets = zip(*[*backgrounds, (-1, 0, 0)][:2], strict=True)
    return {
        "n_samples": n_samples,
        "background": rows,
        "background_ratio": ratios,
        "background_offset": offsets,
        "level_dbfs": AS_RECORDED if level_db == np.inf else round(256 * level_db),
        **columns,
    }


def render_every_variant(record: Callable[..., None]) -> None:
    """Mix scenes that need every kernel in every variant, handing each launch to ``record`` instead of making it.

    Nothing is computed; what the kernels would have written is whatever memory held.
    """
    import torch

    from synthscape.labels import frames
    from synthscape.mix import device
    from synthscape_kernels import triton_launch

    device._checked_device = lambda name: torch.device("cpu")  # the kernels are compiled, not run
    triton_launch.launch = lambda kernel, programs, *arguments, **constants: record(
        kernel, arguments, {**constants, **triton_launch.OPTIONS}
    )
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(Path(folder))
        events = [event(0, 5, 1500), event(1, 300, 1500, 1)]
        plan = plan_of((scene(1500, (0, 1, 16), (1, 0, 8)), events))
        for keep in (True, False):
            mixer = device.DeviceMixer(world.spec, world.bank, world.backgrounds, keep_pieces=keep)
            for pcm in (False, True):
                mixer.render(plan, stems=True, pcm=pcm)
    frames.frame_counts_on("cpu", plan, 4, 100)
