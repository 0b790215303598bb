"""Step 3 of the commit protocol (`framework/engine/sink/delta_sink.py`): a batch is recorded before anything has it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import CheckpointInUse, JobFailed
from panekeeper.framework.engine.job.prepared.spark_commit import spark_commit
from panekeeper.framework.engine.sink.batch.large_rows import read_large_rows, rows_and_hashes, write_large_rows
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.layout import prepared_file
from panekeeper.state.prepared import PreparedBatch, not_needed, prepare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper.framework.engine.job.lease import Lease
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.batch.output import BatchOutput
    from panekeeper.framework.engine.sink.protocol import BatchContext, JobSink


@dataclass(kw_only=True)
class Preparation:
    """Records the batches of a run.

    Attributes:
        files: the checkpoint.
        sink: that of the job.
        lease: must be held.
        epoch: of the job.
    """

    files: CheckpointFiles
    sink: JobSink
    lease: Lease
    epoch: int
    _before: PreparedBatch | None = None

    @cached_property
    def _folder(self) -> LocalFolder | CheckpointFiles:
        return self.files.without_java()

    def prepare(
        self,
        packed: DataFrame,
        batch: BatchOutput,
        query: StreamingQuery,
        context: BatchContext,
    ) -> tuple[PreparedBatch, DataFrame | None]:
        """Record what a batch writes, and remove the record of the one before, which is committed.

        In the first batch of a run, all other records are removed: a process that lost the lease may have left some.

        Args:
            packed: the persisted output of the plan.
            batch: what the sink has found in it.
            query: the one that runs the batch, in whose thread this is called.
            context: what the job knows of it.

        Returns:
            What is recorded, and the packed rows that are too many for the driver, as they are recorded; None: there
            are none. What was persisted is not read again: it is computed again, maybe otherwise, if an executor is
            lost or somebody clears the cache.

        Raises:
            CheckpointInUse: the lease is lost, or another process has prepared this batch.
            JobFailed: what was persisted is lost, and other rows were computed since.
        """
        folder, rows = self._write_large(packed, batch)
        prepared = self.sink.prepared(
            batch,
            spark_commit=spark_commit(packed.sparkSession, query),
            large=dict.fromkeys(batch.large_tags, folder),
            known=self.lease.tables or {},
            context=context,
        )
        large_files = [] if rows is None else self._files_in(folder)
        prepared = replace(prepared, large_files=large_files)
        self.lease.require_held()
        try:
            prepare(self._folder, prepared)
        except FileExistsError as error:
            raise CheckpointInUse(
                f"batch {batch.number} of {self.files.root} was run by another process, too, and that one was first: "
                "either of them was paused until the other one had taken over. Nothing that this process has computed "
                "of it is in a table. If no other process runs, start the job again, which completes the batch"
            ) from error
        if self._before is None or self._before.large:  # Hadoop removes folders, but takes longer
            for name in not_needed(self._folder, [prepared]):
                self.lease.require_held()  # else it may be the record of a process that has taken over
                self.files.remove(name)
        else:
            self._folder.remove(prepared_file(self._before.epoch, self._before.number))
        self._before = replace(prepared, rows={})
        return prepared, rows

    def _write_large(self, packed: DataFrame, batch: BatchOutput) -> tuple[str, DataFrame | None]:
        """Write the outputs that are not in the driver to a folder of the checkpoint; return it, and what it has."""
        folder = f"{prepared_file(self.epoch, batch.number)}-{uuid.uuid4().hex}"
        if not batch.large_tags:
            return folder, None
        self.lease.require_held()
        write_large_rows(packed, batch.large_tags, path := self.files.path(folder))
        rows = read_large_rows(packed.sparkSession, path)
        if rows_and_hashes(rows) != {tag: (batch.rows[tag], batch.hashes[tag]) for tag in batch.large_tags}:
            raise JobFailed(
                f"batch {batch.number} of {self.files.root} is not recorded: its rows were lost before that (the cache "
                "was cleared, or an executor ended), and computed again they are others, or in another order. No "
                "table has any of them. Start the job again: it runs the whole batch again"
            )
        return folder, rows

    def _files_in(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in self._folder.names(folder) if not name.startswith(".")]
