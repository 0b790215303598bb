"""Step 1 of a restore: what is in the folder that a savepoint is restored to, and in which epochs has the job written?

The folder may have lost anything: its pointer, the epoch that it points to, or what is in that. Then the restore is the
way out, and what can be read decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from panekeeper.framework.engine.sink.delta_tables import OWNED
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_log import owner_of, transactions_of
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import files_at
from panekeeper.state.checkpoint.epochs import (
    EPOCHS_FOLDER,
    POINTER_FILE,
    Begin,
    Pointer,
    epoch_folder,
    epoch_numbers,
    read_begin,
    read_pointer,
    stored_pointer,
)
from panekeeper.state.checkpoint.job_record import JobRecord, last_epochs, read_record, read_tables
from panekeeper.state.errors import CheckpointError, StateError


@dataclass(frozen=True, kw_only=True)
class Target:
    """The folder that a savepoint is restored to.

    Attributes:
        root: the checkpoint, which need not be there.
        pointer: what its pointer says; None if there is none, or it is damaged.
        content: the pointer as it is; None if there is none.
        current: the folder of the current epoch, or of the newest one if that is not known; None: there is none.
    """

    root: Files
    pointer: Pointer | None
    content: bytes | None
    current: Files | None

    @property
    def record(self) -> JobRecord | None:
        """What the current epoch says of the job; None if it cannot be read."""
        return None if self.current is None else read_record_or_none(self.current)

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
    """Return what is in a folder.

    Args:
        root: the checkpoint.
        job: name of the job that is restored.

    Raises:
        SavepointRefused: it has files of somebody else, or the checkpoint of another job.
    """
    content, pointer, current = _content(root), None, None
    try:
        pointer = stored_pointer(root)
        found = read_pointer(root)
        current = None if found is None else epoch_folder(root, found.epoch)
    except CheckpointError as error:
        raise SavepointRefused(str(error)) from error
    except StateError:
        numbers = epoch_numbers(root)
        current = epoch_folder(root, numbers[-1]) if numbers else None
    target = Target(root=root, pointer=pointer, content=content, current=current)
    if content is None and not set(root.names("")) <= {EPOCHS_FOLDER}:  # an epoch may be left that never became current
        raise SavepointRefused(f"{root.root} holds files and no checkpoint of Panekeeper; name another folder")
    names = {one.name for one in (pointer, target.record) if one is not None} - {job}
    if names:
        raise SavepointRefused(
            f"{root.root} is the checkpoint of job {names.pop()!r}, the savepoint is of {job!r}; name another folder"
        )
    return target


def read_record_or_none(folder: Files) -> JobRecord | None:
    """Return the record of a job; None if there is none or it cannot be read."""
    try:
        return read_record(folder)
    except (StateError, OSError):
        return None


def epochs_in_tables(manifest: Manifest, target: Target) -> dict[str, int]:
    """Return id of a checkpoint -> last epoch in which the job has written with it, as far as its tables say.

    Tables that no other job writes to name each checkpoint that they have belonged to: by its transactions, and the
    present one as their owner.

    Args:
        manifest: the savepoint.
        target: where it is restored to. Tables that only Spark reaches are not read.
    """
    last = {manifest.job_id: manifest.epoch}
    if (record := target.record) is not None:
        last[record.id] = max(record.epoch, last.get(record.id, 0))
    saved = {role: table.path for role, table in manifest.tables.items()}
    for role, path in {*saved.items(), *target.tables.items()}:
        files = files_at(path, target.root.s3) if role in OWNED else None
        try:
            transactions: Mapping[str, int] = {} if files is None else transactions_of(files)
        except SavepointError:
            continue  # the preview says what is wrong with its log
        in_table = last_epochs(transactions, manifest.job)
        if (owner := owner_of(transactions)) in in_table:
            in_table.setdefault(owner, 0)
        last |= {one: max(epoch, last.get(one, 0)) for one, epoch in in_table.items()}
    return last


def _content(root: Files) -> bytes | None:
    try:
        return root.read(POINTER_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
