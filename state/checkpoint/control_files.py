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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.folder import (
    CONTROL_FOLDER,
    SOURCES_FOLDER,
    CheckpointFolder,
    control_file,
    control_file_number,
    parse_json,
    read_object,
)
from panekeeper.state.log import logger
from panekeeper.state.spark_logs import has_read, log_lines, needed_entries, text_lines, unreadable

ControlKind = Literal["resume", "tick", "drain", "savepoint", "flush"]
"""`resume`: the job was started. `tick`: an instant of the wall clock has come. The others are commands."""

CHECKPOINT_COMMANDS = ("drain", "savepoint")
"""Commands that make a batch a checkpoint of a kind, and leave the windows as they are."""

_log = logger("job")


def write_control_file(folder: CheckpointFolder, kind: ControlKind, *, us: int | None = None) -> int:
    """Write the next control file, at the time `us`, and return its number; from then on its time is data.

    Without `us` the clock is read once, here.

    Several processes may write at the same time: if the number is taken, the next one is tried. Spark reads each name
    once, so where files are lost the numbers go on after the last one that Spark has read. Ticks, which are many, go on
    after what the start has written.
    """
    number = newest_control_file(folder) + 1
    if (number == 1 or kind != "tick") and (read := newest_control_file_read(folder)) >= number:
        _log.warning("files of %s in %s are lost; its numbers go on after %s", CONTROL_FOLDER, folder.root, read)
        number = read + 1
    row = {"kind": kind, "us": now_us() if us is None else us}
    while True:
        try:
            folder.write_json(control_file(number), row | {"number": number})
        except FileExistsError:
            number += 1
        else:
            return number


def newest_control_file(folder: CheckpointFolder) -> int:
    """Return the number of the newest control file; 0 if there is none."""
    return max(_numbers(folder), default=0)


def remove_processed(folder: CheckpointFolder, number: int) -> list[int]:
    """Remove the control files before this number, which a committed batch has read. The newest keeps the numbering.

    Returns:
        The numbers of the control files that stay.
    """
    stay = []
    for one in _numbers(folder):
        if one < number:
            folder.remove(control_file(one))
        else:
            stay.append(one)
    return stay


class ControlCommand:
    """A command on its way to a job, which no other writer of control files can displace.

    A checkpoint that only Java's file systems reach may have no exclusive create: another process may then replace the
    file. `rewrite_if_lost` is called while the command is waited for.

    Attributes:
        number: of the control file that carries the command now.
    """

    def __init__(self, folder: CheckpointFolder, kind: ControlKind) -> None:
        self._folder = folder
        self._kind: ControlKind = kind
        self.number = write_control_file(folder, kind)

    def rewrite_if_lost(self) -> None:
        """Write the command again under another number if its file was replaced by another process."""
        row = read_object(self._folder, control_file(self.number))
        if row is not None and row.get("kind") != self._kind:
            self.number = write_control_file(self._folder, self._kind)


def _numbers(folder: CheckpointFolder) -> list[int]:
    found = map(control_file_number, folder.names(CONTROL_FOLDER))
    return [number for number in found if number is not None]


_COMPACT = ".compact"


def control_files_read(folder: CheckpointFolder) -> dict[int, tuple[int, int]]:
    """Return number of a control file -> the source that has read it, and the entry of its log that names it.

    The control stream is the last source; the logs of those before it may be large, and are not read. An entry that
    names a file again is not the one: the file was read, and removed, before.

    Raises:
        CorruptState: a line of the log is truncated or altered.
    """
    for source in _sources(folder):
        found: dict[int, tuple[int, int]] = {}
        for number, entry in _numbers_in(folder, source, needed_entries):
            found[number] = min(found.get(number, (int(source), entry)), (int(source), entry))
        if found:
            return found
    return {}


def newest_control_file_read(folder: CheckpointFolder) -> int:
    """Return the greatest number of a control file that Spark has read; 0 if it has read none."""
    for source in _sources(folder):
        numbers = [number for number, _ in _numbers_in(folder, source, lambda names: needed_entries(names)[-1:])]
        if numbers:
            return max(numbers)
    return 0


def control_source(folder: CheckpointFolder) -> int | None:
    """Return the number of the source that reads the control stream; None if it has read nothing."""
    newest = lambda names: needed_entries(names)[-1:]  # noqa: E731 -- as above
    return next((int(source) for source in _sources(folder) if any(_numbers_in(folder, source, newest))), None)


