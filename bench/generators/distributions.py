"""Random sizes, the same on every machine for the same seed."""

from __future__ import annotations

import random


def log_uniform(chance: random.Random, low: int, high: int) -> int:
    """From `low` to `high`, each factor of two as likely as the next."""
    return min(high, max(low, round(low * (high / low) ** chance.random())))


def lifetime(chance: random.Random, mean: float) -> int:
    """A number of iterations of at least 1, short ones the likeliest, of about that mean."""
    iterations = 1
    while chance.random() >= 1 / mean and iterations < 20 * mean:
        iterations += 1
    return iterations
