"""The dataset card: what a dataset holds, for people and for the hub.

Names, licences and notes come from others: they are escaped, in YAML and in Markdown. Paths of this machine and clocks
are not in it.
"""

from __future__ import annotations

import copy
import re
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import yaml

from synthscape.bank.licences import normalise_licence
from synthscape.labels.facts import FACTS_SCHEMA
from synthscape.labels.items import ITEMS_SCHEMA
from synthscape.labels.schema import EVENTS_SCHEMA, SCENES_SCHEMA
from synthscape.output.parquet_shards import shard_schema
from synthscape.output.rows import hub_features, rows_schema
from synthscape.spec import Spec
from synthscape.spec.schema import OUTSIDE_FINGERPRINT, QUESTION_TASKS
from synthscape.spec.yaml_text import write_yaml

_TABLES: Final = {"scenes": SCENES_SCHEMA, "events": EVENTS_SCHEMA, "facts": FACTS_SCHEMA, "items": ITEMS_SCHEMA}
_MOST_LISTED: Final = 500  # classes and licences; all are in dataset.json
_SIZES: Final = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
#: Licences that the hub has an id for, by ours in lower case where they differ.
_OF_HUB: Final = {
    **{name: name for name in ("cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0")},
    **{name: name for name in ("cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0")},
    **{name: name for name in ("cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0")},
    **{name: name for name in ("cc-by-nc-sa-4.0", "unknown", "mit", "apache-2.0", "gpl-2.0", "gpl-3.0")},
    "cc0": "cc0-1.0",
}
_AUDIO_KINDS: Final = {
    "parquet": "Each row of `data/*.parquet` is an item: `audio` (the file's content and name) and all of its labels.",
    "webdataset": "Each `data/*.tar` holds audio files and a JSON of all labels for each item, side by side.",
    "folder": "Audio files are in `audio/`, one a scene; column `audio` of the scenes and items tables names them.",
    "none": "There is no audio in it: tables only.",
}


def dataset_card(spec: Spec, content: Mapping[str, Any]) -> str:
    """The text of ``README.md``.

    Args:
        spec: what was rendered.
        content: what ``dataset.json`` says of it.
    """
    kind = spec.output.format if spec.output.audio != "none" and spec.output.control != "text" else "none"
    said, columns = _front(spec, content, kind), _configs(spec, content, kind)
    front = yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=120) + _block(columns)
    parts = (
        f"# {markdown(spec.wording.dataset_name)}: {spec.task}",
        _what(spec, content, kind),
        "## Loading it",
        _loading(spec, kind)
        if content["counts"]["delivered"]
        else "Nothing was delivered, so there is nothing to load.",
        "## What is in it",
        _statistics(content),
        "## Licences",
        "Licences of all sources, recordings and backgrounds, with the number of scenes they are heard in. A scene is "
        "under all of its own: column `licences` of the scenes table. Where a licence asks for attribution, it asks "
        "you: recordist, recording and licence of each clip are in column `sources` of the items table.",
        _table(("licence", "scenes"), content["licences"].items()),
        "## Limitations",
        _list(_limitations(spec, content)),
        "## How it was made",
        "By synthscape, from this spec (folders are named without where they "
        "lay) and the stores below. The same spec and stores give the same dataset.",
        _fenced(write_yaml(_without_paths(spec)), "yaml"),
        _table(("store", "fingerprint", "clips"), _stores(content)),
        _table(("what", "version"), _versions(content)),
    )
    return f"---\n{front}---\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def markdown(text: str) -> str:
    r"""Text of others as Markdown that shows it as it is, on one line.

    >>> print(markdown("a|b <i>*x*</i>"))
    a\|b &lt;i&gt;\*x\*&lt;/i&gt;
    """
    one_line = "".join(" " if unicodedata.category(c).startswith(("C", "Zl", "Zp")) else c for c in text)
    html = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    plain = " -.,/();='%"
    return "".join(html.get(c) or (f"\\{c}" if c in string.punctuation and c not in plain else c) for c in one_line)


# The front matter


def _front(spec: Spec, content: Mapping[str, Any], kind: str) -> dict[str, Any]:
    asked = spec.task in QUESTION_TASKS
    return {
        **_licence(list(content["licences"])),
        "pretty_name": " ".join(f"{spec.wording.dataset_name}: {spec.task}".split()),
        "tags": ["audio", "bioacoustics", "synthetic", "sound-event-detection", "synthscape"],
        "task_categories": ["audio-classification", *(["audio-text-to-text"] if asked else [])],
        "size_categories": [_size(content["counts"]["delivered"])],
    }


