"""Items of a question task rendered in memory, chunk by chunk: what is heard of them, without keeping their audio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import synthscape as ss
from synthscape.spec import Spec
from synthscape.tasks.answers import untrue_items
from tests.leakage import Heard

_CHUNK = 256


@dataclass
class Rendered:
    """What came of some items.

    Attributes:
        heard: those that were delivered, their nuisances measured.
        lost: names of the others, and why.
    """

    heard: Heard
    lost: dict[str, str]


def hear(spec: Spec, n: int) -> Rendered:
    """Render the first ``n`` items of a spec as they would be written; measure what is asked about and its examples."""
    generator = ss.SceneGenerator(spec)
    rows: dict[str, list[dict[str, Any]]] = {"items": [], "scenes": [], "events": []}
    known: dict[str, Any] = {}
    some: dict[str, Any] = {}
    lost: dict[str, str] = {}
    for first in range(0, n, _CHUNK):
        planned = generator.plan_items(range(first, min(first + _CHUNK, n)))
        lost |= {generator.item_id(number): reason for number, reason in planned.failures.items()}
        batch = generator.mix_as_written(planned.scenes)
        untrue = untrue_items(planned, batch, spec.events.snr.audible_db)
        lost |= {planned.ids[i]: reason for i, reason in untrue.items()}
        tables = generator.tables(planned, batch, [""] * len(planned.scenes))
        found = {name: getattr(tables, name).to_pylist() for name in rows}
        false = {planned.ids[i] for i in untrue}
        found["items"] = [item for item in found["items"] if item["item_id"] not in false]
        lengths = planned.scenes.n_samples
        assert batch.pcm is not None
        audio = {name: batch.pcm[s, : lengths[s]] for s, name in enumerate(planned.scene_ids)}
        assert all(len(audio[name]) == lengths[s] and audio[name].any() for s, name in enumerate(planned.scene_ids))
        chunk = Heard(found["items"], found["scenes"], found["events"], audio, spec.sample_rate)
        for item in found["items"]:
            asked = (name for name in item["scene_ids"] if name != item["background_scene_id"])
            known |= {name: chunk.of(name) for name in asked}
        if not some:
            name = next(iter(audio))
            some[name] = np.array(audio[name])
        for kind, part in found.items():
            rows[kind] += part
    heard = Heard(rows["items"], rows["scenes"], rows["events"], some, spec.sample_rate, _known=known)
    return Rendered(heard, lost)
