"""When the job is killed: at random times, the same ones for the same seed."""

from __future__ import annotations

import random

EARLIEST, LATEST = 0.05, 0.95
"""Shares of the run between which it is killed: at its very end nothing would be left to recover for."""
_MINUTES_A_KILL = 3


def kill_times(*, seed: int, seconds: float, kills: int) -> list[float]:
    """Return the times of all kills in seconds from the beginning of the run, in order.

    They are independent of each other, so that one may come while the job still recovers from the one before.

    Args:
        seed: the same seed gives the same times.
        seconds: the length of the run.
        kills: how many.
    """
    draw = random.Random(seed)
    return sorted(draw.uniform(EARLIEST, LATEST) * seconds for _ in range(kills))


def default_kills(minutes: float) -> int:
    """Return how often a run of this length is killed, if nobody says it.

    >>> default_kills(15), default_kills(1)
    (5, 1)
    """
    return max(1, round(minutes / _MINUTES_A_KILL))
