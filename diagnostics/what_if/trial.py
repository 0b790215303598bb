"""`try_job`: another declaration over the batches that a job has run, beside what it has written.

The rows are read again by the offsets of the batches, with their times and commands. They go through the windows in
memory, or on Spark (`on_spark.py`), from the state that the job had before the first of them, if it fits the
declaration, else from nothing. The job may run meanwhile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.diagnostics.replay.recorded_results import stored_groups
from panekeeper.diagnostics.tables.written import files_of_batches, frame_of_files, rows_of_batches, table_path
from panekeeper.diagnostics.what_if import on_spark
from panekeeper.diagnostics.what_if.comparison import Compared, Comparison, Difference, Produced, Run, Shape, Written
from panekeeper.diagnostics.what_if.options import with_options
from panekeeper.diagnostics.what_if.recorded_input import RecordedTables, read_tables_of
from panekeeper.diagnostics.what_if.rehearsal import COUNTS, Beginning, Rehearsal, Start
from panekeeper.framework.declarations.display import Part, Result, TextTable, format_number, printable
from panekeeper.framework.declarations.durations import Duration
from panekeeper.framework.declarations.errors import CheckpointError, DeclarationError
from panekeeper.framework.engine.job.declaration_record import upgraded_record, with_history
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.jobs.recorded_rows import RecordedBatches, recorded_batches
from panekeeper.recovery.rows_as_json import MORE, as_fields
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.savepoint.checkpoint_copy import temporary_copy
from panekeeper.recovery.storage.files import Files, LocalFiles
from panekeeper.recovery.storage.locations import Location, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, CheckpointFolder, batch_numbers
from panekeeper.state.checkpoint.job_record import JobRecord, read_ports
from panekeeper.state.compatibility import Compatibility, as_recorded, compare_declarations
from panekeeper.state.duration_text import duration_text, us_text
from panekeeper.state.history import BEFORE, in_force
from panekeeper.state.log import progress
from panekeeper.state.store import MemoryStore
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.flow.pipeline import Pipeline

BATCHES = 100
"""So many of the last batches are tried, if nothing else is said."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """What came out of some batches.

    Attributes:
        results: rows of the log.
        refinements: those of them that replace an earlier one.
        delay_us: by how far event time was past the end of a pane when its first result on completion came: the least,
            the median and the greatest; None without such results.
    """

    results: int
    refinements: int
    delay_us: tuple[int, int, int] | None

    @property
    def delay_text(self) -> str:
        """The least, the median and the greatest delay, as `1m, median 1m 30s, up to 2h`."""
        if self.delay_us is None:
            return "none"
        least, median, greatest = (duration_text(us / 1_000_000) for us in self.delay_us)
        return f"{least}, median {median}, up to {greatest}"

    @classmethod
    def of(cls, produced: Produced) -> Results:
        """Return what a run has written."""
        return cls(**_figures(produced))


@dataclass(frozen=True, kw_only=True)
class Figures(Results):
    """What came of the rows of some batches.

    Attributes:
        rows: how many came in.
        refined_late: how many came after their pane had fired, and are in a refinement.
        dropped_late: how many came after all their panes were closed, and are in no result.
        quarantined: how many were bad, and so refused by the intake.
    """

    rows: int
    refined_late: int
    dropped_late: int
    quarantined: int

    @property
    def late(self) -> int:
        """How many rows were late: refined results, or were dropped."""
        return self.refined_late + self.dropped_late


@dataclass(frozen=True, kw_only=True)
class TriedWindow:
    """One of several windows: its results as recorded, as tried, and how they compare."""

    recorded: Results
    tried: Results
    results: Comparison


@dataclass(frozen=True, kw_only=True)
class Trial(Result):
    """A declaration that was tried over batches of a job.

    Attributes:
        job: the name of the job.
        first: the first batch.
        last: the last batch.
        changes: what is declared otherwise than the job has recorded, in words.
        begins: what it began with.
        recorded: what the job has done; of several windows, the results of all.
        tried: what it would have done.
        results: how the results of both compare; of several windows, how often in all of them.
        windows: each of several windows by its name; empty for a job with one.
    """

    job: str
    first: int
    last: int
    changes: tuple[str, ...]
    begins: str
    recorded: Figures
    tried: Figures
    results: Comparison
    windows: Mapping[str, TriedWindow] = field(default_factory=dict)

    def _described(self) -> Iterator[Part]:
        yield f"job {self.job}, batches {self.first} to {self.last}, from {self.begins}"
        yield from (f"  {change}" for change in self.changes or ("declared as recorded",))
        yield from _compared(self, has_all=bool(self.windows))  # of several windows each has its own
        for name, window in self.windows.items():
            yield f"window {name}"
            yield from _compared(window)

    @property
    def is_same(self) -> bool:
        """Whether no result differs that both must have by now."""
        return not self.results.differs

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields, as `panekeeper try --json` prints them."""
        fields = {
            **{name: getattr(self, name) for name in ("job", "first", "last", "begins", "is_same")},
            "changes": [*self.changes],
            **_compared_fields(self),
        }
        if self.windows:
            fields["windows"] = {name: _compared_fields(window) for name, window in self.windows.items()}
        return fields


