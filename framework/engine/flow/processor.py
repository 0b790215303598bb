"""The stateful processor: one key group, one batch; packed rows in, packed rows out.

It only connects: `ordering.py` decides in which order a group processes the rows, `core/key_group.py` what its
windows do with them.

With event time Spark keeps one timer a group, at the watermark at which the group next has something to do; so a
batch that only moves the watermark triggers the timers of the groups that are due, and of no others.

A packed output row is `(tag, n, to_driver, body)`: "results", "view" and "rejected" are Arrow segments of n rows, those
of one of several windows with its name, as "results:hour"; "counts" is a JSON object for the driver. Segments are for
the driver, too, if all of one tag and group are few bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import BatchOutcome, in_quarantine_of
from panekeeper.framework.declarations.errors import CheckpointError, utf8_errors
from panekeeper.framework.engine.flow.control_stream import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS
from panekeeper.framework.engine.flow.ordering import PortOrdering, to_steps, watermark_step
from panekeeper.framework.engine.flow.packing import BATCH_ID, PackedRow, from_segment, input_counts, to_segment
from panekeeper.framework.engine.session.python_workers import freeze_gc
from panekeeper.state.checkpoint.control_files import CHECKPOINT_COMMANDS, ELSEWHERE
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.handler import CheckpointReason
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

_REASONS = {
    "flush": CheckpointReason.FINAL,
    "savepoint": CheckpointReason.SAVEPOINT,
    "drain": CheckpointReason.DRAIN,
}
"""Why a batch with such a command is a checkpoint, the first one first."""


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
        spec: JobSpec,
        *,
        ports: tuple[PortOrdering, ...],
        groups: int = 1,
        timers: bool = True,
        run: RunRecord,
    ) -> None:
        self._spec = spec
        self._ports = ports
        self._driver_bytes = DRIVER_BYTES // (2 * groups * len(spec.parts))  # of each group and tag
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
        moved = watermark_step(timer_values.getCurrentWatermarkInMs()) if self._timers else []
        steps = to_steps(packed, self._ports)
        checkpoint_info = self._checkpoint_info(group, packed) if self._spec.handlers else None
        with utf8_errors():  # what code of the user raises may have any text
            outcome = KeyGroupRunner(self._spec, self._store, checkpoint_info).run([*moved, *steps])
        if self._timers:
            self._set_timer(outcome.due_watermark_us)
        return iter(_output(self._spec, group, packed, outcome, driver_bytes=self._driver_bytes))

    def _checkpoint_info(self, group: int, packed: list[Row]) -> BatchCheckpoint:
        """Return the checkpoint that the running task's batch is for the state handlers of a key group.

        The record of the run is made by the driver before the query starts, and travels with the plan; number and
        attempt are in the context of the task.
        """
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a checkpoint has a number only inside a task of a micro-batch")
        number, run = int(context.getLocalProperty(BATCH_ID) or 0), self._run_record
        attempt = (run.attempt if number == run.interrupted_batch else 1) + context.attemptNumber()
        return checkpoint_of(packed, self._ports, number=number, group=group, attempt=attempt, run=run)

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


def checkpoint_of(
    packed: Sequence[Row | PackedRow],
    ports: Sequence[PortOrdering],
    *,
    number: int,
    group: int,
    attempt: int,
    run: RunRecord,
) -> BatchCheckpoint:
    """Return the checkpoint that a batch is for the state handlers of a key group, by the commands in it."""
    kinds = {row.kind for row in packed}
    commands = [row.n for row in packed if row.kind in CHECKPOINT_COMMANDS]
    follows_wall_clock = not all(port.has_stream_clock for port in ports)
    return BatchCheckpoint(
        checkpoint=number,
        group=group,
        reason=next((why for kind, why in _REASONS.items() if kind in kinds), CheckpointReason.BATCH),
        attempt=attempt,
        run=run.number,
        no_batch_committed=run.no_batch_committed,
        now_us=max(commands, default=None) if follows_wall_clock else None,
    )


def _require_its_checkpoint(packed: list[Row]) -> None:
    for row in packed:
        if row.kind.startswith(ELSEWHERE):
            raise CheckpointError(row.kind.removeprefix(ELSEWHERE))


def ceil_ms(us: int) -> int:
    """Return the first whole millisecond that is not before `us`: Spark's watermark has no finer steps.

    >>> ceil_ms(1_000_001), ceil_ms(1_000_000)
    (1001, 1000)
    """
    return -(-us // 1000)


def _output(spec: JobSpec, group: int, packed: list[Row], outcome: BatchOutcome, *, driver_bytes: int) -> list[Row]:
    refused = [(row.n, bytes(row.body)) for row in packed if row.kind == "rejected"]
    if spec.other_ports or spec.windows:  # the quarantine has a column for the port, or the window
        refused = [
            (row.n, to_segment(in_quarantine_of(spec, from_segment(bytes(row.body)), row.port)))
            for row in packed
            if row.kind == "rejected"
        ]
    # Marks in the stream are of the same kinds, at places between these two.
    control_rows = [row for row in packed if row.part in (BEFORE_ALL_PARTITIONS, AFTER_ALL_PARTITIONS)]
    start = max((row for row in control_rows if row.kind == "resume"), key=lambda row: row.pos, default=None)
    rows = _tagged(REJECTED, [*refused, *_segments(outcome.rejected)], driver_bytes)
    for window, one in outcome.parts.items():
        rows += _tagged(tag_of(RESULTS, window), [*_segments(one.results)], driver_bytes)
        rows += _tagged(tag_of(VIEW, window), [*_segments(one.view)], driver_bytes)
    counts = {
        **outcome.counts,
        **input_counts(packed),
        "missed_panes": outcome.missed_panes,
        "group": group,
        "open_panes": outcome.open_panes,
        "open_runs": outcome.open_runs,
        "firings": outcome.firings,
        "watermark": outcome.watermark,
        "tuples": outcome.kept_rows,
        "due": outcome.due_watermark_us,
        "due_at": outcome.due_us,
        "late_us": outcome.late_us,
        "outage": outcome.outage_counts,
        "control_file": max((row.pos for row in control_rows if row.kind in ("resume", "tick")), default=None),
        "resume": None if start is None else start.pos,
        "resumed_us": None if start is None else start.n,
        "drain": max((row.pos for row in control_rows if row.kind == "drain"), default=None),
        "errors": [asdict(one) for one in outcome.errors],
        "flushed": any(row.kind == "flush" for row in control_rows),
    }
    rows.append(Row(tag="counts", n=0, to_driver=True, body=json.dumps(counts).encode()))
    return rows


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
