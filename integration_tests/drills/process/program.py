"""The program of a drill: runs jobs, makes and restores savepoints, or alters tables; it can be killed at any point.

python -m integration_tests.drills.process.program REQUEST.json
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from integration_tests.drills.faults import armed
from integration_tests.drills.faults.barrier import (
    BarrierFault,
    HoldingFault,
    ImmediateFault,
    OneTimeFault,
    kill_when_all_arrive,
)
from integration_tests.drills.faults.evidence import epoch_of
from integration_tests.drills.faults.kill import kill_executors, kill_workers
from integration_tests.drills.faults.maintenance import maintain
from integration_tests.drills.faults.pause import PausingFault, pause_process
from integration_tests.drills.faults.volumes import CHECKPOINT
from integration_tests.drills.jobs import drill_job
from integration_tests.drills.process.messages import EXIT_JOBS_FAILED, EventLog, ProgramRequest
from integration_tests.drills.process.operator_file import load_operator
from integration_tests.drills.process.running_jobs import RunningJobs, set_clock
from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.state.checkpoint.job_record import read_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.engine.job.job import Job
    from panekeeper.framework.engine.job.status import BatchReport

_JOIN_SECONDS = 0.05
_SETTINGS: dict[str, int | str] = {"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "1g"}


class Program:
    """One run of the program."""

    def __init__(self, request: ProgramRequest) -> None:
        self.request = request
        self.events = EventLog(request.events_file)
        self.failed = False
        self.fault: BarrierFault | None = None

    def main(self) -> int:
        """Do what is requested and return the exit code: 0, or `EXIT_JOBS_FAILED`."""
        request = self.request
        if request.ahead_hours is not None:
            set_clock(request.ahead_hours)
        if request.do in ("savepoint", "restore"):
            return self.save_or_restore_all()
        if request.do == "maintain":
            self.maintain_all()
            return 0
        if request.point is not None:
            self.fault = self.make_fault(request.point)
            armed.arm(self.fault)
        if request.defect is not None:
            from integration_tests.drills.faults.defects import inject_defect

            inject_defect(request.defect)
        jobs = self.start_all()
        if request.do == "run":
            self.await_all(jobs)
            if self.fault is not None:
                self.fault.wait_until_done()
        else:
            self.run_continuously(jobs)
        return EXIT_JOBS_FAILED if self.failed else 0

    def make_fault(self, point: str) -> BarrierFault:
        """Return the fault that is requested, not yet armed."""
        request = self.request
        if request.victim == "pause":
            return PausingFault(point, request.batch, len(request.job_names), self.pause)
        if request.statements:
            return HoldingFault(point, request.batch, len(request.job_names), self.maintain_all)
        if request.victim != "program":
            return OneTimeFault(point, request.batch, 1, self.kill_victims)
        kind = ImmediateFault if point in armed.IN_OTHER_THREADS else BarrierFault
        return kind(point, request.batch, len(request.job_names), armed.kill_process)

    def maintain_all(self) -> None:
        """Run the statements on the tables of every job."""
        for name in self.request.job_names:
            maintain(spark_for_drill(self.request.master), Path(self.request.folder) / name, self.request.statements)

    def kill_victims(self) -> None:
        """Kill the workers or executors, and log how many."""
        killed = kill_workers() if self.request.victim == "workers" else kill_executors()
        self.events.write("", "killed", **killed._asdict())

    def pause(self) -> None:
        """Pause the program, and log it before."""
        pause_process(lambda java: self.events.write("", "paused", java=java))

    def start_all(self) -> dict[str, Job]:
        """Start every job and return those that have started; the errors of the others are logged.

        With a fault they start at the same time: it waits for all of them, and may be in a start, which completes the
        batch that is recorded.
        """
        jobs: dict[str, Job] = {}

        def start(name: str) -> None:
            try:
                jobs[name] = self.start(name)
            except PanekeeperError as error:
                self.log_failure(name, error)
                if self.fault is not None:
                    self.fault.job_ended()

        names = self.request.job_names
        with ThreadPoolExecutor(1 if self.fault is None else len(names)) as threads:
            for started in [threads.submit(start, name) for name in names]:
                started.result()
        return {name: jobs[name] for name in names if name in jobs}

    def start(self, name: str) -> Job:
        """Start one job. Returns once its first batch runs."""
        request = self.request
        folder = Path(request.folder) / name
        trigger: Literal["available_now", "immediate"] = "available_now" if request.do == "run" else "immediate"
        job = self.declare(name).start(checkpoint=folder / request.checkpoint, trigger=trigger)
        self.events.write(name, "started")
        job.on_batch(lambda report: self.on_batch(name, report))
        return job

    def declare(self, name: str) -> DeltaJob:
        """Return the declaration of a job."""
        request = self.request
        spark, folder = spark_for_drill(request.master), Path(request.folder) / name
        job = drill_job(name)
        if request.operator_file is not None:
            job = replace(job, operator=load_operator(Path(request.operator_file)))
        return job.declare(spark, Path(request.files), folder, request.rejected_values)

    def on_batch(self, name: str, report: BatchReport) -> None:
        """Log that a batch is in the tables."""
        self.events.write(name, "batch", number=report.batch, firings=report.firings)

    def await_all(self, jobs: dict[str, Job]) -> None:
        """Wait until every job has ended."""
        left = dict(jobs)
        while left:
            for name, job in [*left.items()]:
                try:
                    over = job.await_end(timeout=_JOIN_SECONDS)
                except PanekeeperError as error:
                    self.log_failure(name, error)
                    over = True
                if over:
                    del left[name]
                    self.events.write(name, "ended")
                    if self.fault is not None:
                        self.fault.job_ended()

    def run_continuously(self, jobs: dict[str, Job]) -> None:
        """Run the jobs until they have read all files, and do with them what is requested."""
        running = RunningJobs(self.request, jobs, self.log_failure)
        if self.request.do == "fill":
            running.fill_disk()
        elif self.request.do == "jump":
            running.jump_clock()
        else:
            running.process_available()
            if self.request.do == "drain":
                running.drain()
            elif not self.failed:
                armed.kill_process()

    def log_failure(self, name: str, error: Exception) -> None:
        """Log the error of a job, or of its savepoint."""
        self.failed = True
        self.events.write(name, "error", kind=type(error).__name__, text=str(error))

    def save_or_restore_all(self) -> int:
        """Make or restore the savepoint of each job; in parallel if all are to be killed at the same step."""
        killed_at = self.request.killed_at
        kill = kill_when_all_arrive(len(self.request.job_names))

        def on_step(step: str) -> None:
            if step == killed_at:
                kill()

        spark = spark_for_drill()
        threads = [
            threading.Thread(target=self.save_or_restore, args=(name, spark, on_step))
            for name in self.request.job_names
        ]
        for thread in threads:
            thread.start()
            if killed_at is None:
                thread.join()
        for thread in threads:
            thread.join()
        return EXIT_JOBS_FAILED if self.failed else 0

    def save_or_restore(self, name: str, spark: SparkSession, on_step: Callable[[str], None]) -> None:
        """Make or restore the savepoint of one job."""
        from panekeeper.recovery.restore.restore import restore
        from panekeeper.recovery.savepoint.create import savepoint
        from panekeeper.recovery.storage.s3 import S3Options

        request, folder = self.request, Path(self.request.folder) / name
        checkpoint = folder / request.checkpoint
        common: dict[str, Any] = {"s3": S3Options(endpoint=request.endpoint), "spark": spark}
        location = f"{request.location}/{name}"
        try:
            if request.do == "savepoint":
                savepoint(checkpoint, request.name, to=location, progress=lambda _: on_step("first file"), **common)
            else:
                if request.checkpoint != CHECKPOINT:  # there is none that confirms which tables may go back
                    tables = read_tables(epoch_of(folder / CHECKPOINT)).values()
                    common |= {"checkpoint": checkpoint, "tables": [*tables]}
                restore(location, request.name, on_step=on_step, **common)
        except PanekeeperError as error:
            self.log_failure(name, error)


def spark_for_drill(master: str | None = None) -> SparkSession:
    """Return a small Spark session.

    Args:
        master: URL of a cluster; None for local mode on two cores.
    """
    from panekeeper.framework.engine.session.session import session

    cluster: dict[str, str] = {} if master is None else {"spark.master": master, "spark.executor.memory": "1g"}
    return session("panekeeper drill", cores=2, **(_SETTINGS | cluster))


if __name__ == "__main__":
    sys.exit(Program(ProgramRequest.load(Path(sys.argv[1]))).main())
