"""Step 3 of a savepoint: Spark reads the copy as the job would, and each stored value is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from panekeeper.recovery.savepoint.checkpoint_copy import temporary_copy
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.state_reader import decode_all
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.delta_tables import session_for
from panekeeper.recovery.storage.s3_options import S3Options

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
    """Decode every stored value of a savepoint, in a copy on this host.

    Args:
        archive: where the files are; the manifest need not be there yet.
        manifest: the savepoint.
        advice: what to do if the state cannot be read, for the error.
        s3: how S3 is reached.
        spark: the session that reads; a new one, which could also restore the savepoint, if not given.

    Returns:
        How many values there are.

    Raises:
        DamagedSavepoint: a file is missing or altered.
        CorruptState: Spark cannot read the state, or a value of it cannot be decoded.
        StateVersionError: a value is of another version.
    """
    session = session_for((manifest.checkpoint, *(table.path for table in manifest.tables.values())), spark, s3)
    with temporary_copy(archive, manifest) as folder:
        return decode_all(session, folder, advice=advice)
