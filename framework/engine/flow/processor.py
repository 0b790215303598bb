"""The stateful processor: one key group, one batch; packed rows in, packed rows out.

It only connects: `core/group_batch.py` runs the batch, in its order, on the state that Spark keeps.

With event time Spark keeps one timer a group, at the watermark at which the group next has something to do; so a
batch that only moves the watermark triggers the timers of the groups that are due, and of no others.

A packed output row is `(tag, n, to_driver, body)`: "results", "view" and "rejected" are Arrow segments of n rows, those
of one of several windows with its name, as "results:hour"; "counts" is a `GroupReport` for the driver. Segments are for
the driver, too, if all of one tag and group are few bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.framework.core.group_batch import BatchRunner, GroupBatch
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.packed_rows import to_segment
from panekeeper.framework.core.steps import BatchOutcome
from panekeeper.framework.declarations.errors import CheckpointError, utf8_errors
from panekeeper.framework.engine.flow.group_report import GroupReport
from panekeeper.framework.engine.flow.packing import BATCH_ID
from panekeeper.framework.engine.flow.spark_watermark import ceil_ms, watermark_us
from panekeeper.framework.engine.session.python_workers import freeze_gc
from panekeeper.state.checkpoint.control_files import ELSEWHERE
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

OUTPUT_SCHEMA = "tag string, n bigint, to_driver boolean, body binary"
DRIVER_BYTES = 16 << 20
"""What the segments of one batch may weigh in the driver."""
_SEGMENT_BYTES = 2**19
"""Output is cut into segments of about so many bytes, however many firings a batch has. Spark puts `maxRecordsPerBatch`
of them into one Arrow batch, which must stay below 2 GB."""

RESULTS = "results"
"""Tag of the rows that the log gets, and a sink of the user's own."""
VIEW = "view"
"""Tag of the rows that the view gets, where they are others than those of the log."""
REJECTED = "rejected"
"""Tag of the rows that the quarantine gets."""

COUNTS = "counts"
"""Tag of the row with the report of a key group."""


def tag_of(kind: str, window: str) -> str:
    """Return the tag of rows of this kind; `window` names one of several windows.

    >>> tag_of(RESULTS, ""), tag_of(VIEW, "hour")
    ('results', 'view:hour')
    """
    return f"{kind}:{window}" if window else kind


class KeyGroupProcessor(StatefulProcessor):
    """Runs one key group. Sent to the workers again for every batch; keeps nothing outside the store."""

    def __init__(
        self,
        runner: BatchRunner,
        *,
        groups: int = 1,
        timers: bool = True,
        run: RunRecord,
    ) -> None:
        self._runner = runner
        self._driver_bytes = DRIVER_BYTES // (2 * groups * len(runner.spec.parts))  # of each group and tag
        self._timers = timers
        self._run_record = run

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state. Called once a task (`DeferredProcessor`)."""
        freeze_gc()
        self._handle = handle
        self._store = SparkStore(handle)

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
        _require_its_checkpoint(packed)
        spec = self._runner.spec
        number, attempt = self._number_and_attempt() if spec.handlers else (0, 1)  # only handlers are told of them
        batch = self._runner.in_order(
            packed,
            number=number,
            group=group,
            watermark_us=watermark_us(timer_values.getCurrentWatermarkInMs()) if self._timers else None,
            attempt=attempt,
            run=self._run_record,
        )
        with utf8_errors():  # what code of the user raises may have any text
            outcome = batch.run(spec, self._store)
        if self._timers:
            self._set_timer(outcome.due_watermark_us)
        return iter(output_rows(spec, batch, outcome, driver_bytes=self._driver_bytes))

    def _number_and_attempt(self) -> tuple[int, int]:
        """Return the number of the running task's micro-batch, and how often it has been begun.

        The record of the run is made by the driver before the query starts, and travels with the plan; number and
        attempt are in the context of the task.
        """
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a checkpoint has a number only inside a task of a micro-batch")
        number, run = int(context.getLocalProperty(BATCH_ID) or 0), self._run_record
        return number, (run.attempt if number == run.interrupted_batch else 1) + context.attemptNumber()

    def _set_timer(self, due_us: int | None) -> None:
        """Keep exactly one timer, at `due_us`. Each call is a round trip, so an unchanged timer costs one read."""
        old = self._store.read_timer()
        new = None if due_us is None else ceil_ms(due_us)
        if old == new:
            return
        if old is not None:
            self._handle.deleteTimer(old)  # else it would run this machine a second time in this very batch
        if new is not None:
            self._handle.registerTimer(new)
        self._store.write_timer(new)


def _require_its_checkpoint(packed: list[Row]) -> None:
    for row in packed:
        if row.kind.startswith(ELSEWHERE):
            raise CheckpointError(row.kind.removeprefix(ELSEWHERE))


def output_rows(spec: JobSpec, batch: GroupBatch, outcome: BatchOutcome, *, driver_bytes: int) -> list[Row]:
    """Return what a key group emits of a batch; the segments of a tag are for the driver up to so many bytes."""
    rows = _tagged(REJECTED, [*_refused(spec, batch), *_segments(outcome.rejected)], driver_bytes)
    for window, part in outcome.parts.items():
        rows += _tagged(tag_of(RESULTS, window), [*_segments(part.results)], driver_bytes)
        rows += _tagged(tag_of(VIEW, window), [*_segments(part.view)], driver_bytes)
    rows.append(Row(tag=COUNTS, n=0, to_driver=True, body=GroupReport.of(batch, outcome).to_bytes()))
    return rows


def _refused(spec: JobSpec, batch: GroupBatch) -> Iterator[tuple[int, bytes]]:
    """Yield the segments of rows that the intake has refused; their bytes stay where the quarantine has no more."""
    if spec.other_ports or spec.windows:  # it has a column for the port, or the window
        return ((table.num_rows, to_segment(table)) for table in batch.refused_rows(spec))
    return ((row.n, bytes(row.body)) for row in batch.refused)


def _segments(table: pa.Table | None) -> Iterator[tuple[int, bytes]]:
    """Yield the rows as segments of a bounded size, each with its number of rows."""
    if table is None:
        return
    most = max(1, _SEGMENT_BYTES * table.num_rows // max(table.nbytes, 1))
    for low in range(0, table.num_rows, most):
        part = table.slice(low, most)
        yield part.num_rows, to_segment(part)


def _tagged(tag: str, segments: list[tuple[int, bytes]], driver_bytes: int) -> list[Row]:
    """Return output rows; they are for the driver only if all of them together are few bytes."""
    fits = sum(len(body) for _, body in segments) <= driver_bytes
    return [Row(tag=tag, n=n, to_driver=fits, body=body) for n, body in segments]
