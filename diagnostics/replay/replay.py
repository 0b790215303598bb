"""Runs a batch of a job again, in memory, and compares with what was recorded of it.

The batch begins from the state before it, which Spark keeps of the last batches, and gets the rows, the time and the
commands that its offsets name (`recorded_rows.py`). Each key group is run by the core that runs it in Spark. What comes
out must be what is in the state after it, in the tables, and in the metrics. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.diagnostics.keys import Key, key_as_stored
from panekeeper.diagnostics.replay.recorded_results import StoredGroups, stored_groups
from panekeeper.diagnostics.tables.written import rows_of_batches
from panekeeper.framework.core.group_batch import BatchRunner, GroupBatch
from panekeeper.framework.core.inspection.differences import rows_difference, state_difference
from panekeeper.framework.core.inspection.one_key import Values, rows_of
from panekeeper.framework.core.inspection.stepping import StepDone, each_step
from panekeeper.framework.core.packed_rows import PackedRow
from panekeeper.framework.declarations.display import Result, printable
from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.flow.spark_watermark import watermark_us
from panekeeper.framework.engine.job.declaration_record import with_history
from panekeeper.framework.engine.sink.batch_output import ROW_COUNT_COLUMNS
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.jobs.recorded_rows import RecordedBatches, recorded_batches
from panekeeper.recovery.storage.locations import Location, checkpoint_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.recovery.upgrade.job_file import load_job
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, batch_numbers
from panekeeper.state.checkpoint.job_record import read_tables
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.codec import with_columns
from panekeeper.state.log import progress
from panekeeper.state.records import HANDLERS, LifecycleRecord
from panekeeper.state.store import MemoryStore
from panekeeper.state.table_roles import has_results, role_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.core.steps import BatchOutcome
    from panekeeper.recovery.storage.files import Files

_METRICS = (*ROW_COUNT_COLUMNS, "firings")
_COUNTS = pa.schema([(name, pa.int64()) for name in _METRICS])


@dataclass(frozen=True, kw_only=True)
class RecordedGroup:
    """What a key group had before a batch, and what it got in it.

    Attributes:
        spec: its windows, and what they compute.
        store: what was stored before.
        batch: what came, in order.
    """

    spec: JobSpec
    store: MemoryStore = field(repr=False)
    batch: GroupBatch

    def run(self) -> tuple[BatchOutcome, MemoryStore]:
        """Run it; return what it did, and what is stored after it."""
        after = self.store.copy()
        return self.batch.run(self.spec, after), after


@dataclass(frozen=True, kw_only=True)
class Replay(Result):
    """A batch that was run again.

    Attributes:
        job: name of the job.
        batch: number of the batch.
        key: the partition that is looked at, by its values; empty: all.
        compared: what was compared with what is recorded.
        not_compared: what was not, and why.
        differences: what is not as it is recorded, the first difference of each kind; empty if all is.
        counts: where the rows of the batch went, of the key groups that were run.
        results: the rows of the log that came out, of the partition; None of several windows.
        windows: the same of several windows, by their names.
    """

    job: str
    batch: int
    key: Mapping[str, Any] = field(default_factory=dict)
    compared: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    results: pa.Table | None = field(default=None, repr=False)
    windows: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    groups: tuple[RecordedGroup, ...] = field(default=(), repr=False)
    """The key groups that had something to do."""
    values: Values = field(default_factory=dict, repr=False)

    @property
    def is_equal(self) -> bool:
        """Whether what came out is what is recorded."""
        return not self.differences

    def steps(self) -> Iterator[StepDone]:
        """Yield the steps of the batch, one after the other, in the key group of the partition; each is run when asked.

        A step has a text (`str(step)`), its `results`, and the `store` after it.
        """
        for group in self.groups:
            came = group.batch
            yield from each_step(group.spec, group.store, came.steps, key=self.values, checkpoint=came.checkpoint)

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields; of one partition with its steps, which are run for it."""
        shown = ("job", "batch", "compared", "not_compared", "differences", "counts")
        key = dict(self.key) or None
        steps = [str(step) for step in self.steps()] if key else []
        return {**{name: getattr(self, name) for name in shown}, "equal": self.is_equal, "key": key, "steps": steps}

    def _described(self) -> Iterator[str]:
        counts = ", ".join(f"{name} {number:,}" for name, number in self.counts.items() if number) or "no rows"
        key = "".join(f" {name}={value}" for name, value in self.key.items())
        yield printable(f"batch {self.batch} of job {self.job}{key}{'; its key group' if key else ''}: {counts}")
        if key:
            yield from (printable(line) for step in self.steps() for line in str(step).splitlines())
        yield f"equal: {', '.join(self.compared)}" if self.is_equal else "differs from what is recorded"
        yield from (printable(f"  {difference}") for difference in self.differences)
        yield from (printable(f"not compared: {what}") for what in self.not_compared)


