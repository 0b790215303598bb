"""Which of Spark's file managers writes the files of a checkpoint, by where the checkpoint lies.

Spark's own choice goes through Hadoop's `FileContext`, which starts a process of the operating system for every file
that it reads on a local disk, some twenty in a small micro-batch. The other manager renames a file in one step; but
where it should replace a file on a local disk, Hadoop's rename refuses, and the manager reports no error. Spark
replaces none where state files are named after the attempt that wrote them, which is format version 2.
For HDFS Spark's choice is right. S3 has no rename and needs a manager of its own (`s3`).
"""

from __future__ import annotations

from panekeeper.framework.engine.session.s3_settings import FILE_MANAGER, is_s3
from panekeeper.state.checkpoint.folder import local_path

MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
FORMAT_SETTING = "spark.sql.streaming.stateStore.checkpointFormatVersion"
NAMED_BY_ATTEMPT = "2"
"""The format in which each state file has the name of the attempt that wrote it."""
ON_DISK = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def file_manager(checkpoint: str, default_file_system: str, given: str | None, state_format: str | None) -> str | None:
    """Return the class to name in `MANAGER_SETTING`, None for Spark's own choice.

    Args:
        checkpoint: the folder, as a path or URL.
        default_file_system: the URL that a path without a scheme belongs to, such as `file:///`.
        given: the user's own choice; it does not count for S3, where a wrong one loses files.
        state_format: what the session says in `FORMAT_SETTING`.

    >>> file_manager("s3a://bucket/checkpoint", "file:///", None, "2").rpartition(".")[2]
    'AbortableStreamBasedCheckpointFileManager'
    >>> file_manager("/data/checkpoint", "file:///", None, "2").rpartition(".")[2]
    'FileSystemBasedCheckpointFileManager'
    >>> file_manager("/data/checkpoint", "file:///", None, "1") is None
    True
    >>> file_manager("/data/checkpoint", "hdfs://host:8020", None, "2") is None
    True
    """
    if is_s3(checkpoint):
        return FILE_MANAGER
    where = checkpoint if ":/" in checkpoint else default_file_system
    return given or (ON_DISK if state_format == NAMED_BY_ATTEMPT and local_path(where) is not None else None)
