# ruff: noqa: D102 -- what the methods of a folder mean is said once, in `Files` and what it inherits
"""A folder of files on a local disk or on S3: what a checkpoint or a Delta table needs of the place where it is.

An archive (`archive.py`) and the small files of a checkpoint (`state/checkpoint/folder.py`) need less; every `Files`
serves for both. No method starts Spark. `LocalFiles` is here, `S3Files` in `s3.py`; `locations.py` says which of them
serves which path or URL.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol, Self, TypeVar

from panekeeper.recovery.errors import ArchiveDenied, ArchiveError
from panekeeper.recovery.storage.archive import Archive, ByteSink
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import CheckpointFolder, LocalFolder, make_folder, move_new, sync_folder


class Files(Archive, CheckpointFolder, Protocol):
    """Files by relative name. Every method raises `ArchiveError` if the place cannot be used."""

    @property
    def s3(self) -> S3Options:
        """How S3 is reached: this folder, or tables and savepoints that a checkpoint on a disk names there."""
        ...

    def exists(self, name: str = "") -> bool:
        """Return whether there is a file or folder of that name; without one, whether this folder is there."""
        ...

    def child(self, name: str) -> Self:
        """Return a folder in this one, which need not be there."""
        ...

    def folders(self) -> list[str]:
        """Return the names of the folders in this one, sorted, without hidden ones."""
        ...

    def contains(self, location: str) -> bool:
        """Return whether a location, spelled as by `location`, is this folder or lies within it."""
        ...

    def open_new(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for writing; it is stored when the block ends without an error."""
        ...

    def local_copy(self, name: str) -> AbstractContextManager[Path]:
        """Provide the file, or a copy of it, on this host while the block lasts. Raises `FileNotFoundError`."""
        ...

    def clear(self) -> None:
        """Remove the folder and all in it; nothing happens if it is not there."""
        ...


_PART_SUFFIX = ".part"
"""Ends the name under which a file is written."""


@dataclass(frozen=True)
class LocalFiles(LocalFolder):
    """The `Files` of a local folder, which is created with the first of them.

    Each file is written under another name, flushed to the disk, and then renamed.
    """

    s3: S3Options = field(default=S3Options(), compare=False, repr=False)

    @property
    def location(self) -> str:
        return str(self.path)

    def child(self, name: str) -> LocalFiles:
        return LocalFiles(self.path / name, s3=self.s3)

    def folders(self) -> list[str]:
        with os.scandir(self.path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))

    def contains(self, location: str) -> bool:
        """Return whether a location is this folder or lies within it, after links were followed."""
        return "://" not in location and Path(location).resolve().is_relative_to(self.path.resolve())

    def put_file(self, name: str, path: Path) -> None:
        with path.open("rb") as source, self.open_new(name) as target:
            shutil.copyfileobj(source, target)

    def put_bytes(self, name: str, data: bytes) -> None:
        with self.open_new(name) as target:
            target.write(data)

    def put_new(self, name: str, data: bytes) -> None:
        with self._write_then_rename(name, move_new) as target:
            target.write(data)

    def open_new(self, name: str) -> AbstractContextManager[BinaryIO]:
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
        path = self.path / name
        try:
            source = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")  # a pipe does not wait for a writer
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._to_archive_error(error) from error
        with source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise ArchiveError(f"{path} is not a regular file; remove it")
            shutil.copyfileobj(source, into)

    @contextmanager
    def local_copy(self, name: str) -> Iterator[Path]:
        """Provide the file itself."""
        yield self.path / name

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name -> size in bytes of the files whose name begins with `prefix`; not of one removed meanwhile."""
        return {name: size for name, size in self._listed(prefix).items() if not name.endswith(_PART_SUFFIX)}

    def _listed(self, prefix: str) -> dict[str, int]:
        sizes = {}
        try:
            for path in (self.path / prefix.rpartition("/")[0]).rglob("*"):
                name = path.relative_to(self.path).as_posix()
                if name.startswith(prefix):
                    with suppress(FileNotFoundError):
                        if path.is_file():
                            sizes[name] = path.stat().st_size
        except OSError as error:
            raise self._to_archive_error(error) from error
        return dict(sorted(sizes.items()))

    def remove(self, name: str) -> None:
        try:
            super().remove(name)
        except OSError as error:
            raise self._to_archive_error(error) from error

    def clear(self) -> None:
        if self.path.exists():
            shutil.rmtree(self.path)

    def _to_archive_error(self, error: OSError) -> ArchiveError:
        if isinstance(error, PermissionError):
            return ArchiveDenied(
                f"the folder {self.path} cannot be used: {error}; permit it to this user or name another"
            )
        return ArchiveError(f"the folder {self.path} cannot be used: {error}; remove the cause or name another")


@contextmanager
def removed_on_error(folder: Files) -> Iterator[None]:
    """Remove a folder of one's own, with all in it, if the block fails."""
    try:
        yield
    except Exception:
        with suppress(OSError, ArchiveError):  # the error itself says what to do
            folder.clear()
        raise


_THREADS = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result]]:
    """Call a function with each item, on several threads, and yield each item with its result, in their order.

    For many small transfers: each waits for a round trip or for a flush of the disk. The first error of a call is
    raised, and calls that have not begun are cancelled.
    """
    pool = ThreadPoolExecutor(_THREADS)
    try:
        yield from zip(items, pool.map(function, items), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)
