"""What one batch did in one key group, and how the outcomes of several ports become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from panekeeper.framework.core.job_spec import PORT, JobSpec
from panekeeper.state.codec import with_columns


@dataclass(frozen=True, kw_only=True)
class BatchOutcome:
    """What one batch did in one key group.

    Attributes:
        results: rows of the result log, or None.
        rejected: rows that join no window (`panekeeper.framework.core.job_spec.REJECTED_SCHEMA`), or None.
        counts: where the rows went: rows_in is the sum of admitted, refined_late, dropped_late and outside.
        due_watermark_us: the watermark at which this group next has work; None if no pane is open.
        due_us: the wall-clock instant at which this group next has work; None without a timer.
        late_us: how long after its instant the most overdue wall-clock work of this batch was done; None if none was.
        open_panes: panes that still take rows; live partitions, for a window in arrival order.
        watermark: the watermark acted on (us), None before the first.
        kept_rows: number of rows that are kept; None where only partial results are.
        outage_counts: what the first tick after the process was down did (`arrival.outage_counts`); None in a batch
            without one.
    """

    results: pa.Table | None
    rejected: pa.Table | None
    counts: dict[str, int]
    due_watermark_us: int | None = None
    due_us: int | None = None
    late_us: int | None = None
    open_panes: int = 0
    watermark: int | None = None
    kept_rows: int | None = None
    outage_counts: dict[str, int] | None = None


def merge_outcomes(spec: JobSpec, outcomes: Sequence[BatchOutcome]) -> BatchOutcome:
    """Return the outcomes of a job's ports, given in port order, as one."""
    if not spec.other_ports:
        return outcomes[0]
    outages = [one.outage_counts for one in outcomes if one.outage_counts is not None]
    kept_rows = _not_none(one.kept_rows for one in outcomes)
    return BatchOutcome(
        results=_concat(spec.results_schema, [one.results for one in outcomes], keys=spec.keys.names),
        rejected=_concat(spec.rejected_schema, [one.rejected for one in outcomes], keys=[]),
        counts=_sum_counts([one.counts for one in outcomes]),
        due_watermark_us=min(_not_none(one.due_watermark_us for one in outcomes), default=None),
        due_us=min(_not_none(one.due_us for one in outcomes), default=None),
        late_us=max(_not_none(one.late_us for one in outcomes), default=None),
        open_panes=sum(one.open_panes for one in outcomes),
        watermark=max(_not_none(one.watermark for one in outcomes), default=None),
        kept_rows=sum(kept_rows) if kept_rows else None,
        outage_counts=_sum_counts(outages) | {"back_us": max(one["back_us"] for one in outages)} if outages else None,
    )


def with_port_column(table: pa.Table, port: int, schema: pa.Schema, *, keys: Sequence[str] = ()) -> pa.Table:
    """Return rows of one port in the schema of all ports: with its number, null in the columns that its rows lack.

    `keys` are the names of the first columns in `schema`: each port has names of its own for its partition columns.
    """
    table = table.rename_columns([*keys, *table.column_names[len(keys) :]])
    missing = pa.nulls(table.num_rows)
    columns = [table.column(name) if name in table.column_names else missing for name in schema.names]
    columns[schema.get_field_index(PORT)] = pa.array([port] * table.num_rows, pa.int32())
    return with_columns(pa.table(columns, names=schema.names), schema)


def _concat(schema: pa.Schema, tables: Sequence[pa.Table | None], *, keys: Sequence[str]) -> pa.Table | None:
    rows = [with_port_column(table, n, schema, keys=keys) for n, table in enumerate(tables) if table is not None]
    return pa.concat_tables(rows) if rows else None


def _sum_counts(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: sum(one[name] for one in counts) for name in counts[0]}


def _not_none(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]
