"""Open panes, sessions and partitions as data frames, one row each, computed from what is stored.

Each key group is read whole by one task and told apart by the core, so the driver holds none of it. One key is in one
key group: the others are not sent to Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.pandas.types import from_arrow_type

from panekeeper.diagnostics.inspector.opened import Opened, opened
from panekeeper.framework.core.inspection.arrivals import PARTITION_TIMES
from panekeeper.framework.core.inspection.kept_rows import KEPT_TIMES
from panekeeper.framework.core.inspection.open_work import open_work, schema_of, stored_kinds
from panekeeper.framework.core.inspection.panes import TIMES
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.job_spec import PORT, TIMESTAMP, WINDOW
from panekeeper.framework.declarations.errors import CorruptState, DeclarationError, PanekeeperError, did_you_mean
from panekeeper.framework.engine.flow.checked_rows import key_group
from panekeeper.framework.engine.flow.pipeline import frame_of, spark_schema
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.framework.engine.session.spark_errors import all_said, first_line
from panekeeper.recovery.storage.locations import Location
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.records import HORIZON
from panekeeper.state.store import HEADER, MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Key = Mapping[str, Any]
"""Partition column -> value, of some or all of the columns; None is a null. A text is read as the column's type."""

_DIGITS = re.compile(r"-?\d+")


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
        return frame(state, _ports_with_panes(state), key)


