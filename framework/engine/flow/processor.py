"""The stateful processor: one key group, one batch; packed rows in, packed rows out.

It only connects: `ordering.py` decides in which order a group processes the rows, `framework.core.key_group` what its
windows do with them.

With event time Spark keeps one timer a group, at the watermark at which the group next has something to do; so a
batch that only moves the watermark triggers the timers of the groups that are due, and of no others.

A packed output row is `(tag, n, body)`: "results" and "rejected" are Arrow segments of n rows, "counts" is a JSON
object for the driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

from framework.core.job_spec import JobSpec
from framework.core.key_group import KeyGroupRunner
from framework.core.outcome import BatchOutcome, with_port_column
from framework.core.state_handlers import BatchCheckpoint
from framework.engine.flow.batch_checkpoint import batch_checkpoint
from framework.engine.flow.control_stream import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS
from framework.engine.flow.ordering import PortOrdering, to_steps, watermark_step
from framework.engine.flow.packing import from_segment, to_segment
from framework.engine.session.python_worker import freeze_gc, silence_stdout
from state.checkpoint.control_files import CHECKPOINT_COMMANDS
from state.checkpoint.run_record import RunRecord
from state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

OUTPUT_SCHEMA = "tag string, n bigint, body binary"
TIMER = "timer"

_TIMER_VALUE = StructType([StructField("ms", LongType())])

silence_stdout()


class KeyGroupProcessor(StatefulProcessor):
    """Runs one key group. Sent to the workers again for every batch; keeps nothing outside the store."""

    def __init__(
        self,
        spec: JobSpec,
        *,
        ports: tuple[PortOrdering, ...],
        timers: bool = True,
        run: RunRecord,
    ) -> None:
        self._spec = spec
        self._ports = ports
        self._timers = timers
        self._run_record = run

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state. Called once a task, and once on the driver before the query starts."""
        freeze_gc()
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
        steps = to_steps(packed, self._ports)
        checkpoint_info = self._checkpoint_info(group, packed) if self._spec.handlers else None
        outcome = KeyGroupRunner(self._spec, self._store, checkpoint_info).run([*moved, *steps])
        if self._timers:
            self._set_timer(outcome.due_watermark_us)
        return iter(_output(self._spec, group, packed, outcome))

    def _checkpoint_info(self, group: int, packed: list[Row]) -> BatchCheckpoint:
        commands = [row.n for row in packed if row.kind in CHECKPOINT_COMMANDS]
        now = None if all(port.has_stream_clock for port in self._ports) else max(commands, default=None)
        return batch_checkpoint(self._run_record, group, {row.kind for row in packed}, now)

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


def _output(spec: JobSpec, group: int, packed: list[Row], outcome: BatchOutcome) -> list[Row]:
    rows = [Row(tag="rejected", n=row.n, body=_rejected(spec, row)) for row in packed if row.kind == "rejected"]
    quarantined = sum(row.n for row in rows)
    # Marks in the stream are of the same kinds, at places between these two.
    control_rows = [row for row in packed if row.part in (BEFORE_ALL_PARTITIONS, AFTER_ALL_PARTITIONS)]
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
        "tuples": outcome.kept_rows,
        "due": outcome.due_watermark_us,
        "due_at": outcome.due_us,
        "late_us": outcome.late_us,
        "outage": outcome.outage_counts,
        "beat": max((row.pos for row in control_rows if row.kind in ("resume", "tick")), default=None),
        "resumed": any(row.kind == "resume" for row in control_rows),
        "drain": max((row.pos for row in control_rows if row.kind == "drain"), default=None),
        "flushed": any(row.kind == "flush" for row in control_rows),
    }
    rows.append(Row(tag="counts", n=0, body=json.dumps(counts).encode()))
    return rows


def _rejected(spec: JobSpec, row: Row) -> bytes:
    """Return a segment of rejected rows as the quarantine takes it."""
    body = bytes(row.body)
    return (
        to_segment(with_port_column(from_segment(body), row.port, spec.rejected_schema)) if spec.other_ports else body
    )
