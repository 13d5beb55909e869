"""The command line in a process of its own, as a user has it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def synthscape(*arguments: object, may_find: bool = False) -> dict[str, Any]:
    """Run a command with ``--json`` and give the last it printed; it must end with exit code 0, or 1 if it may find."""
    words = [str(argument) for argument in arguments]
    script = "from synthscape.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", script, *words, "--json"], capture_output=True, text=True)

    assert ended.returncode in ((0, 1) if may_find else (0,)), ended.stderr
    printed: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1] if words[0] == "render" else ended.stdout)
    return printed


def side_by_side(*commands: Sequence[object]) -> list[dict[str, Any]]:
    """Run commands at the same time, each of which may find something; give what they printed."""
    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(lambda words: synthscape(*words, may_find=True), commands))
