"""The identity of a job, its tables and whether it is finished, as its checkpoint records them.

The record is one JSON file, `panekeeper/job.json`, written before the first batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import metadata
from typing import Any

from panekeeper.state.checkpoint.folder import CheckpointFolder, damaged
from panekeeper.state.checkpoint.layout import FLUSHED_FILE, JOB_FILE, TABLES_FILE
from panekeeper.state.codec import STATE_VERSION
from panekeeper.state.errors import CorruptState, StateVersionError

MAX_EPOCH = 100_000
"""How often a job can have been reset or restored: a restore writes a number for each earlier epoch to each table."""

OWNER = "panekeeper/owner"
"""Transaction id under which a table has the id of the checkpoint that writes to it, as a number (`fencing.py`)."""

TRANSACTION = re.compile(r"(.+)/\w+@([^#]+)#(\d{1,6}|joined)")
"""Transaction id of a job's commits: its name, the role of the table, the id of its checkpoint, and the epoch."""

_JOB_ID = re.compile(r"[0-9a-f]{12}")
_OPTIONAL = {"settings", "former"}
_DAMAGED = "restore this checkpoint from a savepoint, or start with a new checkpoint folder"
_PACKAGES = ("panekeeper", "pyspark", "delta-spark", "pyarrow", "numpy")


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """The stored identity of a job.

    Attributes:
        name: the job's name.
        id: random; differs between checkpoints, and so do the transaction ids in the tables that they write.
        declaration: fingerprint of the window and of what it computes.
        group_ids: representative id of each key group; keys are spread over them by a hash, so they never change.
        epoch: number of restores and resets so far; part of the transaction ids, because a restored table still has
            the ids of commits whose rows it no longer has.
        versions: versions of the packages that wrote the checkpoint first.
        state_version: the greatest version of the stored bytes, which is that of the last start.
        settings: Spark settings of the first start that hold for the life of the checkpoint, but are not pinned by
            Spark; those that an older checkpoint has not recorded are absent.
        former: id -> last epoch known, of the checkpoints whose place this one has taken by a restore to another
            folder: tables may have rows of batches that the restore has discarded.
    """

    name: str
    id: str
    declaration: Mapping[str, Any]
    group_ids: tuple[int, ...]
    epoch: int = 0
    versions: Mapping[str, str]
    state_version: int = STATE_VERSION
    settings: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON-able fields; without `former` if there are none, so that older versions read it."""
        return {name: value for name, value in asdict(self).items() if name != "former" or value}

    def transaction(self, table: str) -> str:
        """Return the id under which this job commits to one of its tables; the version is the batch's number."""
        return f"{self.name}/{table}@{self.id}#{self.epoch}"

    def joined(self, table: str) -> str:
        """Return the id under which a table has the epoch in which it has become one of this job's tables."""
        return f"{self.name}/{table}@{self.id}#joined"

    def earlier_epochs(self, *, before: int) -> list[JobRecord]:
        """Return the record as it was, or would have been, in each epoch before this one, also under former ids."""
        of_ids = {self.id: before - 1, **self.former}
        return [
            replace(self, id=one, epoch=epoch, former={}) for one, last in of_ids.items() for epoch in range(last + 1)
        ]

    @staticmethod
    def from_json(value: Any) -> JobRecord:
        """Return the record that `to_json` wrote. Raises `CorruptState` or `StateVersionError`."""
        names = {one.name for one in fields(JobRecord)}
        if not isinstance(value, dict) or not names - _OPTIONAL <= set(value) <= names:
            fields_text = ", ".join(sorted(names))
            raise CorruptState(f"{JOB_FILE} in the checkpoint is damaged: its fields are not {fields_text}; {_DAMAGED}")
        problem = version_problem(value["state_version"])
        if problem is not None:
            raise StateVersionError(problem)
        of_its_type = isinstance(value["group_ids"], list) and isinstance(value["name"], str)
        of_its_type = of_its_type and isinstance(value.get("settings", {}), dict)
        if not of_its_type or not _are_former(value.get("former", {})):
            raise CorruptState(f"{JOB_FILE} in the checkpoint is damaged: a field is of another type; {_DAMAGED}")
        return JobRecord(**{**value, "group_ids": tuple(value["group_ids"])})


