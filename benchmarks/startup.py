"""How soon the command line answers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.tables import Section, spread

_CODE = "import sys; from synthscape.cli import main; sys.argv[0] = 'synthscape'; main()"


def run(folder: Path, quick: bool) -> Section:
    repeats = 1 if quick else 5
    rows = []
    for command in (["--help"], ["bank", "--help"], ["spec", "show", "strong_detection"]):
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", _CODE, *command], cwd=folder, check=True, capture_output=True)
            seconds.append(time.perf_counter() - begin)
        rows.append([f"`synthscape {' '.join(command)}`", spread(seconds)])
    section = Section("Command line", f"Whole processes; medians (lowest to highest) of {repeats}.")
    section.add(["command", "s"], rows)
    return section
