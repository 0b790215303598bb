"""The policies of a window, evaluated on one round: which events follow, and which rows stay.

No kind of policy is named here: what a policy does is in its own file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from panekeeper.framework.core.arrival import batched
from panekeeper.framework.core.arrival.event_table import EventTable
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import AllRows
from panekeeper.framework.core.arrival.policies.registry import running_policy
from panekeeper.framework.core.arrival.round import RoundRows
from panekeeper.framework.core.outlook import NONE
from panekeeper.framework.declarations.events import EventType
from panekeeper.framework.declarations.windows import ArrivalWindow, Batched, Sliding, Tumbling
from panekeeper.state.records import NEVER


@dataclass(frozen=True, kw_only=True)
class PolicyResult:
    """What follows from the policies in one round.

    Attributes:
        events: evictions, firings, INITIAL_FULL.
        begin: where the rows begin that stay in the window, by code.
        sparse: positions of the rows that stay, by code, where a row between them was evicted.
    """

    events: list[EventTable]
    begin: np.ndarray
    sparse: dict[int, np.ndarray] = field(default_factory=dict)


def timer_period(window: ArrivalWindow) -> int | None:
    """Return the period (us) of the timer that each partition of the window has; None without a timer."""
    if isinstance(window, Batched):
        return window.every_us
    return running_policy(window.evict if isinstance(window, Tumbling) else window.trigger).period_us


def first_due(window: ArrivalWindow, partitions: Partitions, ready: int, at: np.ndarray) -> np.ndarray:
    """Return the first instant (us) of the timers of partitions that are created at `at`.

    Batch instants are on one grid for the whole window, which begins at `ready` (us), or the last multiple by then.
    """
    if isinstance(window, Batched):
        every = window.every_us
        begin = ready - ready % every if window.aligned and every is not None else ready
        return np.array([batched.first_batch_instant(begin, every, int(a) - 1) for a in at], dtype=np.int64)
    period = timer_period(window)
    if period is None:
        return np.full(len(at), NEVER)
    due: np.ndarray = partitions.instants_after(at, period)
    return due


def starts_full(window: ArrivalWindow) -> bool:
    """Return whether a partition of the window is full from its first row on."""
    return isinstance(window, Sliding) and running_policy(window.evict).starts_full


def tumbles_at_marks(window: ArrivalWindow) -> bool:
    """Return whether a window mark makes the window tumble."""
    return isinstance(window, Tumbling) and running_policy(window.evict).tumbles_at_marks


def rows_to_fire(window: ArrivalWindow, partitions: Partitions) -> np.ndarray:
    """Return after how many further rows each partition tumbles or fires, by code; `NONE`: no number makes it."""
    if isinstance(window, Batched):
        return batched.rows_to_fire(window, partitions)
    if isinstance(window, Tumbling):
        return running_policy(window.evict).rows_to_fire(partitions.inside)
    fires = running_policy(window.trigger).rows_to_fire(partitions.since)
    if not window.when_full:
        return fires
    full = running_policy(window.evict).rows_to_be_full(partitions.inside)
    return np.where(partitions.full | (full == NONE), fires, full)


def evaluate(
    window: ArrivalWindow, round_rows: RoundRows, rows: AllRows, partitions: Partitions, *, is_last_at_instant: bool
) -> PolicyResult:
    """Evaluate the policies of a window whose rows are kept; updates what is stored for each partition.

    `is_last_at_instant` says that no more rows of the round's last instant come.
    """
    if isinstance(window, Tumbling):
        return _evaluate_tumbling(window, round_rows, rows, partitions)
    if isinstance(window, Sliding):
        return _evaluate_sliding(window, round_rows, rows, partitions)
    if window.within is None:
        updates = batched.counted_updates(window, round_rows, partitions)
    else:
        updates = batched.timed_updates(
            window, round_rows, partitions, rows.codes, rows.at, is_last_at_instant=is_last_at_instant
        )
    return PolicyResult(events=updates.events(), begin=updates.final(partitions, round_rows.sizes))


def _evaluate_tumbling(window: Tumbling, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> PolicyResult:
    policy = running_policy(window.evict)
    tumbles = policy.tumbles(round_rows, lambda name: _new_values(round_rows, rows, name), partitions)
    begin = tumbles.final_begin(len(round_rows.old_counts))
    partitions.inside[:] = round_rows.sizes - begin
    return PolicyResult(events=tumbles.events(), begin=begin)


def _evaluate_sliding(window: Sliding, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> PolicyResult:
    eviction = running_policy(window.evict).eviction(round_rows, rows, partitions)
    trigger = running_policy(window.trigger)
    fired = trigger.firings(round_rows, lambda name: _new_values(round_rows, rows, name), eviction, partitions)
    was_full = partitions.full.copy()
    evicted = eviction.events()
    if window.when_full:
        fired = [_once_full(policy_fired, was_full, evicted) for policy_fired in fired]
    begin = eviction.final_begin()
    sparse = eviction.sparse_rows(np.arange(len(begin)), round_rows.sizes)
    partitions.inside[:] = round_rows.sizes - begin
    for code, positions in sparse.items():
        partitions.inside[code] = len(positions)
    return PolicyResult(events=[*evicted, *fired], begin=begin, sparse=sparse)


def _once_full(fired: EventTable, was_full: np.ndarray, evicted: list[EventTable]) -> EventTable:
    """Return the firings of partitions that were full before the round, or have become full before they fire."""
    fires = was_full[fired.code]
    for filled in evicted:
        if filled.kind is not EventType.INITIAL_FULL or not len(filled):
            continue
        which = np.full(len(was_full), -1)
        which[filled.code] = np.arange(len(filled))
        index = which[fired.code]
        later = _is_later(fired, filled, index)
        fires |= (index >= 0) & later
    return fired.where(fires)


def _is_later(fired: EventTable, filled: EventTable, index: np.ndarray) -> np.ndarray:
    """Return for each firing whether it comes after the event of this index, by the order at one instant."""
    at, row = filled.at[index], filled.row[index]
    if fired.cause != filled.cause:
        later = (fired.at == at) & (fired.cause > filled.cause)
    else:
        later = (fired.at == at) & ((fired.row > row) | ((fired.row == row) & (fired.phase > filled.phase)))
    is_later: np.ndarray = (fired.at > at) | later
    return is_later


def _new_values(round_rows: RoundRows, rows: AllRows, column: str) -> np.ndarray:
    values: np.ndarray = rows.column(column)[rows.offsets[round_rows.code] + round_rows.position]
    return values
