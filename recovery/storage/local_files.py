"""Files in a local folder: each is written under another name, flushed to the disk, and then renamed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from panekeeper.recovery.errors import ArchiveDenied, ArchiveError, SavepointRefused
from panekeeper.recovery.storage.archive import ByteSink
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import LocalFolder, make_folder, move_new, sync_folder

_PART_SUFFIX = ".part"
_PART = re.compile(r"\..+\.[0-9a-f]{32}\.part")
"""The name under which a file is written; others that end so are somebody else's."""


def _open_at_once(path: Path) -> BinaryIO:
    """Open a file for reading; a pipe in its place does not wait for a writer."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")


@dataclass(frozen=True)
class LocalFiles(LocalFolder):
    """The `Files` of a folder, which is created with the first of them.

    Attributes:
        path: the folder.
        shown: how messages name it; None: by its path.
        s3: how S3 is reached, where this folder names a place there.
    """

    s3: S3Options = field(default=S3Options(), compare=False, repr=False)

    @property
    def location(self) -> str:
        """The folder's full name."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The last part of the folder's name."""
        return self.path.name

    def parent(self) -> LocalFiles:
        """Return the folder that contains this one."""
        return LocalFiles(self.path.parent, s3=self.s3)

    def child(self, name: str) -> LocalFiles:
        """Return a folder in this one."""
        return LocalFiles(self.path / name, s3=self.s3)

    def folders(self) -> list[str]:
        """Return the names of the folders in this one, sorted, without hidden ones."""
        with os.scandir(self.path) as found:
            return sorted(one.name for one in found if one.is_dir() and not one.name.startswith("."))

    def linked_folders(self) -> list[str]:
        """Return the names of links to folders in this one, at any depth, sorted: `sizes` lists nothing behind them."""
        found = (Path(inner, name) for inner, names, _ in os.walk(self.path) for name in names)
        return sorted(one.relative_to(self.path).as_posix() for one in found if one.is_symlink())

    def contains(self, location: str) -> bool:
        """Return whether a location is this folder or lies within it, after links were followed."""
        return "://" not in location and Path(location).resolve().is_relative_to(self.path.resolve())

    def require_within(self, name: str) -> None:
        """Check that a file of that name would be stored in this folder, and not where a link leads to.

        Raises:
            SavepointRefused: this folder, or one between it and the file, is a link.
        """
        inner = (self.path / name).parent
        if self.path.is_symlink() or inner.resolve() != self.path.resolve() / inner.relative_to(self.path):
            raise SavepointRefused(
                f"a link at {inner} leads out of {self.path}; remove it and run the same command again"
            )

    def put_file(self, name: str, path: Path) -> None:
        """Store a copy of a local file."""
        with path.open("rb") as source, self.open_new(name) as target:
            shutil.copyfileobj(source, target)

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a small file."""
        with self.open_new(name) as target:
            target.write(data)

    def put_new(self, name: str, data: bytes) -> None:
        """Store a small file under a name that is free.

        Raises:
            FileExistsError: a file of that name is there.
        """
        with self._write_then_rename(name, move_new) as target:
            target.write(data)

    def open_new(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for writing; it is stored when the block ends without an error."""
        return self._write_then_rename(name, os.replace)

    @contextmanager
    def _write_then_rename(self, name: str, publish: Callable[[Path, Path], None]) -> Iterator[BinaryIO]:
        """Open a file for writing under another name; `publish` then gives it its own."""
        path = self.path / name
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_PART_SUFFIX}")
        try:
            make_folder(path.parent)
            with part.open("wb") as target:
                yield target
                target.flush()
                os.fsync(target.fileno())
            publish(part, path)
            sync_folder(path.parent)
        except OSError as error:
            if isinstance(error, FileExistsError) and path.exists():  # else it is a file where a folder should be
                raise FileExistsError(f"{name} in {self.root} is already there") from None
            raise self._to_archive_error(error) from error
        finally:
            with suppress(OSError):
                part.unlink()

    def get(self, name: str, into: ByteSink) -> None:
        """Write the content of a file into a sink.

        Raises:
            FileNotFoundError: there is no file of that name.
        """
        try:
            source = _open_at_once(self.path / name)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._to_archive_error(error) from error
        with source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise ArchiveError(f"{self.path / name} is no file but a device or the like; remove it")
            shutil.copyfileobj(source, into)

    @contextmanager
    def local_copy(self, name: str) -> Iterator[Path]:
        """Provide the file itself."""
        yield self.path / name

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name -> size in bytes of the files whose name begins with `prefix`; not of one removed meanwhile."""
        return {name: size for name, size in self._listed(prefix).items() if not name.endswith(_PART_SUFFIX)}

    def unfinished(self, prefix: str) -> dict[str, int]:
        """Return name -> size in bytes of files that are being stored, or were when their process was killed.

        `sizes` does not list them, and `remove` removes them.

        Args:
            prefix: what their names begin with.
        """
        return {name: size for name, size in self._listed(prefix).items() if _PART.fullmatch(name.rpartition("/")[2])}

    def _listed(self, prefix: str) -> dict[str, int]:
        found = {}
        try:
            for path in (self.path / prefix.rpartition("/")[0]).rglob("*"):
                name = path.relative_to(self.path).as_posix()
                if name.startswith(prefix):
                    with suppress(FileNotFoundError):
                        if path.is_file():
                            found[name] = path.stat().st_size
        except OSError as error:
            raise self._to_archive_error(error) from error
        return dict(sorted(found.items()))

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""
        try:
            super().remove(name)
        except OSError as error:
            raise self._to_archive_error(error) from error

    def clear(self) -> None:
        """Remove the folder and all in it; nothing happens if it is not there."""
        if self.path.exists():
            shutil.rmtree(self.path)

    def _to_archive_error(self, error: OSError) -> ArchiveError:
        if isinstance(error, PermissionError):
            return ArchiveDenied(
                f"the folder {self.path} cannot be used: permission denied; permit it to this user or name another"
            )
        return ArchiveError(
            f"the folder {self.path} cannot be used: {error.strerror or error}; remove the cause or name another"
        )
