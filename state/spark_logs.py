"""Spark's own logs of a checkpoint: whether they can be read, and what they pin.

Spark pins some settings by the offsets of each batch, and restores them at a start, whatever the session says. In which
format its state is stored it does not pin; that is the version of its commits.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from state.checkpoint.folder import CheckpointFolder, batch_numbers, damaged, parse_json, read_object
from state.checkpoint.layout import COMMITS_FOLDER, METADATA_FILE, OFFSETS_FOLDER, SOURCES_FOLDER, STATE_FOLDER
from state.errors import CorruptState

NO_OFFSET = "-"
"""What Spark logs of a source that had nothing yet."""
LINE_END = re.compile(r"\r\n?|\n")
"""Where a line ends for Java. Python knows more such places, which JSON may hold."""
_VERSION = re.compile(r"v(\d+)")
_ENTRY = re.compile(r"(\d+)(?:\.compact)?")
_LOG_OFFSET = re.compile(r'\s*\{\s*"logOffset"\s*:\s*(\d{1,18})\s*\}\s*', re.ASCII)
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


def require_readable_commit(folder: LogFolder, batch: int) -> None:
    """Raise `CorruptState` if Spark could not read its commit of a batch."""
    _ = [*log_lines(folder, f"{COMMITS_FOLDER}/{batch}")]


def require_readable_offsets(folder: LogFolder, batch: int) -> None:
    """Raise `CorruptState` if Spark could not read its offsets of a batch."""
    _ = offset_lines(folder, batch)


def offset_lines(folder: LogFolder, batch: int) -> list[Any]:
    """Return what the offsets of a batch say: what it pins, then a value for each source. Raises `CorruptState`."""
    name = f"{OFFSETS_FOLDER}/{batch}"
    lines = [*log_lines(folder, name)]
    pinned, *sources = lines or [None]
    if not sources or not isinstance(pinned, dict) or not isinstance(pinned.get("conf"), dict):
        raise damaged_log(folder, name)
    return lines


def source_ends(folder: LogFolder, batch: int) -> list[int | None]:
    """Return, for each source, the last entry of its log that a batch has read; None for one without a log.

    A line that cannot be read stands for a source without a log: `require_readable_offsets` reports it.
    """
    return [_log_offset(line) for line in text_lines(folder.read(f"{OFFSETS_FOLDER}/{batch}"))[2:]]


def has_read(ends: Sequence[int | None], source: int, entry: int) -> bool:
    """Return whether a batch has read an entry of a source's log, by its `source_ends`."""
    end = ends[source] if source < len(ends) else None
    return end is not None and entry <= end


def with_partitions_in_order(content: bytes, orders: Mapping[str, Sequence[str]]) -> bytes:
    """Return the offsets of a batch with the partitions of Kafka named in other orders.

    Spark reads up to four of them in the order in which they are named, and in its log it sorts them.

    Args:
        content: of the file.
        orders: number of a source -> the partitions that it has read, `topic-number`, in their order.
    """
    lines = content.decode().split("\n")
    for source, order in orders.items():
        at = int(source) + 2
        named: dict[str, dict[str, Any]] = {}
        for topic, _, partition in (name.rpartition("-") for name in order):
            named.setdefault(topic, {})[partition] = None
        sorted_by_topic = [f"{topic}-{partition}" for topic, partitions in named.items() for partition in partitions]
        if sorted_by_topic != list(order) or not lines[at : at + 1] or not lines[at].startswith("{"):
            continue
        offsets = json.loads(lines[at])
        if not all(isinstance(partitions, dict) for partitions in offsets.values()):
            continue
        found = {
            topic: {one: offsets.get(topic, {}).get(one) for one in partitions} for topic, partitions in named.items()
        }
        if found == offsets:  # the same, but for the order
            lines[at] = json.dumps(found, separators=(",", ":"))
    return "\n".join(lines).encode()


def _log_offset(line: str) -> int | None:
    """Return the entry that a line names as Spark writes it; what Spark only reads is the line of no file source."""
    match = _LOG_OFFSET.fullmatch(line)
    return None if match is None else int(match[1])


def require_readable_id(folder: CheckpointFolder) -> None:
    """Raise `CorruptState` if Spark could not read the id of its query."""
    metadata = read_object(folder, METADATA_FILE)
    if metadata is not None and not isinstance(metadata.get("id"), str):
        raise damaged_log(folder, METADATA_FILE)


def require_readable_start(folder: LogFolder) -> None:
    """Check what Spark reads when a query starts: its id, the newest logs, what describes the state.

    Raises:
        CorruptState: a file is truncated or altered; the error names it, and the command that repairs it.
    """
    require_readable_id(folder)
    for batch in batch_numbers(folder, OFFSETS_FOLDER)[-2:]:  # it compares the newest ones with those before
        require_readable_offsets(folder, batch)
    for batch in batch_numbers(folder, COMMITS_FOLDER)[-1:]:
        require_readable_commit(folder, batch)
    for source in folder.names(SOURCES_FOLDER):
        log = f"{SOURCES_FOLDER}/{source}"
        for entry in needed_entries(folder.names(log)):
            _ = sum(1 for _ in log_lines(folder, f"{log}/{entry}"))
    for file in damaged_descriptions(folder):
        raise damaged_log(folder, file)


