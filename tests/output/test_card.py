"""The dataset card: what the hub and people read, whatever names and licences others gave."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml
from huggingface_hub import DatasetCard

from synthscape.bank.writer import StoreWriter
from synthscape.output.card import _size, dataset_card, markdown
from synthscape.output.dataset import Dataset
from synthscape.spec import load_spec
from tests.hand_built import RATE, clip_columns, tone_clip
from tests.output.formats import FORMATS, small
from tests.small_dataset import make_stores

ODD = (
    "a|b`c`",
    "<script>alert(1)</script>",
    "---\nlicense: mit",
    "# *no* [title](http://x.y)",
    "鳥\u202e\u2028_x_",
    "- !!python/x ",
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def data(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A Parquet dataset."""
    return small(tmp_path_factory.mktemp("data"), stores, "parquet")


def front(text: str) -> dict[str, Any]:
    """The front matter, by a plain YAML reader."""
    return yaml.safe_load(text.split("---\n", 2)[1])


def card_of(data: Dataset, **changed: Any) -> str:
    """The card of a dataset of which something else was said."""
    spec = load_spec(write(data), [])
    return dataset_card(spec, {**data.info, **changed})


def write(data: Dataset) -> str:
    """Its spec as a file."""
    path = Path(data.path).parent / "again.yaml"
    path.write_text(json.dumps(data.info["spec"]), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_hub_reads_it(stores, tmp_path, kind):
    """huggingface_hub finds the front matter; its configs name files that are there, in every config."""
    data = small(tmp_path, stores, kind)
    card = DatasetCard.load(data.path / "README.md")
    said = card.data.to_dict()
    configs = said["configs"]

    assert said["size_categories"] == ["n<1K"]
    assert said["pretty_name"] == "synthscape: strong_detection"
    assert said["task_categories"] == ["audio-classification"]
    assert said["dataset_info"]["config_name"] == configs[0]["config_name"]
    assert all(len(list(data.path.glob(config["data_files"]))) == 3 for config in configs)
    names = [config["config_name"] for config in configs]
    tables = ["scenes", "events", "facts", "items"]
    assert names == {"parquet": ["default", *tables], "webdataset": ["default"], "folder": tables}[kind]
    assert datasets.get_dataset_config_names(str(data.path)) == names
    assert datasets.get_dataset_default_config_name(str(data.path)) == names[0]
    assert card.text.lstrip().startswith("# synthscape: strong_detection\n")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("task", ["strong_detection", "few_shot_scenes", "call_type_mcq"])
def test_the_front_matter_is_as_a_yaml_writer_has_it(data, kind, task):
    """Whatever it holds: in names and columns nothing stands plain that had to be quoted."""
    spec = load_spec(task, [f"output.format={kind}"])
    parts = {"query": 1, "example_1": 2, "A": 3} if task != "strong_detection" else {}
    text = dataset_card(spec, {**data.info, "parts": parts}).split("---\n", 2)[1]

    assert text == yaml.safe_dump(yaml.safe_load(text), sort_keys=False, allow_unicode=True, width=120)


def test_it_says_what_is_in_it(data):
    """Counts, classes, licences, fingerprints, versions and the spec, which loads again."""
    text = (data.path / "README.md").read_text(encoding="utf-8")
    counts = data.info["counts"]

    for line in (
        f"|items delivered|{counts['delivered']}|",
        f"|events|{counts['events']}|",
        f"|scenes without events|{counts['empty']}|",
        *(
            f"|{entry['name']}|{entry['events']}|{entry['clips']}|{entry['recordings']}|"
            for entry in data.info["classes"]
        ),
        *(f"|{licence}|{n}|" for licence, n in data.info["licences"].items()),
        *(f"|{name}|{store['fingerprint']}|{store['clips']}|" for name, store in data.info["stores"].items()),
        f"|numba|{data.info['versions']['numba']}|",
    ):
        assert f"\n{line}\n" in text
    assert len(data.info["licences"]) > 1
    (spec,) = re.findall(r"\n```yaml\n(.*?)\n```\n", text, re.DOTALL)
    assert yaml.safe_load(spec)["events"]["count"] == {"uniform_int": [1, 4]}


def test_it_says_nothing_of_this_machine(data, stores):
    """No folders it lay in, and no clock."""
    text = (data.path / "README.md").read_text(encoding="utf-8")

    assert str(stores) not in text
    assert str(data.path.parent) not in text
    assert not re.search(r"20[2-9]\d-\d\d|\d\d:\d\d", text)


@pytest.mark.parametrize(
    ("licences", "said"),
    [
        ({"CC0-1.0": 9}, {"license": "cc0-1.0"}),
        ({"CC BY 4.0": 3, "cc-by-4.0": 2}, {"license": "cc-by-4.0"}),
        ({"unknown": 3}, {"license": "unknown"}),
        ({"CC-BY-4.0": 3, "CC0-1.0": 2}, {"license": "other", "license_name": "several"}),
        ({"CC-BY": 3}, {"license": "other", "license_name": "cc-by"}),
        ({'My "own"\n---\nlicense: mit': 3}, {"license": "other", "license_name": "my-own-license-mit"}),
        ({"鳥": 3}, {"license": "other", "license_name": "other"}),
        ({}, {}),  # nothing was delivered
    ],
)
def test_the_licence_is_one_the_hub_knows_or_other(data, licences, said):
    """One id where all sources share it; else ``other``, with a name of plain letters, and all of them in the text."""
    text = card_of(data, licences=licences)
    found = {name: value for name, value in front(text).items() if name in ("license", "license_name")}

    assert found == said
    assert DatasetCard(text).data.license == said.get("license")
    assert ("license_details" in front(text)) == (said.get("license") == "other")


def test_names_of_others_are_shown_as_they_are(data):
    """Neither YAML, nor a table, nor HTML, nor a block of code is ended by a name."""
    classes = [{"name": name, "clips": 1, "recordings": 1, "events": 1} for name in ODD]
    text = card_of(
        data, classes=classes, licences=dict.fromkeys(ODD, 1), notes=list(ODD), filtered=dict.fromkeys(ODD, 2)
    )
    plain = card_of(data)
    rows = [line for line in text.splitlines() if line.endswith("|1|1|1|")]

    assert less_licence(front(text)) == less_licence(front(plain))
    assert len(rows) == len(ODD)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)
    assert "<script>" not in text
    assert "http://" not in text
    assert "\u202e" not in text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in plain.splitlines() if line.startswith("#")
    ]


