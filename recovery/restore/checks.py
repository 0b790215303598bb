"""Step 1 of a restore: what is in the folder, what would be changed, and may it be? Reads only.

The folder may have lost anything: its pointer, the epoch that it points to, or what is in that. Then the restore is the
way out, and what can be read decides.

A manifest alone does not decide which tables go back: anyone can write one. A table may go back if the checkpoint names
it as its own, or if the caller names it. Several jobs may share a quarantine or downtime table: where others have
written to it since the savepoint, and the job itself, too, the caller must name it, as their rows would be gone. Where
others alone have, there is nothing to take back: it stays as it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.display import Result, format_bytes, format_number
from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink.delta_log import (
    has_version,
    jobs_since,
    kept_commits,
    newest_version,
    read_table,
    transactions_of,
)
from panekeeper.framework.engine.sink.gone_tables import is_gone
from panekeeper.framework.engine.sink.table_at_version import checkpoint_id
from panekeeper.recovery.errors import ArchiveError, DamagedSavepoint, SavepointError, SavepointRefused
from panekeeper.recovery.savepoint.checkpoint_snapshot import read_checkpoint
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_tables import require_version, session_for
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, place_of, table_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.epochs import (
    EPOCHS_FOLDER,
    POINTER_FILE,
    Begin,
    Pointer,
    epoch_folder,
    epoch_numbers,
    next_epoch,
    read_begin,
    read_pointer,
    stored_pointer,
)
from panekeeper.state.checkpoint.job_record import (
    MAX_EPOCH,
    OWNER,
    SETTLEMENT,
    JobRecord,
    last_epochs,
    read_record,
    read_tables,
)
from panekeeper.state.errors import CheckpointError, StateError
from panekeeper.state.table_roles import is_owned, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Target:
    """The folder that a savepoint is restored to, which need not be there.

    `pointer` is None if there is none, or it is damaged; `content` is it as it is. `current` is the folder of the
    current epoch, or of the newest one if that is not known.
    """

    root: Files
    pointer: Pointer | None
    content: bytes | None
    current: Files | None

    @property
    def record(self) -> JobRecord | None:
        """What the current epoch says of the job; None if there is none or it cannot be read."""
        try:
            return None if self.current is None else read_record(self.current)
        except (StateError, OSError):
            return None

    @property
    def tables(self) -> dict[str, str]:
        """Role -> path of the tables that the current epoch names as its own; none if that is not known."""
        try:
            return {} if self.current is None else read_tables(self.current)
        except (StateError, OSError):
            return {}

    def pending(self) -> Begin | None:
        """Return what began the current epoch, if something of it is left to do; None: nothing, or it is not known."""
        try:
            begin = None if self.current is None or self.pointer is None else read_begin(self.current)
        except StateError:
            return None
        return None if begin is None or begin.is_done else begin

    def is_unchanged(self) -> bool:
        """Return whether the pointer is still what it was."""
        return _content(self.root) == self.content


def target_at(root: Files, job: str) -> Target:
    """Return what is in a folder; raises `SavepointRefused` if it is somebody else's, or of another job."""
    content, pointer, current = _content(root), None, None
    try:
        pointer = stored_pointer(root)
        current_pointer = read_pointer(root)
        current = None if current_pointer is None else epoch_folder(root, current_pointer.epoch)
    except CheckpointError as error:
        raise SavepointRefused(str(error)) from error
    except StateError:
        numbers = epoch_numbers(root)
        current = epoch_folder(root, numbers[-1]) if numbers else None
    target = Target(root=root, pointer=pointer, content=content, current=current)
    if content is None and not set(root.names("")) <= {EPOCHS_FOLDER}:  # an epoch may be left that never became current
        raise SavepointRefused(f"{root.root} holds files and no checkpoint of Panekeeper; name another folder")
    names = {named.name for named in (pointer, target.record) if named is not None} - {job}
    if names:
        raise SavepointRefused(
            f"{root.root} is the checkpoint of job {names.pop()!r}, the savepoint is of {job!r}; name another folder"
        )
    return target


