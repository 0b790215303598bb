"""Which versions a Delta table has, read from the files of its log. Needs no Spark."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.folder import parse_json
from panekeeper.state.checkpoint.job_record import OWNER, TRANSACTION

LOG = "_delta_log"
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.*\.)?(?:parquet|json)")
_COMMIT = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True, kw_only=True)
class SavedTable:
    """A Delta table at one version.

    Attributes:
        path: the table's path or URL.
        version: its newest version when the batch of the savepoint was its newest.
        sha256: checksum of the commit of that version: another table has another one under the same number, and so has
            a copy that was written to since; None for a table that only Spark reaches, and in older savepoints.
    """

    path: str
    version: int
    sha256: str | None = None


def newest_version(table: Files) -> int:
    """Return a table's newest version.

    Raises:
        SavepointError: there is no Delta table, or nobody can read it.
    """
    versions = _versions(table.names(LOG), _COMMIT)
    if not versions:
        raise SavepointError(
            f"{table.root} holds no Delta table ({LOG} has no commit), and the checkpoint names it as one; "
            "bring the table back, or restore the job from a savepoint"
        )
    return max(versions)


def has_version(table: Files, version: int) -> bool:
    """Return whether the log can still be read up to a version. The table's files may be gone nevertheless."""
    names = table.names(LOG)
    commits = _versions(names, _COMMIT)
    start = max((number for number in _versions(names, CHECKPOINT) if number <= version), default=-1)
    return version in commits and all(number in commits for number in range(start + 1, version + 1))


def saved_table(path: str, version: int, files: Files | None) -> SavedTable:
    """Return a table at a version; `files` is its folder, None if only Spark reaches it. As `commit_checksum`."""
    return SavedTable(path=path, version=version, sha256=None if files is None else commit_checksum(files, version))


def commit_checksum(table: Files, version: int) -> str:
    """Return the checksum of the commit of a version.

    Raises:
        SavepointError: the log does not have it any more.
    """
    try:
        return hashlib.sha256(table.read(_commit_file(version))).hexdigest()
    except FileNotFoundError as error:
        raise SavepointError(
            f"the log of {table.root} does not have version {version} any more, which belongs to the savepoint; drain "
            "the job and try again"
        ) from error


def was_restored_last(table: Files, version: int) -> bool:
    """Return whether the newest commit of a table restored it to a version, but for those of transactions alone."""
    for _, commit in newest_first(table):
        if is_restore(commit):
            return restored_version(commit) == version
        if any(not one.keys() <= {"commitInfo", "txn"} for one in commit):
            return False
    return False


def jobs_since(table: Files, version: int) -> dict[str, str]:
    """Return id of a checkpoint -> name of its job, of the jobs whose rows a table would lose or get at a version.

    Changes that no job has made have the id `""`: rows of another program, a DELETE, other columns.

    Args:
        table: the table's folder.
        version: to which it may go back. What came after it is lost, unless a restore since has discarded it; what such
            a restore has discarded from before it comes back.
    """
    jobs: dict[str, str] = {}
    kept_now = kept_then = newest_version(table)  # up to which version commits are kept
    for number, commit in newest_first(table):
        now, then = number <= kept_now, number <= min(kept_then, version)
        if now and then:
            break  # from here on both keep the same
        if is_restore(commit):
            to = restored_version(commit)
            kept_now, kept_then = (
                to if keeps and to >= 0 else kept for keeps, kept in ((now, kept_now), (then, kept_then))
            )
        elif now != then and any(map(_is_change, commit)):
            ids = [TRANSACTION.fullmatch(str(one["txn"].get("appId"))) for one in commit if "txn" in one]
            jobs |= {found[2]: found[1] for found in ids if found} or {"": ""}
    return jobs


def owner_of(transactions: Mapping[str, int]) -> str | None:
    """Return the id of the checkpoint that a table of these transactions belongs to; None if it does not say."""
    owner = transactions.get(OWNER)
    return None if owner is None else f"{owner:012x}"


def transactions_of(table: Files) -> dict[str, int]:
    """Return id -> last version of the transactions of a table; a checkpoint of its log has those before it."""
    names, found = table.names(LOG), dict[str, int]()
    checkpoint = max(_versions(names, CHECKPOINT), default=-1)
    for number, commit in newest_first(table):
        if number <= checkpoint:
            break
        for one in (one["txn"] for one in commit if "txn" in one):
            found.setdefault(str(one.get("appId")), int(one["version"]))
    for name in names:
        if _versions([name], CHECKPOINT) == {checkpoint}:
            found = {str(one["appId"]): int(one["version"]) for one in _checkpointed(table, name, "txn")} | found
    return found


