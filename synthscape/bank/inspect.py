"""Looking into a store: what is in it, and whether it is sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from synthscape.bank.bands import band_edges_hz, block_samples
from synthscape.bank.licences import normalise_licence
from synthscape.bank.schema import ALIGN_SAMPLES, CLIPS_FILE, PCM_PEAK, RANGES
from synthscape.bank.store import ClipStore, Fingerprint, clip_hash, iter_rows
from synthscape.errors import StoreError

COUNTED: Final = ("species", "call_type", "individual", "cluster", "licence", "medium", "source", "split", "excluded")


def describe(store: ClipStore) -> dict[str, Any]:
    """Counts and ranges of a store, as plain values: clips, seconds, classes, licences, columns that are filled."""
    lengths_s = store.lengths / store.sample_rate
    counts: dict[str, dict[str, int]] = {}
    for name in (*COUNTED, *(name for name in store.column_names if name.startswith("cluster_"))):
        if store.has(name):
            values = store.columns([name])[name].to_pylist()
            if name == "licence":
                values = [normalise_licence(value) for value in values]
            found = Counter("(none)" if value is None else value for value in values)
            counts[name] = dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
    recordings = store.columns(["recording_id"])["recording_id"] if "recording_id" in store.column_names else None
    return {
        "path": str(store.path),
        "kind": store.kind,
        "sample_rate": store.sample_rate,
        "fingerprint": store.fingerprint,
        "n_clips": len(store),
        "n_recordings": len(recordings.unique()) if recordings is not None else None,
        "n_duplicates": store.info.get("n_duplicates", 0),
        "seconds": float(lengths_s.sum()),
        "clip_s": {
            "shortest": float(lengths_s.min()),
            "median": float(np.median(lengths_s)),
            "longest": float(lengths_s.max()),
        },
        "counts": counts,
        "filled": {name: count for name, count in store.info["filled"].items() if count},
        "empty": [name for name in store.column_names if not store.has(name)],
        "conditioning": store.info["conditioning"],
    }


def check(store: ClipStore, progress: Callable[[int], None] = lambda done: None) -> list[str]:
    """Read everything and compare: one line for each thing that is wrong, none if the store is sound.

    Each clip's audio must hash to its ``clip_id``, reach the full peak, start where alignment allows and overlap no
    other; its active part must lie inside it; the band table must have its blocks; the rows must give the fingerprint.

    Args:
        store: the store.
        progress: called with the number of clips done.
    """
    wrong: list[str] = []
    starts, lengths = store.raw_extents()
    n_samples = sum(entry["n_samples"] for entry in store.info["audio"])
    inside = (starts >= 0) & (lengths >= 1) & (starts + lengths <= n_samples)
    for row in np.flatnonzero(~inside).tolist():
        wrong.append(f"clip {row}: [{starts[row]}, {starts[row] + lengths[row]}) lies outside the {n_samples} samples")
    order = np.argsort(starts, kind="stable")
    behind = starts[order][1:] < (starts + lengths)[order][:-1]
    for place in np.flatnonzero(behind).tolist():
        wrong.append(f"clips {order[place]} and {order[place + 1]} overlap in the audio files")
    for row in np.flatnonzero(starts % ALIGN_SAMPLES).tolist():
        wrong.append(f"clip {row}: starts at sample {starts[row]}, not a multiple of {ALIGN_SAMPLES}")
    ends = np.cumsum([entry["n_samples"] for entry in store.info["audio"]])
    split = inside & (
        np.searchsorted(ends, starts, side="right") != np.searchsorted(ends, starts + lengths - 1, side="right")
    )
    for row in np.flatnonzero(split).tolist():
        wrong.append(f"clip {row}: lies in two audio files")
    wrong.extend(_check_active(store))
    for name in RANGES:
        if store.has(name):
            try:
                store.numbers(name)
            except StoreError as error:
                wrong.append(str(error))
    if store.block_samples != block_samples(store.sample_rate) or not np.array_equal(
        store.band_edges_hz, band_edges_hz(store.sample_rate)
    ):
        wrong.append(f"the blocks or bands of the energy table are not those of {store.sample_rate} Hz")
    n_blocks = int(np.sum(-(-lengths // store.block_samples)))
    if n_blocks != store.info["n_blocks"]:
        wrong.append(f"the energy table has {store.info['n_blocks']} blocks, the clips' lengths ask for {n_blocks}")
    fingerprint = Fingerprint(store.kind, store.sample_rate)
    seen: dict[str, int] = {}
    usable = inside & ~split
    for row, said in enumerate(iter_rows(store.path / CLIPS_FILE)):
        try:
            fingerprint.add(said)
        except ValueError:
            wrong.append(f"clip {row}: holds a number that is not finite")
        clip_id = said["clip_id"]
        if clip_id in seen:
            wrong.append(f"clips {seen[clip_id]} and {row} have the same clip_id {clip_id}")
        seen.setdefault(clip_id, row)
        if usable[row]:
            pcm = store.samples(int(starts[row]), int(lengths[row]))
            if clip_hash(pcm) != clip_id:
                wrong.append(f"clip {row}: its audio is not the audio of clip_id {clip_id}")
            if int(np.max(np.abs(pcm.astype(np.int32)))) != PCM_PEAK:
                wrong.append(f"clip {row}: its peak is not {PCM_PEAK}")
        progress(row + 1)
    if fingerprint.hexdigest() != store.fingerprint:
        wrong.append(f"the rows give fingerprint {fingerprint.hexdigest()}, the store says {store.fingerprint}")
    return wrong


def _check_active(store: ClipStore) -> list[str]:
    names = [name for name in ("active_start", "active_end", "energy_q25", "energy_q75") if store.has(name)]
    if not names:
        return []
    start, end = store.raw_active()
    _, lengths = store.raw_extents()
    inside = (start >= 0) & (start < end) & (end <= lengths)
    wrong = [
        f"clip {row}: active part [{start[row]}, {end[row]}) is not inside its {lengths[row]} samples"
        for row in np.flatnonzero(~inside).tolist()
    ]
    for name in ("energy_q25", "energy_q75"):
        if name in names:
            column: pa.ChunkedArray = store.columns([name])[name]
            value = column.fill_null(-1).to_numpy()
            outside = (value >= 0) & ((value < start) | (value > end))
            wrong += [f"clip {row}: {name} is not in its active part" for row in np.flatnonzero(outside).tolist()]
    return wrong