def damaged_descriptions(folder: LogFolder) -> Iterator[str]:
    """Yield the files that describe the stored state of an operator, as far as a start reads them and cannot."""
    for operator in filter(str.isdecimal, folder.names(STATE_FOLDER)):
        metadata, schemas = (f"{STATE_FOLDER}/{operator}/{name}" for name in ("_metadata/v2", "_stateSchema"))
        names = [f"{metadata}/{batch}" for batch in batch_numbers(folder, metadata)[-1:]]
        names += [
            f"{schemas}/{store}/{one}" for store in folder.names(schemas) for one in folder.names(f"{schemas}/{store}")
        ]
        for name in names:
            try:
                is_metadata = name.startswith(metadata)
                whole = bool([*log_lines(folder, name)]) if is_metadata else _is_schema(folder.read(name))
            except (CorruptState, ValueError):
                whole = False
            if not whole:
                yield name


def _is_schema(content: bytes) -> bool:
    """Return whether a file with the schemas of stored values is whole; of other versions than 3, whether it has any.

    Java's `writeUTF` wrote it: a version; how many column families there are; of each its name, two numbered schemas
    and two encoders, each a text in several pieces. Spark reads it so, and knows no other end of it.
    """
    file = io.BytesIO(content)
    try:
        if _java_text(file) != b"v3":
            return True
        for _ in range(_java_number(file, 4)):
            _java_text(file)
            for numbered in (True, True, False, False):
                if numbered:
                    _java_number(file, 2)
                pieces = b"".join(_java_text(file) for _ in range(_java_number(file, 4)))
                json.loads(pieces)
    except ValueError:
        return False
    return True


def _java_text(file: io.BytesIO) -> bytes:
    return _exactly(file, _java_number(file, 2))


def _java_number(file: io.BytesIO, size: int) -> int:
    return int.from_bytes(_exactly(file, size))


def _exactly(file: io.BytesIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise ValueError(f"{size - len(data)} bytes are missing")
    return data


def needed_entries(names: Iterable[str]) -> list[str]:
    """Return the files to read of a source's log: the newest compact one has the entries of those before it.

    >>> needed_entries(["7", "8", "9.compact", "10"])
    ['9.compact', '10']
    """
    numbers = {name: int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))}
    compact = max((number for name, number in numbers.items() if name.endswith(".compact")), default=-1)
    return sorted((name for name, number in numbers.items() if number >= compact), key=numbers.__getitem__)


def remove_unread_entries(folder: LogFolder) -> list[str]:
    """Remove from the logs of file sources what no batch has read, so that the next batch finds it anew.

    Spark logs the files that it has found for a batch, and then the offsets of the batch. Killed between the two, it
    would find more files at the next start and read both lots in one batch, whatever `maxFilesPerTrigger` says: the
    watermark would advance once for them and not twice, and a row that was late would be in time.

    Args:
        folder: the checkpoint. No query may run on it.

    Returns:
        The removed files. A compact one stays if files that it stands for are gone.
    """
    batches = batch_numbers(folder, OFFSETS_FOLDER)
    newest = text_lines(folder.read(f"{OFFSETS_FOLDER}/{batches[-1]}"))[2:] if batches else None
    removed: list[str] = []
    for source in sorted(map(int, filter(str.isdecimal, folder.names(SOURCES_FOLDER)))):
        if newest is None or newest[source : source + 1] == [NO_OFFSET]:
            end: int | None = -1
        else:
            end = _log_offset(newest[source]) if source < len(newest) else None
        if end is not None:
            removed += _remove_after(folder, f"{SOURCES_FOLDER}/{source}", end)
    return removed


def _remove_after(folder: LogFolder, log: str, end: int) -> list[str]:
    numbers = {name: int(match[1]) for name in folder.names(log) if (match := _ENTRY.fullmatch(name))}
    earlier = needed_entries(name for name, number in numbers.items() if number <= end)
    later = sorted((name for name, number in numbers.items() if number > end), key=numbers.__getitem__, reverse=True)
    first = numbers[earlier[0]] if earlier and earlier[0].endswith(".compact") else 0
    if [numbers[name] for name in earlier] != list(range(first, end + 1)):
        return []
    files = [f"{log}/{name}" for name in later]
    if not all(_is_file_entry(line) for file in files for line in log_lines(folder, file)):
        return []
    for file in files:  # the newest first: what is left is a log at any moment
        folder.remove(file)
    return files


def _is_file_entry(line: object) -> bool:
    """Return whether a line of a source's log is of a file source; those of Kafka hold where its topics began."""
    return isinstance(line, dict) and {"path", "timestamp", "batchId"} <= set(line)


def found_files(folder: LogFolder, source: int | None = None) -> Iterator[str]:
    """Yield the URL of each file that a source, or all of them, have found, newest last. Raises `CorruptState`."""
    for number in folder.names(SOURCES_FOLDER) if source is None else [source]:
        log = f"{SOURCES_FOLDER}/{number}"
        for name in needed_entries(folder.names(log)):
            for line in log_lines(folder, f"{log}/{name}"):
                if isinstance(line, dict) and "path" in line:
                    yield line["path"]


def state_format(folder: LogFolder) -> str | None:
    """Return the format version in which Spark stores the state of the checkpoint; None before the first commit."""
    for name in (f"{COMMITS_FOLDER}/{batch}" for batch in batch_numbers(folder, COMMITS_FOLDER)[-1:]):
        try:
            return str(next(parsed_lines(folder.read(name))))
        except ValueError as error:
            raise damaged_log(folder, name) from error
    return None


def damaged_log(folder: CheckpointFolder, name: str) -> CorruptState:
    """Return the error for a file of Spark's logs that cannot be read, as after a power cut."""
    return damaged(folder, name, "it is truncated or altered")
