"""Scaper in an environment of its own: draws as many scenes as a line of stdin asks for, and says how long it took.

Run by ``benchmarks/scaper.py`` with that environment's Python; imports nothing of synthscape.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    asked = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    import scaper

    sources = {name: _scaper(scaper, asked, pitch=name != "as they are") for name in ("as they are", "resampled")}
    packages = ("scaper", "numpy", "pandas", "scipy", "soundfile", "soxbindings", "pyloudnorm", "jams")
    _say({"versions": {name: version(name) for name in packages}})
    for line in sys.stdin:
        job = json.loads(line)
        source, n, out = sources[job["source"]], job["scenes"], job["folder"]
        settings = {"quick_pitch_time": job["quick"], "disable_instantiation_warnings": True}
        begin = time.perf_counter()
        for i in range(n):
            if out is not None:
                settings["audio_path"], settings["jams_path"] = f"{out}/{i:05d}.wav", f"{out}/{i:05d}.jams"
            audio, _, labels, _ = source.generate(**settings)
        seconds = time.perf_counter() - begin
        _check(asked, audio, labels, out, n)
        _say({"seconds": seconds})


def _scaper(scaper, asked, pitch):
    scenes = scaper.Scaper(asked["duration_s"], asked["calls"], asked["backgrounds"], random_state=asked["seed"])
    scenes.sr = asked["rate_hz"]
    scenes.ref_db = asked["level_db"]
    any_one = ("choose", [])
    scenes.add_background(any_one, any_one, ("uniform", 0, asked["background_s"] - asked["duration_s"]))
    ratios = asked["ratios"]
    latest_s = asked["duration_s"] - asked["event_s"] * max(ratios)
    for _ in range(asked["events"]):
        scenes.add_event(
            label=any_one,
            source_file=any_one,
            source_time=("const", 0),
            event_time=("uniform", 0, latest_s),
            event_duration=("const", asked["event_s"]),
            snr=("uniform", *asked["snr_db"]),
            pitch_shift=("choose", [-12 * math.log2(ratio) for ratio in ratios]) if pitch else None,
            time_stretch=("choose", ratios) if pitch else None,
        )
    return scenes


def _check(asked, audio, labels, out, n):
    samples = asked["duration_s"] * asked["rate_hz"]
    if audio.shape != (samples, 1) or not abs(audio).max() > 0 or len(labels) != asked["events"]:
        raise RuntimeError(f"expected {asked['events']} events in {samples} samples, got {len(labels)}, {audio.shape}")
    if out is not None and len(list(Path(out).iterdir())) != 2 * n:
        raise RuntimeError(f"expected {n} WAV and {n} JAMS files in {out}")


def _say(what):
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
