"""The columns of the events and scenes tables: names, types, units, and what each one means.

Unit and meaning stand in the metadata of each field, so that they are in every Parquet file too::

    >>> EVENTS_SCHEMA.field("onset_s").metadata[b"unit"]
    b's'
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from synthscape.plan.plan import DROP_REASONS


def described(name: str, kind: pa.DataType, unit: str, meaning: str, *, nullable: bool = True) -> pa.Field:
    """A column whose unit and meaning stand in its metadata."""
    return pa.field(name, kind, nullable, {"unit": unit, "description": meaning})


def listed(kind: pa.DataType) -> pa.DataType:
    """A list column."""
    return pa.list_(pa.field("element", kind))  # as Parquet names it, so that types are the same when read back


_TEXT, _INT32, _INT64, _FLOAT, _DOUBLE, _BOOL = (
    pa.string(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
)

EVENTS_SCHEMA: Final = pa.schema(
    [
        described("scene_id", _TEXT, "", "the scene the event is heard in", nullable=False),
        described("event_id", _INT32, "", "number of the event in its scene, from 0, by onset", nullable=False),
        described("onset", _INT64, "samples", "first sample of the active part, cut by the scene", nullable=False),
        described(
            "offset", _INT64, "samples", "one past the last sample of the active part (exclusive)", nullable=False
        ),
        described("onset_s", _DOUBLE, "s", "onset / sample rate", nullable=False),
        described("offset_s", _DOUBLE, "s", "offset / sample rate (exclusive)", nullable=False),
        described(
            "clip_onset",
            _INT64,
            "samples",
            "first sample of the whole clip; negative if the scene cuts its start",
            nullable=False,
        ),
        described(
            "clip_offset",
            _INT64,
            "samples",
            "one past the last sample of the whole clip; beyond the scene if the scene cuts its end",
            nullable=False,
        ),
        described("low_hz", _FLOAT, "Hz", "lower edge of the call's band as played, at most the Nyquist frequency"),
        described("high_hz", _FLOAT, "Hz", "upper edge of the call's band as played, at most the Nyquist frequency"),
        described("peak_hz", _FLOAT, "Hz", "frequency of most energy as played; null if beyond the Nyquist frequency"),
        described("f0_hz", _FLOAT, "Hz", "fundamental as played; null if not measured or beyond the Nyquist frequency"),
        described("species", _TEXT, "", "binomial, as the bank says"),
        described("genus", _TEXT, "", "genus, as the bank says"),
        described("family", _TEXT, "", "family, as the bank says"),
        described("call_type", _TEXT, "", "kind of call, as the bank says"),
        described("cluster", _TEXT, "", "acoustic cluster, from the column the spec's `classes.column` names"),
        described("unit", _TEXT, "", "what the clip holds: element, call or bout"),
        described(
            "speaker",
            _TEXT,
            "",
            "the caller, `<species>_<n>`: n counts a species' callers from 1 by first onset in the scene; "
            "null where callers are not told apart (with bouts, choruses and antiphony they always are)",
        ),
        described("role", _TEXT, "", "target, distractor or support", nullable=False),
        described(
            "snr_db",
            _FLOAT,
            "dB",
            "SNR asked for, of the whole gain group; null with `events.level.mode: source` and in scenes without a "
            "background, where none is",
        ),
        described(
            "snr_scene_db", _FLOAT, "dB", "SNR reached, against the whole background; null if the scene has none"
        ),
        described(
            "snr_local_db",
            _FLOAT,
            "dB",
            "SNR reached, against the background in [onset, offset); null if there is none",
        ),
        described(
            "snr_band_db",
            _FLOAT,
            "dB",
            "SNR reached in [onset, offset) and in the band of the call; null if that holds no background, "
            "the band is not known, or `events.snr.measure_band` is false",
        ),
        described(
            "snr_loudness_db",
            _FLOAT,
            "LU",
            "loudness reached (BS.1770) against the whole background; null unless `events.snr.reference` is loudness",
        ),
        described(
            "source_level_db",
            _FLOAT,
            "dB",
            "RMS level of the call's active part 1 m from the animal, of the whole gain group; re 20 uPa in air, "
            "1 uPa in water; null with `events.level.mode: snr`",
        ),
        described("distance_m", _DOUBLE, "m", "distance of the animal; null if it is not propagated"),
        described(
            "gain_db", _FLOAT, "dB", "gain from the stored clip to the mix, before the scene gain", nullable=False
        ),
        described(
            "signal_share",
            _FLOAT,
            "",
            "share k of the clip's power that is call: SNR = k P / P_background; 1 where the clip's noise is ignored",
            nullable=False,
        ),
        described(
            "clip_snr_db", _FLOAT, "dB", "call above the clip's own noise floor; null if there is none to measure"
        ),
        described(
            "audible",
            _BOOL,
            "",
            "snr_band_db is at least the spec's `events.snr.audible_db`, and offset - onset at least 20 ms; "
            "null where snr_band_db is, but for scenes without a background, where nothing masks it: long enough is "
            "audible",
        ),
        described("clip_id", _TEXT, "", "hash of the clip's audio in the bank", nullable=False),
        described("recording_id", _TEXT, "", "the recording the clip was cut from"),
        described("track_id", _TEXT, "", "the track the clip was cut from, as the bank says"),
        described(
            "resample",
            _TEXT,
            "",
            "ratio P/Q the clip is played at: P/Q times as long, frequencies times Q/P",
            nullable=False,
        ),
        described("reversed", _BOOL, "", "the clip is played backwards", nullable=False),
        described(
            "altered", _BOOL, "", "the ratio moves part of the call beyond the Nyquist frequency", nullable=False
        ),
        described("truncated", _BOOL, "", "the scene cuts the active part", nullable=False),
        described("impulse_id", _TEXT, "", "clip_id of the impulse response it is heard through; null if none"),
        described("rt60_s", _DOUBLE, "s", "time in which its made-up reverberation decays by 60 dB; null if none"),
        described(
            "direct_to_reverberant_db",
            _FLOAT,
            "dB",
            "energy of the direct sound against its made-up reverberation; null if none",
        ),
        described("tail_s", _DOUBLE, "s", "length of the reverberation after offset; 0 without", nullable=False),
        described("class", _TEXT, "", "name of the class, one of the dataset's class list", nullable=False),
        described("individual", _TEXT, "", "the animal, as the bank says"),
    ]
)

SCENES_SCHEMA: Final = pa.schema(
    [
        described(
            "scene_id",
            _TEXT,
            "",
            "`s` and the index in nine digits; from epoch 1 on `e<epoch>-` before it; a scene of an item: "
            "`<item_id>-<part>`",
            nullable=False,
        ),
        described("item_id", _TEXT, "", "the item the scene is a part of; null where the item is the scene itself"),
        described(
            "part",
            _TEXT,
            "",
            "what the scene is in its item: query, background, support, or the example `a1`, `a2`, ...; null likewise",
        ),
        described(
            "scene_number",
            _INT64,
            "",
            "epoch x 2^40 + index: all that a scene depends on, beside the spec",
            nullable=False,
        ),
        described("duration_s", _DOUBLE, "s", "n_samples / sample_rate", nullable=False),
        described("n_samples", _INT64, "samples", "length of the scene", nullable=False),
        described("sample_rate", _INT32, "Hz", "samples per second", nullable=False),
        described("month", _INT32, "", "month of the scene, 1 to 12, drawn for its community; null where none is"),
        described("hour", _INT32, "", "hour of the scene, 0 to 23, drawn for its community; null where none is"),
        described(
            "n_asked",
            _INT32,
            "",
            "placements the spec asked for: calls, or whole tracks with `events.group: track`, and callers that there "
            "are too few of",
            nullable=False,
        ),
        described(
            "n_placed",
            _INT32,
            "",
            "placements made, patches among them: n_asked less those in drop_reasons",
            nullable=False,
        ),
        described(
            "n_outside",
            _INT32,
            "",
            "calls of placed tracks, bouts and exchanges that lie outside of the scene",
            nullable=False,
        ),
        described(
            "drop_reasons",
            pa.struct([pa.field(reason, _INT32, nullable=False) for reason in DROP_REASONS]),
            "",
            "placements left out, counted by reason",
            nullable=False,
        ),
        described("n_redrawn", _INT32, "", "attempts at placing that were drawn again", nullable=False),
        described("n_ratios_refused", _INT32, "", "drawn ratios the clip could not be played at", nullable=False),
        described("n_events", _INT32, "", "rows of the scene in the events table", nullable=False),
        described(
            "n_patches",
            _INT32,
            "",
            "windows of recordings without calls that are mixed in, and part of the background in stems",
            nullable=False,
        ),
        described("n_species", _INT32, "", "species named in the scene's events", nullable=False),
        described("max_polyphony", _INT32, "", "most events active in one sample", nullable=False),
        described(
            "background_clip_ids",
            listed(_TEXT),
            "",
            "the backgrounds mixed, one or two; null for noise",
            nullable=False,
        ),
        described("background_recording_ids", listed(_TEXT), "", "their recordings", nullable=False),
        described("background_sites", listed(_TEXT), "", "their sites", nullable=False),
        described("background_licences", listed(_TEXT), "", "their licences", nullable=False),
        described(
            "background_animal_score",
            listed(_DOUBLE),
            "",
            "how sure a classifier is that an animal is heard in them; null if not screened",
            nullable=False,
        ),
        described(
            "background_noise_slope_db",
            listed(_DOUBLE),
            "dB/octave",
            "slope of the power spectrum of those that are noise; null for files",
            nullable=False,
        ),
        described(
            "background_resample", listed(_TEXT), "", "ratios P/Q they are played at; null for noise", nullable=False
        ),
        described(
            "background_looped",
            listed(_BOOL),
            "",
            "shorter than the scene as played, so repeated with cross-fades",
            nullable=False,
        ),
        described(
            "licences",
            listed(_TEXT),
            "",
            "licences of everything in the scene, sorted; `unknown` where none is given",
            nullable=False,
        ),
        described(
            "level_dbfs", _DOUBLE, "dBFS", "RMS level of the background as delivered, without patches; null if none"
        ),
        described(
            "level_lufs",
            _DOUBLE,
            "LUFS",
            "loudness of the background as delivered (BS.1770); null unless `background.level_lufs` is set",
        ),
        described(
            "background_spl_db",
            _DOUBLE,
            "dB",
            "RMS level the background stands for in nature, re 20 uPa in air, 1 uPa in water; null unless "
            "`background.spl_db` is set",
        ),
        described(
            "room", _TEXT, "", "site (or recording) of the impulse responses events are heard through; null if none"
        ),
        described(
            "scene_gain_db",
            _DOUBLE,
            "dB",
            "gain of the whole scene, 0 or less: what kept its peak under -1 dBFS",
            nullable=False,
        ),
        described("split", _TEXT, "", "train, valid or test; null while the dataset is not split"),
        described("fingerprint", _TEXT, "", "hash of spec, stores, community table and plan version", nullable=False),
        described(
            "audio",
            _TEXT,
            "",
            "the scene's file: with `output.format: folder` its path from the dataset's folder, else its name in the "
            "`data/` file of the shard; null if it was not written",
        ),
        described("pcm_hash", _TEXT, "", "BLAKE3 (128 bits) of the 16-bit little-endian samples, hex", nullable=False),
    ]
)
