"""Synthetic backgrounds: wind, rain, a stream, surf, mains hum, and a still night, without any animal in them.

::

    for scape in backgrounds(seed=0):
        scape.samples          # float32, on the grid of PCM16, 12 to 30 s
        scape.kind, scape.site

Each is noise with the spectrum of its kind, moving the way the kind moves: gusts, drops, bubbles, swells. No third
octave up to Nyquist is silent, so a signal-to-noise ratio is defined in any band. A background is a pure function of
(seed, its recording id), with the draws and the caveats of ``synthscape.bank.synthetic_voices``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from synthscape.bank.synthetic_voices import DEMO_RATE, Draws, Float64Array, on_pcm16_grid, shaped_noise
from synthscape.units import seconds_to_samples

VARIANTS: Final = 4  # of each kind, two at each of two sites


@dataclass(frozen=True)
class Background:
    """One recording without animals: float32 mono samples at ``DEMO_RATE`` on the PCM16 grid."""

    recording_id: str
    kind: str
    site: str
    samples: NDArray[np.float32]
    recordist: str
    datetime: str


def backgrounds(seed: int = 0) -> Iterator[Background]:
    """Every background, one at a time.

    Args:
        seed: 0 to 2**64 - 1; another seed gives other noise of the same kinds at the same sites.
    """
    for kind in KINDS:
        for variant in range(VARIANTS):
            yield background(seed, kind, variant)


def background(seed: int, kind: str, variant: int) -> Background:
    """One variant of one kind of ``KINDS``."""
    recording_id = f"{kind}-{variant + 1}"
    draws = Draws(seed, f"background {recording_id}")
    n = seconds_to_samples(draws.between(12.0, 30.0), DEMO_RATE)
    make, (quiet_dbfs, loud_dbfs) = KINDS[kind]
    sound = make(draws, n)
    sound -= sound.mean()
    level = 10 ** (draws.between(quiet_dbfs, loud_dbfs) / 20) / np.sqrt(np.mean(sound**2))
    level = min(level, 0.9 / np.abs(sound).max())  # a recordist would have turned the gain down
    return Background(
        recording_id=recording_id,
        kind=kind,
        site=f"demo {kind} site {variant // 2 + 1}",
        samples=on_pcm16_grid(sound * level),
        recordist=f"demo recordist {'DE'[variant % 2]}",
        datetime=f"2023-{draws.integer(1, 12):02d}-{draws.integer(1, 28):02d}T{draws.integer(0, 23):02d}:00:00",
    )


def _wind(draws: Draws, n: int) -> Float64Array:
    """A rumble that gusts, and leaves that answer it."""
    gust = _slow(draws, n, every_s=draws.between(0.7, 1.6), depth_db=draws.between(6, 11))
    rumble = shaped_noise(draws, n, [30, 80, 300, 1200, 8000], [0, 0, -14, -32, -58])
    leaves = shaped_noise(draws, n, [100, 600, 2500, 8000], [-24, -6, 0, draws.between(-12, -7)])
    leaves *= gust**1.3 * 10 ** (draws.between(-26, -16) / 20)
    return gust * rumble + leaves + 0.01 * draws.white(n)


def _rain(draws: Draws, n: int) -> Float64Array:
    """A dense hiss, and single drops on leaves and ground, each ringing its own resonance."""
    hiss = shaped_noise(draws, n, [50, 300, 1500, 4500, 8000], [-10, -12, -6, 0, -4])
    shower = _slow(draws, n, every_s=2.5, depth_db=3)
    drops = _rings(draws, n, per_s=draws.between(60, 220), hz=(500, 5500), decay_s=(0.001, 0.006))
    return np.asarray(shower * (hiss + draws.between(0.25, 0.5) * _unit(drops)))


def _stream(draws: Draws, n: int) -> Float64Array:
    """Water over stones: a broad murmur, and bubbles that ring between 300 and 1500 Hz."""
    murmur = shaped_noise(draws, n, [50, 200, 700, 2000, 8000], [-8, -3, 0, -5, -19])
    ripple = _slow(draws, n, every_s=0.15, depth_db=2)
    splash = shaped_noise(draws, n, [100, 1500, 4000, 8000], [-25, -5, 0, -6])
    splash *= _slow(draws, n, every_s=0.25, depth_db=6) * draws.between(0.12, 0.3)
    bubbles = _rings(draws, n, per_s=draws.between(50, 130), hz=(300, 1700), decay_s=(0.003, 0.015))
    return ripple * murmur + splash + draws.between(0.4, 0.8) * _unit(bubbles)


def _surf(draws: Draws, n: int) -> Float64Array:
    """Swells: each wave rises over seconds, breaks with a hiss and draws back; a low roar stays."""
    roar = shaped_noise(draws, n, [30, 120, 500, 2000, 8000], [-3, 0, -7, -17, -32])
    hiss = shaped_noise(draws, n, [100, 800, 2500, 8000], [-18, -3, 0, -9])
    at_s = np.arange(n) / DEMO_RATE
    swell = np.zeros(n)
    breaks_s = draws.between(1.0, 6.0)
    while breaks_s < at_s[-1] + 6:
        since = at_s - breaks_s
        rise_s, fall_s = draws.between(0.9, 1.5), draws.between(1.6, 2.6)
        height = 10 ** (draws.between(-5, 0) / 20)
        swell += height * np.where(since < 0, np.exp(-((since / rise_s) ** 2)), np.exp(-np.maximum(since, 0) / fall_s))
        breaks_s += draws.between(5.0, 9.5)
    texture = _slow(draws, n, every_s=0.2, depth_db=1.5)
    return roar * (0.45 + 0.8 * swell) + hiss * texture * (0.04 + swell**1.5) * draws.between(0.4, 0.7)


def _hum(draws: Draws, n: int) -> Float64Array:
    """Mains and its harmonics over the noise of a machine some way off."""
    mains_hz = 50.0 if draws.between(0.0, 1.0) < 0.5 else 60.0
    drift = 1 + 0.0004 * _wander(draws, n, every_s=3.0)
    turns = np.cumsum(mains_hz * drift) / DEMO_RATE
    tones = np.zeros(n)
    for k in range(1, 13):
        odd_db = 0.0 if k % 2 == 0 else -6.0  # transformers hum at twice the mains
        level_db = odd_db - 2.2 * k + draws.between(-5, 3)
        tones += 10 ** (level_db / 20) * np.sin(2 * np.pi * (k * turns + draws.between(0.0, 1.0)))
    noise = shaped_noise(draws, n, [30, 150, 1000, 8000], [0, -4, -16, draws.between(-38, -28)])
    noise *= _slow(draws, n, every_s=1.5, depth_db=1.5)
    return _unit(tones) + noise * draws.between(0.35, 0.9)


def _night(draws: Draws, n: int) -> Float64Array:
    """Still air: a low floor falling by 3 to 5 dB an octave, a faraway road, the recorder's own hiss."""
    slope = draws.between(-5, -3)
    air = shaped_noise(draws, n, [40, 8000], [0, slope * np.log2(200)]) * _slow(draws, n, every_s=2.0, depth_db=1.5)
    road = shaped_noise(draws, n, [40, 120, 400, 2000], [-4, 0, -12, -45]) * _slow(draws, n, every_s=4.0, depth_db=5)
    return air + draws.between(0.2, 0.7) * road + draws.between(0.02, 0.05) * draws.white(n)