def _content(root: Files) -> bytes | None:
    try:
        return root.read(POINTER_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None


def epochs_in_tables(manifest: Manifest, target: Target) -> dict[str, int]:
    """Return id of a checkpoint -> last epoch in which the job has written with it, as far as its tables say.

    Tables that no other job writes to name each checkpoint that they have belonged to: by its transactions, and the
    present one as their owner.
    """
    last = {manifest.job_id: manifest.epoch}
    if (record := target.record) is not None:
        last[record.id] = max(record.epoch, last.get(record.id, 0))
    saved = {role: table.path for role, table in manifest.tables.items()}
    for path in {path for role, path in (*saved.items(), *target.tables.items()) if is_owned(role)}:
        try:
            transactions = transactions_of(table_at(path, target.root.s3))
        except SinkError:
            continue  # the preview says what is wrong with its log
        in_table = last_epochs(transactions, manifest.job)
        if (owner := checkpoint_id(transactions.get(OWNER, -1))) in in_table:
            in_table.setdefault(owner, 0)
        last |= {checkpoint: max(epoch, last.get(checkpoint, 0)) for checkpoint, epoch in in_table.items()}
    return last


@dataclass(frozen=True)
class SharedTables:
    """The tables of a savepoint that jobs may share, and who has changed them since, as `jobs_since`."""

    manifest: Manifest
    target: Target
    changes: Mapping[str, Mapping[str, str]]

    @staticmethod
    def of(manifest: Manifest, target: Target) -> SharedTables:
        """Read the logs of the tables."""
        shared = [table.path for role, table in manifest.tables.items() if not is_owned(role)]
        return SharedTables(manifest, target, _changes(manifest, target, shared))

    def not_of_this_job(self) -> frozenset[str]:
        """Return the paths of the tables that jobs of other names alone have changed, or nobody: they do not go back.

        A job of this name may be a copy of the job itself.
        """
        own = {"", self.manifest.job}
        return frozenset(path for path, since in self.changes.items() if not own & {*since.values()})

    def other_jobs(self) -> dict[str, list[str]]:
        """Return path -> names of other jobs, of the tables that go back and whose rows of theirs would change."""
        back = {path: since for path, since in self.changes.items() if path not in self.not_of_this_job()}
        if not back:
            return {}  # the logs of the other tables have a commit for each batch
        record = self.target.record
        # The job of a savepoint that was restored elsewhere has another id. Nobody else writes to its own tables.
        own_tables = [table.path for role, table in self.manifest.tables.items() if is_owned(role)]
        own = {"", self.manifest.job_id} | ({record.id} if record else set())
        own |= {id_ for since in _changes(self.manifest, self.target, own_tables).values() for id_ in since}
        others = {path: {name for id_, name in since.items() if id_ not in own} for path, since in back.items()}
        return {path: sorted(names) for path, names in others.items() if names}


def _changes(manifest: Manifest, target: Target, paths: Collection[str]) -> dict[str, dict[str, str]]:
    changes = {}
    for table in manifest.tables.values():
        files = table_at(table.path, target.root.s3)
        if table.path in paths and has_version(files, table.version):
            with suppress(SinkError):  # the preview says what is wrong with its log
                changes[table.path] = jobs_since(files, table.version)
    return changes


def gone_tables(manifest: Manifest, s3: S3Options) -> dict[str, str]:
    """Return role -> path of the tables of a savepoint of which nothing is there, or was when it was made.

    Raises `SavepointRefused` for one that is there and was gone then: the savepoint has no version of it.
    """
    gone = {role: path for role, path in manifest.paths.items() if is_gone(table_at(path, s3))}
    if back := [path for role, path in manifest.gone.items() if role not in gone]:
        raise SavepointRefused(
            f"{back[0]} was gone when savepoint {manifest.name!r} was made, which has no version of it, and is there "
            "now. Nothing was changed; use a later savepoint, or move the folder of the table away: then the start "
            "after the restore makes it"
        )
    return gone


def unconfirmed_tables(shared: SharedTables, tables: Collection[Location]) -> tuple[str, ...]:
    """Return the paths of a savepoint's tables that only its manifest names, or that others write to, too.

    The caller confirms those that it names.
    """
    named = {place_of(str(path)) for path in tables}
    places = {place_of(path) for path in shared.target.tables.values()} | named
    others = shared.other_jobs()
    return tuple(
        table.path
        for table in shared.manifest.tables.values()
        if (place := place_of(table.path)) not in places or (table.path in others and place not in named)
    )


def require_confirmed(
    shared: SharedTables,
    location: str,
    checkpoint: Location | None,
    tables: Collection[Location],
    gone: Mapping[str, str],
    lost: Mapping[str, str],
    begin_anew: Collection[str],
) -> None:
    """Refuse a restore that changes what only the manifest names, or lacks a table that cannot be made again.

    The message has the command that permits all of it. `checkpoint` is the folder that the caller named, None if none;
    `tables` are those that the caller named, `begin_anew` the roles of tables that may begin empty; `gone` as from
    `gone_tables`, `lost` as from `lost_tables`.
    """
    manifest, target = shared.manifest, shared.target
    if there := [role for role in begin_anew if role not in gone]:
        raise SavepointRefused(
            f"the savepoint has no table {there[0]} that is gone, so it does not begin anew. Nothing was changed; "
            f"restore without --begin-anew {there[0]}"
        )
    missing = tuple(path for path in unconfirmed_tables(shared, tables) if path not in gone.values())
    is_there = target.current is not None
    lost = {role: reason for role, reason in lost.items() if role not in begin_anew}
    if not missing and not lost and (checkpoint is not None or is_there):
        return
    named = {place_of(str(path)) for path in tables}
    wanted = [
        table.path for table in manifest.tables.values() if table.path in missing or place_of(table.path) in named
    ]
    command = ["panekeeper", "restore", location, manifest.name, "--checkpoint", target.root.root]
    command += [word for path in wanted for word in ("--table", path)]
    command += [word for role in sorted({*begin_anew, *lost}) for word in ("--begin-anew", role)]
    s3 = target.root.s3
    reached = {"--s3-endpoint": s3.endpoint, "--s3-encryption": s3.encryption, "--s3-kms-key": s3.kms_key}
    command += [word for option, value in reached.items() if value is not None for word in (option, value)]
    others = {path: jobs for path, jobs in shared.other_jobs().items() if path in missing}
    unnamed = [path for path in missing if path not in others]
    why, first = list[str](), list[str]()
    if lost:
        tables_lost = " and ".join(f"the {role} {gone[role]}" for role in lost)
        why.append(f"{tables_lost} {'is' if len(lost) == 1 else 'are'} gone, and a savepoint has versions, not rows")
        why += [f"the {role} cannot be made from its log, which {reason}" for role, reason in lost.items() if reason]
        first.append("mount the volume or put a copy back, or else let what is lost begin empty")
    if unnamed or (not is_there and checkpoint is None):
        of = f"the checkpoint {target.root.root} does not name {', '.join(unnamed)} as its own"
        none = f"there is no checkpoint {target.root.root} that says which tables are its own"
        why.append(f"{of if is_there else none}, and anyone can write a savepoint")
        first.append(f"make sure that these paths are those of job {manifest.job!r}")
    if others:
        rows = "; ".join(f"{path} has rows of {', '.join(map(repr, names))}" for path, names in others.items())
        why.append(f"the restore would change what other jobs have written to shared tables since: {rows}")
        first.append("stop these other jobs and copy their rows to another table (or use a newer savepoint)")
    raise SavepointRefused(
        f"savepoint {manifest.name!r} is not restored: {'; and '.join(why)}. Nothing was changed; "
        f"{', '.join(first)}, and confirm the restore: {shlex.join(command)}"
    )


@dataclass(frozen=True, kw_only=True)
class TableVersionChange:
    """The versions of a table before and after a restore.

    They are the same if it does not go back, as only other jobs have written to it.
    """

    path: str
    old: int
    new: int


@dataclass(frozen=True, kw_only=True)
class RestorePreview(Result):
    """What a restore changes, or would change.

    Attributes:
        name: of the savepoint.
        checkpoint: full name of the folder that is written.
        replaces: whether a checkpoint is there; the folder of its epoch stays, and is not current any more.
        batch: the batch after which the job resumes.
        forgotten: first and last of the committed batches that are discarded, and run again if the sources still hold
            their rows; None if there are none, or the present checkpoint cannot be read.
        files: how many files are written.
        bytes: their size.
        tables: role -> its versions.
        epoch: the new one.
        remade: role -> path of the tables that are gone, which the next start makes.
        filled: roles of the views among them that it makes from the log; the others begin empty.
        settled: how many results of settlements since the savepoint go with the versions of the logs; None: there are
            some, and a log does not say how many.
        dry_run: nothing was changed.
    """

    name: str
    checkpoint: str
    replaces: bool
    batch: int
    forgotten: tuple[int, int] | None
    files: int
    bytes: int
    tables: Mapping[str, TableVersionChange]
    epoch: int
    remade: Mapping[str, str]
    filled: tuple[str, ...]
    settled: int | None = 0
    dry_run: bool = field(default=False, compare=False)

    def _described(self) -> Iterator[str]:
        was, are = ("would be", "would be") if self.dry_run else ("was", "are")
        changed = f"{self.checkpoint} {was} {'taken back' if self.replaces else 'created'}"
        size = f"{self.files} files, {format_bytes(self.bytes)}"
        yield f"{changed}: {size}; the job resumes after batch {self.batch}, epoch {self.epoch}"
        if self.forgotten is not None:
            first, last = self.forgotten
            yield f"batches {first} to {last} {are} discarded"
        if self.settled != 0:
            count = "the" if self.settled is None else format_number(self.settled)
            results = f"result of a settlement {was}" if self.settled == 1 else f"results of settlements {are}"
            again = f"`panekeeper settle {shlex.quote(self.checkpoint)} --job JOB.PY` can be run again"
            yield f"{count} {results} taken back, too; {again}"
        for role, table in self.tables.items():
            yield f"table {role}: {table.path} from version {table.old} to {table.new}"
        for role, path in self.remade.items():
            how = "from the log" if role in self.filled else "empty"
            yield f"table {role}: {path} is gone; the next start makes it {how}"


def preview_restore(
    shared: SharedTables,
    *,
    spark: SparkSession | None,
    gone: Mapping[str, str],
    lost: Collection[str] = (),
    tables_are_back: bool = False,
) -> RestorePreview:
    """Return what a restore would change. Raises `TableVersionLost`; `DamagedSavepoint` for an epoch beyond all bounds.

    `tables_are_back`: the current epoch is that of this restore, and some tables, or all, may be back already: their
    versions are needed no more. `gone` as from `gone_tables`: these do not go back; `lost` as from `lost_tables`.
    """
    manifest, target = shared.manifest, shared.target
    # The checkpoint may be an older copy: no epoch is used twice that a table knows.
    epoch = next_epoch(target.root, epochs_in_tables(manifest, target).values())
    if tables_are_back and target.pointer is not None:
        epoch = target.pointer.epoch
    if epoch > MAX_EPOCH:
        raise DamagedSavepoint(
            f"the restored job would have epoch {epoch}, and Panekeeper writes none after {MAX_EPOCH}: savepoint "
            f"{manifest.name!r} or the checkpoint {target.root.root} was altered. Use another savepoint or folder"
        )
    forgotten = None
    try:
        present = -1 if target.current is None else read_checkpoint(target.current).batch
        forgotten = (manifest.batch + 1, present) if present > manifest.batch else None
    except ArchiveError:
        raise
    except (SavepointError, StateError, OSError, ValueError):
        pass
    return RestorePreview(
        name=manifest.name,
        checkpoint=target.root.root,
        replaces=target.content is not None,
        batch=manifest.batch,
        forgotten=forgotten,
        files=len(manifest.files),
        bytes=manifest.size,
        tables=_table_changes(shared, spark, gone, tables_are_back=tables_are_back),
        epoch=epoch,
        remade=gone,
        filled=tuple(role for role in gone if kind_of(role) == "view" and role not in lost),
        settled=_settled_since(shared, gone),
    )


def _settled_since(shared: SharedTables, gone: Collection[str]) -> int | None:
    """Return how many results of settlements the logs have got since their versions in the savepoint.

    None: there are some, and a log does not say how many.
    """
    manifest, s3 = shared.manifest, shared.target.root.s3
    logs = [table for role, table in manifest.tables.items() if kind_of(role) == "log" and role not in gone]
    counts = [count for log in logs for count in _settlements(table_at(log.path, s3), log.version)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _settlements(log: Files, version: int) -> list[int | None]:
    """Return how many results each settlement since a version has added to a log; None: its commit does not say."""
    added = list[int | None]()
    with suppress(SinkError):  # a commit that cannot be read is no reason to refuse what the restore can do
        if not any(map(SETTLEMENT.fullmatch, transactions_of(log))):
            return added  # the commits of all batches since are not read for nothing
        for commit in kept_commits(log):
            if commit.version <= version:
                break
            if commit.is_settlement:
                added.append(commit.rows_added)
    return added


def _table_changes(
    shared: SharedTables, spark: SparkSession | None, gone: Collection[str], *, tables_are_back: bool
) -> dict[str, TableVersionChange]:
    saved, s3 = shared.manifest.tables, shared.target.root.s3
    paths = [table.path for table in saved.values()]
    session = cache(lambda: session_for(paths, spark, s3))  # none is started if the library can read all tables
    # A table that nobody has changed since is at this version, or at a later one with the same rows.
    unchanged = {path for path in shared.not_of_this_job() if shared.changes[path]}
    changes = {}
    for role, table in saved.items():
        if role in gone:
            continue
        files = table_at(table.path, s3)
        # With the commit of a RESTORE Delta may have cleaned up the log, and the version in it.
        if not (tables_are_back or table.path in unchanged):
            require_version(session, table, files)
            _require_readable(files, role, table.version)
        old = newest_version(files)
        changes[role] = TableVersionChange(
            path=table.path, old=old, new=old if table.path in unchanged else table.version
        )
    return changes


def _require_readable(table: Files, role: str, version: int) -> None:
    """Refuse a table whose newest commits cannot be read: it could not be taken back, and the job would not start."""
    try:
        read_table(table)
    except SinkError as error:
        raise SavepointRefused(
            f"the {role} {table.root} cannot be taken back to version {version}: {str(error).partition(';')[0]}. "
            "Nothing was changed; put a copy of the table back that has this version, or move the folder of the table "
            "away, and the restore says how it does without it"
        ) from error
