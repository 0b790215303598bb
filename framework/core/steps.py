"""A micro-batch of one key group: the steps that go in (rows, and the time and commands between them), and its outcome.

Time and commands are data. The core reads no clock: a batch that is run again is the same list of steps and has the
same outcome.

Each step except `EventTimeProgress` is for the window of one input port, `port`. A time or a command for several ports
is one step for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from panekeeper.framework.core.job_spec import PORT, WINDOW, JobSpec
from panekeeper.framework.core.panes.open_runs import Runs
from panekeeper.framework.core.quarantine import ErrorKind, added_up
from panekeeper.state.codec import with_columns
from panekeeper.state.records import Source


@dataclass(frozen=True)
class Rows:
    """Rows in arrival order: the columns of the job spec, and one of Panekeeper's.

    `_t` (int64, us) is the event time, for a time interval. `_at` (int64, us) is the arrival time, if one is declared;
    without it rows arrive at the time of the last tick. `has_stream_clock`: it is the stream's own; else it is the wall
    clock, which may come late.
    """

    table: pa.Table
    port: int = 0
    has_stream_clock: bool = True


@dataclass(frozen=True)
class PartialRows:
    """Rows in arrival order, folded on their way to the key group (`core.panes.folding`); none of them is late.

    `window` names the one of several windows for which they are; there are such for each, of the same rows.
    """

    table: pa.Table
    port: int = 0
    window: str = ""


@dataclass(frozen=True)
class Watermark:
    """No row with an earlier event time is expected any more; us since the epoch."""

    us: int
    port: int = 0


@dataclass(frozen=True)
class EventTimeProgress:
    """The greatest event time of this batch in some of the sources, less the delay of their port: (source, us).

    It follows the rows of all ports: whether they are late is decided by the watermark before the batch. `at_us` is the
    wall-clock time of the batch, where ports may be idle.
    """

    reached: tuple[tuple[Source, int], ...]
    at_us: int | None = None


@dataclass(frozen=True)
class Tick:
    """The time of the wall clock, us since the epoch.

    `resume` marks the first tick after the process was down: what became due meanwhile is overdue, not on time.
    `is_last_at_instant` says that no more rows of this instant come, so that a batched window may update at it.
    """

    us: int
    resume: bool = False
    is_last_at_instant: bool = False
    port: int = 0


@dataclass(frozen=True)
class ArrivalClock:
    """The time of a stream with declared arrival times, us since the epoch: rows of any key group have come until then.

    Nothing is overdue by it: it only passes with rows.
    """

    us: int
    port: int = 0


@dataclass(frozen=True)
class Mark:
    """A mark in the stream: a window mark, or the final mark, which is the end of the stream.

    `at_us` is when a window mark arrived, us since the epoch; None: with the rows before it.
    """

    kind: Literal["window", "final"]
    at_us: int | None = None
    port: int = 0


@dataclass(frozen=True)
class Flush:
    """Fire what is open, close everything, and take no more rows."""

    port: int = 0


@dataclass(frozen=True)
class BatchEnd:
    """The micro-batch has no more steps for the window. The key group adds it, before the checkpoint."""

    port: int = 0


@dataclass(frozen=True)
class EvictPartitions:
    """Evict these partitions, a table of the partition columns. Only for windows in arrival order (section 4)."""

    keys: pa.Table
    port: int = 0


PortStep = Rows | PartialRows | Watermark | Tick | ArrivalClock | Mark | Flush | EvictPartitions | BatchEnd
"""A step for the window of one port."""

Step = PortStep | EventTimeProgress


@dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """How far a key group is after a batch, and what the batch did, in numbers; the driver is told all of it.

    Attributes:
        counts: where the rows went: rows_in is the sum of admitted, refined_late, dropped_late, outside and, in that of
            a key group, repeated.
        missed_panes: how often a row that was kept came too late for one of its panes, once for each pane.
        due_watermark_us: the watermark at which this group next has work; None if no pane is open.
        due_us: the wall-clock instant at which this group next has work; None without a timer.
        late_us: how long after its instant the most overdue wall-clock work of this batch was done; None if none was.
        open_panes: panes that still take rows; live partitions, for a window in arrival order.
        open_runs: which of these are panes with a number, by port and window (`panes.open_runs`).
        watermark: the watermark acted on (us), None before the first.
        kept_rows: number of rows that are kept; None where only partial results are.
        outage_counts: what the first tick after the process was down did (`arrival.window`); None in a batch without
            one.
        errors: what could not be computed.
    """

    counts: dict[str, int]
    missed_panes: int = 0
    due_watermark_us: int | None = None
    due_us: int | None = None
    late_us: int | None = None
    open_panes: int = 0
    open_runs: Mapping[str, Runs] = field(default_factory=dict)
    watermark: int | None = None
    kept_rows: int | None = None
    outage_counts: dict[str, int] | None = None
    errors: Sequence[ErrorKind] = ()


@dataclass(frozen=True, kw_only=True)
class BatchOutcome(GroupFigures):
    """What one batch did in one key group.

    Attributes:
        results: rows of the result log, or None.
        view: rows of the view, where they are others than those of the log, or None.
        rejected: rows that join no window (`panekeeper.framework.core.job_spec.REJECTED_SCHEMA`), or None.
        windows: name -> what it did in one of several windows, which has the results then.
    """

    results: pa.Table | None
    rejected: pa.Table | None
    view: pa.Table | None = None
    windows: Mapping[str, BatchOutcome] = field(default_factory=dict)

    @property
    def parts(self) -> Mapping[str, BatchOutcome]:
        """What it did in each window that has results of its own, by its name; the empty one if there is only one."""
        return self.windows or {"": self}

    @property
    def firings(self) -> int:
        """Number of rows of all result logs."""
        return sum(outcome.results.num_rows for outcome in self.parts.values() if outcome.results is not None)


def merge_outcomes(spec: JobSpec, outcomes: Sequence[BatchOutcome]) -> BatchOutcome:
    """Return the outcomes of a job's ports, given in port order, as one."""
    if len(outcomes) == 1:  # also a join, which is one for its ports
        return outcomes[0]
    outages = [outcome.outage_counts for outcome in outcomes if outcome.outage_counts is not None]
    kept_rows = _not_none(outcome.kept_rows for outcome in outcomes)
    return BatchOutcome(
        results=of_all_ports(spec.results_schema, [outcome.results for outcome in outcomes], keys=spec.keys.names),
        view=of_all_ports(spec.results_schema, [outcome.view for outcome in outcomes], keys=spec.keys.names),
        rejected=of_all_ports(spec.rejected_schema, [outcome.rejected for outcome in outcomes], keys=[]),
        counts=_sum_counts([outcome.counts for outcome in outcomes]),
        missed_panes=sum(outcome.missed_panes for outcome in outcomes),
        due_watermark_us=min(_not_none(outcome.due_watermark_us for outcome in outcomes), default=None),
        due_us=min(_not_none(outcome.due_us for outcome in outcomes), default=None),
        late_us=max(_not_none(outcome.late_us for outcome in outcomes), default=None),
        open_panes=sum(outcome.open_panes for outcome in outcomes),
        open_runs={f"{n}": runs for n, outcome in enumerate(outcomes) for runs in outcome.open_runs.values()},
        watermark=max(_not_none(outcome.watermark for outcome in outcomes), default=None),
        kept_rows=sum(kept_rows) if kept_rows else None,
        outage_counts=_sum_counts(outages) | {"back_us": max(outage["back_us"] for outage in outages)}
        if outages
        else None,
        errors=added_up(kind for outcome in outcomes for kind in outcome.errors),
    )


