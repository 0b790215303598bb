"""The new rows of one round, and the positions of each partition's rows: what every policy computes on.

The rows of a partition are numbered from 0: first the `old_counts` rows from before the round, then the new ones. The
round ends for each partition at `end_at`: what is due later is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.arrival.event_table import EventTable
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.stable_order import ranked
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.declarations.events import Reason
from panekeeper.state.duration_text import us_text
from panekeeper.state.records import NEVER

_NOT_IN_ROUND = -(2**62)
"""The end of a round, us, of a partition for which it does nothing."""

MOST_TIMERS = 2**26
"""How often timers may be due in one round, over all partitions; each takes some hundred bytes."""


@dataclass(frozen=True, kw_only=True)
class RoundRows:
    """One round. The arrays `code`, `position`, `at` have one entry for each new row, sorted by (code, arrival).

    Attributes:
        code: partition of each new row.
        position: its position among the rows of its partition.
        at: its arrival time, us.
        old_counts: number of rows of each partition before the round, by code.
        sizes: number of rows of each partition with the new ones, by code.
        end_at: the last instant (us) of the round for each partition, by code.
        after_outage: whether the process was down: what is overdue happens once, now.
    """

    code: np.ndarray
    position: np.ndarray
    at: np.ndarray
    old_counts: np.ndarray
    sizes: np.ndarray
    end_at: np.ndarray
    after_outage: bool = False

    @classmethod
    def of(
        cls, code: np.ndarray, at: np.ndarray, old_counts: np.ndarray, end_at: np.ndarray, *, after_outage: bool
    ) -> RoundRows:
        """Return the round of new rows that are sorted by (code, arrival)."""
        sizes = old_counts + np.bincount(code, minlength=len(old_counts))
        first = np.searchsorted(code, np.arange(len(old_counts)))
        return cls(
            code=code,
            position=old_counts[code] + np.arange(len(code)) - first[code],
            at=at,
            old_counts=old_counts,
            sizes=sizes,
            end_at=end_at,
            after_outage=after_outage,
        )

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(code, position, arrival time) of each new row."""
        return self.code, self.position, self.at

    @property
    def timer_reason(self) -> Reason:
        """Why something fires that was due by the clock."""
        return Reason.OVERDUE if self.after_outage else Reason.TIME

    @property
    def first_of_code(self) -> np.ndarray:
        """Index of the first new row of each partition 0..n-1, and one more at the end."""
        return np.searchsorted(self.code, np.arange(len(self.old_counts) + 1))

    def count_new_before(self, codes: np.ndarray, instants: np.ndarray, *, inclusive: bool = False) -> np.ndarray:
        """Return how many new rows of each partition arrived before each instant (or at it, if inclusive)."""
        return count_before(self.code, self.at, codes, instants, inclusive=inclusive)


@dataclass(frozen=True, kw_only=True)
class Round:
    """What the contents of a window receive of one round.

    Attributes:
        round_rows: where the new rows are in their partitions.
        table: the new rows, in arrival order.
        at: arrival time of each row of `table`, us.
        seq: arrival number of each row of `table`.
        order: position in `table` of each of the `round_rows`.
        events: what happens apart from the policies.
        is_last_at_instant: whether no more rows of the last instant come.
    """

    round_rows: RoundRows
    table: pa.Table
    at: np.ndarray
    seq: np.ndarray
    order: np.ndarray
    events: list[EventTable]
    is_last_at_instant: bool


def ends_of(some: np.ndarray, end: int) -> np.ndarray:
    """Return the last instant (us) of a round for each partition: `end` for some; nothing happens to the others."""
    return np.where(some, end, _NOT_IN_ROUND)


def count_before(
    sorted_codes: np.ndarray, times: np.ndarray, codes: np.ndarray, instants: np.ndarray, *, inclusive: bool
) -> np.ndarray:
    """Return, for each (code, instant), how many entries of that code have an earlier time (or the same, if inclusive).

    Entries are sorted by code, then time. Times are ranked first: code and time together would not fit an int64.

    >>> count_before(np.array([0, 0, 1]), np.array([5, 9, 5]), np.array([0]), np.array([9]), inclusive=False)
    array([1])
    """
    distinct, ranks = ranked(times)
    span = len(distinct) + 1
    key = sorted_codes * span + ranks
    wanted = np.searchsorted(distinct, instants, side="right" if inclusive else "left")
    begin = np.searchsorted(sorted_codes, codes)
    return np.searchsorted(key, codes * span + wanted) - begin


def due_timers(
    partitions: Partitions, period: int, round_rows: RoundRows, *, inclusive: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return (codes, instants) of a timer with a fixed period up to the end of the round, and advance the timer.

    After an outage an overdue timer is due once, at the end of the round, and its next period counts from there
    (docs/semantics.md section 7.5).
    """
    limit = round_rows.end_at if inclusive else round_rows.end_at - 1
    codes = np.flatnonzero(partitions.live & (partitions.due <= limit))
    due = partitions.due[codes]
    if round_rows.after_outage:
        partitions.due[codes] = partitions.instants_after(round_rows.end_at[codes], period)
        return codes, round_rows.end_at[codes]
    times = (limit[codes] - due) // period + 1
    require_bounded(times, period)
    partitions.due[codes] = due + times * period
    repeated = np.repeat(np.arange(len(codes)), times)
    step = np.arange(len(repeated)) - np.repeat(np.cumsum(times) - times, times)
    return codes[repeated], due[repeated] + step * period


def require_bounded(times: np.ndarray, period: int) -> None:
    """Refuse a leap of the clock over more periods than fit into memory: it would end the worker, at each start."""
    if float(times.sum(dtype=np.float64)) > MOST_TIMERS:
        raise InputError(
            f"the arrival time leaps over {times.max()} periods of {us_text(period)}, and each of them fires: rows "
            "of a micro-batch are years apart, or one of them has a time such as 1970. Nothing was committed; refuse "
            "such rows by reject=, or take a longer period"
        )


def rows_lacking(size: int, rows: np.ndarray) -> np.ndarray:
    """Return how many rows lack until their number is the next multiple of a size.

    >>> rows_lacking(3, np.array([0, 2, 3, 7]))
    array([3, 1, 3, 2])
    """
    return size - rows % size


def count_new_rows(round_rows: RoundRows, partitions: Partitions) -> None:
    """Add the new rows of each partition to its rows since the last firing."""
    np.add.at(partitions.since, round_rows.code, 1)


def count_from_firings(round_rows: RoundRows, partitions: Partitions, codes: np.ndarray, ends: np.ndarray) -> None:
    """Count, where partitions fired, only rows after the last firing; by code, and how many rows each firing had."""
    last = np.append(codes[1:] != codes[:-1], True)[: len(codes)]
    partitions.since[codes[last]] = round_rows.sizes[codes[last]] - ends[last]


def stop_timers(partitions: Partitions) -> None:
    """Stop all timers: after the final mark."""
    partitions.due[:] = NEVER
