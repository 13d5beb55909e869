"""A bank and backgrounds made for tests of the question tasks: many recordings of many types, in two seconds.

What a call is (its species and type) is told by the course of its pitch, and unless the bank is ``flat`` by its band
and duration. What a recording is (noise, padding, bandwidth, who, where) varies strongly, and in the same way for every
species and type; in a ``hostile`` bank it goes with them instead, as it does in archives.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape_kernels.ratios import UNITY

RATE = 16000
FAMILIES, GENERA, SPECIES, TYPES = 3, 6, 12, 4
RECORDISTS, SITES = 6, 8
CLUSTER_COLUMNS = ("cluster_8", "cluster_64")

Float32Array = NDArray[np.float32]


@dataclass(frozen=True)
class Recording:
    """What all clips of a recording share."""

    name: str
    recordist: str
    site: str
    floor_db: float  # RMS of the noise against the call's
    tilt_db: float  # of the noise, per octave
    padding_s: tuple[float, float]  # before and after a call
    cutoff_hz: float  # nothing is above


def make_task_bank(
    folder: Path,
    *,
    hostile: bool = False,
    flat: bool = False,
    known_types: int = 2,
    recordings: int = 32,
    seed: int = 1,
) -> ClipStore:
    """About 1500 calls: 12 species of 6 genera of 3 families, 4 types each, 32 recordings a species.

    Args:
        folder: where the store goes.
        hostile: recordings hold one type each, and noise, padding, bandwidth, recordist and site go with species and
            type; otherwise each recording holds all types of its species, and recordings of one species are no more
            alike than those of two.
        flat: calls differ in nothing but the course of their pitch: all have the same band, envelope and spread of
            durations, so that whatever else tells types apart is a leak.
        known_types: how many of the four types of a species have a ``call_type``; the others have clusters only.
        recordings: of each species, with four calls each.
        seed: of everything.
    """
    rng = np.random.default_rng(seed)
    with StoreWriter(folder, "pseudovox", RATE, cluster_columns=CLUSTER_COLUMNS) as writer:
        for species in range(SPECIES):
            for number, recording in enumerate(_recordings(rng, species, recordings, hostile)):
                kinds = [number % TYPES] * TYPES if hostile else list(range(TYPES))
                track_onset_s = 0.0
                for kind in rng.permutation(kinds):
                    columns = _names(species, int(kind), known_types, number)
                    clip, measured = _clip(rng, species, int(kind), recording, flat)
                    columns |= measured | {
                        "recording_id": recording.name,
                        "track_id": recording.name,
                        "track_onset_s": track_onset_s,
                        "recordist": recording.recordist,
                        "site": recording.site,
                    }
                    writer.add(clip, columns)
                    track_onset_s += len(clip) / RATE + float(rng.uniform(0.1, 1.0))
    return ClipStore.open(folder)


def make_task_backgrounds(folder: Path, *, n: int = 20, length_s: float = 15.0, seed: int = 2) -> ClipStore:
    """Noise of ``n`` spectra and levels, two files a site.

    The first is listed as a recording of the bank's first species, the second as one in which its second is heard too,
    and the third and fourth have annotations of an animal.
    """
    rng = np.random.default_rng(seed)
    heard: dict[int, dict[str, Any]] = {
        0: {"species": species_name(0)},
        1: {"species": "Homo sapiens", "also_species": [species_name(1)]},
        2: {"annotations": [_annotation(2.0, 3.5, "bird")]},
        3: {"annotations": [_annotation(1.0, 1.4, species_name(2)), _annotation(9.0, 11.0, "frog")]},
    }
    with StoreWriter(folder, "backgrounds", RATE) as writer:
        for k in range(n):
            samples = int(length_s * float(rng.uniform(0.8, 1.2)) * RATE)
            noise = _noise(rng, samples, float(rng.uniform(-6, 0)), float(rng.choice([8000, 8000, 6500, 5000])))
            noise *= 1 + 0.5 * np.sin(2 * np.pi * rng.uniform(0.05, 0.4) * np.arange(samples) / RATE)
            noise += 3e-4 * noise.std() * rng.standard_normal(samples)  # no band is silent
            level = 10 ** (float(rng.uniform(-50, -25)) / 20) / noise.std()
            writer.add(
                (noise * level).astype(np.float32),
                {
                    "recording_id": f"background-{k}",
                    "site": f"field {k // 2}",
                    "recordist": f"recordist of fields {k % 3}",
                    "medium": "air",
                    "licence": ("CC0-1.0", "CC-BY-4.0", "CC-BY-NC-4.0")[k % 3],
                    "source": "made up",
                    **heard.get(k, {}),
                },
            )
    return ClipStore.open(folder)


def species_name(species: int) -> str:
    """Binomial of the n-th species; two of them make a genus, four a family."""
    return f"Genus{species // 2} species{species}"


def _names(species: int, kind: int, known_types: int, number: int) -> dict[str, Any]:
    name = f"{species}-{kind}"
    return {
        "species": species_name(species),
        "genus": f"Genus{species // 2}",
        "family": f"Family{species // 4}",
        "order": "Order",
        "call_type": f"type {'abcd'[kind]}" if kind < known_types else None,
        "cluster": name,
        # the first type falls into two fine clusters; two types of a species share a coarse one where the name is known
        "cluster_8": f"{name}-{number % 2}" if kind == 0 else name,
        "cluster_64": f"{species}-{max(kind, 1)}",
        "individual": f"{species}-{number // 2}",
        "unit": "call",
        "medium": "air",
        "source": "made up",
        "licence": ("CC0-1.0", "CC-BY-4.0", "CC-BY-NC-4.0", "CC-BY-ND-4.0")[number % 4] if number < 8 else "CC0-1.0",
    }


def _recordings(rng: np.random.Generator, species: int, count: int, hostile: bool) -> list[Recording]:
    """The recordings of a species."""
    recordists, sites = (rng.permutation(np.arange(count) % choices) for choices in (RECORDISTS, SITES))
    recordings = []
    for number in range(count):
        kind = number % TYPES
        floor, tilt, before, after, cutoff = rng.random(
            5
        )  # each for itself: no two recordings are more alike than others
        recordist, site = int(recordists[number]), int(sites[number])
        if hostile:
            floor, cutoff = 0.9 * (species * 5 % SPECIES) / SPECIES + 0.1 * floor, (species * 7 % SPECIES) / SPECIES
            tilt, before, after = (
                0.8 * one + 0.2 * own
                for one, own in zip(
                    (kind / 3, (kind + 1) % 4 / 3, (kind + species) % 5 / 4), (tilt, before, after), strict=True
                )
            )
            recordist = (species + number // TYPES % 4) % RECORDISTS
            site = (3 * species + kind + number // TYPES % 4) % SITES
        recordings.append(
            Recording(
                f"r{species}-{number}",
                f"recordist {recordist}",
                f"site {site}",
                -48 + 30 * float(floor),
                -5 + 5 * float(tilt),
                (0.03 + 0.25 * float(before), 0.03 + 0.25 * float(after)),
                8000.0 if cutoff > 0.4 else 4600 + 4500 * float(cutoff),
            )
        )
    return recordings


def _clip(
    rng: np.random.Generator,
    species: int,
    kind: int,
    recording: Recording,
    flat: bool,
) -> tuple[Float32Array, dict[str, Any]]:
    """A call in the noise of its recording, and what is true of it."""
    octaves = 0.8
    extent = rng.random(3)
    if flat:
        duration_s, low_hz = 2 ** (-1.8 + 2.1 * extent[0]), 500 * 2 ** (2 * extent[1])
    else:
        base_s = (0.22, 0.5, 0.34, 0.8)[(kind + species) % TYPES]
        duration_s = max(0.15, base_s * 2 ** (extent[0] - 0.5))
        low_hz = 500 * 2 ** (species // 2 / 3 + 0.16 * (species % 2) + 0.12 * kind + 0.16 * (extent[1] - 0.5))
    n = int(duration_s * RATE)
    # Triangles of whole periods dwell alike on every pitch of the band, whatever their number and phase.
    turns = 1 + species // 2
    at = np.linspace(0, turns, n) + (kind / TYPES if species % 2 == 0 else kind / TYPES + 0.125)
    triangle = 1 - np.abs((2 * at) % 2 - 1)
    call = np.sin(2 * np.pi * (np.cumsum(low_hz * 2 ** (octaves * triangle)) / RATE + float(rng.random())))
    # It is loudest at a place of its own, not where its pitch happens to be
    call *= 10 ** (-6 * np.abs(np.linspace(0, 1, n) - (0.1 + 0.8 * extent[2])) / 20)
    ramp = min(int(0.01 * RATE), n // 4)
    call[:ramp] *= np.linspace(0, 1, ramp)
    call[n - ramp :] *= np.linspace(1, 0, ramp)
    before, after = (int(max(0.0, pad * float(rng.uniform(0.85, 1.15))) * RATE) for pad in recording.padding_s)
    total = before + n + after
    noise = _noise(rng, total, recording.tilt_db, recording.cutoff_hz)
    floor_db = recording.floor_db + float(rng.uniform(-1, 1))
    rms = float(np.sqrt(np.mean(call**2)))
    noise *= rms * 10 ** (floor_db / 20) / float(np.sqrt(np.mean(noise**2)))
    clip = noise
    clip[before : before + n] += call
    clip *= 10 ** (float(rng.uniform(-20, 0)) / 20)

    energy = np.cumsum(call**2) / np.sum(call**2)
    size = scipy.fft.next_fast_len(n, real=True)
    spectrum = np.cumsum(np.abs(scipy.fft.rfft(call, size)) ** 2)
    low, high, peak = np.searchsorted(spectrum / spectrum[-1], (0.025, 0.975, 0.5)) * RATE / size
    noise_share = 10 ** (floor_db / 10)
    return clip.astype(np.float32), {
        "active_start": before,
        "active_end": before + n,
        "energy_q25": before + int(np.searchsorted(energy, 0.25)),
        "energy_q75": before + int(np.searchsorted(energy, 0.75)),
        "low_hz": float(low),
        "high_hz": float(high),
        "peak_hz": float(peak),
        "bandwidth_hz": recording.cutoff_hz,
        "clip_snr_db": -floor_db,
        "signal_share": 1 / (1 + noise_share),
        "min_ratio_index": int(max(0, UNITY + np.ceil(64 * np.log2(high / 7200)))),
    }


def _noise(rng: np.random.Generator, n: int, tilt_db: float, cutoff_hz: float) -> NDArray[np.float64]:
    """Gaussian noise that falls by ``-tilt_db`` an octave and ends at ``cutoff_hz``."""
    size = scipy.fft.next_fast_len(n, real=True)
    hz = np.maximum(scipy.fft.rfftfreq(size, 1 / RATE), 50.0)
    shape = 10 ** (tilt_db * np.log2(hz / 1000) / 20) * (hz <= cutoff_hz)
    bins = rng.standard_normal(2 * hz.size, dtype=np.float32).view(np.complex64)
    noise: NDArray[np.float64] = scipy.fft.irfft(bins * shape.astype(np.float32), size)[:n].astype(np.float64)
    return noise


def _annotation(onset_s: float, offset_s: float, label: str) -> dict[str, Any]:
    return {"onset_s": onset_s, "offset_s": offset_s, "low_hz": 1000.0, "high_hz": 4000.0, "label": label}
