"""Round figures along a chart's axis."""

from __future__ import annotations

import math

_STEPS = 4


def round_step(most: float) -> float:
    """1, 2, 2.5 or 5 of a power of ten: some four of them come up to the most."""
    rough = most / _STEPS
    power = 10 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
