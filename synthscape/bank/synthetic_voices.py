"""Synthetic animal voices: whistles, trills, sweeps, pulses, harmonic stacks, buzzes and clicks.

Nothing here is a recording, and no real animal is imitated: the species are made up and named so. What is real is the
structure a bank needs: families and genera with related species, call types that differ by contour and rhythm,
individuals with a stable voice (pitch, tempo, timbre), several recordings of each with a faint noise floor, and
renditions that are never twice the same. Onsets, offsets and bands are known by construction.

::

    for track in voice_tracks(seed=0):
        track.samples          # float32, on the grid of PCM16
        track.calls[0].onset   # first sample of the call

A track is a pure function of (seed, its recording id): made alone, in any order or on any machine it is the same.
Random numbers come from Philox keyed by those two and only as doubles in [0, 1), arithmetic is float64, and samples
are rounded to PCM16 at the end. The sine of two math libraries can differ in the last of 53 bits, so a sample within
about 1e-12 of a rounding boundary could differ by one step: to be expected in less than one bank of a thousand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from synthscape.units import seconds_to_samples

DEMO_RATE: Final = 16000
INDIVIDUALS: Final = 3
RECORDINGS: Final = 4  # of each individual
RECORDISTS: Final = 6
SITES: Final = 8
ORDER: Final = "Syntheticiformes"

Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class Note:
    """One unbroken sound of a call; nominal values, varied by voice and rendition.

    ``octaves`` are equally spaced knots of the pitch contour, relative to the species' pitch. ``wobble`` is
    (depth in octaves, rate in Hz) of a sinusoidal pitch modulation. ``gap_s`` is the silence after the note.
    """

    octaves: tuple[float, ...]
    duration_s: float
    gap_s: float = 0.0
    wobble: tuple[float, float] = (0.0, 0.0)
    attack_s: float = 0.006
    release_s: float = 0.010


@dataclass(frozen=True)
class CallType:
    """Notes sung in turn, all of them ``repeats`` times; gaps of a repeat are ``gap_growth`` times those before."""

    name: str
    notes: tuple[Note, ...]
    repeats: tuple[int, int] = (1, 1)
    gap_growth: float = 1.0

    @property
    def rhythm(self) -> str:
        """``single`` (one note), ``phrase`` (different notes) or ``train`` (the same again and again)."""
        return "train" if self.repeats != (1, 1) else "phrase" if len(self.notes) > 1 else "single"


@dataclass(frozen=True)
class Species:
    """A made-up species: its place in the taxonomy, its way of making sound, its repertoire."""

    name: str
    family: str
    sound: Literal["tone", "stack", "buzz", "click"]
    pitch_hz: float
    calls: tuple[CallType, ...]
    roll_off_db: float = 30.0  # per harmonic
    formant_hz: float = 0.0  # 0 = no resonance
    buzz_hz: float = 0.0

    @property
    def genus(self) -> str:
        """The first word of the binomial."""
        return self.name.split()[0]


SPECIES: Final = (
    Species(
        "Synthetica sibilans",
        "Syntheticidae",
        "tone",
        3000,
        (
            CallType("whistle", (Note((0.0, 0.06, 0.02), 0.80, attack_s=0.012, release_s=0.020),)),
            CallType("couplet", (Note((0.30, 0.27), 0.28, 0.07), Note((-0.20, -0.24), 0.36))),
            CallType(
                "triplet", (Note((-0.15, 0.05), 0.10, 0.04), Note((0.0, 0.20), 0.10, 0.04), Note((0.1, 0.4), 0.15))
            ),
        ),
    ),
    Species(
        "Synthetica trepidans",
        "Syntheticidae",
        "tone",
        5000,
        (
            CallType("trill", (Note((0.14, -0.12), 0.034, 0.019, attack_s=0.005, release_s=0.008),), (18, 27)),
            CallType("slow-trill", (Note((-0.25, 0.12, -0.10), 0.075, 0.065),), (6, 9)),
            CallType("chip", (Note((0.30, -0.35), 0.060),)),
        ),
    ),
    Species(
        "Simulatrix ascendens",
        "Syntheticidae",
        "tone",
        1800,
        (
            CallType("upsweep", (Note((-0.75, 0.70), 0.40),)),
            CallType("downsweep", (Note((0.75, -0.65), 0.45),)),
            CallType("arch", (Note((-0.55, 0.50, -0.55), 0.55),)),
            CallType(
                "steps", (Note((-0.45, -0.40), 0.12, 0.03), Note((0.0, 0.05), 0.12, 0.03), Note((0.45, 0.5), 0.16))
            ),
        ),
        roll_off_db=22.0,
    ),
    Species(
        "Simulatrix flexuosa",
        "Syntheticidae",
        "tone",
        2400,
        (
            CallType("warble", (Note((-0.05, 0.1, -0.05), 1.10, wobble=(0.20, 7.0)),)),
            CallType("flick", (Note((0.35, -0.30, 0.45), 0.14),)),
            CallType(
                "phrase",
                (
                    Note((-0.2, 0.25), 0.14, 0.05),
                    Note((0.45, -0.40), 0.20, 0.04),
                    Note((0.05, 0.0), 0.38, wobble=(0.13, 15.0)),
                ),
            ),
        ),
        roll_off_db=20.0,
    ),
    Species(
        "Artificia sonora",
        "Artificiidae",
        "stack",
        430,
        (
            CallType("hail", (Note((-0.25, 0.10, 0.08, -0.25), 0.65),)),
            CallType("bark", (Note((0.0, 0.15, -0.30), 0.13),)),
            CallType("drone", (Note((0.45, 0.40), 0.95, wobble=(0.035, 6.0)),)),
        ),
        roll_off_db=3.0,
        formant_hz=1300,
    ),
    Species(
        "Artificia gravis",
        "Artificiidae",
        "stack",
        165,
        (
            CallType("boom", (Note((0.0, -0.03, -0.15), 0.80, attack_s=0.010),)),
            CallType("grunts", (Note((0.35, 0.45, 0.1), 0.10, 0.10),), (3, 5)),
        ),
        roll_off_db=4.0,
        formant_hz=420,
    ),
    Species(
        "Fictilia pulsans",
        "Artificiidae",
        "tone",
        1100,
        (
            CallType("pulses", (Note((0.1, 0.0), 0.060, 0.19, attack_s=0.008, release_s=0.012),), (4, 7)),
            CallType(
                "accelerando",
                (Note((0.0, 0.02), 0.024, 0.16, attack_s=0.006, release_s=0.008),),
                (12, 17),
                gap_growth=0.86,
            ),
            CallType("knock-pair", (Note((0.28, 0.2), 0.045, 0.07), Note((-0.20, -0.25), 0.070))),
        ),
        roll_off_db=16.0,
    ),
    Species(
        "Fictilia crepitans",
        "Artificiidae",
        "click",
        5000,
        (
            CallType("crackle", (Note((0.0,), 0.0032, 0.052),), (14, 22)),
            CallType("ratchet", (Note((0.0,), 0.0032, 0.0075),), (34, 55)),
            CallType("double-click", (Note((0.12,), 0.0032, 0.030), Note((-0.25,), 0.0032, 0.17)), (3, 5)),
        ),
    ),
    Species(
        "Commentaria stridens",
        "Artificiidae",
        "buzz",
        4200,
        (
            CallType("buzz", (Note((-0.03, 0.04, 0.0), 0.65),)),
            CallType("rasps", (Note((0.10, -0.10), 0.085, 0.080),), (4, 6)),
            CallType("zip", (Note((-0.70, -0.60, 0.15, 0.25), 0.34),)),
        ),
        buzz_hz=120,
    ),
    Species(
        "Commentaria lamentans",
        "Artificiidae",
        "stack",
        760,
        (
            CallType("wail", (Note((0.10, 0.35, 0.0, -0.40), 1.20, attack_s=0.010, release_s=0.014),)),
            CallType("yelp", (Note((-0.25, 0.40, 0.05), 0.16),)),
            CallType("sobs", (Note((0.25, -0.25), 0.15, 0.09),), (3, 5)),
        ),
        roll_off_db=7.0,
        formant_hz=1900,
    ),
)
"""Ten species in five genera of two families."""


@dataclass(frozen=True)
class Call:
    """What is true of one call in a track: [onset, offset) in samples, the band of 95 % of its energy, who and what."""

    onset: int
    offset: int
    low_hz: float
    high_hz: float
    call_type: str
    relative_db: float
    """Peak below the loudest call of the track."""


@dataclass(frozen=True)
class Track:
    """One recording of one individual: float32 mono samples at ``DEMO_RATE`` on the PCM16 grid, and its calls."""

    recording_id: str
    species: Species
    individual: str
    samples: NDArray[np.float32]
    calls: tuple[Call, ...]
    floor_db: float
    """RMS of the noise floor below the loudest call's peak."""
    voice: Voice
    recordist: str
    site: str
    datetime: str


