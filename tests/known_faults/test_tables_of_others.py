"""Tables as spreadsheets and annotation programs leave them: read as meant or refused by line, never half-read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from synthscape.bank.annotations import read_annotations
from synthscape.bank.metadata import read_metadata
from synthscape.cli.bank import bank_app
from synthscape.errors import SpecError

RAVEN = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tAnnotation\n"


def _source(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        soundfile.write(folder / name, 0.1 * np.random.default_rng(len(name)).normal(size=16000), 16000)
    return folder


def _metadata(folder: Path, text: str | bytes, name: str = "table.csv", **options):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_metadata(folder / name, folder, ["a.wav", "b.wav"], **options)


def test_empty_columns_and_cells_of_spreadsheets(tmp_path):
    """Columns without a name and cells past the header are fine while nothing stands in them."""
    said = _metadata(tmp_path, "\ufefffile,species,,\r\na.wav,Parus major,,,,\r\n,,\r\nb.wav,NA\r\n")

    assert said.columns == {"a.wav": {"species": "Parus major"}, "b.wav": {"species": "NA"}}


def test_a_cell_in_no_column_is_refused_with_its_line(tmp_path):
    """Lines are those of the file, though a quoted cell holds a line break and a line is blank."""
    with pytest.raises(SpecError, match=r"line 5: cell 3 \('y'\) is in no named column"):
        _metadata(tmp_path, 'file,species,\na.wav,"Parus\nmajor",\n\nb.wav,x,y\n')


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("file;species\na.wav;x\n", "t.csv", "expected columns apart by commas"),
        ("file\tspecies\na.wav\tx\n", "t.csv", "expected columns apart by commas"),
        ("file,species\na.wav,x\n", "t.tsv", "expected columns apart by tabs"),
        ("file,species\na.wav,Pic épeiche\n".encode("latin-1"), "t.csv", "save it as UTF-8"),
        ("file,species\na.wav,x\n".encode("utf-16"), "t.csv", "save it as UTF-8"),
        ('file,species\n"a.wav,x\nb.wav,y\n', "t.csv", "is a quote not closed"),
        ("file,medium\na.wav,Air\n", "t.csv", "line 2: 'medium' should be one of air, water, contact, got 'Air'"),
        ('file,lat\na.wav,"47,5"\n', "t.csv", "line 2: 'lat' should be a number with a decimal point, got '47,5'"),
    ],
)
def test_other_forms_are_refused_with_what_to_do(tmp_path, text, name, message):
    """Semicolons, tabs, other encodings and decimal commas: said what was expected, not taken for odd names."""
    with pytest.raises(SpecError, match=message):
        _metadata(tmp_path, text, name)


@pytest.mark.parametrize("name", ["a\0.wav", "a" * 5000 + ".wav", "a/" * 5000])
def test_names_that_no_file_can_have(tmp_path, name):
    """A row with such a name names no file; it ends nothing."""
    said = _metadata(tmp_path, f"file,species\n{name},x\na.wav,y\n")

    assert said.without_file == [name]
    assert said.columns == {"a.wav": {"species": "y"}}


def test_one_column_for_two(tmp_path):
    """A column renamed twice would silently fill one of the two only."""
    with pytest.raises(SpecError, match="'sp' is named for two columns"):
        _metadata(tmp_path, "file,sp\na.wav,x\n", rename={"genus": "sp", "species": "sp"})


def test_short_and_long_rows_of_annotations(tmp_path):
    """Rows with cells missing or too many are bad rows with their place, in tables with both views of Raven too."""
    source = _source(tmp_path / "source", "a.wav")
    rows = [
        "1\tWaveform 1\t1\t0.1\t0.2\tx",
        "1\tSpectrogram 1\t1\t0.1\t0.2\tx",
        "2",
        "3\tSpectrogram 1\t1\t0,3\t0,4\ty",
    ]
    (source / "a.Table.1.selections.txt").write_text(RAVEN + "\n".join([*rows, "4\tS\t1\t0.5\t0.6\ty\tz"]) + "\n")
    (source / "all.csv").write_text("onset,offset,species,file\n0.7,0.8,z,a.wav\n0.7,0.8\n")
    found = read_annotations(source, ["a.wav"])

    assert [(box.onset_s, box.columns["species"]) for box in found.boxes["a.wav"]] == [(0.1, "x"), (0.7, "z")]
    assert [(row.where.rpartition(" ")[2], row.message.partition(": ")[2]) for row in found.bad["a.wav"]] == [
        ("4", "begin or end is empty"),
        ("5", "expected a number with a decimal point, got '0,3'"),
        ("6", "7 cells, the header has 6; quote a cell with a comma in it"),
    ]
    assert found.without_file == {"(all.csv, row 3: empty)"}


def test_a_quote_in_a_label_swallows_no_rows(tmp_path):
    """Raven writes a label such as ``"unsure`` as it is: the rows after it are still rows."""
    source = _source(tmp_path / "source", "a.wav")
    labels = ['"unsure', 'song "A"', '"B" song', "plain"]
    rows = [f"{i}\tS\t1\t{i / 10}\t{i / 10 + 0.05}\t{label}" for i, label in enumerate(labels)]
    (source / "a.Table.1.selections.txt").write_text(RAVEN + "\n".join(rows) + "\n")
    found = read_annotations(source, ["a.wav"])

    assert [box.columns["species"] for box in found.boxes["a.wav"]] == labels


def test_labels_are_of_their_columns_type(tmp_path):
    """A label that goes to a list or number column is read as one, or its row is bad: letters are no list."""
    source = _source(tmp_path / "source", "a.wav")
    (source / "a.csv").write_text("onset,offset,name\n0.1,0.2,Parus major; Corvus corax\n")
    listed = read_annotations(source, ["a.wav"], "also_species").boxes["a.wav"]
    bad = read_annotations(source, ["a.wav"], "lat").bad["a.wav"]

    assert listed[0].columns == {"also_species": ["Parus major", "Corvus corax"]}
    assert bad[0].where == "a.csv, row 2"


def test_text_files_that_are_no_tables_are_named(tmp_path):
    """What was not read as a table is said with the reason; if nothing was, nothing is built."""
    source = _source(tmp_path / "source", "a.wav")
    (source / "calls.csv").write_text("file;onset;offset\na.wav;0,1;0,2\n")
    (source / "more.csv").write_bytes("file,onset,offset,species\na.wav,0.1,0.2,Épeiche\n".encode("latin-1"))
    runner = CliRunner()
    build = ["build", str(source), "--out", str(tmp_path / "bank"), "--cut", "annotations", "--json"]
    refused = runner.invoke(bank_app, build)
    (source / "a.csv").write_text("onset,offset\n0.1,0.4\n")
    built = runner.invoke(bank_app, build)

    assert isinstance(refused.exception, SpecError)
    assert "calls.csv: no columns of begin and end times" in str(refused.exception)
    unread = json.loads(built.stdout)["annotations"]["text_files_not_read"]
    assert unread["calls.csv"].endswith("apart by commas or tabs; its first line is 'file;onset;offset'")
    assert unread["more.csv"] == "not UTF-8 text"


@pytest.mark.parametrize("options", [["--column", "species=sp"], ["--ignore-columns", "sp"]])
def test_options_about_a_table_that_was_not_named(tmp_path, options):
    """They would do nothing, silently."""
    source = _source(tmp_path / "source", "a.wav")
    refused = CliRunner().invoke(bank_app, ["build", str(source), "--out", str(tmp_path / "bank"), *options])

    assert isinstance(refused.exception, SpecError)
    assert "--metadata" in str(refused.exception)
