"""Kill renders at random moments, let them go on, and look whether anything is ever wrong.

Run as a program, so that it can fork before any thread has started: to begin a process anew takes seconds, to fork one
that has compiled its kernels takes milliseconds.

    python -m tests.scale.killed FOLDER STORES KILLS SEED      # prints JSON: what was killed where
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from synthscape.output.dataset import open_dataset
from synthscape.scale.render import render
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator
from tests.scale.tiny import FORMATS, held, leftovers, tiny_spec

_FILE_EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "fcntl.flock"}


@dataclass(frozen=True)
class Killer:
    """When a child dies: before its file operation of this number, or after some time; or not at all."""

    operation: int | None = None
    seconds: float | None = None


def child(work: Callable[[], object], killer: Killer = Killer()) -> tuple[bool, int]:
    """Do something in a child that may be killed: whether it came to its end, and its number of file operations."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            operations = 0

            def count(event: str, _: object) -> None:
                nonlocal operations
                if event in _FILE_EVENTS:
                    operations += 1
                    if operations == killer.operation:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            work()
            os.write(write, str(operations).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    if killer.seconds is not None:
        time.sleep(killer.seconds)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    with os.fdopen(read) as pipe:
        said = pipe.read()
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, f"a render ended with status {status}"
    return bool(said), int(said or 0)


def phase(out: Path, n_shards: int) -> str:
    """Where a render was when it was killed, by what it left."""
    if (out / "dataset.json").exists():
        return "whole"
    if not (out / "render.json").exists():
        return "before it began"
    receipts = {path.stem for path in out.glob("receipts/[0-9]*.json")}
    if len(receipts) == n_shards:
        return "summing up"
    if any(path.stem not in receipts for part in ("chat", "events", "items") for path in out.glob(f"{part}/[0-9]*")):
        return "between files and receipt"
    return "in a shard" if any(out.glob(".aside-*/*")) else "between shards"


def check(out: Path, expected: dict[str, object]) -> None:
    """A dataset that says that it is whole is."""
    if (out / "dataset.json").exists():
        there = {name: content for name, content in held(out).items() if ".aside-" not in name}
        assert there == expected, sorted(name for name in expected if there.get(name) != expected[name])


def main(folder: Path, stores: Path, kills: int, seed: int) -> dict[str, object]:
    """Kill so many renders, in each format in turn; what was killed where, and how many came to their end."""
    chosen = random.Random(seed)
    specs: dict[str, Spec] = {}
    for name in FORMATS:
        (folder / name).mkdir()
        specs[name] = tiny_spec(folder / name, stores, f"output.format={name}")
    SceneGenerator(specs[FORMATS[0]]).render(range(4))  # compiles; children find it done
    wholes, sizes = {}, {}
    for name, spec in specs.items():
        begun = time.monotonic()
        _, operations = child(partial(render, spec))
        sizes[name] = operations, time.monotonic() - begun
        wholes[name] = held(folder / name / "out")
        assert len(open_dataset(folder / name / "out")) == spec.items
    phases: Counter[str] = Counter()
    renders = n_kills = 0
    while n_kills < kills:
        name = chosen.choice(FORMATS)
        spec, out = specs[name], folder / name / "out"
        operations, seconds = sizes[name]
        overwrite = chosen.random() < 0.5
        if not overwrite:
            shutil.rmtree(out)
        ended = False
        while not ended and n_kills < kills:
            by_time = Killer(seconds=chosen.uniform(0, seconds))
            killer = chosen.choice([by_time, Killer(operation=chosen.randint(1, operations))])
            workers = chosen.choice([1, 2])
            ended, _ = child(partial(render, spec, workers=workers, overwrite=overwrite), killer)
            if not ended:
                n_kills += 1
                phases[phase(out, 3)] += 1
                check(out, wholes[name])
                # from now on it goes on, unless it was killed before the old one was gone
                overwrite = overwrite and (out / "dataset.json").exists()
        if not ended:
            child(partial(render, spec))
        renders += 1
        assert leftovers(out) == []
        check(out, wholes[name])
        assert (out / "dataset.json").exists()
    return {"kills": n_kills, "phases": phases, "renders": renders}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
