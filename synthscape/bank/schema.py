"""The columns of a store: names, types, and what each one means.

Only ``clip_id``, ``start`` and ``length`` are required; everything else may be null. Levels and spectra are measured
on what is stored (after conditioning, peak-normalised), see :mod:`synthscape.bank.features`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

FORMAT: Final = "synthscape-store"
FORMAT_VERSION: Final = 1
KINDS: Final = ("pseudovox", "backgrounds", "impulses")
MEDIA: Final = ("air", "water", "contact")  # what the microphone was in or on; calls go with backgrounds of their own
ALIGN_SAMPLES: Final = 8  # every clip starts on a multiple of this
BLOCK_S: Final = 0.05  # length of a block of the band-energy table
FULL_SCALE: Final = 32768.0  # stored sample value = int16 / FULL_SCALE
PCM_PEAK: Final = 32767  # the largest |int16| of every clip

STORE_FILE: Final = "store.json"
CLIPS_FILE: Final = "clips.parquet"
BANDS_FILE: Final = "bands.f32"
DUPLICATES_FILE: Final = "duplicates.csv"
REJECTED_FILE: Final = "rejected.csv"

_ANNOTATION: Final = pa.struct(
    [
        pa.field("onset_s", pa.float64()),
        pa.field("offset_s", pa.float64()),
        pa.field("low_hz", pa.float64()),
        pa.field("high_hz", pa.float64()),
        pa.field("label", pa.string()),
    ]
)

IDENTITY: Final[dict[str, pa.DataType]] = {
    "clip_id": pa.string(),  # hash of the stored audio: equal audio, equal id
    "recording_id": pa.string(),  # the recording the clip was cut from
    "source_uid": pa.string(),  # archive + number: one recording in two archives is one
    "track_id": pa.string(),  # clips of one track were heard together, `track_onset_s` apart
    "track_onset_s": pa.float64(),  # where the clip's first sample lies in its track
    "recordist": pa.string(),
    "site": pa.string(),
    "lat": pa.float64(),
    "lon": pa.float64(),
    "datetime": pa.string(),  # ISO 8601 as the archive gives it
    "source": pa.string(),
    "licence": pa.string(),
    "url": pa.string(),
}
BIOLOGY: Final[dict[str, pa.DataType]] = {
    "species": pa.string(),  # binomial
    "also_species": pa.list_(pa.string()),  # others the archive says are audible
    "genus": pa.string(),
    "family": pa.string(),
    "order": pa.string(),
    "call_type": pa.string(),
    "individual": pa.string(),
    "unit": pa.string(),  # element, call, bout
    "cluster": pa.string(),
    "medium": pa.string(),  # of MEDIA
}
EXTENT: Final[dict[str, pa.DataType]] = {
    "start": pa.int64(),  # first sample in the concatenated audio files
    "length": pa.int64(),  # samples
    "active_start": pa.int64(),  # the active part is [active_start, active_end), samples in the clip
    "active_end": pa.int64(),
    "energy_q25": pa.int64(),  # samples by which a quarter, three quarters of the active part's energy has passed
    "energy_q75": pa.int64(),
    "duty": pa.float64(),  # share of the active part in which the envelope is above threshold
}
ACOUSTICS: Final[dict[str, pa.DataType]] = {
    "peak": pa.float64(),  # max |x| before normalising: original value = int16 / 32767 * peak
    "rms_db": pa.float64(),
    "lufs": pa.float64(),
    "dc_removed": pa.float64(),  # mean of the recording, original scale
    "low_hz": pa.float64(),
    "high_hz": pa.float64(),
    "band_fraction": pa.float64(),
    "peak_hz": pa.float64(),
    "f0_hz": pa.float64(),
    "bandwidth_hz": pa.float64(),
    "clip_snr_db": pa.float64(),
    "signal_share": pa.float64(),
    "min_ratio_index": pa.int16(),
    "quality": pa.float64(),
}
USE: Final[dict[str, pa.DataType]] = {
    "split": pa.string(),
    "duplicate_group": pa.string(),
    "excluded": pa.string(),  # the reason, or empty
    "animal_score": pa.float64(),  # backgrounds: how sure a classifier is that an animal is heard
    "annotations": pa.list_(_ANNOTATION),  # backgrounds: known events
}
COLUMNS: Final[dict[str, pa.DataType]] = {**IDENTITY, **BIOLOGY, **EXTENT, **ACOUSTICS, **USE}
REQUIRED: Final = ("clip_id", "start", "length")

# What a number can be, both ends included; what is computed with must lie there, whoever wrote the store.
RANGES: Final[dict[str, tuple[float, float]]] = {
    "track_onset_s": (-1e9, 1e9),
    "energy_q25": (0, 2**53),
    "energy_q75": (0, 2**53),
    "peak": (1e-45, 1e300),
    "low_hz": (0, 1e9),
    "bandwidth_hz": (0, 1e9),
    "high_hz": (0, 1e9),
    "signal_share": (1e-6, 1),
    "min_ratio_index": (0, 256),
    "animal_score": (-1e9, 1e9),
}

# What a metadata table may say. The rest is measured, or set by the writer.
METADATA_COLUMNS: Final = tuple(
    [name for name in IDENTITY if name != "clip_id"]
    + list(BIOLOGY)
    + ["quality", "split", "duplicate_group", "excluded", "animal_score"]
)


def is_cluster(name: str) -> bool:
    """True of ``cluster`` and every ``cluster_*``: columns that name acoustic clusters."""
    return name == "cluster" or (name.startswith("cluster_") and len(name) > len("cluster_"))


def store_schema(cluster_columns: Iterable[str] = ()) -> pa.Schema:
    """The Arrow schema of ``clips.parquet``, with the named ``cluster_*`` columns after ``cluster``.

    >>> store_schema(["cluster_8"]).field("cluster_8").type
    DataType(string)

    Raises:
        ValueError: a name is not ``cluster_*``.
    """
    fields: list[pa.Field] = []
    for name, kind in COLUMNS.items():
        fields.append(pa.field(name, kind, nullable=name not in REQUIRED))
        if name == "cluster":
            for extra in cluster_columns:
                if extra in COLUMNS or not is_cluster(extra):
                    raise ValueError(f"an extra column must be named cluster_<something>, got {extra!r}")
                fields.append(pa.field(extra, pa.string()))
    return pa.schema(fields)


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint for an unknown name: ``"; did you mean 'species'?"``, or nothing if none is near."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
