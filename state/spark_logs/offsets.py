"""What does Spark log of a batch: where each of its sources has come to, and what it pins.

Each file of these logs begins with a line that is its version; the others are JSON, or `-`. Spark pins some settings by
the offsets of each batch, and restores them at a start, whatever the session says. In which format its state is stored
it does not pin; that is the version of its commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from panekeeper.state.checkpoint.folder import CheckpointFolder, batch_numbers, damaged, parse_json
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, OFFSETS_FOLDER
from panekeeper.state.errors import CorruptState

NO_OFFSET = "-"
"""What Spark logs of a source that had nothing yet."""
LINE_END = re.compile(r"\r\n?|\n")
"""Where a line ends for Java. Python knows more such places, which JSON may hold."""

_END = re.compile(LINE_END.pattern.encode())
_VERSION = re.compile(r"v(\d+)")
_LOG_OFFSET = re.compile(r'\s*\{\s*"logOffset"\s*:\s*(\d{1,18})\s*\}\s*', re.ASCII)


def log_lines(folder: CheckpointFolder, name: str) -> Iterator[Any]:
    """Yield the lines of a file below its version; those that are JSON objects, parsed. Raises `CorruptState`."""
    try:
        lines = parsed_lines(folder.read(name))
        next(lines)
        yield from lines  # not at once: a file source has one for each file that it has ever read
    except ValueError as error:
        raise unreadable(folder, name) from error


def parsed_lines(content: bytes) -> Iterator[Any]:
    """Yield the version of a file, then its lines as `log_lines` does. Raises `ValueError` if it is no log of Spark."""
    lines = _each_line(content.removeprefix(b"\0"))  # a Kafka source's begins with a zero byte, for Spark 2.1
    version = _VERSION.fullmatch(first := next(lines, ""))
    if version is None:
        raise ValueError(first)
    yield version[1]
    yield from (parse_json(line.encode()) if line.lstrip().startswith("{") else line for line in lines)


def text_lines(content: bytes) -> list[str]:
    """Return the lines of a file as Spark reads it."""
    return [*_each_line(content)]


def _each_line(content: bytes) -> Iterator[str]:
    begin = 0
    for end in _END.finditer(content):
        yield content[begin : end.start()].decode()
        begin = end.end()
    if begin < len(content):
        yield content[begin:].decode()


def unreadable(folder: CheckpointFolder, name: str) -> CorruptState:
    """Return the error for a file that does not say what Spark writes there."""
    return damaged(folder, name, "it is no log as Spark writes it")


def offset_lines(folder: CheckpointFolder, batch: int) -> list[Any]:
    """Return what the offsets of a batch say: what it pins, then a value for each source. Raises `CorruptState`."""
    name = f"{OFFSETS_FOLDER}/{batch}"
    lines = [*log_lines(folder, name)]
    if not lines or not isinstance(lines[0], dict) or not isinstance(lines[0].get("conf"), dict):
        raise unreadable(folder, name)
    return lines


def source_ends(folder: CheckpointFolder, batch: int) -> list[int | None]:
    """Return, for each source, the last entry of its log that a batch has read; None for one without a log."""
    return [log_offset(line) for line in source_lines(folder, batch)]


def source_lines(folder: CheckpointFolder, batch: int) -> list[str]:
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


def state_format(folder: CheckpointFolder) -> str | None:
    """Return the format version in which Spark stores the state of the checkpoint; None before the first commit."""
    for name in (f"{COMMITS_FOLDER}/{batch}" for batch in batch_numbers(folder, COMMITS_FOLDER)[-1:]):
        try:
            return str(next(parsed_lines(folder.read(name))))
        except ValueError as error:
            raise unreadable(folder, name) from error
    return None