class Draws:
    """Uniform draws of one purpose, from Philox keyed by (seed, name): no state is shared with anything else."""

    def __init__(self, seed: int, name: str):
        word = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        self._generator = np.random.Generator(np.random.Philox(key=np.array([seed, word], dtype=np.uint64)))

    def between(self, low: float, high: float) -> float:
        """One value uniform in [low, high)."""
        return low + (high - low) * float(self._generator.random())

    def integer(self, low: int, high: int) -> int:
        """One whole number from low to high, both included."""
        return low + int((high - low + 1) * self._generator.random())

    def white(self, n: int) -> Float64Array:
        """White noise, float64 [n], zero mean and unit variance (uniform, which any filter makes all but Gaussian)."""
        return (self._generator.random(n) - 0.5) * 12**0.5

    def uniform(self, n: int) -> Float64Array:
        """Values uniform in [0, 1), float64 [n]."""
        return self._generator.random(n)


def shaped_noise(draws: Draws, n: int, knots_hz: list[float], knots_db: list[float]) -> Float64Array:
    """Noise with a given spectrum, float64 [n], unit RMS.

    Args:
        draws: where the noise comes from.
        n: samples.
        knots_hz: frequencies in Hz, ascending, above 0.
        knots_db: power density at the knots in dB, linear between them over log frequency, constant beyond.
    """
    size = scipy.fft.next_fast_len(n, real=True)
    frequencies = np.maximum(scipy.fft.rfftfreq(size, 1 / DEMO_RATE), 1.0)
    shape = 10 ** (np.interp(np.log2(frequencies), np.log2(knots_hz), knots_db) / 20)
    noise = scipy.fft.irfft(scipy.fft.rfft(draws.white(size)) * shape, size)[:n]
    return np.asarray(noise / np.sqrt(np.mean(noise**2)))


