"""POS, UNK and NEG: where in a scene the call that is asked about is, may be, and is not.

- POS: an audible call of the target, of whose active part at least half is in the scene.
- UNK: one that is not audible, whose audibility is not known, or of which less is left; a near type of the same
  species; an animal that is annotated in the background.
- NEG: all else. Where they overlap, POS counts before UNK, UNK before NEG.

*Spans* are one for each call, may overlap, and are what is scored by events (:mod:`synthscape.labels.dcase`). *Regions*
are what spans make of the scene's samples: runs of equal labels that don't overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.errors import StoreError
from synthscape.plan.plan import ScenePlan
from synthscape.units import seconds_to_samples
from synthscape_kernels.place import loop_crossfade

#: Labels in the order of what counts less: their places are the numbers in :func:`sample_labels`.
LABELS: Final = ("NEG", "UNK", "POS")
NEG, UNK, POS = LABELS


@dataclass(frozen=True, order=True)
class Region:
    """A part of a scene: samples ``onset`` to ``offset`` (exclusive), POS or UNK."""

    onset: int
    offset: int
    label: str


@dataclass(frozen=True, order=True)
class BackgroundCall:
    """An animal annotated in a background, where it is heard in a scene: samples, ``offset`` exclusive."""

    onset: int
    offset: int
    label: str | None


def spans_of_scene(
    events: pa.Table,
    full_samples: NDArray[np.int64],
    is_target: NDArray[np.bool_],
    near: NDArray[np.bool_],
    background_calls: Sequence[BackgroundCall] = (),
) -> list[Region]:
    """POS and UNK of a scene: a span for each call that is either, by onset.

    Args:
        events: rows of the events table of one scene, [e].
        full_samples: the whole active part of each as played, whatever the scene cuts, [e]
            (:func:`synthscape.mix.surroundings.active_as_played`).
        is_target: calls of the type that is asked about, [e].
        near: calls of its species that can't be told from it for sure, [e].
        background_calls: animals annotated in the backgrounds (:func:`background_annotations`).
    """
    audible = np.asarray(events["audible"].combine_chunks().fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    onset, offset = events["onset"].to_numpy(), events["offset"].to_numpy()
    positive = is_target & audible & (2 * (offset - onset) >= full_samples)
    unknown = (is_target | near) & ~positive
    spans = [
        Region(int(onset[e]), int(offset[e]), POS if positive[e] else UNK) for e in np.flatnonzero(positive | unknown)
    ]
    return sorted([*spans, *(Region(call.onset, call.offset, UNK) for call in background_calls)])


def regions_of_spans(spans: Iterable[Region], n_samples: int) -> list[Region]:
    """Runs of POS and UNK without overlaps, by onset; what lies between is NEG.

    Calls of one label that touch or overlap become one region, and UNK ends where POS begins.

    Args:
        spans: in any order; what lies beyond the scene is cut.
        n_samples: length of the scene.
    """
    ends = [(max(span.onset, 0), min(span.offset, n_samples), LABELS.index(span.label)) for span in spans]
    ends = [span for span in ends if span[0] < span[1]]
    edges = sorted({edge for span in ends for edge in span[:2]})
    found: list[Region] = []
    for start, end in pairwise(edges):
        label = LABELS[max((rank for onset, offset, rank in ends if onset <= start < offset), default=0)]
        if label == NEG:
            continue
        if found and found[-1].offset == start and found[-1].label == label:
            start = found.pop().onset
        found.append(Region(start, end, label))
    return found


def sample_labels(regions: Iterable[Region], n_samples: int) -> NDArray[np.int8]:
    """Label of every sample: 0 NEG, 1 UNK, 2 POS, int8 [n_samples].

    >>> sample_labels([Region(1, 4, "UNK"), Region(3, 5, "POS")], 6)
    array([0, 1, 1, 2, 2, 0], dtype=int8)

    Args:
        regions: or spans: where they overlap, POS counts before UNK.
        n_samples: length of the scene.
    """
    labels = np.zeros(n_samples, np.int8)
    for region in regions:
        part = labels[max(region.onset, 0) : max(region.offset, 0)]
        np.maximum(part, LABELS.index(region.label), out=part)
    return labels


def background_annotations(
    plan: ScenePlan, backgrounds: ClipStore, i: int, crossfade_samples: int
) -> list[BackgroundCall]:
    """Where the animals annotated in the backgrounds of the i-th scene are heard in it, by onset.

    Annotations are in seconds of the background as stored. Played at a ratio P/Q from an offset on, its samples [a, b)
    become [floor(a P/Q), ceil(b P/Q)) less the offset; a background that is looped repeats them each round, from where
    it fades in to where it has faded out.

    Args:
        plan: of the scenes.
        backgrounds: the store; one without a column ``annotations`` has none.
        i: position of the scene in the plan.
        crossfade_samples: ``background.crossfade_s`` in samples.

    Raises:
        StoreError: an annotation has no beginning or end, or ends before it begins.
    """
    rows = [int(row) for row in plan.background[i]]
    if "annotations" not in backgrounds.column_names or max(rows) < 0:
        return []
    column = backgrounds.columns(["annotations"])["annotations"]
    n_samples = int(plan.n_samples[i])
    calls = []
    for which, row in enumerate(rows):
        if row < 0:  # noise, or none
            continue
        ratio = plan.background_ratio[i, which]
        p, q = int(plan.ratio_p[ratio]), int(plan.ratio_q[ratio])
        length, crop = int(backgrounds.lengths[row]), int(plan.background_offset[i, which])
        played = -(-length * p // q)
        looped = played < n_samples
        period = played - int(loop_crossfade(played, crossfade_samples)) if looped else played
        for annotation in column[row].as_py() or []:
            start, end = _samples(annotation, length, plan.sample_rate, backgrounds, row)
            start, end = start * p // q - crop, -(-end * p // q) - crop
            for earlier in range(0, n_samples + crop if looped else 1, period):
                onset, offset = max(start + earlier, 0), min(end + earlier, n_samples)
                if onset < offset:
                    calls.append(BackgroundCall(onset, offset, annotation["label"]))
    return sorted(calls, key=lambda call: (call.onset, call.offset, call.label or ""))


def _samples(annotation: dict[str, Any], length: int, rate: int, backgrounds: ClipStore, row: int) -> tuple[int, int]:
    """Stored samples of an annotation, within the background."""
    start_s, end_s = annotation["onset_s"], annotation["offset_s"]
    if start_s is None or end_s is None or not (math.isfinite(start_s) and math.isfinite(end_s) and start_s <= end_s):
        raise StoreError(
            f"{backgrounds.path}: annotations of background {row}: expected onset_s up to offset_s, got {start_s} and "
            f"{end_s}; correct the table it was built from, and build it again"
        )
    return max(seconds_to_samples(start_s, rate), 0), min(seconds_to_samples(end_s, rate), length)
