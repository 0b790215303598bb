"""The clock of a stream with declared arrival times: one for all key groups, so that results do not depend on them.

A key group has only rows of its own keys, and its clock must pass with the rows of all. So whoever packs a run of rows
sends its first and its latest arrival time to every group (`ARRIVED_KIND`), at the place of the run's last row; and a
row never arrives before an earlier one, whatever the group of that one is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import ARRIVAL_TIME
from panekeeper.framework.core.steps import ArrivalClock

ARRIVED_KIND = "arrived"
"""Kind of the packed rows with the first and the latest arrival time of a run of rows on a port."""


@dataclass(frozen=True)
class RunTimes:
    """The first and the latest arrival time of a run of rows, us."""

    first: int
    latest: int

    @property
    def body(self) -> str:
        """What a packed row carries beside the latest time."""
        return str(self.first)


def pass_in_order(rows: pa.Table, *, sorted_later: bool) -> tuple[pa.Table, RunTimes]:
    """Return a run of rows with arrival times that never go back, and the first and the latest of them.

    Args:
        rows: one or more, in their order, of all key groups.
        sorted_later: they are put in order of their arrival time only in their key group, and so are left as they are.
    """
    at = rows.column(ARRIVAL_TIME).to_numpy()
    if sorted_later:
        return rows, RunTimes(int(at.min()), int(at.max()))
    if (at[1:] < at[:-1]).any():
        at = np.maximum.accumulate(at)
        rows = _with_times(rows, at)
    return rows, RunTimes(int(at[0]), int(at[-1]))


def join(
    packed: Iterable[Any], tables: Iterable[pa.Table | None], *, sorted_later: bool
) -> tuple[list[pa.Table], RunTimes | None]:
    """Return the rows of a group and the times of all runs among them, given in their order.

    Args:
        packed: the packed rows of one port, with those of `ARRIVED_KIND`.
        tables: the rows in each of them, None for one of `ARRIVED_KIND`.
        sorted_later: as for `pass_in_order`.
    """
    own: list[pa.Table] = []
    passed: RunTimes | None = None
    for row, table in zip(packed, tables, strict=True):
        if table is None:
            times = RunTimes(int(bytes(row.body)), row.n)
            passed = times if passed is None else _add(passed, times, sorted_later=sorted_later)
        elif passed is None or sorted_later or table.column(ARRIVAL_TIME)[0].as_py() >= passed.latest:
            own.append(table)
        else:
            own.append(_with_times(table, np.maximum(table.column(ARRIVAL_TIME).to_numpy(), passed.latest)))
    return own, passed


def clock_steps(passed: RunTimes | None, rows: Iterable[Any], port: int) -> Iterator[Any]:
    """Yield the steps of rows between those of the clock, if it is the one of the stream."""
    if passed is not None:
        yield ArrivalClock(passed.first, port)
    yield from rows
    if passed is not None:
        yield ArrivalClock(passed.latest, port)


def _add(passed: RunTimes, other: RunTimes, *, sorted_later: bool) -> RunTimes:
    first = min(passed.first, other.first) if sorted_later else passed.first
    return RunTimes(first, max(passed.latest, other.latest))


def _with_times(rows: pa.Table, at: np.ndarray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(ARRIVAL_TIME), ARRIVAL_TIME, pa.array(at))