def on_pcm16_grid(samples: Float64Array) -> NDArray[np.float32]:
    """Round to multiples of 2**-15, half to even, float32 (exact)."""
    return (np.rint(samples * 32768) / 32768).astype(np.float32)


@dataclass(frozen=True)
class Voice:
    """What stays the same in everything one individual sings."""

    pitch: float
    tempo: float
    formant: float
    roll_off_db: float
    buzz: float


@cache
def voice_of(seed: int, species: Species, individual: int) -> Voice:
    """The voice of the n-th individual of a species: about a tenth of an octave and a tenth of tempo from the next."""
    draws = Draws(seed, f"voice {species.name} {individual}")
    step = individual - (INDIVIDUALS - 1) / 2
    return Voice(
        pitch=2 ** (0.11 * step + draws.between(-0.025, 0.025)),
        tempo=1.12 ** ((individual * 2) % INDIVIDUALS - (INDIVIDUALS - 1) / 2) * draws.between(0.97, 1.03),
        formant=2 ** draws.between(-0.18, 0.18),
        roll_off_db=species.roll_off_db * draws.between(0.8, 1.25),
        buzz=2 ** draws.between(-0.3, 0.3),
    )


@cache
def places_of(seed: int, species: Species) -> tuple[tuple[int, int], ...]:
    """(recordist, site) of every recording of a species, numbered from 0, individual by individual.

    Who recorded, and where, says nothing of what is heard: all of them have recordings of every species, as nearly as
    many each as can be, and no two recordings of one individual share a recordist or a site.
    """
    draws = Draws(seed, f"places {species.name}")
    columns: list[list[int]] = []
    for choices in (RECORDISTS, SITES):
        used = [0] * choices
        column: list[int] = []
        for _ in range(INDIVIDUALS):
            dealt = sorted(range(choices), key=lambda one: (used[one], draws.between(0.0, 1.0)))[:RECORDINGS]
            for one in dealt:
                used[one] += 1
            column += sorted(dealt, key=lambda _: draws.between(0.0, 1.0))
        columns.append(column)
    return tuple(zip(*columns, strict=True))


