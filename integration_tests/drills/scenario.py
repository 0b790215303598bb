"""What a scenario is: actions on some jobs, in order. After the last action the tables are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from integration_tests.drills.actions import Action


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One way to break jobs and to resume them.

    Attributes:
        name: shown in reports and matched by `--only`.
        actions: in the order in which they happen.
        uses_wall_clock: whether it is for jobs that use the wall clock, or for the others.
        job_names: the jobs to run it on; if empty, all jobs that fit `uses_wall_clock`.
        needs: what the host must provide: the right to mount a small disk, libraries for an S3 server, or a cluster.
    """

    name: str
    actions: tuple[Action, ...]
    uses_wall_clock: bool = False
    job_names: tuple[str, ...] = ()
    needs: Literal["disk", "s3", "cluster"] | None = None
