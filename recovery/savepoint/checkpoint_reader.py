"""Step 1 of a savepoint: reads a checkpoint as files. Which batch is its last, and which files belong to it?

Needs no Spark, and reads any folder. It depends on the layout of the checkpoints of Spark 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.jobs.checkpoint import require_current_record
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.state.checkpoint import folder as layout
from panekeeper.state.checkpoint.control_files import control_files_read, control_files_within
from panekeeper.state.checkpoint.folder import (
    FLUSHED_FILE,
    RUNNING_FILE,
    SAVEPOINT_FILE,
    CheckpointFolder,
    batch_numbers,
    control_file_number,
    read_object,
)
from panekeeper.state.checkpoint.job_record import JobRecord, read_record, read_tables
from panekeeper.state.prepared import as_computed
from panekeeper.state.spark_logs import (
    has_read,
    log_lines,
    offset_lines,
    source_ends,
    unreadable,
)

COPIED = (*layout.SPARK_NAMES, layout.OWN_FOLDER, layout.CONTROL_FOLDER)
NOT_COPIED = (RUNNING_FILE, SAVEPOINT_FILE)
"""Of the folder, not of the job's state."""
FOLDERS_NOT_COPIED = (f"{layout.CLAIMS_FOLDER}/", f"{layout.PREPARED_FOLDER}/")
"""The same. What is recorded of a batch is for the tables that this folder has written to."""
_STATE_FILE = re.compile(r"(\d+)(_.*)?\.(changelog|zip)(\.crc)?")
_NUMBER = re.compile(r"(\d+)(\.compact)?")


