"""Bins of many events at once are those of each by itself."""

from __future__ import annotations

import numpy as np

from synthscape.mix.levels import band_bins, reference_band
from synthscape_kernels.bins import event_bins


def test_bins_are_those_of_the_definition() -> None:
    """For random bands, ratios and lengths; events without a band are left as they were."""
    rng = np.random.default_rng(0)
    n_events = 500
    low_hz = rng.uniform(20, 9000, n_events)
    high_hz = low_hz * rng.uniform(1, 3, n_events)
    low_hz[::7] = np.nan
    p, q = rng.integers(1, 130, (2, 20)).astype(np.int32)
    ratio = rng.integers(0, 20, n_events).astype(np.int16)
    n = rng.integers(1, 5000, n_events)
    first, last = np.full((2, n_events), -1)
    event_bins(low_hz, high_hz, ratio, p, q, n, 16000, first, last)

    for e in range(n_events):
        expected = (-1, -1)
        if not np.isnan(low_hz[e]):
            band = reference_band(low_hz[e], high_hz[e], int(p[ratio[e]]), int(q[ratio[e]]), 8000.0)
            expected = band_bins(int(n[e]), 16000, *band)
        assert (first[e], last[e]) == expected