def in_quarantine_of(spec: JobSpec, table: pa.Table, port: int) -> pa.Table:
    """Return rows of a port that were refused before any window had them in the schema of the job's quarantine."""
    if spec.windows:
        return of_window(table, None, spec.rejected_schema)
    return with_port_column(table, port, spec.rejected_schema) if spec.other_ports else table


def of_window(table: pa.Table, window: str | None, schema: pa.Schema) -> pa.Table:
    """Return rows of the quarantine in the schema of several windows, with the one that has refused them."""
    return table.add_column(0, WINDOW, pa.array([window] * table.num_rows, pa.string())).cast(schema)


def with_port_column(table: pa.Table, port: int, schema: pa.Schema, *, keys: Sequence[str] = ()) -> pa.Table:
    """Return rows of one port in the schema of all ports: with its number, null in the columns that its rows lack.

    `keys` are the names of the first columns in `schema`: each port has names of its own for its partition columns.
    """
    table = table.rename_columns([*keys, *table.column_names[len(keys) :]])
    missing = pa.nulls(table.num_rows)
    columns = [table.column(name) if name in table.column_names else missing for name in schema.names]
    columns[schema.get_field_index(PORT)] = pa.array([port] * table.num_rows, pa.int32())
    return with_columns(pa.table(columns, names=schema.names), schema)


def of_all_ports(schema: pa.Schema, tables: Sequence[pa.Table | None], *, keys: Sequence[str]) -> pa.Table | None:
    """Return the rows of each port, in port order, as `with_port_column` does for one; None if there are none."""
    rows = [with_port_column(table, n, schema, keys=keys) for n, table in enumerate(tables) if table is not None]
    return pa.concat_tables(rows) if rows else None


def _sum_counts(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: sum(part[name] for part in counts) for name in counts[0]}


def _not_none(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]
