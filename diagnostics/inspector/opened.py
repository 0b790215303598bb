"""The state that is looked at: of a checkpoint, be its job running or not, or of a savepoint; as of a batch.

Nothing is written, and the job is not stopped: Spark keeps the state of the last batches, so what is read of one batch
stays as it is while the next ones come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from panekeeper.diagnostics.keys import Key, TypedKey, key_as_stored
from panekeeper.framework.core.inspection.recorded import RecordedPort, recorded_ports
from panekeeper.framework.declarations.errors import CheckpointError, DeclarationError, did_you_mean
from panekeeper.recovery.jobs.checkpoint import current_folder, no_checkpoint
from panekeeper.recovery.jobs.gone_tables import require_table
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.savepoint.checkpoint_copy import temporary_copy
from panekeeper.recovery.storage.delta_tables import session_for
from panekeeper.recovery.storage.files import Files, LocalFiles
from panekeeper.recovery.storage.locations import Location, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, JOB_FILE, batch_numbers
from panekeeper.state.checkpoint.job_record import JobRecord, read_record, read_tables
from panekeeper.state.prepared import as_computed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A state that can be read.

    Attributes:
        session: returns the session that reads what only Spark can read; without a given one it starts one, once.
        files: the folder of the epoch, or a copy of it.
        record: which job it is of.
        ports: the windows of the job, or the one that is looked at.
        batch: the last batch that is in it.
        first: the first batch as of which the state is kept.
        tables: role -> path of the tables of the job.
        versions: role -> version of a table, in a savepoint.
        checkpoint: the folder or URL of the job; empty in a savepoint.
    """

    session: Callable[[], SparkSession]
    files: Files
    record: JobRecord
    ports: list[RecordedPort]
    batch: int
    first: int
    tables: Mapping[str, str]
    versions: Mapping[str, int] = field(default_factory=dict)
    checkpoint: str = ""

    @property
    def spark(self) -> SparkSession:
        """The session that reads what only Spark can read."""
        return self.session()

    def frame(self, path: str) -> DataFrame:
        """Return a table of the job, read by Spark. Raises `SinkError` if it is gone, before Spark is started."""
        require_table(self.files, next(role for role, table_path in self.tables.items() if table_path == path), path)
        return self.spark.read.format("delta").load(path)

    @property
    def windows(self) -> list[str]:
        """The names of several windows; none if there is only one, or one is looked at."""
        names = [*dict.fromkeys(port.window for port in self.ports)]
        return names if len(names) > 1 else []

    @property
    def has_ports(self) -> bool:
        """Whether the rows come from several streams, and are not joined by panes."""
        return any(port.number for port in self.ports)

    def typed_key(self, port: RecordedPort, key: Key) -> TypedKey:
        """Return a key of a port as it is stored. Raises `DeclarationError` for what is no such key."""
        kinds = dict(zip(port.log_keys, port.keys.types, strict=True))
        return key_as_stored(self.session, self.record.group_ids, kinds, key)

    def of_window(self, window: str | None) -> Opened:
        """Return it with one of several windows alone; `None`: as it is. Raises `DeclarationError` for no such name."""
        if window is None:
            return self
        ports = [port for port in self.ports if port.window and port.window == window]
        if not ports:
            listed = f"its windows are {', '.join(self.windows)}" if self.windows else "it has only one, without a name"
            near = did_you_mean(window, self.windows)
            raise DeclarationError(f"window is {window!r}, and the job has no such window{near or f'; {listed}'}")
        return replace(self, ports=ports)

    def require_one_window(self) -> None:
        """Raise `DeclarationError` unless one window is looked at."""
        if self.windows:
            raise DeclarationError(
                f"the job has the windows {', '.join(self.windows)}; say which one, as in window={self.windows[0]!r} "
                f"or --window {self.windows[0]}"
            )


@contextmanager
def opened(
    place: Location,
    *,
    window: str | None = None,
    batch: int | None = None,
    savepoint: str | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> Iterator[Opened]:
    """Provide the state of a checkpoint, or of a savepoint in a location, as of its last batch or an earlier one.

    `window` is the one of several that is looked at; None: all.

    Raises:
        CheckpointError: it is no checkpoint; nothing was committed yet; or the state of the batch is not kept.
        DeclarationError: no window has this name.
        SavepointError: the savepoint cannot be read.
    """
    if savepoint is None:
        root = checkpoint_at(place, s3)
        state = _opened(current_folder(root), batch, s3, spark)
        yield replace(state, checkpoint=root.root).of_window(window)
        return
    archive = open_archive(place, s3)
    manifest = show_trusted(archive, savepoint)
    with temporary_copy(archive, manifest) as folder:
        state = _opened(LocalFiles(Path(folder), s3=s3 or S3Options()), batch, s3, spark)
        versions = {role: table.version for role, table in manifest.tables.items()}
        yield replace(state, versions=versions).of_window(window)


def _opened(files: Files, batch: int | None, s3: S3Options | None, spark: SparkSession | None) -> Opened:
    record = read_record(files)
    if record is None:
        raise no_checkpoint(files, JOB_FILE)
    record = as_computed(files, record)
    committed = batch_numbers(files, COMMITS_FOLDER)
    if not committed:
        raise CheckpointError(f"no batch of {files.root} was committed yet, so there is no state to show")
    as_of = committed[-1] if batch is None else require_kept(files.root, batch, committed[0], committed[-1])
    ports, tables = recorded_ports(record.declaration, as_of), read_tables(files)
    session = cache(lambda: session_for((files.place, *tables.values()), spark, s3))
    return Opened(
        session=session, files=files, record=record, ports=ports, batch=as_of, first=committed[0], tables=tables
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
