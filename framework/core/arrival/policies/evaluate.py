"""The policies of a declared window, asked on a round: which moments follow, and what stays.

The only place that tells kinds of policy apart; a pair of policies is never named.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from framework.core.arrival import batched
from framework.core.arrival.event_table import EventTable
from framework.core.arrival.partitions import NEVER, Partitions
from framework.core.arrival.policies import fires, tumbling
from framework.core.arrival.policies.starts import CountStarts, DeltaStarts, Starts, TimeStarts
from framework.core.arrival.policies.tumbling import Tumbles
from framework.core.arrival.round import RoundRows
from framework.core.arrival.row_buffer import RowBuffer
from framework.declarations.policies import Count, Delta, Time
from framework.declarations.windows import ArrivalWindow, Batched, Sliding, Tumbling

Measure = tuple[np.ndarray, float]
"""Values of a delta policy's attribute, and the policy's size in the same unit."""


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """What the policies say of a round.

    Attributes:
        moments: evictions, firings, initial fulls.
        begin: where the rows still wanted begin, by code.
        holes: explicit rows still wanted, by code, where those between were evicted.
    """

    events: list[EventTable]
    begin: np.ndarray
    holes: dict[int, np.ndarray] = field(default_factory=dict)


def timer_period(window: ArrivalWindow) -> int | None:
    """The period (us) of the timer that each partition of the window has, if any."""
    if isinstance(window, Batched):
        return window.every_us
    policy = window.evict if isinstance(window, Tumbling) else window.trigger
    return policy.us if isinstance(policy, Time) else None


def first_due(window: ArrivalWindow, ready: int, at: np.ndarray) -> np.ndarray:
    """First instant of the timers of partitions that begin at `at`: batches keep to the grid of the whole window."""
    if isinstance(window, Batched):
        return np.array([batched.first_batch_instant(ready, window.every_us, int(a) - 1) for a in at], dtype=np.int64)
    period = timer_period(window)
    return np.full(len(at), NEVER) if period is None else at + period


def cuts_of(window: Tumbling, round_rows: RoundRows, measure: Measure | None, partitions: Partitions) -> Tumbles:
    """Where a tumbling window is cut in this round; `measure` is that of a delta attribute, of the new rows."""
    policy = window.evict
    if isinstance(policy, Count):
        return tumbling.count_cuts(policy.size, round_rows)
    if isinstance(policy, Time):
        return tumbling.time_cuts(policy.us, round_rows, partitions)
    if isinstance(policy, Delta) and measure is not None:
        values, size = measure
        return tumbling.delta_cuts(size, round_rows, values, partitions)
    return tumbling.no_cuts()


def rule(
    window: ArrivalWindow,
    round_rows: RoundRows,
    log: RowBuffer,
    offsets: np.ndarray,
    partitions: Partitions,
    *,
    is_last_at_instant: bool,
) -> Ruling:
    """Ask the policies of a window whose rows are kept; sets what each partition remembers."""
    if isinstance(window, Tumbling):
        measure = None
        if isinstance(window.evict, Delta):
            values, size = measured(window.evict, log.column(window.evict.attribute))
            measure = values[offsets[round_rows.code] + round_rows.position], size
        tumbles = cuts_of(window, round_rows, measure, partitions)
        begin = tumbles.final(len(round_rows.old_counts))
        partitions.inside[:] = round_rows.sizes - begin
        return Ruling(events=[tumbles.events()], begin=begin)
    if isinstance(window, Batched):
        if window.within is None:
            updates = batched.counted_updates(window, round_rows, partitions)
        else:
            updates = batched.timed_updates(
                window, round_rows, partitions, log.codes, log.at, is_last_at_instant=is_last_at_instant
            )
        return Ruling(events=updates.events(), begin=updates.final(partitions, round_rows.sizes))
    return _slide(window, round_rows, log, offsets, partitions)


def _slide(
    window: Sliding, round_rows: RoundRows, log: RowBuffer, offsets: np.ndarray, partitions: Partitions
) -> Ruling:
    starts = _starts(window, round_rows, log, offsets, partitions)
    trigger = window.trigger
    if isinstance(trigger, Count):
        fired = fires.count_fires(trigger.size, round_rows, starts, partitions)
    elif isinstance(trigger, Time):
        fired = fires.time_fires(trigger.us, round_rows, starts, partitions)
    else:
        values, size = measured(trigger, log.column(trigger.attribute))
        new = values[offsets[round_rows.code] + round_rows.position]
        fired = fires.delta_fires(size, round_rows, new, starts, partitions)
    begin = starts.final()
    every = np.arange(len(begin))
    holes = starts.holes(every, round_rows.sizes)
    partitions.inside[:] = round_rows.sizes - begin
    for code, numbers in holes.items():
        partitions.inside[code] = len(numbers)
    return Ruling(events=[*starts.events(), fired], begin=begin, holes=holes)


def _starts(
    window: Sliding, round_rows: RoundRows, log: RowBuffer, offsets: np.ndarray, partitions: Partitions
) -> Starts:
    policy = window.evict
    if isinstance(policy, Count):
        return CountStarts(policy.size, round_rows, partitions.full)
    if isinstance(policy, Time):
        return TimeStarts(policy.us, round_rows, log.codes, log.at)
    assert isinstance(policy, Delta)
    values, size = measured(policy, log.column(policy.attribute))
    return DeltaStarts(size, round_rows, offsets, values, partitions.full)


def measured(policy: Delta, values: np.ndarray) -> Measure:
    """Return values that can be subtracted, and the size in their unit: of instants, microseconds [S2]."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]").astype(np.int64), policy.us
    return (values.astype(np.int64) if values.dtype.kind in "iu" else values.astype(np.float64)), policy.number
