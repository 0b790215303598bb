"""Reads what a savepoint holds as its job would: Spark reads the copy, and each stored value is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recovery.savepoint.checkpoint_copy import temporary_copy
from recovery.savepoint.manifest import Manifest
from recovery.savepoint.state_reader import decode_all
from recovery.storage.archive import Archive
from recovery.storage.delta_tables import session_for
from recovery.storage.s3_options import S3Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def decode_savepoint(
    archive: Archive,
    manifest: Manifest,
    *,
    advice: str,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> int:
    """Decode every stored value of a savepoint, in a copy on this machine, and return how many there are.

    Args:
        archive: where the files are; the manifest itself need not be there yet.
        manifest: the savepoint.
        advice: what the error says is to be done.
        s3: how to reach S3.
        spark: the session that reads; one that could restore the savepoint, too, if not given.

    Raises:
        DamagedSavepoint: a file is missing or altered.
        CorruptState: Spark cannot read the state, or a value of it cannot be decoded.
        StateVersionError: a value is of another version.
    """
    running = session_for((manifest.checkpoint, *(table.path for table in manifest.tables.values())), spark, s3)
    with temporary_copy(archive, manifest) as folder:
        return decode_all(running, folder, advice=advice)
