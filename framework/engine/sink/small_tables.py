"""Which tables of a job take small commits: opened once a run; where that cannot be, Spark commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from framework.engine.session.s3_settings import is_s3
from framework.engine.sink.small_commit_checks import UnsupportedTable
from framework.engine.sink.small_commit_storage import S3A_SETTINGS, storage_options
from framework.engine.sink.small_commits import SmallCommits
from state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logger("sink")


@dataclass(frozen=True)
class SmallTables:
    """The tables of one run, by path. Different tables may be committed to from different threads."""

    _tables: dict[str, SmallCommits | None] = field(default_factory=dict)

    def commit(self, spark: SparkSession, path: str, act: Callable[[SmallCommits], object]) -> bool:
        """Commit without a Spark job, if the table takes that.

        Args:
            spark: the session that reaches the table.
            path: the table's folder.
            act: makes one commit.

        Returns:
            Whether `act` has done it; False: Spark must, and must for the rest of the run.

        Raises:
            SinkError: a later epoch of the job has begun.
        """
        try:
            if path not in self._tables:
                self._tables[path] = SmallCommits(path, _options(spark, path))
            table = self._tables[path]
            if table is None:
                return False
            act(table)
        except UnsupportedTable as reason:
            _log.info("%s: Spark makes all commits to this table: %s", path, reason)
            self._tables[path] = None
            return False
        return True

    def reopen(self, path: str) -> None:
        """Take note that Spark has committed to a table."""
        table = self._tables.get(path)
        if table is not None:
            table.reopen()


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
