"""What a render shows while it goes on, and how it stops."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from synthscape.cli import progress
from synthscape.cli.progress import Meter, watched
from synthscape.cli.stopping import Stopped, stoppable
from synthscape.output.dataset import open_dataset
from synthscape.scale.progress import Step
from synthscape.scale.render import render
from tests.scale.tiny import held, leftovers, make_stores, tiny_spec, write_tiny_spec
from tests.signals import unignored

COMMAND = [sys.executable, "-c", "from synthscape.cli import main; main()"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of six short calls, and backgrounds."""
    return make_stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def clock(monkeypatch) -> Callable[[float], None]:
    """Time that passes when it is told to."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def test_what_was_there_counts_in_no_rate(stores, tmp_path, clock):
    """Rates and time left are of new items; what was there is done and finished."""
    meter = Meter(tiny_spec(tmp_path, stores, "items=1000", "output.items_per_shard=100"))
    meter.add(Step(400, 0, 400, 4000.0, kept=True))
    assert (meter.kept, meter.done, meter.finished, meter.left_s()) == (400, 400, 400, None)
    for _ in range(10):
        clock(1)
        meter.add(Step(20, 1, 19, 190.0))

    assert (meter.done, meter.failed, meter.finished) == (600, 10, 400)
    assert meter.rates() == pytest.approx((20, 19, 190))
    assert meter.left_s() == pytest.approx(400 / 20)
    assert meter.words() == ["19 scenes/s", "190 x real time", "10 failed", "20 s left"]
    meter.add(Step(shard=9))
    assert meter.finished == 500


def test_rates_are_of_the_last_minute(stores, tmp_path, clock):
    """Ten slow minutes are forgotten after a fast one."""
    meter = Meter(tiny_spec(tmp_path, stores, "items=100000"))
    for seconds, items in ((600, 1), (61, 50)):
        for _ in range(seconds):
            clock(1)
            meter.add(Step(items, 0, items, float(items)))

    assert meter.rates() == pytest.approx((50, 50, 50), rel=0.02)


def test_the_last_shard_may_be_shorter(stores, tmp_path):
    """Items of single shards, and of the last, are counted as they are."""
    spec = tiny_spec(tmp_path, stores, "items=10", "output.items_per_shard=4")
    assert (Meter(spec).items, Meter(spec).shards) == (10, 3)
    assert (Meter(spec, [2, 0, 2]).items, Meter(spec, [2, 0, 2]).shards) == (6, 2)


def test_lines_now_and_then(stores, tmp_path, clock, capsys):
    """Where stderr is no terminal: the first line after ten seconds, then ever more rarely; none for a short render."""
    spec = tiny_spec(tmp_path, stores, "items=100000")
    with watched(spec) as tell:
        tell(Step(0, kept=True))
        for _ in range(9):
            clock(1)
            tell(Step(100, 0, 100, 1000.0))
        assert capsys.readouterr() == ("", "")
        times: list[int] = []
        said: list[str] = []
        for second in range(10, 900):
            clock(1)
            tell(Step(100, 0, 100, 1000.0))
            said.append(capsys.readouterr().err)
            if said[-1]:
                times.append(second)
    assert times[:3] == [11, 21, 31]  # ten after the first scene
    assert max(b - a for a, b in pairwise(times)) < 100
    assert len(times) < 40
    assert [line for line in said if line][-1] == (
        f"synthscape: {100 * times[-1]} of 100000 items, 100 scenes/s, 1000 x real time, 0 failed, "
        f"{round((1000 - times[-1]) / 60)} min left\n"
    )


def test_events(stores, tmp_path, clock, capsys):
    """Begin, progress once a second at most, each shard, each on a line of its own; what others made begins nothing."""
    spec = tiny_spec(tmp_path, stores, "items=100", "output.items_per_shard=10")
    with watched(spec, json=True) as tell:
        tell(Step(10, 0, 10, 5.0, kept=True))
        for shard in range(9):
            for _ in range(5):
                clock(0.3)
                tell(Step(2, 0, 2, 1.0))
            tell(Step(shard=shard))
        tell(Step(10, 1, 9, 5.0, kept=True))
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = [event.pop("event") for event in events]

    assert events[0] == {"path": str(tmp_path / "out"), "items": 100, "shards": 10, "kept": 10}
    assert kinds[0] == "begin"
    assert kinds.count("begin") == 1
    assert [event["shard"] for event, kind in zip(events, kinds, strict=True) if kind == "shard"] == list(range(9))
    told = [event for event, kind in zip(events, kinds, strict=True) if kind == "progress"]
    assert 9 <= len(told) <= 0.3 * 45 + 1
    assert told[-1].keys() == {"items", "failed", "scenes_per_s", "x_real_time", "left_s"}
    assert told[5]["scenes_per_s"] == pytest.approx(2 / 0.3, rel=0.1)


def test_a_bar_at_a_terminal(stores, tmp_path):
    """At a terminal there is a bar with rates, which goes when all is done; stdout is as ever."""
    spec = write_tiny_spec(tmp_path, stores, items=400)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "render", spec, "--workers", "1"], stdout=subprocess.PIPE, stderr=theirs, text=True,
        env={**os.environ, "COLUMNS": "150", "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # how a terminal says that nobody is at its other end
        pass
    out = process.communicate()[0]
    os.close(ours)

    assert process.returncode == 0
    assert "items     400 of 400\n" in out
    assert "\x1b" not in out
    text = shown.decode()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert re.search(r"rendering .* \d+/400 .*scenes/s · \d+ x real time · 0 failed", plain)
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is there again
    assert text.index("\x1b[?25h") < text.index("scenes/s")  # ... even while the bar is


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_stopped_in_the_middle(stores, tmp_path, number, code):
    """Ctrl-C and SIGTERM: exit code 130 and 143, one line, an event, nothing left aside; then it goes on."""
    spec = write_tiny_spec(tmp_path, stores, items=4000)
    process = subprocess.Popen(
        [*COMMAND, "render", spec, "--json", "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=unignored,
    )
    events = []
    with process:
        for line in process.stdout:
            events.append(json.loads(line))
            if len(events) == 5:
                process.send_signal(number)
        err = process.stderr.read()
    said = re.fullmatch(
        r"synthscape: (interrupted; the same command goes on from here \((\d+) of 4000 items are finished\))\n", err
    )

    assert process.returncode == code
    assert said, err
    assert events[-1] == {"event": "interrupted", "message": said[1]}
    told = sum(event["event"] == "shard" for event in events)
    assert int(said[2]) // 4 - told in (0, 1)  # one may have been counted, and not told yet
    assert leftovers(tmp_path / "out") == []
    report = render(tiny_spec(tmp_path, stores, f"items={int(said[2]) + 40}"))
    assert report.kept_shards - int(said[2]) // 4 in (0, 1)  # one may have come into being just then
    assert open_dataset(tmp_path / "out").verify() == []


MOMENTS = [
    ("while stores are opened", "synthscape.bank.store.ClipStore.open"),
    ("while it is planned", "synthscape.tasks.generator.SceneGenerator.plan_items"),
    ("before it has begun", "synthscape.output.folder.DatasetFolder.kept"),
    ("between shards", "synthscape.output.folder.DatasetFolder.shard"),
    ("before a receipt", "synthscape.output.folder.ShardWriter.commit"),
    ("while it is summed up", "synthscape.output.folder.DatasetFolder.finish"),
]


@pytest.mark.parametrize(("moment", "place"), MOMENTS, ids=[moment for moment, _ in MOMENTS])
def test_stopped_at_any_moment(stores, tmp_path, monkeypatch, capsys, moment, place):
    """A signal that comes just before any of these: exit code 143 and one line; then the same dataset."""
    import importlib

    from synthscape.cli import main

    module, kind, name = place.rsplit(".", 2)
    holder = getattr(importlib.import_module(module), kind)
    original = holder.__dict__[name]
    inner = original.__func__ if isinstance(original, classmethod) else original

    once = threading.Lock()

    def signalled(*arguments, **options):
        if once.acquire(blocking=False):  # a second one, from another thread, would end us at once
            os.kill(os.getpid(), signal.SIGTERM)
        return inner(*arguments, **options)

    monkeypatch.setattr(holder, name, classmethod(signalled) if isinstance(original, classmethod) else signalled)
    monkeypatch.setattr(sys, "argv", ["synthscape", "render", str(write_tiny_spec(tmp_path, stores))])
    was = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, was[0])
        signal.signal(signal.SIGINT, was[1])
    out, err = capsys.readouterr()

    assert (ended.value.code, out) == (143, "")
    assert err.startswith("synthscape: interrupted; the same command goes on from here")
    assert err.count("\n") == 1
    assert not (tmp_path / "out" / "dataset.json").exists()
    assert leftovers(tmp_path) == []
    monkeypatch.undo()
    render(tiny_spec(tmp_path, stores))
    resumed = held(tmp_path / "out")
    render(tiny_spec(tmp_path, stores), overwrite=True)
    assert held(tmp_path / "out") == resumed


def test_an_overwriting_render_goes_on_without_overwriting(stores, tmp_path):
    """What it says to do does not lose what is finished."""
    spec = tiny_spec(tmp_path, stores, "items=8")

    def stopped() -> None:
        with watched(spec, overwrites=True) as tell:
            tell(Step(0, kept=True))
            tell(Step(4, shard=0))
            raise Stopped(130)

    with pytest.raises(Stopped) as found:
        stopped()
    assert found.value.__notes__ == [
        "the same command without --overwrite goes on from here (4 of 8 items are finished)"
    ]


def test_a_second_signal_ends_at_once():
    """What is being cleaned up after the first is left as it is: the process is gone, by the signal itself."""
    script = (
        "import os, signal, time; from synthscape.cli.stopping import stoppable\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with stoppable():\n"
        "    try: os.kill(os.getpid(), signal.SIGINT); time.sleep(60)\n"
        "    finally: os.kill(os.getpid(), signal.SIGINT); time.sleep(60)\n"
    )
    begun = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True)

    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == b""
    assert time.monotonic() - begun < 50


def test_ignored_signals_stay_ignored():
    """Started by nohup and its like, a command goes on; afterwards all is as before."""
    was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, was)
    before = signal.getsignal(signal.SIGTERM)
    with stoppable():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_errors_are_events_too(stores, tmp_path, capsys, monkeypatch):
    """With --json a program reads from stdout what a person reads from stderr; the exit code is the same."""
    from synthscape.cli import main

    arguments = ["synthscape", "render", str(write_tiny_spec(tmp_path, stores)), "bank=nowhere", "--json"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    (event,) = [json.loads(line) for line in out.splitlines()]

    assert ended.value.code == 2
    assert event["event"] == "error"
    assert err == f"synthscape: {event['message']}\n"
    assert "nowhere" in event["message"]
