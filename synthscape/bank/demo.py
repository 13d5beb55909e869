"""The demo bank: synthetic voices and backgrounds as two stores, made in seconds, no download.

::

    pseudovox, backgrounds = make_demo_bank(Path("banks/demo"))
    ClipStore.open(pseudovox).clips["species"].unique()

The stores are built as any are: whole recordings in, clips cut at their annotations, everything else measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from synthscape.bank.build import Box, Recording, build_store
from synthscape.bank.store import ClipStore
from synthscape.bank.synthetic_backgrounds import backgrounds
from synthscape.bank.synthetic_voices import DEMO_RATE, ORDER, Track, voice_tracks
from synthscape.errors import StoreError
from synthscape.files import ASIDE_PREFIX, write_json

DEMO_VERSION: Final = 2  # raised whenever the same seed would give another bank
DEMO_FILE: Final = "demo.json"
# Clusters as clustering finds them: one for each call type; finer, its low and its high voices apart; coarser, what
# the calls of a genus that are alike in sound and rhythm have in common.
CLUSTERS: Final = ("cluster_8", "cluster_64")
_STORES: Final = ("pseudovox", "backgrounds")
_SOURCE: Final = "synthscape demo"
_LICENCE: Final = "CC0-1.0"


def make_demo_bank(folder: str | Path, seed: int = 0) -> tuple[Path, Path]:
    """Make the demo bank, or find it made.

    120 recordings of 30 individuals of 10 made-up species with 30 call types, by 6 recordists at 8 sites, become about
    850 clips; 24 recordings of wind, rain, stream, surf, hum and night become as many backgrounds. A bank that is there
    already, whole and with the same seed, is used as it is; what an interrupted run left is made anew.

    Args:
        folder: where the two stores go; made if missing.
        seed: 0 to 2**64 - 1; other seeds give other individuals and other weather.

    Returns:
        The folders of the stores: pseudovox, backgrounds.

    Raises:
        StoreError: the folder holds something else, or the demo bank of another seed or version.
        ValueError: the seed is out of range.
    """
    if not 0 <= seed < 2**64:
        raise ValueError(f"the seed must be between 0 and 2**64 - 1, got {seed}")
    home = Path(folder)
    wanted = {"format": "synthscape-demo", "version": DEMO_VERSION, "seed": seed}
    made = _made(home, wanted)
    if len(made) < len(_STORES):
        home.mkdir(parents=True, exist_ok=True)
        # Said first, so that stores which a killed run leaves are known to be ours.
        write_json(home / DEMO_FILE, {**wanted, "fingerprints": made})
        for kind in _STORES:
            if kind not in made:
                made[kind] = _build(home / kind, kind, seed)
                in_order = {name: made[name] for name in _STORES if name in made}
                write_json(home / DEMO_FILE, {**wanted, "fingerprints": in_order})
    return home / _STORES[0], home / _STORES[1]


def voice_recordings(seed: int = 0) -> Iterator[Recording]:
    """The tracks of all synthetic voices with a box for each call: as an annotated archive would give them."""
    for track in voice_tracks(seed):
        species = track.species
        boxes = [
            Box(
                call.onset / DEMO_RATE,
                call.offset / DEMO_RATE,
                call.low_hz,
                call.high_hz,
                {"call_type": call.call_type, **_clusters(track, call.call_type)},
            )
            for call in track.calls
        ]
        columns: dict[str, Any] = {
            "track_id": track.recording_id,
            "recordist": track.recordist,
            "site": track.site,
            "datetime": track.datetime,
            "source": _SOURCE,
            "licence": _LICENCE,
            "species": species.name,
            "genus": species.genus,
            "family": species.family,
            "order": ORDER,
            "individual": track.individual,
            "unit": "call",
            "medium": "air",
        }
        yield Recording(track.recording_id, track.samples, columns, boxes)


def _clusters(track: Track, call_type: str) -> dict[str, str]:
    species = track.species
    (rhythm,) = (call.rhythm for call in species.calls if call.name == call_type)
    cluster = f"{species.name.split()[1]}-{call_type}"
    return {
        "cluster": cluster,
        "cluster_8": f"{cluster}-{'high' if track.voice.pitch > 1 else 'low'}",
        "cluster_64": f"{species.genus.lower()}-{species.sound}-{rhythm}",
    }


def background_recordings(seed: int = 0) -> Iterator[Recording]:
    """All synthetic backgrounds. Their animal score is 0: no animal is in them by construction."""
    for scape in backgrounds(seed):
        columns: dict[str, Any] = {
            "recordist": scape.recordist,
            "site": scape.site,
            "datetime": scape.datetime,
            "source": _SOURCE,
            "licence": _LICENCE,
            "medium": "air",
            "animal_score": 0.0,
        }
        yield Recording(scape.recording_id, scape.samples, columns, [])


def _build(path: Path, kind: str, seed: int) -> str:
    recordings = voice_recordings(seed) if kind == "pseudovox" else background_recordings(seed)
    cut = "annotations" if kind == "pseudovox" else "whole"
    settings = {"demo_version": DEMO_VERSION, "demo_seed": seed}
    clusters = CLUSTERS if kind == "pseudovox" else ()
    report = build_store(
        recordings, path, kind, DEMO_RATE, cut, overwrite=True, cluster_columns=clusters, settings=settings
    )
    return report.fingerprint


def _made(home: Path, wanted: dict[str, Any]) -> dict[str, str]:
    """Fingerprints of the stores that are there already, by name; raises if anything else is there."""
    if home.exists() and not home.is_dir():
        raise StoreError(f"{home} is a file; name a folder for the demo bank")
    if not home.exists() or all(entry.name.startswith(ASIDE_PREFIX) for entry in home.iterdir()):
        return {}
    marker = home / DEMO_FILE
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
        fingerprints = dict(found["fingerprints"])
        is_demo = found["format"] == wanted["format"]
    except FileNotFoundError:
        raise StoreError(f"{home} holds something that is no demo bank (no {DEMO_FILE}); name another folder") from None
    except (ValueError, KeyError, TypeError):
        is_demo = False
    if not is_demo:
        raise StoreError(f"{marker} can't be read as a demo bank's; name another folder, or delete this one")
    for key in ("version", "seed"):
        if found.get(key) != wanted[key]:
            raise StoreError(
                f"{home} is a demo bank of {key} {found.get(key)!r}, asked for was {wanted[key]}: name another folder, "
                "or delete this one to have it made anew"
            )
    made = {}
    for kind in _STORES:
        if kind not in fingerprints or not (home / kind).exists():
            continue
        got = ClipStore.open(home / kind).fingerprint
        if got != fingerprints[kind]:
            raise StoreError(
                f"{home / kind} is not the store that the demo made (fingerprint {got}, expected "
                f"{fingerprints[kind]}): name another folder, or delete it to have it made anew"
            )
        made[kind] = got
    return made
