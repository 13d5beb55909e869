"""Building stores from files: what becomes a clip, what is rejected and why, and that everything is accounted for."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from synthscape.bank.activity import FADE_S, PAD_S, cut_window, find_windows
from synthscape.bank.annotations import read_annotations
from synthscape.bank.build import Box, Recording, build_store
from synthscape.bank.inspect import check
from synthscape.bank.metadata import read_metadata
from synthscape.bank.sources import find_files
from synthscape.bank.store import ClipStore
from synthscape.cli.bank import bank_app
from synthscape.errors import SpecError, StoreError

RATE = 16000


def _run(*arguments: object, code: int | None = None) -> dict:
    result = CliRunner().invoke(bank_app, [*map(str, arguments), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if code is not None:
        assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def _rejected(bank: Path) -> dict[str, str]:
    with (bank / "rejected.csv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row["reason"] for row in csv.DictReader(file)}


def _call(hz: float = 2500, seconds: float = 0.2) -> np.ndarray:
    n = round(seconds * RATE)
    return np.sin(2 * np.pi * hz * np.arange(n) / RATE) * np.hanning(n) ** 0.25


def _with_calls(rng: np.random.Generator, onsets_s: list[float], duration_s: float = 3.0) -> np.ndarray:
    samples = rng.normal(size=round(duration_s * RATE)) * 0.002
    for i, onset_s in enumerate(onsets_s):
        call = _call(2000 + 500 * i)
        samples[round(onset_s * RATE) :][: len(call)] += 0.3 * call
    return samples


def test_the_awkward_files(shared_data, tmp_path):
    """Every file of the awkward collection becomes a clip or the named rejection that the committed table expects."""
    with (Path(__file__).parent.parent / "awkward_expected.csv").open(encoding="utf-8", newline="") as file:
        expected = {row["file"]: row["becomes"] for row in csv.DictReader(file)}
    summary = _run("build", shared_data / "awkward", "--out", tmp_path / "bank", code=1)
    bank = ClipStore.open(tmp_path / "bank")
    got = dict.fromkeys(bank.clips["recording_id"], "clip") | _rejected(tmp_path / "bank")
    with (tmp_path / "bank" / "duplicates.csv").open(encoding="utf-8", newline="") as file:
        got |= {row["recording_id"]: "clip" for row in csv.DictReader(file)}

    assert got == expected
    assert summary["n_recordings"] == len(expected)
    assert check(bank) == []


def test_everything_is_accounted_for(write, tmp_path, rng):
    """Files in = files with clips + rejected files; the good ones are built though others are not; exit code 1."""
    write("good/a.wav", _with_calls(rng, [1.0]))
    write("good/same.flac", np.zeros(100) + 0.5)
    shutil.copy(write("b.wav", _with_calls(rng, [0.5])), tmp_path / "source" / "copy.wav")
    write("silent.wav", np.zeros(1000))
    write("nan.wav", np.full(1000, np.nan), subtype="FLOAT")
    (tmp_path / "source" / "broken.wav").write_bytes(b"RIFF....")
    (tmp_path / "source" / "notes.txt").write_text("not audio")
    summary = _run("build", tmp_path / "source", "--out", tmp_path / "bank", code=1)

    assert summary["n_recordings"] == 7 == summary["n_with_clips"] + summary["n_rejected"]
    assert (summary["n_with_clips"], summary["n_clips"], summary["n_duplicates"]) == (3, 2, 1)
    assert _rejected(tmp_path / "bank") == {
        "broken.wav": "unreadable",
        "good/same.flac": "silent",
        "nan.wav": "not_finite",
        "silent.wav": "silent",
    }
    assert summary["reasons"] == {"not_finite": 1, "silent": 2, "unreadable": 1}
    assert summary["ignored_files"] == ["notes.txt"]


def test_nothing_usable(write, tmp_path):
    """If no file can be used there is no bank, the message counts the reasons, and they are in a table beside it."""
    write("silent.wav", np.zeros(1000))
    with pytest.raises(StoreError, match=r"none of 1 recordings could be used \(silent 1\).*bank\.rejected\.csv"):
        _run("build", tmp_path / "source", "--out", tmp_path / "bank")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank.rejected.csv", "source"]
    assert "silent.wav,,silent," in (tmp_path / "bank.rejected.csv").read_text()


def test_the_same_folder_gives_the_same_bank(write, tmp_path, rng):
    """Order and content do not depend on the file system: a copy under another name has the same fingerprint."""
    for name in ("b.wav", "a.wav", "c/d.wav", "B.wav"):
        write(name, _with_calls(rng, [1.0]))
    shutil.copytree(tmp_path / "source", tmp_path / "moved")
    first = _run("build", tmp_path / "source", "--out", tmp_path / "one", code=0)
    second = _run("build", tmp_path / "moved", "--out", tmp_path / "two", code=0)

    assert first["fingerprint"] == second["fingerprint"]
    assert list(ClipStore.open(tmp_path / "one").clips["recording_id"]) == ["B.wav", "a.wav", "b.wav", "c/d.wav"]
    assert (tmp_path / "one" / "clips.parquet").read_bytes() == (tmp_path / "two" / "clips.parquet").read_bytes()


ODD_NAMES = [
    "name with spaces & #hash%20 (1).wav",
    "quote\"and'quote.wav",
    "new\nline.wav",
    "<b>markup</b>.wav".replace("/", "_"),
    "chant_d’été_ąę_鳥の声.wav",
    "-dash.wav",
    "dots..in...it.wav",
    "comma,semi;colon.wav",
]


def test_odd_names(write, tmp_path, rng):
    """Names are opaque: spaces, quotes, line breaks, %20 and other scripts come through, in rows and in metadata."""
    for name in ODD_NAMES:
        write(name, _with_calls(rng, [0.5], 1.0))
    with (tmp_path / "table.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["file", "species"], *([name, f"of {name}"] for name in ODD_NAMES)])
    summary = _run(
        "build", tmp_path / "source", "--out", tmp_path / "bank", "--metadata", tmp_path / "table.csv", code=0
    )
    clips = ClipStore.open(tmp_path / "bank").clips

    assert set(clips["recording_id"]) == set(ODD_NAMES)
    assert all(clips["species"] == "of " + clips["recording_id"])
    assert summary["metadata"]["files_without_row"] == []
    shown = CliRunner().invoke(bank_app, ["info", str(tmp_path / "bank")])
    assert shown.exit_code == 0
    assert "new\nline" not in shown.stdout


def test_names_that_are_not_utf8(tmp_path, rng):
    """A name whose bytes are no text is written with \\x escapes, not refused and not lost."""
    folder = tmp_path / "source"
    folder.mkdir()
    soundfile.write(folder / "a.wav", _with_calls(rng, [0.5], 1.0), RATE)
    try:
        (folder / "a.wav").rename(folder / os.fsdecode(b"caf\xe9.wav"))
    except OSError:
        pytest.skip("this file system only takes UTF-8")
    _run("build", folder, "--out", tmp_path / "bank", code=0)

    assert list(ClipStore.open(tmp_path / "bank").clips["recording_id"]) == ["caf\\xe9.wav"]


def test_kill_in_the_middle_leaves_no_bank(write, tmp_path, rng):
    """kill -9 during a build leaves nothing at OUT; the same command then builds it, and clears what lay aside."""
    for i in range(60):
        write(f"{i:03d}.wav", rng.normal(size=5 * RATE) * 0.1)
    command = [sys.executable, "-c", "from synthscape.cli.bank import bank_app; bank_app()", "build"]
    command += [str(tmp_path / "source"), "--out", str(tmp_path / "bank")]
    process = subprocess.Popen(command)
    while process.poll() is None and not list(tmp_path.glob(".aside-*/audio-*")):
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "bank").exists()
    shutil.rmtree(tmp_path / "source")
    write("a.wav", rng.normal(size=RATE))
    _run("build", tmp_path / "source", "--out", tmp_path / "bank", code=0)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank", "source"]


def test_bat_in_a_16_khz_bank(write, tmp_path, rng):
    """A bat recording is rejected from a bank that can't hold it, by name, and is a clip in one that can."""
    rate = 256_000
    samples = rng.normal(size=rate // 2) * 0.002
    samples[50_000:52_000] += 0.4 * np.sin(2 * np.pi * 45_000 * np.arange(2000) / rate)
    write("bat.wav", samples, rate)
    write("bird.wav", _with_calls(rng, [1.0]))
    _run("build", tmp_path / "source", "--out", tmp_path / "low", code=1)
    _run("build", tmp_path / "source", "--out", tmp_path / "high", "--rate", rate, code=0)
    bat = ClipStore.open(tmp_path / "high").clips.set_index("recording_id").loc["bat.wav"]

    assert _rejected(tmp_path / "low") == {"bat.wav": "band_above_rate"}
    assert bat["low_hz"] < 45_000 < bat["high_hz"]
    assert abs(bat["active_start"] - 50_000) < 0.005 * rate
    assert abs(bat["active_end"] - 52_000) < 0.005 * rate


def test_metadata_columns(write, tmp_path, rng):
    """Cells are text: "NA" is a species code; empty is null; numbers are numbers; several species are a list."""
    write("a.wav", _with_calls(rng, [1.0]))
    write("b.wav", _with_calls(rng, [1.0]))
    (tmp_path / "t.csv").write_text(
        "file,kind_of_bird,lat,also_species,cluster_8,call_type\n"
        'a.wav,NA,47.5,"Parus major; NA",007,\nb.wav,,,,12,"song, long"\n',
        encoding="utf-8-sig",
    )
    _run(
        "build", tmp_path / "source", "--out", tmp_path / "bank", "--metadata", tmp_path / "t.csv",
        "--column", "species=kind_of_bird", code=0,
    )  # fmt: skip
    rows = ClipStore.open(tmp_path / "bank").columns(
        ["recording_id", "species", "lat", "also_species", "cluster_8", "call_type"]
    )

    assert rows.to_pylist() == [
        {"recording_id": "a.wav", "species": "NA", "lat": 47.5, "also_species": ["Parus major", "NA"],
         "cluster_8": "007", "call_type": None},
        {"recording_id": "b.wav", "species": None, "lat": None, "also_species": None, "cluster_8": "12",
         "call_type": "song, long"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("file,specie\na.wav,x\n", "unknown column 'specie'; did you mean 'species'"),
        ("name,species\na.wav,x\n", "unknown column 'name'"),
        ("species\nx\n", "no column `file`"),
        ("file,lat\na.wav,north\n", r"line 2: 'lat' should be a number with a decimal point, got 'north'"),
        ("file,lat\na.wav,nan\n", r"line 2: 'lat' should be a finite number"),
        ("file,species\na.wav,x\n../source/a.wav,y\n", "lines 2 and 3 are both for 'a.wav'"),
        ("file,species\na.wav,x,y\n", r"line 2: cell 3 \('y'\) is in no named column"),
        ("file,species,species\na.wav,x,y\n", "'species' twice"),
        ("", "no header"),
    ],
)
def test_wrong_metadata(write, tmp_path, rng, table, message):
    """A table that can't be meant is refused: which column or row, what was expected, what to do; nothing is built."""
    write("a.wav", _with_calls(rng, [1.0]))
    (tmp_path / "t.csv").write_text(table)
    with pytest.raises(SpecError, match=message):
        _run("build", tmp_path / "source", "--out", tmp_path / "bank", "--metadata", tmp_path / "t.csv")

    assert not (tmp_path / "bank").exists()


def test_metadata_that_do_not_meet_the_files(write, tmp_path, rng):
    """Files without a row and rows without a file are reported by name; rows for other folders are only counted."""
    write("a.wav", _with_calls(rng, [1.0]))
    write("b.wav", _with_calls(rng, [1.0]))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.wav").write_bytes(b"")
    (tmp_path / "t.csv").write_text("file\nsource/a.wav\ngone.wav\nother/x.wav\n")
    summary = _run("build", tmp_path / "source", "--out", tmp_path / "bank", "--metadata", tmp_path / "t.csv", code=0)

    assert summary["metadata"] == {
        "files_without_row": ["b.wav"],
        "rows_without_file": ["gone.wav"],
        "rows_for_files_elsewhere": 1,
        "matched_after_unicode_normalisation": [],
    }


def test_unicode_forms_of_one_name_meet(tmp_path):
    """A row in NFD finds a file in NFC, and it is reported."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "\u00e9t\u00e9.wav").write_bytes(b"")
    (tmp_path / "t.csv").write_text("file,species\ne\u0301te\u0301.wav,x\n", encoding="utf-8")
    said = read_metadata(tmp_path / "t.csv", source, ["\u00e9t\u00e9.wav"])

    assert said.columns == {"\u00e9t\u00e9.wav": {"species": "x"}}
    assert said.renormalised == ["\u00e9t\u00e9.wav"]


def test_raven_table(write, tmp_path, rng):
    """A Raven table gives a clip per selection (once, though it lists views), with its margin, labels and track."""
    write("x.wav", _with_calls(rng, [0.5, 1.2, 2.0]))
    header = "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tHigh Freq (Hz)\tAnnotation\n"
    lines = [
        f"{i}\t{view} 1\t1\t{onset}\t{onset + 0.2}\t1500\t4000\tParus major\n"
        for i, onset in enumerate([0.5, 1.2, 2.0, 7.0], start=1)
        for view in ("Waveform", "Spectrogram")
    ]
    (tmp_path / "source" / "x.Table.1.selections.txt").write_text(
        header + "".join(lines) + "5\tSpectrogram 1\t1\tx\t\n"
    )
    summary = _run("build", tmp_path / "source", "--out", tmp_path / "bank", "--cut", "annotations", code=1)
    clips = ClipStore.open(tmp_path / "bank").clips

    assert summary["n_clips"] == 3
    assert summary["reasons"] == {"bad_annotation": 1, "outside_file": 1}
    assert "x.Table.1.selections.txt, row 10" in (tmp_path / "bank" / "rejected.csv").read_text()
    assert list(clips["track_onset_s"]) == [0.3, 1.0, 1.8]
    assert list(clips["length"]) == [9600] * 3
    assert set(clips["species"]) == {"Parus major"}
    assert set(clips["track_id"]) == {"x.wav | Parus major"}
    assert np.all(np.abs(clips["active_start"] - 3200) < 80)
    assert np.all(np.abs(clips["active_end"] - 6400) < 80)


def test_tables_of_others(tmp_path, write):
    """Audacity labels with bounds, warbleR (kHz) and DCASE tables; a .wav that is kept as .flac; nobody's names."""
    write("a.wav", np.ones(5))
    write("b.flac", np.ones(5))
    source = tmp_path / "source"
    (source / "a.txt").write_text("0.1\t0.3\tSP\n\\\t1000.5\t2000\n0.5\t0.6\t\n\\\t-1.0\t-1.0\n")
    (source / "selections.csv").write_text(
        "sound.files,selec,start,end,bottom.freq,top.freq,call_type\nb.wav,1,0.25,0.5,2.5,8,song\nc.wav,1,0,1,1,2,x\n"
    )
    (source / "dcase.csv").write_text("Audiofilename,Starttime,Endtime,Q\nb.flac,1.0,2.0,POS\n")
    (source / "table.csv").write_text("this,is,no\ntable,of,ours\n")
    found = read_annotations(source, find_files(source).files)

    assert found.boxes["a.wav"] == [
        Box(0.1, 0.3, 1000.5, 2000.0, {"species": "SP"}, "a.txt, row 1"),
        Box(0.5, 0.6, None, None, {}, "a.txt, row 3"),
    ]
    assert found.boxes["b.flac"] == [
        Box(1.0, 2.0, None, None, {}, "dcase.csv, row 2"),
        Box(0.25, 0.5, 2500.0, 8000.0, {"call_type": "song"}, "selections.csv, row 2"),
    ]
    assert found.by_stem == {"b.flac"}
    assert found.without_file == {"c.wav"}
    assert found.tables == ["a.txt", "dcase.csv", "selections.csv"]


def test_margins_do_not_hold_the_next_call(tmp_path, rng):
    """Around a box at most the padding is kept, and never a part of another box."""
    samples = _with_calls(rng, [0.5, 0.72, 1.5])
    boxes = [Box(0.5, 0.7), Box(0.72, 0.92), Box(1.5, 1.7), Box(0.0, 0.01), Box(2.99, 3.005)]
    build_store([Recording("r", samples, {}, boxes)], tmp_path / "bank", cut="annotations", pad_s=0.05)
    clips = ClipStore.open(tmp_path / "bank").clips
    extents = [
        (start, round(start + n / RATE, 6)) for start, n in zip(clips["track_onset_s"], clips["length"], strict=True)
    ]

    assert extents == [(0.45, 0.72), (0.7, 0.97), (1.45, 1.75), (0.0, 0.06), (2.94, 3.0)]


def test_annotations_without_any(write, tmp_path, rng):
    """A file no table names is rejected by name; one above the bank's rate by its box is, too."""
    write("a.wav", _with_calls(rng, [1.0]))
    write("b.wav", _with_calls(rng, [1.0]))
    (tmp_path / "source" / "b.txt").write_text("1.0\t1.2\tx\n0.1\t0.2\ty\n\\\t9000\t12000\n")
    _run(
        "build", tmp_path / "source", "--out", tmp_path / "bank", "--cut", "annotations", "--label", "call_type", code=1
    )

    assert _rejected(tmp_path / "bank") == {"a.wav": "no_annotations", "b.wav": "band_above_rate"}
    assert list(ClipStore.open(tmp_path / "bank").clips["call_type"]) == ["x"]


def test_activity_windows(rng):
    """Windows lie around calls: gaps under 0.1 s filled, runs under 0.03 s dropped, bounds centred to within 5 ms."""
    samples = _with_calls(rng, [0.6, 0.85, 2.0], 3.0)
    samples[round(1.5 * RATE) :][:160] += 0.3 * np.sin(np.arange(160))
    kept = samples.copy()
    windows = find_windows(samples, RATE)

    assert np.array_equal(samples, kept)
    assert len(windows) == 2
    for window, (onset_s, offset_s) in zip(windows, [(0.6, 1.05), (2.0, 2.2)], strict=True):
        assert abs(window.tight_start / RATE - onset_s) < 0.006
        assert abs(window.tight_end / RATE - offset_s) < 0.006
        assert window.start == window.tight_start - round((PAD_S + FADE_S) * RATE)
        assert window.fade_in == window.fade_out == round(FADE_S * RATE)
        clip = cut_window(samples.astype(np.float32), window)
        inner = slice(window.fade_in, -window.fade_out)
        assert clip[0] == clip[-1] == 0
        assert np.array_equal(clip[inner], samples.astype(np.float32)[window.start : window.end][inner])


def test_activity_of_stems_and_mixtures(write, tmp_path, rng):
    """A stem is measured against its mixture; its windows at the edges go, those of a plain recording stay."""
    stem = _with_calls(rng, [0.0, 1.0], 3.0)
    mixture = stem + np.pad(3 * _call(900, 0.3), (32000, len(stem) - 32000 - 4800))
    write("stem.wav", stem, subtype="FLOAT")
    (tmp_path / "raw").mkdir()
    soundfile.write(tmp_path / "raw" / "stem.flac", mixture / 4, RATE)
    plain = _run("build", tmp_path / "source", "--out", tmp_path / "plain", "--cut", "activity", code=0)
    soundfile.write(tmp_path / "raw" / "stem.flac", 0.9 * stem / np.abs(stem).max(), RATE)
    stems = _run(
        "build",
        tmp_path / "source",
        "--out",
        tmp_path / "stems",
        "--cut",
        "activity",
        "--mixture",
        tmp_path / "raw",
        code=1,
    )
    clips = ClipStore.open(tmp_path / "plain").clips

    assert plain["n_clips"] == 2
    assert clips["track_onset_s"][0] == 0
    assert clips["active_start"][0] < 80
    assert list(clips["track_id"]) == ["stem.wav"] * 2
    assert stems["reasons"]["touches_edge"] == 1
    shutil.rmtree(tmp_path / "raw")
    (tmp_path / "raw").mkdir()
    with pytest.raises(StoreError, match="no_mixture 1"):
        _run("build", tmp_path / "source", "--out", tmp_path / "x", "--cut", "activity", "--mixture", tmp_path / "raw")


def test_relative_amplitude_in_a_track_survives(tmp_path, rng):
    """Clips of one recording keep the ratio of their levels in `peak`, though each is stored at full scale."""
    samples = np.zeros(2 * RATE)
    samples[4000:7200] = 0.4 * _call()
    samples[16000:19200] = 0.1 * _call(2100)
    boxes = [Box(0.25, 0.45), Box(1.0, 1.2)]
    build_store([Recording("r", samples, {"species": "A b"}, boxes)], tmp_path / "bank", cut="annotations")
    clips = ClipStore.open(tmp_path / "bank").clips

    assert clips["peak"][0] / clips["peak"][1] == pytest.approx(4, rel=1e-2)
    assert list(clips["track_id"]) == ["r | A b"] * 2


def test_impulses_are_not_filtered(tmp_path):
    """An impulse response is stored as it is: no DC removed, nothing before its direct sound."""
    samples = np.exp(-np.arange(8000) / 800)
    samples[:100] = 0
    build_store([Recording("hall", samples)], tmp_path / "bank", kind="impulses")
    bank = ClipStore.open(tmp_path / "bank")

    assert not bank.pcm(0)[:100].any()
    assert np.abs(bank.pcm(0) / 32767 * bank.clips["peak"][0] - samples).max() < 1e-4
    assert bank.info["conditioning"]["dc_removed"] is False


def test_impulses_are_kept_whole(write, tmp_path):
    """Neither silence before the direct sound nor the faintest tail is cut; faint ones are used, and zeros refused."""
    room = np.zeros(RATE)
    room[RATE // 2 :] = 1e-6 * np.exp(-np.arange(RATE // 2) / 400)
    recordings = [Recording("faint", room), Recording("one", np.ones(1)), Recording("zeros", np.zeros(800))]
    report = build_store(recordings, tmp_path / "rooms", kind="impulses")
    rooms = ClipStore.open(tmp_path / "rooms")

    assert rooms.lengths.tolist() == [RATE, 1]
    assert int(np.argmax(np.abs(rooms.pcm(0)))) == RATE // 2
    assert rooms.active[0].tolist() == [0, 0]
    assert rooms.active[1].tolist() == [RATE, 1]
    assert report.reasons == {"silent": 1}
    for cut in ("activity", "annotations"):
        with pytest.raises(SpecError, match=f"cut must be whole for impulses, got '{cut}'"):
            build_store(recordings, tmp_path / "cut", kind="impulses", cut=cut)
    write("hall.wav", 0.5 * room / 1e-6)
    _run("build", tmp_path / "source", "--out", tmp_path / "halls", "--kind", "impulses", "--medium", "air", code=0)
    halls = ClipStore.open(tmp_path / "halls")
    assert (halls.kind, halls.lengths.tolist(), halls.clips["medium"].tolist()) == ("impulses", [RATE], ["air"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "10"], "--rate"),
        (["--channel", "left"], "--channel must be one of first, mean, loudest"),
        (["--kind", "songs"], "--kind must be one of"),
        (["--cut", "half"], "cut must be one of whole, activity, annotations"),
        (["--highpass", "9000"], "high-pass"),
        (["--highpass", "nan"], "high-pass"),
        (["--pad", "-1"], "padding"),
        (["--mixture", "nowhere"], "--mixture"),
        (["--column", "species"], "OURS=THEIRS"),
        (["--label", "spcies"], "did you mean 'species'"),
    ],
)
def test_wrong_options(write, tmp_path, rng, arguments, message):
    """An impossible option is refused with what is possible, before anything is written."""
    write("a.wav", _with_calls(rng, [1.0]))
    (tmp_path / "t.csv").write_text("file\na.wav\n")
    with pytest.raises(SpecError, match=message):
        _run("build", tmp_path / "source", "--out", tmp_path / "bank", "--metadata", tmp_path / "t.csv", *arguments)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "t.csv"]


