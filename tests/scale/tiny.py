"""Specs of very short scenes over stores of a few short calls, and what a dataset of them holds."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from synthscape.bank.writer import StoreWriter
from synthscape.spec import Spec, load_spec
from synthscape.spec.schema import Output
from tests.hand_built import RATE, make_backgrounds

#: All values of ``output.format``.
FORMATS: Final[tuple[str, ...]] = next(
    field.metadata["rule"].allowed for field in fields(Output) if field.name == "format"
)

SPEC: Final = """
seed: 5
items: {items}
sample_rate: {rate}
duration: {{uniform: [0.1, 0.2]}}
bank: {stores}/bank
backgrounds: {stores}/backgrounds
classes: {{per_scene: 1}}
events: {{count: {{uniform_int: [1, 2]}}, snr: {{db: {{uniform: [0, 10]}}}}, resample: 1}}
empty_share: 0.2
output: {{dir: {out}, items_per_shard: 4}}
"""


def make_stores(folder: Path, *, broken: bool = False) -> Path:
    """A bank of calls of 0.05 s, of which one is silent if ``broken``, and backgrounds; and their folder."""
    n = RATE // 20
    with StoreWriter(folder / "bank", "pseudovox", RATE) as writer:
        for i in range(6):
            hz = 600.0 + 300 * i
            noise = 1e-4 * np.random.default_rng(i).standard_normal(n)
            tone = np.sin(2 * np.pi * hz * np.arange(n) / RATE) * np.hanning(n) ** 0.25
            columns = {
                "species": ("Corvus corax", "Parus major")[i % 2],
                "recording_id": f"rec-{i}",
                "licence": "CC0-1.0",
                "active_start": 0,
                "active_end": n,
                "low_hz": hz - 100,
                "high_hz": hz + 100,
                "peak_hz": hz,
                "signal_share": 1.0,
                "min_ratio_index": 0,
            }
            if broken and i == 0:  # what the builder of a bank would have refused
                tone, columns["active_end"] = np.concatenate([np.zeros(n // 2), tone[: n // 2]]), n // 4
                noise = np.where(np.arange(n) < n // 2, 0, noise)
            writer.add(tone + noise, columns)
    make_backgrounds(folder / "backgrounds", seconds=0.5)
    return folder


def write_tiny_spec(folder: Path, stores: Path, items: int = 10) -> Path:
    """The spec as a file, rendering into ``folder/out``."""
    path = folder / "tiny.yaml"
    quoted = {name: json.dumps(str(value))[1:-1] for name, value in (("stores", stores), ("out", folder / "out"))}
    path.write_text(SPEC.format(rate=RATE, items=items, **quoted), encoding="utf-8")
    return path


def tiny_spec(folder: Path, stores: Path, *overrides: str) -> Spec:
    """The spec, rendering into ``folder/out``."""
    return load_spec(str(write_tiny_spec(folder, stores)), overrides)


def held(folder: Path) -> dict[str, Any]:
    """Every byte of a dataset, by file, but for locks, logs and the name of its folder."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name != ".lock" and not name.startswith("log/"):
            content = path.read_bytes()
            found[name] = content.replace(str(folder).encode(), b"OUT") if path.suffix in (".json", ".md") else content
    return found


def leftovers(folder: Path) -> list[str]:
    """What was written aside and is still there."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".aside-*")]