def _compared_fields(trial: Trial | TriedWindow) -> dict[str, Any]:
    results = trial.results
    return {
        "recorded": figures_fields(trial.recorded),
        "tried": figures_fields(trial.tried),
        "results": results.counts(),
        "columns": {"recorded": [*results.columns_before], "tried": [*results.columns_after]},
        "differences": [
            {
                "place": as_fields(dict(difference.place)),
                "recorded": None if difference.before is None else as_fields(dict(difference.before)),
                "tried": None if difference.after is None else as_fields(dict(difference.after)),
            }
            for difference in results.first
        ],
    }


_FIGURES = {
    "rows": "rows",
    "quarantined": "bad",
    "refined_late": "late, in a refinement",
    "dropped_late": "too late",
    "results": "results",
    "refinements": "refinements",
}
_COUNTS = {
    "same": "the same",
    "changed": "changed",
    "only_before": "only recorded",
    "only_after": "only tried",
    "open_before": "not yet recorded",
    "open_after": "not yet tried",
}


def _compared(trial: Trial | TriedWindow, *, has_all: bool = False) -> Iterator[Part]:
    """Yield the figures side by side, and which results differ."""
    sides, results = (trial.recorded, trial.tried), trial.results
    rows = [
        (text, *(format_number(getattr(side, name)) for side in sides))
        for name, text in _FIGURES.items()
        if hasattr(trial.tried, name)
    ]
    yield TextTable.of(("", "recorded", "tried"), [*rows, ("delay of results", *(side.delay_text for side in sides))])
    counts = ", ".join(f"{count:,} {_COUNTS[name]}" for name, count in results.counts().items() if count)
    yield f"newest results: {counts or 'none'}"
    for side, names in (("recorded", results.columns_before), ("tried", results.columns_after)):
        yield from (f"  column {name}: only {side}, not compared" for name in names)
    yield from (printable(f"  {_difference_text(different)}") for different in results.first)
    if results.changed + results.only_before + results.only_after > len(results.first) and not has_all:
        yield f"  {MORE}"


def _difference_text(difference: Difference) -> str:
    bounds, place = ("pane_start", "pane_end"), as_fields(dict(difference.place))
    shown = [f"{name}={value}" for name, value in place.items() if name not in bounds]
    if "pane_start" in place:
        shown.append("/".join(str(place[name]) for name in bounds))
    before, after = (None if side is None else as_fields(dict(side)) for side in (difference.before, difference.after))
    if before is None or after is None:
        values, side = (after, "only tried") if before is None else (before, "only recorded")
        return f"{' '.join([*shown, side])}: {', '.join(f'{name} {value}' for name, value in (values or {}).items())}"
    return f"{' '.join(shown)}: {', '.join(f'{name} {value} -> {after[name]}' for name, value in before.items())}"


def figures_fields(figures: Results) -> dict[str, Any]:
    """Return figures as JSON-able fields; delays in seconds."""
    fields: dict[str, Any] = {name: value for name, value in vars(figures).items() if name != "delay_us"}
    delays = figures.delay_us or (None, None, None)
    seconds = (None if us is None else us / 1_000_000 for us in delays)
    return fields | {"delay": dict(zip(("least", "median", "greatest"), seconds, strict=True))}


