"""The Delta tables of one run, and the one way to write to them, with two writers behind it.

The library (`library_table.py`) writes what is in the driver to tables that it may be trusted with, which stay open;
Spark (`spark_table.py`) all else. Both write the same transaction ids, so each skips what the other has committed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
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
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.state.checkpoint.job_record import OWNER
from panekeeper.state.log import logger
from panekeeper.state.table_roles import is_owned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from panekeeper.state.prepared import TableWrite

_DEFAULT_PROPERTIES = "spark.databricks.delta.properties.defaults."
_log = logger("sink")


@dataclass(frozen=True)
class DeltaTables:
    """Reads and commits. Different tables may be committed to from different threads.

    `session_lock` is held while the settings of the query's session are those of one commit.
    """

    _open: dict[str, LibraryTable | None] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)
    session_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def append(
        self,
        spark: SparkSession,
        rows: pa.Table | DataFrame,
        write: TableWrite,
        number: int,
        *,
        job: str,
        count: int | None = None,
    ) -> None:
        """Append rows of a batch, once. `job` is the id of its checkpoint; `count`: how many rows Spark is to write."""
        if isinstance(rows, pa.Table):
            with self.library(spark, write.path) as table:
                if table is not None:
                    table.require_as_recorded(write.table, write.transaction, write.after)
                    table.append(rows, write.transaction, number)
                    return
        elif self._shares_on_s3(write) and self._append_files(spark, rows, write, number, count):
            return
        reason = self._refused.get(write.path) if self._shares_on_s3(write) else None
        if reason and self.last_transaction(spark, write.path, OWNER) != int(job, 16):
            raise OutputNotWritable(
                f"{write.path} cannot be written: {reason}; and a commit by Spark might take the place of one of "
                "another job that shares the table. Start the job again when that is over: it resumes with the same "
                "batch"
            )
        spark_table.append(
            as_frame(spark, rows),
            write.path,
            write.transaction,
            number,
            require_recorded=partial(self._require_as_recorded, spark, write, number),
        )
        self.reopen(write.path)

    def merge(self, spark: SparkSession, newest: pa.Table | DataFrame, write: TableWrite, number: int) -> None:
        """Write the newest rows of a batch, each unless that in the table is newer; once."""
        keys, newer_by, since = list(write.keys or ()), write.newer_by or "", write.since
        same = [f"t.{quoted(name)} <=> s.{quoted(name)}" for name in keys] or ["true"]
        if isinstance(newest, pa.Table):
            with self.library(spark, write.path) as table:
                if table is not None:
                    table.require_as_recorded(write.table, write.transaction, write.after)
                    table.merge(newest, write.transaction, number, keys=keys, newer_by=newer_by, since=since)
                    return
            if since is not None and (begin := lowest(newest, since)) is not None:
                # Holds for all the panes of this batch, and spares Delta old files.
                same.append(f"t.{since} >= timestamp_micros({begin.value})")
        with self.session_lock:
            spark_table.merge(
                spark,
                as_frame(spark, newest),
                write.path,
                condition=" AND ".join(same),
                newer_by=newer_by,
                is_copy=isinstance(newest, pa.Table),
                transaction=write.transaction,
                number=number,
                require_recorded=partial(self._require_as_recorded, spark, write, number),
            )
        self.reopen(write.path)
        done = self.last_transaction(spark, write.path, write.transaction)
        require_not_fenced(write.path, number, done)  # Spark has skipped it
        if done < number:  # all rows are older
            spark_table.own(spark, write.path, write.transaction, number, take=True)
            self.reopen(write.path)

    def _require_as_recorded(self, spark: SparkSession, write: TableWrite, number: int) -> None:
        """Refuse a table that is gone, which Spark would make anew, or that was replaced since the last batch (A6).

        Refuse one, too, in which a later epoch has begun (A2): Spark would skip the batch without an error.
        """
        if not spark_table.is_delta_table(spark, write.path):
            raise SinkError(
                f"the {write.role} {write.path} is gone. Mount its volume or put the table back, and start the job "
                "again: it resumes with the same batch; or restore a savepoint"
            )
        table = spark_table.read_table(spark, write.path)
        newest = table.last_transaction(write.transaction)
        require_recorded(write.path, write.table, table.id, write.after, newest)
        require_not_fenced(write.path, number, newest)

    def note(self, spark: SparkSession, path: str, transactions: Mapping[str, int]) -> None:
        """Commit transactions without rows, unless the table has that version of them, or a later one."""
        with self.library(spark, path) as table:
            if table is not None:
                table.note(transactions)
                return
        nothing = spark.read.format("delta").load(path).limit(0)
        for app_id, version in transactions.items():
            spark_table.append(nothing, path, app_id, version)

    def own(self, spark: SparkSession, path: str, owner: int, *, take: bool) -> int:
        """Commit the number of an owner unless the table has one, or `take`; return the one that it has then."""
        with self.library(spark, path) as table:
            if table is not None:
                return table.own(OWNER, owner, take=take)
        current_owner = spark_table.own(spark, path, OWNER, owner, take=take)
        self.reopen(path)
        return current_owner

    def read(self, spark: SparkSession, path: str) -> TableAtVersion:
        """Return a table as it is now. The library reads what it writes: Spark takes ten times as long.

        Raises `SinkError` if it cannot be read.
        """
        self.reopen(path)
        with self.library(spark, path) as table:
            if table is not None:
                return self.with_transactions(spark, table.newest)
        return self.with_transactions(spark, spark_table.read_table(spark, path))

    def with_transactions(self, spark: SparkSession, table: TableAtVersion) -> TableAtVersion:
        """Return a table whose transactions the library is asked for, as `last_transaction`, if it writes the table."""

        def last_transaction(app_id: str) -> int:
            with self.library(spark, table.path) as opened:
                if opened is not None:
                    return opened.last_transaction(app_id)
            return table.last_transaction(app_id)

        return replace(table, last_transaction=last_transaction)

    def last_transaction(self, spark: SparkSession, path: str, app_id: str) -> int:
        """Return the last version that a table has of a transaction id; -1 if there is none."""
        with self.library(spark, path) as table:
            if table is not None:
                return table.last_transaction(app_id)
        return spark_table.transactions_of(spark, path).get(app_id, -1)

    def has_rows(self, spark: SparkSession, path: str) -> bool:
        """Return whether a table has rows, by the statistics of its files; by a query, if they do not say."""
        with self.library(spark, path) as table:
            if table is not None and (rows := table.row_count()) is not None:
                return rows > 0
        return not spark.read.format("delta").load(path).isEmpty()

    def create(
        self, spark: SparkSession, path: str, schema: StructType, properties: Mapping[str, str]
    ) -> TableAtVersion | None:
        """Create an empty table and return it; None where the library would make another one than Spark."""
        if _DEFAULT_PROPERTIES in spark.conf._jconf.getAllAsJava().toString():  # noqa: SLF001 -- one by one takes long
            return None
        try:
            with panic_as_unsupported():
                made = create_table(path, _options(spark, path), schema.json(), properties)
                return self.with_transactions(spark, made)
        except UnsupportedTable as reason:
            _log.info("%s: Spark creates this table: %s", path, reason)
            return None

    def reopen(self, path: str) -> None:
        """Take note that Spark has committed to a table."""
        if (table := self._open.get(path)) is not None:
            table.reopen()

    def is_only_for_spark(self, spark: SparkSession, path: str) -> bool:
        """Return whether a table is on S3 and the library cannot write it, as for credentials it does not take."""
        if is_s3(path):
            with self.library(spark, path) as table:
                return table is None
        return False

    @contextmanager
    def library(self, spark: SparkSession, path: str) -> Iterator[LibraryTable | None]:
        """Provide a table for one commit by the library, or for a read; None: Spark must do it.

        Spark must, too, if the block does not come to its end: a table that turns out to be none for the library ends
        it without an error. It is none for the rest of the run, unless only its store did not respond.
        """
        if self._open.get(path, ...) is not None:
            self._refused.pop(path, None)
        with self._left_to_spark(path):
            if path not in self._open:
                self._open[path] = LibraryTable(path, _options(spark, path))
        with self._left_to_spark(path):
            yield self._open.get(path)

    @contextmanager
    def _left_to_spark(self, path: str) -> Iterator[None]:
        """Take note of why a table is left to Spark, if the block finds that out, which then ends without an error."""
        try:
            with panic_as_unsupported():
                yield
        except UnreachableTable as reason:
            _log.warning("%s: Spark may reach this table: %s", path, reason)
            self._refused[path] = str(reason)
        except UnsupportedTable as reason:
            _log.info("%s: Spark makes all commits to this table: %s", path, reason)
            self._open[path], self._refused[path] = None, str(reason)

    @staticmethod
    def _shares_on_s3(write: TableWrite) -> bool:
        """Return whether Spark's commit may replace one of another job: on S3, where jobs may share the table."""
        return not is_owned(write.role) and is_s3(write.path)

    def _append_files(
        self, spark: SparkSession, rows: DataFrame, write: TableWrite, number: int, count: int | None
    ) -> bool:
        """Append many rows, which Spark writes and the library commits, if it takes them."""
        done: int | None = None
        with self.library(spark, write.path) as table:
            done = None if table is None else table.last_transaction(write.transaction)
        if done is None or done >= number:
            return done is not None
        files = spark_table.write_files(rows, write.path, count)
        if files is not None:
            with self.library(spark, write.path) as table:
                if table is not None:
                    table.require_as_recorded(write.table, write.transaction, write.after)
                    table.append_files(files, write.transaction, number)
                    return True
        return False


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
    settings = {name: hadoop.get(f"fs.s3a.{name}") for name in S3A_SETTINGS}
    return storage_options({name: value for name, value in settings.items() if value})
