"""Trigger policies of sliding windows: after which rows, or at which instants, a partition fires.

Each answers with (code, instant or row, rows in): the content shown is what the eviction policy says begins there.
A count trigger shows the content with the new row; a delta trigger the content before it, still unevicted
[semantics 3].
"""

from __future__ import annotations

import numpy as np

from framework.core.arrival.event_table import EventTable, Phase, row_events, timer_events
from framework.core.arrival.partitions import Partitions
from framework.core.arrival.policies.starts import Starts
from framework.core.arrival.round import RoundRows, due_timers
from framework.declarations.events import EventType, Reason


def count_fires(size: int, round_rows: RoundRows, starts: Starts, partitions: Partitions) -> EventTable:
    """Fire after every `size` tuples of a partition; evictions do not change the count."""
    code, position, at = round_rows.rows
    nth = partitions.since[code] + (position - round_rows.old_counts[code]) + 1
    fires = nth % size == 0
    some = (code[fires], position[fires], at[fires])
    end = position[fires] + 1
    content = starts.holes(code[fires], end)
    _passed(round_rows, partitions)
    partitions.since[:] = np.where(partitions.live, partitions.since % size, partitions.since)
    return row_events(
        EventType.TRIGGER,
        Phase.TRIGGER,
        some,
        starts.after[fires],
        end,
        reason=Reason.COUNT,
        content=content,
    )


def delta_fires(
    size: float, round_rows: RoundRows, values: np.ndarray, starts: Starts, partitions: Partitions
) -> EventTable:
    """Fire when a value exceeds the last triggering one by more than `size`; the first only sets the base."""
    fired: list[int] = []
    last: dict[int, int] = {}
    for row, (code, value) in enumerate(zip(round_rows.code.tolist(), values.tolist(), strict=True)):
        base = partitions.base[code]
        if base is None:
            partitions.base[code] = value
        elif value > base + size:
            partitions.base[code] = value
            fired.append(row)
            last[code] = row
    rows = np.array(fired, dtype=np.int64)
    code, position, at = round_rows.rows
    some = (code[rows], position[rows], at[rows])
    content = starts.holes(code[rows], position[rows])
    _passed(round_rows, partitions)
    for own, row in last.items():
        # The tuple that fired came after the firing: it is the first that has not been shown.
        partitions.since[own] = round_rows.sizes[own] - position[row]
    return row_events(
        EventType.TRIGGER,
        Phase.TRIGGER_BEFORE,
        some,
        starts.before[rows],
        position[rows],
        reason=Reason.DELTA,
        content=content,
    )


def time_fires(period: int, round_rows: RoundRows, starts: Starts, partitions: Partitions) -> EventTable:
    """Fire at a fixed rate, also when the window is empty; a tuple of that very instant comes after it."""
    codes, instants = due_timers(partitions, period, round_rows, inclusive=True)
    new = round_rows.count_new_before(codes, instants)
    ends = round_rows.old_counts[codes] + new
    _passed(round_rows, partitions)
    if len(codes):
        final = np.append(codes[1:] != codes[:-1], True)
        partitions.since[codes[final]] = round_rows.sizes[codes[final]] - ends[final]
    return timer_events(
        EventType.TRIGGER,
        (codes, instants),
        starts.at(codes, instants, ends),
        ends,
        reason=Reason.OVERDUE if round_rows.after_outage else Reason.TIME,
        content=starts.holes(codes, ends),
    )


def _passed(round_rows: RoundRows, partitions: Partitions) -> None:
    """Count the new rows of each partition."""
    np.add.at(partitions.since, round_rows.code, 1)
