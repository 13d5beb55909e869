"""Selection tables for Raven (and what reads its files: Audacity plug-ins, crowsetta, opensoundscape).

One tab-separated file a scene. A scene without events has the header line alone, as Raven itself saves an empty table;
crowsetta 5 refuses such a file ("there are no rows"), and would take nothing but a made-up event instead.

- Times are written with nine decimals, so that sample positions survive; the end time is the event's exclusive offset,
  that is, the instant at which its last sample has passed.
- An event without a measured band gets 0 Hz to the Nyquist frequency, as Raven has no empty frequencies.
- Backslash, tab, newline and carriage return in a name are written ``\\\\``, ``\\t``, ``\\n``, ``\\r``; a name with
  quotes is quoted as in CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

COLUMNS: Final = (
    "Selection",
    "View",
    "Channel",
    "Begin Time (s)",
    "End Time (s)",
    "Low Freq (Hz)",
    "High Freq (Hz)",
    "Annotation",
)
SUFFIX: Final = ".Table.1.selections.txt"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def raven_tables(events: pa.Table, scenes: Iterable[str], sample_rate: int) -> Iterator[tuple[str, str]]:
    """Give (scene_id, text of its selection table) for each of the scenes, also those without events.

    Args:
        events: events table, rows of a scene together, in any order of scenes.
        scenes: scene ids to write.
        sample_rate: Hz, for the Nyquist frequency.
    """
    columns = ("scene_id", "onset", "offset", "low_hz", "high_hz", "class")
    rows: dict[str, list[tuple[int, int, float | None, float | None, str]]] = {}
    for scene, *rest in zip(*(events[name].to_pylist() for name in columns), strict=True):
        rows.setdefault(scene, []).append(tuple(rest))
    for scene in scenes:
        text = io.StringIO()
        table = csv.writer(text, delimiter="\t", lineterminator="\n")
        table.writerow(COLUMNS)
        for number, (onset, offset, low_hz, high_hz, name) in enumerate(rows.get(scene, []), start=1):
            times = [f"{samples / sample_rate:.9f}" for samples in (onset, offset)]
            band = [
                f"{0.0 if low_hz is None else low_hz:.3f}",
                f"{sample_rate / 2 if high_hz is None else high_hz:.3f}",
            ]
            table.writerow([number, "Spectrogram 1", 1, *times, *band, name.translate(_ESCAPES)])
        yield scene, text.getvalue()
