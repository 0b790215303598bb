"""Open panes, sessions and partitions, one row each, computed from what is stored.

They are a table where this process reads the state (`stored.py`), and else a data frame of Spark's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.inspector.open_in_group import OpenInGroup
from panekeeper.diagnostics.inspector.opened import Opened, opened
from panekeeper.diagnostics.inspector.stored import read_group, read_groups
from panekeeper.diagnostics.keys import Key, TypedKey
from panekeeper.framework.core.inspection.one_key import is_of
from panekeeper.framework.core.inspection.open_work import stored_kinds
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.job_spec import PORT, WINDOW
from panekeeper.framework.declarations.errors import CorruptState, DeclarationError, PanekeeperError
from panekeeper.recovery.storage.locations import Location
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.records import HORIZON
from panekeeper.state.spark_files.read_state import Segments
from panekeeper.state.store import HEADER, MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    OpenRows: TypeAlias = pa.Table | DataFrame


def panes(
    checkpoint: Location,
    *,
    window: str | None = None,
    key: Key | None = None,
    batch: int | None = None,
    savepoint: str | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return the open panes, or sessions, of a job: one row for each partition in each of them.

    The job may run meanwhile. The rows are those of one batch, and are there when this returns.

    Columns, after the partition columns (and `port` of several streams, `window` of several windows): `pane_start`,
    `pane_end`; `rows`, null where only partial results are kept and none of the aggregates is `agg.count()`; `state`:
    "open", "late" (it has fired as complete and takes late rows), "overdue" (it fires at the next greater watermark);
    `firings`, how often it has fired; `unfired`, whether it has rows that no firing had; `next`, what it waits for:
    "fire", "refire" or "close"; `fires_at` and `closes_at`, at which watermark; `next_clock` and `next_rows`, when by
    the wall clock, and after how many more rows, it fires before that; `watermark`, the one that its key group has.

    Args:
        checkpoint: the job's checkpoint; with `savepoint`, the location of the savepoints.
        window: the name of one of several windows; None: all of them.
        key: only these partitions, by the values of some of their columns.
        batch: as of an earlier batch; Spark keeps the state of the last ones (`minBatchesToRetain`, 100).
        savepoint: the name of a savepoint.
        s3: how S3 is reached.
        spark: the session that reads; a new one if not given.

    Raises:
        CheckpointError: it is no checkpoint, or the state of the batch is not kept; the message says which is.
        DeclarationError: the job has no panes, or no such key column.
        CorruptState: the state cannot be read.
    """
    with opened(checkpoint, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark) as state:
        return as_frame(state, open_rows(state, _ports_with_panes(state), key))


def open_panes(state: Opened, key: Key | None = None) -> tuple[OpenRows, int | None]:
    """Return the rows of `panes`, and how many panes that is, as the status of a job counts them (`open_runs.py`).

    None for windows by row, of which that counts the rows that are kept. Raises as `panes`.
    """
    ports = _ports_with_panes(state)
    rows = open_rows(state, ports, key)
    return rows, _number(state, ports, rows)


def in_states(rows: OpenRows, states: Sequence[str]) -> OpenRows:
    """Return the rows of open panes that are in one of these states."""
    if isinstance(rows, pa.Table):
        return rows.filter(pc.is_in(rows.column("state"), pa.array(states, pa.string())))
    return rows.where(rows["state"].isin([*states]))


def _ports_with_panes(state: Opened) -> list[RecordedPort]:
    ports = [port for port in state.ports if port.has_panes]
    if not ports:
        raise DeclarationError(
            f"the window of this job is {state.ports[0].kind}, which has no panes; look at its partitions"
        )
    return ports


def _number(state: Opened, ports: list[RecordedPort], rows: OpenRows) -> int | None:
    """Return how many panes are open: one of several partitions once, and sessions each."""
    if any(port.is_by_row for port in ports):
        return None
    column = WINDOW if state.windows else PORT
    shared = [port.window if state.windows else port.number for port in ports if port.panes is not None]
    if not isinstance(rows, pa.Table):
        from panekeeper.diagnostics.inspector.by_spark import number_of_panes

        return number_of_panes(rows, column, shared, is_all=len(shared) == len(ports))
    if not shared:
        return int(rows.num_rows)
    parts = [column] if column in rows.column_names else []
    of_shared = rows
    if len(shared) < len(ports):
        of_shared = rows.filter(pc.is_in(rows.column(column), pa.array(shared, rows.schema.field(column).type)))
    number = of_shared.group_by([*parts, "pane_start", "pane_end"]).aggregate([]).num_rows
    return int(number + rows.num_rows - of_shared.num_rows)


