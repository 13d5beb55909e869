"""The synthetic voices: reproducible, varied, distinct, and what they say about themselves is true."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthscape.bank.synthetic_voices import (
    DEMO_RATE,
    INDIVIDUALS,
    RECORDINGS,
    SPECIES,
    Draws,
    Track,
    shaped_noise,
    voice_track,
    voice_tracks,
)


@pytest.fixture(scope="module")
def tracks() -> list[Track]:
    """Every track of seed 0."""
    return list(voice_tracks(seed=0))


def test_same_seed_gives_the_same_samples_in_any_order(tracks: list[Track]) -> None:
    """A track made alone, last first, is the one made in the course of all."""
    for position in (119, 60, 13, 0):
        species, rest = divmod(position, INDIVIDUALS * RECORDINGS)
        again = voice_track(0, SPECIES[species], *divmod(rest, RECORDINGS))

        assert again.samples.tobytes() == tracks[position].samples.tobytes()
        assert again.calls == tracks[position].calls


def test_global_random_state_is_neither_read_nor_moved() -> None:
    """Seeding NumPy's global generator changes nothing, and its state is left alone."""
    np.random.seed(1)  # noqa: NPY002
    first = voice_track(3, SPECIES[0], 0, 0).samples
    after = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    untouched = np.random.random()  # noqa: NPY002

    assert after == untouched
    assert np.array_equal(first, voice_track(3, SPECIES[0], 0, 0).samples)


def test_another_seed_gives_other_sound(tracks: list[Track]) -> None:
    """Seeds share neither noise nor calls."""
    other = voice_track(1, SPECIES[0], 0, 0)

    n = min(other.samples.size, tracks[0].samples.size)
    assert abs(np.corrcoef(other.samples[:n], tracks[0].samples[:n])[0, 1]) < 0.05
    assert other.calls != tracks[0].calls


def test_repertoire_is_as_large_as_promised(tracks: list[Track]) -> None:
    """At least 8 species, 2-4 call types, 3 individuals, each heard with every call type in several recordings."""
    heard: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for track in tracks:
        for call in track.calls:
            heard[track.species.name, call.call_type].add((track.individual, track.recording_id))
    types = defaultdict(set)
    for species, call_type in heard:
        types[species].add(call_type)

    assert len(types) >= 8
    assert all(2 <= len(names) <= 4 for names in types.values())
    for places in heard.values():
        assert len({individual for individual, _ in places}) >= 3
        assert len({recording for _, recording in places}) >= 6
    recordings = defaultdict(set)
    for track in tracks:
        recordings[track.individual].add(track.recording_id)
    assert all(len(ids) >= 3 for ids in recordings.values())


def test_taxonomy_has_related_species(tracks: list[Track]) -> None:
    """Two families or more, and a second species in every genus."""
    genera = defaultdict(set)
    for species in SPECIES:
        genera[species.family, species.genus].add(species.name)

    assert len({family for family, _ in genera}) >= 2
    assert all(len(names) >= 2 for names in genera.values())
    assert all(len(species.name.split()) == 2 for species in SPECIES)


