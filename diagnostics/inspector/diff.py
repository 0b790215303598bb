"""What has changed between two batches of a job, or two of its savepoints: panes or partitions, and results."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.diagnostics.inspector.opened import Opened, opened
from panekeeper.diagnostics.inspector.panes import Key, frame, typed_key
from panekeeper.diagnostics.inspector.written import BATCH, files_of_batches, frame_of_files
from panekeeper.framework.core.aggregates.groups import RANK
from panekeeper.framework.core.job_spec import PORT
from panekeeper.framework.declarations.aggregates import GROUPS
from panekeeper.framework.declarations.errors import CheckpointError, DeclarationError, PanekeeperError
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.storage.locations import Location, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.history import aggregates_of, declarations_by_window, in_force
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_VALUES = (
    *("pane_end", "rows", "state", "firings", "unfired", "waiting", "since_fired"),
    *("first_row", "last_row", "fires_at", "leaves_at"),
)
"""What may change of a pane, session or partition; the last ones of where rows are kept."""
_OF_PANES = frozenset({"fires_at"})
"""Of these that follow from the watermark, and are no change, where there are panes."""
_BEFORE = "{}_before"
"""How the value before is called; no column of ours is called so."""
_NOT_VALUES = frozenset({"is_final", "op", "replaces", "refinement", "reason"})
"""Columns of the log that say how a result came, and not what it is."""


def diff(
    place: Location,
    before: int | str,
    after: int | str,
    *,
    results: bool = False,
    window: str | None = None,
    key: Key | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return which panes, sessions or partitions came, went or changed between two states; or which results did.

    Columns, after the partition columns and `pane_start`: `change`, "came", "went" or "changed"; and what `panes`, or
    `partitions`, have of it: the value after, then, with the ending `_before`, the one before.

    With `results`: of what the log got from the batches between, the newest result of each partition and pane. It
    "came", or has "changed", if there was one before; one that a merged session has taken back "went". Then `batch`,
    the last one that wrote it, `refinement`, `reason`, and the result columns, with `_before` as above. A firing that
    no later one replaces, as of windows in arrival order and interval joins, has come. Of joined panes, and of
    operators, the rows of the newest firing are there, without those before.

    Args:
        place: the job's checkpoint, or a location of savepoints.
        before: the number of a batch of the checkpoint, or the name of a savepoint in the location.
        after: as `before`.
        results: the results, and not what is open.
        window: the name of one of several windows; needed for results, whose columns it has.
        key: only these partitions, by the values of some of their columns.
        s3: how S3 is reached.
        spark: the session that reads; a new one if not given.

    Raises:
        RowsGone: files with the results were removed, as by a VACUUM.
        CheckpointError, DeclarationError, CorruptState: as `panes`; and of results, if the log has forgotten commits,
            the savepoints are of two jobs, or `after` is the earlier one.
    """
    if results:
        return _results(place, before, after, window, key, s3, spark)
    old, new = (_frame_of(place, one, window, key, s3, spark) for one in (before, after))
    names = _identity(new.columns)
    has_panes = "pane_start" in names
    values = [name for name in new.columns if name in _VALUES and not (has_panes and name in _OF_PANES)]
    own = [quoted(name) for name in names]
    were = [F.col(name).alias(_BEFORE.format(name)) for name in values]
    old, new = old.select(*own, *were, F.lit(1).alias("_o")), new.select(*own, *values, F.lit(1).alias("_n"))
    both = old.alias("o").join(new.alias("n"), _same(names), "full_outer")
    differs = reduce(
        lambda one, other: one | other, (~F.col(name).eqNullSafe(F.col(_BEFORE.format(name))) for name in values)
    )
    change = F.when(F.col("_o").isNull(), "came").when(F.col("_n").isNull(), "went").when(differs, "changed")
    is_new = F.col("_n").isNotNull()
    found = both.select(
        *(F.when(is_new, F.col(f"n.{quoted(n)}")).otherwise(F.col(f"o.{quoted(n)}")).alias(n) for n in names),
        change.alias("change"),
        *(column for name in values for column in (F.col(name), F.col(_BEFORE.format(name)))),
    )
    return found.where("change is not null")


