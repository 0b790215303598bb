# ruff: noqa: D102 -- what the methods of a folder mean is said once, in `CheckpointFolder`
"""Small files wherever Spark can keep a checkpoint, written and read the way Spark does its offset log.

Everything goes through Spark's `CheckpointFileManager`, so a checkpoint may live on HDFS or S3, too, and a file is
there whole or not at all.

Spark's own choice of a manager goes through Hadoop's `FileContext`, which starts a process of the operating system for
every file that it reads on a local disk, some twenty in a small micro-batch. The other manager renames a file in one
step; but where it should replace a file on a local disk, Hadoop's rename refuses, and the manager reports no error.
Spark replaces none, as state files are named after the attempt that wrote them (`settings.STATE_SETTINGS`).
For HDFS Spark's choice is right. S3 has no rename and needs a manager of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from panekeeper.framework.engine.session.s3_settings import EXCLUSIVE_CREATE, FILE_MANAGER, SAME_ETAG, is_s3
from panekeeper.framework.engine.session.spark_errors import full_text
from panekeeper.state.checkpoint.folder import JsonFiles, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
ON_DISK = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_ALREADY_EXISTS = ("FileAlreadyExistsException", "Status Code: 412")  # as Hadoop says it, and as S3 does

_NOT_FOUND = "FileNotFoundException"


@dataclass(frozen=True)
class SparkFolder(JsonFiles):
    """A `CheckpointFolder` wherever Spark can keep one, by its file manager. `root` is what messages call it."""

    spark: SparkSession
    root: str
    place: str

    def part(self, name: str) -> Self:
        return replace(self, place=f"{self.place}/{name}")

    def exists(self, name: str = "") -> bool:
        return bool(self._manager().exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        manager, path = self._manager(), self._path(folder)
        if not manager.exists(path):
            return []
        return sorted(status.getPath().getName() for status in manager.list(path))

    def read(self, name: str) -> bytes:
        manager, path = self._manager(), self._path(name)
        try:
            stream = manager.open(path)
        except Exception as error:
            if _NOT_FOUND in full_text(error):  # looked for first, it may go just before it is opened
                raise FileNotFoundError(f"there is no {name} in {self.place}") from error
            raise
        try:
            return bytes(self._java("org.apache.commons.io.IOUtils").toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        try:
            self._write(name, bytearray(content), replace=replace)
        except Exception as error:
            if isinstance(error, FileExistsError) or any(words in full_text(error) for words in _ALREADY_EXISTS):
                raise FileExistsError(f"{name} in {self.root} is already there") from error
            raise

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        """Replace a small file if its content is still the old one; where no store can say so, as HDFS, by a rename."""
        path = self._path(name)
        etag = path.getFileSystem(self._hadoop()).getFileStatus(path).getEtag() if is_s3(self.root) else None
        if self.read(name) != old:
            raise FileExistsError(f"{name} in {self.root} was replaced meanwhile")
        if etag is None:
            self._write(name, bytearray(new), replace=True)
            return
        stream = path.getFileSystem(self._hadoop()).createFile(path).overwrite(True).must(SAME_ETAG, etag).build()
        try:
            stream.write(bytearray(new))
            stream.close()
        except Exception as error:
            if not any(words in full_text(error) for words in _ALREADY_EXISTS):
                raise
            if self.read(name) != new:  # else the store has repeated a request whose response was lost
                raise FileExistsError(f"{name} in {self.root} was replaced meanwhile") from error

    def remove(self, name: str) -> None:
        self._manager().delete(self._path(name))

    def make_folder(self, name: str) -> None:
        """Make a folder and its parents; nothing happens if it is there."""
        self._manager().mkdirs(self._path(name))

    def qualified(self, name: str) -> Any:
        """Return the path of a file or folder with its file system, an object of Hadoop's."""
        path = self._path(name)
        return path.getFileSystem(self._hadoop()).makeQualified(path)

    def manager_setting(self, hadoop: Any = None) -> dict[str, str]:
        """Return the setting by which Spark writes these files, empty for its own choice."""
        hadoop = hadoop or self._hadoop()
        chosen = file_manager(self.root, hadoop.get("fs.defaultFS"), hadoop.get(MANAGER_SETTING))
        return {} if chosen is None else {MANAGER_SETTING: chosen}

    def _write(self, name: str, content: bytearray, *, replace: bool) -> None:
        manager, path = self._manager(), self._path(name)
        manager.mkdirs(path.getParent())
        if is_s3(self.root) and not replace:  # Spark's manager only looks whether the name is free when it begins
            builder = path.getFileSystem(self._hadoop()).createFile(path)
            stream = builder.must(EXCLUSIVE_CREATE, True).build()
            cancel = stream.abort
        else:
            stream = manager.createAtomic(path, replace)
            cancel = stream.cancel
        try:
            stream.write(content)
        except Exception:
            cancel()
            raise
        stream.close()

    def _java(self, name: str) -> Any:
        """Return a class by its whole name, which is one call of Java; by its parts it is one for each."""
        return getattr(self.spark._jvm, name)  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only

    def _hadoop(self) -> Any:
        return self.spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 -- as above

    def _path(self, name: str) -> Any:
        return self._java("org.apache.hadoop.fs.Path")(f"{self.place}/{name}" if name else self.place)

    def _manager(self) -> Any:
        managers = self._java("org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager")
        hadoop = self._hadoop()
        for name, value in self.manager_setting(hadoop).items():
            hadoop.set(name, value)
        return managers.create(self._path(""), hadoop)


def file_manager(checkpoint: str, default_file_system: str, given: str | None) -> str | None:
    """Return the class to name in `MANAGER_SETTING`, None for Spark's own choice.

    What the user has given does not count for S3, where a wrong one loses files.

    >>> file_manager("s3a://bucket/checkpoint", "file:///", None).rpartition(".")[2]
    'AbortableStreamBasedCheckpointFileManager'
    >>> file_manager("/data/checkpoint", "file:///", None).rpartition(".")[2]
    'FileSystemBasedCheckpointFileManager'
    >>> file_manager("/data/checkpoint", "hdfs://host:8020", None) is None
    True
    """
    if is_s3(checkpoint):
        return FILE_MANAGER
    where = checkpoint if ":/" in checkpoint else default_file_system
    return given or (ON_DISK if local_path(where) is not None else None)
