"""What a checkpoint records of its job, a JSON file each: which one it is, its tables, its inputs.

`panekeeper/job.json` is written before the first batch. Reports have the newest savepoint, and the upkeep of tables
keeps what the savepoints in its location need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from typing import Any

from panekeeper.state.checkpoint.folder import (
    COMMITS_FOLDER,
    FLUSHED_FILE,
    INPUTS_FILE,
    JOB_FILE,
    OFFSETS_FOLDER,
    PORTS_FILE,
    SAVEPOINT_FILE,
    TABLES_FILE,
    CheckpointFolder,
    batch_numbers,
    read_object,
)
from panekeeper.state.codec import STATE_VERSION
from panekeeper.state.errors import CorruptState, StateVersionError
from panekeeper.state.history import declarations_by_window
from panekeeper.state.table_roles import role_of

MAX_EPOCH = 100_000
"""How often a job can have been reset or restored: a restore writes a number for each earlier epoch to each table."""

OWNER = "panekeeper/owner"
"""Transaction id under which a table has the id of the checkpoint that writes to it, as a number (`fencing.py`)."""

TRANSACTION = re.compile(r"(.+)/\w+@([^#]+)#(\d{1,6}|joined)")
"""Transaction id of a job's commits: its name, the role of the table, the id of its checkpoint, and the epoch."""

SETTLEMENT = re.compile(r".+@[^@#]+#\d{1,6}#settled")
"""Transaction id of a settlement of any epoch (`JobRecord.settlement`)."""

_IF_ANY = ("former", "unlike_views")
"""Fields that are stored only if there is something in them."""

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
            Spark.
        former: id -> last epoch known, of the checkpoints whose place this one has taken by a restore to another
            folder: tables may have rows of batches that the restore has discarded.
        unlike_views: roles of the logs that do not tell what their views have: they have results of before a reset, or
            lack those of before they began anew. Noted by each start (`framework/engine/job/view_again.py`).
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
    unlike_views: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON-able fields; without `former` and `unlike_views` if there are none."""
        return {name: value for name, value in asdict(self).items() if name not in _IF_ANY or value}

    def transaction(self, table: str) -> str:
        """Return the id under which this job commits to one of its tables; the version is the batch's number."""
        return f"{self.name}/{table}@{self.id}#{self.epoch}"

    def joined(self, table: str) -> str:
        """Return the id under which a table has the epoch in which it has become one of this job's tables."""
        return f"{self.name}/{table}@{self.id}#joined"

    @property
    def settlement(self) -> str:
        """The id under which late settlements are committed; the version is the number of the settlement in the epoch.

        It is no `TRANSACTION`: its versions are no batches.
        """
        return f"{self.name}@{self.id}#{self.epoch}#settled"

    def why_unlike_view(self, window: str) -> str | None:
        """Return why a window's view cannot be made from its log, as the end of "its log, which ..."; None: it can."""
        declared = declarations_by_window(self.declaration).get(window, {})
        if role_of("log", window) in self.unlike_views:
            return "has results of before a reset, or began anew"
        if declared.get("window.results") == "discarding":
            return "has parts of the results"
        if "operator" in declared:  # as many as it emits at one event, or at several between two firings
            return "may have several rows of an operator with the same number"
        return None

    def earlier_epochs(self, *, before: int) -> list[JobRecord]:
        """Return the record as it was, or would have been, in each epoch before this one, also under former ids."""
        of_ids = {self.id: before - 1, **self.former}
        return [
            replace(self, id=id_, epoch=epoch, former={}) for id_, last in of_ids.items() for epoch in range(last + 1)
        ]

    @staticmethod
    def from_json(value: Any) -> JobRecord:
        """Return the record that `to_json` wrote. Raises `CorruptState` or `StateVersionError`."""
        try:
            if problem := version_problem(value["state_version"]):
                raise StateVersionError(problem)
            tuples = {name: tuple(value.get(name, ())) for name in ("group_ids", "unlike_views")}
            record = JobRecord(**{**value, **tuples})
            former = sum(epoch + 1 for epoch in record.former.values())
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptState(
                f"{JOB_FILE} in the checkpoint is damaged ({error}). Restore this checkpoint from a savepoint, or "
                "start with a new checkpoint folder"
            ) from error
        if former > MAX_EPOCH:  # in somebody else's savepoint; a start looks for each of the epochs in each table
            raise CorruptState(
                f"{JOB_FILE} in the checkpoint names {former} former epochs, more than a job can have had"
            )
        return record


def last_epochs(transactions: Mapping[str, int], job: str) -> dict[str, int]:
    """Return id of a checkpoint -> the last epoch in which a job has started with a table, also what was discarded."""
    epochs: dict[str, int] = {}
    for transaction, version in transactions.items():
        parts = TRANSACTION.fullmatch(transaction)
        if parts and parts[1] == job:
            epoch = version if parts[3] == "joined" else int(parts[3])
            epochs[parts[2]] = max(epoch, epochs.get(parts[2], 0))
    return epochs


def read_record(folder: CheckpointFolder) -> JobRecord | None:
    """Return the record of the checkpoint's job, None for a folder without one. Raises `StateError`."""
    value = read_object(folder, JOB_FILE)
    return None if value is None else JobRecord.from_json(value)


def write_record(folder: CheckpointFolder, record: JobRecord) -> None:
    """Write the record, in place of an older one."""
    folder.write_json(JOB_FILE, record.to_json(), replace=True)


def create_record(folder: CheckpointFolder, record: JobRecord) -> None:
    """Write the first record: of two processes that do so, one gets its own id. Raises `FileExistsError`."""
    try:
        folder.write_json(JOB_FILE, record.to_json())
    except FileExistsError:
        stored = read_record(folder)
        if stored is None or stored.id != record.id:  # else a store has repeated a request whose response was lost
            raise