def sing(draws: Draws, species: Species, call: CallType, voice: Voice) -> Float64Array:
    """One rendition of a call: float64 [samples], peak 1, from the first sample of its first note to its last."""
    pitch_hz = species.pitch_hz * voice.pitch * 2 ** draws.between(-0.02, 0.02)
    pace = voice.tempo * draws.between(0.94, 1.07)
    repeats = draws.integer(*call.repeats)
    n_notes = repeats * len(call.notes)
    swell_db = draws.between(2.0, 6.0) if n_notes > 2 else 0.0  # a series starts softer than it ends
    parts: list[Float64Array] = []
    for repeat in range(repeats):
        for position, note in enumerate(call.notes):
            rank = repeat * len(call.notes) + position
            level_db = swell_db * (min(2 * rank / max(n_notes - 1, 1), 1.0) - 1) + draws.between(-1.0, 0.0)
            parts.append(_sound(draws, species, note, voice, pitch_hz, pace) * 10 ** (level_db / 20))
            gap_s = note.gap_s * call.gap_growth**repeat / pace * draws.between(0.92, 1.08)
            parts.append(np.zeros(seconds_to_samples(gap_s, DEMO_RATE) if rank + 1 < n_notes else 0))
    samples = np.concatenate(parts)
    return np.asarray(samples / np.abs(samples).max())


def _sound(draws: Draws, species: Species, note: Note, voice: Voice, pitch_hz: float, pace: float) -> Float64Array:
    """One note, float64 [samples], peak about 1."""
    if species.sound == "click":
        return _click(draws, note, pitch_hz)
    n = seconds_to_samples(note.duration_s / pace * draws.between(0.95, 1.05), DEMO_RATE)
    at = np.linspace(0.0, 1.0, n)
    octaves = _contour(note.octaves, at, draws)
    depth, rate_hz = note.wobble
    if depth:
        turns = rate_hz * pace * n / DEMO_RATE * at + draws.between(0.0, 1.0)
        octaves = octaves + depth * np.sin(2 * np.pi * turns)
    frequency_hz = pitch_hz * 2**octaves
    if species.sound == "buzz":
        sound = _buzz(draws, species.buzz_hz * voice.buzz * draws.between(0.96, 1.04), frequency_hz)
    else:
        sound = _harmonics(draws, frequency_hz, voice.roll_off_db, species.formant_hz * voice.formant)
    body_db = np.interp(at, (0.0, draws.between(0.25, 0.6), 1.0), (draws.between(-5, -2), 0.0, draws.between(-6, -2)))
    sound *= 10 ** (body_db / 20) * _edges(n, note.attack_s, note.release_s)
    return np.asarray(sound / np.abs(sound).max())


