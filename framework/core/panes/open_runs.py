"""How many panes are open? A pane is one, however many partitions have rows in it, in however many key groups.

A key group tells which panes it has open as runs of their numbers, so that those of all key groups are added up as a
set. What has no number, as a session, is of one partition, and counts by itself. Partitions are not counted: rows are
added to panes without a look at those that they have, and to know which partitions are new would be to read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

Runs = Sequence[Sequence[int]]
"""The first and the last number of each run of neighbouring panes, ascending."""


def runs_of(panes: Iterable[int]) -> list[list[int]]:
    """Return the runs of these panes.

    >>> runs_of([7, 3, 4, 5])
    [[3, 5], [7, 7]]
    """
    numbers = np.array(sorted(panes), dtype=np.int64)
    if not len(numbers):
        return []
    begins = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 2) > 1)
    ends = np.append(begins[1:], len(numbers)) - 1
    runs: list[list[int]] = np.stack([numbers[begins], numbers[ends]], axis=1).tolist()
    return runs


def count_open(numbers: Iterable[int], runs: Iterable[Mapping[str, Runs]]) -> int:
    """Return how many panes are open in all key groups together.

    Args:
        numbers: how many each has open, each pane of each window.
        runs: which of these are panes with a number, by the window of which they are.

    >>> count_open([3, 2, 1], [{"": [[1, 3]]}, {"": [[3, 4]]}, {}])
    5
    """
    by_window: dict[str, list[Sequence[int]]] = {}
    for of_group in runs:
        for window, own in of_group.items():
            by_window.setdefault(window, []).extend(own)
    number = sum(numbers)
    for every in by_window.values():
        first, last = np.array(sorted(map(tuple, every)), dtype=np.int64).reshape(-1, 2).T
        before = np.maximum.accumulate(np.concatenate([first[:1] - 1, last]))[:-1]
        together = np.maximum(last - np.maximum(first - 1, before), 0).sum()
        number += int(together) - int((last - first + 1).sum())
    return number