def committed_at(table: Files, version: int) -> datetime | None:
    """Return when a version was committed; None if its commit was cleaned up, or does not say."""
    time = time_of(table, version) if has_version(table, version) else 0
    return datetime.fromtimestamp(time / 1000, tz=UTC) if time else None


def table_metadata(table: Files) -> dict[str, Any] | None:
    """Return the metadata of a table; a checkpoint of its log has it as of then. None if only Spark can read it."""
    checkpoint = max((name for name in table.names(LOG) if CHECKPOINT.fullmatch(name)), default="")
    later = takewhile(lambda one: f"{one[0]:020d}" > checkpoint[:20], newest_first(table))
    found = next((one["metaData"] for _, commit in later for one in commit if "metaData" in one), None)
    found = found or (next(iter(_checkpointed(table, checkpoint, "metaData")), None) if checkpoint else None)
    return None if found is None else {**found, "configuration": dict(found.get("configuration") or ())}


def table_properties(table: Files) -> dict[str, str] | None:
    """Return the properties of a table; None if they cannot be read without Spark."""
    metadata = table_metadata(table)
    return None if metadata is None else dict(metadata["configuration"])


def time_of(table: Files, version: int) -> int:
    """Return when a version was committed, in ms since the epoch; 0 if its commit was cleaned up."""
    return next((commit_time(commit) for number, commit in newest_first(table) if number <= version), 0)


def _checkpointed(table: Files, checkpoint: str, action: str) -> list[dict[str, Any]]:
    """Return the actions of a kind in a checkpoint of the log; the commits that have them may have been cleaned up."""
    if checkpoint.endswith(".json"):
        return parts(actions_of(table.read(f"{LOG}/{checkpoint}")), action)
    try:
        with table.local_copy(f"{LOG}/{checkpoint}") as file:
            column = pq.read_table(file, columns=[action]).column(action)
    except (pa.ArrowException, KeyError):
        return []
    return [one for one in column.to_pylist() if one is not None]


def _commit_file(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def _versions(names: Iterable[str], kind: re.Pattern[str]) -> set[int]:
    return {int(match[1]) for name in names if (match := kind.fullmatch(name))}


def newest_first(table: Files) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield version and actions of each commit, read one at a time: a caller may stop early in a long log."""
    for version in sorted(_versions(table.names(LOG), _COMMIT), reverse=True):
        name = _commit_file(version)
        try:
            commit = actions_of(table.read(name))
        except ValueError as error:
            raise SavepointError(
                f"{name} in {table.root} is no commit of Delta's ({error}); restore the job from a savepoint, or put a "
                "copy of the table back"
            ) from error
        yield version, commit


def batch_of_commit(commit: list[dict[str, Any]], transaction: str) -> int:
    """Return the batch of a job that a commit is, by its transaction id; -1 for none."""
    ids = [one["txn"]["version"] for one in commit if one.get("txn", {}).get("appId") == transaction]
    return max(ids, default=-1)


def commit_time(commit: list[dict[str, Any]]) -> int:
    """Return when a commit was made, in ms since the epoch; 0 if it does not say."""
    return max((one["commitInfo"].get("timestamp") or 0 for one in commit if "commitInfo" in one), default=0)


def _is_change(action: Mapping[str, Any]) -> bool:
    """Return whether an action is one of rows or columns; OPTIMIZE writes the same rows to other files."""
    files = (action[kind] for kind in ("add", "remove") if kind in action)
    return "metaData" in action or any((file or {}).get("dataChange", True) for file in files)


def is_restore(commit: list[dict[str, Any]]) -> bool:
    """Return whether a commit has taken its table back to an earlier version."""
    return operation_of(commit) == "RESTORE"


def restored_version(commit: list[dict[str, Any]]) -> int:
    """Return to which version a commit has restored its table; -1 if it does not say."""
    done: dict[str, Any] = next((one["commitInfo"] for one in commit if "commitInfo" in one), {})
    version = str((done.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else -1


def operation_of(commit: list[dict[str, Any]]) -> str | None:
    """Return what a commit was made by, as it says, such as MERGE; None if it does not say."""
    return next((one["commitInfo"].get("operation") for one in commit if "commitInfo" in one), None)


def actions_of(content: bytes) -> list[dict[str, Any]]:
    """Return the actions of a commit. Raises `ValueError` if it is none."""
    actions = [parse_json(line) for line in content.splitlines() if line]
    if not all(isinstance(action, dict) for action in actions):
        raise ValueError("a line is no JSON object")
    return actions


def parts(actions: Iterable[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return what the actions of a kind say."""
    return [one[kind] for one in actions if isinstance(one.get(kind), dict)]
