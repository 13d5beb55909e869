"""Small stores made for tests: clips whose truth is known because the test made them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape_kernels.ratios import UNITY

RATE = 16000


def make_bank(folder: Path, *, n_species: int = 5, per_species: int = 12, seed: int = 1) -> ClipStore:
    """Sweeps in noise: each species has its band, four clips a track, three call types, two individuals."""
    rng = np.random.default_rng(seed)
    with StoreWriter(folder, "pseudovox", RATE) as writer:
        for species in range(n_species):
            for k in range(per_species):
                n, pad = int(rng.uniform(0.05, 0.6) * RATE), int(rng.uniform(0.0, 0.06) * RATE)
                t = np.arange(n) / RATE
                f = 400 * 1.5**species * rng.uniform(0.97, 1.03)
                call = np.sin(2 * np.pi * (f * t + 0.1 * f * t * t)) * np.minimum(1, np.minimum(t, t[::-1]) / 0.004)
                clip = rng.standard_normal(n + 2 * pad) * 2e-3
                clip[pad : pad + n] += call * rng.uniform(0.2, 1)
                track = f"t{species}-{k // 4}"
                writer.add(
                    clip.astype(np.float32),
                    {
                        "recording_id": track,
                        "track_id": track,
                        "track_onset_s": (k % 4) * 0.7,
                        "species": f"Genus species{species}",
                        "genus": "Genus",
                        "call_type": f"type{k % 3}",
                        "individual": f"i{k // 4 % 2}",
                        "site": f"site{species}-{k // 4}",
                        "licence": "CC0-1.0" if k % 2 else "CC-BY-4.0",
                        "medium": "air",
                        "active_start": pad,
                        "active_end": pad + n,
                        "energy_q25": pad + n // 4,
                        "energy_q75": pad + 3 * n // 4,
                        "low_hz": f * 0.97,
                        "high_hz": f * 1.2,
                        "peak_hz": f * 1.05,
                        "signal_share": rng.uniform(0.7, 1.0),
                        "clip_snr_db": 40.0,
                        "min_ratio_index": int(max(0, UNITY + np.ceil(64 * np.log2(f * 1.2 / 7200)))),
                    },
                )
    return ClipStore.open(folder)


def make_backgrounds(folder: Path, *, n: int = 5, length_s: float = 12.0, seed: int = 2) -> ClipStore:
    """Noise with a slope of its own each; the first is short, so it must be looped."""
    rng = np.random.default_rng(seed)
    with StoreWriter(folder, "backgrounds", RATE) as writer:
        for k in range(n):
            noise = rng.standard_normal(int((1.5 if k == 0 else length_s) * RATE))
            noise[1:] += 0.2 * k * noise[:-1]
            writer.add(
                (0.05 * noise / np.abs(noise).max()).astype(np.float32),
                {"recording_id": f"b{k}", "site": f"field{k}", "medium": "air", "licence": "CC-BY-NC-4.0"},
            )
    return ClipStore.open(folder)


def make_impulses(folder: Path, rows: list[dict[str, object]] | None = None, *, rate: int = RATE) -> ClipStore:
    """Impulse responses of 0.2 s: two of a hall, three of a cave, one recording of two, and one of nowhere."""
    rng = np.random.default_rng(3)
    if rows is None:
        sites = ["hall", "cave", "cave", "hall", "cave", None, None, None]
        recordings = ["r0", "r0", "r1", "r2", "r3", "wood", "wood", None]
        rows = [{"site": site, "recording_id": name} for site, name in zip(sites, recordings, strict=True)]
    with StoreWriter(folder, "impulses", rate) as writer:
        for row in rows:
            decay = rng.standard_normal(rate // 5) * 10 ** (-3 * np.arange(rate // 5) / (rate // 5)) * 0.1
            decay[20] = 1.0
            writer.add(decay.astype(np.float32), {"licence": "CC0-1.0", **row})
    return ClipStore.open(folder)
