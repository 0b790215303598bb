"""Runs the job over the files: from starting Spark to the flush, or to a Ctrl-C."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from examples.flights.data import Input
from examples.flights.folder_lock import record_java_pid, wait_for_java
from examples.flights.progress import Figures, ReplayView, waiting
from examples.flights.tables import METRICS, has_table, read_table
from panekeeper import BatchReport, JobFinished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW_COUNTS = ("admitted", "refined_late", "dropped_late", "quarantined", "outside")


@dataclass
class ReplayTotals:
    """Row counts of every batch since the first start, by its number: a batch that is run again counts once."""

    batches: dict[int, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of_earlier_runs(cls, out: Path) -> "ReplayTotals":
        """Read them from the metrics table; empty before the first batch."""
        if not has_table(out / METRICS):
            return cls()
        rows = read_table(out / METRICS).to_pylist()
        return cls({row["batch"]: {name: row[name] for name in ("rows_in", *_ROW_COUNTS, "firings")} for row in rows})

    def add(self, report: BatchReport) -> None:
        """Add the counts of a batch that has just ended."""
        self.batches[report.batch] = {"rows_in": report.rows, "firings": report.firings, **report.counts}

    def total(self, name: str) -> int:
        """Return the sum of one count over all batches."""
        return sum(batch[name] for batch in self.batches.values())

    def counts(self) -> dict[str, int]:
        """Return how many flights came in and how many were admitted, refined, dropped, quarantined and outside."""
        return {name: self.total(name) for name in ("rows_in", *_ROW_COUNTS)}


def replay(console: Console, given: Input, out: Path) -> bool:
    """Replay what is left of the input and flush; False if Ctrl-C came first.

    Raises:
        PanekeeperError: the job cannot start or failed; the message says what to do.
        FolderLocked: the Java process of a killed run does not exit.
    """
    totals = ReplayTotals.of_earlier_runs(out)
    done = given.files_within(totals.total("rows_in"))
    if totals.batches:
        console.print(f"resuming at batch {min(done + 1, given.n_files)} of {given.n_files}", highlight=False)
    try:
        _run(console, given, out, totals)
    except KeyboardInterrupt:
        done = given.files_within(totals.total("rows_in"))
        console.print(
            f"stopped after batch {done} of {given.n_files}; run `make demo` again to resume", highlight=False
        )
        return False
    return True


def _run(console: Console, given: Input, out: Path, totals: ReplayTotals) -> None:
    with waiting(console, "starting Spark..."):
        wait_for_java(out)
        from panekeeper import session

        with _redirect_stderr(out / "spark.log"):
            spark = session("panekeeper-flights")
        record_java_pid(out, _java_of(spark))
    try:
        from examples.flights.pipeline import files, start

        with waiting(console, "starting the job..."):
            job = start(files(spark, str(given.folder)), str(out))
        # The start has completed the batch in which a run was killed, without a report.
        totals.batches.update(ReplayTotals.of_earlier_runs(out).batches)
        with ReplayView(console, rows=given.n_rows, batches=given.n_files, done=totals.total("rows_in")) as view:

            def show(report: BatchReport) -> None:
                totals.add(report)
                view.show(_figures(report, totals, given))

            job.on_batch(show)
            job.await_end()
            job.flush()
    except JobFinished:
        pass  # killed after the flush and before its marker file was written
    finally:
        spark.stop()


@contextmanager
def _redirect_stderr(path: Path) -> Iterator[None]:
    """Redirect the stderr of processes started in here to a file: Java and its workers would disturb the live view."""
    ours = os.dup(2)
    try:
        with path.open("ab") as kept:
            os.dup2(kept.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _java_of(spark: "SparkSession") -> int:
    pid: int = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # noqa: SLF001
    return pid


def _figures(report: BatchReport, totals: ReplayTotals, given: Input) -> Figures:
    return Figures(
        rows=totals.total("rows_in"),
        batch=given.files_within(totals.total("rows_in")),
        watermark=report.watermark,
        open_panes=report.open_panes,
        firings=totals.total("firings"),
        late=totals.total("refined_late"),
        dropped=totals.total("dropped_late"),
        quarantined=totals.total("quarantined"),
    )
