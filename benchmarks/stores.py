"""Stores and specs for benchmarks: calls of one known length, backgrounds, and banks of any number of clips."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import SpecError
from synthscape.spec import Spec, load_spec

RATE = 16000
N_SPECIES = 10
ROWS_PER_GROUP = 8192  # as a store's writer has them
BAND_NOT_MEASURED = ("events.snr.reference=scene", "events.snr.measure_band=false")


def make_calls(folder: Path, *, n: int, shortest_s: float, longest_s: float, seed: int = 1) -> ClipStore:
    """Harmonic sweeps over a faint noise, active throughout, low enough for any ratio we draw."""
    rng = np.random.default_rng(seed)
    with StoreWriter(folder, "pseudovox", RATE) as writer:
        for i in range(n):
            length_s = rng.uniform(shortest_s, longest_s)
            length = round(length_s * RATE)
            t = np.arange(length) / RATE
            rise = np.minimum(1, np.minimum(t, t[::-1]) / (length_s / 20))
            low_hz = rng.uniform(600, 1200)
            phase = 2 * np.pi * low_hz * (t + 0.5 * t * t / length_s)
            call = np.sin(phase) + 0.3 * np.sin(2 * phase)
            clip = call * rise + 1e-3 * rng.standard_normal(length)
            writer.add(
                clip.astype(np.float32),
                {
                    "recording_id": f"r{i}",
                    "species": f"Genus species{i % N_SPECIES}",
                    "call_type": f"call{i % 3}",
                    "individual": f"i{i}",
                    "licence": "CC0-1.0",
                    "medium": "air",
                    "active_start": 0,
                    "active_end": length,
                    "energy_q25": length // 4,
                    "energy_q75": 3 * length // 4,
                    "low_hz": low_hz,
                    "high_hz": 4 * low_hz,
                    "peak_hz": 1.5 * low_hz,
                    "signal_share": 1.0,
                    "min_ratio_index": 0,
                },
            )
    return ClipStore.open(folder)


def make_backgrounds(folder: Path, *, n: int = 6, length_s: float = 30.0, seed: int = 2) -> ClipStore:
    """Noise that falls by 3 dB an octave: what FLAC makes of it is near what it makes of wind and rain."""
    rng = np.random.default_rng(seed)
    length = round(length_s * RATE)
    with StoreWriter(folder, "backgrounds", RATE) as writer:
        for i in range(n):
            spectrum = np.fft.rfft(rng.standard_normal(length)) / np.sqrt(np.arange(1, length // 2 + 2))
            noise = np.fft.irfft(spectrum, length)
            writer.add(
                (0.1 * noise / np.abs(noise).max()).astype(np.float32),
                {"recording_id": f"b{i}", "site": f"site{i}", "medium": "air", "licence": "CC0-1.0"},
            )
    return ClipStore.open(folder)


def tile_store(store: ClipStore, folder: Path, times: int) -> ClipStore:
    """A bank with all clips of another many times, each with a ``clip_id`` and recording of its own.

    Rows and band tables are real; the audio is there once, and all copies of a clip point to it.
    """
    folder.mkdir()
    for entry in store.info["audio"]:
        shutil.copyfile(store.path / entry["name"], folder / entry["name"])
    clips = pq.read_table(store.path / "clips.parquet")
    at_once = max(1, ROWS_PER_GROUP // len(clips))
    with pq.ParquetWriter(folder / "clips.parquet", clips.schema, compression="zstd") as writer:
        for first in range(0, times, at_once):
            copies = range(first, min(first + at_once, times))
            rows = pa.concat_tables([clips] * len(copies))
            for name in ("clip_id", "recording_id", "individual"):
                field = clips.schema.field(name)
                texts = [f"{text}-{k}" for k in copies for text in clips[name].to_pylist()]
                rows = rows.set_column(clips.column_names.index(name), field, pa.array(texts, field.type))
            writer.write_table(rows, row_group_size=ROWS_PER_GROUP)
    bands = (store.path / "bands.f32").read_bytes()
    with (folder / "bands.f32").open("wb") as file:
        for _ in range(times):
            file.write(bands)
    info = dict(store.info)
    for name in ("n_clips", "n_blocks"):
        info[name] *= times
    info["filled"] = {name: count * times for name, count in info["filled"].items()}
    info["fingerprint"] = f"{info['fingerprint'][:20]}-tiled-{times}"
    (folder / "store.json").write_text(json.dumps(info), encoding="utf-8")
    return ClipStore.open(folder)


def spec_over(calls: Path, backgrounds: Path, overrides: Sequence[str]) -> Spec:
    """``strong_detection`` with a number of events instead of a rate, one background, and nothing dropped."""
    return load_spec(
        "strong_detection",
        [
            f"bank={calls}",
            f"backgrounds={backgrounds}",
            "empty_share=0",
            "events.rate=null",
            "events.overlap={same_class: allow, max_polyphony: null}",
            "background.mix.probability=0",
            *overrides,
        ],
    )


def known(overrides: Sequence[str]) -> bool:
    """Whether this version has what these ask for."""
    try:
        load_spec("strong_detection", overrides)
    except SpecError:
        return False
    return True
