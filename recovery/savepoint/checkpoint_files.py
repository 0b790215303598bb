"""The files of a checkpoint: which of them a savepoint as of a batch has, and how they are written into a new folder.

Reading needs no Spark, and reads any folder. It depends on the layout of the checkpoints of Spark 4.2. Anyone may have
written a savepoint, so each file is checked on the way: Spark would open and write what its files name.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from panekeeper.recovery.errors import DamagedSavepoint, SavepointError
from panekeeper.recovery.jobs.checkpoint import require_current_record
from panekeeper.recovery.savepoint.manifest import Manifest, is_copied
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import ProgressCallback, SavedFile, TransferProgress, download
from panekeeper.recovery.storage.files import Files, LocalFiles, map_parallel
from panekeeper.state.checkpoint import folder as layout
from panekeeper.state.checkpoint.control_files import control_files_read, control_files_within
from panekeeper.state.checkpoint.folder import batch_numbers, damaged, local_path, read_object
from panekeeper.state.checkpoint.job_record import JobRecord, read_record, read_tables
from panekeeper.state.errors import StateError
from panekeeper.state.own_paths import follow, is_description, quoted, spellings
from panekeeper.state.snapshots import require_plain_ids, require_plain_names_in_snapshot, require_schemas_within
from panekeeper.state.spark_logs import has_read, log_lines, offset_lines, source_ends

_STATE_FILE = re.compile(r"(\d+)(_.*)?\.(changelog|zip)(\.crc)?")
_NUMBER = re.compile(r"(\d+)(\.compact)?")
_IN_MEMORY = 2**20
"""How many bytes of a file that is checked are held in memory."""


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
    found = (read_object(folder, layout.FLUSHED_FILE) or {}).get("batch")
    if not isinstance(found, int):
        raise damaged(folder, layout.FLUSHED_FILE, "it names no batch")
    return found


def _state_version(parts: tuple[str, ...]) -> int:
    """Return the version of the state that a file is for; 0 for a file of all versions."""
    if "_metadata" in parts:
        return int(parts[-1]) + 1 if parts[-1].isdigit() else 0
    version = _STATE_FILE.fullmatch(parts[-1])
    return 0 if version is None else int(version[1])


def write_checkpoint(
    archive: Archive, manifest: Manifest, *, into: Files, progress: ProgressCallback | None = None
) -> None:
    """Write the files of a savepoint into a new folder; first the one that says which job it is of.

    Raises `DamagedSavepoint` if a file is missing or altered, or has content that Panekeeper never writes; what was
    written so far stays there.
    """
    done = 0
    first = [file for file in manifest.files if file.path == layout.JOB_FILE]
    for files in (first, [file for file in manifest.files if file not in first]):
        for file, _ in map_parallel(lambda file: _write(archive, file, into), files):
            done += file.size
            if progress is not None:
                progress(TransferProgress(sent=done, reused=0, total=manifest.size))
    for path in files_ahead(into, manifest.batch):
        raise _never_written(path, "no batch of it has read this file, and a start would")
    # The record may have been written late, over that of those who ran on (`state/prepared.py`); a copy has no batches.
    with suppress(StateError):  # who needs it says what is wrong with it
        record = read_record(into)
        if record is not None and record.declaration != manifest.declaration:
            right = replace(record, declaration=manifest.declaration)
            into.put_bytes(layout.JOB_FILE, json.dumps(right.to_json()).encode())
    # Let Spark's files name the folder that they are in now, and no file outside of it: Spark would read or write it.
    follow(into)
    for path in filter(is_description, into.sizes(f"{layout.STATE_FOLDER}/")):
        if path.rpartition("/")[2].startswith("."):
            continue  # Hadoop's checksums are no text
        try:
            require_schemas_within(into.read(path), partial(_is_within, into.place))
        except ValueError as error:
            raise _never_written(path, str(error)) from error


def read_saved_record(archive: Archive, manifest: Manifest) -> JobRecord:
    """Return what a savepoint has of its job. Raises `DamagedSavepoint`, or as `read_record`."""
    with tempfile.TemporaryDirectory(prefix="panekeeper-record-") as scratch:
        folder = LocalFiles(Path(scratch))
        for file in manifest.files:
            if file.path == layout.JOB_FILE:
                _write(archive, file, folder)
        record = read_record(folder)
    if record is None:
        raise DamagedSavepoint(f"{layout.JOB_FILE} of savepoint {manifest.name!r} is empty; use another savepoint")
    return record


@contextmanager
def temporary_copy(archive: Archive, manifest: Manifest) -> Iterator[str]:
    """Provide the full name of a folder on this host with a savepoint's checkpoint, while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="panekeeper-copy-") as scratch:
        folder = str(Path(scratch).resolve() / "checkpoint")
        write_checkpoint(archive, manifest, into=LocalFiles(Path(folder)))
        yield folder


@contextmanager
def checked_copy(archive: Archive, manifest: Manifest, progress: ProgressCallback | None = None) -> Iterator[Files]:
    """Do all that `write_checkpoint` does and raise what it raises, and keep nothing after the block.

    Of the state, which may be large, each file is read and checked, and its content is not kept meanwhile.
    """
    with tempfile.TemporaryDirectory(prefix="panekeeper-check-") as scratch:
        folder = _WithoutState(Path(scratch).resolve() / "checkpoint")
        write_checkpoint(archive, manifest, into=folder, progress=progress)
        yield folder


class _WithoutState(LocalFiles):
    """A folder that stores no state, but for the files that describe it."""

    def child(self, name: str) -> _WithoutState:
        return _WithoutState(self.path / name, s3=self.s3)

    def open_new(self, name: str) -> AbstractContextManager[BinaryIO]:
        if not name.startswith(f"{layout.STATE_FOLDER}/") or is_description(name):
            return super().open_new(name)
        return Path(os.devnull).open("wb")


def _write(archive: Archive, file: SavedFile, into: Files) -> None:
    """Write a file, and check what was written before it gets its name."""
    check = _check_of(PurePosixPath(file.path))
    with into.open_new(file.path) as target:
        if check is None:
            download(archive, file, target)
            return
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="panekeeper-") as copy:
            download(archive, file, target, copy)
            copy.seek(0)
            try:
                check(copy)
            except ValueError as error:
                raise _never_written(file.path, str(error)) from error


def _check_of(path: PurePosixPath) -> Callable[[IO[bytes]], None] | None:
    """Return the check of a file by whose content Spark opens and writes others: commits, snapshots of the state."""
    if path.parts[0] == layout.COMMITS_FOLDER:
        return lambda file: require_plain_ids(file.read())
    return require_plain_names_in_snapshot if path.parts[0] == layout.STATE_FOLDER and path.suffix == ".zip" else None


def _is_within(folder: str, file: str) -> bool:
    """Return whether a full name is one of a file in a folder, which a job may name by a link to it."""
    spelled = [one for name in (folder, quoted(folder)) for one in spellings(name).values()]
    if any(file.startswith(f"{one}/") for one in spelled):
        return True
    place, target = local_path(folder), local_path(file)
    if place is None or target is None:
        return False
    return os.path.realpath(target).startswith(f"{os.path.realpath(place)}/")


def _never_written(path: str, why: str) -> DamagedSavepoint:
    return DamagedSavepoint(
        f"{path} in the savepoint has content that Spark never writes ({why}); do not use this savepoint, and find out "
        "who can write to its location"
    )
