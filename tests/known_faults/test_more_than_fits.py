"""Specs that ask for more than fits: refused with a line that says what and how much, not killed halfway."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import synthscape as ss
from synthscape import memory
from synthscape.errors import DatasetError, MixError, SpecError
from synthscape.scale import render as rendering
from synthscape.scale.render import render
from synthscape.tasks.generator import SceneGenerator


def test_more_scenes_than_the_disk_can_hold(spec_of, tmp_path):
    """2**40 items took minutes and all memory before the first was rendered; they are refused at once."""
    with pytest.raises(DatasetError, match=r"items: 1099511627776 scenes take .* GB at least, the disk"):
        render(spec_of(f"items={2**40}", f"output.dir={tmp_path / 'out'}"))

    assert not (tmp_path / "out").exists()


def test_more_shards_than_can_be_kept_account_of(spec_of, tmp_path, monkeypatch):
    """A shard for every scene of a large dataset asks for more memory than the scenes do."""
    monkeypatch.setattr(memory, "_machine_bytes", lambda: 2**30)
    few = ["items=2000000", "duration=0.01", "events.edges=truncate", f"output.dir={tmp_path / 'out'}"]
    with pytest.raises(SpecError, match=r"items_per_shard: 2000000 shards .* GB are free; raise it"):
        render(spec_of(*few, "output.items_per_shard=1"))

    assert rendering._check_fits_disk(spec_of(*few)) is None


def test_scenes_longer_than_memory(spec_of, tmp_path, monkeypatch):
    """A day at once is refused before it is mixed, by rendering (per thread) and by the library; nothing is written."""
    spec = spec_of("duration=86400", "items=2", "events.rate=0.001", f"output.dir={tmp_path / 'out'}")
    monkeypatch.setattr(memory, "_machine_bytes", lambda: 2**34)
    with pytest.raises(MixError, match=r"on 2 threads: it needs .* GB are free; ask for a shorter duration"):
        render(spec, workers=2)
    with pytest.raises(MixError, match=r"1 scenes of up to 1382400000 samples at once: .* GB are free"):
        SceneGenerator(spec).render([0])

    assert not list((tmp_path / "out").rglob("*.flac"))


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="measures memory as Linux does")
@pytest.mark.parametrize(
    "more",
    [
        (),
        ("output.stems=true", "events.rate=null", "events.count=3"),
        ("events.rate=null", "events.count=60", "events.propagation.tail.rt60_s=60"),
    ],
)
def test_the_estimate_covers_what_rendering_takes(spec_of, tmp_path, more):
    """Memory that rendering a scene of ten minutes adds is less than the estimate."""
    overrides = [f"bank={spec_of().bank}", f"backgrounds={spec_of().backgrounds}", *more]
    program = (
        "import re, sys; import synthscape as ss\n"
        "def memory(what): return 1024 * int(re.search(what + r':\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "def render(seconds): ss.render(ss.load_spec('strong_detection', [*sys.argv[2:], 'items=1',"
        "  f'duration={seconds}', f'output.dir={sys.argv[1]}/{seconds}']))\n"
        # from what is in use, the peak set back: compiling, where nothing is cached yet, takes more than rendering
        "render(1); before = memory('VmRSS'); open('/proc/self/clear_refs', 'w').write('5')\n"
        "render(600); print(memory('VmHWM') - before)"
    )
    command = [sys.executable, "-c", program, str(tmp_path), *overrides]
    added = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    scenes = SceneGenerator(ss.load_spec("strong_detection", [*overrides, "duration=600"]))

    assert added < scenes.mixer.memory_needed(scenes.plan([0]), scenes.spec.output.stems)
