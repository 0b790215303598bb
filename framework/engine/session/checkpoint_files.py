# ruff: noqa: D102 -- what the methods of a folder mean is said once, in `CheckpointFolder`
"""The small files beside Spark's own in the checkpoint folder, and Spark's, as a job has them with its session.

A checkpoint may live wherever Spark can keep one (`spark_folder.py`). Small files on a local disk are read and written
without Java, which is faster. A start makes sure before each change that it still holds the lease of the folder
(`HeldFiles`); a running job does so where the steps of a batch say it (`framework/engine/job/batch_journal.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from panekeeper.framework.engine.session.spark_folder import SparkFolder
from panekeeper.state.checkpoint.folder import JsonFiles, LocalFolder, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class CheckpointFiles(JsonFiles):
    """The files under one folder, by relative name: on a local disk without Java, anywhere else by Spark's manager.

    `root` is the folder as messages name it, of an epoch the checkpoint; `inner` is the folder of the epoch in that,
    empty for any other folder.
    """

    spark: SparkSession
    root: str
    inner: str = ""

    @property
    def place(self) -> str:
        return f"{self.root}/{self.inner}" if self.inner else self.root

    @property
    def checkpoint(self) -> Self:
        """The folder that has those of the epochs."""
        return replace(self, inner="")

    def part(self, name: str) -> Self:
        return replace(self, inner=f"{self.inner}/{name}" if self.inner else name)

    def exists(self, name: str = "") -> bool:
        return self._folder.exists(name)

    def names(self, folder: str) -> list[str]:
        return self._folder.names(folder)

    def read(self, name: str) -> bytes:
        """Return the content of a small file. Raises `FileNotFoundError`; `ValueError` by Hadoop's checksum of it."""
        return self._folder.read(name)

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        self._folder.write(name, content, replace=replace)

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        self._folder.swap(name, old, new)

    def remove(self, name: str) -> None:
        self._folder.remove(name)

    def make_folder(self, name: str) -> None:
        """Make a folder and its parents; nothing happens if it is there."""
        self._by_spark.make_folder(name)

    def path(self, name: str) -> str:
        """Return the qualified path of a file or folder."""
        return str(self._by_spark.qualified(name).toString())

    def uri(self, name: str) -> str:
        """Return the qualified path of a file as a URL, quoted as Spark's file sources do."""
        return str(self._by_spark.qualified(name).toUri().toString())

    def manager_setting(self) -> dict[str, str]:
        """Return the setting by which Spark writes these files, empty for its own choice; a query needs it, too."""
        return self._by_spark.manager_setting()

    @cached_property
    def _by_spark(self) -> SparkFolder:
        return SparkFolder(self.spark, self.root, self.place)

    @cached_property
    def _folder(self) -> LocalFolder | SparkFolder:
        local = local_path(self.path(""))
        return self._by_spark if local is None else LocalFolder(local, self.root)


@dataclass(frozen=True)
class HeldFiles(CheckpointFiles):
    """The files of a checkpoint for a holder of its lease, which changes nothing once it has lost that.

    `require_held` is called immediately before each change, and raises if it must not be made any more.
    """

    require_held: Callable[[], None] = field(kw_only=True, compare=False, repr=False)

    @classmethod
    def of(cls, files: CheckpointFiles, require_held: Callable[[], None]) -> HeldFiles:
        """Return these files for the holder of a lease."""
        return cls(files.spark, files.root, files.inner, require_held=require_held)

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        self.require_held()
        super().write(name, content, replace=replace)

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        self.require_held()
        super().swap(name, old, new)

    def remove(self, name: str) -> None:
        self.require_held()
        super().remove(name)

    def make_folder(self, name: str) -> None:
        self.require_held()
        super().make_folder(name)