def panes_and_number(
    checkpoint: Location,
    *,
    window: str | None = None,
    key: Key | None = None,
    batch: int | None = None,
    savepoint: str | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> tuple[DataFrame, int | None]:
    """Return what `panes` does, and how many panes that is, as the status of a job counts them (`open_runs.py`).

    None for windows by row, of which that counts the rows that are kept. Raises as `panes`.
    """
    with opened(checkpoint, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark) as state:
        ports = _ports_with_panes(state)
        found = frame(state, ports, key)
        return found, _number(state, ports, found)


def _ports_with_panes(state: Opened) -> list[RecordedPort]:
    found = [port for port in state.ports if port.has_panes]
    if not found:
        raise DeclarationError(
            f"the window of this job is {state.ports[0].kind}, which has no panes; look at its partitions"
        )
    return found


def _number(state: Opened, ports: list[RecordedPort], found: DataFrame) -> int | None:
    """Return how many panes are open: one of several partitions once, and sessions each."""
    if any(port.is_by_row for port in ports):
        return None
    of = WINDOW if state.windows else PORT
    shared = [port.window if state.windows else port.number for port in ports if port.panes is not None]
    if not shared:
        return found.count()
    is_shared = F.lit(True) if len(shared) == len(ports) else F.col(of).isin(shared)
    parts = [of] if of in found.columns else []
    number = found.where(is_shared).select(*parts, "pane_start", "pane_end").distinct().count()
    return number if len(shared) == len(ports) else number + found.where(~is_shared).count()


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
        kinds = {"arrival" if one.is_arrival else "kept" if _keeps_rows(one) else "panes" for one in state.ports}
        if len(kinds) > 1:
            state.require_one_window()
            raise DeclarationError("this job has windows of panes and of rows; look at its panes")
        found = frame(state, state.ports, key, by_partition=True)
    if kinds != {"panes"}:
        return found
    more = [PORT] if state.has_ports else [WINDOW] if state.windows else []
    return found.groupBy(*state.ports[0].log_keys, *more).agg(
        F.count("*").alias("open"),
        F.when(F.count("rows") == F.count("*"), F.sum("rows")).alias("rows"),
        F.count_if("unfired").alias("unfired"),
        F.min("pane_start").alias("pane_start"),
        F.max("pane_end").alias("pane_end"),
        F.min("fires_at").alias("fires_at"),
        F.max("watermark").alias("watermark"),
    )


def _keeps_rows(port: RecordedPort) -> bool:
    return port.is_by_row or port.is_within


def frame(state: Opened, ports: list[RecordedPort], key: Key | None, *, by_partition: bool = False) -> DataFrame:
    """Return what is open in these ports, of one kind; it is computed once, now. Raises as `panes`."""
    try:
        with format_of_state(state.spark):
            stored = _stored(state, ports)
            where = TypedKey({}, {}, None) if key is None else typed_key(state, ports[0], key)
            if where.in_group is not None:
                stored = stored.where(where.in_group)
            each = [
                _OpenInGroup(port, state.has_ports, bool(state.windows), by_partition and _keeps_rows(port))
                for port in ports
            ]
            found = reduce(lambda one, other: one.unionByName(other), (_frame(stored, one) for one in each))
            for name, value in where.columns.items():
                found = found.where(F.col(quoted(name)).eqNullSafe(value))
            return found.localCheckpoint()
    except PanekeeperError:
        raise
    except Exception as error:
        raise CorruptState(
            f"the state of {state.files.root} as of batch {state.batch} cannot be read; its kept batches begin with "
            f"{state.first}\n{all_said(error)}"
        ) from error


def stored_group(state: Opened, ports: list[RecordedPort], in_group: Column) -> MemoryStore:
    """Return the stored values of one key group that say what is open, and how far event time has come."""
    with format_of_state(state.spark):
        rows = _stored(state, ports, HORIZON).where(in_group).select(*_VALUE).collect()
    return MemoryStore.of({(kind, slot, seq): bytes(body) for kind, slot, seq, body in rows})


def _stored(state: Opened, ports: list[RecordedPort], *more: str) -> DataFrame:
    """Return the stored values that say what is open, and these kinds, as `stored_state` has them."""
    kinds = [HEADER, *more, *(kind for one in ports for kind in stored_kinds(one))]
    return stored_state(state.spark, state.files.place, state.batch).where(F.col("kind").isin(kinds))


@dataclass(frozen=True)
class _OpenInGroup:
    """What is open in one key group, from its stored values. Picklable; sent to the workers."""

    port: RecordedPort
    has_ports: bool
    has_windows: bool
    by_partition: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns, as the frame has them."""
        of_panes, keys = self.port.pane_time, len(self.port.log_keys)
        own = schema_of(self.port, by_partition=self.by_partition)
        times = {*PARTITION_TIMES} if self.port.is_arrival else {*TIMES, *KEPT_TIMES}
        found = [pa.field(name, own.field(place).type) for place, name in enumerate(self.port.log_keys)]
        found += [pa.field(PORT, pa.int32())] if self.has_ports else []
        found += [pa.field(WINDOW, pa.string())] if self.has_windows else []
        for field in list(own)[keys:]:
            kind = TIMESTAMP if self.port.is_arrival or field.name == "next_clock" else of_panes
            found.append(pa.field(field.name, kind if field.name in times else field.type))
        return pa.schema(found)

    def rows(self, stored: pa.Table) -> pa.Table:
        """Return what is open."""
        values = zip(*(stored.column(name).to_pylist() for name in _VALUE), strict=True)
        store = MemoryStore.of({(kind, slot, seq): body for kind, slot, seq, body in values})
        found = open_work(self.port, store, by_partition=self.by_partition)
        columns, schema, keys = found.columns, self.schema, len(self.port.log_keys)
        more = [self.port.number] * self.has_ports + [self.port.window] * self.has_windows
        columns[keys:keys] = [pa.chunked_array([pa.array([one] * found.num_rows)]) for one in more]
        return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


_VALUE = ("kind", "slot", "seq", "body")


def _frame(stored: DataFrame, compute: _OpenInGroup) -> DataFrame:
    def of_group(values: pa.Table) -> pa.Table:  # Spark counts the arguments of a method with `self`
        return compute.rows(values)

    return stored.groupBy("g").applyInArrow(of_group, spark_schema(compute.schema))


@dataclass(frozen=True)
class TypedKey:
    """A key, or a part of one, with the types of the partition columns.

    Attributes:
        columns: partition column -> its value, in Spark.
        values: the same in Arrow.
        in_group: the condition for the column `g` to be the key group that has it; None for a part of a key.
    """

    columns: Mapping[str, Column]
    values: Mapping[str, pa.Scalar]
    in_group: Column | None

    def group(self, spark: SparkSession, ids: tuple[int, ...]) -> int | None:
        """Return the id of the key group, one of these; None for a part of a key."""
        if self.in_group is None:
            return None
        found = frame_of(spark, pa.table({"g": pa.array(ids, pa.int64())})).where(self.in_group)
        return int(found.collect()[0][0])


def typed_key(state: Opened, port: RecordedPort, key: Key) -> TypedKey:
    """Return a key as it is stored. Raises `DeclarationError` for what is no such key."""
    kinds = dict(zip(port.log_keys, port.keys.types, strict=True))
    return key_as_stored(state.spark, state.record.group_ids, kinds, key)


def key_as_stored(spark: SparkSession, ids: tuple[int, ...], kinds: Mapping[str, pa.DataType], key: Key) -> TypedKey:
    """Return a key by the types of the partition columns, for key groups of these ids. Raises as `typed_key`."""
    columns: dict[str, Column] = {}
    for name, value in key.items():
        if name not in kinds:
            near = did_you_mean(name, list(kinds))
            listed = f"its partition columns are {', '.join(kinds)}" if kinds else "the job has no partition columns"
            raise DeclarationError(f"key names {name!r}, which is no partition column{near or f'; {listed}'}")
        columns[name] = F.lit(value).cast(from_arrow_type(kinds[name]))
    in_group = None
    if columns.keys() == kinds.keys():
        number = key_group([columns[name] for name in kinds], len(ids))
        in_group = F.col("g") == F.element_at(F.array(*map(F.lit, ids)), number + 1)
    values = {name: _plain(value, kinds[name]) for name, value in key.items()}
    if None in values.values():
        values = _by_spark(spark, columns, kinds, key)
    return TypedKey(columns, values, in_group)


def _plain(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """Return a value of a type, where it needs no rule of Spark's; None if it may. The first query takes seconds."""
    is_number = pa.types.is_integer(kind) and type(value) is int
    is_digits = pa.types.is_integer(kind) and isinstance(value, str) and _DIGITS.fullmatch(value) is not None
    if not (is_number or is_digits or (pa.types.is_string(kind) and isinstance(value, str))):
        return None
    try:
        return pa.scalar(int(value) if is_digits else value, kind)
    except (pa.ArrowException, OverflowError):
        return None


def _by_spark(
    spark: SparkSession, columns: Mapping[str, Column], kinds: Mapping[str, pa.DataType], key: Key
) -> dict[str, pa.Scalar]:
    try:
        found = spark.range(1).select(*(one.alias(name) for name, one in columns.items())).toArrow()
    except Exception as error:
        raise DeclarationError(
            f"key is {dict(key)!r}, which is no value of these columns: {first_line(error)}"
        ) from error
    return {name: found.column(place).cast(kinds[name])[0] for place, name in enumerate(columns)}