def _licence(licences: Sequence[str]) -> dict[str, str]:
    """What the hub wants to hear: one of its ids, or ``other`` with a name."""
    if not licences:  # nothing was delivered
        return {}
    names = sorted({(normalise_licence(name) or "unknown").lower() for name in licences})
    if len(names) == 1 and names[0] in _OF_HUB:
        return {"license": _OF_HUB[names[0]]}
    name = re.sub(r"[^a-z0-9.]+", "-", names[0]).strip("-.")[:80] if len(names) == 1 else "several"
    return {
        "license": "other",
        "license_name": name or "other",
        "license_details": "licences of all sources are listed in this card, those of a scene in the scenes table",
    }


def _size(n: int) -> str:
    """
    >>> _size(999), _size(1000), _size(2 * 10**12)
    ('n<1K', '1K<n<10K', 'n>1T')
    """
    place = sum(n >= 10 ** (3 + k) for k in range(len(_SIZES)))
    if place == 0:
        return f"n<{_SIZES[0]}"
    return f"n>{_SIZES[-1]}" if place == len(_SIZES) else f"{_SIZES[place - 1]}<n<{_SIZES[place]}"


def _configs(spec: Spec, content: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The parts that the hub's ``datasets`` loads, and the columns of the one it loads unasked.

    A repository has one kind of file for it: beside tars there are no tables.
    """
    asked = spec.task in QUESTION_TASKS
    tables: list[dict[str, Any]] = [{"config_name": name, "data_files": f"{name}/*.parquet"} for name in _TABLES]
    configs: list[dict[str, Any]]
    if kind == "webdataset":
        configs = [{"config_name": "default", "data_files": "data/*.tar"}]
        features = _of_tars(spec, content, asked)
    elif kind == "parquet":
        configs = [{"config_name": "default", "data_files": "data/*.parquet"}, *tables]
        schema = shard_schema(asked, spec.sample_rate)
        features = hub_features(schema, {"audio": spec.sample_rate})
    else:
        main = "items" if asked else "scenes"
        configs = sorted(tables, key=lambda table: table["config_name"] != main)
        configs[0] |= {"default": True}
        features = hub_features(_TABLES[main], {})
    info = {"config_name": configs[0]["config_name"], "features": _columns(features)}
    return {"configs": configs, "dataset_info": info}


def _of_tars(spec: Spec, content: Mapping[str, Any], asked: bool) -> dict[str, Any]:
    suffix = spec.output.audio
    names = [f"{part}.{suffix}" for part in content["parts"]] if asked else [suffix]
    text = {"dtype": "string", "_type": "Value"}
    return {
        **{name: {"sampling_rate": spec.sample_rate, "_type": "Audio"} for name in names},
        "json": hub_features(rows_schema(asked), {}),
        "__key__": text,
        "__url__": text,
    }


def _block(content: Mapping[str, Any], indent: str = "") -> str:
    """YAML of plain names and numbers of ours, as :func:`yaml.safe_dump` writes it, slowly, of so many columns."""
    text = ""
    for name, value in content.items():
        if isinstance(value, dict):
            text += f"{indent}{name}:\n{_block(value, indent + '  ')}"
        elif isinstance(value, list):
            items = (_block(item, indent + "  ") for item in value)
            text += f"{indent}{name}:\n" + "".join(f"{indent}- {item[len(indent) + 2 :]}" for item in items)
        else:
            text += f"{indent}{name}: {'true' if value is True else value}\n"
    return text


def _columns(features: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Features as they are written into front matter."""
    return [{"name": name, **_column(feature)} for name, feature in features.items()]


def _column(feature: Any) -> dict[str, Any]:
    if isinstance(feature, list):
        inner = _column(feature[0])
        return {"list": next(iter(inner.values()))}
    if feature.get("_type") == "Value":
        return {"dtype": feature["dtype"]}
    if feature.get("_type") == "Audio":
        return {"dtype": {"audio": {"sampling_rate": feature["sampling_rate"]}}}
    return {"struct": _columns(feature)}


# The text


def _what(spec: Spec, content: Mapping[str, Any], kind: str) -> str:
    counts = content["counts"]
    control = {"none": "", "noise": " Noise stands in place of the audio, as a control.", "text": " It is a control."}
    return (
        f"Synthetic soundscapes of animal sound with exact labels: {counts['delivered']} items of the task "
        f"`{spec.task}`, {counts['scenes']} scenes at {spec.sample_rate} Hz, {counts['hours']:.3g} hours. Calls of a "
        "bank were placed over backgrounds; onset, offset, band, species and signal-to-noise ratio of each are known, "
        f"as they were mixed.{control[spec.output.control]}\n\n{_AUDIO_KINDS[kind]} "
        "`events/`, `scenes/`, `facts/` and `items/` are tables of all of it, in Parquet. Each column has its unit and "
        "meaning in its metadata."
    )


def _loading(spec: Spec, kind: str) -> str:
    shown = {
        "parquet": (
            "from datasets import load_dataset",
            'data = load_dataset("this/dataset", split="train")              # "audio" needs datasets[audio]',
            'events = load_dataset("this/dataset", "events", split="train")  # likewise scenes, facts, items',
        ),
        "webdataset": (
            "import webdataset",
            f'data = webdataset.WebDataset("data/00000.tar")                 # "{spec.output.audio}" and "json"',
            "from datasets import load_dataset",
            'data = load_dataset("this/dataset", split="train", streaming=True)',
        ),
    }
    tables = (
        "from datasets import load_dataset",
        'events = load_dataset("this/dataset", "events", split="train")  # likewise scenes, facts, items',
    )
    lines = (
        *shown.get(kind, tables),
        "",
        "import pandas",
        'events = pandas.read_parquet("events")                          # in the dataset\'s folder',
        "",
        "import synthscape",
        'data = synthscape.open_dataset("folder of the dataset")         # data.events, data.audio(scene_id), ...',
    )
    return _fenced("\n".join(lines) + "\n", "python")


def _statistics(content: Mapping[str, Any]) -> str:
    counts = content["counts"]
    rows = [
        ("items delivered", counts["delivered"]),
        ("items that failed (`failures.parquet`)", counts["failed"]),
        ("scenes", counts["scenes"]),
        ("scenes without events", counts["empty"]),
        ("hours", f"{counts['hours']:.4g}"),
        ("events", counts["events"]),
        ("events that are audible", counts["audible"]),
        ("placements asked for", counts["asked"]),
        ("placements made", counts["placed"]),
        *((f"placements dropped: {reason}", n) for reason, n in counts["drop_reasons"].items() if n),
        ("scenes scaled to stay under -1 dBFS", counts["scaled"]),
    ]
    parts = [f"scenes of part {part}" for part in content["parts"]]
    rows += zip(parts, content["parts"].values(), strict=True)
    classes = [(entry["name"], entry["events"], entry["clips"], entry["recordings"]) for entry in content["classes"]]
    return "\n\n".join(
        (
            _table(("what", "number"), rows, known=True),
            _table(("class", "events", "clips in the bank", "recordings in the bank"), classes),
        )
    )


def _limitations(spec: Spec, content: Mapping[str, Any]) -> list[str]:
    counts = content["counts"]
    said = [
        "It is synthetic: animals do not answer each other, and what is heard together need not live together, unless "
        "the spec says so.",
        "Labels are of all calls that were mixed. Not every one is heard: `audible` says which are, by their SNR in "
        "their own band. Calls in the backgrounds that nobody annotated have no label.",
        "Names of species and call types are those of the sources, right or wrong.",
    ]
    if counts["failed"]:
        said.append(f"{counts['failed']} of {counts['items']} items could not be rendered, and are missing.")
    dropped = sum(counts["drop_reasons"].values())
    if dropped:
        said.append(f"{dropped} of {counts['asked']} placements were dropped, for the reasons above.")
    said += [f"Left out: {markdown(reason)}: {n}." for reason, n in content["filtered"].items()]
    said += [f"{markdown(text)}." for text in (*content["notes"], *content["warnings"])]
    said.append("Licences of the sources bind who uses it; some may forbid commercial use or changes.")
    return said


def _without_paths(spec: Spec) -> dict[str, Any]:
    """The spec, its folders by their names alone; where it was written, and by what engine, is left out."""
    plain = copy.deepcopy(spec.plain())
    del plain["output"]["dir"]
    del plain["engine"]
    for *around, name in OUTSIDE_FINGERPRINT:
        section = plain
        for outer in around:
            section = section[outer]
        if isinstance(section.get(name), str):
            section[name] = PurePath(section[name]).name
    return plain


def _stores(content: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    rows = [(name, store["fingerprint"], store["clips"]) for name, store in content["stores"].items()]
    return [*rows, *([("community", content["community"], "")] if content["community"] else [])]


def _versions(content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [*content["versions"].items(), ("plan", content["plan_version"]), ("content", content["content_hash"])]


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, known: bool = False) -> str:
    """A table; cells that are text are escaped, unless they are ``known`` to be ours."""
    rows = list(rows)
    shown = ["|".join(str(cell) if known else markdown(str(cell)) for cell in row) for row in rows[:_MOST_LISTED]]
    more = f"\n\nand {len(rows) - _MOST_LISTED} more in `dataset.json`" if len(rows) > _MOST_LISTED else ""
    return "\n".join(f"|{line}|" for line in ("|".join(head), "|".join("---" for _ in head), *shown)) + more


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _fenced(text: str, language: str) -> str:
    """A block of code that nothing in it can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{fence}"
