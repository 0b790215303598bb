"""One batch of a window in arrival order: load what it needs, take the steps, write what changed."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from framework.core.keys import Keys
from framework.core.lifecycle import Lifecycle
from framework.core.machine import Outcome
from framework.core.plan import AT, REJECTED, TIMESTAMP, Plan
from framework.core.sequence.answers import Aggregated, Operating, Outputs
from framework.core.sequence.cells import Cells
from framework.core.sequence.control import SequenceControl
from framework.core.sequence.keeping import CellKeeper, LogKeeper
from framework.core.sequence.log import Log
from framework.core.sequence.partitions import Partitions
from framework.core.sequence.window import SequenceWindow
from framework.core.steps import Evict, Flush, Mark, Rows, Step, Tick
from framework.windows import Tumbling, delta_attributes
from state.records import SequenceRecord
from state.store import GroupStore


def run_sequence(plan: Plan, store: GroupStore, steps: Iterable[Step], lifecycle: Lifecycle | None = None) -> Outcome:
    """Do one batch of a tumbling, sliding or batched window."""
    before = store.read_header()
    record = SequenceRecord.decode(before)
    keys = Keys(plan.keys)
    partitions = Partitions(keys, _value_type(plan))
    codes = partitions.load(record.partitions)
    outputs = Outputs(plan, keys, record)
    log = Log(keys, plan.columns, store, record)
    cells = _cells(plan)
    keeper: LogKeeper | CellKeeper
    if cells is not None:
        assert isinstance(plan.window, Tumbling)
        cells.load(record.partitions, codes)
        keeper = CellKeeper(plan.window, cells, partitions, Aggregated(plan, _bound(plan), log, outputs))
    else:
        log.load()
        partitions.grow()
        log.keep_last(partitions.size)
        keeper = LogKeeper(plan.sequence, log, partitions, _answer(plan, log, keys, outputs))
    window = SequenceWindow(plan, record, keys, partitions, keeper)
    if lifecycle is not None:
        lifecycle.begin(SequenceControl(window, record, keys, partitions))
    rejected = [table for table in [_take(window, step) for step in steps] if table is not None]
    if lifecycle is not None:
        lifecycle.cut()
    _save(record, partitions, keeper, cells)
    if (header := record.encode()) != before:
        store.write_header(header)
    dropped = sum(table.num_rows for table in rejected)
    admitted = {"rows_in": window.rows_in + dropped, "admitted": window.rows_in, "refined_late": 0}
    return Outcome(
        results=outputs.results,
        rejected=pa.concat_tables(rejected) if rejected else None,
        counts=admitted | {"dropped_late": dropped, "outside": 0},
        due_at=window.due(),
        late_us=window.late_us,
        outage=window.outage,
        open_panes=int(np.count_nonzero(partitions.live)),
        tuples=int(partitions.size[partitions.live].sum()),
    )


def _take(window: SequenceWindow, step: Step) -> pa.Table | None:
    """Do one step; return the rows that came too late, if any. Event time means nothing here."""
    match step:
        case Rows(table) if table.num_rows and window.flushed:
            return _after_flush(table)
        case Rows(table) if table.num_rows:
            window.on_rows(table)
        case Tick(us, resume, closed):
            window.on_tick(us, resume=resume, closed=closed)
        case Mark(kind):
            window.on_mark(kind)
        case Evict(keys):
            window.on_evict(keys)
        case Flush():
            window.on_flush()
    return None


def _save(record: SequenceRecord, partitions: Partitions, keeper: LogKeeper | CellKeeper, cells: Cells | None) -> None:
    record.partitions, codes = partitions.store()
    if record.partitions is not None and cells is not None:
        for name, column in cells.columns(codes).items():
            record.partitions = record.partitions.append_column(name, column)
    if isinstance(keeper, LogKeeper):
        keeper.save()


def _answer(plan: Plan, log: Log, keys: Keys, outputs: Outputs) -> Aggregated | Operating:
    if plan.aggregates is not None:
        return Aggregated(plan, _bound(plan), log, outputs)
    if plan.operator is None:
        raise ValueError("a plan needs aggregates or an operator")
    return Operating(plan, plan.operator, log, keys, outputs)


def _bound(plan: Plan) -> list:  # type: ignore[type-arg]
    return [aggregate.bind(plan.columns) for aggregate in (plan.aggregates or {}).values()]


def _cells(plan: Plan) -> Cells | None:
    """Partial results instead of rows, where a tumbling window has only aggregates that can be folded."""
    if not isinstance(plan.window, Tumbling) or plan.aggregates is None:
        return None
    if any(aggregate.needs_content for aggregate in plan.aggregates.values()):
        return None
    return Cells(_bound(plan), plan.columns.empty_table())


def _value_type(plan: Plan) -> pa.DataType:
    kinds = [plan.columns.field(name).type for name in delta_attributes(plan.sequence)]
    return pa.float64() if any(pa.types.is_floating(kind) for kind in kinds) else pa.int64()


def _after_flush(table: pa.Table) -> pa.Table:
    plain = table.drop_columns([AT]) if AT in table.column_names else table
    rows = [json.dumps(row, default=str) for row in plain.to_pylist()]
    why = "the job was flushed; its windows take no more rows"
    columns = [["LATE"] * len(rows), [why] * len(rows), pa.nulls(len(rows), TIMESTAMP), rows]
    return pa.table(columns, schema=REJECTED)
