"""The jobs of a scenario while their process is paused, and when it continues."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from panekeeper.recovery.drill.actions import PAUSE_POINTS
from panekeeper.recovery.drill.faults.damage import FaultNotConfirmed
from panekeeper.recovery.drill.faults.pause import let_lease_expire
from panekeeper.recovery.drill.faults.transactions import fence_problems
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord, read_record, read_tables

if TYPE_CHECKING:
    from panekeeper.recovery.drill.actions import Pause
    from panekeeper.recovery.drill.faults.evidence import CheckpointEvidence
    from panekeeper.recovery.drill.process.launcher import Launcher

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
        epoch_ended: whether a restore or a reset has begun another epoch while the process is paused.
    """

    jobs: Path
    job_names: tuple[str, ...]
    launcher: Launcher
    evidence: CheckpointEvidence
    epoch_ended: bool = False
    _paused: dict[str, tuple[JobRecord, dict[str, str]]] = field(default_factory=dict)

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
            folder = LocalFolder(self.jobs / name / "checkpoint")
            record = read_record(folder)
            if record is None:
                raise FaultNotConfirmed(f"job {name} was paused before it had a checkpoint")
            self._paused[name] = (record, read_tables(folder))
            let_lease_expire(folder.path)
        return {name: f"it was not paused {action.point}" for name in self.job_names if name not in hit}

    def continue_(self) -> None:
        """Let the process continue: each job must end with an error, and tables of a later epoch must have refused it.

        Raises:
            FaultNotConfirmed: it was not paused until now.
        """
        self.launcher.continue_paused((_LOST_LEASE, _FENCED) if self.epoch_ended else (_LOST_LEASE,))
        for name, (record, tables) in self._paused.items() if self.epoch_ended else ():
            for problem in fence_problems(tables, record):
                self.launcher.failed.setdefault(name, f"a paused process is not fenced off: {problem}")