def write_tables(folder: CheckpointFolder, tables: Mapping[str, str | None]) -> None:
    """Write which Delta tables the job writes: role -> path, None for a table that is not wanted. At each start."""
    folder.write_json(TABLES_FILE, dict(tables), replace=True)


def read_tables(folder: CheckpointFolder) -> dict[str, str]:
    """Return role -> path of the job's Delta tables; empty before they are recorded. Raises `CorruptState`."""
    tables = read_object(folder, TABLES_FILE) or {}
    return {role: path for role, path in tables.items() if path is not None}


def write_flushed(folder: CheckpointFolder, batch: int) -> None:
    """Mark the job as finished for good: batch `batch` was a flush, and its tables are written."""
    folder.write_json(FLUSHED_FILE, {"batch": batch}, replace=True)


def is_flushed(folder: CheckpointFolder) -> bool:
    """Return whether the job was flushed, so that it is finished for good."""
    return folder.exists(FLUSHED_FILE)


def installed_versions() -> dict[str, str]:
    """Return the versions of the installed packages that decide what a checkpoint is written with."""
    versions = {}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def version_problem(state_version: int) -> str | None:
    """Return why a checkpoint of this state version cannot be read, and what to do; None if it can."""
    if state_version in range(1, STATE_VERSION + 1):
        return None
    return (
        f"the checkpoint has state version {state_version}, this Panekeeper reads versions up to {STATE_VERSION}; "
        "run the version that wrote it, or flush the job there and start with a new folder"
    )


def is_new(folder: CheckpointFolder) -> bool:
    """Return whether no batch was ever begun in this checkpoint."""
    return not folder.names(OFFSETS_FOLDER)


def last_batches(folder: CheckpointFolder) -> tuple[int | None, int | None]:
    """Return the last batch that was begun and the last one that was committed; None if there is none."""
    commits = batch_numbers(folder, COMMITS_FOLDER)  # first: a batch must not look committed before it began
    return max(batch_numbers(folder, OFFSETS_FOLDER), default=None), max(commits, default=None)


def require_all_batches_committed(folder: CheckpointFolder) -> None:
    """Raise `CorruptState` unless the last batch that was begun is committed."""
    begun, committed = last_batches(folder)
    if begun != committed:
        raise CorruptState(
            f"the job of {folder.root} has ended, but batch {begun} was begun and the last committed one is "
            f"{committed}; start the job again, which runs that batch once more"
        )


@dataclass(frozen=True, kw_only=True)
class Input:
    """What a source reads.

    Attributes:
        kind: `files`, or Spark's name of the source.
        place: path, topics or table; empty if the source has no such thing.
        how: digest of its format and options, by which two sources of one place differ.
        by_name: files are known by their names alone, and not by their paths.
    """

    kind: str
    place: str
    how: str = ""
    by_name: bool = False

    @property
    def identity(self) -> tuple[str, str, str]:
        """What a source keeps when it comes to another place in the program."""
        return self.kind, self.place, self.how


def read_inputs(folder: CheckpointFolder) -> list[Input] | None:
    """Return what each source has read until now, by its number; None if no run has recorded it."""
    stored = read_object(folder, INPUTS_FILE)
    return None if stored is None else [Input(**source) for source in stored["sources"]]


def write_inputs(folder: CheckpointFolder, inputs: Iterable[Input], *, replace: bool = True) -> None:
    """Record what each source of a run reads: before the very first batch, and once Spark has begun one."""
    folder.write_json(INPUTS_FILE, {"sources": [asdict(source) for source in inputs]}, replace=replace)


@dataclass(frozen=True, kw_only=True)
class PortDelay:
    """How long the rows of a port are waited for, as its last start declared it; all in us.

    Attributes:
        watermark_us: how far the watermark is behind the greatest event time.
        idle_after_us: after how long without a row the port is idle; None: never.
    """

    watermark_us: int
    idle_after_us: int | None = None


def write_ports(folder: CheckpointFolder, ports: Iterable[PortDelay]) -> None:
    """Record the delays of the ports, in their order: they may change from run to run, and no start reads them."""
    folder.write_json(PORTS_FILE, {"ports": [asdict(port) for port in ports]}, replace=True)


def read_ports(folder: CheckpointFolder) -> list[PortDelay]:
    """Return the delays of the ports in their order; none if no start has recorded them."""
    return [PortDelay(**port) for port in (read_object(folder, PORTS_FILE) or {"ports": ()})["ports"]]


def require_logs_agree(folder: CheckpointFolder) -> None:
    """Raise `CorruptState` unless the last batch that was begun is the last committed one, or the one after it."""
    begun, committed = (-1 if batch is None else batch for batch in last_batches(folder))
    if not 0 <= begun - committed <= 1:
        raise CorruptState(
            f"Spark's logs in {folder.root} do not agree: batch {begun} was begun, and the last committed one is "
            f"{committed}. Restore this checkpoint from a savepoint"
        )


@dataclass(frozen=True, kw_only=True)
class LastSavepoint:
    """The newest savepoint that was made of a checkpoint, at a time in us, and the last batch in it. Stored."""

    name: str
    location: str
    at: int
    batch: int


def write_last_savepoint(folder: CheckpointFolder, made: LastSavepoint) -> None:
    """Write which savepoint is the newest."""
    folder.write_json(SAVEPOINT_FILE, asdict(made), replace=True)


def read_last_savepoint(folder: CheckpointFolder) -> LastSavepoint | None:
    """Return the newest savepoint; None if none was made of the checkpoint in this folder, or the file is damaged."""
    try:
        value = folder.read_json(SAVEPOINT_FILE)
        return None if value is None else LastSavepoint(**value)
    except (ValueError, TypeError):
        return None
