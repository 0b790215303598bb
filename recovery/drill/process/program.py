"""The program that a drill breaks: runs jobs in a process of its own, which may be killed at any point.

python -m recovery.drill.process.program ERRAND.json
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import PanekeeperError
from framework.engine.flow import control_stream as pulse
from framework.engine.sink import fault_points as fault
from recovery.drill.faults.barrier import Ambush, Gate, Once, die_together, kill_executors, kill_workers
from recovery.drill.jobs import named
from recovery.drill.process.messages import OWN, SURVIVED_NOT, Errand, Telling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.engine.job.job import BatchReport, Job

_JOIN_SECONDS = 0.05
_SETTINGS: dict[str, int | str] = {"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "1g"}
BASE_HOURS = 6.0
"""How far ahead the clock of clocked checks begins, so that it can go back and still be ahead of the rows' own."""


class Program:
    """One errand."""

    def __init__(self, errand: Errand) -> None:
        self.errand = errand
        self.telling = Telling(errand.told)
        self.failed = False
        self.gate: Gate | None = None

    def main(self) -> int:
        """Do it and return the exit code."""
        errand = self.errand
        if errand.ahead_hours is not None:
            set_clock(errand.ahead_hours)
        if errand.do in ("savepoint", "restore", "clone"):
            return self.keep()
        if errand.point is not None:
            self.gate = self.make_gate(errand.point)
            fault.arm(self.gate)
        if errand.broken is not None:
            from recovery.drill.faults.defects import break_on_purpose

            break_on_purpose(errand.broken)
        jobs = self.start_all()
        if errand.do == "run":
            self.await_all(jobs)
            if self.gate is not None:
                self.gate.settle()
        else:
            self.serve(jobs)
        return SURVIVED_NOT if self.failed else 0

    def make_gate(self, point: str) -> Gate:
        """The fault that was asked for."""
        errand = self.errand
        if errand.victim != "program":
            kill = {"workers": kill_workers, "executors": kill_executors}[errand.victim]
            return Once(point, errand.batch, 1, lambda: kill(self.telling))
        kind = Ambush if point == "mid-batch" else Gate
        return kind(point, errand.batch, len(errand.checks), fault.kill_process)

    def start_all(self) -> dict[str, Job]:
        """Start every job; those that cannot start are told."""
        jobs: dict[str, Job] = {}
        for name in self.errand.checks:
            try:
                jobs[name] = self.start(name)
            except PanekeeperError as error:
                self.told_failed(name, error)
        return jobs

    def start(self, name: str) -> Job:
        """Start one job. Returns once its first batch runs."""
        errand = self.errand
        folder = Path(errand.folder) / name
        if name == OWN:
            from recovery.drill.process.user_job import start_own

            assert errand.job is not None
            job = start_own(errand.job, folder)
        else:
            declared = named(name).declare(spark_for_drill(errand.master), Path(errand.files), folder)
            trigger = "available_now" if errand.do == "run" else "continuous"
            job = declared.start(checkpoint=folder / "checkpoint", trigger=trigger)  # type: ignore[arg-type]
        self.telling.tell(name, "started")
        job.on_batch(lambda report: self.on_batch(name, job, report))
        return job

    def on_batch(self, name: str, job: Job, report: BatchReport) -> None:
        """A batch is in the tables."""
        self.telling.tell(name, "batch", number=report.batch, firings=report.firings)
        if self.errand.until is not None and report.batch + 1 >= self.errand.until:
            job.stop()

    def await_all(self, jobs: dict[str, Job]) -> None:
        """Wait until every job has ended."""
        left = dict(jobs)
        while left:
            for name, job in [*left.items()]:
                try:
                    over = job.await_end(timeout=_JOIN_SECONDS)
                except PanekeeperError as error:
                    self.told_failed(name, error)
                    over = True
                if over:
                    del left[name]
                    self.telling.tell(name, "ended")
                    if self.gate is not None:
                        self.gate.ended()

    def serve(self, jobs: dict[str, Job]) -> None:
        """Run as a service does, until all is read; then be drained, or killed where nothing is being done."""
        for name, job in jobs.items():
            try:
                job.process_available()
                if self.errand.do == "drain":
                    job.drain()
            except PanekeeperError as error:
                self.told_failed(name, error)
        if self.errand.do == "idle" and not self.failed:
            fault.kill_process()

    def told_failed(self, name: str, error: Exception) -> None:
        """Tell an error of a job, or of a savepoint."""
        self.failed = True
        self.telling.tell(name, "error", kind=type(error).__name__, text=str(error))

    def keep(self) -> int:
        """Make, restore or clone the savepoint of each job; side by side where all are to be killed at one step."""
        killed = self.errand.killed_at
        die = die_together(len(self.errand.checks))

        def reached(step: str) -> None:
            if step == killed:
                die()

        spark = spark_for_drill()
        threads = [threading.Thread(target=self.keep_one, args=(name, spark, reached)) for name in self.errand.checks]
        for thread in threads:
            thread.start()
            if killed is None:
                thread.join()
        for thread in threads:
            thread.join()
        return SURVIVED_NOT if self.failed else 0

    def keep_one(self, name: str, spark: SparkSession, reached: Callable[[str], None]) -> None:
        """Make, restore or clone the savepoint of one job."""
        from recovery.restore.clone import clone
        from recovery.restore.restore import restore
        from recovery.savepoint.create import savepoint
        from recovery.storage.s3_options import S3Options

        errand, folder = self.errand, Path(self.errand.folder) / name
        common: dict[str, Any] = {"s3": S3Options(endpoint=errand.endpoint), "spark": spark}
        place = f"{errand.location}/{name}" if errand.do != "clone" else errand.location
        try:
            if errand.do == "savepoint":
                savepoint(
                    folder / "checkpoint", errand.name, to=place, progress=lambda _: reached("first file"), **common
                )
            elif errand.do == "restore":
                restore(place, errand.name, on_step=reached, **common)
            else:
                clone(place, errand.name, into=folder, **common)
        except PanekeeperError as error:
            self.told_failed(name, error)


def spark_for_drill(master: str | None = None) -> SparkSession:
    """The session of a drill: small, for its jobs are."""
    from framework.engine.session.session import session

    cluster: dict[str, str] = {} if master is None else {"spark.master": master, "spark.executor.memory": "1g"}
    return session("panekeeper drill", cores=2, **(_SETTINGS | cluster))


def set_clock(hours: float) -> None:
    """Let the wall clock of the windows be so many hours ahead of where a drill begins."""
    ahead = int((BASE_HOURS + hours) * 3_600_000_000)

    def later() -> int:
        return time.time_ns() // 1000 + ahead

    pulse.wall_us = later  # type: ignore[attr-defined] # where each beat takes its time from


if __name__ == "__main__":
    sys.exit(Program(Errand.load(Path(sys.argv[1]))).main())
