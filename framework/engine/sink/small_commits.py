"""Small commits: a few rows into a Delta table, without a Spark job.

Spark needs some 600 ms for a commit of a hundred rows, most of it to find the last transaction version. The library
`deltalake` writes the same files and the same log in some 10 ms. Why it, when not, and what it does not do:
docs/decisions/0014-small-commits.md.

Each commit carries a transaction id and a version, and is refused or skipped if the table has that version already:
so it may be repeated, also by Spark, and by another process. The version is read from the table's log when the table
is opened, and not before each commit. What other processes commit in between is found by the library when it
commits: it compares the transaction ids of every commit that it has not seen with ours, and refuses.

`SmallTables` has the tables of one run, which stay open; where the library cannot write one, Spark commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import deltalake
import pyarrow as pa
from delta.tables import DeltaTable
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.sink.library_table import (
    S3A_SETTINGS,
    OpenTable,
    UnreachableTable,
    UnsupportedTable,
    local_folder,
    not_committed,
    panic_as_unsupported,
    require_new_table,
    schema_of,
    storage_options,
    table_url,
)
from panekeeper.framework.engine.sink.spark_table import last_transaction, transactions
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FENCED = 2**62
"""Transaction version of an id under which nothing may be committed any more; no batch has such a number."""

PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0)
"""How long to wait for another writer before each further attempt."""

_DEFAULT_PROPERTIES = "spark.databricks.delta.properties.defaults."
_log = logger("sink")
T = TypeVar("T")


class SmallCommits:
    """Commits to one table, which stays open between them. Used by one thread at a time.

    Every method raises `UnsupportedTable` if the library cannot write the table (any more), `SinkError` if the epoch
    under which it commits was fenced off, and `deltalake`'s `DeltaError` or `OSError` if a write fails.
    """

    def __init__(
        self,
        path: str,
        options: Mapping[str, str] | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open the table.

        Args:
            path: its folder, as Spark names it: a path, a `file:` URL, or `s3a://bucket/path`.
            options: of `library_table.storage_options`, for a table on S3.
            sleep: waits for so many seconds, between two attempts.

        Raises:
            UnsupportedTable: the library cannot write it, or not there.
        """
        self._url, self._folder = table_url(path), local_folder(path)
        self._options, self._sleep = dict(options or {}), sleep
        self._readable: set[str] = set()
        self._open: OpenTable | None = None
        self._table()

    def last_transaction(self, app_id: str) -> int:
        """Return the last version under a transaction id when the table was opened, or since; -1 if there is none."""
        try:
            return self._table().version_of(app_id)
        except DeltaError:  # the library reads old commits only now: they may be cleaned up since the table was opened
            self.reopen()
            return self._table().version_of(app_id)

    def row_count(self) -> int | None:
        """Return how many rows the table has, by the statistics of its files; None if they do not say."""
        return self._table().row_count()

    def append(self, rows: pa.Table, app_id: str, version: int) -> bool:
        """Append rows, once.

        Args:
            rows: with the columns of the table, in any order.
            app_id: the transaction id.
            version: the transaction version: rises from commit to commit.

        Returns:
            Whether rows were committed now; False if the table had this version.
        """
        return self._commit(app_id, version, lambda table, once: table.append(rows, once))

    def append_files(self, files: list[AddAction], app_id: str, version: int) -> bool:
        """Append the rows of files that are in its folder, once; as `append`."""
        return self._commit(app_id, version, lambda table, once: table.commit_files(files, once))

    def merge(
        self,
        rows: pa.Table,
        app_id: str,
        version: int,
        *,
        keys: Sequence[str],
        newer_by: str,
        since: str | None = None,
    ) -> bool:
        """Insert rows whose keys the table does not have, and replace a row that is older than the given one. Once.

        If all rows are older, the transaction alone is committed: a start looks for it (A6).

        Null is a key like any other. Rows that begin after everything in the table are new by that alone, and are
        appended: see docs/decisions/0014-small-commits.md.

        Args:
            rows: with the columns of the table; no two have the same keys.
            app_id: the transaction id.
            version: the transaction version: rises from commit to commit.
            keys: columns by which rows differ; none if the table holds one row.
            newer_by: a row replaces one in the table unless its value here is less; null is not less than any.
            since: a key of type timestamp that mostly rises, if there is one: files that end before are not read.

        Returns:
            Whether anything was committed now; False if the table had this version.

        Raises:
            UnsupportedTable: a key is a floating-point number: 0.0 and NaN have several forms, which Spark takes
                for equal and the library does not.
        """
        for key in keys:
            if pa.types.is_floating(rows.schema.field(key).type):
                raise UnsupportedTable(f"its key {key!r} is a floating-point number")
        return self._commit(
            app_id, version, lambda table, once: table.merge(rows, once, keys=keys, newer_by=newer_by, since=since)
        )

    def note(self, transactions: Mapping[str, int]) -> bool:
        """Commit transactions without rows, unless the table has that version of them, or a later one.

        With version `FENCED`, nobody can commit under an id any more: not a process that was paused, nor Spark. A
        library commit under it raises `SinkError`; Spark skips its write silently.

        Args:
            transactions: id -> version.

        Returns:
            Whether the table lacked any of them until now.
        """
        return self._commit_missing(
            lambda: [Transaction(one, to) for one, to in transactions.items() if self.last_transaction(one) < to]
        )

    def own(self, app_id: str, version: int, *, take: bool) -> int:
        """Commit a transaction version unless the table has one under this id, and return the one that it has then.

        Args:
            app_id: the transaction id.
            version: which stands for an owner of the table.
            take: commit it also if the table has another one.
        """

        def missing() -> list[Transaction]:
            done = self.last_transaction(app_id)
            return [] if done == version or (done >= 0 and not take) else [Transaction(app_id, version)]

        return version if self._commit_missing(missing) else self.last_transaction(app_id)

    def reopen(self) -> None:
        """Open the table again for the next commit. To be called when the same job has committed to it by Spark."""
        self._open = None

    def _commit_missing(self, missing: Callable[[], list[Transaction]]) -> bool:
        """Commit transactions without rows, those that the table does not have; return whether there were any."""
        for pause in (*PAUSES_S, None):
            transactions = missing()
            if not transactions:
                return False
            try:
                self._table().commit_files([], CommitProperties(app_transactions=transactions))
            except CommitFailedError:
                self.reopen()  # whoever was first may have committed them: the log is read again
                if pause is None:
                    raise
                self._sleep(pause)
            else:
                self.reopen()
                return True
        raise AssertionError

    def _commit(self, app_id: str, version: int, act: Callable[[OpenTable, CommitProperties], None]) -> bool:
        once = CommitProperties(app_transactions=[Transaction(app_id, version)])
        for pause in (*PAUSES_S, None):
            done, table = self.last_transaction(app_id), self._table()
            self._require_not_fenced(done, version)
            if done >= version:
                return False
            try:
                with panic_as_unsupported():
                    act(table, once)
            except (DeltaError, OSError) as error:
                self.reopen()  # whoever was first may have committed this very version: the log is read again
                others_came_first = isinstance(error, CommitFailedError) or self._table().version != table.version
                if pause is None or not others_came_first:
                    raise not_committed(self._url, version, error, len(PAUSES_S) + 1) from error
                self._sleep(pause)
            except BaseException:
                self.reopen()
                raise
            else:
                table.committed(app_id, version)
                if table.is_checkpoint_due:
                    self._write_checkpoint(table)
                if table.is_stale or table.is_checkpoint_due:
                    self.reopen()
                return True
        raise AssertionError

    def _require_not_fenced(self, done: int, version: int) -> None:
        if done >= FENCED:
            raise SinkError(
                f"{self._url}: batch {version} is not committed, because a later epoch of the job has begun (a restore "
                "or a reset to the initial state) while this process was paused. End this process; the job that was "
                "started last goes on"
            )

    def _table(self) -> OpenTable:
        if self._open is None:
            self._open = OpenTable(self._url, self._options, self._readable)
        return self._open

    def _write_checkpoint(self, table: OpenTable) -> None:
        """Write a checkpoint of the log, and remove old commits: an error here only costs time."""
        try:
            if self._folder is not None:  # Spark's checksum of the last one would make it take the new one for damaged
                Path(self._folder, "_delta_log", "._last_checkpoint.crc").unlink(missing_ok=True)
            table.write_checkpoint()
        except (DeltaError, OSError) as error:
            _log.warning("%s: no checkpoint of the Delta log was written: %s", self._url, error)


