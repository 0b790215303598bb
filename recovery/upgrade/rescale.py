"""Changes the number of shuffle partitions of a stopped job: its stored state is distributed again, and is the same.

    1  Make a savepoint, from which the change can be undone.
    2  Write its copy into the folder of a new epoch. There Spark distributes the state again, in a batch of its own
       that reads no source and writes no table.
    3  Read every stored value of the copy before and after. If one differs, stop.
    4  Let that epoch be current, as in a restore (steps 4 and 5 in `recovery/restore/restore.py`).

A kill before step 4 has changed nothing, and the same call begins again, with another savepoint. After it, the next
start completes the change.
"""

from __future__ import annotations

import shlex
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.display import Result
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.jobs.checkpoint import current_folder, require_stopped
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import require_no_overlap
from panekeeper.recovery.savepoint.checkpoint_snapshot import CheckpointSnapshot, read_checkpoint
from panekeeper.recovery.savepoint.create import savepoint
from panekeeper.recovery.savepoint.state_reader import digests
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import ProgressCallback
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.job_record import last_batches, read_record, write_record
from panekeeper.state.history import BEFORE, in_force
from panekeeper.state.key_groups import spark_hash
from panekeeper.state.prepared import is_recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"
_REPARTITIONER = "_streamingCheckpointManager"
"""What distributes state again is public in Scala; Python reaches it by this name only, from Spark 4.2 on."""


@dataclass(frozen=True, kw_only=True)
class Rescaled(Result):
    """What was changed.

    Attributes:
        checkpoint: full name of the job's folder.
        savepoint: name of the savepoint that was made before the change.
        location: where that is.
        old: number of shuffle partitions before.
        new: number of shuffle partitions now.
        values: how many stored values were compared.
        busiest: how many key groups the shuffle partition with most of them has; fewer is faster.
        idle: how many shuffle partitions have no key group, and do nothing.
    """

    checkpoint: str
    savepoint: str
    location: str
    old: int
    new: int
    values: int
    busiest: int
    idle: int

    def _described(self) -> Iterator[str]:
        before = f"before: {self.old}; {self.values} stored values were compared and are the same"
        yield f"{self.checkpoint} has {self.new} shuffle partitions now ({before})"
        yield f"to undo it: panekeeper restore {shlex.quote(self.location)} {shlex.quote(self.savepoint)}"
        yield f"at most {self.busiest} key groups share a shuffle partition"
        if self.idle:
            yield f"{self.idle} shuffle partitions have no key group and do nothing"


def rescale(
    checkpoint: Location,
    partitions: int,
    *,
    to: LocationOrArchive,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
    progress: ProgressCallback | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Rescaled:
    """Change the number of shuffle partitions of a stopped job. Its results stay the same.

    Args:
        checkpoint: the job's checkpoint, a local folder or one on S3.
        partitions: the new number of shuffle partitions.
        to: location of the savepoint that is made first.
        s3: how S3 is reached.
        spark: the session that distributes the state; a new one if not given.
        progress: called after each file.
        on_step: called after each step of `panekeeper.recovery.restore.restore.STEPS`; a drill raises in it.

    Raises:
        SavepointRefused: the job is running, or has run since this call began; it has this number
            already; the savepoints would lie in its folder; or Spark is older than 4.2.
        SavepointError: Spark could not distribute the state again. Nothing was changed.
        CorruptState: the state cannot be read. Nothing was changed.
    """
    from pyspark.sql import SparkSession

    from panekeeper.recovery.storage.delta_tables import session_for

    if not hasattr(SparkSession, _REPARTITIONER):
        raise SavepointRefused("a checkpoint is rescaled by pyspark 4.2: Spark 4.1 cannot distribute its state again")
    folder, archive = checkpoint_at(checkpoint, s3), open_archive(to, s3)
    snapshot = _check_can_rescale(folder, partitions, archive)
    running = session_for((snapshot.folder.root, *snapshot.tables.values()), spark, snapshot.folder.s3)
    of_job = snapshot.record.name[:60].lstrip(".")
    name = f"{of_job}-before-rescale-{snapshot.record.epoch}-{snapshot.batch}-{uuid.uuid4().hex[:6]}"
    savepoint(snapshot.folder.root, name, to=archive, s3=snapshot.folder.s3, progress=progress, spark=running)
    repartitioner = _Repartitioner(spark=running, partitions=partitions)
    how: dict[str, Any] = {"s3": s3, "spark": running, "progress": progress, "on_step": on_step}
    restore(archive, name, checkpoint=folder.root, transform=repartitioner, if_unchanged=True, **how)
    groups = Counter(
        spark_hash(group) % partitions
        for group in snapshot.record.group_ids  # chosen for the first number
    )
    return Rescaled(
        checkpoint=folder.root,
        savepoint=name,
        location=archive.location,
        old=int(snapshot.settings[PARTITIONS]),
        new=partitions,
        values=repartitioner.values,
        busiest=max(groups.values()),
        idle=partitions - len(groups),
    )


def _check_can_rescale(root: Files, partitions: int, archive: Archive) -> CheckpointSnapshot:
    """Return the checkpoint as it is, after every check that needs no savepoint."""
    require_no_overlap(archive, root)
    folder = current_folder(root)
    require_stopped(folder)
    snapshot = read_checkpoint(folder)
    old = int(snapshot.settings[PARTITIONS])
    if partitions < 1:
        raise SavepointRefused(f"partitions is {partitions}; it must be 1 or more")
    if partitions == old:
        raise SavepointRefused(f"{folder.root} has {old} shuffle partitions already; nothing was changed")
    if is_recorded(folder, snapshot.record, snapshot.unfinished):
        raise SavepointRefused(
            f"batch {snapshot.unfinished} of {folder.root} is recorded and not completed, and tables may have it "
            'already; start the job once, with trigger="available_now", which completes it. Nothing was changed'
        )
    return snapshot


class _Repartitioner:
    """Steps 2 and 3, on the copy."""

    def __init__(self, *, spark: SparkSession, partitions: int) -> None:
        self.values = 0
        self._spark = spark
        self._partitions = partitions

    def __call__(self, copy: Files) -> None:
        before, batch = digests(self._spark, copy.place), last_batches(copy)[1]
        try:
            getattr(self._spark, _REPARTITIONER).repartition(copy.place, self._partitions)
        except Exception as error:
            raise SavepointError(
                f"Spark could not distribute the state again ({first_line(error)}); nothing was changed. "
                "Remove the cause and rescale again"
            ) from error
        after = digests(self._spark, copy.place)
        if before != after:
            wrong = sum(before.get(key) != after.get(key) for key in before.keys() | after.keys())
            raise SavepointError(
                f"{wrong} of {len(before)} stored values were different afterwards; nothing was changed. "
                "Please report this, with the versions of Spark and Panekeeper"
            )
        self.values = len(before)
        keep_in_force(copy, batch)


def keep_in_force(copy: Files, batch: int | None) -> None:
    """Let the declaration that the state was computed by be what the next start of a copy compares with.

    A start may have been killed after it had recorded another one. The batch of Spark's, which is the last committed
    one now, has not run that either; `batch` is the last one that was committed before.
    """
    record = read_record(copy)
    if record is not None and (old := in_force(record.declaration, batch)) is not record.declaration:
        declaration = {**record.declaration, BEFORE: {"batch": last_batches(copy)[1], "declaration": old}}
        write_record(copy, replace(record, declaration=declaration))
