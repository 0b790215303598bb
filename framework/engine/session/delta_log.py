"""What Delta's own log of a table says, read through Spark, or as files: nothing is written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import SinkError
from framework.engine.session.spark_errors import first_line
from state.checkpoint.folder import LocalFolder, local_path, parse_json
from state.checkpoint.job_record import TRANSACTION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from state.spark_logs.lines import LogFolder

LOG = "_delta_log"
NOTE = "userMetadata"
"""Field of Delta's for a note in the first line of a commit."""
_FILES = {
    "numFiles": "add",
    "numTargetFilesAdded": "add",
    "numTargetFilesRemoved": "remove",
    "numAddedFiles": "add",
    "numRemovedFiles": "remove",
}
"""Metric of a commit by Spark -> of which action it has so many lines, or more where a file has a deletion vector."""
_NOTE = re.compile(rf"({TRANSACTION.pattern}):\d+")
_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\..*parquet)")


def is_delta_table(spark: SparkSession, path: str) -> bool:
    """Return whether there is a Delta table in a folder.

    Args:
        spark: the session that reaches the folder.
        path: the folder.

    Raises:
        SinkError: there is one, and it cannot be read.
    """
    from delta.tables import DeltaTable

    try:
        return bool(DeltaTable.isDeltaTable(spark, path))
    except Exception as error:
        raise unreadable_table(path, error) from error


def unreadable_table(path: str, error: Exception) -> SinkError:
    """Return the error of a table that cannot be read.

    Args:
        path: its folder.
        error: of Spark.
    """
    return damaged_log(path) or SinkError(
        f"the Delta table {path} cannot be read: {first_line(error)}. If a newer program has changed it, take a "
        "version of Delta that has the table's features, or remove the feature; it has kept its rows"
    )


def damaged_log(path: str) -> SinkError | None:
    """Return the error of a table whose log was cut short; None if it was not. `path` is its folder."""
    local = local_path(path)
    damage = None if local is None else cut_short_commit(LocalFolder(local))
    if damage is None:
        return None
    return SinkError(f"{damage}, and start the job again, which runs an unfinished batch again")


def cut_short_commit(table: LogFolder) -> str | None:
    """Return what to do about a commit of a table that was cut short, or is gone, as a sentence without its end.

    None: there is none such.

    Neither Spark nor the library makes the operating system write through: a power cut may leave the name of the last
    commits, and not what was in them. Delta then reads no version of the table, or takes an empty one for a commit of
    nothing. No object store does this.

    Args:
        table: its folder.
    """
    commit = first_cut_short(table)
    what = "was cut short, as by a power cut"
    if commit is None and (commit := _missing_commit(table)) is not None:
        what = "is missing, and later ones are there, or a checkpoint of the log that needs it"
    if commit is None:
        return None
    return (
        f"{LOG}/{commit} in {table.root} {what}, and what was in it is lost: remove {LOG}/_last_checkpoint and all "
        f"files in {LOG} whose number is {int(commit[:20])} or greater"
    )


def first_cut_short(table: LogFolder, version: int | None = None) -> str | None:
    """Return the name of the first commit that is read for a version of a table and was cut short; None: none was.

    Args:
        table: its folder.
        version: of the table; its newest one, if not given.
    """
    if local_path(table.root) is None:
        return None
    checkpoint, commits = _newest_files(table, version)
    read = (one for one in commits if one > checkpoint)
    return next((f"{one}.json" for one in read if not _is_commit(table.read(f"{LOG}/{one}.json"))), None)


def _missing_commit(table: LogFolder) -> str | None:
    """Return the name of the first commit that a table lacks; None: it lacks none."""
    if local_path(table.root) is None:
        return None
    found = {_gap(*_newest_files(table)) for _ in range(2)}  # a commit that is made now may be in no list of names
    gap = found.pop()
    return None if found or gap is None else f"{gap:020d}.json"  # of two that differ, the first one was none


