"""One Delta table by Spark: what its log says, and commits, each once, repeated where another writer came first."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from delta import exceptions
from delta.tables import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import READ_SETTINGS, activate, session_settings
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.batch_output import read_whole
from panekeeper.framework.engine.sink.delta_log import LOG
from panekeeper.framework.engine.sink.gone_tables import is_gone
from panekeeper.framework.engine.sink.library_table import PAUSES_S, REPLACED
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.state.checkpoint.folder import LocalFolder, local_path
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LARGE_OUTPUT = "[0-9a-f]{32}"
"""The name of a folder in a table on S3 with the files of one large output, as a pattern."""
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


def is_delta_table(spark: SparkSession, path: str) -> bool:
    """Return whether there is a Delta table in a folder. Raises `SinkError` if it cannot be read."""
    local = local_path(path)
    try:
        if local is not None and (local / LOG).is_dir():
            # As Delta finds, which reads the whole log for it. A commit that failed leaves a folder without commits.
            return not is_gone(LocalFolder(local))
        if local is not None and not any((folder / LOG).exists() for folder in local.parents):
            return False
        activate(spark)
        return bool(DeltaTable.isDeltaTable(spark, path))
    except Exception as error:
        raise unreadable_table(path, error) from error


def unreadable_table(path: str, error: Exception) -> SinkError:
    """Return the error of a table that Spark cannot read."""
    return SinkError(
        f"the Delta table {path} cannot be read. If a newer program has changed it, take a version of Delta that has "
        "its features; if its log is damaged, put a copy of the table back, or move its folder away and restore a "
        f"savepoint\n{all_said(error)}"
    )


def read_table(spark: SparkSession, path: str) -> TableAtVersion:
    """Return a table as it is now. Its transactions are read when one is first asked for, by a Spark job."""
    try:
        snapshot = _snapshot(spark, path)
        protocol = snapshot.protocol()
        snapshot.deltaLog().protocolRead(protocol)
        known = cache(partial(_transactions, spark, snapshot))
        return TableAtVersion.of_actions(
            path,
            int(snapshot.version()),
            json.loads(snapshot.metadata().json())["metaData"],
            json.loads(protocol.json())["protocol"],
            lambda app_id: known().get(app_id, -1),
        )
    except Exception as error:
        raise unreadable_table(path, error) from error


def transactions_of(spark: SparkSession, path: str) -> dict[str, int]:
    """Return id -> last version of all transactions of a table. Runs a Spark job."""
    return _transactions(spark, _snapshot(spark, path))


def _transactions(spark: SparkSession, snapshot: Any) -> dict[str, int]:
    jvm: Any = spark._jvm  # noqa: SLF001 -- the log is not part of Delta's Python interface
    transactions = jvm.scala.jdk.javaapi.CollectionConverters.asJava(snapshot.transactions())
    return {str(app_id): int(version) for app_id, version in dict(transactions).items()}


def _snapshot(spark: SparkSession, path: str) -> Any:
    activate(spark)
    jvm: Any = spark._jvm  # noqa: SLF001 -- the log is not part of Delta's Python interface
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # noqa: SLF001 -- as above
    nothing = jvm.scala.Option.empty()
    return log.update(False, nothing, nothing)


def append(
    frame: DataFrame, path: str, transaction: str, number: int, *, require_recorded: Callable[[], None] = lambda: None
) -> None:
    """Append rows under a transaction id and version, unless the table has that version.

    `require_recorded` is called before each attempt, and raises if the table is not the recorded one any more.
    """

    def commit() -> None:
        require_recorded()
        writer = frame.write.format("delta").mode("append")
        writer.options(txnAppId=transaction, txnVersion=number).save(path)

    repeat_while_others_commit(path, commit)


def merge(  # noqa: PLR0913 -- what, where to, and how; all but three by keyword
    spark: SparkSession,
    source: DataFrame,
    path: str,
    *,
    condition: str,
    newer_by: str,
    is_copy: bool,
    transaction: str,
    number: int,
    require_recorded: Callable[[], None] = lambda: None,
) -> None:
    """Insert rows (`s` in the condition) that the table (`t`) does not have, and replace those that are older, once.

    Rows with `REPLACED` are removed from the table.

    The settings are those of the query's own session, which Spark clones for each query. Appends that run beside it
    bring their transaction as options and do not look at these settings. A row replaces one in the table unless its
    value of `newer_by` is less; null is not less than any. `is_copy`: the rows are the same each time they are read.
    `require_recorded` as for `append`.
    """
    settings = {"spark.databricks.delta.merge.materializeSource": "none" if is_copy else "auto", **READ_SETTINGS}

    # By name: rows of an earlier declaration lack the columns of one that another start has recorded meanwhile.
    every: dict[str, Any] = {quoted(name): f"s.{quoted(name)}" for name in source.columns if name != REPLACED}
    has_replaced = REPLACED in source.columns

    def commit() -> None:
        require_recorded()
        merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), condition)
        merge = merge.whenMatchedDelete(f"s.{REPLACED}") if has_replaced else merge
        merge = merge.whenMatchedUpdate(f"coalesce(s.{newer_by} >= t.{newer_by}, true)", every)
        merge.whenNotMatchedInsert(f"NOT s.{REPLACED}" if has_replaced else "true", every).execute()

    with session_settings(spark, settings | _settings_of(transaction, number)):
        repeat_while_others_commit(path, commit)


def delete_all(spark: SparkSession, path: str, transaction: str) -> None:
    """Remove all rows under a transaction id, once: whoever repeats it later removes nothing.

    The settings of the session are for this commit meanwhile.
    """
    with session_settings(spark, _settings_of(transaction, 0)):
        repeat_while_others_commit(path, DeltaTable.forPath(spark, path).delete)
    own(spark, path, transaction, 0, take=False)  # also if there was no row, and so no commit


def own(spark: SparkSession, path: str, app_id: str, version: int, *, take: bool) -> int:
    """Commit a version, which stands for an owner, unless the table has one or `take`; return the one that it has then.

    An append under the version would be skipped, without an error, where the table has a greater one, and take the
    place of a smaller one. This says whose the table is. Delta refuses a commit if another one has committed a version
    of an id meanwhile that the first one has looked for: then it is looked for again.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 -- a commit without rows is not part of Delta's Python interface
    delta, nothing = jvm.org.apache.spark.sql.delta, jvm.scala.Option.empty()
    manual = getattr(delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    stored_version = version

    def commit() -> None:
        nonlocal stored_version
        transaction = delta.DeltaLog.forTable(spark._jsparkSession, path).startTransaction(nothing, nothing)  # noqa: SLF001 -- as above
        stored_version = int(transaction.txnVersion(app_id))
        if stored_version != version and (stored_version < 0 or take):
            actions = jvm.java.util.ArrayList()
            actions.add(delta.actions.SetTransaction(app_id, version, nothing))
            transaction.commit(jvm.org.apache.spark.api.python.PythonUtils.toSeq(actions), manual)
            stored_version = version

    repeat_while_others_commit(path, commit)
    return stored_version


def repeat_while_others_commit(
    path: str, commit: Callable[[], None], *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Commit; if another writer came first, as an OPTIMIZE of the table, wait a little and commit again.

    Delta has then committed nothing, and the transaction version keeps a repetition from standing twice.
    """
    for pause in (*PAUSES_S, None):
        try:
            commit()
        except _CONFLICTS as error:
            if pause is None:
                raise SinkError(
                    f"the table {path} could not be committed to, because other writers came first at each of "
                    f"{len(PAUSES_S) + 1} attempts. Start the job again when they have ended: it resumes with the same "
                    f"batch\n{all_said(error)}"
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


def write_files(rows: DataFrame, table: str, count: int | None) -> list[AddAction] | None:
    """Write rows to a new folder in a table, of which the table knows nothing yet; return its files, to be committed.

    None: the table lacks columns by now, or the files have not `count` rows, as some ways in which Spark writes files
    leave those of failed tasks; then Spark has to commit the rows. A process that is killed before they are committed
    leaves the files for a VACUUM, or for `panekeeper maintain`.
    """
    spark = rows.sparkSession
    if not _types_of(rows.schema).items() <= _types_of(spark.read.format("delta").load(table).schema).items():
        return None
    name = uuid.uuid4().hex  # not hidden: a VACUUM passes over what is
    rows.write.parquet(f"{table}/{name}")
    written = read_whole(spark.read, f"{table}/{name}")
    counted = written.groupBy(F.input_file_name().alias("file")).agg(F.count("*").alias("rows")).collect()
    counts = {row["file"].rpartition("/")[2]: row["rows"] for row in counted}
    if count is not None and sum(counts.values()) != count:
        _log.warning("%s/%s has %s rows, not %s, and is not committed", table, name, sum(counts.values()), count)
        return None
    return [
        AddAction(
            path=f"{name}/{file.getPath().getName()}",
            size=file.getLen(),
            partition_values={},
            modification_time=file.getModificationTime(),
            data_change=True,
            stats=json.dumps({"numRecords": counts[file.getPath().getName()]}),
        )
        for file in _listed(spark, f"{table}/{name}")
        if counts.get(file.getPath().getName())
    ]


def _types_of(schema: StructType) -> dict[str, str]:
    return {column.name: column.dataType.simpleString() for column in schema.fields}


def _listed(spark: Any, folder: str) -> list[Any]:
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)  # noqa: SLF001 -- sizes are not part of Spark's Python interface
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- as above
    return list(files.listStatus(path))
