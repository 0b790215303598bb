"""Can all that Spark reads when a query starts be read: its id, the newest logs, what describes the state?"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

from panekeeper.state.checkpoint.folder import CheckpointFolder, batch_numbers, damaged, read_object
from panekeeper.state.checkpoint.layout import (
    COMMITS_FOLDER,
    METADATA_FILE,
    OFFSETS_FOLDER,
    SOURCES_FOLDER,
    STATE_FOLDER,
)
from panekeeper.state.errors import CorruptState
from panekeeper.state.spark_logs.lines import LogFolder, damaged_log, log_lines
from panekeeper.state.spark_logs.offsets import require_later_offsets, require_readable_commit
from panekeeper.state.spark_logs.source_logs import needed_entries, require_all_entries, require_whole_entry


def require_readable_start(folder: LogFolder) -> None:
    """Check what Spark reads when a query starts: its id, the newest logs, what describes the state.

    Raises:
        CorruptState: a file is truncated, altered or gone; the error names it, and the command that repairs it.
    """
    require_readable_batches(folder)
    for source in folder.names(SOURCES_FOLDER):
        log = f"{SOURCES_FOLDER}/{source}"
        for entry in needed_entries(folder.names(log)):
            require_whole_entry(folder, f"{log}/{entry}")
    for batch in batch_numbers(folder, OFFSETS_FOLDER)[-1:]:
        require_all_entries(folder, batch)
    for file in damaged_descriptions(folder):
        raise damaged_log(folder, file) if folder.exists(file) else damaged(folder, file, "it is gone")


def require_readable_batches(folder: LogFolder) -> None:
    """Check what does not grow with the job: its id, the newest offsets and commit. Raises `CorruptState`."""
    require_readable_id(folder)
    for newest in batch_numbers(folder, OFFSETS_FOLDER)[-1:]:  # it compares them with those before
        for batch in range(max(newest - 1, 0), newest + 1):
            if not folder.exists(name := f"{OFFSETS_FOLDER}/{batch}"):
                raise damaged(folder, name, "it is gone")
            require_later_offsets(folder, batch)
    for batch in batch_numbers(folder, COMMITS_FOLDER)[-1:]:
        require_readable_commit(folder, batch)


def require_readable_id(folder: CheckpointFolder) -> None:
    """Raise `CorruptState` if Spark could not read the id of its query."""
    metadata = read_object(folder, METADATA_FILE)
    if metadata is None and batch_numbers(folder, OFFSETS_FOLDER):
        raise damaged(folder, METADATA_FILE, "it is gone")
    if metadata is not None and not isinstance(metadata.get("id"), str):
        raise damaged_log(folder, METADATA_FILE)


def files_of_start(folder: LogFolder) -> Iterator[str]:
    """Yield the names of what Spark reads when a query starts, but for the state itself; some may be gone."""
    yield METADATA_FILE
    for newest in batch_numbers(folder, OFFSETS_FOLDER)[-1:]:
        yield from (f"{OFFSETS_FOLDER}/{batch}" for batch in range(max(newest - 1, 0), newest + 1))
    yield from (f"{COMMITS_FOLDER}/{batch}" for batch in batch_numbers(folder, COMMITS_FOLDER)[-1:])
    for source in folder.names(SOURCES_FOLDER):
        log = f"{SOURCES_FOLDER}/{source}"
        yield from (f"{log}/{entry}" for entry in needed_entries(folder.names(log)))
    yield from _descriptions(folder)


def damaged_descriptions(folder: LogFolder) -> Iterator[str]:
    """Yield the files that describe the stored state of an operator, as far as a start reads them and cannot."""
    for name, is_schema in _descriptions(folder).items():
        try:
            whole = _is_schema(folder.read(name)) if is_schema else bool([*log_lines(folder, name)])
        except (CorruptState, ValueError, FileNotFoundError):
            whole = False
        if not whole:
            yield name


def _descriptions(folder: LogFolder) -> dict[str, bool]:
    """Return the files that describe the stored state of an operator -> whether it is one with schemas.

    That of a batch that is run again Spark writes anew, so before the first commit there need be none.
    """
    found: dict[str, bool] = {}
    has_state = bool(batch_numbers(folder, COMMITS_FOLDER))
    for operator in filter(str.isdecimal, folder.names(STATE_FOLDER)):
        root = f"{STATE_FOLDER}/{operator}"
        schemas = f"{root}/_stateSchema"
        metadata = [f"{root}/_metadata/v2/{one}" for one in batch_numbers(folder, f"{root}/_metadata/v2")[-1:]]
        if not metadata and has_state and "metadata" not in folder.names(f"{root}/_metadata"):  # of other operators
            metadata = [f"{root}/_metadata/v2/0" for one in folder.names(root) if one.isdecimal()][:1]
        found |= dict.fromkeys(metadata, False)
        for store in folder.names(schemas):
            found |= {f"{schemas}/{store}/{one}": True for one in folder.names(f"{schemas}/{store}")}
        found |= {f"{schemas}/{one}": True for name in metadata for one in _named_schemas(folder, name)}
    return found


def _named_schemas(folder: LogFolder, metadata: str) -> list[str]:
    """Return the files with schemas that the description of an operator names; none if it cannot be read."""
    try:
        stores = [one for line in log_lines(folder, metadata) for one in line["stateStoreInfo"]]
        return [
            f"{one['storeName']}/{str(path).rpartition('/')[2]}"
            for one in stores
            for path in one.get("stateSchemaFilePaths", ())
        ]
    except (CorruptState, FileNotFoundError, KeyError, TypeError, AttributeError):
        return []


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
