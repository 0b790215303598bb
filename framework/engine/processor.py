"""The stateful processor: one key group, one batch; packed rows in, the machine run, packed rows out.

It decides in which order a group hears things: Spark's watermark, the ticks, the segments by (part, pos) with the
marks between them, a flush last. What a window does with them is `framework.core.machine`'s business.

With event time Spark keeps one timer a group, at the watermark at which the group next has something to do; so a
batch that only moves the watermark wakes the groups that are due, and nobody else.

A packed output row is `(tag, n, body)`: "results" and "rejected" are Arrow segments of n rows, "counts" is a JSON
object for the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

from framework.core.lifecycle import Cut
from framework.core.machine import Machine
from framework.core.outcome import Outcome
from framework.core.plan import Plan
from framework.core.steps import Evict, Flush, Mark, Rows, Step, Tick, Watermark
from framework.engine.packing import from_segment, to_segment
from framework.engine.pulse import CHECKPOINTS, FIRST, LAST
from framework.engine.runs import Run
from framework.engine.worker import settle
from state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

OUTPUT_SCHEMA = "tag string, n bigint, body binary"
TIMER = "timer"

_TIMER_VALUE = StructType([StructField("ms", LongType())])


class GroupProcessor(StatefulProcessor):
    """Runs the machine of a key group. Sent to the workers anew for every batch; keeps nothing but the store."""

    def __init__(
        self,
        plan: Plan,
        *,
        columns: tuple[str, ...],
        order_by: tuple[str, ...] = (),
        timers: bool = True,
        own_clock: bool = False,
        run: Run,
    ) -> None:
        self._plan = plan
        self._columns = list(columns)
        self._own_clock = own_clock
        self._order_by = order_by
        self._timers = timers
        self._run_info = run

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state. Called once a task, and once on the driver before the query starts."""
        settle()
        self._handle = handle
        self._store = SparkStore(handle)
        self._registered = handle.getValueState(TIMER, _TIMER_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Take what the batch has for one group."""
        return self._run(key[0], list(rows), timerValues)

    def handleExpiredTimer(  # noqa: N802 -- Spark calls it by this name and these argument names
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Act on a watermark that moved, in a batch with no rows for this group."""
        return self._run(key[0], [], timerValues)

    def close(self) -> None:
        """Nothing to close: the store belongs to Spark."""

    def _run(self, group: int, packed: list[Row], timer_values: TimerValues) -> Iterator[Row]:
        moved = watermark_step(timer_values.getCurrentWatermarkInMs()) if self._timers else []
        # Where the stream tells its own time, what our clock says would make all of it overdue.
        told = [row for row in packed if row.part != FIRST] if self._own_clock else packed
        steps = arrange(told, self._order_by, self._columns, self._plan.keys)
        cut = self._cut(group, packed) if self._plan.handlers else None
        outcome = Machine(self._plan, self._store, cut).run([*moved, *steps])
        if self._timers:
            self._set_timer(outcome.due)
        return iter(_output(group, packed, outcome))

    def _cut(self, group: int, packed: list[Row]) -> Cut:
        asked = [row.n for row in packed if row.kind in CHECKPOINTS]
        now = None if self._own_clock else max(asked, default=None)
        return self._run_info.cut(group, {row.kind for row in packed}, now)

    def _set_timer(self, due_us: int | None) -> None:
        """Keep exactly one timer, at `due_us`. Each call is a round trip, so an unchanged timer costs one read."""
        before = self._registered.get()
        old = None if before is None else before[0]
        new = None if due_us is None else ceil_ms(due_us)
        if old == new:
            return
        if old is not None:
            self._handle.deleteTimer(old)  # else it would run this machine a second time in this very batch
        if new is None:
            self._registered.clear()
        else:
            self._handle.registerTimer(new)
            self._registered.update((new,))


def ceil_ms(us: int) -> int:
    """Return the first whole millisecond that is not before `us`: Spark's watermark has no finer steps.

    >>> ceil_ms(1_000_001), ceil_ms(1_000_000)
    (1001, 1000)
    """
    return -(-us // 1000)


def watermark_step(watermark_ms: int) -> list[Step]:
    """Return Spark's watermark as a step; nothing while it is unset (0, or -1 without event time)."""
    return [Watermark(watermark_ms * 1000)] if watermark_ms > 0 else []


def arrange(packed: Iterable[Any], order_by: tuple[str, ...], columns: list[str], keys: pa.Schema) -> list[Step]:
    """Return a group's packed rows as steps in their order of arrival; rejected rows and a drain are no step.

    Args:
        packed: rows with kind, lot, part, pos, n and body, in any order (the shuffle mixes them).
        order_by: columns that declare the order of arrival; sorts the rows between two marks.
        columns: the columns to keep after sorting.
        keys: the partition columns, for marks that name a partition.
    """
    ordered = sorted((row for row in packed if row.kind not in _NO_STEP), key=_place)
    steps: list[Step] = []
    for is_rows, run in groupby(ordered, key=lambda row: row.kind == "rows"):
        if is_rows:
            table = pa.concat_tables([from_segment(row.body) for row in run]).combine_chunks()
            if order_by:
                table = table.sort_by([(name, "ascending") for name in order_by])  # stable: ties keep input order
            steps.append(Rows(table.select(columns)))
        else:
            once = {(row.kind, row.lot or row.part, row.lot or row.pos): row for row in run}
            steps.extend(_step(row, keys) for row in once.values())
    return steps


def _step(row: Any, keys: pa.Schema) -> Step:
    if row.kind != "evict":
        return _STEPS[row.kind](row.n)
    values = json.loads(bytes(row.body))
    return Evict(pa.Table.from_pylist([dict(zip(keys.names, values, strict=True))], schema=keys))


def _place(row: Any) -> tuple[int, str, int, int]:
    """Order of arrival: the pulse's ticks, then files by age where they matter, then partitions; a flush last."""
    pulse = row.part if row.part in (FIRST, LAST) else 0
    return pulse, row.lot or "", row.part, row.pos


_NO_STEP = frozenset({"rejected", *CHECKPOINTS})  # a drain lets nothing fall due [semantics 7]
_STEPS: dict[str, Callable[[int], Step]] = {
    "resume": lambda us: Tick(us, resume=True),
    "tick": Tick,
    "clock": lambda us: Tick(us, closed=True),
    "watermark": Watermark,
    "mark:window": lambda _: Mark("window"),
    "mark:final": lambda _: Mark("final"),
    "flush": lambda _: Flush(),
}
"""What the kinds of packed rows mean that carry at most a time."""


def _output(group: int, packed: list[Row], outcome: Outcome) -> list[Row]:
    rows = [Row(tag="rejected", n=row.n, body=bytes(row.body)) for row in packed if row.kind == "rejected"]
    quarantined = sum(row.n for row in rows)
    beats = [row for row in packed if row.part in (FIRST, LAST)]  # in-band marks are of the same kinds
    for tag, table in (("rejected", outcome.rejected), ("results", outcome.results)):
        if table is not None and table.num_rows:
            rows.append(Row(tag=tag, n=table.num_rows, body=to_segment(table)))
    counts = {
        **outcome.counts,
        "rows_in": quarantined + sum(row.n for row in packed if row.kind == "rows"),
        "quarantined": quarantined,
        "group": group,
        "open_panes": outcome.open_panes,
        "firings": 0 if outcome.results is None else outcome.results.num_rows,
        "watermark": outcome.watermark,
        "tuples": outcome.tuples,
        "due": outcome.due,
        "due_at": outcome.due_at,
        "late_us": outcome.late_us,
        "outage": outcome.outage,
        "beat": max((row.pos for row in beats if row.kind in ("resume", "tick")), default=None),
        "resumed": any(row.kind == "resume" for row in beats),
        "drain": max((row.pos for row in beats if row.kind == "drain"), default=None),
        "flushed": any(row.kind == "flush" for row in beats),
    }
    rows.append(Row(tag="counts", n=0, body=json.dumps(counts).encode()))
    return rows