def _same(names: Iterable[str]) -> Column:
    """Return the condition for `o` and `n` to have equal values in some columns; a null is one."""
    same = (F.col(f"o.{quoted(name)}").eqNullSafe(F.col(f"n.{quoted(name)}")) for name in names)
    return reduce(lambda one, other: one & other, same, F.lit(True))


def _identity(columns: list[str]) -> list[str]:
    """Return the partition columns, the port, and when the pane starts: by these, one is the same before and after."""
    first = next(at for at, name in enumerate(columns) if name in ("pane_start", "rows"))
    return columns[: first + 1] if columns[first] == "pane_start" else columns[:first]


def _frame_of(
    place: Location,
    what: int | str,
    window: str | None,
    key: Key | None,
    s3: S3Options | None,
    spark: SparkSession | None,
) -> DataFrame:
    batch, savepoint = (what, None) if isinstance(what, int) else (None, what)
    with opened(place, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark) as state:
        of_panes = [port for port in state.ports if port.has_panes]
        return frame(state, of_panes or state.ports, key)


# Results


def windows_of(place: Location, state: int | str, *, s3: S3Options | None = None) -> list[str]:
    """Return the names of several windows, by a batch of a checkpoint or a savepoint; none if there is only one."""
    if isinstance(state, str):
        declaration = show_trusted(open_archive(place, s3), state).declaration
    else:
        record = read_record(current_folder(checkpoint_at(place, s3)))
        declaration = {} if record is None else record.declaration
    return [name for name in declarations_by_window(declaration) if name]


def _results(
    place: Location,
    before: int | str,
    after: int | str,
    window: str | None,
    key: Key | None,
    s3: S3Options | None,
    spark: SparkSession | None,
) -> DataFrame:
    with opened(place, window=window, savepoint=after if isinstance(after, str) else None, s3=s3, spark=spark) as state:
        state.require_one_window()
        last = state.batch if isinstance(after, str) else after
        if last > state.batch:
            raise CheckpointError(f"batch {last} of {state.files.root} is not committed; the last one is {state.batch}")
        first = before if isinstance(before, int) else _batch_of(place, before, state, s3)
        if first > last:
            raise DeclarationError(f"before is {before!r} and after {after!r}, which is the earlier one; exchange them")
        role = role_of("log", state.ports[0].window)
        files = files_of_batches(state.files, state.record, role, first + 1, last, version=state.versions.get(role))
        try:
            rows = frame_of_files(state.spark, state.tables[role], files)
            log = state.spark.read.format("delta").load(state.tables[role])
            if key is not None:
                for name, value in typed_key(state, state.ports[0], key).columns.items():
                    rows, log = (one.where(F.col(quoted(name)).eqNullSafe(value)) for one in (rows, log))
            return _changes(state, rows, log).localCheckpoint()
        except PanekeeperError:
            raise
        except Exception as error:
            raise RowsGone(
                f"the results of batches {first + 1} to {last} of {state.files.root} cannot be read\n{all_said(error)}"
            ) from error


def _batch_of(place: Location, savepoint: str, state: Opened, s3: S3Options | None) -> int:
    """Return the batch of a savepoint of the same job. Raises `DeclarationError` for one of another."""
    found = show_trusted(open_archive(place, s3), savepoint)
    if found.job_id != state.record.id:
        raise DeclarationError(
            f"savepoint {savepoint} is of job {found.job!r} and another checkpoint than the other one; their results "
            "cannot be compared"
        )
    return found.batch


