"""Contents by their checksum: equal ones are kept once, whichever savepoint brought them; none is trusted unread."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from recovery.errors import DamagedSavepoint
from recovery.savepoint.manifest import SavedFile
from recovery.storage.archive import Archive, Sink
from recovery.storage.files import Files
from recovery.storage.parallel import side_by_side


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a transfer is, in bytes: `sent` over the line, `reused` because the archive held them, of `total`."""

    sent: int
    reused: int
    total: int


Listener = Callable[[Progress], None]


class Checked:
    """A sink that takes a checksum, and passes the bytes on if there is somewhere to pass them."""

    def __init__(self, into: Sink | None = None) -> None:
        self._hash = hashlib.sha256()
        self._into = into
        self.size = 0

    def write(self, data: bytes, /) -> int:
        """Take the next piece."""
        self._hash.update(data)
        self.size += len(data)
        if self._into is not None:
            self._into.write(data)
        return len(data)

    @property
    def sha256(self) -> str:
        """The checksum of what came so far."""
        return self._hash.hexdigest()


def describe(files: Files, path: str) -> SavedFile:
    """Return size and checksum of a file of the checkpoint. Raises `FileNotFoundError` if it is gone."""
    checked = Checked()
    files.get(path, checked)
    return SavedFile(path=path, size=checked.size, sha256=checked.sha256)


def send(archive: Archive, folder: Files, files: Sequence[SavedFile], progress: Listener | None) -> Progress:
    """Store what the archive has not got yet, and return what was sent and what was there."""
    unique = {file.blob: file for file in files}
    held = archive.sizes("blobs/")
    new = [file for file in unique.values() if held.get(file.blob) != file.size]
    total = sum(file.size for file in unique.values())
    reused = total - sum(file.size for file in new)
    sent = 0
    for file, _ in side_by_side(lambda file: put(archive, folder, file), new):
        sent += file.size
        if progress is not None:
            progress(Progress(sent=sent, reused=reused, total=total))
    return Progress(sent=sent, reused=reused, total=total)


def put(archive: Archive, folder: Files, file: SavedFile) -> None:
    """Store one content, whatever stood there."""
    with folder.local(file.path) as copy:
        archive.put_file(file.blob, copy)


def unsound(archive: Archive, files: Sequence[SavedFile]) -> list[SavedFile]:
    """Read each distinct content back and return those that are missing or altered."""
    unique = list({file.blob: file for file in files}.values())
    return [file for file, sound in side_by_side(lambda file: is_sound(archive, file), unique) if not sound]


def is_sound(archive: Archive, file: SavedFile) -> bool:
    """Read a blob back and say whether it is what it should be."""
    checked = Checked()
    try:
        archive.get(file.blob, checked)
    except FileNotFoundError:
        return False
    return (checked.size, checked.sha256) == (file.size, file.sha256)


def fetch(archive: Archive, file: SavedFile, into: BinaryIO) -> None:
    """Write a blob into an open file. Raises `DamagedSavepoint` if it is missing or altered."""
    checked = Checked(into)
    try:
        archive.get(file.blob, checked)
    except FileNotFoundError:
        raise DamagedSavepoint(f"{file.blob} ({file.path}) is missing; use another savepoint") from None
    if (checked.size, checked.sha256) != (file.size, file.sha256):
        raise DamagedSavepoint(
            f"{file.blob} ({file.path}) is damaged: {checked.size} bytes of {file.size}, checksum "
            f"{checked.sha256[:12]}...; use another savepoint"
        )
