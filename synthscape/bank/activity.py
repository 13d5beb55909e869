"""Finding the calls in a recording, or in a stem that was separated from one, by their envelope.

The windows are those of the DRASDIC pipeline (Hoffman et al. 2025, appendix), with its traps removed: the envelope is
centred (theirs is causal, so up to 10 ms late), and fades are made in copies (theirs attenuate the neighbours).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

from synthscape.bank.conditioning import reflected
from synthscape.units import seconds_to_samples

ENVELOPE_S: Final = 0.010
HIGHPASS_HZ: Final = 25.0
HIGHPASS_ORDER: Final = 10
EDGE_S: Final = 0.1  # not looked at for the range of the envelope
THRESHOLD: Final = 0.25
FILL_S: Final = 0.1
DROP_S: Final = 0.03
PAD_S: Final = 0.05
FADE_S: Final = 0.05


@dataclass(frozen=True)
class Window:
    """A stretch [start, end) to cut, samples, around [tight_start, tight_end), which is above the threshold.

    ``fade_in`` and ``fade_out`` are the samples at its ends that lie beyond the padding. ``touches_edge``: the stretch
    begins or ends with the recording.
    """

    start: int
    end: int
    tight_start: int
    tight_end: int
    fade_in: int
    fade_out: int
    touches_edge: bool


def envelope(samples: NDArray[np.floating[Any]], sample_rate: int) -> NDArray[np.float64]:
    """RMS over 10 ms, centred, of the samples high-passed at 25 Hz (Butterworth of order 10, zero phase)."""
    exact = np.asarray(samples, dtype=np.float64)
    sos = butter(HIGHPASS_ORDER, HIGHPASS_HZ, "highpass", fs=sample_rate, output="sos")
    period = round(sample_rate / HIGHPASS_HZ)
    before, after = reflected(exact, 5 * period, float(exact[:period].mean()), float(exact[-period:].mean()))
    filtered = sosfiltfilt(sos, np.concatenate([before, exact, after]), padtype=None)
    filtered = filtered[len(before) : len(before) + len(exact)]
    half = seconds_to_samples(ENVELOPE_S / 2, sample_rate)
    passed = np.concatenate([[0.0], np.cumsum(filtered**2)])
    centre = np.arange(len(exact))
    first, last = np.maximum(centre - half, 0), np.minimum(centre + half + 1, len(exact))
    power: NDArray[np.float64] = np.maximum(passed[last] - passed[first], 0.0) / (last - first)
    return np.sqrt(power)


def find_windows(
    samples: NDArray[np.floating[Any]], sample_rate: int, mixture: NDArray[np.floating[Any]] | None = None
) -> list[Window]:
    """Windows around what is loud in ``samples``, against the range of the mixture's envelope.

    Active where (envelope - lowest) / (highest - lowest + 1e-6) > 0.25, lowest and highest of the mixture without its
    first and last 0.1 s (all of it if it is shorter than 0.4 s). Holes under 0.1 s are filled, then runs under 0.03 s
    dropped. Each is padded by 0.05 s, and by 0.05 s more that is to be faded, within the file and short of the next.

    Args:
        samples: [samples], mono.
        sample_rate: Hz.
        mixture: the raw recording, same length; None if ``samples`` is one.
    """
    own = envelope(samples, sample_rate)
    reference = own if mixture is None else envelope(mixture, sample_rate)
    edge = seconds_to_samples(EDGE_S, sample_rate)
    if len(reference) >= 4 * edge:
        reference = reference[edge:-edge]
    lowest, highest = float(reference.min()), float(reference.max())
    active = (own - lowest) / (highest - lowest + 1e-6) > THRESHOLD
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]])))
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return []
    apart = starts[1:] - ends[:-1] >= FILL_S * sample_rate
    starts, ends = starts[np.concatenate([[True], apart])], ends[np.concatenate([apart, [True]])]
    long = ends - starts >= DROP_S * sample_rate
    starts, ends = starts[long], ends[long]
    pad, n = seconds_to_samples(PAD_S, sample_rate), len(own)
    around = pad + seconds_to_samples(FADE_S, sample_rate)
    windows = []
    for i, (tight_start, tight_end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        start = max(tight_start - around, int(ends[i - 1]) if i else 0)
        end = min(tight_end + around, int(starts[i + 1]) if i + 1 < len(starts) else n)
        fade_in, fade_out = max(0, tight_start - pad - start), max(0, end - tight_end - pad)
        windows.append(Window(start, end, tight_start, tight_end, fade_in, fade_out, start == 0 or end == n))
    return windows


def cut_window(samples: NDArray[np.float32], window: Window) -> NDArray[np.float32]:
    """A copy of the window's samples with its linear fades; ``samples`` are not changed."""
    clip = samples[window.start : window.end].copy()
    if window.fade_in:
        clip[: window.fade_in] *= np.arange(window.fade_in, dtype=np.float32) / np.float32(window.fade_in)
    if window.fade_out:
        clip[-window.fade_out :] *= np.arange(window.fade_out, dtype=np.float32)[::-1] / np.float32(window.fade_out)
    return clip
