"""The state that is looked at: of a checkpoint, be its job running or not, or of a savepoint; as of a batch.

Nothing is written, and the job is not stopped: Spark keeps the state of the last batches, so what is read of one batch
stays as it is while the next ones come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from panekeeper.framework.core.inspection.recorded import RecordedPort, recorded_ports
from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.recovery.jobs.checkpoint import current_folder, no_checkpoint
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.savepoint.checkpoint_files import temporary_copy
from panekeeper.recovery.storage.delta_tables import session_for
from panekeeper.recovery.storage.files import Files, LocalFiles
from panekeeper.recovery.storage.locations import Location, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, JOB_FILE, batch_numbers
from panekeeper.state.checkpoint.job_record import JobRecord, read_record, read_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A state that can be read.

    Attributes:
        spark: the session that reads it.
        files: the folder of the epoch, or a copy of it.
        record: which job it is of.
        ports: the windows of the job.
        batch: the last batch that is in it.
        first: the first batch as of which the state is kept.
        tables: role -> path of the tables of the job.
    """

    spark: SparkSession
    files: Files
    record: JobRecord
    ports: list[RecordedPort]
    batch: int
    first: int
    tables: Mapping[str, str]


@contextmanager
def opened(
    place: Location,
    *,
    batch: int | None = None,
    savepoint: str | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> Iterator[Opened]:
    """Provide the state of a checkpoint, or of a savepoint in a location, as of its last batch or an earlier one.

    Raises:
        CheckpointError: it is no checkpoint; nothing was committed yet; or the state of the batch is not kept.
        DeclarationError: the window of the job has nothing to show.
        SavepointError: the savepoint cannot be read.
    """
    if savepoint is None:
        yield _opened(current_folder(checkpoint_at(place, s3)), batch, s3, spark)
        return
    archive = open_archive(place, s3)
    with temporary_copy(archive, show_trusted(archive, savepoint)) as folder:
        yield _opened(LocalFiles(Path(folder), s3=s3 or S3Options()), batch, s3, spark)


def _opened(files: Files, batch: int | None, s3: S3Options | None, spark: SparkSession | None) -> Opened:
    record = read_record(files)
    if record is None:
        raise no_checkpoint(files, JOB_FILE)
    committed = batch_numbers(files, COMMITS_FOLDER)
    if not committed:
        raise CheckpointError(f"no batch of {files.root} was committed yet, so there is no state to show")
    as_of = committed[-1] if batch is None else require_kept(files.root, batch, committed[0], committed[-1])
    ports, tables = recorded_ports(record.declaration, as_of), read_tables(files)
    running = session_for((files.place, *tables.values()), spark, s3)
    return Opened(
        spark=running, files=files, record=record, ports=ports, batch=as_of, first=committed[0], tables=tables
    )


def require_kept(root: str, batch: int, first: int, last: int) -> int:
    """Return the batch. Raises `CheckpointError` unless it is one of those whose state is kept."""
    if batch > last:
        raise CheckpointError(f"batch {batch} of {root} is not committed; the last one is {last}")
    if batch < first:
        raise CheckpointError(
            f"the state as of batch {batch} of {root} is no longer kept; give a batch from {first} to {last}, or a "
            "savepoint"
        )
    return batch
