"""Step 4 of a batch (`framework/engine/job/batch_journal.py`): what is recorded of it gets into each table, once.

All that is written, and where, is in the record (`state/prepared.py`): the same whether the process that
has computed the batch writes it, or a later one that completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.core.aggregates.columns import combine
from panekeeper.framework.declarations.errors import SchemaMismatch
from panekeeper.framework.engine.flow.pipeline import as_frame, spark_schema, unpack
from panekeeper.framework.engine.flow.processor import REJECTED, RESULTS
from panekeeper.framework.engine.session.columns import column
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.library_table import REPLACED
from panekeeper.state.log import logger
from panekeeper.state.table_roles import kind_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
    from panekeeper.framework.engine.user_sinks.protocol import Sink
    from panekeeper.state.prepared import PreparedBatch, TableWrite

_AT_ONCE = ("log", "quarantine", "view")
"""Tables that are written at the same time; the others follow one by one, the metrics last."""
_log = logger("sink")


@dataclass(frozen=True, kw_only=True)
class TableWriter:
    """Writes prepared batches to their tables, and their results to the user's own sink, if there is one."""

    tables: DeltaTables = field(default_factory=DeltaTables, repr=False)
    user_sink: Sink | None = None

    def write(
        self, spark: SparkSession, batch: PreparedBatch, packed: DataFrame | None, require_held: Callable[[], None]
    ) -> None:
        """Make one idempotent commit for each table; each has the batch in its log then. May be repeated.

        `packed` has the large rows, if there are any. `require_held` is called just before each commit.
        """
        at_once = [write for write in batch.writes if kind_of(write.role) in _AT_ONCE]
        fault_point("before-delta", batch.number, at_once[0].path if at_once else "")
        commits = [partial(self._commit, spark, batch, write, packed, require_held) for write in at_once]
        if batch.sink_writer is not None and self.user_sink is not None:
            commits.append(partial(self._commit_to_user_sink, spark, batch, packed, require_held))
        elif batch.sink_writer is not None:
            _log.warning("batch %s has results for a sink that is declared no more, and may lack them", batch.number)
        _commit_in_parallel(spark, commits)
        for write in batch.writes:
            if kind_of(write.role) not in _AT_ONCE:
                self._commit(spark, batch, write, packed, require_held)
        fault_point("after-delta-commit", batch.number)

    @property
    def has_user_sink(self) -> bool:
        """Whether a sink of the user's own gets the results, too."""
        return self.user_sink is not None

    def prepare_user_sink(self, spark: SparkSession, results: pa.Schema) -> None:
        """Let a sink of the user's own make ready for results with these columns. At each start."""
        if self.user_sink is not None:
            self.user_sink.prepare(spark, spark_schema(results))

    def read(self, spark: SparkSession, path: str) -> TableAtVersion:
        """Return a table as it is now."""
        return self.tables.read(spark, path)

    def _commit(
        self,
        spark: SparkSession,
        batch: PreparedBatch,
        write: TableWrite,
        packed: DataFrame | None,
        require_held: Callable[[], None],
    ) -> None:
        """Commit what one table gets of a batch."""
        require_held()
        fault_point("before-commit", batch.number, write.path)
        rows = _rows(batch, write.rows, packed)
        try:
            if write.keys is None:
                count = batch.large_counts.get(write.rows)
                self.tables.append(spark, rows, write, batch.number, job=batch.job, count=count)
            else:
                newest = _newest_rows(rows, list(write.keys), write.replaces)
                self.tables.merge(spark, newest, write, batch.number)
        except AnalysisException as error:
            raise SchemaMismatch(
                f"the {write.role} {write.path} does not take the rows of batch {batch.number}. If its columns were "
                f"changed, change them back, and start the job again: it resumes with the same batch\n{all_said(error)}"
            ) from None
        fault_point("after-commit", batch.number, write.path)

    def _commit_to_user_sink(
        self, spark: SparkSession, batch: PreparedBatch, packed: DataFrame | None, require_held: Callable[[], None]
    ) -> None:
        require_held()
        assert self.user_sink is not None
        assert batch.sink_writer is not None
        results = as_frame(spark, _rows(batch, RESULTS, packed))
        with self.tables.session_lock:  # it may write with the query's session, and must not do so as the view
            self.user_sink.commit(results, writer=batch.sink_writer, batch=batch.number)


