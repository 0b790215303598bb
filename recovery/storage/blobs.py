"""Files of savepoints, stored once under their checksum: equal contents share a blob, and each is read back.

A blob is `blobs/<SHA-256 of its content>`. No content is trusted before it was read and its checksum compared.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from panekeeper.recovery.errors import DamagedSavepoint
from panekeeper.recovery.storage.archive import Archive, ByteSink
from panekeeper.recovery.storage.files import Files, map_parallel

_BLOB = re.compile(r"blobs/[0-9a-f]{64}")


def is_blob(file: str) -> bool:
    """Return whether a file of an archive is a blob, by its name; others are not ours."""
    return _BLOB.fullmatch(file) is not None


@dataclass(frozen=True, kw_only=True)
class SavedFile:
    """One file of a saved checkpoint: its name in that, its size in bytes, and its checksum in hexadecimal digits."""

    path: str
    size: int
    sha256: str

    @property
    def blob(self) -> str:
        """The name of its content in an archive."""
        return f"blobs/{self.sha256}"


@dataclass(frozen=True, kw_only=True)
class TransferProgress:
    """How far a transfer is, in bytes: those sent, those that the archive had, and all; their sum at its end."""

    sent: int
    reused: int
    total: int


ProgressCallback = Callable[[TransferProgress], None]
"""Called after each file of a transfer, in the thread that waits for it."""


class CheckedSink:
    """Computes size and checksum of what is written to it, and writes it on to other sinks.

    There may be no more than `limit` bytes: what is read may be larger than it should be. `name` is what is read.
    """

    def __init__(self, *into: ByteSink, limit: int | None = None, name: str = "") -> None:
        self._hash = hashlib.sha256()
        self._into, self._limit, self._name = into, limit, name
        self.size = 0

    def write(self, data: bytes, /) -> int:
        """Write the next piece and return its length; raises `DamagedSavepoint` beyond the limit."""
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            raise DamagedSavepoint(
                f"{self._name} is damaged: it has more than {self._limit} bytes; use another savepoint"
            )
        self._hash.update(data)
        for sink in self._into:
            sink.write(data)
        return len(data)

    @property
    def sha256(self) -> str:
        """The checksum of the bytes written so far."""
        return self._hash.hexdigest()


class ChangedMeanwhile(Exception):
    """A file of the checkpoint is not what it was: one of ours, which a job writes again as it begins and ends."""

    def __init__(self, filename: str) -> None:
        super().__init__(filename)
        self.filename = filename


def read_small(archive: Archive, file: str, limit: int) -> bytes:
    """Return the content of a file of an archive; raises `DamagedSavepoint` if it has more bytes than the limit."""
    content = io.BytesIO()
    archive.get(file, CheckedSink(content, limit=limit, name=file))
    return content.getvalue()


def describe(files: Files, path: str) -> SavedFile:
    """Read a file of a checkpoint and return its size and checksum."""
    sink = CheckedSink()
    files.get(path, sink)
    return SavedFile(path=path, size=sink.size, sha256=sink.sha256)


def upload(
    archive: Archive, folder: Files, files: Sequence[SavedFile], progress: ProgressCallback | None
) -> TransferProgress:
    """Store the contents that the archive does not have yet, and read all of them back; damaged ones are sent again.

    Returns what was sent and what was there already; equal contents count once. Raises `FileNotFoundError` or
    `ChangedMeanwhile` if a file is no longer as it was described, `DamagedSavepoint` if what is read back differs.
    """
    unique = {file.blob: file for file in files}
    stored = archive.sizes("blobs/")
    new = [file for file in unique.values() if stored.get(file.blob) != file.size]
    total = sum(file.size for file in unique.values())
    reused = total - sum(file.size for file in new)
    sent = 0
    for file, _ in map_parallel(lambda file: _upload_one(archive, folder, file), new):
        sent += file.size
        if progress is not None:
            progress(TransferProgress(sent=sent, reused=reused, total=total))
    for file in find_damaged(archive, files):
        _upload_one(archive, folder, file)
        if _is_intact(archive, file):
            continue
        if describe(folder, file.path) != file:
            raise ChangedMeanwhile(file.path)
        raise DamagedSavepoint(
            f"{file.path} was stored in {archive.location}, and what is read from there differs; use another "
            f"location, or drain the job of {folder.root} first, if one runs"
        )
    return TransferProgress(sent=sent, reused=reused, total=total)


def _upload_one(archive: Archive, folder: Files, file: SavedFile) -> None:
    with folder.local_copy(file.path) as copy:
        archive.put_file(file.blob, copy)


def find_damaged(archive: Archive, files: Sequence[SavedFile]) -> list[SavedFile]:
    """Read each distinct content back and return the files whose blobs are missing or altered."""
    unique = list({file.blob: file for file in files}.values())
    return [file for file, intact in map_parallel(lambda file: _is_intact(archive, file), unique) if not intact]


def _is_intact(archive: Archive, file: SavedFile) -> bool:
    try:
        download(archive, file)
    except DamagedSavepoint:
        return False
    return True


def download(archive: Archive, file: SavedFile, *into: ByteSink) -> None:
    """Write the content of a file into sinks, piece by piece.

    Raises `DamagedSavepoint` if its blob is missing or altered; what was written so far stays there.
    """
    name = f"{file.blob} ({file.path})"
    sink = CheckedSink(*into, limit=file.size, name=name)
    try:
        archive.get(file.blob, sink)
    except FileNotFoundError:
        raise DamagedSavepoint(f"{name} is missing; use another savepoint") from None
    if (sink.size, sink.sha256) != (file.size, file.sha256):
        raise DamagedSavepoint(
            f"{name} is damaged: it has {sink.size} bytes and the checksum {sink.sha256[:12]}..., "
            f"not {file.size} bytes and {file.sha256[:12]}...; use another savepoint"
        )