@dataclass(frozen=True)
class SmallTables:
    """The tables of one run, by path. Different tables may be committed to from different threads."""

    _tables: dict[str, SmallCommits | None] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)

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
        if self._tables.get(path, ...) is not None:
            self._refused.pop(path, None)
        try:
            with panic_as_unsupported():
                if path not in self._tables:
                    self._tables[path] = SmallCommits(path, _options(spark, path))
                table = self._tables[path]
                return None if table is None else act(table)
        except UnreachableTable as reason:
            _log.warning("%s: Spark may reach this table: %s", path, reason)
            self._refused[path] = str(reason)
            return None
        except UnsupportedTable as reason:
            _log.info("%s: Spark makes all commits to this table: %s", path, reason)
            self._tables[path], self._refused[path] = None, str(reason)
            return None

    def refused(self, path: str) -> str:
        """Return why the last `call` for the table in a folder was left to Spark; empty if it was not."""
        return self._refused.get(path, "")

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

    def create(
        self, spark: SparkSession, path: str, schema: StructType, properties: Mapping[str, str]
    ) -> dict[str, Any] | None:
        """Create an empty table in a folder, if the library makes the same table as Spark does.

        Args:
            spark: the session that reaches the folder, and whose defaults for new tables hold.
            path: the table's folder.
            schema: its columns.
            properties: its properties.

        Returns:
            The metadata of the table, as its log has it; None: Spark must create it.
        """
        if any(name.startswith(_DEFAULT_PROPERTIES) for name in spark.conf.getAll):
            return None
        try:
            with panic_as_unsupported():
                return create_table(path, _options(spark, path), schema.json(), properties)
        except UnsupportedTable as reason:
            _log.info("%s: Spark creates this table: %s", path, reason)
            return None

    def reopen(self, path: str) -> None:
        """Take note that Spark has committed to a table."""
        table = self._tables.get(path)
        if table is not None:
            table.reopen()


def create_table(path: str, options: Mapping[str, str], schema: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Create an empty table, unless there is one; return its metadata as the log has it.

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
        made = deltalake.DeltaTable.create(
            table_url(path),
            deltalake.Schema.from_json(schema),
            mode="ignore",
            configuration=dict(properties),
            storage_options=dict(options) or None,
        )
    except (DeltaError, OSError) as error:
        raise UnsupportedTable(f"the library cannot create it: {str(error).splitlines()[0]}") from error
    found = made.metadata()
    return {
        "id": str(found.id),
        "schemaString": made.schema().to_json(),
        "configuration": found.configuration,
        "partitionColumns": found.partition_columns,
    }


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
