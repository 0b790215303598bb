"""What do Spark's own logs of a checkpoint say of its batches? Whether all in them is whole, Spark finds out.

Each file of these logs begins with a line that is its version; the others are JSON, or `-`. Spark pins some settings by
the offsets of each batch, and restores them at a start, whatever the session says. In which format its state is stored
it does not pin; that is the version of its commits.

The log of a file source has a file for each entry, `sources/<source>/<entry>`, with a line for each file that was found
then. Every tenth one is compact: it has the lines of those before it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from panekeeper.state.checkpoint.folder import (
    OFFSETS_FOLDER,
    SOURCES_FOLDER,
    CheckpointFolder,
    batch_numbers,
    damaged,
    parse_json,
)

NO_OFFSET = "-"
"""What Spark logs of a source that had nothing yet."""
LINE_END = re.compile(r"\r\n?|\n")
"""Where a line ends for Java. Python knows more such places, which JSON may hold."""

_NO_LOG = "it is no log as Spark writes it"
_VERSION = re.compile(r"v(\d+)")
_LOG_OFFSET = re.compile(r'\s*\{\s*"logOffset"\s*:\s*(\d{1,18})\s*\}\s*', re.ASCII)


def log_lines(folder: CheckpointFolder, name: str) -> Iterator[Any]:
    """Yield the lines of a file below its version; those that are JSON objects, parsed. Raises `CorruptState`."""
    try:
        lines = parsed_lines(folder.read(name))
        next(lines)
        yield from lines  # not at once: a file source has one for each file that it has ever read
    except ValueError as error:
        raise damaged(folder, name, _NO_LOG) from error


def parsed_lines(content: bytes) -> Iterator[Any]:
    """Yield the version of a file, then its lines as `log_lines` does. Raises `ValueError` if it is no log of Spark."""
    first, *lines = text_lines(content.removeprefix(b"\0"))  # a Kafka source's begins with one, for Spark 2.1
    version = _VERSION.fullmatch(first)
    if version is None:
        raise ValueError(first)
    yield version[1]
    yield from (parse_json(line.encode()) if line.lstrip().startswith("{") else line for line in lines)


def text_lines(content: bytes) -> list[str]:
    """Return the lines of a file as Spark reads it; at least one."""
    first, *lines = LINE_END.split(content.decode())
    return [first, *(lines[:-1] if lines and not lines[-1] else lines)]


def offset_lines(folder: CheckpointFolder, batch: int) -> list[Any]:
    """Return what the offsets of a batch say: what it pins, then a value for each source. Raises `CorruptState`."""
    name = f"{OFFSETS_FOLDER}/{batch}"
    lines = [*log_lines(folder, name)]
    if not lines or not isinstance(lines[0], dict) or not isinstance(lines[0].get("conf"), dict):
        raise damaged(folder, name, _NO_LOG)
    return lines


def source_ends(folder: CheckpointFolder, batch: int) -> list[int | None]:
    """Return, for each source, the last entry of its log that a batch has read; None for one without a log."""
    return [log_offset(line) for line in _source_lines(folder, batch)]


def _source_lines(folder: CheckpointFolder, batch: int) -> list[str]:
    """Return the lines of the sources in the offsets of a batch, as they are. Raises `CorruptState`."""
    offset_lines(folder, batch)
    return text_lines(folder.read(f"{OFFSETS_FOLDER}/{batch}"))[2:]


def has_read(ends: Sequence[int | None], source: int, entry: int) -> bool:
    """Return whether a batch has read an entry of a source's log, by its `source_ends`."""
    end = ends[source] if source < len(ends) else None
    return end is not None and entry <= end


def log_offset(line: str) -> int | None:
    """Return the entry that a line names as Spark writes it; what Spark only reads is the line of no file source."""
    match = _LOG_OFFSET.fullmatch(line)
    return None if match is None else int(match[1])


_ENTRY = re.compile(r"(\d+)(?:\.compact)?")


def needed_entries(names: Iterable[str]) -> list[str]:
    """Return the files to read of a source's log: the newest compact one has the entries of those before it.

    >>> needed_entries(["7", "8", "9.compact", "10"])
    ['9.compact', '10']
    """
    numbers = _numbers(names)
    compact = max((number for name, number in numbers.items() if name.endswith(".compact")), default=-1)
    return sorted((name for name, number in numbers.items() if number >= compact), key=numbers.__getitem__)


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """Return the files of a source's log -> the numbers of their entries; other files in its folder are none of it."""
    return {name: int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))}


def remove_unread_entries(folder: CheckpointFolder, require_held: Callable[[], None] = lambda: None) -> list[str]:
    """Remove from the logs of file sources what no batch has read, so that the next batch finds it anew (A1).

    Spark logs the files that it has found for a batch, and then the offsets of the batch. Killed between the two, it
    would find more files at the next start and read both lots in one batch, whatever `maxFilesPerTrigger` says: the
    watermark would advance once for them and not twice, and a row that was late would be in time.

    No query may run on the checkpoint: `require_held` raises if one may by now, which may have read the entry. Returns
    the removed files. A compact one stays if files that it stands for are gone.
    """
    batches = batch_numbers(folder, OFFSETS_FOLDER)
    newest = _source_lines(folder, batches[-1]) if batches else []
    removed: list[str] = []
    for source in sorted(map(int, filter(str.isdecimal, folder.names(SOURCES_FOLDER)))):
        line = newest[source] if source < len(newest) else ""
        end = -1 if not batches or line == NO_OFFSET else log_offset(line)
        if end is not None:  # else the source has no such log
            removed += _remove_after(folder, f"{SOURCES_FOLDER}/{source}", end, require_held)
    return removed


def _remove_after(folder: CheckpointFolder, log: str, end: int, require_held: Callable[[], None]) -> list[str]:
    numbers = _numbers(folder.names(log))
    earlier = needed_entries(name for name, number in numbers.items() if number <= end)
    later = sorted((name for name, number in numbers.items() if number > end), key=numbers.__getitem__, reverse=True)
    first = numbers[earlier[0]] if earlier and earlier[0].endswith(".compact") else 0
    if [numbers[name] for name in earlier] != list(range(first, end + 1)):  # the newest compact one is needed
        return []
    files = [f"{log}/{name}" for name in later]
    written = {"path", "timestamp", "batchId"}  # by a file source; one of Kafka logs where its topics began
    if not all(isinstance(line, dict) and written <= set(line) for file in files for line in log_lines(folder, file)):
        return []
    for file in files:  # the newest first: what is left is a log at any moment
        require_held()
        folder.remove(file)
    return files


def found_files(folder: CheckpointFolder) -> Iterator[str]:
    """Yield the URL of each file that the sources have found. Raises `CorruptState`."""
    for number in folder.names(SOURCES_FOLDER):
        yield from files_of_source(folder, number)


def files_of_source(folder: CheckpointFolder, number: int | str) -> Iterator[str]:
    """Yield the URL of each file that one of the sources has found. Raises `CorruptState`."""
    log = f"{SOURCES_FOLDER}/{number}"
    for name in needed_entries(folder.names(log)):
        lines = log_lines(folder, f"{log}/{name}")
        yield from (line["path"] for line in lines if isinstance(line, dict) and "path" in line)