def _gap(checkpoint: str, commits: list[str]) -> int | None:
    if checkpoint and not commits:
        return int(checkpoint)  # Delta reads no version without its commit
    numbers = sorted({int(one) for one in (checkpoint, *commits) if one})
    return next((one + 1 for one, after in pairwise(numbers) if after != one + 1), None)


def _newest_files(table: LogFolder, version: int | None = None) -> tuple[str, list[str]]:
    """Return the number of the newest checkpoint of the log, "" for none, and those of commits from it on, in order.

    Args:
        table: its folder.
        version: of the table, after which nothing counts.
    """
    last = "9" * 20 if version is None else f"{version:020d}"
    found = [match for name in table.names(LOG) if (match := _VERSION.fullmatch(name)) and match[1] <= last]
    checkpoint = max((one[1] for one in found if one[2] != "json"), default="")
    return checkpoint, sorted(one[1] for one in found if one[2] == "json" and one[1] >= checkpoint)


def note_of(transaction: str, number: int) -> str:
    """Return the note in a commit of a job: it has this transaction, in a later line, or has lost its end."""
    return f"{transaction}:{number}"


def _is_commit(content: bytes) -> bool:
    """Return whether this is a whole commit. One of a job that was cut between two lines lacks a part, as it says."""
    try:
        actions = [parse_json(line) for line in content.splitlines() if line]
    except ValueError:
        return False
    if not actions or not all(isinstance(action, dict) for action in actions):
        return False
    info: dict[str, Any] = next((one["commitInfo"] for one in actions if isinstance(one.get("commitInfo"), dict)), {})
    note, kinds = _NOTE.fullmatch(str(info.get(NOTE))), Counter(kind for one in actions for kind in one)
    if info.get("operation") == "OPTIMIZE":  # one that Delta makes after a merge has the note of that, too
        return _has_all_files(info, kinds)
    if note is None:
        return True
    if not any(note[1] == (one.get("txn") or {}).get("appId") for one in actions):
        return not kinds["add"] + kinds["remove"]  # it has nothing: the batch is written again
    return _has_all_files(info, kinds)


def _has_all_files(info: Mapping[str, Any], kinds: Mapping[str, int]) -> bool:
    """Return whether a commit has as many files as it says, if it does. The library writes the transaction last."""
    metrics = info.get("operationMetrics") or {}
    if metrics.get("numOutputRows") == "0":  # a file without rows is counted, and not added
        return True
    return all(kinds[kind] >= int(metrics.get(name, 0)) for name, kind in _FILES.items())


def table_metadata(spark: SparkSession, path: str) -> Mapping[str, Any]:
    """Return the metadata of a table as its log has it: `schemaString`, `configuration`, `partitionColumns`, ...

    Raises an error of Spark's if this version of Delta cannot read the table.

    Args:
        spark: the session that reaches the table.
        path: the table's folder.
    """
    snapshot = _snapshot(spark, path)
    snapshot.deltaLog().protocolRead(snapshot.protocol())
    metadata: Mapping[str, Any] = json.loads(snapshot.metadata().json())["metaData"]
    return metadata


def last_transaction(spark: SparkSession, path: str, app_id: str) -> int:
    """Return the last version that a table has of a transaction id; -1 if there is none. Runs a Spark job.

    Args:
        spark: the session that reaches the table.
        path: the table's folder.
        app_id: the transaction id.
    """
    version = _snapshot(spark, path).transactions().get(app_id)
    return int(version.get()) if version.isDefined() else -1


def transactions(spark: SparkSession, path: str) -> dict[str, int]:
    """Return id -> last version of all transactions of a table. Runs a Spark job.

    Args:
        spark: the session that reaches the table.
        path: the table's folder.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 -- the log is not part of Delta's Python interface
    found = jvm.scala.jdk.javaapi.CollectionConverters.asJava(_snapshot(spark, path).transactions())
    return {str(one): int(version) for one, version in dict(found).items()}


def _snapshot(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001 -- the log is not part of Delta's Python interface
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # noqa: SLF001 -- as above
    nothing = jvm.scala.Option.empty()
    return log.update(False, nothing, nothing)
