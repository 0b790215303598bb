"""What a program does to jobs that run continuously: their disk is filled while they are idle, or their clock jumps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from integration_tests.drills.faults.damage import FaultNotConfirmed, fill_disk, free_disk
from integration_tests.drills.jobs import drill_job
from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.clock import tick_scheduler
from panekeeper.state.checkpoint import control_files
from panekeeper.state.checkpoint.clock import Deadline, now_us

if TYPE_CHECKING:
    from integration_tests.drills.process.messages import ProgramRequest
    from panekeeper.framework.engine.job.job import Job

BASE_HOURS = 6.0
"""How far ahead the wall clock of a drill begins: it can be set back and is still ahead of the rows' own times."""
_TIMEOUT_SECONDS = 120.0


class RunningJobs:
    """Jobs that run continuously, by name; one that fails is left out from then on.

    Args:
        request: what the program does.
        jobs: that have started.
        log_failure: is given the error of a job, by name.
    """

    def __init__(
        self, request: ProgramRequest, jobs: Mapping[str, Job], log_failure: Callable[[str, Exception], None]
    ) -> None:
        self._request = request
        self._jobs = dict(jobs)
        self._log_failure = log_failure

    def process_available(self) -> None:
        """Wait until the jobs have read all files."""
        for name, job in [*self._jobs.items()]:
            try:
                job.process_available()
            except PanekeeperError as error:
                self._log_failure(name, error)
                del self._jobs[name]

    def drain(self) -> None:
        """Drain the jobs."""
        for name, job in self._jobs.items():
            try:
                job.drain()
            except PanekeeperError as error:
                self._log_failure(name, error)

    def fill_disk(self) -> None:
        """Fill the disk once the jobs are idle, let one more file arrive, free the disk, and stop the jobs.

        A job that has not failed by then is left to go on: it must read the file by itself.
        """
        folder = Path(self._request.folder)
        self.process_available()
        fill_disk(folder, leaving=0)
        try:
            for file in self._held_files():
                self._let_arrive(file)
            self.process_available()
        finally:
            free_disk(folder)
        self.process_available()
        self._stop()

    def jump_clock(self) -> None:
        """Let the clock jump once the jobs are idle, then let one file arrive; again for each jump; stop the jobs.

        Raises:
            FaultNotConfirmed: a job could write the new time, although the disk was full.
        """
        self.process_available()
        for hours, file in zip(self._request.jumps, self._held_files(), strict=True):
            before = {name: job.downtime for name, job in self._jobs.items()}
            if self._request.fills_disk:
                self._set_clock_while_disk_is_full(hours)
            else:
                set_clock(hours)
            self._await_reports(before)
            self._let_arrive(file)
            self.process_available()
        self._stop()

    def _set_clock_while_disk_is_full(self, hours: float) -> None:
        folder = Path(self._request.folder)
        fill_disk(folder, leaving=0)
        try:
            set_clock(hours)
            names = [*self._jobs]
            self._await(lambda: all(self._jobs[name].status().tick_error for name in names))
            for name in names:
                if self._jobs[name].status().tick_error is None:
                    raise FaultNotConfirmed(f"job {name} has not failed to write the new time to a full disk")
        finally:
            free_disk(folder)

    def _await_reports(self, before: Mapping[str, object]) -> None:
        """Wait until each job of the wall clock has reported the outage; one that does not is found by its tables."""
        names = [name for name in self._jobs if drill_job(name).uses_wall_clock]
        self._await(lambda: all(self._jobs[name].downtime is not before[name] for name in names))

    def _await(self, is_so: Callable[[], bool]) -> None:
        deadline = Deadline(_TIMEOUT_SECONDS)
        while not deadline.has_passed() and not is_so():
            time.sleep(0.05)  # polls: no callback says that a report was written, or a tick was not

    def _held_files(self) -> list[Path]:
        return sorted(Path(self._request.held_files).iterdir())

    def _let_arrive(self, file: Path) -> None:
        file.rename(Path(self._request.files) / file.name)

    def _stop(self) -> None:
        for job in self._jobs.values():
            job.stop()


def set_clock(hours: float) -> None:
    """Set the wall clock of the windows ahead: hours relative to `BASE_HOURS` ahead of the real time."""
    ahead = int((BASE_HOURS + hours) * 3_600_000_000)

    def later() -> int:
        return now_us() + ahead

    for module in (control_files, tick_scheduler):  # that is where the windows get their time from
        module.now_us = later  # type: ignore[attr-defined]