def try_job(  # noqa: PLR0913 -- all by keyword but what is tried on
    checkpoint: Location,
    job: DeltaJob,
    *,
    watermark: Duration | None = None,
    discard_age: Duration | None = None,
    batches: int = BATCHES,
    savepoint: str | None = None,
    limit: int = 10,
    scratch: Location | None = None,
    s3: S3Options | None = None,
) -> Trial:
    """Try a declaration over what a job has read, beside what it has written. Nothing of the job is changed.

    Args:
        checkpoint: the job's checkpoint, which may run meanwhile; with `savepoint`, the location of the savepoints.
        job: the declaration to try, as `to_delta` returns it: the job's own, or a changed one.
        watermark: another watermark delay than the declared one.
        discard_age: another discard age.
        batches: how many of the last batches, as far as Spark keeps their offsets.
        savepoint: the name of a savepoint, whose last batches are tried.
        limit: how many results that differ are named; of several windows, in each.
        scratch: run on Spark, with rows and results in this new folder meanwhile, which executors must reach. Not
            given: in memory, where a batch of rows, the state and the results must fit.
        s3: how S3 is reached.

    Raises:
        CheckpointError: it is no checkpoint of this job, no batch is committed, or what is needed is not kept.
        SavepointError: the savepoint cannot be read.
        DeclarationError: the options do not fit the windows; or the stream has an operator with state of Spark's.
        RowsGone: the source no longer has the rows, or the log not the results.
        Exception: what an operator or an aggregate of the job raises.
    """
    with opened_recording(checkpoint, job, batches=batches, savepoint=savepoint, s3=s3) as recording:
        changed = with_options(job, watermark=watermark, discard_age=discard_age)
        start = recording.start(changed.pipeline)
        if scratch is not None:
            return recording.tried_on_spark(start, scratch, limit=limit)
        return recording.tried(start, recording.read(start), limit=limit)


@contextmanager
def opened_recording(
    place: Location, job: DeltaJob, *, batches: int, savepoint: str | None, s3: S3Options | None
) -> Iterator[Recording]:
    """Provide what a job has read and written in its last batches. Raises as `try_job`."""
    if batches < 1:
        raise DeclarationError(f"batches is {batches}; it must be 1 or more")
    with _folder_of(place, savepoint, s3) as folder, tempfile.TemporaryDirectory(prefix="panekeeper-try-") as scratch:
        recorded = recorded_batches(folder, job)
        first = _first_batch(folder, recorded.record, recorded, batches)
        yield Recording(folder=folder, record=recorded.record, recorded=recorded, first=first, scratch=Path(scratch))


@contextmanager
def _folder_of(place: Location, savepoint: str | None, s3: S3Options | None) -> Iterator[Files]:
    """Provide the folder of the current epoch of a checkpoint, or a copy of a savepoint."""
    if savepoint is None:
        yield current_folder(checkpoint_at(place, s3))
        return
    archive = open_archive(place, s3)
    with temporary_copy(archive, show_trusted(archive, savepoint)) as folder:
        yield LocalFiles(Path(folder), s3=s3 or S3Options())


