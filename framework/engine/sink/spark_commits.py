"""Commits to a Delta table by Spark, each under a transaction id, and repeated where another writer came first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from delta import exceptions
from delta.tables import DeltaTable

from framework.declarations.errors import SinkError
from framework.engine.session.spark_errors import first_line
from framework.engine.sink.small_commits import PAUSES_S
from state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONFLICTS = (
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentTransactionException,
    exceptions.ConcurrentWriteException,
    exceptions.DeltaConcurrentModificationException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
)
_log = logger("sink")


def append(frame: DataFrame, path: str, transaction: str, number: int) -> None:
    """Append rows under a transaction id and version, unless the table has that version.

    Args:
        frame: the rows.
        path: the table's folder.
        transaction: the transaction id.
        number: the transaction version.

    Raises:
        SinkError: other writers came first at each attempt.
    """
    writer = frame.write.format("delta").mode("append")
    writer = writer.option("txnAppId", transaction).option("txnVersion", number)
    repeat_while_others_commit(path, lambda: writer.save(path))


def merge(
    spark: SparkSession,
    source: DataFrame,
    path: str,
    *,
    condition: str,
    newer_by: str,
    is_copy: bool,
    transaction: str,
    number: int,
) -> None:
    """Insert rows that the table does not have, and replace those that are older, once.

    The settings are those of the query's own session, which Spark clones for each query. Appends that run beside it
    bring their transaction as options and do not look at these settings.

    Args:
        spark: the session of the query.
        source: the rows, `s` in the condition.
        path: the folder of the table, `t` in the condition.
        condition: which rows stand for the same.
        newer_by: a row replaces one in the table unless its value here is less; null is not less than any.
        is_copy: the rows are the same each time they are read.
        transaction: the transaction id.
        number: the transaction version.

    Raises:
        SinkError: other writers came first at each attempt.
    """
    settings = {
        "spark.databricks.delta.merge.materializeSource": "none" if is_copy else "auto",
        "spark.databricks.delta.write.txnAppId": transaction,
        "spark.databricks.delta.write.txnVersion": str(number),
    }

    def commit() -> None:
        merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), condition)
        merge.whenMatchedUpdateAll(f"coalesce(s.{newer_by} >= t.{newer_by}, true)").whenNotMatchedInsertAll().execute()

    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        repeat_while_others_commit(path, commit)
    finally:
        for name in settings:
            spark.conf.unset(name)


def repeat_while_others_commit(
    path: str, commit: Callable[[], None], *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Commit; if another writer came first, as an OPTIMIZE of the table, wait a little and commit again.

    Delta has then committed nothing, and the transaction version keeps a repetition from standing twice.

    Args:
        path: the table's folder.
        commit: one commit, which reads the table anew.
        sleep: waits for so many seconds.

    Raises:
        SinkError: others came first at each attempt.
    """
    for pause in (*PAUSES_S, None):
        try:
            commit()
        except _CONFLICTS as error:
            if pause is None:
                raise SinkError(
                    f"the table {path} could not be committed to, because other writers came first at each of "
                    f"{len(PAUSES_S) + 1} attempts ({first_line(error)}). Start the job again when they have ended: "
                    "it resumes with the same batch"
                ) from error
            _log.info("%s: another writer came first (%s); trying again", path, type(error).__name__)
            sleep(pause)
        else:
            return
