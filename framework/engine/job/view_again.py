"""A view that is gone is made again from its log: by the first start after a restore without it.

A restore leaves a table out that is gone (`begin.json`, `remade`), and a start makes it as any that is new; so does a
reset, after which a view is empty in any case. A view has the newest result of each row that it stands for, and so has
the log: they are merged in one commit, under a transaction id of this epoch, so that a start that was killed before it
does it, and no start does it twice.

Some logs do not tell what their views have (`JobRecord.why_unlike_view`): then a restore is refused until the view may
begin empty. A reset keeps the rows of the log, and refinements begin at 0 again; a log that began anew lacks results.
Each start notes such logs, and a savepoint has that note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.engine.job.batch_journal import newest_by
from panekeeper.framework.engine.session.settings import session_of_its_own
from panekeeper.state.checkpoint.epochs import read_begin, write_begin
from panekeeper.state.checkpoint.folder import place_of
from panekeeper.state.log import logger
from panekeeper.state.prepared import TableWrite
from panekeeper.state.table_roles import kind_of, role_of, window_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.delta_tables import DeltaTables
    from panekeeper.state.checkpoint.folder import CheckpointFolder
    from panekeeper.state.checkpoint.job_record import JobRecord

_log = logger("job")


def with_logs_unlike_views(
    files: CheckpointFolder,
    record: JobRecord,
    tables: Mapping[str, str | None],
    fitting: Mapping[str, Mapping[str, Any]],
    written: Mapping[str, str],
) -> JobRecord:
    """Return the record with the logs that, with this start, do not tell what their views have. Writes nothing.

    `fitting` is what the tables have (`table_checks.TableRecord`); `written` are role -> path of those that the
    checkpoint has named as its own in this epoch. A table that was moved with its rows has a batch, a new one has none.
    """
    begin, unlike = read_begin(files), {*record.unlike_views}
    for role, path in tables.items():
        if kind_of(role) != "log" or path is None:
            continue
        before = written.get(role, path)
        begins_anew = place_of(before) != place_of(path) and fitting[role]["batch"] < 0
        if begin is not None:
            begins_anew |= role in begin.remade
            was_reset = begin.kind == "reset" and role in begin.tables
            begins_anew |= was_reset and place_of(begin.tables[role]) == place_of(path)
        if begins_anew:
            unlike.add(role)
    return replace(record, unlike_views=tuple(sorted(unlike)))


def make_views_again(
    files: CheckpointFiles,
    record: JobRecord,
    tables: Mapping[str, str | None],
    spec: JobSpec,
    opened: DeltaTables,
    fitting: Mapping[str, Mapping[str, Any]],
    *,
    require_held: Callable[[], None],
) -> None:
    """Fill the views that what began this epoch has found gone, each once. Before the first batch.

    `fitting` is what the tables have (`table_checks.TableRecord`). A view stays empty if its log does not tell what it
    had, by the record of this start: the log may have been declared in another folder only now.
    """
    begin, transaction = read_begin(files), record.transaction("remade")
    if begin is None or not begin.remade:
        return
    for role in begin.remade:
        path, log, window = tables.get(role), role_of("log", window_of(role)), window_of(role)
        if kind_of(role) != "view" or path is None:
            continue
        if (why := record.why_unlike_view(window)) is not None:
            _log.warning("the %s %s was gone and begins empty: its log %s %s", role, path, tables[log], why)
            continue
        if opened.last_transaction(files.spark, path, transaction) >= 0:
            continue
        with session_of_its_own(files.spark) as spark:
            write = TableWrite(
                role=role,
                path=path,
                table=str(fitting[role]["id"]),
                transaction=transaction,
                after=-1,
                rows=role,
                **newest_by(spec.parts[window]),
            )
            newest = newest_in_log(spark, str(tables[log]), spec.parts[window], write)
            require_held()
            opened.merge(spark, newest, write, 0)
        _log.info("the %s %s was gone and is made again from the log %s", role, path, tables[log])
    require_held()
    write_begin(files, replace(begin, remade={}))  # until then no savepoint is made, which would have an empty view


def newest_in_log(spark: SparkSession, log: str, spec: JobSpec, write: TableWrite) -> DataFrame:
    """Return the rows of a log that its view has: the newest of each, by `write`, without those that were replaced.

    A session that became part of another one is named by a firing of that with a greater refinement. Of two sessions
    with the same start that with more firings counts, which may be the closed one; the view had the newer
    (docs/semantics.md section 15.3).
    """
    keys, number = list(write.keys or ()), str(write.newer_by)
    rows = spark.read.format("delta").load(log).select(*spec.results_schema.names)
    if spec.retracts:
        rows = rows.where("op = 1")
    names = [f"key_{place}" for place in range(len(keys))]  # a column of the user may have any name
    row = F.struct(*[F.col(f"`{name}`") for name in rows.columns]).alias("row")
    placed = rows.select(row, F.monotonically_increasing_id().alias("place"))
    by_key = [F.col("row").getField(key).alias(name) for key, name in zip(keys, names, strict=True)]
    order = F.struct(F.col("row").getField(number), F.col("place"))
    newest = placed.groupBy(*by_key).agg(F.max_by("row", order).alias("row"))
    if write.replaces is not None:
        replaced = F.explode(F.col("row").getField(write.replaces))
        gone = placed.select(*by_key[:-1], replaced.alias(names[-1]), F.col("row").getField(number).alias("by"))
        gone = gone.groupBy(*names).agg(F.max("by").alias("by"))
        same = [newest[name].eqNullSafe(gone[name]) for name in names]
        later = gone["by"] > newest["row"].getField(number)
        newest = newest.join(gone, [*same, later], "left_anti")
    return newest.select("row.*")
