"""What does a start do with a batch that was begun, and not committed?

If it was prepared, everything that it writes is recorded, and some tables may have it: the start completes it as it is
recorded, and logs its commit for Spark, which goes on with the next batch. If it was not prepared, nothing has anything
of it, and Spark runs it again: by whatever code there is now, in whatever order its sources give its rows.

The record of the last batch that is committed is kept until the next one is prepared: by it a start knows what each
table must have.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import (
    CheckpointError,
    CheckpointInUse,
    IncompatibleCheckpoint,
    SinkError,
)
from panekeeper.framework.engine.delta_log.read import is_delta_table, table_metadata, unreadable_table
from panekeeper.framework.engine.job.tables.table_checks import require_no_later_batch
from panekeeper.framework.engine.job.tables.table_record import require_same
from panekeeper.framework.engine.session.required_settings import session_of_its_own
from panekeeper.framework.engine.session.spark_errors import translate
from panekeeper.framework.engine.sink.batch.large_rows import read_large_rows, rows_and_hashes
from panekeeper.framework.engine.sink.batch.table_writer import RESULTS
from panekeeper.framework.engine.sink.fencing import require_owned
from panekeeper.state.checkpoint.claims import unaccounted_files
from panekeeper.state.checkpoint.folder import damaged, place_of
from panekeeper.state.checkpoint.job_record import read_tables, write_flushed
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, prepared_file
from panekeeper.state.checkpoint.run_record import last_batches
from panekeeper.state.log import logger
from panekeeper.state.prepared import PreparedBatch, TableWrite, last_prepared, not_needed, read_prepared
from panekeeper.state.upgrade.history import corrected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.engine.job.lease import Lease
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.protocol import BatchWriter
    from panekeeper.state.checkpoint.folder import LocalFolder
    from panekeeper.state.checkpoint.job_record import JobRecord

_log = logger("job")


def last_decided(files: CheckpointFiles, record: JobRecord) -> int | None:
    """Return the last batch that is committed, or will be before a start does anything else; None: there is none.

    Args:
        files: the checkpoint.
        record: what it says of the job.
    """
    begun, committed = last_batches(files)
    return begun if begun is not None and files.exists(prepared_file(record.epoch, begun)) else committed


def require_completed(files: CheckpointFiles, record: JobRecord) -> None:
    """Refuse a checkpoint with a batch that is recorded and not completed to a query that cannot complete it.

    Args:
        files: the checkpoint.
        record: what it says of the job.

    Raises:
        CheckpointError: there is such a batch.
    """
    if last_decided(files, record) != last_batches(files)[1]:
        raise CheckpointError(
            f"a batch of job {record.name!r} in {files.root} is recorded and not completed; start the job once by "
            'to_delta(...).start(..., trigger="available_now"), which completes it'
        )


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Completes the last batch of a checkpoint, before a query starts there.

    Attributes:
        files: the checkpoint, whose lease is held.
        record: what it says of the job.
        writer: writes the tables.
        lease: of this start.
        declared: role -> path of the tables of this start.
        accepted: number of the batch that may go on without what is lost of it.
    """

    files: CheckpointFiles
    record: JobRecord
    writer: BatchWriter
    lease: Lease
    declared: Mapping[str, str | None]
    accepted: int | None = None

    def run(self) -> PreparedBatch | None:
        """Complete the last batch if it was prepared, and return what was written now; None: there was nothing to do.

        May be killed and repeated.

        Raises:
            CheckpointInUse: the lease is lost; or a process that was paused has recorded the batch just now, by another
                declaration.
            CorruptState: what was prepared is damaged, or Spark's offsets are older, or of another batch.
            IncompatibleCheckpoint: a table has a batch that is not finished, and what was prepared of it is gone.
            SinkError: a table that gets the batch is gone, or older than the batch, or does not take it.
            JobFailed: a table cannot be written now.
        """
        begun, committed = last_batches(self._folder)
        unfinished = None if begun == committed else begun
        known = self.record
        batch = None if unfinished is None else read_prepared(self._folder, known.epoch, unfinished, job=known.id)
        if batch is not None:
            completed = self._complete(batch)
            self._require_same_declaration(completed)
            self._remove_others(batch)
            return completed
        if unfinished is not None:
            self._require_in_no_table(unfinished)
        self._remove_others(last_prepared(self._folder, self.record, committed), unfinished)  # the next one replaces it
        return None

    def _remove_others(self, needed: PreparedBatch | None, unfinished: int | None = None) -> None:
        """Remove all other records, but the rows that a process which is only paused may still record."""
        beside = None if unfinished is None else f"{prepared_file(self.record.epoch, unfinished)}-"
        for name in not_needed(self._folder, [] if needed is None else [needed]):
            if beside is not None and name.startswith(beside) and self._may_be_paused():
                continue
            self.lease.require_held()
            self.files.remove(name)

    def _require_same_declaration(self, batch: PreparedBatch) -> None:
        """Refuse to go on after a batch of another declaration, which was recorded since this start has looked."""
        declared = self.record.declaration
        if corrected(declared, batch.declaration, batch.number) is not declared:
            raise CheckpointInUse(
                f"batch {batch.number} of {self.files.root} was computed by another declaration, and recorded just now "
                "by a process that was paused until this start had taken over. It is completed; start the job again"
            )

    def _may_be_paused(self) -> bool:
        """Return whether a process that has lost the lease may only be paused."""
        return bool(unaccounted_files(self._folder))

    @cached_property
    def _folder(self) -> LocalFolder | CheckpointFiles:
        return self.files.without_java()

    def _require_in_no_table(self, number: int) -> None:
        """Refuse to run a batch again that a table has: it might be computed otherwise now."""
        if self.accepted == number:
            return
        paths = {path: role for role, path in [*self.declared.items(), *read_tables(self.files).items()] if path}
        for path, role in paths.items():
            if is_delta_table(self.files.spark, path) and self._last(path, self.record.transaction(role)) >= number:
                raise IncompatibleCheckpoint(
                    f"batch {number} of job {self.record.name!r} in {self.files.root} is not finished, the {role} "
                    f"{path} has it, and what was recorded of it is gone (an older version recorded nothing): run "
                    "again, it would have other rows if code, inputs or the number of cores have changed since. "
                    f"Restore a savepoint; or, if all of that is as it was, start(..., accept_batch={number}) runs it"
                )

    def _complete(self, batch: PreparedBatch) -> PreparedBatch:
        spark = self.files.spark
        writes = [*filter(None, (self._target(one, batch.number) for one in batch.writes))]
        if batch.sink_writer is not None:
            self.lease.require_held()
            self.writer.prepare_user_sink(spark, batch.rows[RESULTS].schema)
        written = self._write(batch, writes)
        if batch.is_flush:
            write_flushed(self.files, batch.number)
        self.lease.require_held()
        with suppress(FileExistsError):  # the process that had prepared it may go on, and be faster
            self._folder.write(f"{COMMITS_FOLDER}/{batch.number}", batch.spark_commit.encode())
        if batch.resumed_us is not None:
            self.lease.note_completed(batch.resumed_us)
        what = ", ".join(written) or "no table"
        _log.info("batch %s of job %s is completed as it was recorded: %s", batch.number, self.record.name, what)
        return replace(batch, writes=[one for one in writes if one.role in written])

    def _write(self, batch: PreparedBatch, writes: list[TableWrite]) -> list[str]:
        if lost := batch.lost_files(self._folder):
            raise damaged(self.files, lost[0], "it is gone")
        with session_of_its_own(self.files.spark) as spark:  # as a query has one: commits set what is for them alone
            batch = replace(batch, writes=writes)
            packed = self._large_rows(spark, batch)
            try:
                return [*self.writer.write(spark, batch, packed, self.lease.require_held)]
            except Exception as error:
                raise translate(error, self.record.name) from error

    def _large_rows(self, spark: SparkSession, batch: PreparedBatch) -> DataFrame | None:
        packed = None
        wanted = {one.rows for one in batch.writes} | ({RESULTS} if batch.sink_writer is not None else set())
        for folder in {batch.large[name] for name in wanted & batch.large.keys()}:
            packed = read_large_rows(spark, self.files.path(folder))
            found = rows_and_hashes(packed)
            if not batch.large_hashes:  # an earlier version wrote it
                found = {name: (rows, 0) for name, (rows, _) in found.items()}
            expected = {name: (rows, batch.large_hashes.get(name, 0)) for name, rows in batch.large_counts.items()}
            if expected.items() - found.items():
                counts = {name: rows for name, (rows, _) in found.items()}
                why = f"it has {counts} rows, not {dict(batch.large_counts)}, or not the same ones"
                raise damaged(self.files, folder, why)
        return packed

    def _target(self, one: TableWrite, number: int) -> TableWrite | None:
        """Return where rows are to be written: to their table, which may have been moved, or copied; None: nowhere."""
        if one.role not in self.declared or one.transaction != self.record.transaction(one.role):
            raise damaged(self.files, prepared_file(self.record.epoch, number), f"it writes as {one.transaction}")
        declared = self.declared[one.role]
        for path in filter(None, (declared, one.path)):
            if (metadata := self._same_table(one, path)) is not None:
                require_owned(self.files.spark, {one.role: path}, self.record)
                require_no_later_batch(self.files, self.record, {one.role: path}, self._last)
                known = {"path": path, "id": metadata["id"], "transaction": one.transaction}
                require_same(one.role, known, metadata, self._last(path, one.transaction), last=one.after)
                return replace(one, path=path)
        self._leave_out(one, number, is_declared=declared is not None and place_of(declared) == place_of(one.path))
        return None

    def _same_table(self, one: TableWrite, path: str) -> Mapping[str, Any] | None:
        """Return the metadata of the table in a folder; None if there is none, or another one."""
        if not is_delta_table(self.files.spark, path):
            return None
        try:
            metadata = table_metadata(self.files.spark, path)
        except Exception as error:
            raise unreadable_table(path, error) from error
        return metadata if one.table in ("", metadata["id"]) else None

    def _leave_out(self, one: TableWrite, number: int, *, is_declared: bool) -> None:
        what = f"batch {number} of job {self.record.name!r} has rows for the {one.role} {one.path}, which"
        if self.accepted == number or (one.role == "view" and not is_declared):  # the log has all that the view has
            _log.warning("%s is gone: they are left out", what)
            return
        raise SinkError(
            f"{what} is gone, or is another table now. Mount its volume, or put it back; or restore a savepoint. If it "
            f"is lost, start(..., accept_batch={number}) leaves these rows out, which are in no table then"
        )

    def _last(self, path: str, transaction: str) -> int:
        return self.writer.last_transaction(self.files.spark, path, transaction)
