"""`advise`: which watermark delay has how many rows in time, and what it costs in the delay of results.

The lateness of rows is not stored with a batch: rows are folded on their way to a window, and have no time then. So it
is counted from the source, which is read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.what_if.lateness import Lateness, lateness_ms
from panekeeper.diagnostics.what_if.options import with_options
from panekeeper.diagnostics.what_if.trial import (
    BATCHES,
    Figures,
    figures_fields,
    figures_of,
    opened_recording,
    produced,
)
from panekeeper.framework.declarations.display import Part, Result, TextTable, format_number
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN, SOURCE_PARTITION_COLUMN
from panekeeper.recovery.storage.locations import Location
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.duration_text import us_text

if TYPE_CHECKING:
    from panekeeper.diagnostics.what_if.recorded_input import RecordedTables
    from panekeeper.framework.builder.outputs import DeltaJob

SHARES = ("99", "99.9", "99.99")
"""For so many rows in time, of a hundred, a delay is looked for."""


@dataclass(frozen=True, kw_only=True)
class Advised:
    """A watermark delay.

    Attributes:
        share: for so many rows in time, of a hundred, it is the smallest one; None: it is that of the job.
        delay_us: the delay, us.
        late: how many rows are behind the watermark with it, by their lateness.
        behind: how many were, when it was tried; None if it was not.
        figures: what came of the rows: with the delay of the job, as recorded; else as tried.
    """

    share: str | None
    delay_us: int
    late: int
    behind: int | None
    figures: Figures

    def row(self, rows: int) -> tuple[str, ...]:
        """Return it as a row of the table of an advice, of so many rows."""
        figures, what = self.figures, "now" if self.share is None else f"{self.share} %"
        return (
            f"{us_text(self.delay_us)} ({what})",
            f"{(rows - self.late) / rows if rows else 1.0:.4%}",
            format_number(self.late),
            "as recorded" if self.behind is None else format_number(self.behind),
            *map(format_number, (figures.refined_late, figures.dropped_late, figures.results)),
            figures.delay_text,
        )


@dataclass(frozen=True, kw_only=True)
class Advice(Result):
    """What watermark delays would have done in some batches of a job.

    Attributes:
        job: the name of the job.
        first: the first batch.
        last: the last batch.
        rows: how many rows had an event time.
        begins: what the trials began with.
        delays: the delay of the job, and the smallest ones for `SHARES`.
    """

    job: str
    first: int
    last: int
    rows: int
    begins: str
    delays: tuple[Advised, ...]

    def _described(self) -> Iterator[Part]:
        head = f"job {self.job}, batches {self.first} to {self.last}, from {self.begins}"
        yield f"{head}: {self.rows:,} rows with an event time"
        heads = ("watermark", "in time", "late", "tried", "refined", "dropped", "results", "delay of results")
        yield TextTable.of(heads, [delay.row(self.rows) for delay in self.delays])

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields, as `panekeeper advise --json` prints them."""
        delays = [
            {
                "share": delay.share,
                "watermark": us_text(delay.delay_us),
                "seconds": delay.delay_us / 1_000_000,
                "late": delay.late,
                "behind": delay.behind,
                **figures_fields(delay.figures),
            }
            for delay in self.delays
        ]
        names = ("job", "first", "last", "rows", "begins")
        return {**{name: getattr(self, name) for name in names}, "delays": delays}


def advise(
    checkpoint: Location,
    job: DeltaJob,
    *,
    batches: int = BATCHES,
    savepoint: str | None = None,
    s3: S3Options | None = None,
) -> Advice:
    """Return which watermark delays have 99, 99.9 and 99.99 % of the rows in time, and what each costs.

    A row is in time if its event time is not behind the watermark of its batch. The rows of the last batches are read
    again, and each delay is tried over them in memory. Nothing of the job is changed.

    Args:
        checkpoint: the job's checkpoint, which may run meanwhile; with `savepoint`, the location of the savepoints.
        job: the declaration, as `to_delta` returns it.
        batches: how many of the last batches, as far as Spark keeps their offsets.
        savepoint: the name of a savepoint, whose last batches are looked at.
        s3: how S3 is reached.

    Raises:
        DeclarationError: the windows of the job have no watermark.
        Exception: as `try_job`.
    """
    if not job.pipeline.spec.uses_event_time:
        raise DeclarationError(
            f"the windows of job {job.pipeline.intake.name!r} go by the order of arrival, and have no watermark"
        )
    with opened_recording(checkpoint, job, batches=batches, savepoint=savepoint, s3=s3) as recording:
        start = recording.start(job.pipeline)
        given, before_us = recording.read(start), start.latest_us
        lateness, latest = lateness_of(given, before_us), given.latest(before_us)
        now_us = max(recording.delays_us or [port.intake.watermark_us for port in job.pipeline.ports])
        spec = start.pipeline.spec
        written = {window: recording.written(window) for window in spec.parts}
        delays = [
            Advised(
                share=None,
                delay_us=now_us,
                late=lateness.late_rows(-(-now_us // 1000)),
                behind=None,
                figures=figures_of(recording.counts, produced(spec, written, latest)),
            )
        ]
        tried = dict[int, Advised]()
        for share in SHARES:
            delay_ms = lateness.smallest_delay_ms(Fraction(share) / 100)
            if delay_ms not in tried:
                changed = with_options(job, watermark=timedelta(milliseconds=delay_ms)).pipeline
                changed = replace(changed, spec=spec)  # with its history
                rehearsal = recording.rehearse(replace(start, pipeline=changed), given)
                tried[delay_ms] = Advised(
                    share=share,
                    delay_us=delay_ms * 1000,
                    late=lateness.late_rows(delay_ms),
                    behind=rehearsal.behind,
                    figures=figures_of(rehearsal.counts, produced(spec, rehearsal.results, latest)),
                )
            delays.append(replace(tried[delay_ms], share=share))
        return Advice(
            job=recording.record.name,
            first=recording.first,
            last=recording.last,
            rows=lateness.rows,
            begins=start.begins,
            delays=tuple(delays),
        )


def lateness_of(given: RecordedTables, before_us: int | None) -> Lateness:
    """Return the lateness of all rows, by the greatest event time that their source had before their batch.

    A source is a port, or a partition of it where each has a watermark of its own. `before_us` is the greatest event
    time before the first batch, of a port that Spark keeps the watermark of.
    """
    lateness, latest = Lateness(), dict[tuple[int, str], int]()
    if before_us is not None:
        latest[0, ""] = before_us
    for batch in given:
        reached = dict(latest)
        for port, table in enumerate(batch.tables):
            for source, times in _times(table):
                lateness = lateness.with_rows(lateness_ms(times, latest.get((port, source))))
                most = int(times.max())
                reached[port, source] = max(most, reached.get((port, source), most))
        latest = reached
    return lateness


def _times(rows: pa.Table) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the event times of the good rows, us, of each partition of the source that is told; if none is, of ""."""
    good = rows.filter(pc.is_valid(rows.column(EVENT_TIME_COLUMN)))
    times = good.column(EVENT_TIME_COLUMN).cast(pa.int64())
    if SOURCE_PARTITION_COLUMN not in rows.column_names:
        sources = {"": times}
    else:
        names = good.column(SOURCE_PARTITION_COLUMN)
        sources = {source: times.filter(pc.equal(names, source)) for source in pc.unique(names).to_pylist()}
    yield from ((source, of_it.to_numpy()) for source, of_it in sources.items() if len(of_it))