def test_sources_that_are_none(tmp_path):
    """A folder that is missing, a file, or without audio is said so."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, message in (("gone", "doesn't exist"), ("file", "is a file"), ("empty", "no audio files")):
        with pytest.raises(SpecError, match=message):
            _run("build", tmp_path / name, "--out", tmp_path / "bank")


def test_info_and_check(write, tmp_path, rng):
    """`bank info` counts, `bank check` finds damage and says so with exit code 1."""
    write("a.wav", _with_calls(rng, [1.0]))
    (tmp_path / "t.csv").write_text("file,species,licence\na.wav,Parus major,CC BY 4.0\n")
    _run("build", tmp_path / "source", "--out", tmp_path / "bank", "--metadata", tmp_path / "t.csv", code=0)
    said = _run("info", tmp_path / "bank", code=0)

    assert said["counts"]["species"] == {"Parus major": 1}
    assert said["counts"]["licence"] == {"CC-BY-4.0": 1}
    assert said["seconds"] == 3
    assert "cluster" in said["empty"]
    assert _run("check", tmp_path / "bank", code=0)["wrong"] == []
    audio = tmp_path / "bank" / "audio-00000.i16"
    audio.write_bytes(bytes(len(audio.read_bytes())))
    assert len(_run("check", tmp_path / "bank", code=1)["wrong"]) == 2


@pytest.mark.parametrize("cut", ["whole", "activity"])
def test_a_bat_is_above_the_rate_however_it_is_cut(write, tmp_path, rng, cut):
    """An ultrasonic call is rejected as above the rate, not as silent or as without activity."""
    t = np.arange(192_000) / 192_000
    call = np.where((t > 0.4) & (t < 0.5), np.sin(2 * np.pi * 45_000 * t), 0)
    write("bat.wav", 0.5 * call + 1e-6 * rng.normal(size=len(t)), 192_000)
    write("bird.wav", _with_calls(rng, [0.5, 1.2]))
    _run("build", tmp_path / "source", "--out", tmp_path / "bank", "--cut", cut, code=1)

    assert _rejected(tmp_path / "bank") == {"bat.wav": "band_above_rate"}


def test_only_some_folders(write, tmp_path, rng):
    """--include takes files by patterns of their path in SOURCE; a pattern that matches none is refused."""
    for name in ("calls/a.wav", "calls/deep/b.wav", "songs/c.wav", "noise/d.wav"):
        write(name, _with_calls(rng, [0.5]))
    chosen = ("--include", "calls/*", "--include", "songs/*")
    _run("build", tmp_path / "source", "--out", tmp_path / "bank", *chosen, code=0)

    assert set(ClipStore.open(tmp_path / "bank").clips["recording_id"]) == {
        "calls/a.wav",
        "calls/deep/b.wav",
        "songs/c.wav",
    }
    with pytest.raises(SpecError, match=r"no audio file .* matches 'call/\*'"):
        _run("build", tmp_path / "source", "--out", tmp_path / "other", "--include", "call/*")