def control_folder_read(folder: CheckpointFolder) -> str | None:
    """Return the URL of the folder in which Spark has found the newest control files; None if it has read none."""
    for source in _sources(folder):
        for name in reversed(needed_entries(folder.names(f"{SOURCES_FOLDER}/{source}"))):
            for line in log_lines(folder, f"{SOURCES_FOLDER}/{source}/{name}"):
                if isinstance(line, dict) and _control_number(line) is not None:
                    return str(line["path"]).rpartition("/")[0]
    return None


def control_files_within(read: Mapping[int, tuple[int, int]], ends: Sequence[int | None]) -> set[int]:
    """Return the numbers of the control files that were read up to some entries of the sources' logs.

    Args:
        read: what `control_files_read` returns.
        ends: what `source_ends` returns.
    """
    return {number for number, (source, entry) in read.items() if has_read(ends, source, entry)}


def remove_unread_flushes(
    folder: CheckpointFolder, before_each: Callable[[], None] = lambda: None, *, before: int
) -> list[str]:
    """Remove flushes that no batch has read and that an earlier run was to do: it ended before they began.

    The next batch would flush the windows and finish the job, with whatever part of its sources it has read.

    Args:
        folder: the checkpoint. No query may run on it.
        before_each: raises if a query may run by now, which may have read it.
        before: number of the control file with which this run began.

    Returns:
        The removed files.
    """
    earlier = [control_file(one) for one in _unread(folder) if one < before]
    removed = [name for name in earlier if (read_object(folder, name) or {}).get("kind") == "flush"]
    for name in removed:
        before_each()
        folder.remove(name)
    return removed


def _unread(folder: CheckpointFolder) -> list[int]:
    newest = newest_control_file_read(folder)
    return [one for one in map(control_file_number, folder.names(CONTROL_FOLDER)) if one is not None and one > newest]


def prune_control_log(folder: CheckpointFolder, *, before: int, present: Collection[int]) -> int:
    """Drop lines from the newest compact file of the log. No query may plan a batch meanwhile.

    Args:
        folder: the checkpoint.
        before: control files with a lower number were read by batches that are committed.
        present: the numbers of those that are still in the folder of the control stream; their lines stay.

    Returns:
        How many lines were dropped.

    Raises:
        CorruptState: a line of the log is truncated or altered.
    """
    for source in _sources(folder):
        names = needed_entries(folder.names(f"{SOURCES_FOLDER}/{source}"))
        if not any(_numbers_in(folder, source, lambda all_names: needed_entries(all_names)[-1:])):
            continue
        return _prune(folder, f"{SOURCES_FOLDER}/{source}/{names[0]}", before, present)
    return 0


def _prune(folder: CheckpointFolder, name: str, before: int, present: Collection[int]) -> int:
    entry = name.rpartition("/")[2].removesuffix(_COMPACT)
    if not name.endswith(_COMPACT):
        return 0
    version, *lines = text_lines(folder.read(name))

    def is_needed(line: str) -> bool:
        value = _parsed(folder, name, line)
        number = _control_number(value)
        return number is None or number >= before or number in present or value["batchId"] >= int(entry)

    kept = [line for line in lines if is_needed(line)]
    if len(kept) < len(lines):
        folder.write(name, "\n".join([version, *kept]).encode(), replace=True)
    return len(lines) - len(kept)


def _sources(folder: CheckpointFolder) -> list[str]:
    return sorted(filter(str.isdecimal, folder.names(SOURCES_FOLDER)), key=int, reverse=True)


def _numbers_in(
    folder: CheckpointFolder, source: str, choose: Callable[[list[str]], list[str]]
) -> Iterator[tuple[int, int]]:
    """Yield the control files that the chosen files of a source's log name, each with its entry."""
    log = f"{SOURCES_FOLDER}/{source}"
    for name in choose(folder.names(log)):
        try:
            lines = text_lines(folder.read(f"{log}/{name}"))
        except UnicodeDecodeError as error:
            raise unreadable(folder, f"{log}/{name}") from error
        for line in lines:
            value = _parsed(folder, f"{log}/{name}", line)
            number = _control_number(value)
            if number is not None:
                yield number, value["batchId"]


def _parsed(folder: CheckpointFolder, name: str, line: str) -> dict[str, Any]:
    try:
        found = dict(parse_json(line.encode())) if line.lstrip().startswith("{") else {}
    except ValueError as error:
        raise unreadable(folder, name) from error
    if "path" in found and not (isinstance(found["path"], str) and isinstance(found.get("batchId"), int)):
        raise unreadable(folder, name)
    return found


def _control_number(entry: dict[str, Any]) -> int | None:
    folder, _, name = entry.get("path", "").rpartition("/")
    return control_file_number(name) if folder.rpartition("/")[2] == CONTROL_FOLDER else None
