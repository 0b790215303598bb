"""How does Spark read state and tables, where nothing else can?

Each key group is read whole by one task, so the driver holds none of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.core.job_spec import PORT
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.state.spark_files.read_state import Segments

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from panekeeper.diagnostics.inspector.open_in_group import OpenInGroup
    from panekeeper.diagnostics.inspector.opened import Opened
    from panekeeper.diagnostics.keys import TypedKey

_VALUE = ("kind", "slot", "seq", "body")


def open_frame(state: Opened, each: Sequence[OpenInGroup], kinds: Collection[str], key: TypedKey | None) -> DataFrame:
    """Return what is open, by a computation for each window; it is computed once, now."""
    with format_of_state(state.spark):
        stored = _stored(state, kinds)
        if key is not None and key.is_whole:  # the other key groups are not sent to Python
            stored = stored.where(key.in_group)
        rows = reduce(
            lambda frame, other: frame.unionByName(other), (_frame(stored, open_in_group) for open_in_group in each)
        )
        if key is not None:
            rows = rows.where(is_of_key(key))
        return rows.localCheckpoint()


def group_segments(state: Opened, kinds: Collection[str], group: int) -> Segments:
    """Return what one key group has stored of these kinds."""
    with format_of_state(state.spark):
        rows = _stored(state, kinds).where(F.col("g") == group).select(*_VALUE).collect()
    return {(kind, slot, seq): bytes(body) for kind, slot, seq, body in rows}


def _stored(state: Opened, kinds: Collection[str]) -> DataFrame:
    return stored_state(state.spark, state.files.place, state.batch).where(F.col("kind").isin([*kinds]))


def _frame(stored: DataFrame, compute: OpenInGroup) -> DataFrame:
    def of_group(values: pa.Table) -> pa.Table:  # Spark counts the arguments of a method with `self`
        columns = zip(*(values.column(name).to_pylist() for name in _VALUE), strict=True)
        return compute.rows({(kind, slot, seq): body for kind, slot, seq, body in columns})

    return stored.groupBy("g").applyInArrow(of_group, spark_schema(compute.schema))


def number_of_panes(rows: DataFrame, column: str, shared: Sequence[str | int], *, is_all: bool) -> int:
    """Return how many panes are open: one of several partitions once, of the windows or ports in `shared`."""
    if not shared:
        return rows.count()
    is_shared = F.lit(True) if is_all else F.col(column).isin([*shared])
    parts = [column] if column in rows.columns else []
    number = rows.where(is_shared).select(*parts, "pane_start", "pane_end").distinct().count()
    return number if is_all else number + rows.where(~is_shared).count()


def by_partition(rows: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return what each partition has in its open panes: how many, and their rows, unless that is not known of one."""
    return rows.groupBy(*map(quoted, by)).agg(
        F.count("*").alias("open"),
        F.when(F.count("rows") == F.count("*"), F.sum("rows")).alias("rows"),
        F.count_if("unfired").alias("unfired"),
        F.min("pane_start").alias("pane_start"),
        F.max("pane_end").alias("pane_end"),
        F.min("fires_at").alias("fires_at"),
        F.max("watermark").alias("watermark"),
    )


def fired_panes(state: Opened, log: str, key: TypedKey, bounds: tuple[str, str], *, most: int) -> list[tuple[int, int]]:
    """Return the bounds of the panes of a partition in the log, us."""
    rows = state.frame(log).where(is_of_key(key)).select(*(_us(name).alias(name) for name in bounds))
    return [(row[0], row[1]) for row in rows.distinct().limit(most).collect()]


def logged_keys(state: Opened, log: str, names: Sequence[str], *, most: int) -> list[tuple[Any, ...]]:
    """Return the partitions that have results in the log."""
    return keys_of(state.frame(log), names, most=most)


def keys_of(rows: DataFrame, names: Sequence[str], *, most: int) -> list[tuple[Any, ...]]:
    """Return which values some columns have together."""
    return [tuple(row) for row in rows.select(*map(quoted, names)).distinct().limit(most).collect()]


def firings(
    state: Opened,
    log: str,
    key: TypedKey,
    pane: Mapping[str, int],
    shown: Sequence[str],
    values_of: Callable[[Sequence[str]], Sequence[str]],
    *,
    port: int | None,
) -> list[dict[str, Any]]:
    """Return these columns, and the `file`, of each firing of a pane of a partition; of one of several ports.

    With `rows`, how many it has there, and the `values` of one of them, by the columns of the log that `values_of`
    chooses.
    """
    results = state.frame(log).where(is_of_key(key))
    if "op" in results.columns:
        results = results.where("op = 1")
    if port is not None and PORT in results.columns:
        results = results.where(F.col(PORT) == port)
    for name, us in pane.items():
        results = results.where(_us(name) == us)
    values = [F.col(quoted(name)) for name in values_of(results.columns)]
    first_values = F.first(F.struct(*values)) if values else F.lit(None)
    by: list[Column | str] = [*shown, F.col("_metadata.file_name").alias("file")]
    rows = results.groupBy(*by).agg(F.count("*").alias("rows"), first_values.alias("values")).toArrow().to_pylist()
    return [row | {"file": unquote(row["file"])} for row in rows]


def metrics(state: Opened, path: str, name: str) -> list[tuple[int, int | None, int | None]]:
    """Return batch, watermark in us, and this column, which a table of an earlier version lacks."""
    frame = state.frame(path).where(F.col("batch") <= state.batch)
    column = F.col(name) if name in frame.columns else F.lit(None)
    rows = frame.select("batch", F.unix_micros("watermark").alias("us"), column.alias(name)).collect()
    return [(row.batch, row.us, row[name]) for row in rows]


def is_of_key(key: TypedKey) -> Column:
    """Return the condition for a row to be of a partition, or of those that a part of a key names."""
    is_of = F.lit(True)
    for name, value in key.columns.items():
        is_of &= F.col(quoted(name)).eqNullSafe(value)
    return is_of


def _us(name: str) -> Column:
    """Return a time column in us since the epoch, with or without a zone."""
    return F.expr(f"unix_micros(cast({quoted(name)} as timestamp_ltz))")
