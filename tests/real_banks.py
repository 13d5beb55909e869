"""Stores of real calls with known types, and of real backgrounds, built from the test recordings.

    bank = make_real_bank(folder / "whales", shared_data, ["orca", "humpback"])
    backgrounds = make_real_backgrounds(folder / "fields", shared_data)

A file is a recording of its own unless it is cut into calls: nothing says who recorded what, so recordist and site are
null, and match nothing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from synthscape.bank.activity import find_windows
from synthscape.bank.annotations import Annotations
from synthscape.bank.build import Box, Recording, Rejection, build_store
from synthscape.bank.metadata import Metadata
from synthscape.bank.sources import Folder, read_recordings
from synthscape.bank.store import ClipStore

RATE = 16000

# The folders of each part, and the medium.
PARTS: dict[str, tuple[tuple[str, ...], str]] = {
    "orca": (("isolated/orcasound_srkw_calls",), "water"),
    "humpback": (("isolated/orcasound_humpback",), "water"),
    "hermit": (("isolated/naturesounds_hermit",), "air"),
    "finch": (("recordings/koumura_bengalese",), "air"),
    "animals": (("recordings/esc50_animals",), "air"),
    "others": (("isolated/naturesounds_monk_parakeet", "isolated/zeroad_fauna", "isolated/animalia"), "air"),
}

# Genus is the first word of a binomial; what the index has no binomial for is called by its common name.
FAMILIES = {
    "Orcinus": "Delphinidae",
    "Megaptera": "Balaenopteridae",
    "Phaethornis": "Trochilidae",
    "Lonchura": "Estrildidae",
    "Felis": "Felidae",
    "Panthera": "Felidae",
    "Gallus": "Phasianidae",
    "Pavo": "Phasianidae",
    "Meleagris": "Phasianidae",
    "Bos": "Bovidae",
    "Equus": "Equidae",
    "Rangifer": "Cervidae",
    "Myiopsitta": "Psittacidae",
    "Cardinalis": "Cardinalidae",
}
FIELDS = {
    "backgrounds/scikit_maad_jura": "air",
    "backgrounds/zeroad_ambient": "air",
    "backgrounds/orcasound_underwater": "water",
}


def make_real_bank(folder: Path, data: Path, parts: Sequence[str] = tuple(PARTS)) -> ClipStore:
    """Calls of the named parts in one store.

    Args:
        folder: where it goes.
        data: the folder of test recordings.
        parts: of :data:`PARTS`.
    """
    index = _index(data)
    recordings: list[Iterable[Recording | Rejection]] = []
    for part in parts:
        folders, medium = PARTS[part]
        rows = [row for row in index if row["path"].rpartition("/")[0] in folders]
        columns = {row["path"]: _columns(row, medium) for row in rows}
        boxes = _finch_boxes(data) if part == "finch" else {row["path"]: [_box(row)] for row in rows}
        found = read_recordings(
            Folder(data, sorted(columns)), RATE, metadata=Metadata(columns), annotations=Annotations(boxes)
        )
        recordings.append(_cut_at_windows(found) if part == "animals" else found)
    build_store((one for some in recordings for one in some), folder, "pseudovox", RATE, "annotations")
    return ClipStore.open(folder)


def make_real_backgrounds(folder: Path, data: Path) -> ClipStore:
    """A night in a forest, rain, rivers, wind and waves, and the sea below."""
    rows = [row for row in _index(data) if row["path"].rpartition("/")[0] in FIELDS]
    columns = {}
    for row in rows:
        source = row["path"].rpartition("/")[0]
        site = source if source.endswith(("jura", "underwater")) else row["path"]
        columns[row["path"]] = {
            "medium": FIELDS[source],
            "site": site,
            "licence": row["licence"],
            "source": row["source"],
        }
    found = read_recordings(Folder(data, sorted(columns)), RATE, metadata=Metadata(columns))
    build_store(found, folder, "backgrounds", RATE, "whole")
    return ClipStore.open(folder)


def _index(data: Path) -> list[dict[str, str]]:
    with (data / "index.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _columns(row: Mapping[str, str], medium: str) -> dict[str, Any]:
    species = row["species_scientific"] or row["common_name"]
    genus = species.split()[0]
    return {
        "species": species,
        "genus": genus if genus in FAMILIES else None,
        "family": FAMILIES.get(genus),
        "call_type": row["call_type"] or None,
        "medium": medium,
        "unit": "call",
        "licence": row["licence"],
        "source": row["source"],
    }


def _box(row: Mapping[str, str]) -> Box:
    """The call where the index says it is, else the whole file."""
    said = re.search(r"call at ([\d.]+)-([\d.]+) s", row["notes"])
    onset_s, offset_s = (float(said[1]), float(said[2])) if said else (0.0, float(row["duration_s"]))
    return Box(onset_s, offset_s)


def _cut_at_windows(recordings: Iterable[Recording | Rejection]) -> Iterator[Recording | Rejection]:
    """Each loud stretch of a recording is a call."""
    for one in recordings:
        if isinstance(one, Recording):
            windows = find_windows(one.samples, RATE)
            boxes = [Box(window.tight_start / RATE, window.tight_end / RATE) for window in windows]
            one = Recording(one.recording_id, one.samples, one.columns, boxes, name=one.name)
        yield one


def _finch_boxes(data: Path) -> dict[str, list[Box]]:
    """Syllables of a Bengalese finch: onsets and labels of its songs, in samples at 32 kHz."""
    folder = data / PARTS["finch"][0][0]
    boxes: dict[str, list[Box]] = {}
    for song in ElementTree.parse(folder / "Bird0_Annotation_subset.xml").iter("Sequence"):

        def value(of: ElementTree.Element, name: str) -> str:
            return of.findtext(name) or ""

        name = f"{PARTS['finch'][0][0]}/{Path(value(song, 'WaveFileName')).stem}.flac"
        begin = int(value(song, "Position"))
        for note in song.iter("Note"):
            onset = begin + int(value(note, "Position"))
            offset = onset + int(value(note, "Length"))
            columns = {"call_type": f"syllable {value(note, 'Label')}", "unit": "element", "individual": "Bird0"}
            boxes.setdefault(name, []).append(Box(onset / 32000, offset / 32000, columns=columns))
    return boxes
