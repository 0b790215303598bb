"""Which files make the state of a partition, as of a batch?

The commit of a batch has the unique id of the version of each partition that it has written, and the name of each file
ends with such an id. A snapshot is a version whole: a zip with the names of the sorted tables of its store, which
several snapshots share. Of a version without one, the log of its changes names the snapshot before it, and the versions
between them. So what an attempt has written that Spark gave up on (A9) is never among the files.

The sorted tables that a snapshot names are those that its store had, no more and no fewer (RocksDB's checkpoints); so
the list that the store itself keeps of them is not read.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, OFFSETS_FOLDER, STATE_FOLDER, CheckpointFolder
from panekeeper.state.errors import CorruptState
from panekeeper.state.spark_files.changelog import Changelog, read_changelog
from panekeeper.state.spark_files.cursor import NotReadable
from panekeeper.state.spark_files.sorted_table import newest
from panekeeper.state.spark_logs import offset_lines, parsed_lines

_OPERATOR = "0"
"""Spark numbers stateful operators from the end of the query, and the windows are the last one."""
_PINNED = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.streaming.stateStore.rowChecksum.enabled": "false",
}
"""How rows become bytes, by the settings that Spark pins. A Spark that does not know one has no other value."""
_COMMITS = "2"
_METADATA, _METADATA_VERSION = "metadata", b"v1\n"
_METADATA_FIELDS = frozenset(
    {
        *("sstFiles", "logFiles", "numKeys", "numInternalKeys"),
        *("columnFamilyMapping", "columnFamilyTypeMap", "maxColumnFamilyId"),
    }
)
_OTHER_FILES = re.compile(r"CURRENT|(MANIFEST|OPTIONS)-\d+|metadata")
_EMPTY_FILES = re.compile(r"\d+\.log")
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, OSError),
    *(KeyError, ValueError, OverflowError, RuntimeError),
)
"""What reading a damaged zip raises."""
_PLAIN = re.compile(r"(?!\.\.?$)[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Version:
    """A version of a partition of the store.

    Attributes:
        folder: where its files are, in the folder of the epoch.
        number: how many batches it has.
        id: what the attempt that wrote it called it.
    """

    folder: str
    number: int
    id: str

    def file(self, kind: str) -> str:
        """Return the name of its snapshot, or of its log of changes."""
        return f"{self.folder}/{self.number}_{self.id}.{kind}"


@dataclass(frozen=True)
class Snapshot:
    """What a snapshot names: its sorted tables with their sizes, and the numbers of column families."""

    tables: Mapping[str, int]
    families: Mapping[str, int]


@dataclass(frozen=True)
class VersionFiles:
    """The files that make a version: a snapshot, and the logs of what has changed since, in their order."""

    snapshot: Snapshot
    changelogs: list[tuple[str, Changelog]]

    @property
    def size(self) -> int:
        """How many bytes the sorted tables have."""
        return sum(self.snapshot.tables.values())

    def entries(self, folder: CheckpointFolder, prefix: bytes) -> dict[bytes, tuple[str, bytes]]:
        """Return the keys that begin with `prefix` -> the file that has the value, and this. Raises `NotReadable`."""
        entries = newest(self._tables(folder), prefix)
        for name, log in self.changelogs:
            for key, value in log.changes:
                if value is None:
                    entries.pop(key, None)
                elif key.startswith(prefix):
                    entries[key] = name, value
        return entries

    def _tables(self, folder: CheckpointFolder) -> Iterator[tuple[str, bytes]]:
        for name, size in self.snapshot.tables.items():
            content = _read(folder, name)
            if len(content) != size:
                raise NotReadable(f"{name} has {len(content)} bytes, where its snapshot has {size}")
            yield name, content


def versions_of(folder: CheckpointFolder, batch: int) -> list[Version]:
    """Return the version of each partition as of a batch. Raises `NotReadable` where Spark stores it another way."""
    try:
        pinned = offset_lines(folder, batch)[0]["conf"]
    except (CorruptState, FileNotFoundError) as error:
        raise NotReadable(f"{OFFSETS_FOLDER}/{batch} cannot be read: {error}") from error
    for name, expected in _PINNED.items():
        if pinned.get(name, expected) != expected:
            raise NotReadable(f"{OFFSETS_FOLDER}/{batch} has {name}={pinned[name]}")
    ids = _ids_of(folder, f"{COMMITS_FOLDER}/{batch}")
    return [Version(f"{STATE_FOLDER}/{_OPERATOR}/{place}", batch + 1, unique_id) for place, unique_id in enumerate(ids)]


def _ids_of(folder: CheckpointFolder, name: str) -> list[str]:
    try:
        number, commit, *_ = parsed_lines(_read(folder, name))
        stores = commit["stateUniqueIds"][_OPERATOR]
        ids = [_plain(unique_id, name) for (unique_id,) in stores]
    except (ValueError, TypeError, KeyError) as error:
        raise NotReadable(f"{name} has no id of each partition's only store") from error
    if number != _COMMITS or not ids:
        raise NotReadable(f"{name} is of version {number}, with {len(ids)} partitions")
    return ids


def files_of(folder: CheckpointFolder, version: Version) -> VersionFiles:
    """Return which files make a version. Raises `NotReadable`."""
    there, logs = {*folder.names(version.folder)}, list[tuple[str, Changelog]]()
    lineage, number = {version.number: version.id}, version.number
    while number in lineage:
        ancestor = Version(version.folder, number, lineage[number])
        if ancestor.file("zip").rpartition("/")[2] in there:
            return VersionFiles(_snapshot(folder, ancestor), logs[::-1])
        name = ancestor.file("changelog")
        log = read_changelog(name, _read(folder, name))
        if not logs:
            lineage |= {number: _plain(id_, name) for number, id_ in log.lineage.items()}
        logs.append((name, log))
        number -= 1
    raise NotReadable(f"{version.file('changelog')} names no snapshot that is there")


def _snapshot(folder: CheckpointFolder, version: Version) -> Snapshot:
    name = version.file("zip")
    try:
        with zipfile.ZipFile(io.BytesIO(_read(folder, name))) as files:
            sizes = {file.filename: file.file_size for file in files.infolist()}
            content = files.read(_METADATA)
    except _ZIP_ERRORS as error:
        raise NotReadable(f"{name} is no zip of Spark's: {error}") from error
    for own, size in sizes.items():
        if not (_OTHER_FILES.fullmatch(own) or (_EMPTY_FILES.fullmatch(own) and not size)):
            raise NotReadable(f"{name} has {own!r} of {size} bytes")
    try:
        if not content.startswith(_METADATA_VERSION):
            raise ValueError(content[:10])
        fields: dict[str, Any] = json.loads(content.removeprefix(_METADATA_VERSION))
        if not {*fields} <= _METADATA_FIELDS or fields.get("logFiles"):
            raise ValueError({*fields} - _METADATA_FIELDS or fields["logFiles"])
        tables = {
            f"{version.folder}/SSTs/{_plain(table['dfsSstFileName'], name)}": int(table["sizeBytes"])
            for table in fields.get("sstFiles") or ()
        }
        families = {str(own): int(number) for own, number in fields["columnFamilyMapping"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotReadable(f"{name} does not say which files it has: {error}") from error
    return Snapshot(tables, families)


def _plain(text: Any, name: str) -> str:
    """Return a part of a file's name, checked: it stays within its folder."""
    if not isinstance(text, str) or _PLAIN.fullmatch(text) is None:
        raise NotReadable(f"{name} has {text!r}, which is no name of a file")
    return text


def _read(folder: CheckpointFolder, name: str) -> bytes:
    try:
        return folder.read(name)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotReadable(f"{name} is not there") from error