def _first_batch(folder: CheckpointFolder, record: JobRecord, recorded: RecordedBatches, batches: int) -> int:
    """Return the first batch to try: its rows are known by themselves, and so is the state before it.

    A state from before the last change of the declaration is not that of the recorded one.
    """
    changed = record.declaration.get(BEFORE)
    last_before = None if changed is None else changed["batch"]
    committed = batch_numbers(folder, COMMITS_FOLDER)
    kept = 0 if committed[0] == 0 else committed[0] + 1
    first = max(recorded.first, recorded.last - batches + 1, kept, 0 if last_before is None else last_before + 1)
    if first > recorded.last:
        raise CheckpointError(
            f"no batch of {folder.root} was committed since its declaration has changed; try it when one was"
        )
    return first


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a job has read and written in some batches. Made by `opened_recording`.

    Attributes:
        folder: the checkpoint, the folder of its epoch.
        record: which job it is of.
        recorded: its batches.
        first: the first one to try.
        scratch: a folder for the rows.
    """

    folder: Files
    record: JobRecord
    recorded: RecordedBatches
    first: int
    scratch: Path

    @property
    def spark(self) -> SparkSession:
        """The session that reads."""
        return self.recorded.pipeline.intake.df.sparkSession

    @property
    def last(self) -> int:
        """The last batch."""
        return self.recorded.last

    @cached_property
    def counts(self) -> dict[str, int]:
        """Where the rows of these batches went."""
        metrics = self._metrics().where(F.col("batch") >= self.first)
        (row,) = metrics.select(*(F.sum(name).alias(name) for name in COUNTS)).collect()
        return {name: int(row[name] or 0) for name in COUNTS}

    def written(self, window: str) -> Written:
        """Return the rows of the log of a window of these batches."""
        return rows_of_batches(self.spark, self.folder, self.record, role_of("log", window), self.first, self.last)

    def start(self, pipeline: Pipeline) -> Start:
        """Return what a computation begins with: the state before the first batch, if that fits it."""
        recorded, before = self.record.declaration, self.first - 1
        declared = as_recorded(pipeline.declaration(), pipeline.intake.key_groups or len(self.record.group_ids))
        words = [
            str(difference) for change in compare_declarations(recorded, declared) for difference in change.differences
        ]
        changes = (*words, *self._changed_delays(pipeline))
        latest_us, begins = self._latest_before(pipeline), "the beginning"
        if self.first:
            compared = compare_declarations(in_force(recorded, before), declared)
            if all(change.compatibility is Compatibility.COMPATIBLE for change in compared):
                known = upgraded_record(CheckpointFiles(self.spark, self.folder.place), self.record, declared, before)
                return Start(
                    pipeline=with_history(pipeline, known),
                    before=before,
                    latest_us=latest_us,
                    watermark_us=self.recorded.watermark_ms(before) * 1000 or None,
                    changes=changes,
                    begins=f"the state after batch {before}",
                )
            begins = "nothing, as the state of the job does not fit the declaration: first results lack earlier rows"
        return Start(pipeline=pipeline, latest_us=latest_us, changes=changes, begins=begins)

    def beginning(self, start: Start) -> Beginning:
        """Return what is stored when a computation begins in memory; of nothing, in one key group."""
        if start.before is None:
            return Beginning(stores={0: MemoryStore()}, latest_us=start.latest_us)
        stored, _ = stored_groups(self.spark, self.folder.place, start.before + 1)
        stores = {group: stored.stores[group] for group in self.record.group_ids}
        return Beginning(stores=stores, latest_us=start.latest_us, watermark_us=start.watermark_us)

    def read(self, start: Start) -> RecordedTables:
        """Return what the batches have read, checked as a computation says."""
        ids = (0,) if start.before is None else self.record.group_ids
        return read_tables_of(self.recorded, start.pipeline, ids, first=self.first, folder=self.scratch)

    def rehearse(self, start: Start, given: RecordedTables) -> Rehearsal:
        """Return what comes of the batches in memory."""
        beginning = self.beginning(start)
        ids = tuple(beginning.stores)
        packers = (port.checked(ids, None, quarantines=True)[1] for port in start.pipeline.ports)
        progress.info("running batches %d to %d in memory", self.first, self.last)
        rehearsal = Rehearsal(start.pipeline, tuple(packers), beginning)
        for batch in given:
            rehearsal.rehearse(batch)
        return rehearsal

    def tried(self, start: Start, given: RecordedTables, *, limit: int) -> Trial:
        """Run a computation over what the batches have read, and compare it with what the job has written."""
        rehearsal, latest = self.rehearse(start, given), given.latest(start.latest_us)
        compared = {}
        for window, spec in start.pipeline.spec.parts.items():
            before = Run(written=self.written(window), watermark_us=self.reached_us, is_flushed=given.is_flushed)
            after = replace(before, written=rehearsal.results[window], watermark_us=rehearsal.reached_us)
            compared[window] = Compared.of(before, after, Shape.of(spec), latest, limit=limit)
        return self._trial(start, compared, rehearsal.counts)

    def tried_on_spark(self, start: Start, scratch: Location, *, limit: int) -> Trial:
        """Do so on Spark, with rows and results in a new folder, which is removed."""
        with on_spark.new_folder(scratch, self.folder.s3) as folder:
            given = on_spark.read_packed(self.recorded, start, first=self.first, folder=folder)
            counts, watermark_us = on_spark.rehearse(self.recorded, start, given, folder=folder)
            before = Run(written=[], watermark_us=self.reached_us, is_flushed=given.is_flushed)
            runs, latest = (before, replace(before, watermark_us=watermark_us)), given.latest(start.latest_us)
            compared = {}
            for window, spec in start.pipeline.spec.parts.items():
                role = role_of("log", window)
                files = files_of_batches(self.folder, self.record, role, self.first, self.last)
                recorded = frame_of_files(self.spark, table_path(self.folder, role), files)
                logs = recorded, on_spark.log_of(self.spark, folder, window, spec)
                compared[window] = on_spark.compared(logs, runs, spec, latest, limit=limit)
            return self._trial(start, compared, counts)

    def _trial(self, start: Start, compared: Mapping[str, Compared], counts: Mapping[str, int]) -> Trial:
        windows, every = {}, compared.get("") or Compared.together([*compared.values()], limit=0)
        if "" not in compared:
            windows = {
                name: TriedWindow(recorded=Results.of(runs.before), tried=Results.of(runs.after), results=runs.results)
                for name, runs in compared.items()
            }
        return Trial(
            job=self.record.name,
            first=self.first,
            last=self.last,
            changes=start.changes,
            begins=start.begins,
            recorded=figures_of(self.counts, every.before),
            tried=figures_of(counts, every.after),
            results=every.results,
            windows=windows,
        )

    @cached_property
    def delays_us(self) -> list[int]:
        """The watermark delay of each port at the last start, us; none if it is not recorded."""
        return [port.watermark_us for port in read_ports(self.folder)]

    def _metrics(self) -> DataFrame:
        """Return the metrics until the last batch."""
        metrics = self.spark.read.format("delta").load(table_path(self.folder, "metrics"))
        return metrics.where(F.col("batch") <= self.last)

    def _changed_delays(self, pipeline: Pipeline) -> Iterator[str]:
        for number, (port, was) in enumerate(zip(pipeline.ports, self.delays_us, strict=False)):
            if port.spec.uses_event_time and port.intake.watermark_us != was:
                name = "watermark" if len(pipeline.ports) == 1 else f"port_{number} watermark"
                yield f"{name}: {us_text(was)} at the last start, {us_text(port.intake.watermark_us)} now"

    def _latest_before(self, pipeline: Pipeline) -> int | None:
        """Return the greatest event time that Spark had seen before the first batch, us; None: none, or not known."""
        if not pipeline.uses_watermark_timer or not self.first:
            return None
        delay_us = self.delays_us[0] if self.delays_us else pipeline.intake.watermark_us
        watermark_ms = self.recorded.watermark_ms(self.first)
        return (watermark_ms - -delay_us // 1000) * 1000 if watermark_ms else None

    @cached_property
    def reached_us(self) -> int | None:
        """The watermark that the job has reached in the last batch, us."""
        if self.recorded.pipeline.uses_watermark_timer:
            return self.recorded.watermark_ms(self.last) * 1000 or None
        reached: int | None = self._metrics().select(F.unix_micros(F.max("watermark"))).collect()[0][0]
        return reached


def figures_of(counts: Mapping[str, int], produced: Produced) -> Figures:
    """Return what came of the rows of a run."""
    return Figures(
        rows=counts["rows_in"],
        refined_late=counts["refined_late"],
        dropped_late=counts["dropped_late"],
        quarantined=counts["quarantined"],
        **_figures(produced),
    )


def produced(spec: JobSpec, logs: Mapping[str, Written], latest: Mapping[int, int | None]) -> Produced:
    """Return what is in the logs of all windows; `latest` as `delays_us` takes it."""
    return Produced.together(
        [Produced.of(Run(written=logs[name]), latest, Shape.of(part)) for name, part in spec.parts.items()]
    )


def _figures(produced: Produced) -> dict[str, Any]:
    delays = np.sort(produced.delays_us)
    return {
        "results": produced.results,
        "refinements": produced.refinements,
        "delay_us": (int(delays[0]), int(delays[(len(delays) - 1) // 2]), int(delays[-1])) if len(delays) else None,
    }
