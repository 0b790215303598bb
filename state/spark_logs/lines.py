"""Which lines has a file of Spark's logs, and is it whole?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from panekeeper.state.checkpoint.folder import CheckpointFolder, damaged, parse_json
from panekeeper.state.errors import CorruptState

LINE_END = re.compile(r"\r\n?|\n")
"""Where a line ends for Java. Python knows more such places, which JSON may hold."""
_VERSION = re.compile(r"v(\d+)")
_END = re.compile(LINE_END.pattern.encode())


class LogFolder(CheckpointFolder, Protocol):
    """A checkpoint folder whose files of any kind can be read."""

    def read(self, name: str) -> bytes:
        """Return the content of a small file. Raises `FileNotFoundError` if there is none of that name."""


def log_lines(folder: LogFolder, name: str) -> Iterator[Any]:
    """Yield the lines of a file below its version; those that are JSON objects, parsed. Raises `CorruptState`."""
    try:
        lines = parsed_lines(folder.read(name))
        next(lines)
        yield from lines  # not at once: a file source has one for each file that it has ever read
    except ValueError as error:  # truncated, as by a disk that lost its last writes
        raise damaged_log(folder, name) from error


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


def damaged_log(folder: CheckpointFolder, name: str) -> CorruptState:
    """Return the error for a file of Spark's logs that cannot be read, as after a power cut."""
    return damaged(folder, name, "it is truncated or altered")
