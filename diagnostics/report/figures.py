"""What a report shows: the figures of the last batches and panes of a job, read from its tables and its checkpoint.

All but the panes that have not fired yet is read without Spark. A table that cannot be read is left out, with a note.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.tables.rows import FILE, newest_rows, us_of
from panekeeper.diagnostics.tables.written import commits_of
from panekeeper.framework.core.job_spec import WINDOW
from panekeeper.framework.declarations.errors import DeclarationError, PanekeeperError
from panekeeper.framework.engine.sink.batch_output import ROW_COUNT_COLUMNS
from panekeeper.framework.engine.sink.gone_tables import is_gone
from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.recovery.drill import DRILL_COLUMNS, DrillResult, Drills
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.jobs.status import JobStatus, status
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import table_at
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.job_record import read_record, read_tables
from panekeeper.state.history import declarations_by_window
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPEN, FIRED, REFINED, CLOSED = "open", "fired", "refined", "closed"
"""A pane has not fired; has fired once; more often; or takes no more rows."""
OUTCOMES = ROW_COUNT_COLUMNS[1:]
MOST_PANES = 150
_MOST_ROWS = 200_000
_MOST_OUTAGES = 20
_MICRO = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One row of the metrics. Times in us since the epoch.

    Attributes:
        number: of the batch.
        at: when it began.
        rows: outcome -> rows.
        watermark: after it.
        open_panes: after it.
        state_bytes: size of the state on disk before it.
        firings: rows of the log.
        missed_panes: how often a row that was kept came too late for one of its panes.
        plan_seconds: how long windows and state took.
        tables_seconds: how long record and commits took; None if the commit is not in the log of the metrics, or the
            next start made it.
    """

    number: int
    at: int
    rows: Mapping[str, int]
    watermark: int | None
    open_panes: int | None
    state_bytes: int | None
    firings: int
    missed_panes: int
    plan_seconds: float
    tables_seconds: float | None

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return self.plan_seconds + (self.tables_seconds or 0)


@dataclass(frozen=True, kw_only=True)
class PaneLife:
    """What became of a pane, or session, of all partitions together. Times in us.

    Attributes:
        start: the first instant.
        end: the first instant after it.
        state: one of the four above.
        partitions: how many have fired, or of one that has not, have rows.
        firings: rows of the log.
        refinements: how often the partition that fired most often has fired again.
        first: the batch in which it fired first; None if that is not known.
        last: the batch in which it fired last.
        window: which of several windows it is of; empty: of the only one.
    """

    start: int
    end: int
    state: str
    partitions: int
    firings: int = 0
    refinements: int = 0
    first: int | None = None
    last: int | None = None
    window: str = ""


