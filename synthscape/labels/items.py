"""The items table: what is asked, what is right, and what everything was made from. One row an item, for every task.

Columns and their meaning stand in :data:`ITEMS_SCHEMA`, as for events and scenes.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from synthscape.labels.schema import described, listed

_TEXT, _TEXTS = pa.string(), listed(pa.string())

_OPTION: Final = pa.struct(
    [
        pa.field("letter", _TEXT),  # A, B, ...
        pa.field("class", _TEXT),  # as in the events table
        pa.field("species", _TEXT),
        pa.field("call_type", _TEXT),
        pa.field("present", pa.bool_()),  # it is heard in the query (of a choice: it is what the query is)
        pa.field("example_scene_ids", _TEXTS),  # its example clips
    ]
)
_SOURCE: Final = pa.struct(
    [
        pa.field("scene_id", _TEXT),
        pa.field("event_id", pa.int32()),
        pa.field("role", _TEXT),
        pa.field("clip_id", _TEXT),
        pa.field("recording_id", _TEXT),
        pa.field("source_uid", _TEXT),
        pa.field("recordist", _TEXT),
        pa.field("site", _TEXT),
        pa.field("licence", _TEXT),
    ]
)
_REGION: Final = pa.struct(
    [
        pa.field("scene_id", _TEXT),
        pa.field("onset", pa.int64()),
        pa.field("offset", pa.int64()),  # exclusive
        pa.field("label", _TEXT),  # POS or UNK; all else is NEG
    ]
)
_TIME: Final = pa.struct([pa.field("onset_s", pa.float64()), pa.field("offset_s", pa.float64())])

ITEMS_SCHEMA: Final = pa.schema(
    [
        described("item_id", _TEXT, "", "name of the item", nullable=False),
        described("item_number", pa.int64(), "", "epoch x 2**40 + index", nullable=False),
        described("task", _TEXT, "", "the spec's task", nullable=False),
        described("scene_ids", _TEXTS, "", "its audio in the order a model hears it: examples, background, query"),
        described("audio", _TEXTS, "", "what the scenes table calls that audio; null where none is written"),
        described("query_scene_id", _TEXT, "", "what is asked about"),
        described("background_scene_id", _TEXT, "", "a clip of the query's background without calls, or null"),
        described("options", listed(_OPTION), "", "what is asked about, in the order of letters"),
        described(
            "answer", _TEXT, "", "the right answer: a letter, letters, Yes, No, a number, a class, times, or None"
        ),
        described("answer_letters", _TEXTS, "", "letters of the options that are right"),
        described("count", pa.int32(), "", "with task: counting, the number that is right"),
        described(
            "times", listed(_TIME), "s", "when what is asked about is heard in the query; null unless it is asked"
        ),
        described("regions", listed(_REGION), "samples", "with task: few_shot_scenes, POS and UNK; all else is NEG"),
        described("negatives", _TEXT, "", "how the types were chosen: within_species, same_genus, ..., random"),
        described("matched", pa.bool_(), "", "all options match in duration and frequency"),
        described("domain_shift", pa.bool_(), "", "the query lies over other background files than the examples"),
        described("apart", _TEXTS, "", "what examples and query never share: recording, recordist, site"),
        described("sources", listed(_SOURCE), "", "the clip behind every event of its scenes, patches too"),
        described("licences", _TEXTS, "", "all licences of clips and backgrounds, each once"),
        described("wording", pa.int32(), "", "number of the paraphrase of the question"),
    ]
)
