"""The jobs of a scenario while their process is paused, and when it continues."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from integration_tests.drills.actions import PAUSE_POINTS
from integration_tests.drills.faults.evidence import epoch_of
from integration_tests.drills.faults.pause import let_lease_expire

if TYPE_CHECKING:
    from integration_tests.drills.actions import Pause
    from integration_tests.drills.faults.evidence import CheckpointEvidence
    from integration_tests.drills.process.launcher import Launcher

_LOST_LEASE = "has lost the lease"
_FENCED = "a later epoch of the job has begun"


@dataclass(kw_only=True)
class PausedJobs:
    """Pauses the process of some jobs; another one runs them; then it continues and must commit nothing.

    Attributes:
        jobs: has a folder for each job.
        job_names: names of the jobs.
        launcher: starts the programs.
        evidence: of their checkpoints.
        epoch_ended: whether a restore has begun another epoch while the process is paused.
    """

    jobs: Path
    job_names: tuple[str, ...]
    launcher: Launcher
    evidence: CheckpointEvidence
    epoch_ended: bool = False

    def pause(self, action: Pause) -> dict[str, str]:
        """Run the jobs until their process is paused, and let their leases expire.

        Returns:
            By job, why it is not confirmed that it was paused in a batch.

        Raises:
            FaultNotConfirmed: the process was not paused.
        """
        self.launcher.pause(point=PAUSE_POINTS[action.point], batch=action.batch)
        hit = self.evidence.interrupted_jobs(action.batch)
        for name in self.job_names:
            let_lease_expire(epoch_of(self.jobs / name / "checkpoint").path)
        return {name: f"it was not paused {action.point}" for name in self.job_names if name not in hit}

    def continue_(self) -> None:
        """Let the process continue: each job must end with an error.

        Raises:
            FaultNotConfirmed: it was not paused until now.
        """
        self.launcher.continue_paused((_LOST_LEASE, _FENCED) if self.epoch_ended else (_LOST_LEASE,))
