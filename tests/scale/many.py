"""Render many tiny scenes; print what it cost, as JSON: peak memory, processor time, files read and written.

python -m tests.scale.many FOLDER STORES ITEMS...
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from synthscape.scale.render import render
from tests.scale.tiny import tiny_spec

WAY = ("duration=0.1", "output.audio=none", "output.items_per_shard=100", "events.count=1")


def peak_kb() -> int:
    """The most memory this process has had."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0])


def main(folder: Path, stores: Path, items: list[int]) -> list[dict[str, object]]:
    """Render datasets of so many items, one after the other."""
    found = []
    opened: Counter[str] = Counter()

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not isinstance(arguments[0], int):
            path = Path(os.fsdecode(arguments[0]))
            if folder in path.parents:
                opened[f"{path.parent.name} {arguments[1]}"] += 1

    sys.addaudithook(count)
    for n in items:
        opened.clear()
        cpu = time.process_time()
        spec = tiny_spec(folder, stores, *WAY, f"items={n}", f"output.dir={folder / str(n)}")
        report = render(spec, workers=2)
        found.append(
            {
                "items": n,
                "delivered": report.counts["delivered"],
                "shards": report.new_shards,
                "peak_kb": peak_kb(),
                "cpu_s": time.process_time() - cpu,
                "receipts_read": opened["receipts r"],
                "opened": sum(opened.values()),
            }
        )
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), [int(word) for word in sys.argv[3:]])))
