"""Spark's log of the control stream: which control files has it read, and how does it stay small?

The log has a file for each entry, `sources/<source>/<entry>`, with a line for each control file that Spark found then.
Every tenth file is a compact one, with all lines before it, for ever: 119 bytes for each tick of the job's life. Spark
needs a line for two reasons: to find what a batch reads that is not committed, and not to read a file again that is
still in the folder. So lines of control files that were processed and removed can be dropped (`prune_control_log`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from panekeeper.state.checkpoint.folder import CheckpointFolder, parse_json, read_object
from panekeeper.state.checkpoint.layout import (
    CONTROL_FOLDER,
    SOURCES_FOLDER,
    control_file,
    control_file_number,
)
from panekeeper.state.spark_logs.offsets import has_read, log_lines, text_lines, unreadable
from panekeeper.state.spark_logs.source_logs import needed_entries

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
