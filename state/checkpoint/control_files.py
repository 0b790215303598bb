"""The control stream: time and commands for a job, one immutable JSON file each, and Spark's log of those it has read.

A file has the fields `kind` (`ControlKind`), `us` (the wall-clock time at which it was written, us since the epoch) and
`number` (that of its name). The job writes them, and so do commands from another process. The job reads them as a
stream (`framework/engine/flow/control_stream.py`), so a batch that is replayed sees the same time and commands.

Spark's log of them has a file for each entry, `sources/<source>/<entry>`. Every tenth one is compact, with all lines
before it, for ever: 119 bytes for each tick of the job's life. Spark needs a line for two reasons: to find what a batch
reads that is not committed, and not to read a file again that is still in the folder. So lines of control files that
were processed and removed can be dropped (`prune_control_log`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.folder import (
    CONTROL_FOLDER,
    SOURCES_FOLDER,
    CheckpointFolder,
    control_file,
    control_file_number,
    numbers_in,
    read_object,
)
from panekeeper.state.spark_logs import has_read, log_lines, needed_entries, text_lines

ControlKind = Literal["resume", "tick", "drain", "savepoint", "flush"]
"""`resume`: the job was started. `tick`: an instant of the wall clock has come. The others are commands."""

CHECKPOINT_COMMANDS = ("drain", "savepoint")
"""Commands that make a batch a checkpoint of a kind, and leave the windows as they are."""
COMMANDS = (*CHECKPOINT_COMMANDS, "flush")
"""All commands. They act after the rows of their batch."""

ELSEWHERE = "elsewhere:"
"""Begins the kind of a control file that ends a query, as its checkpoint is another; why follows, for the user."""


def write_control_file(folder: CheckpointFolder, kind: ControlKind, *, us: int | None = None) -> int:
    """Write the next control file, at the time `us`, and return its number; from then on its time is data.

    Without `us` the clock is read once, here.

    Several processes may write at the same time: if the number is taken, the next one is tried.
    """
    number = newest_control_file(folder) + 1
    row = {"kind": kind, "us": now_us() if us is None else us}
    while True:
        try:
            folder.write_json(control_file(number), row | {"number": number})
        except FileExistsError:
            number += 1
        else:
            return number


def end_query_elsewhere(folder: CheckpointFolder, why: str) -> None:
    """Let the next batch that reads the newest control file fail and say `why`: its query has another checkpoint."""
    number = newest_control_file(folder)
    row = {"kind": ELSEWHERE + why, "us": now_us(), "number": number}
    folder.write_json(control_file(number), row, replace=True)


def remove_ends_elsewhere(folder: CheckpointFolder) -> None:
    """Remove what `end_query_elsewhere` has written: a query that has its checkpoint in this folder is to read on."""
    for number in numbers_in(folder, CONTROL_FOLDER):
        if str(folder.read_json(control_file(number))["kind"]).startswith(ELSEWHERE):
            folder.remove(control_file(number))


def newest_control_file(folder: CheckpointFolder) -> int:
    """Return the number of the newest control file; 0 if there is none."""
    return max(numbers_in(folder, CONTROL_FOLDER), default=0)


def remove_processed(folder: CheckpointFolder, number: int) -> list[int]:
    """Remove the control files before this number, which a committed batch has read; return the numbers that stay.

    The newest keeps the numbering.
    """
    stay = []
    for present in numbers_in(folder, CONTROL_FOLDER):
        if present < number:
            folder.remove(control_file(present))
        else:
            stay.append(present)
    return stay


def control_files_read(folder: CheckpointFolder) -> dict[int, tuple[int, int]]:
    """Return number of a control file -> the source that has read it, and the entry of its log that names it.

    An entry that names a file again is not the one: the file was read, and removed, before. Raises `CorruptState`.
    """
    place_of: dict[int, tuple[int, int]] = {}
    source, files = _control_log(folder)
    for name in files:
        for number, _, entry in _named(folder, name):
            place_of[number] = min(place_of.get(number, (source, entry)), (source, entry))
    return place_of


def newest_control_file_read(folder: CheckpointFolder) -> int:
    """Return the greatest number of a control file that Spark has read; 0 if it has read none."""
    return max((number for name in _control_log(folder)[1][-1:] for number, _, _ in _named(folder, name)), default=0)


def control_source(folder: CheckpointFolder) -> int | None:
    """Return the number of the source that reads the control stream; None if it has read nothing."""
    source, files = _control_log(folder)
    return source if files else None


def control_folder_read(folder: CheckpointFolder) -> str | None:
    """Return the URL of the folder in which Spark has found the newest control files; None if it has read none."""
    newest = (path for name in _control_log(folder)[1][-1:] for _, path, _ in _named(folder, name))
    return next((path.rpartition("/")[0] for path in newest), None)


def control_files_within(read: Mapping[int, tuple[int, int]], ends: Sequence[int | None]) -> set[int]:
    """Return the control files of `control_files_read` that a batch has read, by its `source_ends`."""
    return {number for number, (source, entry) in read.items() if has_read(ends, source, entry)}


def remove_unread_flushes(
    folder: CheckpointFolder, require_held: Callable[[], None] = lambda: None, *, before: int
) -> list[str]:
    """Remove flushes that no batch has read and that an earlier run was to do; return their names.

    That run ended before they began: the next batch would flush the windows and finish the job, with whatever part of
    its sources it has read. No query may run on the checkpoint: `require_held` raises if one may by now, which may have
    read the flush. `before` is the number of the control file with which this run began.
    """
    read = newest_control_file_read(folder)
    unread = [control_file(number) for number in numbers_in(folder, CONTROL_FOLDER) if read < number < before]
    removed = [name for name in unread if (read_object(folder, name) or {}).get("kind") == "flush"]
    for name in removed:
        require_held()
        folder.remove(name)
    return removed


def prune_control_log(folder: CheckpointFolder, *, before: int, present: Collection[int]) -> int:
    """Drop lines from the newest compact file of the log, and return how many. No query may plan a batch meanwhile.

    Control files with a number below `before` were read by batches that are committed; the lines of those that are
    still `present` in the folder of the control stream stay.
    """
    _, files = _control_log(folder)
    if not files or not files[0].endswith(".compact"):
        return 0
    name, own_entry = files[0], int(files[0].rpartition("/")[2].removesuffix(".compact"))
    processed = {
        (path, entry)
        for number, path, entry in _named(folder, name)
        if number < before and number not in present and entry < own_entry
    }
    version, *lines = text_lines(folder.read(name))
    parsed = ((line, json.loads(line)) for line in lines)
    kept = [line for line, value in parsed if (value["path"], value["batchId"]) not in processed]
    if len(kept) < len(lines):
        folder.write(name, "\n".join([version, *kept]).encode(), replace=True)
    return len(lines) - len(kept)


def _control_log(folder: CheckpointFolder) -> tuple[int, list[str]]:
    """Return the source that has read the control stream, and the files to read of its log; none if it has read none.

    It is the last source; the logs of those before it may be large, and are not read.
    """
    for source in sorted(map(int, filter(str.isdecimal, folder.names(SOURCES_FOLDER))), reverse=True):
        log = f"{SOURCES_FOLDER}/{source}"
        files = [f"{log}/{name}" for name in needed_entries(folder.names(log))]
        if any(True for name in reversed(files) for _ in _named(folder, name)):
            return source, files
    return 0, []


def _named(folder: CheckpointFolder, name: str) -> Iterator[tuple[int, str, int]]:
    """Yield the control files that a file of a source's log names: number, URL and entry."""
    for line in log_lines(folder, name):
        path = line.get("path", "") if isinstance(line, dict) else ""
        parent, _, file = path.rpartition("/")
        if parent.endswith(f"/{CONTROL_FOLDER}") and (number := control_file_number(file)) is not None:
            yield number, path, line["batchId"]