@dataclass(frozen=True, kw_only=True)
class CheckpointSnapshot:
    """A checkpoint as of one batch.

    Attributes:
        folder: its files.
        record: its job record.
        batch: the batch as of which it is read: the last committed one, unless another one was given.
        unfinished: a batch that was begun after the last committed one; None if there is none.
        is_followed: whether the tables may hold rows of later batches.
        settings: the Spark settings that it pins.
        tables: role -> path of the Delta tables.
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
        """Return the names of the files that belong to the checkpoint as of `batch`, sorted.

        Raises:
            SavepointRefused: one of its folders is a link, behind which nothing is listed.
        """
        _require_no_links(self.folder)
        ends = source_ends(self.folder, self.batch)
        processed = control_files_within(control_files_read(self.folder), ends)
        return sorted(
            path for path in _walk(self.folder) if _is_part_of_batch(self.folder, path, self.batch, ends, processed)
        )


def _require_no_links(folder: Files) -> None:
    links = folder.linked_folders() if isinstance(folder, LocalFiles) else []
    for link in links:
        if link.partition("/")[0] in COPIED:
            raise SavepointRefused(
                f"{link} in {folder.root} is a link to a folder, and a savepoint would lack what is in it; put that "
                "folder itself there. To keep the checkpoint on another disk, let its own name be a link"
            )


def read_checkpoint(folder: Files, *, batch: int | None = None) -> CheckpointSnapshot:
    """Read a checkpoint as of a committed batch.

    Args:
        folder: its files.
        batch: a committed batch, as of which it is read while the job runs; the last one if not given.

    Raises:
        SavepointRefused: what began the epoch is not complete, or its record was written by a process that was paused.
        SavepointError: there is no checkpoint of Panekeeper, or no batch was committed yet.
        StateError: the job record is damaged or of another version, or Spark's logs of the batch are damaged.
    """
    record = require_current_record(folder)
    commits = batch_numbers(folder, "commits")
    if not commits:
        raise SavepointError(
            f"no batch of {folder.root} was committed yet, so there is nothing to save; run the job first"
        )
    later = [number for number in batch_numbers(folder, "offsets") if number > commits[-1]]
    is_followed = bool(later) or batch is not None
    batch = commits[-1] if batch is None else batch
    settings = _settings(folder, batch)
    _require_recorded_declaration(folder, record, batch)
    return CheckpointSnapshot(
        folder=folder,
        record=record,
        batch=batch,
        unfinished=min(later, default=None),
        is_followed=is_followed,
        settings=settings,
        tables=read_tables(folder),
    )


def _require_recorded_declaration(folder: Files, record: JobRecord, batch: int) -> None:
    """Refuse state that was computed by another declaration than the one that its savepoint would have."""
    if as_computed(folder, record, batch) is not record:
        raise SavepointRefused(
            f"batch {batch} of {folder.root} was computed by another declaration than {layout.JOB_FILE} says, which a "
            "process has written that was paused; stop the job and start it once, which puts that right, and try again"
        )


def batch_with_control_file(folder: Files, number: int) -> int | None:
    """Return the first batch that has read a control file.

    Args:
        folder: the checkpoint.
        number: of the control file.

    Returns:
        The batch, which may not be committed yet; None if no batch has read the file.
    """
    place = control_files_read(folder).get(number)
    if place is None:
        return None
    first = None
    for batch in reversed(batch_numbers(folder, "offsets")):  # what a batch has read, the batches after it have, too
        if not has_read(source_ends(folder, batch), *place):
            break
        first = batch
    return first


def _settings(folder: Files, batch: int) -> dict[str, str]:
    """Return the Spark settings that a committed batch pins.

    Raises:
        CorruptState: the offsets of that batch are unreadable.
    """
    if not folder.exists(f"offsets/{batch}"):
        raise SavepointError(
            f"{folder.root} is incomplete: it has commits/{batch} and no offsets/{batch}; restore it from a savepoint"
        )
    return dict(offset_lines(folder, batch)[0]["conf"])


def _walk(folder: Files) -> Iterator[str]:
    for name in folder.sizes():
        parts = PurePosixPath(name).parts
        # Hidden files are Hadoop's checksums of local files: it does not need them, and a savepoint has its own.
        if parts[0] in COPIED and not parts[-1].startswith("."):
            yield name


def _is_part_of_batch(folder: Files, path: str, batch: int, ends: list[int | None], processed: set[int]) -> bool:
    parts = PurePosixPath(path).parts
    name = parts[-1]
    match parts[0]:
        case "offsets" | "commits":
            return name.isdigit() and int(name) <= batch
        case "sources":
            return _has_read_entry(folder, path, ends)
        case layout.CONTROL_FOLDER:  # without commands that only a later batch reads; the others keep the numbering
            control_number = control_file_number(name)
            return control_number is None or control_number in processed
        case "state":
            return _state_version(parts) <= batch + 1  # a batch writes the version after its number
    if path == FLUSHED_FILE:
        return _flushed_batch(folder) <= batch
    return path not in NOT_COPIED and not path.startswith(FOLDERS_NOT_COPIED)


def _has_read_entry(folder: Files, path: str, ends: list[int | None]) -> bool:
    """Return whether a file of a source's log is no entry, or one that was read; where a topic of Kafka began is none.

    A file source of which Spark has logged no offset, or none in the form in which it writes it, has read nothing.
    """
    parts = PurePosixPath(path).parts
    number, source = _NUMBER.fullmatch(parts[-1]), parts[1]
    if number is None or not source.isdecimal():
        return True
    end = ends[int(source)] if int(source) < len(ends) else None
    if end is not None:
        return int(number[1]) <= end
    return not any(isinstance(line, dict) and "path" in line for line in log_lines(folder, path))


def files_ahead(folder: Files, batch: int) -> list[str]:
    """Return the files of a checkpoint's sources and of its control stream that no batch up to this one has read.

    A savepoint has none. A start would run a batch of whatever files and commands they name.

    Args:
        folder: the checkpoint.
        batch: its last committed batch.

    Raises:
        CorruptState: Spark's logs are truncated or altered.
    """
    read_by_start = (f"{layout.SOURCES_FOLDER}/", f"{layout.CONTROL_FOLDER}/")
    paths = sorted(path for path in _walk(folder) if path.startswith(read_by_start))
    if not paths:
        return []
    ends = source_ends(folder, batch)
    processed = control_files_within(control_files_read(folder), ends)
    return [path for path in paths if not _is_part_of_batch(folder, path, batch, ends, processed)]


def _state_version(parts: tuple[str, ...]) -> int:
    """Return the version of the state that a file is for; 0 for a file of all versions."""
    if "_metadata" in parts:
        return int(parts[-1]) + 1 if parts[-1].isdigit() else 0
    version = _STATE_FILE.fullmatch(parts[-1])
    return 0 if version is None else int(version[1])


def _flushed_batch(folder: CheckpointFolder) -> int:
    found = (read_object(folder, FLUSHED_FILE) or {}).get("batch")
    if not isinstance(found, int):
        raise unreadable(folder, FLUSHED_FILE)
    return found
