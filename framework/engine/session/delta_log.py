"""What Delta's own log of a table says, read through Spark, or as files: nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from framework.declarations.errors import SinkError
from framework.engine.session.spark_errors import first_line
from state.checkpoint.folder import LocalFolder, local_path, parse_json
from state.checkpoint.job_record import TRANSACTION

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from state.spark_logs.lines import LogFolder

LOG = "_delta_log"
NOTE = "userMetadata"
"""Field of Delta's for a note in the first line of a commit."""
_LINES: Mapping[str, Sequence[str]] = {
    "add": (
        "numTargetFilesAdded",
        "numTargetDeletionVectorsAdded",
        "numAddedFiles",
        "numRestoredFiles",
        "numRestoredFile",
    ),
    "remove": ("numTargetFilesRemoved", "numTargetDeletionVectorsAdded", "numRemovedFiles", "numRemovedFile"),
}
"""Action -> metrics of a commit by Spark, or of a RESTORE by the library, which say how many lines it has at least."""
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
    """Return the error of a table whose log, or newest files, were cut short; None if not. `path` is its folder."""
    local = local_path(path)
    damage = None if local is None else cut_short_commit(LocalFolder(local)) or _cut_short_file(LocalFolder(local))
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
    return f"{LOG}/{commit} in {table.root} {what}, and what was in it is lost: {_without(int(commit[:20]))}"


def _without(version: int) -> str:
    return f"remove {LOG}/_last_checkpoint and all files in {LOG} whose number is {version} or greater"


def _cut_short_file(table: LocalFolder) -> str | None:
    """Return what to do about a file of rows that was cut short, or is gone, of what a power cut can have taken.

    That is what the newest commit of a job has added, whose batch is recorded, and what came after it.
    """
    _, commits = _newest_files(table)
    removed: set[str] = set()
    for one in reversed(commits):
        actions = _actions(table.read(f"{LOG}/{one}.json")) or []
        for added in _parts(actions, "add"):
            path, size = unquote(str(added.get("path"))), added.get("size")
            if ":/" in path or path in removed or size == _size(table.path / path):  # of a shallow clone: elsewhere
                continue
            return (
                f"{path} in {table.root} was cut short, as by a power cut, or is gone, and the rows in it are lost; "
                f"it was written as version {int(one)} of the table: {_without(int(one))}"
            )
        removed |= {unquote(str(gone.get("path"))) for gone in _parts(actions, "remove")}
        info = next(iter(_parts(actions, "commitInfo")), {})
        if _NOTE.fullmatch(str(info.get(NOTE))):
            break
    return None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def first_cut_short(table: LogFolder, version: int | None = None) -> str | None:
    """Return the name of the first commit that is read for a version of a table and was cut short; None: none was.

    Args:
        table: its folder.
        version: of the table; its newest one, if not given.
    """
    if local_path(table.root) is None:
        return None
    checkpoint, commits = _newest_files(table, version)
    empty: dict[str, str] = {}
    for name in (f"{one}.json" for one in commits if one > checkpoint):
        actions = _actions(table.read(f"{LOG}/{name}"))
        if not actions or not _is_whole(actions):
            return next(iter(empty.values()), name)
        for transaction in _parts(actions, "txn"):
            empty.pop(note_of(str(transaction.get("appId")), transaction.get("version", -1)), None)
        if (note := _note_of_nothing(actions)) is not None:
            empty[note] = name
    if version is None and empty and [*empty.values()][-1] == f"{commits[-1]}.json":
        empty.popitem()  # the batch is written again
    return next(iter(empty.values()), None)


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


def _actions(content: bytes) -> list[dict[str, Any]] | None:
    """Return the actions of a commit; None if it was cut within a line."""
    try:
        actions = [parse_json(line) for line in content.splitlines() if line]
    except ValueError:
        return None
    return actions if all(isinstance(action, dict) for action in actions) else None


def _parts(actions: Iterable[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return what the actions of a kind say."""
    return [one[kind] for one in actions if isinstance(one.get(kind), dict)]


def _is_whole(actions: list[dict[str, Any]]) -> bool:
    """Return whether a commit that was not cut within a line has all its lines. One of a job says what it has."""
    info = next(iter(_parts(actions, "commitInfo")), {})
    if info.get("operation") in ("OPTIMIZE", "RESTORE"):  # an OPTIMIZE that comes of a merge has the note of that, too
        return _has_all_files(info, actions)
    note = _NOTE.fullmatch(str(info.get(NOTE)))
    if note is None or _note_of_nothing(actions) is not None:
        return True
    return note[1] in {one.get("appId") for one in _parts(actions, "txn")} and _has_all_files(info, actions)


def _note_of_nothing(actions: list[dict[str, Any]]) -> str | None:
    """Return the note of a commit of a job that has lost all else: the batch must be in a later one."""
    info = next(iter(_parts(actions, "commitInfo")), {})
    has_anything = any(_parts(actions, kind) for kind in ("txn", "add", "remove"))
    note = None if has_anything else _NOTE.fullmatch(str(info.get(NOTE)))
    return None if note is None else note[0]


def _has_all_files(info: Mapping[str, Any], actions: list[dict[str, Any]]) -> bool:
    """Return whether a commit has as many files as it says, if it does. The library writes the transaction last."""
    metrics = info.get("operationMetrics") or {}
    if "numFiles" in metrics:
        return _has_all_rows(metrics, _parts(actions, "add"))
    wanted = {kind: sum(int(metrics.get(name, 0)) for name in names) for kind, names in _LINES.items()}
    return all(len(_parts(actions, kind)) >= lines for kind, lines in wanted.items())


def _has_all_rows(metrics: Mapping[str, Any], added: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the files of an append have as many rows as it says.

    It counts its files, too; but with one that its first task writes in any case, and that is not added without rows.
    """
    statistics = [json.loads(one.get("stats") or "{}") for one in added]
    if not all("numRecords" in one for one in statistics):  # a session may collect none
        return len(added) + 1 >= int(metrics["numFiles"])
    rows: int = sum(one["numRecords"] for one in statistics)
    return rows >= int(metrics.get("numOutputRows", 0))


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
