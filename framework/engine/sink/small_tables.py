"""Which tables of a job take small commits: opened once a run; where that cannot be, Spark commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import deltalake
from delta.tables import DeltaTable
from deltalake.exceptions import DeltaError

from panekeeper.framework.declarations.errors import OutputNotWritable
from panekeeper.framework.engine.delta_log.read import last_transaction, transactions
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.sink.small_commit_checks import (
    UnreachableTable,
    UnsupportedTable,
    require_new_table,
    schema_of,
)
from panekeeper.framework.engine.sink.small_commit_storage import S3A_SETTINGS, storage_options, table_url
from panekeeper.framework.engine.sink.small_commit_table import panic_as_unsupported
from panekeeper.framework.engine.sink.small_commits import SmallCommits
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_DEFAULT_PROPERTIES = "spark.databricks.delta.properties.defaults."
_log = logger("sink")
T = TypeVar("T")


@dataclass(frozen=True)
class SmallTables:
    """The tables of one run, by path. Different tables may be committed to from different threads."""

    _tables: dict[str, SmallCommits | None] = field(default_factory=dict)
    _away: dict[str, str] = field(default_factory=dict)

    def commit(self, spark: SparkSession, path: str, act: Callable[[SmallCommits], object]) -> bool:
        """Make a commit to a table without a Spark job; return False if Spark must make it. As `call`."""
        return self.call(spark, path, lambda table: (act(table),)) is not None

    def call(self, spark: SparkSession, path: str, act: Callable[[SmallCommits], T]) -> T | None:
        """Do something with a table without a Spark job, if the library can write it.

        Args:
            spark: the session that reaches the table.
            path: the table's folder.
            act: makes one commit, or reads.

        Returns:
            What `act` returns; None: Spark must do it, and must for the rest of the run, unless the store of the table
            did not respond.

        Raises:
            SinkError: a later epoch of the job has begun.
        """
        self._away.pop(path, None)
        try:
            with panic_as_unsupported():
                if path not in self._tables:
                    self._tables[path] = SmallCommits(path, _options(spark, path))
                table = self._tables[path]
                return None if table is None else act(table)
        except UnreachableTable as reason:
            _log.warning("%s: Spark may reach this table: %s", path, reason)
            self._away[path] = str(reason)
            return None
        except UnsupportedTable as reason:
            _log.info("%s: Spark makes all commits to this table: %s", path, reason)
            self._tables[path] = None
            return None

    def require_reachable(self, path: str) -> None:
        """Require that the store of a table responded to the last `call`: else another job may commit to it meanwhile.

        Args:
            path: the table's folder, on S3, where a commit by Spark takes the place of one that came first.

        Raises:
            OutputNotWritable: it did not.
        """
        if (reason := self._away.get(path)) is not None:
            raise OutputNotWritable(
                f"{path} cannot be written: {reason}. Start the job again when the store responds: it resumes with the "
                "same batch. Spark does not commit it, as its commit might replace one of another job that shares the "
                "table"
            )

    def last_transaction(self, spark: SparkSession, path: str, app_id: str) -> int:
        """Return the last version that a table has of a transaction id; -1 if there is none.

        Args:
            spark: the session that reaches the table.
            path: the table's folder.
            app_id: the transaction id.
        """
        found = self.call(spark, path, lambda table: table.last_transaction(app_id))
        return last_transaction(spark, path, app_id) if found is None else found

    def transaction_reader(self, spark: SparkSession) -> Callable[[str, str], int]:
        """Return `last_transaction` for checks between which nobody commits: what only Spark reads is read once.

        Args:
            spark: the session that reaches the tables.
        """
        read = cache(partial(transactions, spark))

        @cache
        def last(path: str, app_id: str) -> int:
            found = self.call(spark, path, lambda table: table.last_transaction(app_id))
            return read(path).get(app_id, -1) if found is None else found

        return last

    def has_rows(self, spark: SparkSession, path: str) -> bool:
        """Return whether a table has rows, by the statistics of its files; by a query, if they do not say."""
        rows = self.call(spark, path, lambda table: table.row_count())
        return not DeltaTable.forPath(spark, path).toDF().isEmpty() if rows is None else rows > 0

    def create(self, spark: SparkSession, path: str, schema: StructType, properties: Mapping[str, str]) -> bool:
        """Create an empty table in a folder, if the library makes the same table as Spark does.

        Args:
            spark: the session that reaches the folder, and whose defaults for new tables hold.
            path: the table's folder.
            schema: its columns.
            properties: its properties.

        Returns:
            Whether it was created; False: Spark must do it.
        """
        if any(name.startswith(_DEFAULT_PROPERTIES) for name in spark.conf.getAll):
            return False
        try:
            with panic_as_unsupported():
                create_table(path, _options(spark, path), schema.json(), properties)
        except UnsupportedTable as reason:
            _log.info("%s: Spark creates this table: %s", path, reason)
            return False
        return True

    def reopen(self, path: str) -> None:
        """Take note that Spark has committed to a table."""
        table = self._tables.get(path)
        if table is not None:
            table.reopen()


def create_table(path: str, options: Mapping[str, str], schema: str, properties: Mapping[str, str]) -> None:
    """Create an empty table, unless there is one.

    Args:
        path: its folder, as for `SmallCommits`.
        options: as for `SmallCommits`.
        schema: the JSON text of its columns, as in its log.
        properties: its properties.

    Raises:
        UnsupportedTable: the library cannot write such a table, or not there; or Spark may refuse it.
    """
    require_new_table(schema_of(schema), properties)
    if "timestamp_ntz" in schema:
        raise UnsupportedTable("a column without time zone is a feature of the table")
    try:
        deltalake.DeltaTable.create(
            table_url(path),
            deltalake.Schema.from_json(schema),
            mode="ignore",
            configuration=dict(properties),
            storage_options=dict(options) or None,
        )
    except (DeltaError, OSError) as error:
        raise UnsupportedTable(f"the library cannot create it: {str(error).splitlines()[0]}") from error


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
