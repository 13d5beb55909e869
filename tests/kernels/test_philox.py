"""Counter-based random numbers against published answers and statistics."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from synthscape_kernels import philox

# Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, answer.
KNOWN = [
    ((0x00000000,) * 4, (0x00000000,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_published_answers(counter: tuple[int, ...], key: tuple[int, ...], answer: tuple[int, ...]) -> None:
    """The generator gives Random123's known answers."""
    assert tuple(int(w) for w in philox.philox4x32(*counter, *key)) == answer


def test_layout_of_the_counter() -> None:
    """A word is word slot % 4 of counter (slot // 4, stream, scene_lo, scene_hi) under the seed as key."""
    seed, stream, scene, slot = 0x0123456789ABCDEF, 5, (3 << 40) + 77, 4 * 1234 + 2
    words = philox.philox4x32(slot // 4, stream, scene & 0xFFFFFFFF, scene >> 32, seed & 0xFFFFFFFF, seed >> 32)

    assert philox.word(np.uint64(seed), stream, scene, slot) == words[2]


def test_uniform_is_never_an_end() -> None:
    """u = (word + 1/2) / 2**32 lies strictly inside (0, 1)."""
    word = int(philox.word(np.uint64(9), 1, 2, 3))

    assert philox.uniform(np.uint64(9), 1, 2, 3) == (word + 0.5) / 2**32
    assert (0xFFFFFFFF + 0.5) * 2.0**-32 < 1.0


# n = 20 000 words a sample; one-sample Kolmogorov-Smirnov at p = 1e-4 (18 tests, so one in 500 runs of *another* seed
# would fail; this one is fixed).
@pytest.mark.parametrize("stream", range(9))
@pytest.mark.parametrize("along", ["slot", "scene"])
def test_streams_are_uniform(stream: int, along: str) -> None:
    """Words of a stream are uniform along slots and along scenes (Kolmogorov-Smirnov, n = 20 000, p > 1e-4)."""
    n = 20_000
    if along == "slot":
        u = [philox.uniform(np.uint64(7), stream, 12, slot) for slot in range(n)]
    else:
        u = [philox.uniform(np.uint64(7), stream, scene, 24) for scene in range(n)]

    assert scipy.stats.kstest(u, "uniform").pvalue > 1e-4


@pytest.mark.parametrize(
    ("one", "other"),
    [((1, 0, 0), (2, 0, 0)), ((1, 0, 0), (1, 1, 0)), ((1, 0, 0), (1, 0, 1)), ((1, 4, 5), (1, 4, 9))],
    ids=["seeds", "streams", "scenes", "far slots"],
)
def test_draws_are_independent(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    """Draws that differ in seed, stream or slot show no association (chi-square of an 8 x 8 table, n = 20 000)."""
    n = 20_000

    def draws(seed: int, stream: int, shift: int) -> np.ndarray:
        return np.array([philox.uniform(np.uint64(seed), stream, scene + shift, 8 * shift) for scene in range(n)])

    table, _, _ = np.histogram2d(draws(*one), draws(*other), bins=8, range=[[0, 1], [0, 1]])

    assert scipy.stats.chi2_contingency(table).pvalue > 1e-4


def test_neighbouring_scenes_do_not_correlate() -> None:
    """The serial correlation over scenes is within 4 standard errors (n = 50 000)."""
    u = np.array([philox.uniform(np.uint64(3), 4, scene, 40) for scene in range(50_000)])

    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 4 / np.sqrt(len(u))
