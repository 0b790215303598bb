"""What a scenario is: actions on some jobs, in order. After the last action the tables are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panekeeper.recovery.drill.actions import Action


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One way to break jobs and to resume them.

    Attributes:
        name: shown in reports and matched by `panekeeper drill --only`.
        actions: in the order in which they happen.
        uses_wall_clock: whether it is for jobs that use the wall clock, or for the others.
        job_names: the jobs to run it on; if empty, all jobs that fit `uses_wall_clock`.
        for_user_job: whether it can be run on a user's own job, too.
        rows: which rows the input has: few and good ones; poison rows in some files, too (`expected/poison.py`); or
            many, of which most have one key.
        needs: what the host must provide: the right to mount a small disk, libraries for an S3 server, or a cluster.
    """

    name: str
    actions: tuple[Action, ...]
    uses_wall_clock: bool = False
    job_names: tuple[str, ...] = ()
    for_user_job: bool = True
    rows: Literal["few", "poison", "one key"] = "few"
    needs: Literal["disk", "s3", "cluster"] | None = None
