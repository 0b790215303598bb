"""What does Spark log of a batch: where each of its sources has come to, and what it pins.

Spark pins some settings by the offsets of each batch, and restores them at a start, whatever the session says. In which
format its state is stored it does not pin; that is the version of its commits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from panekeeper.state.checkpoint.folder import batch_numbers, damaged
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, OFFSETS_FOLDER
from panekeeper.state.checkpoint.run_record import read_inputs
from panekeeper.state.errors import CorruptState
from panekeeper.state.spark_logs.lines import LogFolder, damaged_log, log_lines, parsed_lines, text_lines

NO_OFFSET = "-"
"""What Spark logs of a source that had nothing yet."""
_LOG_OFFSET = re.compile(r'\s*\{\s*"logOffset"\s*:\s*(\d{1,18})\s*\}\s*', re.ASCII)


def require_readable_commit(folder: LogFolder, batch: int) -> None:
    """Raise `CorruptState` if Spark could not read its commit of a batch, or would find no watermark in it."""
    name = f"{COMMITS_FOLDER}/{batch}"
    if not any(isinstance(line, dict) for line in [*log_lines(folder, name)]):  # each is read, not up to the first one
        raise damaged_log(folder, name)


def require_readable_offsets(folder: LogFolder, batch: int) -> None:
    """Raise `CorruptState` if Spark could not read its offsets of a batch, or if they lack a source."""
    _, *sources = offset_lines(folder, batch)
    if len(sources) < _recorded_sources(folder):
        raise damaged_log(folder, f"{OFFSETS_FOLDER}/{batch}")


def _recorded_sources(folder: LogFolder) -> int:
    """Return how many sources a batch has at least: those of the job's inputs, and its control stream."""
    try:
        inputs = read_inputs(folder)
    except CorruptState:  # a start names that file
        return 0
    return 0 if inputs is None else len(inputs) + 1


def require_later_offsets(folder: LogFolder, batch: int) -> None:
    """Raise `CorruptState` if Spark could not read its offsets of a batch, or if a source ends before the batch before.

    They are an older copy then. Spark would read nothing, and in the next batch what it has read before.
    """
    require_readable_offsets(folder, batch)
    if batch and folder.exists(f"{OFFSETS_FOLDER}/{batch - 1}"):
        try:
            before_it = source_ends(folder, batch - 1)
        except ValueError:  # its checksum is another one; if Spark needs it, it is looked at for its own sake
            return
        ends = zip(before_it, source_ends(folder, batch), strict=False)
        if any(None not in (before, end) and end < before for before, end in ends):  # type: ignore[operator]
            raise damaged(
                folder, f"{OFFSETS_FOLDER}/{batch}", "it ends before those of the batch before: an older copy"
            )


def offset_lines(folder: LogFolder, batch: int) -> list[Any]:
    """Return what the offsets of a batch say: what it pins, then a value for each source. Raises `CorruptState`."""
    name = f"{OFFSETS_FOLDER}/{batch}"
    lines = [*log_lines(folder, name)]
    pinned, *sources = lines or [None]
    if not sources or not isinstance(pinned, dict) or not isinstance(pinned.get("conf"), dict):
        raise damaged_log(folder, name)
    return lines


def begun_ms(folder: LogFolder, batch: int) -> int | None:
    """Return when Spark began a batch, ms since the epoch; None: its offsets do not say. Raises `CorruptState`."""
    found = offset_lines(folder, batch)[0].get("batchTimestampMs")
    return found if isinstance(found, int) else None


def source_ends(folder: LogFolder, batch: int) -> list[int | None]:
    """Return, for each source, the last entry of its log that a batch has read; None for one without a log.

    A line that cannot be read stands for a source without a log: `require_readable_offsets` reports it.
    """
    return [log_offset(line) for line in source_lines(folder, batch)]


def source_lines(folder: LogFolder, batch: int) -> list[str]:
    """Return the lines of the sources in the offsets of a batch, as they are."""
    return text_lines(folder.read(f"{OFFSETS_FOLDER}/{batch}"))[2:]


def has_read(ends: Sequence[int | None], source: int, entry: int) -> bool:
    """Return whether a batch has read an entry of a source's log, by its `source_ends`."""
    end = ends[source] if source < len(ends) else None
    return end is not None and entry <= end


def log_offset(line: str) -> int | None:
    """Return the entry that a line names as Spark writes it; what Spark only reads is the line of no file source."""
    match = _LOG_OFFSET.fullmatch(line)
    return None if match is None else int(match[1])


def state_format(folder: LogFolder) -> str | None:
    """Return the format version in which Spark stores the state of the checkpoint; None before the first commit."""
    for name in (f"{COMMITS_FOLDER}/{batch}" for batch in batch_numbers(folder, COMMITS_FOLDER)[-1:]):
        try:
            return str(next(parsed_lines(folder.read(name))))
        except ValueError as error:
            raise damaged_log(folder, name) from error
    return None
