"""Gives a stopped job another number of shuffle partitions: its stored state is dealt out anew, nothing else changes.

    1  A savepoint is made: the way back.
    2  Its copy is written to `<checkpoint>.incoming`. There Spark deals the state out anew, in a batch of its own that
       reads no source and writes no table.
    3  Every stored value is read from the copy, as it was and as it is. They are the same, or nothing happens.
    4  The copy takes the place of the checkpoint as in a restore (steps 3 to 7 in `restore.py`).

A kill before 4 has changed nothing, and the same call begins anew; after it, restoring the savepoint completes it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.engine.flow.key_groups import spark_hash
from framework.engine.session.spark_errors import first_line
from recovery.errors import SavepointError, SavepointRefused
from recovery.jobs.lease import require_stopped
from recovery.restore.interrupted import require_no_interrupted_restore
from recovery.restore.restore import require_replaceable, restore
from recovery.savepoint.catalog import show
from recovery.savepoint.checkpoint_reader import CheckpointSnapshot, read_checkpoint
from recovery.savepoint.create import savepoint
from recovery.savepoint.manifest import manifest_file
from recovery.savepoint.overlap import require_no_overlap
from recovery.savepoint.restore_paths import RestorePaths
from recovery.savepoint.state_reader import digests
from recovery.storage.archive import Archive
from recovery.storage.blobs import ProgressCallback
from recovery.storage.files import Files
from recovery.storage.locations import checkpoint_at, open_archive
from recovery.storage.s3_options import S3Options
from state.checkpoint.job_record import JobRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, kw_only=True)
class Rescaled:
    """What was changed.

    Attributes:
        checkpoint: full name of the job's folder.
        savepoint: name of the savepoint that was made before.
        location: where it is.
        old: number of shuffle partitions before.
        new: number of shuffle partitions now.
        values: how many stored values were compared.
        busiest: key groups on the partition that has most of them: fewer is faster.
        idle: partitions without a key group. They do nothing.
    """

    checkpoint: str
    savepoint: str
    location: str
    old: int
    new: int
    values: int
    busiest: int
    idle: int


def rescale(
    checkpoint: str | os.PathLike[str],
    partitions: int,
    *,
    to: str | os.PathLike[str] | Archive,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
    progress: ProgressCallback | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Rescaled:
    """Change the number of shuffle partitions of a stopped job. Its next start goes on with the same results.

    Args:
        checkpoint: the job's checkpoint, a local folder or one on S3.
        partitions: how many there shall be.
        to: where the savepoint goes that is made first.
        s3: how to reach S3.
        spark: the session that does it; a new one if not given.
        progress: called after each file.
        on_step: called after each step of `recovery.restore.intent.STEPS`; a drill raises in it.

    Raises:
        SavepointRefused: the job is running, a restore was interrupted, it has this number already, or the savepoints
            would lie in its folder.
        SavepointError: the state could not be dealt out anew. Nothing was changed.
        CorruptState: the state cannot be read. Nothing was changed.
    """
    folder, archive = checkpoint_at(checkpoint, s3), open_archive(to, s3)
    found = _check_can_rescale(folder, partitions, archive, s3)
    running = _session(found, spark, s3)
    name = _savepoint_before(found, archive, s3, running, progress)
    repartitioner = _Repartitioner(spark=running, partitions=partitions)
    how: dict[str, Any] = {"s3": s3, "spark": running, "progress": progress, "on_step": on_step}
    restore(archive, name, checkpoint=folder.root, transform=repartitioner, **how)
    groups = _groups_per_partition(found.record, partitions)
    return Rescaled(
        checkpoint=folder.root,
        savepoint=name,
        location=archive.location,
        old=int(found.settings[PARTITIONS]),
        new=partitions,
        values=repartitioner.values,
        busiest=max(groups.values()),
        idle=partitions - len(groups),
    )


def _check_can_rescale(folder: Files, partitions: int, archive: Archive, s3: S3Options | None) -> CheckpointSnapshot:
    """Return how the checkpoint stands, if all that is known before the savepoint permits to rescale it."""
    require_no_overlap(archive, folder, s3)
    require_replaceable(RestorePaths(checkpoint=folder))
    require_stopped(folder)
    require_no_interrupted_restore(folder)
    found = read_checkpoint(folder)
    old = int(found.settings[PARTITIONS])
    if partitions < 1:
        raise SavepointRefused(f"partitions is {partitions}; it must be 1 or more")
    if partitions == old:
        raise SavepointRefused(f"{folder.root} has {old} shuffle partitions already; nothing was changed")
    return found


class _Repartitioner:
    """Steps 2 and 3, on the copy."""

    def __init__(self, *, spark: SparkSession, partitions: int) -> None:
        self.values = 0
        self._spark = spark
        self._partitions = partitions

    def __call__(self, copy: Files) -> None:
        before = digests(self._spark, copy.root)
        try:
            # The manager is public in Scala; from Python 4.2 reaches it by this name only.
            self._spark._streamingCheckpointManager.repartition(copy.root, self._partitions)  # noqa: SLF001
        except Exception as error:
            raise SavepointError(
                f"Spark could not deal out the state anew ({first_line(error)}); nothing was changed"
            ) from error
        after = digests(self._spark, copy.root)
        if before != after:
            wrong = sum(before.get(key) != after.get(key) for key in before.keys() | after.keys())
            raise SavepointError(
                f"{wrong} of {len(before)} stored values were not the same afterwards; nothing was changed. "
                "Please report this, with the versions of Spark and Panekeeper"
            )
        self.values = len(before)


def _savepoint_before(
    found: CheckpointSnapshot,
    archive: Archive,
    s3: S3Options | None,
    spark: SparkSession,
    progress: ProgressCallback | None,
) -> str:
    """Step 1; a savepoint that a killed call has made of this very state is used again."""
    record = found.record
    name = f"{record.name[:60]}-before-rescale-{record.epoch}-{found.batch}"
    if archive.exists(manifest_file(name)):
        there = show(archive, name)
        if (there.job_id, there.epoch, there.batch) == (record.id, record.epoch, found.batch):
            return name
    savepoint(found.folder.root, name, to=archive, s3=s3, progress=progress, spark=spark)
    return name


def _groups_per_partition(record: JobRecord, partitions: int) -> Counter[int]:
    """Return how many key groups each partition has that has any: their ids were chosen for the first number."""
    return Counter(spark_hash(group) % partitions for group in record.group_ids)


def _session(found: CheckpointSnapshot, spark: SparkSession | None, s3: S3Options | None) -> SparkSession:
    from recovery.storage.delta_tables import session_for

    return session_for((found.folder.root, *found.tables.values()), spark, s3)
