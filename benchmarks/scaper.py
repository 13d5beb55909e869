"""Beside Scaper, in its own environment: the same clips, the same kind of scenes, one process and one thread each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import soundfile

from benchmarks.stores import BAND_NOT_MEASURED, RATE, known, make_backgrounds, make_calls, spec_over
from benchmarks.tables import NotMeasuredError, Section, spread, verdict
from synthscape.bank.store import ClipStore
from synthscape.scale.render import render
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator

VERSION = "1.6.5"
DURATION_S, EVENTS, EVENT_S, BACKGROUND_S = 10, 8, 1.0, 30.0
RATIOS = (0.84, 0.92, 1.09, 1.19)
SNR_DB, LEVEL_DB, SEED = (-10, 10), -40, 7
_WORKER = Path(__file__).with_name("scaper_worker.py")
_NEEDS = ("numpy<2", "pandas<3", "setuptools<81", "wheel")
_INSTALL = "`apt-get install sox ffmpeg libsox-dev g++ python3-dev`, or what your system calls them"
_NEWEST_PYTHON = (3, 12)  # the last one NumPy 1 is built for
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}
_AT_ONCE = 64  # scenes of a call, in memory

# what Scaper does: (pitch and stretch, to disk, quick)
_SCAPER = {
    "in memory": ("as they are", False, False),
    "in memory, pitch and stretch": ("resampled", False, False),
    "in memory, pitch and stretch, quick": ("resampled", False, True),
    "WAV and JAMS": ("as they are", True, False),
    "WAV and JAMS, pitch and stretch": ("resampled", True, False),
    "WAV and JAMS, pitch and stretch, quick": ("resampled", True, True),
}
# what is compared with it: (resampled, to disk, ratio to reach)
_COMPARED = {
    "in memory": (False, False, 60),
    "in memory, pitch and stretch": (True, False, 20),
    "in memory, pitch and stretch, quick": (True, False, None),
    "WAV and JAMS": (False, True, 8),
    "WAV and JAMS, pitch and stretch": (True, True, 8),
    "WAV and JAMS, pitch and stretch, quick": (True, True, None),
}

Ours = tuple[str, bool, bool]  # (how SNR is measured, resampled, to disk)


def run(folder: Path, quick: bool) -> Section:
    repeats, theirs, in_memory, to_disk = (1, 2, 8, 8) if quick else (5, 20, 4 * _AT_ONCE, 256)
    environment = prepare()
    calls = make_calls(folder / "calls", n=200, shortest_s=EVENT_S, longest_s=EVENT_S)
    backgrounds = make_backgrounds(folder / "backgrounds", length_s=BACKGROUND_S)
    wav = folder / "wav"
    write_wav(calls, wav / "calls", calls.clips["species"])
    write_wav(backgrounds, wav / "backgrounds", ["background"] * len(backgrounds))

    ours: dict[Ours, Callable[[], int]] = {}
    for how, overrides in _references().items():
        for resampled in (False, True):
            spec = _spec(calls, backgrounds, overrides, resampled)
            ours[how, resampled, False] = partial(_draw, SceneGenerator(spec), count(), in_memory)
            ours[how, resampled, True] = partial(_render, spec, folder / "ours", to_disk)
    seconds: dict[str, list[float]] = {name: [] for name in _SCAPER}
    rates: dict[Ours, list[float]] = {case: [] for case in ours}
    with _worker(environment, wav) as (versions, ask):
        for repeat in range(-1, repeats):  # the first warms both up
            for name, (source, disk, fast) in _SCAPER.items():
                out = folder / "theirs"
                out.mkdir()
                job = {"source": source, "quick": fast, "folder": str(out) if disk else None}
                took = ask({**job, "scenes": theirs if repeat >= 0 else 2})
                shutil.rmtree(out)
                if repeat >= 0:
                    seconds[name].append(took / theirs)
            for case, do in ours.items():
                begin = time.perf_counter()
                scenes = do()
                took = time.perf_counter() - begin
                shutil.rmtree(folder / "ours", ignore_errors=True)
                if repeat >= 0:
                    rates[case].append(scenes / took)

    said = ", ".join(f"{name} {number}" for name, number in versions.items())
    section = Section(
        f"Beside Scaper {VERSION}",
        f"{DURATION_S} s scenes at {RATE} Hz: {EVENTS} events of {EVENT_S:g} s over one background, SNR uniform in "
        f"{SNR_DB[0]} to {SNR_DB[1]} dB, background at {LEVEL_DB} (LUFS; dBFS here), the same {len(calls)} clips and "
        f"{len(backgrounds)} backgrounds (as WAV files for Scaper). One process, one thread each. Medians (lowest to "
        f"highest) of {repeats} repeats, all cases in turn, ratios within a repeat; Scaper {theirs} scenes a time, "
        f"synthscape {in_memory} in memory and {to_disk} to disk. Scaper's packages: {said}.",
    )
    section.add(
        ["Scaper", "scenes/s", "x real time"],
        [
            [name, spread([1 / s for s in values]), spread([DURATION_S / s for s in values])]
            for name, values in seconds.items()
        ],
    )
    rows = []
    for name, (resampled, disk, least) in _COMPARED.items():
        for how in _references():
            values = rates[how, resampled, disk]
            ratios = [rate * s for rate, s in zip(values, seconds[name], strict=True)]
            what = f"{'FLAC and tables' if disk else 'in memory'}, {'all' if resampled else 'none'} resampled, {how}"
            target = "" if least is None else f">= {least} x: {verdict(median(ratios), least)}"
            rows.append([what, name, spread(values), f"{spread(ratios)} x", target])
    section.add(["synthscape", "beside Scaper", "synthscape, scenes/s", "ratio", "target"], rows)
    return section


def _references() -> dict[str, Sequence[str]]:
    references: dict[str, Sequence[str]] = {
        "SNR by band": ["events.snr.reference=band"],
        "band SNR not measured": BAND_NOT_MEASURED,
        "SNR by loudness, as Scaper": ["events.snr.reference=loudness"],
    }
    return {how: overrides for how, overrides in references.items() if known(overrides)}


def _spec(calls: ClipStore, backgrounds: ClipStore, overrides: Sequence[str], resampled: bool) -> Spec:
    return spec_over(
        calls.path,
        backgrounds.path,
        [
            f"duration={DURATION_S}",
            f"events.count={EVENTS}",
            "classes={balance: uniform, per_scene: 10}",
            f"events.snr.db={{uniform: [{SNR_DB[0]}, {SNR_DB[1]}]}}",
            f"events.resample={{choice: [{', '.join(map(str, RATIOS))}]}}" if resampled else "events.resample=1",
            f"background.level_dbfs={LEVEL_DB}",
            *overrides,
        ],
    )


def _draw(scenes: SceneGenerator, numbers: Iterator[int], n: int) -> int:
    """Audio and labels of scenes nobody has asked for before."""
    for _ in range(0, n, _AT_ONCE):
        batch = scenes.render([next(numbers) for _ in range(min(n, _AT_ONCE))])
        if batch.event_table.num_rows != EVENTS * len(batch):
            raise RuntimeError(f"expected {EVENTS} events in each of {len(batch)}, got {batch.event_table.num_rows}")
    return n


def _render(spec: Spec, out: Path, items: int) -> int:
    render(replace(spec, items=items, output=replace(spec.output, dir=str(out))))
    return items


def write_wav(store: ClipStore, folder: Path, labels: Sequence[str]) -> None:
    """All clips of a store as 16-bit WAV files, in a folder for each label: the very samples of the store."""
    for row, label in enumerate(labels):
        (folder / label).mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / label / f"{row:04d}.wav", store.pcm(row), store.sample_rate, subtype="PCM_16")


@contextmanager
def _worker(python: Path, wav: Path) -> Iterator[tuple[dict[str, str], Callable[[dict[str, Any]], float]]]:
    """Start Scaper; give its packages, and what asks it for scenes and gives the seconds they took."""
    settings = {
        "calls": str(wav / "calls"),
        "backgrounds": str(wav / "backgrounds"),
        "rate_hz": RATE,
        "duration_s": DURATION_S,
        "background_s": BACKGROUND_S,
        "events": EVENTS,
        "event_s": EVENT_S,
        "snr_db": SNR_DB,
        "level_db": LEVEL_DB,
        "ratios": RATIOS,
        "seed": SEED,
    }
    process = subprocess.Popen(
        [python, "-I", _WORKER, json.dumps(settings)],  # -I: or `import scaper` would find this very file
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=wav,
        env={**os.environ, **_ONE_THREAD},
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def answer() -> dict[str, Any]:
        line = process.stdout.readline()
        if not line:
            raise NotMeasuredError(f"Scaper's process ended with exit code {process.wait()}: what it said is on stderr")
        return json.loads(line)

    def ask(job: dict[str, Any]) -> float:
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        return answer()["seconds"]

    with process:
        try:
            yield answer()["versions"], ask
        finally:
            process.stdin.close()


def prepare() -> Path:
    """Scaper's environment, made if it is not there; gives its Python.

    Raises:
        NotMeasuredError: something is missing that only the user can install.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "synthscape-benchmarks" / f"scaper-{VERSION}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    missing = [name for name in ("sox", "ffmpeg") if shutil.which(name) is None]
    if missing:
        raise NotMeasuredError(f"Scaper needs {' and '.join(missing)}: {_INSTALL}")
    if (folder / "ready").exists():
        return python
    print(f"installing Scaper {VERSION} into {folder} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [_old_python(), "-m", "venv", folder],
        [*install, *_NEEDS],
        [*install, f"scaper=={VERSION}", *_NEEDS],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NotMeasuredError(
                f"Scaper could not be installed into {folder}: {' '.join(map(str, command))} said: "
                f"{' '.join(done.stderr.split())[-500:]}. It needs the network, a compiler, SoX's headers: {_INSTALL}"
            )
    (folder / "ready").touch()
    return python


def _old_python() -> str:
    if sys.version_info[:2] <= _NEWEST_PYTHON:
        return sys.executable
    for minor in range(_NEWEST_PYTHON[1], 9, -1):
        path = shutil.which(f"python3.{minor}")
        if path:
            return path
    raise NotMeasuredError(
        "Scaper needs NumPy 1, which has no version for this Python: put python3.12 or older on the PATH"
    )
