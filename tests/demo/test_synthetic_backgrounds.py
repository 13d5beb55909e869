"""The synthetic backgrounds: reproducible, never silent in any band, moving, without edges."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from synthscape.bank.synthetic_backgrounds import KINDS, VARIANTS, Background, background, backgrounds
from synthscape.bank.synthetic_voices import DEMO_RATE


@pytest.fixture(scope="module")
def scapes() -> list[Background]:
    """Every background of seed 0."""
    return list(backgrounds(seed=0))


def test_same_seed_gives_the_same_samples_in_any_order(scapes: list[Background]) -> None:
    """A background made alone is the one made in the course of all; another seed gives another."""
    for position in (23, 9, 4):
        kind = list(KINDS)[position // VARIANTS]
        again = background(0, kind, position % VARIANTS)
        other = background(1, kind, position % VARIANTS)

        assert again.samples.tobytes() == scapes[position].samples.tobytes()
        assert other.samples.tobytes() != again.samples.tobytes()


def test_there_are_several_of_each_kind_at_several_sites(scapes: list[Background]) -> None:
    """Wind, rain, stream, surf, hum and night, four each, at two sites each that no other kind has."""
    sites = defaultdict(set)
    for scape in scapes:
        sites[scape.kind].add(scape.site)

    assert Counter(scape.kind for scape in scapes) == dict.fromkeys(
        ("wind", "rain", "stream", "surf", "hum", "night"), VARIANTS
    )
    assert all(len(places) == 2 for places in sites.values())
    assert len(set().union(*sites.values())) == 12


def test_no_third_octave_is_ever_silent(scapes: list[Background]) -> None:
    """Every third octave from 50 Hz to 7 kHz stays above -85 dBFS, over the whole and in every second."""
    centres = 50 * 2 ** (np.arange(22) / 3)
    hz = np.fft.rfftfreq(DEMO_RATE, 1 / DEMO_RATE)
    for scape in scapes:
        x = scape.samples.astype(np.float64)
        seconds = x[: x.size // DEMO_RATE * DEMO_RATE].reshape(-1, DEMO_RATE)
        power = 2 * np.abs(np.fft.rfft(seconds * np.hanning(DEMO_RATE)[None])) ** 2 / (0.375 * DEMO_RATE**2)
        for centre in centres:
            inside = (hz >= centre * 2 ** (-1 / 6)) & (hz < centre * 2 ** (1 / 6))
            level_db = 10 * np.log10(power[:, inside].sum(axis=1))

            assert level_db.min() > -85, (scape.recording_id, centre)


def test_levels_are_those_of_recordings(scapes: list[Background]) -> None:
    """12 to 30 s, RMS between -60 and -20 dBFS, peaks below -0.5 dBFS, no DC, on the PCM16 grid."""
    for scape in scapes:
        x = scape.samples.astype(np.float64)

        assert 12 <= x.size / DEMO_RATE <= 30
        assert -60 < 10 * np.log10(np.mean(x**2)) < -20
        assert np.abs(x).max() < 0.944
        assert abs(x.mean()) < 1e-5
        assert np.array_equal(x * 32768, np.rint(x * 32768))


def test_edges_do_not_click(scapes: list[Background]) -> None:
    """First and last sample are no larger than samples elsewhere, and the first and last second are not faded."""
    for scape in scapes:
        x = scape.samples.astype(np.float64)
        largest_step = np.abs(np.diff(x)).max()

        assert max(abs(x[0]), abs(x[-1])) <= np.abs(x).max()
        assert np.abs(np.diff(x[:3])).max() <= largest_step
        for edge in (x[:160], x[-160:]):
            assert 20 * np.log10(edge.std() / x.std()) > -30


def test_spectra_are_those_of_their_kind(scapes: list[Background]) -> None:
    """Wind and surf rumble, rain hisses, a stream murmurs between, mains hum stands in lines at its harmonics."""
    for scape in scapes:
        x = scape.samples.astype(np.float64)
        power = np.abs(np.fft.rfft(x * np.hanning(x.size))) ** 2
        hz = np.fft.rfftfreq(x.size, 1 / DEMO_RATE)
        share = {edge: power[hz < edge].sum() / power.sum() for edge in (300, 1000, 2500)}
        if scape.kind == "wind":
            assert share[300] > 0.7
        elif scape.kind == "rain":
            assert share[2500] < 0.4
        elif scape.kind == "stream":
            assert 0.4 < share[1000] < 0.98
            assert share[2500] - share[300] > 0.4
        elif scape.kind == "hum":
            near = np.min(
                np.abs(hz[:, None] - np.array([np.arange(50, 700, 50), np.arange(60, 800, 60)[:13]]).ravel()), axis=1
            )
            assert power[near < 1].sum() / power.sum() > 0.5


def test_wind_and_surf_move_more_than_hum(scapes: list[Background]) -> None:
    """The spread of the level of half seconds: gusts and swells over 2 dB, hum and night under 3 dB."""
    spread = {}
    for scape in scapes:
        x = scape.samples.astype(np.float64)
        halves = x[: x.size // 8000 * 8000].reshape(-1, 8000)
        spread[scape.recording_id] = float(np.std(10 * np.log10(np.mean(halves**2, axis=1))))

    assert all(value > 2 for name, value in spread.items() if name.startswith(("wind", "surf")))
    assert all(value < 3 for name, value in spread.items() if name.startswith(("hum", "night")))