def partitions(
    checkpoint: Location,
    *,
    window: str | None = None,
    key: Key | None = None,
    batch: int | None = None,
    savepoint: str | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return the live partitions of a job, one row each; all else as for `panes`.

    Of windows in arrival order: `rows` in the window, `waiting` for the next batch, `since_fired` since it fired,
    `last_row`, when that came; it fires after `next_rows` more rows, or at `next_clock`, whichever is first; and the
    partition leaves at `evicted_at`. Of panes and sessions: how many are `open`, their `rows`, how many have `unfired`
    ones, the first `pane_start` and the last `pane_end`, the next `fires_at`, and the `watermark`.

    Of windows by row, and of each `port` of an interval join: the `rows` that are kept, `first_row` and `last_row`,
    their event times; how many are `waiting` (the window that ends at them is not complete; they have no partner, and
    go out alone if none comes), the watermark `fires_at` at which the next window fires, or row goes out alone, and
    `leaves_at` at which the first row leaves; and the `watermark`.

    Raises as `panes`, and for several windows of different kinds, of which one has to be named.
    """
    with opened(checkpoint, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark) as state:
        return as_frame(state, live_partitions(state, key))


def live_partitions(state: Opened, key: Key | None = None) -> OpenRows:
    """Return the rows of `partitions`. Raises as that."""
    kinds = {"arrival" if port.is_arrival else "kept" if _keeps_rows(port) else "panes" for port in state.ports}
    if len(kinds) > 1:
        state.require_one_window()
        raise DeclarationError("this job has windows of panes and of rows; look at its panes")
    rows = open_rows(state, state.ports, key, by_partition=True)
    if kinds != {"panes"}:
        return rows
    more = [PORT] if state.has_ports else [WINDOW] if state.windows else []
    by = [*state.ports[0].log_keys, *more]
    if not isinstance(rows, pa.Table):
        from panekeeper.diagnostics.inspector.by_spark import by_partition

        return by_partition(rows, by)
    return _by_partition(rows, by)


def _by_partition(rows: pa.Table, by: list[str]) -> pa.Table:
    """Return what each partition has in its open panes, as `by_spark.by_partition`."""
    many = pa.array([1] * rows.num_rows, pa.int64())
    counted = rows.append_column("open", many).append_column("known", rows.column("rows").is_valid().cast("int64"))
    counted = counted.set_column(
        counted.column_names.index("unfired"), "unfired", counted.column("unfired").cast("int64")
    )
    ways = {
        "open": "sum",
        "known": "sum",
        "rows": "sum",
        "unfired": "sum",
        "pane_start": "min",
        "pane_end": "max",
        "fires_at": "min",
        "watermark": "max",
    }
    grouped = counted.group_by(by).aggregate([*ways.items()])
    columns = {name: grouped.column(name) for name in by}
    columns |= {name: grouped.column(f"{name}_{way}") for name, way in ways.items()}
    for name in ("open", "known", "unfired"):  # without partition columns there is a row also of nothing
        columns[name] = pc.fill_null(columns[name], 0)
    is_known = pc.equal(columns["open"], columns.pop("known"))
    columns["rows"] = pc.if_else(is_known, columns["rows"], None)
    return pa.table(columns)


def _keeps_rows(port: RecordedPort) -> bool:
    return port.is_by_row or port.is_within


def as_frame(state: Opened, rows: OpenRows) -> DataFrame:
    """Return rows as a data frame, which are there when this returns."""
    if not isinstance(rows, pa.Table):
        return rows
    from panekeeper.framework.engine.flow.pipeline import frame_of

    return frame_of(state.spark, rows)


def open_rows(state: Opened, ports: list[RecordedPort], key: Key | None, *, by_partition: bool = False) -> OpenRows:
    """Return what is open in these ports, of one kind; it is computed once, now. Raises as `panes`."""
    typed = None if key is None else state.typed_key(ports[0], key)
    kinds = _kinds(ports)
    each = [
        OpenInGroup(port, state.has_ports, bool(state.windows), by_partition and _keeps_rows(port)) for port in ports
    ]
    try:
        rows = _in_this_process(state, each, kinds, typed)
        if rows is not None:
            return rows
        from panekeeper.diagnostics.inspector.by_spark import open_frame

        return open_frame(state, each, kinds, typed)
    except PanekeeperError:
        raise
    except Exception as error:
        from panekeeper.framework.engine.session.spark_errors import all_said

        raise CorruptState(
            f"the state of {state.files.root} as of batch {state.batch} cannot be read; its kept batches begin with "
            f"{state.first}\n{all_said(error)}"
        ) from error


def _in_this_process(
    state: Opened, each: Sequence[OpenInGroup], kinds: Collection[str], key: TypedKey | None
) -> pa.Table | None:
    schema = each[0].schema
    if any(open_in_group.schema != schema for open_in_group in each):  # Spark knows which type stands for both
        return None

    def compute(segments: Segments) -> pa.Table:
        return pa.concat_tables([open_in_group.rows(segments) for open_in_group in each])

    group = None if key is None else key.group(state.session)
    if group is not None:
        segments = read_group(state, kinds, group)
        tables = None if segments is None else [compute(segments)]
    else:
        tables = read_groups(state, kinds, compute)
    if tables is None:
        return None
    rows = pa.concat_tables([schema.empty_table(), *tables])
    return rows if key is None else rows.filter(is_of(rows, key.values))


def stored_group(state: Opened, ports: list[RecordedPort], key: TypedKey) -> MemoryStore:
    """Return the stored values of a whole key's group that say what is open, and how far event time has come."""
    kinds, group = _kinds(ports, HORIZON), key.group(state.session)
    assert group is not None
    segments = read_group(state, kinds, group)
    if segments is None:
        from panekeeper.diagnostics.inspector.by_spark import group_segments

        segments = group_segments(state, kinds, group)
    return MemoryStore.of(segments)


def _kinds(ports: list[RecordedPort], *more: str) -> list[str]:
    """Return the kinds of the stored values that say what is open, and these."""
    return [HEADER, *more, *(kind for port in ports for kind in stored_kinds(port))]
