"""A job's checkpoint, read as files: which batch it stands at, and what belongs to it as of that batch.

Needs no Spark, and does not know where the folder lies. Knows the layout of Spark 4.2's checkpoints; `moved` is the
only place that changes one of their files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from recovery.errors import SavepointError, SavepointRefused
from recovery.storage.files import Files
from state.checkpoint import layout
from state.checkpoint.folder import CheckpointFolder, batch_numbers
from state.checkpoint.job_record import JobRecord, read_record, read_tables
from state.checkpoint.layout import (
    FLUSHED_FILE,
    JOB_FILE,
    RESET_FILE,
    RUNNING_FILE,
    SUPERSEDED_FILE,
    control_file_number,
)
from state.checkpoint.restore_markers import superseded_by
from state.errors import CorruptState

_COPIED = (*layout.SPARK_NAMES, layout.OWN_FOLDER, layout.CONTROL_FOLDER)
_NOT_COPIED = (RUNNING_FILE, RESET_FILE, SUPERSEDED_FILE)  # who runs the job, what was begun: not the copy's affair
_STATE_FILE = re.compile(r"(\d+)(_.*)?\.(changelog|zip)(\.crc)?")
_NUMBER = re.compile(r"(\d+)(\.compact)?")
_VERSION = re.compile(r"v\d+")


@dataclass(frozen=True, kw_only=True)
class CheckpointSnapshot:
    """A checkpoint folder as it stands.

    Attributes:
        folder: its files.
        record: what it says of its job.
        batch: the batch as of which it is read: the last committed one, unless another was asked for.
        unfinished: a batch that was begun after the last committed one, or None.
        followed: whether the tables may hold rows of later batches.
        settings: the Spark settings it pins.
        tables: role -> path of the Delta tables.
    """

    folder: Files
    record: JobRecord
    batch: int
    unfinished: int | None
    is_followed: bool
    settings: dict[str, str]
    tables: dict[str, str]

    def files(self) -> list[str]:
        """Return the paths of what belongs to the checkpoint as of `batch`, sorted."""
        ends = _source_ends(self.folder, self.batch)
        processed = {
            number for number, (source, entry) in _control_files(self.folder).items() if _has_read(ends, source, entry)
        }
        return sorted(
            path for path in _walk(self.folder) if _is_part_of_batch(self.folder, path, self.batch, ends, processed)
        )


def read_checkpoint(folder: Files, *, batch: int | None = None) -> CheckpointSnapshot:
    """Return how a checkpoint stands.

    Args:
        folder: its files.
        batch: a committed batch, as of which it is read although the job goes on; the last one if not given.

    Raises:
        SavepointRefused: the job was going back to its initial state, and that was not completed.
        SavepointError: there is no checkpoint of ours, or no batch of it was committed yet.
        StateError: its record is damaged or from another version, or what Spark logged of that batch is damaged.
    """
    record = read_record(folder)
    if record is None:
        raise SavepointError(
            f"{folder.root} holds no checkpoint of Panekeeper's ({JOB_FILE} is not there); name its folder"
        )
    if folder.exists(RESET_FILE):
        raise SavepointRefused(
            f"the job of {folder.root} was going back to its initial state, and that was not completed ({RESET_FILE} "
            "is there): what it has is to be discarded; start the job once, which completes it, and try again"
        )
    successor = superseded_by(folder)
    if successor is not None:
        raise SavepointRefused(
            f"the job of {folder.root} was restored to {successor}, and its tables fit that "
            "checkpoint only; make the savepoint of that one"
        )
    commits = batch_numbers(folder, "commits")
    if not commits:
        raise SavepointError(
            f"no batch of {folder.root} was committed yet, so there is nothing to save; let the job run"
        )
    later = [number for number in batch_numbers(folder, "offsets") if number > commits[-1]]
    is_followed = bool(later) or batch is not None
    batch = commits[-1] if batch is None else batch
    settings = _settings(folder, batch)
    return CheckpointSnapshot(
        folder=folder,
        record=record,
        batch=batch,
        unfinished=min(later, default=None),
        is_followed=is_followed,
        settings=settings,
        tables=read_tables(folder),
    )


def batch_with_control_file(folder: Files, number: int) -> int | None:
    """Return the first batch that has read a file of the pulse; None if none has begun to yet."""
    place = _control_files(folder).get(number)
    if place is None:
        return None
    first = None
    for batch in reversed(batch_numbers(folder, "offsets")):  # what a batch has read, those after it have, too
        if not _has_read(_source_ends(folder, batch), *place):
            break
        first = batch
    return first


def contains_absolute_path(path: str) -> bool:
    """Say whether Spark writes full names into this file of a checkpoint."""
    parts = PurePosixPath(path).parts
    return parts[0] == "sources" or "_metadata" in parts


def with_new_path(path: str, content: bytes, *, old: str, new: str) -> bytes:
    """Return the content of a checkpoint's file as it must be in another folder.

    Spark writes full names into the logs of file sources (ours is the pulse) and into the metadata of its state. An
    old name left there would make the job process old control files again, or read the old folder.

    Args:
        path: the file's, in the checkpoint.
        content: what stands in it.
        old: the folder it was written in: a local path or a URL.
        new: the folder it will be in.
    """
    if old == new or not contains_absolute_path(path):
        return content
    # In the log of a source names are quoted as in a URL, in the metadata they are plain; the last word counts.
    ways = (str, _quoted) if path.startswith("sources/") else (_quoted, str)
    spelled: dict[str, str] = {}
    for way in ways:
        after = _spellings(way(new))
        spelled |= {f"{one}/": f"{after.get(kind, after['url'])}/" for kind, one in _spellings(way(old)).items()}
    names = re.compile("|".join(map(re.escape, spelled)))
    return names.sub(lambda match: spelled[match[0]], content.decode()).encode()


def _quoted(folder: str) -> str:
    return quote(folder, safe="/:@!$&'()*+,;=~")  # what Java leaves as it is


def _spellings(folder: str) -> dict[str, str]:
    """Return how Spark writes the full name of a folder."""
    return {"url": folder} if "://" in folder else {"url": f"file://{folder}", "short": f"file:{folder}"}


def _settings(folder: Files, batch: int) -> dict[str, str]:
    """Return what a committed batch pins. Raises `CorruptState` unless all that Spark logged of it is whole."""
    if not folder.exists(f"offsets/{batch}"):
        raise SavepointError(f"{folder.root} is incomplete: it has commits/{batch} and no offsets/{batch}")
    _logged(folder, f"commits/{batch}")
    pinned, *sources = _logged(folder, f"offsets/{batch}") or [None]
    if not sources or not isinstance(pinned, dict) or not isinstance(pinned.get("conf"), dict):
        raise _damaged(folder, f"offsets/{batch}")
    return dict(pinned["conf"])


def _logged(folder: Files, name: str) -> list[Any]:
    """Return what stands below the version in a file of Spark's logs; what is no JSON object as it is."""
    try:
        version, *lines = folder.read(name).decode().splitlines()
        if _VERSION.fullmatch(version) is None:
            raise ValueError(version)
        return [json.loads(line) if line.startswith("{") else line for line in lines]
    except ValueError as error:  # cut short, as by a disk that lost what it had not written yet
        raise _damaged(folder, name) from error