KINDS: Final[dict[str, tuple[Callable[[Draws, int], Float64Array], tuple[float, float]]]] = {
    "wind": (_wind, (-32, -24)),
    "rain": (_rain, (-38, -28)),
    "stream": (_stream, (-36, -28)),
    "surf": (_surf, (-34, -26)),
    "hum": (_hum, (-44, -36)),
    "night": (_night, (-56, -50)),
}
"""What makes each kind, and between which RMS levels in dBFS it is recorded."""


def _unit(sound: Float64Array) -> Float64Array:
    """Scaled to unit RMS."""
    return np.asarray(sound / np.sqrt(np.mean(sound**2)))


def _wander(draws: Draws, n: int, every_s: float) -> Float64Array:
    """A smooth curve through a random value in [-1, 1) every ``every_s``, float64 [n]."""
    knots = int(n / DEMO_RATE / every_s) + 3
    at = (np.arange(n) / DEMO_RATE / every_s) + draws.between(0.0, 1.0)
    return np.asarray(PchipInterpolator(np.arange(knots), 2 * draws.uniform(knots) - 1)(at))


def _slow(draws: Draws, n: int, every_s: float, depth_db: float) -> Float64Array:
    """A gain that wanders between -depth and +depth dB."""
    return np.asarray(10 ** (depth_db * _wander(draws, n, every_s) / 20))


def _rings(draws: Draws, n: int, per_s: float, hz: tuple[float, float], decay_s: tuple[float, float]) -> Float64Array:
    """Struck resonances at random times, a few strong among many weak; each of its own pitch and decay, float64 [n]."""
    count = int(per_s * n / DEMO_RATE)
    length = min(seconds_to_samples(6 * decay_s[1], DEMO_RATE), n)
    start = (draws.uniform(count) * (n - length)).astype(np.int64)
    height = draws.uniform(count) ** 3 + 0.02
    turns = hz[0] * (hz[1] / hz[0]) ** draws.uniform(count) / DEMO_RATE
    decay = (decay_s[0] + (decay_s[1] - decay_s[0]) * draws.uniform(count)) * DEMO_RATE
    at = np.arange(length)
    rings = np.exp(-at / decay[:, None]) * np.sin(2 * np.pi * turns[:, None] * at) * height[:, None]
    return np.bincount((start[:, None] + at).ravel(), weights=rings.ravel(), minlength=n).astype(np.float64)
