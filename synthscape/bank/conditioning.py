"""What is done to a recording before anything is measured: DC removed, slow drift filtered out.

Field recorders leave DC and rumble far below what any animal sings that would put levels off by 25 dB and more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

HIGHPASS_ORDER = 2  # run forwards and backwards: 24 dB per octave, -6 dB at the cutoff, no delay


def condition(
    samples: NDArray[np.float32], sample_rate: int, highpass_hz: float = 20.0
) -> tuple[NDArray[np.float32], float]:
    """Remove DC, then high-pass (Butterworth, zero phase).

    >>> clean, dc = condition(recording, 16000)         # doctest: +SKIP

    A recording shorter than one period of the cutoff can't show what lies below it: only its DC is removed.

    Args:
        samples: float32 [samples], original scale; not changed.
        sample_rate: Hz.
        highpass_hz: cutoff; 0 removes DC only.

    Returns:
        float32 [samples], and the DC that was removed (the mean).

    Raises:
        ValueError: the cutoff is not under Nyquist.
    """
    if not 0 <= highpass_hz < sample_rate / 2:
        raise ValueError(f"the high-pass must lie between 0 and {sample_rate / 2} Hz (Nyquist), got {highpass_hz}")
    dc = float(np.mean(samples, dtype=np.float64))
    exact = samples.astype(np.float64) - dc
    if highpass_hz > 0 and len(samples) * highpass_hz >= sample_rate:
        sos = butter(HIGHPASS_ORDER, highpass_hz, "highpass", fs=sample_rate, output="sos")
        period = round(sample_rate / highpass_hz)
        # the filter forgets within two periods
        before, after = reflected(exact, 2 * period, float(exact[:period].mean()), float(exact[-period:].mean()))
        padded = sosfiltfilt(sos, np.concatenate([before, exact, after]), padtype=None)
        exact = padded[len(before) : len(before) + len(exact)]
    return exact.astype(np.float32), dc


def reflected(
    samples: NDArray[np.float64], padding: int, level_before: float, level_after: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What to put before and behind samples before filtering them: themselves, turned about the level at the edge.

    So what is slow goes on, instead of being cut into a step. The level must be that of what is slow: about the
    outermost sample itself, as is usual, a click on it, or a tone that begins at its crest, becomes a step of twice its
    size.

    Returns:
        Two float64 arrays of at most ``padding`` samples.
    """
    padding = min(padding, len(samples) - 1)
    return 2 * level_before - samples[padding:0:-1], 2 * level_after - samples[-2 : -padding - 2 : -1]
