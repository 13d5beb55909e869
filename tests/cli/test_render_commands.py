"""``synthscape render``, ``plan`` and ``demo`` as a user meets them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from synthscape.cli import main
from synthscape.output.dataset import open_dataset
from synthscape.scale.render import render
from tests.hand_built import make_bank
from tests.signals import unignored
from tests.small_dataset import contents, make_stores, small_spec, write_spec

COMMAND = [sys.executable, "-c", "from synthscape.cli import main; main()"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def spec(stores, tmp_path) -> Path:
    """A spec file that renders into ``tmp_path/out``."""
    return write_spec(tmp_path, stores)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command line; give its exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["synthscape", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["render", "--help"], ["plan", "-h"]])
def test_help_loads_nothing_heavy(arguments):
    """Help and version answer without numpy, numba, pandas, pyarrow, omegaconf or matplotlib."""
    heavy = ("numpy", "numba", "pandas", "pyarrow", "scipy", "omegaconf", "matplotlib", "soundfile", "torch", "yaml")
    script = (
        "import sys, atexit; from synthscape.cli import main; "
        f"atexit.register(lambda: print('LOADED', [name for name in {heavy} if name in sys.modules])); main()"
    )
    ended = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)

    assert ended.returncode == 0
    assert ended.stdout.strip().endswith("LOADED []")


def test_a_render_imports_only_what_it_uses(run, spec):
    """Loudness, rooms and noise take modules of SciPy that need a second to import; this render has none of them."""
    heavy = ("scipy.fft", "scipy.signal", "scipy.stats", "soxr", "pyloudnorm", "matplotlib", "torch", "ray", "fsspec")
    script = (
        "import sys, atexit; from synthscape.cli import main; "
        f"atexit.register(lambda: print('LOADED', [name for name in {heavy} if name in sys.modules])); main()"
    )
    command = [sys.executable, "-c", script, "render", str(spec), "items=1"]
    ended = subprocess.run(command, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip().endswith("LOADED []")


def test_version_is_that_of_the_package(run):
    """One number, from the package's metadata."""
    from importlib.metadata import version

    assert run("--version")[:2] == (0, f"synthscape {version('synthscape')}\n")


def test_render_says_what_it_made(run, spec, tmp_path):
    """Counts and the folder on stdout, nothing on stderr when it is no terminal; again, it finds all there."""
    code, out, err = run("render", spec, "--workers", 2)
    data = open_dataset(tmp_path / "out")

    assert (code, err) == (0, "")
    assert f"dataset   {tmp_path / 'out'}\n" in out
    assert "items     23 of 23\n" in out
    assert f"scenes    23, {data.info['counts']['hours']:.3g} h" in out
    assert f"events    {len(data.events)}, " in out
    code, out, err = run("render", spec)
    assert (code, err) == (0, "")
    assert "(3 shards were there)" in out


def test_overrides_and_json(run, spec, tmp_path):
    """Overrides apply; with --json the last line of stdout says what was made."""
    code, out, err = run("render", spec, "items=3", f"output.dir={tmp_path / 'other'}", "--json")
    content = json.loads(out.splitlines()[-1])

    assert (code, err) == (0, "")
    assert content["path"] == str(tmp_path / "other")
    assert content["counts"]["delivered"] == 3 == len(open_dataset(tmp_path / "other"))
    assert content["content_hash"] == open_dataset(tmp_path / "other").info["content_hash"]


WRONG = [
    (["nowhere.yaml"], "nowhere.yaml"),
    (["SPEC", "itms=3"], "itms"),
    (["SPEC", "items=-1"], "items"),
    (["SPEC", "bank=nowhere"], "does not exist"),
    (["SPEC", "sample_rate=16000"], "8000 Hz"),
    (["SPEC", "events.count=null"], "count"),
]
WRONG_PLACES = [
    (["SPEC", "output.dir=/proc/nothing/here"], "/proc/nothing"),
    (["SPEC", "output.dir=SPEC"], "is a file"),
    (["SPEC", "output.dir=FOLDER"], "no dataset"),
]


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [("render", *case) for case in WRONG + WRONG_PLACES] + [("plan", *case) for case in WRONG],
)
def test_bad_input_gets_one_line(run, spec, tmp_path, command, arguments, message):
    """Exit code 2, one line that names the matter, no traceback, nothing made."""
    filled = [argument.replace("SPEC", str(spec)).replace("FOLDER", str(tmp_path)) for argument in arguments]
    code, out, err = run(command, *filled)

    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


def test_another_spec_is_refused_in_one_line(run, spec):
    """The line names the key that differs."""
    run("render", spec, "items=2")
    code, _, err = run("render", spec, "items=2", "seed=9")

    assert code == 2
    assert "seed 5 there, 9 asked" in err
    assert len(err.strip().splitlines()) == 1
    assert run("render", spec, "items=2", "seed=9", "--overwrite")[0] == 0


