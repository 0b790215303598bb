"""An archive in a local folder: each file is written beside its place, flushed to the disk, and then renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from recovery.archive import Sink
from recovery.errors import ArchiveDenied, ArchiveError

_UNFINISHED = ".part"


class FolderArchive:
    """An `Archive` in a folder, which is made when the first file is put."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def location(self) -> str:
        """The folder's full name."""
        return str(self._folder)

    def put_file(self, name: str, path: Path) -> None:
        """Store a copy of a local file."""
        with path.open("rb") as source, self._new(name) as target:
            shutil.copyfileobj(source, target)

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a small file."""
        with self._new(name) as target:
            target.write(data)

    def get(self, name: str, into: Sink) -> None:
        """Write a file's bytes into `into`. Raises `KeyError` if it is not there."""
        try:
            source = (self._folder / name).open("rb")
        except FileNotFoundError:
            raise KeyError(name) from None
        except OSError as error:
            raise self._unusable(error) from error
        with source:
            shutil.copyfileobj(source, into)

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name -> bytes of the files whose name begins with `prefix`."""
        top = self._folder / prefix.rpartition("/")[0]
        try:
            found = {p.relative_to(self._folder).as_posix(): p.stat().st_size for p in top.rglob("*") if p.is_file()}
        except OSError as error:
            raise self._unusable(error) from error
        return {
            name: found[name] for name in sorted(found) if name.startswith(prefix) and not name.endswith(_UNFINISHED)
        }

    def exists(self, name: str) -> bool:
        """Say whether a file is there."""
        return (self._folder / name).is_file()

    def delete(self, name: str) -> None:
        """Remove a file."""
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    @contextmanager
    def _new(self, name: str) -> Iterator[BinaryIO]:
        path = self._folder / name
        unfinished = path.with_name(f".{path.name}.{os.getpid()}{_UNFINISHED}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as target:
                yield target
                target.flush()
                os.fsync(target.fileno())
            unfinished.replace(path)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink()
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> ArchiveError:
        if isinstance(error, PermissionError):
            return ArchiveDenied(f"the folder {self._folder} cannot be used: permission denied; choose another folder")
        return ArchiveError(f"the folder {self._folder} cannot be used: {error.strerror or error}")