def _changes(state: Opened, rows: DataFrame, log: DataFrame) -> DataFrame:
    """Return what rows of a log change in it; `log` has all rows."""
    port, columns = state.ports[0], rows.columns
    declaration = declarations_by_window(in_force(state.record.declaration, state.batch))[port.window]
    is_discarding, aggregates = declaration.get("window.results") == "discarding", aggregates_of(declaration)
    places = ["session_start"] if port.is_session else ["pane_start", "pane_end", "session_start"]
    more = [PORT] * state.has_ports + [RANK] * (GROUPS in aggregates) + ["refinement"] * is_discarding
    keys = [*port.log_keys, *(name for name in [*places, *more] if name in columns)]
    values = [name for name in columns if name not in {*keys, BATCH, *_NOT_VALUES}]
    if "op" in columns:
        rows, log = rows.where("op = 1"), log.where("op = 1")
    has_refinements = "refinement" in columns and not is_discarding
    found = rows.withColumn("_first", F.lit(0)).withColumn("_gone", F.lit(False))
    if has_refinements:
        found = _newest(rows, keys)
    before = None
    if has_refinements and aggregates:
        if "replaces" in columns:
            found = _with_replaced(rows, found, keys)
        before = _before(found, log, keys, values, next(name for name in places if name in keys))
    change = F.when(F.col("_gone"), "went").when(F.col("_first") > 0, "changed").otherwise("came").alias("change")
    how = [F.col(name) for name in ("refinement", "reason") if name in columns and name not in keys]
    shown: list[Column] = [F.col(quoted(name)) for name in values]
    if before is not None:
        found = found.alias("n").join(before.alias("o"), _same(keys), "left")
        found = found.where("not _gone or _before is not null").select("n.*", "_before")
        shown = [
            column
            for name in values
            for column in (
                F.col(quoted(name)),
                F.col("_before").getField(name).alias(_BEFORE.format(name)),
            )
        ]
    found = found.select(*(quoted(name) for name in keys), change, F.col(BATCH).alias("batch"), *how, *shown)
    if len({*found.columns}) < len(found.columns):
        twice = next(name for name in found.columns if found.columns.count(name) > 1)
        raise DeclarationError(f"the results have a column {twice!r}, as their differences have; read the log itself")
    return found


def _newest(rows: DataFrame, keys: list[str]) -> DataFrame:
    """Return the rows of the newest firing of each partition and pane, with the number of the first one."""
    of_pane = Window.partitionBy(*map(quoted, keys))
    numbered = rows.select(
        "*", F.min("refinement").over(of_pane).alias("_first"), F.max("refinement").over(of_pane).alias("_newest")
    )
    newest = numbered.where("refinement is null or refinement = _newest").drop("_newest")
    return newest.withColumn("_first", F.coalesce("_first", F.lit(0))).withColumn("_gone", F.lit(False))


def _with_replaced(rows: DataFrame, newest: DataFrame, keys: list[str]) -> DataFrame:
    """Return the newest results, of which those are gone that a merged session has taken back, and others as these."""
    others = [quoted(name) for name in keys if name != "session_start"]
    taken = rows.select(*others, BATCH, "refinement", F.explode("replaces").alias("session_start"))
    taken = taken.groupBy(*map(quoted, keys)).agg(F.max("refinement").alias("_by"), F.max(BATCH).alias("_batch"))
    both = newest.alias("n").join(taken.alias("o"), _same(keys), "full_outer")
    is_gone = F.col("o._by").isNotNull() & (F.col("n.refinement").isNull() | (F.col("o._by") > F.col("n.refinement")))
    own = [
        F.coalesce(F.col(f"n.{quoted(name)}"), F.col(f"o.{quoted(name)}")).alias(name)
        if name in keys
        else F.when(~is_gone, F.col(f"n.{quoted(name)}")).alias(name)
        for name in newest.columns
        if name not in (BATCH, "_first", "_gone")
    ]
    return both.select(
        *own,
        F.when(is_gone, F.col("o._batch")).otherwise(F.col(f"n.{BATCH}")).alias(BATCH),
        F.coalesce("n._first", "o._by").alias("_first"),
        is_gone.alias("_gone"),
    )


def _before(found: DataFrame, log: DataFrame, keys: list[str], values: list[str], place: str) -> DataFrame | None:
    """Return the last result before of each partition and pane that had one, as `_before`; None if none can have."""
    changed = found.where("_first > 0").select(*map(quoted, keys), "_first").distinct()
    low, high = changed.select(F.min(place), F.max(place)).collect()[0]
    if low is None:
        return None
    earlier = log.where(F.col(place).between(F.lit(low), F.lit(high))).alias("o").join(changed.alias("n"), _same(keys))
    earlier = earlier.where("o.refinement < n._first").select("o.*")
    was = F.struct(*(F.col(quoted(name)) for name in values))
    return earlier.groupBy(*map(quoted, keys)).agg(F.max_by(was, "refinement").alias("_before"))
