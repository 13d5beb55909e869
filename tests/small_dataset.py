"""A small spec over hand-built stores, and what a rendered folder holds, for tests of rendering."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import soundfile

from synthscape.labels.pcm import pcm_hash
from synthscape.spec import Spec, load_spec
from tests.hand_built import RATE, SPECIES, make_backgrounds, make_bank

SPEC = """
seed: 5
items: 23
sample_rate: {rate}
duration: {{uniform: [0.8, 2.2]}}
bank: {stores}/bank
backgrounds: {stores}/backgrounds
classes: {{per_scene: {{uniform_int: [1, 3]}}}}
events: {{count: {{uniform_int: [1, 4]}}, snr: {{db: {{uniform: [-5, 10]}}}}, resample: {{choice: [1, 0.75]}}}}
empty_share: 0.2
background: {{mix: {{probability: 0.5}}}}
output: {{dir: {out}, format: folder, items_per_shard: 8, raven: true}}
"""


def make_stores(folder: Path, species: tuple[str, ...] = SPECIES) -> Path:
    """A bank and backgrounds in a folder, and the folder."""
    make_bank(folder / "bank", species)
    make_backgrounds(folder / "backgrounds")
    return folder


def write_spec(folder: Path, stores: Path) -> Path:
    """The small spec as a file, rendering into ``folder/out``."""
    path = folder / "small.yaml"
    quoted = {name: json.dumps(str(value))[1:-1] for name, value in (("stores", stores), ("out", folder / "out"))}
    path.write_text(SPEC.format(rate=RATE, **quoted), encoding="utf-8")
    return path


def small_spec(folder: Path, stores: Path, *overrides: str) -> Spec:
    """The small spec, rendering into ``folder/out``."""
    return load_spec(str(write_spec(folder, stores)), overrides)


def contents(folder: Path) -> dict[str, Any]:
    """What a dataset says, by file: bytes of tables, texts and JSON, hashes of the samples of audio."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != ".lock" and path.parent.name != "log":
            name = str(path.relative_to(folder))
            found[name] = (
                pcm_hash(soundfile.read(path, dtype="int16")[0]) if path.suffix == ".flac" else path.read_bytes()
            )
    return found
