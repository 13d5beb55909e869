"""RTTM files: who calls when, for what scores diarization (pyannote, dscore, NIST's tools).

One file a scene, one line an event::

    SPEAKER s000000042 1 0.412500000 0.187250000 <NA> <NA> Corvus_corax_1 <NA> <NA>

that is, the scene, start and duration in seconds, and the caller. A scene without events has an empty file.

- Times have nine decimals, so that sample positions survive and no event gets a duration of zero.
- Lines are events: calls of one caller are not joined into turns, and inaudible ones are there too.
- Fields end at white space: each space, control character and double quote (pandas reads it as one) is written as
  ``_``. Where that makes two callers of a scene one, the one that calls later gets ``~2``, ``~3``, ... at its end.
- An event whose caller is not known is ``event_<event_id>``: a caller of its own, as nothing says that two such events
  are of one animal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

SUFFIX: Final = ".rttm"
_BREAKS: Final = re.compile(r'[\s\x00-\x1f\x7f-\x9f"]')  # what ends a field, or is no character of one
_COLUMNS: Final = ("scene_id", "event_id", "onset", "offset", "speaker")


def rttm_texts(events: pa.Table, scenes: Iterable[str], sample_rate: int) -> Iterator[tuple[str, str]]:
    """Give (scene_id, text of its RTTM file) for each of the scenes, also those without events.

    Args:
        events: events table, rows of a scene together and by onset, in any order of scenes.
        scenes: scene ids to write.
        sample_rate: Hz.
    """
    rows: dict[str, list[tuple[int, int, int, str | None]]] = {}
    for scene, *rest in zip(*(events[name].to_pylist() for name in _COLUMNS), strict=True):
        rows.setdefault(scene, []).append(tuple(rest))
    names = list(scenes)
    for scene, uri in zip(names, _written(names), strict=True):
        of_scene = rows.get(scene, [])
        # With the event's number beside it, what stands for an unknown caller is no speaker of the bank's.
        callers = [(f"event_{event}", event) if name is None else (name, None) for event, _, _, name in of_scene]
        each = list(dict.fromkeys(callers))
        label_of = dict(zip(each, _written(name for name, _ in each), strict=True))
        lines = [
            f"SPEAKER {uri} 1 {onset / sample_rate:.9f} {(offset - onset) / sample_rate:.9f} "
            f"<NA> <NA> {label_of[caller]} <NA> <NA>\n"
            for caller, (_, onset, offset, _) in zip(callers, of_scene, strict=True)
        ]
        yield scene, "".join(lines)


def _written(names: Iterable[str]) -> list[str]:
    """Names as fields of RTTM, all different as those given are (or are meant to be).

    >>> _written(["Parus major_1", "Parus_major_1", "Parus_major_1~2"])
    ['Parus_major_1', 'Parus_major_1~2', 'Parus_major_1~2~2']
    """
    taken: dict[str, None] = {}
    for name in names:
        plain = field = _BREAKS.sub("_", name) or "_"
        number = 1
        while field in taken:
            number += 1
            field = f"{plain}~{number}"
        taken[field] = None
    return list(taken)