def _contour(knots: tuple[float, ...], at: Float64Array, draws: Draws) -> Float64Array:
    """Octaves over the note: a smooth curve through jittered knots, never beyond them."""
    jittered = [knot + draws.between(-0.02, 0.02) for knot in knots]
    return np.asarray(PchipInterpolator(np.linspace(0.0, 1.0, len(jittered)), jittered)(at))


def _edges(n: int, attack_s: float, release_s: float) -> Float64Array:
    """Raised-cosine attack and release; -30 dB is reached within a ninth of each, so edges are sharp to 2 ms."""
    envelope = np.ones(n)
    attack = min(seconds_to_samples(attack_s, DEMO_RATE), n // 2)
    release = min(seconds_to_samples(release_s, DEMO_RATE), n // 2)
    envelope[:attack] = np.sin(np.pi / 2 * (np.arange(attack) + 0.5) / attack) ** 2
    envelope[n - release :] = np.sin(np.pi / 2 * (np.arange(release) + 0.5) / release)[::-1] ** 2
    return envelope


def _phase(frequency_hz: Float64Array, start: float) -> Float64Array:
    """Phase in radians, the running sum of frequency: continuous whatever the contour does."""
    return 2 * np.pi * (start + np.cumsum(frequency_hz) / DEMO_RATE)


def _harmonics(draws: Draws, frequency_hz: Float64Array, roll_off_db: float, formant_hz: float) -> Float64Array:
    """A fundamental and its harmonics, falling by ``roll_off_db`` each, raised around the formant if there is one."""
    phase = _phase(frequency_hz, draws.between(0.0, 1.0))
    sound = np.zeros(frequency_hz.size)
    lowest_hz = float(frequency_hz.min())
    for k in range(1, 24):
        level = 10 ** (-roll_off_db * (k - 1) / 20)
        if level < 0.003 or k * lowest_hz > 7200:
            break
        harmonic_hz = k * frequency_hz
        gain = np.clip((7200 - harmonic_hz) / 600, 0.0, 1.0) * level  # fades out well below Nyquist
        if formant_hz:
            gain *= 0.15 + 1 / (1 + (2.2 * np.log2(harmonic_hz / formant_hz)) ** 2)
        sound += gain * np.sin(k * phase)
    return sound


def _buzz(draws: Draws, buzz_hz: float, frequency_hz: Float64Array) -> Float64Array:
    """A carrier in pulses, ``buzz_hz`` of them a second, roughened by a few percent of random frequency."""
    rough = np.convolve(draws.white(frequency_hz.size + 31), np.hanning(33)[1:-1] / 4, mode="valid")[
        : frequency_hz.size
    ]
    rough = np.pad(rough, (0, frequency_hz.size - rough.size))
    carrier = np.sin(_phase(frequency_hz * (1 + 0.06 * rough), draws.between(0.0, 1.0)))
    pulses = 0.5 + 0.5 * np.cos(_phase(np.full(frequency_hz.size, buzz_hz), draws.between(0.0, 1.0)))
    return np.asarray(carrier * (0.15 + pulses**2))


def _click(draws: Draws, note: Note, pitch_hz: float) -> Float64Array:
    """A resonance struck once: 0.25 ms attack, exponential decay to -35 dB at its end, then off over the last tenth."""
    n = seconds_to_samples(note.duration_s * draws.between(0.9, 1.1), DEMO_RATE)
    at = np.arange(n) / n
    frequency_hz = pitch_hz * 2 ** (note.octaves[0] + draws.between(-0.08, 0.08))
    tail = np.clip((1 - at) * 10, 0.0, 1.0)
    attack = np.clip((np.arange(n) + 1) / 4, 0.0, 1.0)
    sound = np.exp(-4.0 * at) * attack * tail * np.sin(2 * np.pi * frequency_hz * np.arange(1, n + 1) / DEMO_RATE)
    return np.asarray(sound / np.abs(sound).max())


def band_hz(samples: Float64Array) -> tuple[float, float]:
    """The band (low, high) in Hz outside which 2.5 % of the energy lies on either side."""
    size = scipy.fft.next_fast_len(samples.size, real=True)
    energy = np.cumsum(np.abs(scipy.fft.rfft(samples, size)) ** 2)
    low, high = np.searchsorted(energy, np.array([0.025, 0.975]) * energy[-1])
    return float(low * DEMO_RATE / size), float(high * DEMO_RATE / size)


def voice_tracks(seed: int = 0, species: tuple[Species, ...] = SPECIES) -> Iterator[Track]:
    """Every recording of every individual, one at a time.

    Args:
        seed: 0 to 2**64 - 1; another seed gives other individuals, renditions and recordings of the same species.
        species: which ones; each is the same whatever others are asked for.
    """
    for one in species:
        for individual in range(INDIVIDUALS):
            for recording in range(RECORDINGS):
                yield voice_track(seed, one, individual, recording)


def voice_track(seed: int, species: Species, individual: int, recording: int) -> Track:
    """One recording of 6 to 20 s: calls at irregular times and levels over a faint noise floor."""
    slug = species.name.lower().replace(" ", "-")
    recording_id = f"{slug}-{individual + 1}-{recording + 1}"
    draws = Draws(seed, f"track {recording_id}")
    voice = voice_of(seed, species, individual)
    kind = (individual + recording) % len(species.calls)  # every individual opens a recording with each of its calls
    at = draws.between(0.4, 1.4)
    placed: list[tuple[int, CallType, float, Float64Array]] = []
    for _ in range(draws.integer(5, 9)):
        call = species.calls[kind]
        samples = sing(draws, species, call, voice)
        end = at + samples.size / DEMO_RATE
        if end > 19.0:
            break
        placed.append((seconds_to_samples(at, DEMO_RATE), call, draws.between(-9.0, 0.0), samples))
        at = end + 0.45 + 1.9 * draws.between(0.0, 1.0) ** 2
        if draws.between(0.0, 1.0) < 0.6:  # another call, otherwise the same again
            kind = (kind + draws.integer(1, len(species.calls) - 1)) % len(species.calls)
    last = placed[-1][0] + placed[-1][3].size
    n = max(last + seconds_to_samples(draws.between(0.4, 0.9), DEMO_RATE), seconds_to_samples(6.0, DEMO_RATE))

    loudest_db = max(level_db for _, _, level_db, _ in placed)
    peak = 10 ** (draws.between(-14.0, -6.0) / 20)
    floor_db = draws.between(-60.0, -48.0)
    tilt_db = draws.between(-5.0, -2.0)  # per octave
    knots_hz = [40.0 * 2**octave for octave in range(9)]
    mix = shaped_noise(draws, n, knots_hz, [tilt_db * octave for octave in range(9)]) * 10 ** (floor_db / 20)
    calls = []
    for onset, call, level_db, samples in placed:
        mix[onset : onset + samples.size] += samples * 10 ** ((level_db - loudest_db) / 20)
        low_hz, high_hz = band_hz(samples)
        calls.append(Call(onset, onset + samples.size, low_hz, high_hz, call.name, level_db - loudest_db))
    recordist, site = places_of(seed, species)[individual * RECORDINGS + recording]
    return Track(
        recording_id=recording_id,
        species=species,
        individual=f"{slug}-{individual + 1}",
        samples=on_pcm16_grid(mix * peak),
        calls=tuple(calls),
        floor_db=floor_db,
        voice=voice,
        recordist=f"demo voice recordist {recordist + 1}",
        site=f"demo voice site {site + 1}",
        datetime=f"2024-{draws.integer(4, 7):02d}-{draws.integer(1, 28):02d}T"
        f"{draws.integer(4, 20):02d}:{draws.integer(0, 59):02d}:00",
    )