def _damaged(folder: CheckpointFolder, name: str) -> CorruptState:
    return CorruptState(f"{name} in {folder.root} is damaged; restore this checkpoint from a savepoint")


def _walk(folder: Files) -> Iterator[str]:
    for name in folder.sizes():
        parts = PurePosixPath(name).parts
        # Hidden files are Hadoop's checksums of local files: it does without, and a savepoint has its own.
        if parts[0] in _COPIED and not parts[-1].startswith("."):
            yield name


def _is_part_of_batch(folder: Files, path: str, batch: int, ends: list[int | None], processed: set[int]) -> bool:
    parts = PurePosixPath(path).parts
    name = parts[-1]
    match parts[0]:
        case "offsets" | "commits":
            return name.isdigit() and int(name) <= batch
        case "sources":
            end = ends[int(parts[1])] if int(parts[1]) < len(ends) else None
            number = _NUMBER.fullmatch(name)
            return end is None or number is None or int(number[1]) <= end
        case layout.CONTROL_FOLDER:  # not a command that only a later batch reads; what was read keeps the numbering
            control_number = control_file_number(name)
            return control_number is None or control_number in processed
        case "state":
            return _state_version(parts) <= batch + 1  # a batch writes the version after its number
    if path == FLUSHED_FILE:
        return int(_json(folder, path)["batch"]) <= batch
    return path not in _NOT_COPIED


def _state_version(parts: tuple[str, ...]) -> int:
    """Return which version of the state a file is for; 0 for all of them."""
    if "_metadata" in parts:
        return int(parts[-1]) + 1 if parts[-1].isdigit() else 0
    version = _STATE_FILE.fullmatch(parts[-1])
    return 0 if version is None else int(version[1])


def _source_ends(folder: Files, batch: int) -> list[int | None]:
    """Return, for each source, the last entry of its own log that the batch has read; None: it keeps no such log."""
    return [_log_offset(line) for line in folder.read(f"offsets/{batch}").decode().splitlines()[2:]]


def _has_read(ends: list[int | None], source: int, entry: int) -> bool:
    end = ends[source] if source < len(ends) else None
    return end is not None and entry <= end


def _control_files(folder: Files) -> dict[int, tuple[int, int]]:
    """Return number of a pulse file -> the source that has seen it, and the entry of its log that names it.

    The pulse is the last source; those before it may have seen any number of files, and are not read.
    """
    for source in sorted(map(int, filter(str.isdecimal, folder.names("sources"))), reverse=True):
        if seen := {number: (source, entry) for number, entry in _control_files_of_source(folder, f"sources/{source}")}:
            return seen
    return {}


def _control_files_of_source(folder: Files, source: str) -> Iterator[tuple[int, int]]:
    """The pulse files that the log of one source names, each with its entry."""
    for log in _needed(folder.names(source)):
        for line in folder.read(f"{source}/{log}").decode().splitlines():
            try:
                entry = json.loads(line) if line.startswith("{") else {}
            except ValueError as error:
                raise _damaged(folder, f"{source}/{log}") from error
            path = PurePosixPath(entry.get("path", ""))
            number = control_file_number(path.name)
            if path.parent.name == layout.CONTROL_FOLDER and number is not None:
                yield number, entry["batchId"]


def _needed(names: list[str]) -> list[str]:
    """Return which files of a source's log say all: the newest compact one has what stood in those before it."""
    numbers = {name: int(match[1]) for name in names if (match := _NUMBER.fullmatch(name))}
    compact = max((number for name, number in numbers.items() if name.endswith(".compact")), default=-1)
    return sorted((name for name, number in numbers.items() if number >= compact), key=numbers.__getitem__)


def _log_offset(line: str) -> int | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value["logOffset"] if isinstance(value, dict) and set(value) == {"logOffset"} else None


def _json(folder: CheckpointFolder, name: str) -> Any:
    try:
        return folder.read_json(name)
    except ValueError as error:
        raise _damaged(folder, name) from error