def replay(
    checkpoint: Location,
    batch: int,
    *,
    job: DeltaJob | str | os.PathLike[str],
    key: Key | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> Replay:
    """Run a batch of a job again, in memory, and compare what comes out with what is recorded. Nothing is written.

    The job may run meanwhile. With another declaration, or other code of operators and functions, the difference is
    what the change would have done in that batch. What code of operators and state handlers does outside of the job, it
    does again.

    Args:
        checkpoint: the job's checkpoint.
        batch: the number of a committed batch whose state before it is kept (`minBatchesToRetain`, 100).
        job: the declared job, as `to_delta()` returns it, or the file that declares it, as for `panekeeper plan`.
        key: partition column -> value, for each partition column: only its key group is run, and the log is compared
            for this partition. Steps are then steps of this partition.
        s3: how S3 is reached.
        spark: the session that loads the file; a new one if not given.

    Raises:
        CheckpointError: it is no checkpoint, or the state before the batch, its offsets or its control files are not
            kept; the message says from which batch on they are.
        RowsGone: the source no longer has the rows of the batch.
        DeclarationError: no such key.
        JobFileError: the file declares no job.
    """
    opened = recorded_batch(checkpoint, batch, job=job, key=key, s3=s3, spark=spark)
    return compared(opened)


@dataclass(frozen=True, kw_only=True)
class RecordedBatch:
    """A batch, ready to be run again: what is needed of it was read."""

    recorded: RecordedBatches
    folder: Files
    batch: int
    spec: JobSpec
    key: Mapping[str, Any]
    values: Values
    group: int | None
    groups: tuple[RecordedGroup, ...]
    before: StoredGroups
    after: StoredGroups

    @property
    def spark(self) -> SparkSession:
        """The session of the job's streams."""
        return self.recorded.pipeline.intake.df.sparkSession


def recorded_batch(
    checkpoint: Location,
    batch: int,
    *,
    job: DeltaJob | str | os.PathLike[str],
    key: Key | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> RecordedBatch:
    """Read what is needed to run a batch again. Raises as `replay`."""
    declared = load_job(job, spark=spark) if isinstance(job, str | os.PathLike) else job
    folder = current_folder(checkpoint_at(checkpoint, s3))
    recorded = recorded_batches(folder, declared)
    running = declared.pipeline.intake.df.sparkSession
    recorded.require_kept(batch)
    kept = batch_numbers(folder, COMMITS_FOLDER)
    if batch and batch - 1 not in kept:
        raise CheckpointError(
            f"the state before batch {batch} of {folder.root} is no longer kept; give a batch from {kept[0] + 1} to "
            f"{kept[-1]}"
        )
    pipeline = with_history(declared.pipeline, recorded.record)
    runner: BatchRunner = cloudpickle.loads(cloudpickle.dumps(pipeline.runner()))  # type: ignore[no-untyped-call]  # as workers
    spec = runner.spec
    values: Values = {}
    group = None
    if key is not None:
        kinds = dict(zip(spec.keys.names, spec.keys.types, strict=True))
        where = key_as_stored(lambda: running, recorded.record.group_ids, kinds, key)
        where.require_whole()
        values, group = where.values, where.group(lambda: running)
    progress.info("reading the rows of batch %d again", batch)
    table = recorded.packed(
        lambda df: (df if group is None else df.where(F.col("g") == group)).toArrow(), batch, folds=group is None
    )
    packed: dict[int, list[PackedRow]] = {}
    for row in PackedRow.each(table):
        packed.setdefault(row.g, []).append(row)
    progress.info("reading the state before and after batch %d", batch)
    before, after = stored_groups(running, folder.place, batch, group=group)
    watermark_ms = recorded.watermark_ms(batch)
    due = {group_id for group_id, ms in before.timers.items() if watermark_ms > 0 and ms <= watermark_ms}
    watermark = watermark_us(watermark_ms) if pipeline.uses_watermark_timer else None

    def recorded_group(group_id: int) -> RecordedGroup:
        run = _run_of(after.stores[group_id], batch) if spec.handlers else None
        rows = packed.get(
            group_id, []
        )  # of a batch that is begun once more: what handlers do outside may have happened
        came = runner.in_order(rows, number=batch, group=group_id, watermark_us=watermark, attempt=2, run=run)
        return RecordedGroup(spec=spec, store=before.stores[group_id], batch=came)

    groups = tuple(map(recorded_group, sorted({*packed, *due})))
    return RecordedBatch(
        recorded=recorded,
        folder=folder,
        batch=batch,
        spec=spec,
        key=dict(key or {}),
        values=values,
        group=group,
        groups=groups,
        before=before,
        after=after,
    )


def _run_of(after: MemoryStore, batch: int) -> RunRecord:
    """Return the run of the job that has processed a batch, as its state handlers have it in what they stored."""
    stored = after.find(HANDLERS, 0, 0)
    number = 1 if stored is None else LifecycleRecord.decode(stored).run
    return RunRecord(number=number, no_batch_committed=not batch)


def compared(opened: RecordedBatch) -> Replay:
    """Run a batch again, and compare what comes out with what is recorded of it."""
    spec, values = opened.spec, opened.values
    logs = {window: [window_spec.results_schema.empty_table()] for window, window_spec in spec.parts.items()}
    rejected, counts = [spec.rejected_schema.empty_table()], dict.fromkeys(_METRICS, 0)
    stores = dict(opened.before.stores)
    progress.info("running batch %d again", opened.batch)
    for group in opened.groups:
        outcome, stores[group.batch.group] = group.run()
        for window, part in outcome.parts.items():
            logs[window] += [] if part.results is None else [part.results]
        rejected += group.batch.refused_rows(spec)
        rejected += [] if outcome.rejected is None else [outcome.rejected]
        for name, number in {**outcome.counts, "firings": outcome.firings}.items():
            if name in counts:
                counts[name] += number
    results = {window: rows_of(_together(tables), values) for window, tables in logs.items()}
    rows = {role_of("log", window): table for window, table in results.items()}
    if not values:
        rows["quarantine"] = _together(rejected)
        rows["metrics"] = pa.Table.from_pylist([counts] if any(counts.values()) else [], schema=_COUNTS)
    said = {
        "state": _of_state(opened, stores),
        **{role: _of_table(opened, role, table) for role, table in rows.items()},
    }
    said = {role: what for role, what in said.items() if what is not _NO_TABLE}
    return Replay(
        job=opened.recorded.record.name,
        batch=opened.batch,
        key=opened.key,
        compared=tuple(role for role, what in said.items() if what is not _NOT_KEPT),
        not_compared=tuple(f"{role}, {_NOT_KEPT}" for role, what in said.items() if what is _NOT_KEPT),
        differences=tuple(f"{role}: {what}" for role, what in said.items() if what and what is not _NOT_KEPT),
        counts=counts,
        results=results.get(""),
        windows=results if spec.windows else {},
        groups=opened.groups,
        values=values,
    )


_NO_TABLE = "the job has no such table"
_NOT_KEPT = "as the commit of the batch is no longer kept"


def _of_state(opened: RecordedBatch, stores: Mapping[int, MemoryStore]) -> str | None:
    """Return where the state after the batch differs from the stored one; None: nowhere."""
    after = opened.after.stores
    for group in sorted({*stores, *after}):
        what = state_difference(after[group], stores.get(group, MemoryStore()))
        if what is not None:
            return f"key group {group}: {what}"
    return None


def _of_table(opened: RecordedBatch, role: str, rows: pa.Table) -> str | None:
    """Return where the rows differ from those that the batch has added to a table; None: nowhere."""
    if role not in read_tables(opened.folder):
        return _NO_TABLE
    try:
        added = rows_of_batches(opened.spark, opened.folder, opened.recorded.record, role, opened.batch, opened.batch)
    except (CheckpointError, RowsGone):
        return _NOT_KEPT
    recorded = _together([rows.schema.empty_table(), *(table for _, table in added)])
    return rows_difference(rows_of(recorded, opened.values) if has_results(role) else recorded, rows)


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([with_columns(table, tables[0].schema) for table in tables])