def less_licence(said: dict[str, Any]) -> dict[str, Any]:
    """Front matter without the licence."""
    return {name: value for name, value in said.items() if not name.startswith("license")}


def test_a_fence_holds_whatever_a_spec_says(stores, tmp_path):
    """Backticks in it don't end the block."""
    name = "``` *loud*"
    data = small(tmp_path, stores, "parquet", "items=2", f"wording.dataset_name={json.dumps(name)}")
    text = (data.path / "README.md").read_text(encoding="utf-8")

    assert "\n````yaml\n" in text
    assert text.endswith("|\n")
    assert "\n# \\`\\`\\` \\*loud\\*: strong_detection\n" in text
    assert DatasetCard(text).data.pretty_name == "``` *loud*: strong_detection"


@pytest.mark.parametrize("text", ODD)
def test_markdown_is_one_line(text):
    """Every character that means something is escaped; letters of all scripts stay."""
    shown = markdown(text)

    assert len(shown.splitlines()) == 1
    assert not re.search(r"(?<!\\)[|`*_#\[\]!<>]", shown)
    assert ("鳥" in shown) == ("鳥" in text)


@pytest.mark.parametrize(("n", "size"), [(0, "n<1K"), (10**3, "1K<n<10K"), (10**6 - 1, "100K<n<1M"), (10**13, "n>1T")])
def test_sizes(n, size):
    """As the hub names them."""
    assert _size(n) == size


def test_one_licence_of_a_whole_dataset(tmp_path):
    """Of stores that share theirs, it is the dataset's."""
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        for i in range(4):
            writer.add(tone_clip(i, 900.0), {**clip_columns("Parus major", i, 900.0), "licence": "CC BY-SA 4.0"})
    noise = ("backgrounds=null", "background.noise.probability=1", "background.mix.probability=0")
    data = small(tmp_path, tmp_path, "parquet", "items=4", "empty_share=0", "classes.per_scene=1", *noise)

    assert front((data.path / "README.md").read_text(encoding="utf-8"))["license"] == "cc-by-sa-4.0"