def last_epochs(transactions: Mapping[str, int], job: str) -> dict[str, int]:
    """Return id of a checkpoint -> the last epoch in which a job has started with a table, also what was discarded.

    Args:
        transactions: id -> last version of the transactions of the table.
        job: the name of the job.
    """
    epochs: dict[str, int] = {}
    for transaction, version in transactions.items():
        found = TRANSACTION.fullmatch(transaction)
        if found and found[1] == job:
            epoch = version if found[3] == "joined" else int(found[3])
            epochs[found[2]] = max(epoch, epochs.get(found[2], 0))
    return epochs


def _are_former(value: Any) -> bool:
    """Return whether a field is ids with epochs; a start looks for each of the epochs in each table."""
    return (
        isinstance(value, dict)
        and all(_JOB_ID.fullmatch(one) and type(epoch) is int and epoch >= 0 for one, epoch in value.items())
        and sum(epoch + 1 for epoch in value.values()) <= MAX_EPOCH
    )


def read_record(folder: CheckpointFolder) -> JobRecord | None:
    """Return the record of the checkpoint's job, None for a folder without one.

    Raises:
        CorruptState: the record is damaged.
        StateVersionError: it was written by a version of Panekeeper whose state this one cannot read.
    """
    try:
        value = folder.read_json(JOB_FILE)
    except ValueError as error:
        raise damaged(folder, JOB_FILE, "it is not JSON") from error
    return None if value is None else JobRecord.from_json(value)


def write_record(folder: CheckpointFolder, record: JobRecord) -> None:
    """Write the record, in place of an older one."""
    folder.write_json(JOB_FILE, record.to_json(), replace=True)


def create_record(folder: CheckpointFolder, record: JobRecord) -> None:
    """Write the first record: of two processes that do so, one gets its own id. Raises `FileExistsError`."""
    try:
        folder.write_json(JOB_FILE, record.to_json())
    except FileExistsError:
        found = read_record(folder)
        if found is None or found.id != record.id:  # else a store has repeated a request whose response was lost
            raise


def write_tables(folder: CheckpointFolder, tables: Mapping[str, str | None]) -> None:
    """Write which Delta tables the job writes: role -> path, None for a table that is not wanted. At each start."""
    folder.write_json(TABLES_FILE, dict(tables), replace=True)


def read_tables(folder: CheckpointFolder) -> dict[str, str]:
    """Return role -> path of the job's Delta tables; empty before they are recorded.

    Raises:
        CorruptState: the file is damaged.
    """
    try:
        tables = folder.read_json(TABLES_FILE)
    except ValueError as error:
        raise damaged(folder, TABLES_FILE, "it is not JSON") from error
    if tables is None:
        return {}
    if not isinstance(tables, dict) or not all(isinstance(path, str | None) for path in tables.values()):
        raise damaged(folder, TABLES_FILE, "it holds no paths")
    return {role: path for role, path in tables.items() if path is not None}


def write_flushed(folder: CheckpointFolder, batch: int) -> None:
    """Mark the job as finished for good: batch `batch` was a flush, and its tables are written."""
    folder.write_json(FLUSHED_FILE, {"batch": batch}, replace=True)


def is_flushed(folder: CheckpointFolder) -> bool:
    """Return whether the job was flushed, so that it is finished for good."""
    return folder.exists(FLUSHED_FILE)


def installed_versions() -> dict[str, str]:
    """Return the versions of the installed packages that decide what a checkpoint is written with."""
    return {name: version for name in _PACKAGES if (version := _version(name))}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def version_problem(state_version: int) -> str | None:
    """Return why a checkpoint of this state version cannot be read, and what to do; None if it can."""
    if state_version in range(1, STATE_VERSION + 1):
        return None
    return (
        f"the checkpoint has state version {state_version}, this Panekeeper reads versions up to {STATE_VERSION}; "
        "run the version that wrote it, or flush the job there and start with a new folder"
    )
