"""CSVs of few-shot detection as DCASE task 5 has them: ``Audiofilename,Starttime,Endtime,Q``, Q being POS or UNK.

What its evaluation asks of such a file, and how it is met:

- Rows are sorted by ``Starttime``: the fifth POS by place in the file ends the shots that are not scored.
- Each call is a row, also where calls overlap: predictions are matched with rows one to one, first POS, then UNK. So
  rows are made of spans, one for each call, not of regions, which join what touches.
- It looks for a file named as the audio, its last four characters replaced by ``.csv``, and reads no others than
  ``.wav``; and a file needs five POS.
- Times have nine decimals of a second, so that the nearest sample is the right one at any rate.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Final

from synthscape.labels.regions import NEG, Region

COLUMNS: Final = ("Audiofilename", "Starttime", "Endtime", "Q")
SUFFIX: Final = ".csv"


def dcase_csv(audio_name: str, spans: Iterable[Region], sample_rate: int) -> str:
    """Text of the CSV of a scene; the header alone where nothing is POS or UNK.

    >>> print(dcase_csv("s000000000.wav", [Region(8000, 12000, "POS")], 16000), end="")
    Audiofilename,Starttime,Endtime,Q
    s000000000.wav,0.500000000,0.750000000,POS

    Args:
        audio_name: name of the audio file, without folders.
        spans: of the scene, in any order.
        sample_rate: Hz.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for span in sorted(span for span in spans if span.label != NEG):
        times = [f"{samples / sample_rate:.9f}" for samples in (span.onset, span.offset)]
        table.writerow([audio_name, *times, span.label])
    return text.getvalue()
