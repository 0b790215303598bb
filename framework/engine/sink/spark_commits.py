"""Commits to a Delta table by Spark, each under a transaction id, and repeated where another writer came first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from delta import exceptions
from delta.tables import DeltaTable

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import READ_SETTINGS, session_settings
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.small_commits import PAUSES_S
from panekeeper.state.log import logger

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
    writer = writer.options(txnAppId=transaction, txnVersion=number)
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
    settings = {"spark.databricks.delta.merge.materializeSource": "none" if is_copy else "auto", **READ_SETTINGS}

    # By name: rows of an earlier declaration lack the columns of one that another start has recorded meanwhile.
    every: dict[str, Any] = {quoted(name): f"s.{quoted(name)}" for name in source.columns}

    def commit() -> None:
        merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), condition)
        merge = merge.whenMatchedUpdate(f"coalesce(s.{newer_by} >= t.{newer_by}, true)", every)
        merge.whenNotMatchedInsert(values=every).execute()

    with session_settings(spark, settings | _settings_of(transaction, number)):
        repeat_while_others_commit(path, commit)


def delete_all(spark: SparkSession, path: str, transaction: str) -> None:
    """Remove all rows under a transaction id, once: whoever repeats it later removes nothing.

    Args:
        spark: the session that reaches the table, whose settings are for this commit meanwhile.
        path: the table's folder.
        transaction: the transaction id.

    Raises:
        SinkError: other writers came first at each attempt.
    """
    with session_settings(spark, _settings_of(transaction, 0)):
        repeat_while_others_commit(path, DeltaTable.forPath(spark, path).delete)
    own(spark, path, transaction, 0, take=False)  # also if there was no row, and so no commit


def own(spark: SparkSession, path: str, app_id: str, version: int, *, take: bool) -> int:
    """Commit a transaction version unless the table has one under this id, and return the one that it has then.

    An append under the version would be skipped where the table has a greater one, and of two appends at the same time
    Delta accepts both. A transaction that has looked for the version is refused if another one commits it meanwhile.

    Args:
        spark: the session that reaches the table.
        path: the table's folder.
        app_id: the transaction id.
        version: the transaction version, which stands for an owner of the table.
        take: commit it also if the table has another one.

    Raises:
        SinkError: other writers came first at each attempt.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 -- a commit without rows is not part of Delta's Python interface
    delta, nothing = jvm.org.apache.spark.sql.delta, jvm.scala.Option.empty()
    manual = getattr(delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    found = version

    def commit() -> None:
        nonlocal found
        transaction = delta.DeltaLog.forTable(spark._jsparkSession, path).startTransaction(nothing, nothing)  # noqa: SLF001 -- as above
        found = int(transaction.txnVersion(app_id))
        if found != version and (found < 0 or take):
            actions = jvm.java.util.ArrayList()
            actions.add(delta.actions.SetTransaction(app_id, version, nothing))
            transaction.commit(jvm.org.apache.spark.api.python.PythonUtils.toSeq(actions), manual)
            found = version

    repeat_while_others_commit(path, commit)
    return found


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


def _settings_of(transaction: str, number: int) -> dict[str, str]:
    """Return the settings under which a commit of this session is one of a transaction id and version."""
    return {
        "spark.databricks.delta.write.txnAppId": transaction,
        "spark.databricks.delta.write.txnVersion": str(number),
    }
