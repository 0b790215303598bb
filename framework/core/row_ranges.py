"""Ranges of rows, laid end to end. Shared by panes and aggregates."""

from __future__ import annotations

import numpy as np


def gather_ranges(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (positions, offsets): the ranges low..high-1 end to end, and where each begins (one more at the end).

    >>> gather_ranges(np.array([5, 0]), np.array([7, 1]))
    (array([5, 6, 0]), array([0, 2, 3]))
    """
    lengths = high - low
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.arange(offsets[-1]) + np.repeat(low - offsets[:-1], lengths)
    return positions, offsets
