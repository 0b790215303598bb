"""The Delta tables of one run, and the one way to write to them, with two writers behind it.

The library (`library_table.py`) writes what is in the driver to tables that it may be trusted with, which stay open;
Spark (`spark_table.py`) all else. Both write the same transaction ids, so each skips what the other has committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa

from panekeeper.framework.declarations.errors import OutputNotWritable, SinkError
from panekeeper.framework.engine.flow.pipeline import as_frame
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.sink import spark_table
from panekeeper.framework.engine.sink.library_rules import (
    S3A_SETTINGS,
    UnreachableTable,
    UnsupportedTable,
    create_table,
    panic_as_unsupported,
    storage_options,
)
from panekeeper.framework.engine.sink.library_table import (
    LibraryTable,
    lowest,
    require_not_fenced,
    require_recorded,
)
from panekeeper.state.checkpoint.job_record import OWNER
from panekeeper.state.log import logger
from panekeeper.state.table_roles import is_owned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from panekeeper.state.prepared import PreparedBatch, TableWrite

_DEFAULT_PROPERTIES = "spark.databricks.delta.properties.defaults."
_log = logger("sink")
T = TypeVar("T")


@dataclass(frozen=True)
class DeltaTables:
    """Reads and commits. Different tables may be committed to from different threads.

    `session_lock` is held while the settings of the query's session are those of one commit.
    """

    _open: dict[str, LibraryTable | None] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)
    session_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def append(self, spark: SparkSession, rows: pa.Table | DataFrame, to: TableWrite, of: PreparedBatch) -> None:
        """Append rows of a batch, once."""
        if isinstance(rows, pa.Table):
            done = self._commit_by_library(spark, to, lambda table: table.append(rows, to.transaction, of.number))
            if done is not None:
                return
        elif self._shares_on_s3(to) and self._append_files(spark, rows, to, of):
            return
        reason = self._refused.get(to.path) if self._shares_on_s3(to) else None
        if reason and self.last_transaction(spark, to.path, OWNER) != int(of.job, 16):
            raise OutputNotWritable(
                f"{to.path} cannot be written: {reason}; and a commit by Spark might take the place of one of another "
                "job that shares the table. Start the job again when that is over: it resumes with the same batch"
            )
        spark_table.append(
            as_frame(spark, rows),
            to.path,
            to.transaction,
            of.number,
            require_recorded=partial(self._require_as_recorded, spark, to, of.number),
        )
        self.reopen(to.path)

    def merge(self, spark: SparkSession, newest: pa.Table | DataFrame, to: TableWrite, number: int) -> None:
        """Write the newest rows of a batch, each unless that in the table is newer; once."""
        keys, newer_by, since = list(to.keys or ()), to.newer_by or "", to.since
        same = [f"t.{quoted(name)} <=> s.{quoted(name)}" for name in keys] or ["true"]
        if isinstance(newest, pa.Table):
            done = self._commit_by_library(
                spark,
                to,
                lambda table: table.merge(newest, to.transaction, number, keys=keys, newer_by=newer_by, since=since),
            )
            if done is not None:
                return
            if since is not None and (begin := lowest(newest, since)) is not None:
                # Holds for all the panes of this batch, and spares Delta old files.
                same.append(f"t.{since} >= timestamp_micros({begin.value})")
        with self.session_lock:
            spark_table.merge(
                spark,
                as_frame(spark, newest),
                to.path,
                condition=" AND ".join(same),
                newer_by=newer_by,
                is_copy=isinstance(newest, pa.Table),
                transaction=to.transaction,
                number=number,
                require_recorded=partial(self._require_as_recorded, spark, to, number),
            )
        self.reopen(to.path)
        newest = self.last_transaction(spark, to.path, to.transaction)
        require_not_fenced(to.path, number, newest)  # Spark has skipped it
        if newest < number:  # all rows are older
            spark_table.own(spark, to.path, to.transaction, number, take=True)
            self.reopen(to.path)

    def _commit_by_library(
        self, spark: SparkSession, to: TableWrite, act: Callable[[LibraryTable], bool]
    ) -> bool | None:
        """Commit rows of a batch to a table that is the recorded one; None: Spark must do it."""

        def commit(table: LibraryTable) -> bool:
            table.require_as_recorded(to.table, to.transaction, to.after)
            return act(table)

        return self.by_library(spark, to.path, commit)

    def _require_as_recorded(self, spark: SparkSession, to: TableWrite, number: int) -> None:
        """Refuse a table that is gone, which Spark would make anew, or that was replaced since the last batch (A6).

        Refuse one, too, in which a later epoch has begun (A2): Spark would skip the batch without an error.
        """
        if not spark_table.is_delta_table(spark, to.path):
            raise SinkError(
                f"the {to.role} {to.path} is gone. Mount its volume or put the table back, and start the job again: it "
                "resumes with the same batch; or restore a savepoint"
            )
        found, done = spark_table.table_metadata(spark, to.path), spark_table.transactions(spark, to.path)
        newest = done.get(to.transaction, -1)
        require_recorded(to.path, to.table, str(found["id"]), to.after, newest)
        require_not_fenced(to.path, number, newest)

    def note(self, spark: SparkSession, path: str, transactions: Mapping[str, int]) -> None:
        """Commit transactions without rows, unless the table has that version of them, or a later one."""
        if self.by_library(spark, path, lambda table: table.note(transactions)) is None:
            nothing = spark.read.format("delta").load(path).limit(0)
            for one, version in transactions.items():
                spark_table.append(nothing, path, one, version)

    def own(self, spark: SparkSession, path: str, owner: int, *, take: bool) -> int:
        """Commit the number of an owner unless the table has one, or `take`; return the one that it has then."""
        found = self.by_library(spark, path, lambda table: table.own(OWNER, owner, take=take))
        if found is None:
            found = spark_table.own(spark, path, OWNER, owner, take=take)
            self.reopen(path)
        return found

    def last_transaction(self, spark: SparkSession, path: str, app_id: str) -> int:
        """Return the last version that a table has of a transaction id; -1 if there is none."""
        found = self.by_library(spark, path, lambda table: table.last_transaction(app_id))
        return spark_table.transactions(spark, path).get(app_id, -1) if found is None else found

    def has_rows(self, spark: SparkSession, path: str) -> bool:
        """Return whether a table has rows, by the statistics of its files; by a query, if they do not say."""
        rows = self.by_library(spark, path, lambda table: table.row_count())
        return not spark.read.format("delta").load(path).isEmpty() if rows is None else rows > 0

    def create(
        self, spark: SparkSession, path: str, schema: StructType, properties: Mapping[str, str]
    ) -> dict[str, Any] | None:
        """Create an empty table and return its metadata; None where the library would make another one than Spark."""
        if _DEFAULT_PROPERTIES in spark.conf._jconf.getAllAsJava().toString():  # noqa: SLF001 -- one by one takes long
            return None
        try:
            with panic_as_unsupported():
                return create_table(path, _options(spark, path), schema.json(), properties)
        except UnsupportedTable as reason:
            _log.info("%s: Spark creates this table: %s", path, reason)
            return None

    def reopen(self, path: str) -> None:
        """Take note that Spark has committed to a table."""
        if (table := self._open.get(path)) is not None:
            table.reopen()

    def is_only_for_spark(self, spark: SparkSession, path: str) -> bool:
        """Return whether a table is on S3 and the library cannot write it, as for credentials it does not take."""
        return is_s3(path) and self.by_library(spark, path, lambda _: True) is None

    def by_library(self, spark: SparkSession, path: str, act: Callable[[LibraryTable], T]) -> T | None:
        """Return what `act` returns, which makes one commit, or reads; None: Spark must do it.

        It must for the rest of the run, unless the store of the table did not respond.
        """
        if self._open.get(path, ...) is not None:
            self._refused.pop(path, None)
        try:
            with panic_as_unsupported():
                if path not in self._open:
                    self._open[path] = LibraryTable(path, _options(spark, path))
                table = self._open[path]
                return None if table is None else act(table)
        except UnreachableTable as reason:
            _log.warning("%s: Spark may reach this table: %s", path, reason)
            self._refused[path] = str(reason)
        except UnsupportedTable as reason:
            _log.info("%s: Spark makes all commits to this table: %s", path, reason)
            self._open[path], self._refused[path] = None, str(reason)
        return None

    @staticmethod
    def _shares_on_s3(to: TableWrite) -> bool:
        """Return whether Spark's commit may replace one of another job: on S3, where jobs may share the table."""
        return not is_owned(to.role) and is_s3(to.path)

    def _append_files(self, spark: SparkSession, rows: DataFrame, to: TableWrite, of: PreparedBatch) -> bool:
        """Append many rows, which Spark writes and the library commits, if it takes them."""
        done = self.by_library(spark, to.path, lambda table: table.last_transaction(to.transaction))
        if done is None or done >= of.number:
            return done is not None
        files = spark_table.write_files(rows, to.path, of.large_counts.get(to.rows))
        return files is not None and (
            self._commit_by_library(spark, to, lambda table: table.append_files(files, to.transaction, of.number))
            is not None
        )


def _options(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the library's options for a table, from the settings of Spark's session for S3."""
    if not is_s3(path):
        return {}
    hadoop: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001 -- Hadoop's settings are reached through the gateway only
    bucket = urlsplit(path).netloc
    if not hadoop.getPropsWithPrefix(f"fs.s3a.bucket.{bucket}.").isEmpty():
        raise UnsupportedTable(f"the bucket {bucket} has settings of its own (fs.s3a.bucket.{bucket}.*)")
    if hadoop.get("hadoop.security.credential.provider.path"):
        raise UnsupportedTable("credentials are kept by hadoop.security.credential.provider.path")
    found = {name: hadoop.get(f"fs.s3a.{name}") for name in S3A_SETTINGS}
    return storage_options({name: value for name, value in found.items() if value})
