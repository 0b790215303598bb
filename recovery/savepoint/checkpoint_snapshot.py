"""A checkpoint as of one batch: which of its files a savepoint has.

Reading needs no Spark, and reads any folder. It depends on the layout of the checkpoints of Spark 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.jobs.checkpoint import require_current_record
from panekeeper.recovery.savepoint.manifest import is_copied
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint import folder as layout
from panekeeper.state.checkpoint.control_files import control_files_read, control_files_within
from panekeeper.state.checkpoint.folder import batch_numbers, damaged, read_object
from panekeeper.state.checkpoint.job_record import JobRecord, read_record, read_tables
from panekeeper.state.spark_logs import has_read, log_lines, offset_lines, source_ends

_STATE_FILE = re.compile(r"(\d+)(_.*)?\.(changelog|zip)(\.crc)?")
_NUMBER = re.compile(r"(\d+)(\.compact)?")


@dataclass(frozen=True, kw_only=True)
class CheckpointSnapshot:
    """A checkpoint as of one batch: the last committed one, unless another one was given.

    A batch that was begun after the last committed one is `unfinished`. If it `is_followed`, the tables may hold rows
    of later batches. `settings` are those of Spark that it pins; `tables` the paths of the Delta tables by their roles.
    """

    folder: Files
    record: JobRecord
    batch: int
    unfinished: int | None
    is_followed: bool
    settings: dict[str, str]
    tables: dict[str, str]

    def changed_file(self) -> str | None:
        """Return a file of ours by which a start has changed the job or its tables since; None if none was."""
        if read_record(self.folder) != self.record:
            return layout.JOB_FILE
        return None if read_tables(self.folder) == self.tables else layout.TABLES_FILE

    def files(self) -> list[str]:
        """Return the names of the files that belong to the checkpoint as of `batch`, sorted."""
        belongs = _belongs_to_batch(self.folder, self.batch)
        return sorted(path for path in self.folder.sizes() if is_copied(path) and belongs(path))


def read_checkpoint(folder: Files, *, batch: int | None = None) -> CheckpointSnapshot:
    """Read a checkpoint as of a committed batch: the last one, or a given one while the job runs.

    Raises `SavepointRefused` if what began the epoch is not complete, `SavepointError` if nothing was committed yet.
    """
    record = require_current_record(folder)
    commits = batch_numbers(folder, layout.COMMITS_FOLDER)
    if not commits:
        raise SavepointError(
            f"no batch of {folder.root} was committed yet, so there is nothing to save; run the job first"
        )
    later = [number for number in batch_numbers(folder, layout.OFFSETS_FOLDER) if number > commits[-1]]
    is_followed = bool(later) or batch is not None
    batch = commits[-1] if batch is None else batch
    if not folder.exists(f"{layout.OFFSETS_FOLDER}/{batch}"):
        raise SavepointError(
            f"{folder.root} is incomplete: it has commits/{batch} and no offsets/{batch}; restore it from a savepoint"
        )
    return CheckpointSnapshot(
        folder=folder,
        record=record,
        batch=batch,
        unfinished=min(later, default=None),
        is_followed=is_followed,
        settings=dict(offset_lines(folder, batch)[0]["conf"]),
        tables=read_tables(folder),
    )


def batch_with_control_file(folder: Files, number: int) -> int | None:
    """Return the first batch that has read a control file, which may not be committed yet; None if none has."""
    place = control_files_read(folder).get(number)
    if place is None:
        return None
    first = None
    for batch in reversed(batch_numbers(folder, layout.OFFSETS_FOLDER)):  # those after it have read the file, too
        if not has_read(source_ends(folder, batch), *place):
            break
        first = batch
    return first


def files_ahead(folder: Files, batch: int) -> list[str]:
    """Return the files of a checkpoint's sources and of its control stream that no batch up to this one has read.

    A savepoint has none. A start would run a batch of whatever files and commands they name.
    """
    read_by_start = (f"{layout.SOURCES_FOLDER}/", f"{layout.CONTROL_FOLDER}/")
    paths = sorted(path for path in folder.sizes() if is_copied(path) and path.startswith(read_by_start))
    if not paths:
        return []
    belongs = _belongs_to_batch(folder, batch)
    return [path for path in paths if not belongs(path)]


def _belongs_to_batch(folder: Files, batch: int) -> Callable[[str], bool]:
    """Return what says of a file that a savepoint may have whether it belongs to the checkpoint as of a batch."""
    ends = source_ends(folder, batch)
    processed = control_files_within(control_files_read(folder), ends)

    def has_read_entry(path: str, source: str, name: str) -> bool:
        """Return whether a file of a source's log is no entry, or one that was read; where a topic began is none.

        A file source of which Spark has logged no offset, or none in the form in which it writes it, has read nothing.
        """
        number = _NUMBER.fullmatch(name)
        if number is None or not source.isdecimal():
            return True
        end = ends[int(source)] if int(source) < len(ends) else None
        if end is not None:
            return int(number[1]) <= end
        return not any(isinstance(line, dict) and "path" in line for line in log_lines(folder, path))

    def belongs(path: str) -> bool:
        parts = PurePosixPath(path).parts
        name = parts[-1]
        match parts[0]:
            case layout.OFFSETS_FOLDER | layout.COMMITS_FOLDER:
                return name.isdigit() and int(name) <= batch
            case layout.SOURCES_FOLDER:
                return has_read_entry(path, parts[1], name)
            case layout.CONTROL_FOLDER:  # without commands that only a later batch reads; others keep the numbering
                number = layout.control_file_number(name)
                return number is None or number in processed
            case layout.STATE_FOLDER:
                return _state_version(parts) <= batch + 1  # a batch writes the version after its number
        return path != layout.FLUSHED_FILE or _flushed_batch(folder) <= batch

    return belongs


def _flushed_batch(folder: Files) -> int:
    batch = (read_object(folder, layout.FLUSHED_FILE) or {}).get("batch")
    if not isinstance(batch, int):
        raise damaged(folder, layout.FLUSHED_FILE, "it names no batch")
    return batch


def _state_version(parts: tuple[str, ...]) -> int:
    """Return the version of the state that a file is for; 0 for a file of all versions."""
    if "_metadata" in parts:
        return int(parts[-1]) + 1 if parts[-1].isdigit() else 0
    version = _STATE_FILE.fullmatch(parts[-1])
    return 0 if version is None else int(version[1])