def test_failed_items_are_listed(run, tmp_path, stores):
    """Exit code 1, each failed item with its reason on stderr."""
    import numpy as np

    from synthscape.bank.writer import StoreWriter
    from tests.hand_built import RATE, clip_columns, tone_clip

    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        for i in range(6):
            writer.add(tone_clip(i, 900.0), clip_columns("Parus major", i, 900.0))
        silent = {**clip_columns("Parus major", 7, 900.0), "active_start": 0, "active_end": 200}
        writer.add(np.concatenate([np.zeros(200), tone_clip(9, 900.0)[700:1400]]), silent)
    spec = write_spec(tmp_path, stores)
    options = (f"bank={tmp_path / 'bank'}", "classes.per_scene=1", "events.resample=1", "items=16", "empty_share=0")
    code, out, err = run("render", spec, *options)
    delivered = len(open_dataset(tmp_path / "out"))
    lines = err.strip().splitlines()

    assert code == 1
    assert 0 < len(lines) == 16 - delivered
    assert all(line.startswith("synthscape: s0000000") and "clip 6 of" in line for line in lines)
    assert f"items     {delivered} of 16" in out


def test_interrupted_render_goes_on(spec, stores, tmp_path):
    """Ctrl-C ends with 130 and one line; the same command then makes the dataset that was never interrupted."""
    more = ("items=400", "output.items_per_shard=20")
    process = subprocess.Popen(
        [*COMMAND, "render", spec, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=unignored,
    )
    limit = time.monotonic() + 60
    while not list((tmp_path / "out").glob("receipts/[0-9]*.json")) and time.monotonic() < limit:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    said = re.fullmatch(
        r"synthscape: interrupted; the same command goes on from here \((\d+) of 400 items are finished\)\n",
        err.decode(),
    )
    assert said
    report = render(small_spec(tmp_path, stores, *more))
    assert report.kept_shards > 0
    assert report.kept_shards - int(said[1]) // 20 in (0, 1)  # one may have come into being just then
    resumed = contents(tmp_path / "out")
    render(small_spec(tmp_path, stores, *more), overwrite=True)
    assert contents(tmp_path / "out") == resumed


def test_plan_says_what_render_makes(run, spec, tmp_path):
    """Counts of the dry run are those of the render, and nothing is written."""
    code, out, err = run("plan", spec, "--json")
    forecast = json.loads(out)
    made = [path.name for path in tmp_path.iterdir()]
    run("render", spec)
    data = open_dataset(tmp_path / "out")
    flac = sum(path.stat().st_size for path in (tmp_path / "out").glob("audio/*/*"))

    assert (code, err, made) == (0, "", ["small.yaml"])
    assert forecast["events"] == len(data.events)
    assert forecast["hours"] == pytest.approx(data.info["counts"]["hours"])
    assert forecast["asked"] == data.info["counts"]["asked"]
    assert forecast["drop_reasons"] == data.info["counts"]["drop_reasons"]
    assert forecast["classes"] == data.info["classes"]
    assert forecast["bytes"] == pytest.approx(flac, rel=0.1)
    assert sum(n for _, _, n in forecast["histograms"]["events per scene"]) == 23


def test_plan_of_a_part_says_so(run, spec):
    """Totals are scaled up from the items that were planned."""
    code, out, _ = run("plan", spec, "items=2300", "--items", 100)

    assert code == 0
    assert "the first 100 of 2300 items" in out
    for heading in ("events by class", "scene duration, s", "events per scene", "SNR asked, dB", "ratio"):
        assert f"\n{heading}\n" in out
    assert "#" in out


def test_plan_shows_what_is_dropped(run, spec):
    """Events that find no place are counted by reason."""
    code, out, _ = run("plan", spec, "events.count=40", "duration=1", "events.overlap.max_polyphony=1")

    assert code == 0
    assert "dropped   overlap_same_class: " in out or "dropped   polyphony: " in out


def test_demo_makes_a_dataset_with_pictures(run, tmp_path):
    """Bank, 50 scenes of 10 s, selection tables and a picture sheet, where the command says they are.

    The example runs beside it, on the same bank.
    """
    code, out, _ = run("demo", "--out", tmp_path, "--workers", 2)
    data = open_dataset(tmp_path / "out" / "demo")

    assert code == 0
    assert len(data) == 50
    assert set(data.scenes["duration_s"]) == {10.0}
    assert data.scenes["n_placed"].sum() >= 0.98 * data.scenes["n_asked"].sum()
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert f"pictures  {tmp_path / 'out' / 'demo.png'}" in out
    assert data.verify() == []
    assert len(list((tmp_path / "out" / "demo" / "raven").glob("*/*.txt"))) == 50
    assert run("demo", "--out", tmp_path)[0] == 0  # again: all is there
    example = Path(__file__).resolve().parents[2] / "examples" / "quickstart.py"
    ended = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "same samples: True" in ended.stdout
    assert len(open_dataset(tmp_path / "out" / "quickstart")) == 20


def test_a_bank_of_another_kind_is_refused(run, spec, tmp_path):
    """A store of backgrounds can't be the bank."""
    make_bank(tmp_path / "calls")
    code, _, err = run("render", spec, f"backgrounds={tmp_path / 'calls'}")

    assert code == 2
    assert "expected backgrounds" in err
