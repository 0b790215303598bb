"""Puts quarantined rows through their windows again, and writes what that makes of closed panes.

    1  Hold the lease of the checkpoint: no job runs meanwhile, or starts. Nothing of a batch is left to be written.
    2  Which panes do the quarantined rows belong to? One that is not closed is left: later rows may still join it, and
       its next firing, from the state, would take the settlement back. It can be settled once it is closed.
    3  Compute each pane from all rows that the job has read, as if they had come in time (`panes.py`, `source.py`).
    4  Compare with the last result of the pane: in the view, or, if there is none, in the log. Where they are the same
       there is nothing to write. So whoever settles again writes nothing, and no list of settled rows has to be kept,
       which a restore of the tables would leave behind.
    5  The log: the new results are appended in one commit, as refinements with the reason SETTLED, under the
       transaction id "{job}@{checkpoint}#{epoch}#settled"; the version is one more than that of the settlement before.
    6  The view: the same rows are merged, under the same id, with versions of its own.

A kill before 5 leaves nothing. One between 5 and 6 leaves a log that is ahead of the view. What is computed then is
not in the view, and is the last result in the log: the next settlement merges that row, and appends none. That holds
after a restore, too, as it goes by the rows alone. A reset empties the view and not the log, so results from before it
count for the next number of a refinement only. A process that was paused at 5 or 6 while another one settled finds its
version taken, and one that was paused while the job was restored finds the id fenced off
(`framework/engine/sink/fencing.py`).

Of several windows each has steps 2 to 6 for itself: it has a log, and a view, of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import LATE, USER_ERROR
from panekeeper.framework.declarations.display import Part, Result, TextTable
from panekeeper.framework.declarations.errors import DeclarationError, IncompatibleCheckpoint, SinkError
from panekeeper.framework.engine.job.batch_journal import newest_by
from panekeeper.framework.engine.job.calendar_edges import stored_headers
from panekeeper.framework.engine.job.declaration_record import with_history
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.python_workers import prepare_workers
from panekeeper.framework.engine.session.settings import (
    READ_SETTINGS,
    format_of_state,
    session_of_its_own,
    session_settings,
)
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.library_table import FENCED
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.checkpoint import (
    current_folder,
    holding_current,
    require_current_record,
    require_stopped,
)
from panekeeper.recovery.jobs.recorded_rows import recorded_batches, require_job
from panekeeper.recovery.jobs.tables import require_own_tables
from panekeeper.recovery.rows_as_json import MORE
from panekeeper.recovery.settle.panes import (
    NewRows,
    Outcome,
    SettledPane,
    are_among,
    are_closed,
    pairs_of,
    require_supported,
    settled,
)
from panekeeper.recovery.settle.source import (
    last_results,
    quarantined_rows,
    results_of_all_rows,
)
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, checkpoint_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.job_record import JobRecord, last_batches, read_tables
from panekeeper.state.compatibility import as_recorded, compare_declarations
from panekeeper.state.history import in_force
from panekeeper.state.log import progress
from panekeeper.state.prepared import TableWrite, as_computed, is_recorded
from panekeeper.state.records import IntervalRecord
from panekeeper.state.store import WindowStore
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.flow.pipeline import Pipeline

REASONS = (LATE, USER_ERROR)
"""Reasons of the quarantine whose rows belong to panes."""


@dataclass(frozen=True, kw_only=True)
class Settlement(Result):
    """What a settlement has done, or would do.

    Attributes:
        checkpoint: of the job.
        job: its name.
        batch: the last batch, whose rows are the last ones that count.
        dry_run: nothing was written.
        panes: each partition and pane with quarantined rows, by the start of the pane.
        limit: how many of those with another result, or none yet, are shown, and are in the fields.
    """

    checkpoint: str
    job: str
    batch: int
    dry_run: bool
    panes: tuple[SettledPane, ...]
    limit: int = 100

    def _described(self) -> Iterator[Part]:
        words = {
            Outcome.SETTLED: "would be settled" if self.dry_run else "were settled",
            Outcome.UNCHANGED: "stay as they are",
            Outcome.OPEN: "are open, and wait until they are closed",
            Outcome.AHEAD: "are left, as they have rows that were ahead of the clock",
            Outcome.NO_ROWS: "are left, as the source has no row of them",
        }
        counts = ", ".join(f"{count} {words[outcome]}" for outcome, count in self.counts.items() if count)
        yield f"panes of job {self.job} with quarantined rows, as of batch {self.batch}: {counts or 'none'}"
        changed = self._changed
        if shown := changed[: self.limit]:
            rows = [pane.row() for pane in shown]
            yield TextTable.of(rows[0], [row.values() for row in rows])
            if len(changed) > self.limit:
                yield MORE

    @property
    def _changed(self) -> list[SettledPane]:
        return [pane for pane in self.panes if pane.outcome is not Outcome.UNCHANGED]

    @property
    def counts(self) -> dict[Outcome, int]:
        """Return how many panes have each outcome."""
        return {outcome: sum(pane.outcome is outcome for pane in self.panes) for outcome in Outcome}

    @property
    def is_complete(self) -> bool:
        """Whether the source has rows of each pane."""
        return not self.counts[Outcome.NO_ROWS]

    def fields(self) -> dict[str, Any]:
        """Return the settlement as JSON-able fields, as `panekeeper settle --json` prints it."""
        return {
            **{name: getattr(self, name) for name in ("checkpoint", "job", "batch", "dry_run")},
            "counts": {outcome.value: count for outcome, count in self.counts.items()},
            "panes": [pane.fields() for pane in self._changed[: self.limit]],
            "more": len(self._changed) > self.limit,
        }


def settle(
    checkpoint: Location,
    job: DeltaJob,
    *,
    since: int | str | datetime | None = None,
    reason: str | None = None,
    window: str | None = None,
    dry_run: bool = False,
    s3: S3Options | None = None,
) -> Settlement:
    """Put quarantined rows of a stopped job through their windows again, and correct the results of closed panes.

    The panes are computed anew from all rows that the job has read, which its source must still have. Each result that
    differs from the last one is appended to the log as a refinement with the reason SETTLED, and merged into the view.
    To run it twice adds nothing. After a kill the same call does the rest (docs/semantics.md section 20).

    Args:
        checkpoint: the folder of the job's checkpoint.
        job: the job as it is declared; its functions may have been corrected since.
        since: only rows that went to the quarantine in this batch or later (a number), or at this time or later (a
            datetime, or text in ISO 8601; UTC, if it names no zone). None: all rows.
        reason: only rows with this reason, "LATE" or "USER_ERROR". None: with either.
        window: of several windows, only this one. None: all of them.
        dry_run: only return what would be written.
        s3: how S3 is reached.

    Raises:
        DeclarationError: panes of this kind cannot be settled, or an argument is none of these.
        ForeignCheckpoint: it is the checkpoint of another job.
        IncompatibleCheckpoint: the job is not declared as it ran last.
        SavepointRefused: the job is running, or its last batch is not complete.
        RowsGone: the source no longer has the rows. Nothing was written.
        SinkError: a table does not fit the checkpoint.
    """
    windows = _chosen(job.pipeline.spec, window)
    _require_plain(job)
    if reason is not None and reason not in REASONS:
        raise DeclarationError(f"reason is {reason!r}; rows can be settled that were quarantined as LATE or USER_ERROR")
    from_when = read_since(since)
    root = checkpoint_at(checkpoint, s3)
    files = current_folder(root)
    record = require_current_record(files)
    with _stopped(root, files, record, dry_run=dry_run) as require_held:  # 1
        batch = _last_batch(files)
        pipeline = _pipeline(job, files, record, batch)
        tables, panes = read_tables(files), list[SettledPane]()
        require_own_tables(files, record, tables)
        spark = pipeline.intake.df.sparkSession
        prepare_workers(spark)
        with session_settings(spark, READ_SETTINGS):
            for name in windows:
                own = replace(pipeline, spec=pipeline.spec.parts[name])
                work = _Work(files=files, record=record, pipeline=own, window=name, tables=tables, batch=batch)
                settled_panes, rows = work.compute(job, (reason,) if reason else REASONS, from_when)  # 2 to 4
                panes += [replace(pane, window=name) for pane in settled_panes]
                if not dry_run:
                    work.write(rows, require_held)  # 5 and 6
    return Settlement(checkpoint=files.root, job=record.name, batch=batch, dry_run=dry_run, panes=tuple(panes))


def _chosen(spec: JobSpec, window: str | None) -> list[str]:
    """Return the windows to settle; the empty one is the only one. Raises `DeclarationError` if one cannot be."""
    if window is not None and window not in spec.windows:
        there = f"the windows of the job are {', '.join(spec.windows)}" if spec.windows else "the job has one window"
        raise DeclarationError(f"window is {window!r}; {there}")
    chosen = [*spec.parts] if window is None else [window]
    for name in chosen:
        try:
            require_supported(spec.parts[name])
        except DeclarationError as error:
            raise DeclarationError(f"window {name}: {error}" if name else str(error)) from None
    return chosen


def read_since(since: int | str | datetime | None) -> int | datetime | None:
    """Return a batch or a time; text is either. Raises `DeclarationError` for what is neither.

    >>> read_since("12"), read_since("2013-03-08T10:00")
    (12, datetime.datetime(2013, 3, 8, 10, 0))
    """
    if not isinstance(since, str):
        return since
    try:
        return int(since) if since.isdecimal() else datetime.fromisoformat(since)
    except ValueError:
        raise DeclarationError(
            f"since is {since!r}; give the number of a batch, or a time such as 2013-03-08T10:00:00Z"
        ) from None


def _require_plain(job: DeltaJob) -> None:
    """Raise `DeclarationError` for what the results of a settlement would not get to, or not be computed by."""
    intake = job.pipeline.intake
    if job.has_user_sink:
        raise DeclarationError(
            "the job has a sink of its own, which gets batches and would not get what is settled; write to that from "
            "the log by a job of its own"
        )
    if intake.has_marks or intake.by_file:
        raise DeclarationError("the job has marks in its stream, of which late rows cannot be settled")


@contextmanager
def _stopped(root: Files, files: Files, record: JobRecord, *, dry_run: bool) -> Iterator[Callable[[], None]]:
    """Let no job run, and yield what is called before each commit."""
    if dry_run:
        require_stopped(files)
        yield lambda: None
        return
    with holding_current(root, record, "the settlement of job") as lease:
        yield lease.require_held


def _last_batch(files: Files) -> int:
    """Return the last committed batch. Raises `SavepointRefused` unless all of it is in the tables."""
    record = require_current_record(files)
    begun, committed = last_batches(files)
    if begun != committed and is_recorded(files, record, begun):
        raise SavepointRefused(
            f"batch {begun} of {files.root} is not complete in the tables; start the job once, which completes it, and "
            "drain it"
        )
    if committed is None:
        raise SavepointRefused(f"no batch of {files.root} was committed yet, so there is nothing to settle")
    return committed


def _pipeline(job: DeltaJob, files: Files, record: JobRecord, batch: int) -> Pipeline:
    """Return the pipeline with the history of the job. Raises `CheckpointError` if it is another one."""
    require_job(record, job)
    known = replace(record, declaration=in_force(as_computed(files, record).declaration, batch))
    declared = as_recorded(job.pipeline.declaration(), job.pipeline.intake.key_groups or len(record.group_ids))
    changes = compare_declarations(known.declaration, declared)
    lines = [str(difference) for change in changes for difference in change.differences]
    if lines:
        raise IncompatibleCheckpoint(
            f"the job is not declared as it ran last on {files.root}:\n"
            + "".join(f"  {line}\n" for line in lines)
            + "Settle with that declaration; or start the job once with this one, if it can go on with it."
        )
    return with_history(job.pipeline, known)


@dataclass(frozen=True, kw_only=True)
class _Work:
    """A stopped job, or one of its windows, whose rows are settled."""

    files: Files
    record: JobRecord
    pipeline: Pipeline
    window: str
    tables: Mapping[str, str]
    batch: int
    opened: DeltaTables = field(default_factory=DeltaTables, repr=False)

    @property
    def spark(self) -> SparkSession:
        return self.pipeline.intake.df.sparkSession

    @property
    def spec(self) -> JobSpec:
        return self.pipeline.spec

    # Steps 2 to 4

    def compute(
        self, job: DeltaJob, reasons: tuple[str, ...], since: int | datetime | None
    ) -> tuple[list[SettledPane], NewRows]:
        """Return what becomes of each pane, and the rows that the tables are to get."""
        spec, keys = self.spec, PartitionKeys(self.spec.keys)
        nothing = spec.results_schema.empty_table()
        geometry = Geometry.of(require_supported(spec), spec.history)
        quarantine = self.tables["quarantine"]
        progress.info("reading the quarantine %s", quarantine)
        late, refused = quarantined_rows(self.spark, quarantine, self.pipeline, reasons, since, self.window)  # 2
        pairs = pairs_of(geometry, keys, late)
        if not len(pairs.panes):
            return [], NewRows(log=nothing, view=nothing)
        recorded = recorded_batches(self.files, replace(job, _pipeline=self.pipeline))
        watermark = recorded.watermark_ms(self.batch) * 1000 if self.pipeline.ports[0].uses_watermark_timer else None
        with format_of_state(self.spark):
            part = WindowStore.name_of(self.window) if self.window else ""
            bodies = [*stored_headers(CheckpointFiles(self.spark, self.files.place), part, self.batch)]
        closed = are_closed(geometry, pairs.panes, watermark, [*map(IntervalRecord.decode, bodies)])
        ahead = np.full(len(pairs.panes), False)
        if self.pipeline.intake.max_ahead_us is not None:  # else they count since
            ahead = are_among(pairs, pairs_of(geometry, keys, refused))
        waiting = {
            int(place): Outcome.AHEAD if closed[place] else Outcome.OPEN for place in np.flatnonzero(~closed | ahead)
        }
        chosen = pairs.only(closed & ~ahead)
        if len(chosen.panes):
            progress.info("computing %d panes from all rows up to batch %d", len(chosen.panes), self.batch)
        after = results_of_all_rows(recorded, self.pipeline, keys, chosen) if len(chosen.panes) else nothing  # 3
        paths = [self.tables[role] for kind in ("log", "view") if (role := role_of(kind, self.window)) in self.tables]
        progress.info("reading the last results in %s", " and ".join(paths))
        log, *view = last_results(self.spark, paths, spec, keys, pairs)
        return settled(spec, keys, pairs, waiting, log, view[0] if view else None, after)  # 4

    # Steps 5 and 6

    def write(self, rows: NewRows, require_held: Callable[[], None]) -> None:
        """Write results to the log, and to the view, if there is one."""
        if rows.log.num_rows:
            progress.info("writing %d results", rows.log.num_rows)
            write = self._write_of(role_of("log", self.window))
            require_held()
            fault_point("during-settlement", 1, write.path)
            with session_of_its_own(self.spark) as spark:
                self.opened.append(spark, rows.log, write, write.after + 1, job=self.record.id)  # 5
            fault_point("during-settlement", 2, write.path)
        if (view := role_of("view", self.window)) in self.tables and rows.view.num_rows:
            write = replace(self._write_of(view), **newest_by(self.spec))
            require_held()
            with session_of_its_own(self.spark) as spark:
                self.opened.merge(spark, rows.view, write, write.after + 1)  # 6
            fault_point("during-settlement", 3, write.path)

    def _write_of(self, role: str) -> TableWrite:
        path = self.tables[role]
        table = self.opened.read(self.spark, path)
        done = table.last_transaction(self.record.settlement)
        if done >= FENCED:
            raise SinkError(
                f"the {role} {path} takes no settlement of this epoch any more: the job was restored or reset "
                "meanwhile. Nothing was written; settle again"
            )
        return TableWrite(
            role=role,
            path=path,
            table=table.id,
            transaction=self.record.settlement,
            after=done,
            rows="results",
        )