def test_tracks_neither_clip_nor_fall_silent(tracks: list[Track]) -> None:
    """6 to 20 s on the PCM16 grid, peaks below full scale and above -20 dBFS, noise in every 50 ms."""
    for track in tracks:
        x = track.samples.astype(np.float64)

        assert 6 <= x.size / DEMO_RATE <= 20
        assert 0.1 < np.abs(x).max() < 0.9
        assert np.array_equal(x * 32768, np.rint(x * 32768))
        blocks = x[: x.size // 800 * 800].reshape(-1, 800)
        assert np.abs(blocks).max(axis=1).min() > 1 / 32768


def test_calls_last_what_calls_last_and_keep_apart(tracks: list[Track]) -> None:
    """Calls last 40 ms to 2 s, and at least 0.4 s of noise lie around each."""
    for track in tracks:
        edges = [0, *(edge for call in track.calls for edge in (call.onset, call.offset)), track.samples.size]
        gaps = np.diff(edges)[::2]

        assert all(0.04 <= (call.offset - call.onset) / DEMO_RATE <= 2.0 for call in track.calls)
        assert gaps.min() >= 0.4 * DEMO_RATE - 2
        assert len(track.calls) >= 4


def test_noise_floor_is_where_the_track_says(tracks: list[Track]) -> None:
    """RMS between calls against the loudest peak is the stated floor, 45 to 60 dB down."""
    for track in tracks:
        x = track.samples.astype(np.float64)
        between = np.ones(x.size, dtype=bool)
        for call in track.calls:
            between[call.onset : call.offset] = False
        floor_db = 20 * np.log10(np.sqrt(np.mean(x[between] ** 2)) / np.abs(x).max())

        assert floor_db == pytest.approx(track.floor_db, abs=1.0)
        assert -61 < floor_db < -45


def test_energy_lies_inside_the_stated_bounds(tracks: list[Track]) -> None:
    """Onset, offset and band of a call hold its energy; just outside of them there is only the floor."""
    for track in tracks:
        x = track.samples.astype(np.float64)
        for call in track.calls:
            inside = x[call.onset : call.offset]
            before = x[call.onset - 800 : call.onset]
            spectrum = np.abs(np.fft.rfft(inside)) ** 2
            hz = np.fft.rfftfreq(inside.size, 1 / DEMO_RATE)
            in_band = spectrum[(hz >= call.low_hz) & (hz <= call.high_hz)].sum() / spectrum.sum()

            assert np.mean(inside**2) > 20 * np.mean(before**2)
            assert 0.90 < in_band < 0.99


def test_species_spread_over_the_spectrum(tracks: list[Track]) -> None:
    """The calls of all species together reach from 200 Hz to 6 kHz, and no two species share a typical band."""
    bands = {}
    for species in SPECIES:
        calls = [call for track in tracks if track.species is species for call in track.calls]
        bands[species.name] = np.median([(np.log2(c.low_hz), np.log2(c.high_hz)) for c in calls], axis=0)
    edges = np.array(list(bands.values()))

    assert 2 ** edges[:, 0].min() < 200
    assert 2 ** edges[:, 1].max() > 5500
    distance = np.abs(edges[:, None] - edges[None]).max(axis=-1)
    assert distance[~np.eye(len(edges), dtype=bool)].min() > 0.1


def _features(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """A call as 38 numbers: mean spectrum in 20 bands, course of pitch, breadth of spectrum, rhythm, duration."""
    window, hop = 256, 32
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(x, window // 2), window)[::hop] * np.hanning(window)
    power = np.abs(np.fft.rfft(frames, 512)) ** 2
    hz = np.fft.rfftfreq(512, 1 / DEMO_RATE)
    edges = np.geomspace(100, 7900, 21)
    spectrum = np.histogram(hz, edges, weights=power.mean(axis=0))[0]
    spectrum_db = 10 * np.log10(spectrum / spectrum.max() + 1e-3)
    power[:, 0] = 1e-12
    octave = np.log2(np.maximum(hz, 1.0))
    centroid = power @ octave / power.sum(axis=1)
    weight = power.sum(axis=1)
    octaves = [
        np.average(c, weights=w) for c, w in zip(np.array_split(centroid, 8), np.array_split(weight, 8), strict=True)
    ]
    breadth = np.average((power * (octave - centroid[:, None]) ** 2).sum(axis=1) / weight, weights=weight) ** 0.5
    envelope = np.sqrt(power.sum(axis=1))
    beats = np.abs(np.fft.rfft(envelope - envelope.mean(), 1024)) / (
        envelope.sum() + 1e-12
    )  # 500 envelope samples a second
    rhythm = np.histogram(np.fft.rfftfreq(1024, hop / DEMO_RATE), [1, 3, 6, 10, 16, 25, 40, 70, 140], weights=beats**2)[
        0
    ]
    return np.concatenate(
        [spectrum_db / 8, np.array(octaves) * 3, [breadth * 20], np.sqrt(rhythm) * 2, [2 * np.log2(x.size / DEMO_RATE)]]
    )


def test_call_types_of_a_species_are_told_apart(tracks: list[Track]) -> None:
    """The nearest call in another recording has the same species and call type, nearly always."""
    rows = [
        (
            _features(track.samples[call.onset : call.offset].astype(np.float64)),
            (track.species.name, call.call_type),
            track.recording_id,
        )
        for track in tracks
        for call in track.calls
    ]
    features = np.stack([row[0] for row in rows])
    labels = np.array(["/".join(row[1]) for row in rows])
    recordings = np.array([row[2] for row in rows])
    distance = (features**2).sum(1)[:, None] + (features**2).sum(1)[None] - 2 * features @ features.T
    distance[recordings[:, None] == recordings[None]] = np.inf
    nearest = labels[distance.argmin(axis=1)]

    for label in np.unique(labels):
        assert np.mean(nearest[labels == label] == label) > 0.7, label
    assert np.mean(nearest == labels) > 0.9


def test_no_two_renditions_are_the_same(tracks: list[Track]) -> None:
    """Calls of one type by one individual differ in length or sound."""
    seen = set()
    for track in tracks:
        for call in track.calls:
            seen.add(track.samples[call.onset : call.offset].tobytes())

    assert len(seen) == sum(len(track.calls) for track in tracks)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**64 - 1), species=st.sampled_from(SPECIES), recording=st.integers(0, RECORDINGS - 1))
def test_any_seed_gives_a_sound_track(seed: int, species: object, recording: int) -> None:
    """Whatever the seed: finite, no clipping, four calls or more, none longer than 2 s."""
    track = voice_track(seed, species, 1, recording)  # type: ignore[arg-type]

    assert np.isfinite(track.samples).all()
    assert np.abs(track.samples).max() < 0.95
    assert len(track.calls) >= 4
    assert track.samples.size <= 20 * DEMO_RATE
    assert max(call.offset - call.onset for call in track.calls) <= 2 * DEMO_RATE


def test_draws_are_uniform_and_streams_unrelated() -> None:
    """Two names give uncorrelated uniforms; n = 100 000, bounds at five standard errors."""
    a, b = Draws(0, "a").uniform(100_000), Draws(0, "b").uniform(100_000)

    assert abs(a.mean() - 0.5) < 5 * 12**-0.5 / 100_000**0.5
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / 100_000**0.5
    assert {Draws(0, str(i)).integer(1, 3) for i in range(50)} == {1, 2, 3}


def test_shaped_noise_has_the_spectrum_asked_for() -> None:
    """White at the knots' levels: 12 dB down an octave above, measured in bands of many bins."""
    noise = shaped_noise(Draws(0, "noise"), 2**18, [1000, 2000], [0, -12])
    power = np.abs(np.fft.rfft(noise)) ** 2
    hz = np.fft.rfftfreq(noise.size, 1 / DEMO_RATE)
    low, high = (power[(hz > a) & (hz < b)].mean() for a, b in ((200, 900), (2500, 7000)))

    assert 10 * np.log10(low / high) == pytest.approx(12, abs=0.2)
    assert np.mean(noise**2) == pytest.approx(1)
