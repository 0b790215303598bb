"""Trigger policies of sliding windows: after which rows, or at which instants, a partition fires.

Each answers with (code, instant or row, rows in): the content shown is what the eviction policy says begins there.
A count trigger shows the content with the new row; a delta trigger the content before it, still unevicted
[semantics 3].
"""

from __future__ import annotations

import numpy as np

from framework.core.arrival.event_table import Moments, Phase, at_instants, at_rows
from framework.core.arrival.partitions import Partitions
from framework.core.arrival.policies.starts import Starts
from framework.core.arrival.round import Stretch, due_instants
from framework.declarations.events import EventType, Reason


def count_fires(size: int, stretch: Stretch, starts: Starts, partitions: Partitions) -> Moments:
    """Fire after every `size` tuples of a partition; evictions do not change the count."""
    code, number, at = stretch.rows
    nth = partitions.since[code] + (number - stretch.held[code]) + 1
    fires = nth % size == 0
    some = (code[fires], number[fires], at[fires])
    end = number[fires] + 1
    content = starts.holes(code[fires], end)
    _passed(stretch, partitions)
    partitions.since[:] = np.where(partitions.live, partitions.since % size, partitions.since)
    return at_rows(
        EventType.TRIGGER,
        Phase.TRIGGER,
        some,
        starts.after[fires],
        end,
        reason=Reason.COUNT,
        content=content,
    )


def delta_fires(size: float, stretch: Stretch, values: np.ndarray, starts: Starts, partitions: Partitions) -> Moments:
    """Fire when a value exceeds the last triggering one by more than `size`; the first only sets the base."""
    fired: list[int] = []
    last: dict[int, int] = {}
    for row, (code, value) in enumerate(zip(stretch.code.tolist(), values.tolist(), strict=True)):
        base = partitions.base[code]
        if base is None:
            partitions.base[code] = value
        elif value > base + size:
            partitions.base[code] = value
            fired.append(row)
            last[code] = row
    rows = np.array(fired, dtype=np.int64)
    code, number, at = stretch.rows
    some = (code[rows], number[rows], at[rows])
    content = starts.holes(code[rows], number[rows])
    _passed(stretch, partitions)
    for own, row in last.items():
        # The tuple that fired came after the firing: it is the first that has not been shown.
        partitions.since[own] = stretch.sizes[own] - number[row]
    return at_rows(
        EventType.TRIGGER,
        Phase.TRIGGER_BEFORE,
        some,
        starts.before[rows],
        number[rows],
        reason=Reason.DELTA,
        content=content,
    )


def time_fires(period: int, stretch: Stretch, starts: Starts, partitions: Partitions) -> Moments:
    """Fire at a fixed rate, also when the window is empty; a tuple of that very instant comes after it."""
    codes, instants = due_instants(partitions, period, stretch, inclusive=True)
    new = stretch.new_before(codes, instants)
    ends = stretch.held[codes] + new
    _passed(stretch, partitions)
    if len(codes):
        final = np.append(codes[1:] != codes[:-1], True)
        partitions.since[codes[final]] = stretch.sizes[codes[final]] - ends[final]
    return at_instants(
        EventType.TRIGGER,
        (codes, instants),
        starts.at(codes, instants, ends),
        ends,
        reason=Reason.OVERDUE if stretch.once else Reason.TIME,
        content=starts.holes(codes, ends),
    )


def _passed(stretch: Stretch, partitions: Partitions) -> None:
    """Count the new rows of each partition."""
    np.add.at(partitions.since, stretch.code, 1)
