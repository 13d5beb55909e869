"""The shipped specs, the JSON Schema, the page and the commands agree with the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from spec_docs import key_rows, keys, kind_rows
from typer.testing import CliRunner

from synthscape.cli.spec import spec_app
from synthscape.errors import SpecError
from synthscape.spec import load_spec, shipped_specs
from synthscape.spec.json_schema import spec_json_schema
from synthscape.spec.yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", shipped_specs())
def test_shipped_specs_load_and_round_trip(name: str, tmp_path: Path) -> None:
    """Each is right, and is the same once written out in full."""
    spec = load_spec(name)
    written = tmp_path / "written.yaml"
    written.write_text(spec.to_yaml(), encoding="utf-8")

    assert load_spec(written) == spec
    assert load_spec(ROOT / "scene_specs" / f"{name}.yaml") == spec


def test_the_roots_spec_has_the_published_values() -> None:
    """Rates, ratios, reversal and SNR are those of ROOTS appendix B.3."""
    spec = load_spec("roots_strong_detection")
    rate, snr = spec.events.rate, spec.events.snr

    assert spec.sample_rate == 16000
    assert spec.duration.constants() == (10.0,)
    assert rate is not None
    assert rate.per == "class"
    assert rate.constants() == pytest.approx([5 / gap for gap in (120, 80, 60, 30, 22, 15)], rel=1e-8)
    assert spec.events.resample.constants() == (3, 2, 1.7, 1.2, 1, 1, 0.9, 0.7, 0.5, 0.3)
    assert (spec.events.resample.per, spec.events.resample_infeasible) == ("class", "flag")
    assert (spec.events.reverse.params, spec.events.reverse.per) == ((0.2,), "class")
    assert (snr.reference, snr.subtract_noise, snr.db.clip) == ("scene", False, (-20.0, 15.0))
    assert [member.kind for member in snr.db.choices] == ["normal", "normal"]
    for member in snr.db.choices:
        mean, sigma = member.params
        assert not isinstance(mean, float)
        assert not isinstance(sigma, float)
        assert (mean.bounds(), mean.per, sigma.bounds(), sigma.per) == ((-12.0, 8.0), "scene", (1.0, 5.0), "scene")


def _conforms(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """Whether a value conforms to the part of JSON Schema that the spec's schema uses."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return _conforms(value, definitions[name], definitions)
    if "oneOf" in schema and sum(_conforms(value, option, definitions) for option in schema["oneOf"]) != 1:
        return False
    if "anyOf" in schema and not any(_conforms(value, option, definitions) for option in schema["anyOf"]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    number = isinstance(value, int | float) and not isinstance(value, bool)
    types = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "number": number,
        "integer": number and float(value).is_integer(),
    }
    if "type" in schema and not types[schema["type"]]:
        return False
    if number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        return all(_conforms(item, schema.get("items", {}), definitions) for item in value)
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return (
            all(name in known for name in value)
            and all(name in value for name in schema.get("required", []))
            and all(_conforms(item, known[name], definitions) for name, item in value.items())
        )
    return True


@pytest.mark.parametrize("name", shipped_specs())
def test_shipped_specs_conform_to_the_json_schema(name: str) -> None:
    """As written and written out in full they conform; with a wrong key, value or kind they do not."""
    schema = spec_json_schema()
    written = read_yaml((ROOT / "scene_specs" / f"{name}.yaml").read_bytes(), name)[0]
    definitions = schema["$defs"]

    assert json.loads(json.dumps(schema)) == schema
    assert _conforms(written, schema, definitions)
    assert _conforms(load_spec(name).plain(), schema, definitions)
    for wrong in ({"itms": 1}, {"items": "1"}, {"items": 0}, {"duration": {"unifrom": [1, 2]}}, {"events": None}):
        assert not _conforms({**written, **wrong}, schema, definitions)
    assert not _conforms({"items": 1}, schema, definitions)


def test_the_json_schema_has_every_key_with_meaning_and_default() -> None:
    """Editors show for each key what it means and what it is if left out."""
    schema = spec_json_schema()
    for key, rule in keys():
        entry = schema
        for name in key.split("."):
            assert entry["description"]
            entry = entry["properties"][name]

        assert entry["description"].startswith(rule.doc)
        assert entry.get("default", "???") == rule.default
        assert rule.default == "???" or _conforms(rule.default, entry, schema["$defs"])


def test_the_page_is_in_step_with_the_schema() -> None:
    """docs/spec.md has a row for every key and kind, as the schema says them, and no others."""
    page = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]

    assert rows == key_rows() + kind_rows()


def test_the_page_shows_specs_that_load(tmp_path: Path) -> None:
    """YAML blocks of docs/spec.md are specs, or parts of one."""
    page = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```yaml\n")[1:]]
    assert len(blocks) >= 2
    for block in blocks:
        path = tmp_path / "block.yaml"
        path.write_text(block, encoding="utf-8")
        complete = any(key in block for key in ("process:", "count:"))
        load_spec(path, ["bank=b", "backgrounds=g", *([] if complete else ["events.count=5"])])


def test_check_names_missing_stores_and_passes_when_they_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing store is a finding (exit code 1) with file, line and key; an override is named as typed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stores").mkdir()
    runner = CliRunner()
    found = runner.invoke(spec_app, ["check", "strong_detection", "bank=stores"])
    (tmp_path / "stores" / "store.json").write_text("{}")
    passed = runner.invoke(spec_app, ["check", "strong_detection", "bank=stores", "backgrounds=stores"])

    assert found.exit_code == 1
    assert "override 'bank=stores': bank: expected a clip store at stores, got a folder without" in found.stderr
    assert "strong_detection.yaml:10: backgrounds: expected a clip store at banks/demo/backgrounds" in found.stderr
    assert (passed.exit_code, passed.stderr) == (0, "")
    assert passed.stdout == "strong_detection: ok, 1000 items of strong_detection at 16000 Hz\n"


def test_check_as_json_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --json one object stands on stdout."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(spec_app, ["check", "strong_detection", "--json"])
    content = json.loads(result.stdout)

    assert result.exit_code == 1
    assert content["ok"] is False
    assert len(content["missing"]) == 2


def test_check_refuses_a_wrong_spec() -> None:
    """What is wrong in a spec is a SpecError, which the root command turns into one line and exit code 2."""
    result = CliRunner().invoke(spec_app, ["check", "strong_detection", "items=0"])

    assert isinstance(result.exception, SpecError)
    assert str(result.exception).startswith("override 'items=0': items: expected")


def test_show_prints_a_spec_that_loads_back(tmp_path: Path) -> None:
    """``show`` fills in defaults and overrides, as YAML and as JSON."""
    runner = CliRunner()
    shown = runner.invoke(spec_app, ["show", "strong_detection", "events.snr.db=5"])
    as_json = runner.invoke(spec_app, ["show", "strong_detection", "events.snr.db=5", "--json"])
    path = tmp_path / "shown.yaml"
    path.write_text(shown.stdout, encoding="utf-8")

    assert load_spec(path) == load_spec("strong_detection", ["events.snr.db=5"])
    assert json.loads(as_json.stdout) == load_spec(path).plain()


def test_schema_prints_the_json_schema() -> None:
    """``schema`` prints JSON Schema and nothing else."""
    result = CliRunner().invoke(spec_app, ["schema"])

    assert json.loads(result.stdout) == spec_json_schema()
