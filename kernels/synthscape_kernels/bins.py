"""Which bins of its transform an event's reference band covers, for many events at once."""

from __future__ import annotations

import math
from typing import Any

from synthscape_kernels.jit import compiled
from synthscape_kernels.place import reference_band


@compiled
def event_bins(
    low_hz: Any, high_hz: Any, ratio: Any, ratio_p: Any, ratio_q: Any, n: Any, sample_rate: Any, first: Any, last: Any
) -> None:
    """First and last bin of every event's band, after its ratio: those nearest to its edges, so at least one.

    Args:
        low_hz, high_hz: of the clip, float64 [e]; NaN: it has no band, and the event is left out.
        n: length of the transform, int64 [e].
        first, last: int64 [e], filled.
    """
    for e in range(len(n)):
        if not math.isnan(low_hz[e]):
            r = ratio[e]
            low, high = reference_band(low_hz[e], high_hz[e], ratio_p[r], ratio_q[r], sample_rate / 2)
            top = n[e] // 2
            first[e] = min(math.floor(low * n[e] / sample_rate + 0.5), top)
            last[e] = max(first[e], min(math.floor(high * n[e] / sample_rate + 0.5), top))
