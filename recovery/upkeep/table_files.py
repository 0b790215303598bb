"""The files of one Delta table: small ones are compacted, and those that nothing needs are removed.

Spark compacts, not the library `deltalake`: of two of its compactions at the same time both are committed, and every
row is there twice (`docs/decisions/0014-small-commits.md`). Spark's Delta refuses the second one.

The library lists the files that no version within a retention has. It does not remove them: its own removal writes two
commits, of which one may clean up the log by rules that are not the table's. They are removed here, without a commit,
but for the files that are needed.

A retention alone does not protect the files of a savepoint: Delta drops the record of a removed file from its log
after a while, and from then on the age of the file counts, however long ago it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake import DeltaTable

from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import READ_SETTINGS, WRITE_SETTINGS, session_settings
from panekeeper.framework.engine.sink.delta_log import has_version
from panekeeper.framework.engine.sink.library_rules import files_of, open_table, table_of
from panekeeper.framework.engine.sink.spark_table import LARGE_OUTPUT, repeat_while_others_commit
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.recovery.storage.files import Files, map_parallel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETENTION = "delta.deletedFileRetentionDuration"

_TARGET_BYTES = 100 * 1024 * 1024
_OF_TABLE = re.compile(rf"({LARGE_OUTPUT}/)?[^/]+\.parquet")
"""A file of the table: it is not partitioned, so what is in other folders is somebody else's."""


def compact(spark: SparkSession, path: str) -> tuple[int, int]:
    """Replace small files by larger ones with the same rows, in one commit beside those of a running job.

    Returns how many files were replaced, and by how many.
    """
    done: list[tuple[int, int]] = []

    def commit() -> None:
        result = spark.sql(f"OPTIMIZE delta.{quoted(path)}").select("metrics.numFilesRemoved", "metrics.numFilesAdded")
        done.extend((int(removed), int(added)) for removed, added in result.collect())

    with session_settings(spark, READ_SETTINGS | WRITE_SETTINGS):
        repeat_while_others_commit(path, commit)
    return done[-1]


@dataclass(frozen=True, kw_only=True)
class UnusedFiles:
    """Files of a table that no version within the retention has: name -> size of those that may be removed.

    A needed version has so many more, and those that are `lost` cannot be read any more.
    """

    sizes: Mapping[str, int]
    kept: int
    lost: tuple[int, ...]


class DeltaFiles:
    """The files of one table, which the library can be trusted to write; else `UnsupportedTable` is raised."""

    def __init__(self, files: Files, options: Mapping[str, str]) -> None:
        self._files = files
        self._options = options
        files_of(self._open())

    @property
    def table(self) -> TableAtVersion:
        """The table as it is now."""
        return table_of(self._open(), self._files.root)

    def small_files(self) -> int:
        """Return how many files of the newest version are small enough to be compacted with another one."""
        delta = self._open()
        target = delta.metadata().configuration.get("delta.targetFileSize", "")
        limit = int(target) if target.isdecimal() else _TARGET_BYTES
        small = sum(size < limit for size in files_of(delta).column("size_bytes").to_pylist())
        return small if small > 1 else 0

    def unused(self, retained_hours: int, needed: Iterable[int]) -> UnusedFiles:
        """Return the files that no version within the retention has, nor any needed version. Nothing is changed.

        A file that is in no version is kept for as long, too, and an hour at least: its commit, by whomever, may be
        under way.
        """
        readable = {version: has_version(self._files, version) for version in needed}
        in_needed = {name for version, is_there in readable.items() if is_there for name in self._names(version)}
        delta = self._open()
        current = self._names(delta.version())
        listed = delta.vacuum(max(retained_hours, 1), dry_run=True, enforce_retention_duration=False, full=True)
        if not retained_hours:
            listed += delta.vacuum(0, dry_run=True, enforce_retention_duration=False)  # what versions have had
        unused = {name for name in map(unquote, listed) if _OF_TABLE.fullmatch(name)} - current
        there = self._files.sizes()  # the log still names files that were removed before
        unused &= set(there)
        return UnusedFiles(
            sizes={name: there[name] for name in sorted(unused - in_needed)},
            kept=len(unused & in_needed),
            lost=tuple(version for version, is_there in readable.items() if not is_there),
        )

    def remove(self, names: Iterable[str]) -> None:
        """Remove files."""
        for _ in map_parallel(self._files.remove, [*names]):
            pass

    def _names(self, version: int) -> set[str]:
        return {unquote(path) for path in files_of(self._open(version)).column("path").to_pylist()}

    def _open(self, version: int | None = None) -> DeltaTable:
        return open_table(self._files.root, self._options, version)
