"""Golden scenes: a tiny bank made with whole numbers only, so that it is the same everywhere, and scenes of it.

``python -m tests.verification.golden`` writes ``golden.json`` anew: after PLAN_VERSION was raised, and never else.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthscape import SceneGenerator, load_spec
from synthscape.bank.writer import StoreWriter
from synthscape.plan.plan import PLAN_VERSION
from tests.verification.measure import pcm16, pcm_hash

RATE = 8000
FILE = Path(__file__).with_name("golden.json")
SPEC = """
seed: 20
sample_rate: 8000
duration: {uniform: [1, 2]}
bank: ???
backgrounds: ???
classes: {by: species, balance: sqrt, per_scene: {uniform_int: [1, 3]}}
events:
  rate: {choice: [1, 2, 3], per: class}
  snr: {reference: band, db: {mixture: [{normal: [{uniform: [-8, 0]}, 4]}, {normal: [5, 4]}], clip: [-15, 20]}}
  resample: {mixture: [1, {loguniform: [0.7, 1.4]}]}
  reverse: 0.2
  overlap: {same_class: allow, max_polyphony: 3}
  edges: truncate
empty_share: 0.125
background:
  mix: {probability: 0.5, ratio_db: {uniform: [-6, 6]}}
  level_dbfs: {uniform: [-40, -15]}
  resample: {choice: [1, 0.9]}
"""


class _Congruential:
    """Knuth's 64-bit generator: whole numbers, the same on any machine."""

    def __init__(self, seed: int):
        self._state = seed

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        self._state = (6364136223846793005 * self._state + 1442695040888963407) % 2**64
        return (self._state >> 33) % n


def _full_scale(samples: list[int]) -> NDArray[np.float64]:
    """Whole numbers up to 32767, as a bank stores them; the loudest is exactly that."""
    peak = max(abs(sample) for sample in samples)
    return np.array([sample * 32767 // peak if sample != peak else 32767 for sample in samples], np.float64)


def _call(draw: _Congruential, hz: int, n: int, pad: int) -> NDArray[np.float64]:
    """A triangle wave that sweeps up, between stretches of noise."""
    samples, phase = [], 0
    for k in range(-pad, n + pad):
        noise = draw.below(201) - 100
        if not 0 <= k < n:
            samples.append(noise)
            continue
        phase += hz + hz * k // (4 * n)
        at = phase * 4 * 30000 // RATE % (4 * 30000)
        wave = 30000 - abs(at - 60000)
        samples.append(wave * min(k, n - 1 - k, 40) // 40 + noise)
    return _full_scale(samples)


def _noise(draw: _Congruential, n: int, memory: int) -> NDArray[np.float64]:
    """Noise that is the redder, the larger ``memory``."""
    samples, slow = [], 0
    for _ in range(n):
        slow = slow * memory // 16 + draw.below(20001) - 10000
        samples.append(slow)
    return _full_scale(samples)


def make_stores(folder: Path) -> tuple[Path, Path]:
    """A bank of 5 species with 4 calls each, and 4 backgrounds of which one is short."""
    draw = _Congruential(1)
    with StoreWriter(folder / "bank", "pseudovox", RATE) as writer:
        for species in range(5):
            for k in range(4):
                hz, n, pad = 300 + 350 * species + 20 * k, 600 + 500 * k + 30 * species, 40 * k
                columns: dict[str, Any] = {
                    "recording_id": f"r{species}-{k}",
                    "species": f"Numerus {'abcde'[species]}us",
                    "active_start": pad,
                    "active_end": pad + n,
                    "energy_q25": pad + n // 4,
                    "energy_q75": pad + 3 * n // 4,
                    "low_hz": float(hz),
                    "high_hz": float(2 * hz),
                    "signal_share": 0.875,
                    "min_ratio_index": 64 + 8 * species,
                }
                writer.add(_call(draw, hz, n, pad), columns)
    with StoreWriter(folder / "backgrounds", "backgrounds", RATE) as writer:
        for k in range(4):
            writer.add(_noise(draw, 6000 if k == 0 else 30000, 4 * k), {"recording_id": f"b{k}"})
    return folder / "bank", folder / "backgrounds"


def golden_scenes(folder: Path) -> dict[str, Any]:
    """What the golden file should say, from stores made in ``folder``."""
    bank, backgrounds = make_stores(folder)
    (folder / "golden.yaml").write_text(SPEC, encoding="utf-8")
    spec = load_spec(str(folder / "golden.yaml"), [f"bank={bank}", f"backgrounds={backgrounds}"])
    batch = SceneGenerator(spec).render(range(8))
    scenes = [
        {
            "scene_id": scene["scene_id"],
            "n_events": int(scene["n_events"]),
            "pcm_hash": pcm_hash(pcm16(batch.audio[i, : scene["n_samples"]])),
        }
        for i, scene in enumerate(batch.scenes.to_dict("records"))
    ]
    return {"plan_version": PLAN_VERSION, "plan_hash": batch.plan.hash(), "scenes": scenes}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        content = golden_scenes(Path(work))
    if "--print" in sys.argv:
        print(json.dumps(content))
    else:
        FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
