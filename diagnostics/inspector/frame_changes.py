"""What Spark says of two frames: what differs between them, and what new results change.

`table_changes.py` says the same of tables that this process reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.diagnostics.inspector.table_changes import BEFORE as _BEFORE
from panekeeper.framework.engine.session.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from panekeeper.diagnostics.inspector.table_changes import LogColumns


def changes_of_open(old: DataFrame, new: DataFrame, names: Sequence[str], values: Sequence[str]) -> DataFrame:
    """Return what came, went or changed, of rows that are told apart by `names`, each of which is in a frame once."""
    own = [quoted(name) for name in names]
    were = [F.col(name).alias(_BEFORE.format(name)) for name in values]
    old, new = old.select(*own, *were, F.lit(1).alias("_o")), new.select(*own, *values, F.lit(1).alias("_n"))
    both = old.alias("o").join(new.alias("n"), _same(names), "full_outer")
    differs = reduce(
        lambda condition, other: condition | other,
        (~F.col(name).eqNullSafe(F.col(_BEFORE.format(name))) for name in values),
    )
    change = F.when(F.col("_o").isNull(), "came").when(F.col("_n").isNull(), "went").when(differs, "changed")
    is_new = F.col("_n").isNotNull()
    changes = both.select(
        *(F.when(is_new, F.col(f"n.{quoted(n)}")).otherwise(F.col(f"o.{quoted(n)}")).alias(n) for n in names),
        change.alias("change"),
        *(column for name in values for column in (F.col(name), F.col(_BEFORE.format(name)))),
    )
    return changes.where("change is not null")


def _same(names: Iterable[str]) -> Column:
    """Return the condition for `o` and `n` to have equal values in some columns; a null is one."""
    same = (F.col(f"o.{quoted(name)}").eqNullSafe(F.col(f"n.{quoted(name)}")) for name in names)
    return reduce(lambda condition, other: condition & other, same, F.lit(True))


def changes_of_results(
    rows: DataFrame, log: DataFrame | None, log_columns: LogColumns, *, has_refinements: bool
) -> DataFrame:
    """Return what rows of a log change in it; the arguments are those of `table_changes.changes_of_results`."""
    keys, values, columns = [*log_columns.keys], [*log_columns.values], rows.columns
    results = rows.withColumn("_first", F.lit(0)).withColumn("_gone", F.lit(False))
    if has_refinements:
        results = _newest(rows, keys)
    before = None
    if has_refinements and log is not None:
        if "replaces" in columns:
            results = _with_replaced(rows, results, log_columns)
        before = _before(
            results, log, keys, values, next(name for name in ("session_start", "pane_start") if name in keys)
        )
    change = F.when(F.col("_gone"), "went").when(F.col("_first") > 0, "changed").otherwise("came").alias("change")
    how = [F.col(name) for name in ("refinement", "reason") if name in columns and name not in keys]
    shown: list[Column] = [F.col(quoted(name)) for name in values]
    if before is not None:
        results = results.alias("n").join(before.alias("o"), _same(keys), "left")
        results = results.where("not _gone or _before is not null").select("n.*", "_before")
        shown = [
            column
            for name in values
            for column in (
                F.col(quoted(name)),
                F.col("_before").getField(name).alias(_BEFORE.format(name)),
            )
        ]
    return results.select(
        *(quoted(name) for name in keys), change, F.col(log_columns.batch).alias("batch"), *how, *shown
    )


def _newest(rows: DataFrame, keys: list[str]) -> DataFrame:
    """Return the rows of the newest firing of each partition and pane, with the number of the first one."""
    of_pane = Window.partitionBy(*map(quoted, keys))
    numbered = rows.select(
        "*", F.min("refinement").over(of_pane).alias("_first"), F.max("refinement").over(of_pane).alias("_newest")
    )
    newest = numbered.where("refinement is null or refinement = _newest").drop("_newest")
    return newest.withColumn("_first", F.coalesce("_first", F.lit(0))).withColumn("_gone", F.lit(False))


def _with_replaced(rows: DataFrame, newest: DataFrame, log_columns: LogColumns) -> DataFrame:
    """Return the newest results, of which those are gone that a merged session has taken back, and others as these."""
    keys = [*log_columns.keys]
    others = [quoted(name) for name in keys if name != "session_start"]
    taken = rows.select(*others, log_columns.batch, "refinement", F.explode("replaces").alias("session_start"))
    taken = taken.groupBy(*map(quoted, keys)).agg(
        F.max("refinement").alias("_by"), F.max(log_columns.batch).alias("_batch")
    )
    both = newest.alias("n").join(taken.alias("o"), _same(keys), "full_outer")
    is_gone = F.col("o._by").isNotNull() & (F.col("n.refinement").isNull() | (F.col("o._by") > F.col("n.refinement")))
    own = [
        F.coalesce(F.col(f"n.{quoted(name)}"), F.col(f"o.{quoted(name)}")).alias(name)
        if name in keys
        else F.when(~is_gone, F.col(f"n.{quoted(name)}")).alias(name)
        for name in newest.columns
        if name not in (log_columns.batch, "_first", "_gone")
    ]
    return both.select(
        *own,
        F.when(is_gone, F.col("o._batch")).otherwise(F.col(f"n.{log_columns.batch}")).alias(log_columns.batch),
        F.coalesce("n._first", "o._by").alias("_first"),
        is_gone.alias("_gone"),
    )


def _before(results: DataFrame, log: DataFrame, keys: list[str], values: list[str], place: str) -> DataFrame | None:
    """Return the last result before of each partition and pane that had one, as `_before`; None if none can have."""
    changed = results.where("_first > 0").select(*map(quoted, keys), "_first").distinct()
    low, high = changed.select(F.min(place), F.max(place)).collect()[0]
    if low is None:
        return None
    earlier = log.where(F.col(place).between(F.lit(low), F.lit(high))).alias("o").join(changed.alias("n"), _same(keys))
    earlier = earlier.where("o.refinement < n._first").select("o.*")
    was = F.struct(*(F.col(quoted(name)) for name in values))
    return earlier.groupBy(*map(quoted, keys)).agg(F.max_by(was, "refinement").alias("_before"))