def _commit_in_parallel(spark: SparkSession, commits: Sequence[Callable[[], None]]) -> None:
    """Run each commit in a thread of its own, and raise the first error once all of them have ended."""
    from pyspark import inheritable_thread_target

    if len(commits) < 2:  # noqa: PLR2004 -- one needs no thread
        for commit in commits:
            commit()
        return
    with ThreadPoolExecutor(len(commits)) as pool:
        for running in [
            pool.submit(copy_context().run, inheritable_thread_target(spark)(commit)) for commit in commits
        ]:
            running.result()


def _rows(batch: PreparedBatch, name: str, packed: DataFrame | None) -> pa.Table | DataFrame:
    """Return rows of a batch: as they are recorded, or from its packed rows; those of the quarantine say when."""
    rows = batch.rows[name]
    if name in batch.large:
        assert packed is not None
        rows = unpack(packed, name, rows.schema)
    if name != REJECTED:
        return rows
    at = batch.rows["metrics"].column("batch_time")[0]
    if not isinstance(rows, pa.Table):
        return rows.withColumns({"batch": F.lit(batch.number).cast("long"), "quarantined_at": F.lit(at.as_py())})
    rows = rows.append_column("batch", pa.array([batch.number] * rows.num_rows, pa.int64()))
    return rows.append_column("quarantined_at", pa.array([at.as_py()] * rows.num_rows, at.type))


def _newest_rows(results: pa.Table | DataFrame, pane: list[str], replaces: str | None = None) -> pa.Table | DataFrame:
    """Return the newest row of this batch for each row of the view: not all rows have a number that says which is.

    `replaces` is the column with the last key of rows that a result replaces: they are there with `REPLACED`.
    """
    if isinstance(results, pa.Table):
        return last_of_each_pane(results if replaces is None else with_replaced(results, pane, replaces), pane)
    # The rows of a key group are in one Spark partition, in the order in which they happened.
    row, place = F.struct(*[column(name) for name in results.columns]), F.monotonically_increasing_id()
    placed = results.select(row.alias("row"), F.struct(place.alias("place"), F.lit(0).alias("step")).alias("place"))
    if replaces is not None:
        row = F.col("row")
        gone = F.transform(row.getField(replaces), lambda key: _step(row.withField(pane[-1], key), is_replaced=True))
        steps = placed.select("place", F.posexplode(F.concat(gone, F.array(_step(row, is_replaced=False)))))
        placed = steps.select("col", F.struct("place", "pos").alias("place"))
        placed = placed.select(F.struct("col.row.*", f"col.{REPLACED}").alias("row"), "place")
    keys = [F.col("row").getField(name).alias(f"key_{number}") for number, name in enumerate(pane)]
    return placed.groupBy(*keys).agg(F.max_by("row", "place").alias("newest")).select("newest.*")


def _step(row: Column, *, is_replaced: bool) -> Column:
    return F.struct(row.alias("row"), F.lit(is_replaced).alias(REPLACED))


def with_replaced(results: pa.Table, pane: list[str], replaces: str) -> pa.Table:
    """Return results, each behind the rows that it replaces, as it is but for the last key; unchanged if none are."""
    gone = combine(results.column(replaces))
    owner = pc.list_parent_indices(gone).to_numpy()
    if not len(owner):
        return results
    place = results.schema.get_field_index(pane[-1])
    removed = results.take(pa.array(owner)).set_column(place, results.schema.field(place), pc.list_flatten(gone))
    both = pa.concat_tables([removed, results])
    both = both.append_column(REPLACED, pa.array([True] * len(owner) + [False] * results.num_rows))
    order = np.argsort(np.concatenate([2 * owner, 2 * np.arange(results.num_rows) + 1]), kind="stable")
    return both.take(pa.array(order))


def last_of_each_pane(results: pa.Table, pane: list[str]) -> pa.Table:
    """Keep the last row of each pane: a group's firings stand in the order in which they happened."""
    if not pane:
        return results.slice(results.num_rows - 1)
    # By names of our own: a column of the user may have any.
    keys = [f"key_{number}" for number in range(len(pane))]
    numbered = results.select(pane).rename_columns(keys)
    numbered = numbered.append_column("row", pa.array(range(results.num_rows), pa.int64()))
    return results.take(numbered.group_by(keys).aggregate([("row", "max")]).column("row_max"))
