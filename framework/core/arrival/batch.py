"""One batch of a window in arrival order: load what it needs, process the steps, write what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.arrival.cells import ArrivalCells
from panekeeper.framework.core.arrival.contents import CellContents, RowContents
from panekeeper.framework.core.arrival.output import AggregateArrivalOutput, ArrivalResults, OperatorArrivalOutput
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.registry import running_policy
from panekeeper.framework.core.arrival.rows import ArrivalRows
from panekeeper.framework.core.arrival.window import ArrivalOrderWindow
from panekeeper.framework.core.guarded_aggregates import bind_guarded
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.partition_keys import PartitionKeys, code_of, key_row
from panekeeper.framework.core.quarantine import USER_ERROR, FiringPlace, Quarantine
from panekeeper.framework.core.steps import (
    ArrivalClock,
    BatchOutcome,
    EvictPartitions,
    Flush,
    Mark,
    PortStep,
    Rows,
    Tick,
)
from panekeeper.framework.declarations.durations import to_datetime
from panekeeper.framework.declarations.policies import column_read_by
from panekeeper.framework.declarations.windows import Tumbling
from panekeeper.state.errors import LifecycleError
from panekeeper.state.handler import OpenPartition
from panekeeper.state.records import NO_WATERMARK, SequenceRecord
from panekeeper.state.store import KeyGroupStore, StoredHeader

if TYPE_CHECKING:
    from datetime import datetime


class ArrivalWindowControl:
    """Lists the live partitions of one key group, and evicts one."""

    def __init__(
        self,
        window: ArrivalOrderWindow,
        record: SequenceRecord,
        keys: PartitionKeys,
        partitions: Partitions,
        results: ArrivalResults,
    ) -> None:
        self._window = window
        self._record = record
        self._keys = keys
        self._partitions = partitions
        self._results = results
        self._latest = NO_WATERMARK

    @property
    def now(self) -> datetime | None:
        """The time of the last tick or row; None before the first."""
        now = self._now()
        return None if now == NO_WATERMARK else to_datetime(now)

    def evict_partition(self, key: Any) -> None:
        """Evict a partition, if it is live.

        Raises:
            LifecycleError: the window has no partitions, or its keys have another number of values or other types.
        """
        if not self._keys.schema.names:
            raise LifecycleError(f"partition {key!r} cannot be evicted: the window is not partitioned")
        self._now()
        self._window.on_evict_partitions(key_row(self._keys, key, "cannot be evicted"))

    def emit(self, key: Any, columns: dict[str, Any]) -> None:
        """Add a result row of a partition.

        Raises:
            LifecycleError: the key has another number of values or other types, or no time has come yet.
            DeclarationError: a column that the output does not declare.
        """
        if self._record.clock == NO_WATERMARK:
            raise LifecycleError(f"nothing can be emitted for {key!r}: no row and no time has come to this window yet")
        code = code_of(self._keys, key)
        self._partitions.grow()
        at = int(self._partitions.now(np.array([code]), self._record.clock)[0])
        self._results.add_drained(code, at if self._partitions.live[code] else self._now(), columns)

    def _now(self) -> int:
        """Return the latest time (us) of the window so far; that of a partition counts though it is evicted now."""
        self._latest = self._partitions.latest(max(self._record.clock, self._latest))
        return self._latest

    def partitions(self) -> list[OpenPartition]:
        """Return the live partitions, in the order in which their keys came up."""
        live = np.flatnonzero(self._partitions.live)
        sizes = self._partitions.size[live].tolist()
        return [
            OpenPartition(key=key, tuples=size, last_insertion=to_datetime(at))
            for key, size, at in zip(
                self._keys.values(live.tolist()), sizes, self._partitions.last_at[live].tolist(), strict=True
            )
        ]


class ArrivalBatch:
    """The window of one port for one batch: loaded when it is made, stored by `save`."""

    def __init__(self, spec: JobSpec, store: KeyGroupStore) -> None:
        self._header = StoredHeader(store)
        self._record = record = SequenceRecord.decode(self._header.value)
        keys = PartitionKeys(spec.keys)
        self._partitions = partitions = Partitions(keys, _policy_value_type(spec), spec.arrival_window.aligned)
        codes = partitions.load(record.partitions)
        self._quarantine = quarantine = Quarantine(spec, keys)
        self._results = ArrivalResults(spec, keys, record, quarantine)
        buffer = ArrivalRows(keys, spec.columns, store, record, spec.history)
        self._cells = cells = _cells_of(spec, quarantine)
        self._contents: RowContents | CellContents
        if cells is not None:
            assert isinstance(spec.window, Tumbling)
            cells.load(record.partitions, codes)
            output = AggregateArrivalOutput(spec, buffer, self._results)
            self._contents = CellContents(spec.window, cells, partitions, output)
        else:
            buffer.load()
            partitions.grow()
            buffer.retain_newest(partitions.size)
            self._contents = RowContents(
                spec.arrival_window, buffer, partitions, _output_of(spec, buffer, keys, self._results)
            )
        self._window = ArrivalOrderWindow(spec, record, keys, partitions, self._contents)
        self._late = 0
        self.control = ArrivalWindowControl(self._window, record, keys, partitions, self._results)

    def process(self, step: PortStep) -> None:
        """Process one step; those of event time do not concern this window."""
        window = self._window
        match step:
            case Rows(table) if table.num_rows and window.flushed:
                self._late += table.num_rows
                self._quarantine.add_late(table, lambda _: "the job was flushed; its windows take no more rows")
            case Rows(table, _, has_stream_clock) if table.num_rows:
                window.on_rows(table, has_stream_clock=has_stream_clock)
            case Tick(us, resume, is_last_at_instant):
                window.on_tick(us, resume=resume, is_last_at_instant=is_last_at_instant)
            case ArrivalClock(us):
                window.on_arrival_clock(us)
            case Mark(kind, at_us):
                window.on_mark(kind, at_us)
            case EvictPartitions(keys):
                window.on_evict_partitions(keys)
            case Flush():
                window.on_flush()
        for policy_error in self._partitions.policy_errors:
            place = FiringPlace(policy_error.code, {"arrived_at": policy_error.at_us})
            self._quarantine.add_firing(
                place, policy_error.where, policy_error.error, USER_ERROR, given=policy_error.given
            )
        self._partitions.policy_errors.clear()

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        record = self._record
        record.partitions, codes = self._partitions.store()
        if record.partitions is not None and self._cells is not None:
            for name, column in self._cells.columns(codes).items():
                record.partitions = record.partitions.append_column(name, column)
        if isinstance(self._contents, RowContents):
            self._contents.save()
        self._header.write(record.encode())
        window, partitions = self._window, self._partitions
        admitted = {"rows_in": window.rows_in + self._late, "admitted": window.rows_in, "refined_late": 0}
        return BatchOutcome(
            results=self._results.table,
            rejected=self._quarantine.table,
            errors=self._quarantine.errors,
            counts=admitted | {"dropped_late": self._late, "outside": 0},
            due_us=window.due(),
            late_us=window.late_us,
            outage_counts=window.outage,
            open_panes=int(np.count_nonzero(partitions.live)),
            kept_rows=int(partitions.size[partitions.live].sum()),
        )


def _output_of(
    spec: JobSpec, buffer: ArrivalRows, keys: PartitionKeys, results: ArrivalResults
) -> AggregateArrivalOutput | OperatorArrivalOutput:
    if spec.aggregates is not None:
        return AggregateArrivalOutput(spec, buffer, results)
    assert spec.operator is not None
    return OperatorArrivalOutput(spec, spec.operator, buffer, keys, results)


def _cells_of(spec: JobSpec, quarantine: Quarantine) -> ArrivalCells | None:
    """Return partial results in place of rows, if a tumbling window has only aggregates that can be folded."""
    if not isinstance(spec.window, Tumbling) or spec.aggregates is None:
        return None
    if any(aggregate.needs_content for aggregate in spec.aggregates.values()):
        return None
    accumulators = bind_guarded(spec.aggregates, spec.columns, quarantine, spec.history)
    return ArrivalCells(accumulators, spec.columns.empty_table())


def _policy_value_type(spec: JobSpec) -> pa.DataType:
    """Return the type in which partitions store numbers of the policy that fires, which alone stores any.

    Doubles do not hold every integer that it may have read, so the columns of other policies do not count.
    """
    window = spec.arrival_window
    firing = window.evict if isinstance(window, Tumbling) else getattr(window, "trigger", None)
    column = None if firing is None else column_read_by(firing)
    if column is None:
        return pa.int64()
    is_floating = pa.types.is_floating(spec.columns.field(column).type)
    return pa.float64() if is_floating or running_policy(firing).stores_own_numbers else pa.int64()