@dataclass(frozen=True, kw_only=True)
class Outage:
    """One row of the downtime table; times in us."""

    batch: int
    stopped: int
    started: int
    clean: bool
    timers_overdue: int
    results: int


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What is in the quarantine for one reason; `at` is when the last of it came, us."""

    reason: str
    rows: int
    at: int | None
    detail: str | None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a report shows.

    Attributes:
        status: how the job is.
        now: when the report was made, us.
        batches: from the first to the last.
        panes: by their ends; the last `MOST_PANES` of each window.
        windows: the names of several windows; the empty one if there is only one.
        outages: from the first to the last.
        refusals: the reason with most rows first.
        late_seconds: how far behind the watermark each row was that was dropped.
        firings: reason -> rows of the log.
        notes: what is not shown, and why.
        drills: the last drill, if it is given.
    """

    status: JobStatus
    now: int
    batches: list[Batch] = field(default_factory=list)
    panes: list[PaneLife] = field(default_factory=list)
    windows: Sequence[str] = ("",)
    outages: list[Outage] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    late_seconds: list[float] = field(default_factory=list)
    firings: Mapping[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    drills: Drills | None = None


class _Tables:
    """The tables of a job; notes which of them cannot be read."""

    def __init__(self, folder: Files) -> None:
        record = read_record(folder)
        self.job = "" if record is None else record.name
        self.notes: list[str] = []
        self._paths, self._s3 = read_tables(folder), folder.s3

    def rows(self, role: str, columns: Iterable[str], most: int) -> tuple[pa.Table | None, bool]:
        """Return the newest rows of a table, and whether there are others; None if it cannot be read."""
        if role not in self._paths:
            return None, False
        try:
            if is_gone(table := table_at(path := self._paths[role], self._s3)):
                self.notes.append(f"The {role} {path} is gone; `panekeeper status CHECKPOINT` says what to do.")
                return None, False
            return newest_rows(table, [*columns], most=most)
        except (UnsupportedTable, PanekeeperError) as error:
            self.notes.append(f"The {role} cannot be read without Spark: {error}")
            return None, False

    def commits(self, role: str, most: int) -> tuple[dict[int, int], dict[str, int]]:
        """Return what `commits_of` does; nothing if the log of the table cannot be read."""
        try:
            return commits_of(table_at(self._paths[role], self._s3), self.job, most=most)
        except (KeyError, PanekeeperError):
            return {}, {}


def read_figures(root: Files, *, batches: int, now: int | None = None) -> Figures:
    """Return the figures of the last `batches` batches of the job of a checkpoint."""
    now = now_us() if now is None else now
    job_status = status(root, now=lambda: now)
    tables = _Tables(folder := current_folder(root))
    outages = _outages(tables)
    ran, is_cut = _batches(tables, batches, outages)
    if is_cut:
        tables.notes.append(f"The last {len(ran):,} batches are shown.")
    if job_status.is_interrupted:
        tables.notes.append(
            f"Batch {job_status.last_offset:,} had begun: what its tables have of it by now is here, and the next "
            "start completes it."
        )
    marks = {batch.number: batch.watermark for batch in ran}
    refusals, late = _refused(tables, marks)
    record = read_record(folder)
    declared = {"": {}} if record is None else declarations_by_window(record.declaration)
    panes, firings = list[PaneLife](), Counter[str]()
    for window, fields in declared.items():
        closed_at = None if not ran else ran[-1].watermark
        if closed_at is not None:
            closed_at -= max((age for name, age in fields.items() if name.endswith("discard_age_us")), default=0)
        if job_status.state == "flushed":
            closed_at = max(now, closed_at or 0)
        lives, reasons = _fired(tables, window, closed_at, most=4 * batches)
        panes += lives
        firings.update(reasons)
    return Figures(
        status=job_status,
        now=now,
        batches=ran,
        panes=_last_panes(panes, tables.notes),
        windows=[*declared],
        outages=[outage for outage in outages if not ran or outage.started >= ran[0].at][-_MOST_OUTAGES:],
        refusals=refusals,
        late_seconds=late,
        firings=firings,
        notes=tables.notes,
    )


def read_drills(path: str | os.PathLike[str], job: str | None) -> Drills:
    """Return what `panekeeper drill --json` has printed to a file. Raises `DeclarationError` if it is not of this job.

    Raises `OSError` if the file cannot be read.
    """
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
        results = [DrillResult(**{name: result[name] for name in DRILL_COLUMNS}) for result in value["results"]]
        drills = Drills(job=value["job"], at=str(value["at"]), results=results)
    except (ValueError, LookupError, TypeError) as error:
        raise DeclarationError(
            f"{os.fspath(path)} is not what a drill has printed ({error}); give the file that `panekeeper drill --job "
            "JOB.PY --json` was written to"
        ) from error
    if drills.job != job:
        raise DeclarationError(f"{os.fspath(path)} is of drills of job {drills.job!r}, and this is job {job!r}")
    return drills


def with_open_panes(figures: Figures, opened: pa.Table | DataFrame) -> Figures:
    """Return figures with the panes, or sessions, that have not fired, of the rows of the inspector (`open_panes`)."""
    several = [WINDOW] if figures.windows != [""] else []
    panes = _newest_panes(opened, [*several, "pane_start", "pane_end"], most=2 * MOST_PANES * len(figures.windows))
    known, notes = {(pane.window, pane.start, pane.end) for pane in figures.panes}, [*figures.notes]
    edges = (_us(panes, name) for name in ("pane_start", "pane_end"))
    windows = panes.column(WINDOW).to_pylist() if several else [""] * panes.num_rows
    new = [
        PaneLife(
            start=start,
            end=end,
            state=REFINED if firings > 1 else FIRED if firings else OPEN,
            partitions=n,
            window=window,
        )
        for window, start, end, n, firings in zip(windows, *edges, *_values(panes, "n", "firings"), strict=True)
        if (window, start, end) not in known
    ]
    return replace(figures, panes=_last_panes([*figures.panes, *new], notes), notes=notes)


def _newest_panes(opened: pa.Table | DataFrame, by: list[str], *, most: int) -> pa.Table:
    """Return of how many partitions each of the panes is that end last, and the greatest number of their firings."""
    if isinstance(opened, pa.Table):
        counted = opened.append_column("n", pa.array([1] * opened.num_rows, pa.int64()))
        panes = counted.group_by(by).aggregate([("n", "sum"), ("firings", "max")])
        panes = panes.rename_columns([*by, "n", "firings"]).sort_by([("pane_end", "descending")])
        return panes.slice(0, most)
    from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

    of_pane = opened.groupBy(*by).agg(F.count("*").alias("n"), F.max("firings").alias("firings"))
    return of_pane.orderBy(F.desc("pane_end")).limit(most).toArrow()


def _last_panes(panes: list[PaneLife], notes: list[str]) -> list[PaneLife]:
    kept = []
    for window in dict.fromkeys(pane.window for pane in panes):
        own = sorted((pane for pane in panes if pane.window == window), key=lambda pane: (pane.end, pane.start))
        if len(own) > MOST_PANES:
            note = f"The last {MOST_PANES} panes{f' of {window}' if window else ''} are shown."
            notes += [] if note in notes else [note]
        kept += own[-MOST_PANES:]
    return kept


def _batches(tables: _Tables, most: int, outages: list[Outage]) -> tuple[list[Batch], bool]:
    numbers = ("open_panes", "state_bytes", "firings", "missed_panes", "seconds")
    names = ("batch", "batch_time", *OUTCOMES, "watermark", *numbers)
    metrics, is_cut = tables.rows("metrics", names, most)
    if metrics is None:
        return [], False
    written, _ = tables.commits("metrics", most)
    ran = []
    for row, at, mark in zip(metrics.to_pylist(), _us(metrics, "batch_time"), _us(metrics, "watermark"), strict=True):
        number, seconds = row["batch"], row["seconds"] or 0.0
        done = written.get(number)
        if done is not None and any(at < outage.started and done > outage.stopped for outage in outages):
            done = None  # the next start has completed the batch
        rest = None if done is None else (done - at) / _MICRO - seconds
        ran.append(
            Batch(
                number=number,
                at=at,
                rows={name: row[name] or 0 for name in OUTCOMES if name in row},
                watermark=mark,
                open_panes=row["open_panes"],
                state_bytes=row.get("state_bytes"),
                firings=row["firings"] or 0,
                missed_panes=row.get("missed_panes") or 0,
                plan_seconds=seconds,
                tables_seconds=None if rest is None else max(0.0, rest),
            )
        )
    ran.sort(key=lambda batch: (batch.at, batch.number))
    return ran[-most:], is_cut or len(ran) > most


def _fired(tables: _Tables, window: str, closed_at: int | None, *, most: int) -> tuple[list[PaneLife], dict[str, int]]:
    """Return the panes that the newest rows of the log of a window are of, and how many rows there are by reason."""
    role = role_of("log", window)
    bounds = [f"{kind}_{edge}" for kind in ("pane", "session") for edge in ("start", "end")]
    log, is_cut = tables.rows(role, (*bounds, "refinement", "op", "reason"), _MOST_ROWS)
    if log is None or not log.num_rows:
        return [], {}
    if is_cut:
        tables.notes.append(f"Of the {role} the newest {log.num_rows:,} rows were read.")
    reasons = {counted["values"]: counted["counts"] for counted in log.column("reason").value_counts().to_pylist()}
    if "op" in log.column_names:
        log = log.filter(pc.fill_null(pc.not_equal(log.column("op"), -1), True))
    panes = []
    _, batches = tables.commits(role, most)
    for kind in ("pane", "session"):
        if f"{kind}_start" in log.column_names:
            panes += _lives(log.filter(pc.is_valid(log.column(f"{kind}_start"))), kind, batches, closed_at)
    return [replace(pane, window=window) for pane in panes], reasons


def _lives(log: pa.Table, kind: str, batches: Mapping[str, int], closed_at: int | None) -> list[PaneLife]:
    files = log.column(FILE).combine_chunks()
    numbers = pa.array([batches.get(file) for file in files.dictionary.to_pylist()], pa.int64()).take(files.indices)
    is_first = pc.cast(pc.equal(log.column("refinement"), 0), pa.int64())
    table = pa.table(
        {
            **{edge: us_of(log.column(f"{kind}_{edge}")) for edge in ("start", "end")},
            "refinement": log.column("refinement"),
            "first": is_first,
            "batch": numbers,
        }
    )
    sums = [("refinement", "max"), ("refinement", "count"), ("first", "sum"), ("batch", "min"), ("batch", "max")]
    return [
        PaneLife(
            start=pane["start"],
            end=pane["end"],
            state=_state(pane["end"], pane["refinement_max"], closed_at),
            partitions=max(1, pane["first_sum"] or 0),
            firings=pane["refinement_count"],
            refinements=pane["refinement_max"] or 0,
            first=pane["batch_min"],
            last=pane["batch_max"],
        )
        for pane in table.group_by(["start", "end"]).aggregate(sums).to_pylist()
    ]


def _state(end: int, refinements: int | None, closed_at: int | None) -> str:
    if closed_at is not None and end <= closed_at:
        return CLOSED
    return REFINED if refinements else FIRED


def _refused(tables: _Tables, marks: Mapping[int, int | None]) -> tuple[list[Refusal], list[float]]:
    """Return the reasons in the quarantine, and how late the rows were that came too late."""
    names = ("reason", "detail", "event_time", "batch", "quarantined_at")
    quarantine, is_cut = tables.rows("quarantine", names, _MOST_ROWS)
    if quarantine is None or not quarantine.num_rows:
        return [], []
    if is_cut or quarantine.num_rows > _MOST_ROWS:
        quarantine = quarantine.slice(0, _MOST_ROWS)
        tables.notes.append(f"Of the quarantine the newest {quarantine.num_rows:,} rows were read.")
    times, reasons = _us(quarantine, "quarantined_at"), quarantine.column("reason").to_pylist()
    rows = [*zip(reasons, times, quarantine.column("detail").to_pylist(), strict=True)]
    refusals = []
    for reason in {*reasons}:
        own = [row for row in rows if row[0] == reason]
        _, at, detail = max(own, key=lambda row: row[1] or 0)
        refusals.append(Refusal(reason=str(reason), rows=len(own), at=at, detail=detail))
    late = []
    events = zip(reasons, _us(quarantine, "event_time"), quarantine.column("batch").to_pylist(), strict=True)
    for reason, event, batch in events:
        mark = marks.get(batch)
        if reason == "LATE" and event is not None and mark is not None:
            late.append((mark - event) / _MICRO)
    return sorted(refusals, key=lambda refusal: (-refusal.rows, refusal.reason)), late


def _outages(tables: _Tables) -> list[Outage]:
    """Return the downtimes of this job: several jobs may share the table."""
    names = ("batch", "job", "stopped_at", "started_at", "clean", "timers_overdue", "results")
    downtimes, _ = tables.rows("downtime", names, _MOST_ROWS)
    if downtimes is None:
        return []
    rows = zip(downtimes.to_pylist(), _us(downtimes, "stopped_at"), _us(downtimes, "started_at"), strict=True)
    outages = [
        Outage(
            batch=row["batch"],
            stopped=stopped,
            started=started,
            clean=row["clean"],
            timers_overdue=row["timers_overdue"],
            results=row["results"],
        )
        for row, stopped, started in rows
        if row["job"] == tables.job
    ]
    return sorted(outages, key=lambda outage: outage.started)


def _us(table: pa.Table, name: str) -> list[Any]:
    """Return a column of times in us since the epoch; all None if the table does not have it."""
    if name not in table.column_names:
        return [None] * table.num_rows
    times: list[Any] = us_of(table.column(name)).to_pylist()
    return times


def _values(table: pa.Table, *names: str) -> list[list[Any]]:
    return [table.column(name).to_pylist() for name in names]
