"""The end of a program that did not wait for its jobs: Spark ends with it, in the midst of a batch, by exit code 0.

A job that fails is reported where it is awaited. A program that does not wait would end as if all were well, so what it
has missed is printed as it ends. The exit code of a program that is ending cannot be changed.
"""

from __future__ import annotations

import atexit
import sys
import threading
from typing import Protocol, TypeVar

from panekeeper.framework.declarations.errors import PanekeeperError


class AwaitedJob(Protocol):
    """A `Job`."""

    @property
    def checkpoint(self) -> str:
        """Its folder."""
        ...

    def await_end(self, timeout: float) -> bool:
        """Return whether it has ended; raise the error by which it has."""
        ...


T = TypeVar("T", bound=AwaitedJob)


class UnattendedJobs:
    """The jobs for whose end nobody has waited yet. Safe to use from several threads."""

    def __init__(self) -> None:
        self._jobs: dict[int, AwaitedJob] = {}
        self._lock = threading.Lock()
        self._registered = False

    def add(self, job: T) -> T:
        """Report the job as the program ends, unless it is awaited before; return the job."""
        with self._lock:
            self._jobs[id(job)] = job
            if not self._registered:
                atexit.register(self.report)
                self._registered = True
        return job

    def remove(self, job: AwaitedJob) -> None:
        """Take note that the program waits for a job, or ends it."""
        self._jobs.pop(id(job), None)

    def report(self) -> None:
        """Print a line for each job that runs or has failed."""
        jobs, self._jobs = self._jobs, {}
        for job in jobs.values():
            line = _line(job)
            if line is not None:
                sys.stderr.write(f"panekeeper: {line}\n")


def _line(job: AwaitedJob) -> str | None:
    wait = "let it wait for the job by await_end()"
    try:
        if job.await_end(0.01):
            return None
    except PanekeeperError as error:
        return f"the job on {job.checkpoint} has failed, and the program has not waited for it ({wait}): {error}"
    except Exception:  # noqa: BLE001 -- Spark has ended before
        return None
    return (
        f"the program ends while the job on {job.checkpoint} runs, perhaps in the midst of a batch; {wait}. Its next "
        "start resumes with that batch"
    )


unattended_jobs = UnattendedJobs()
"""Those of this process."""
