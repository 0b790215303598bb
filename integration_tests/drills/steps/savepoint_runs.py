"""How the savepoints of a scenario's jobs are made and restored: in a folder, or in a store that fails or is slow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panekeeper.recovery.savepoint.catalog import savepoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration_tests.drills.actions import MakeSavepoint, Restore
    from integration_tests.drills.faults.faulty_s3 import FaultyStore
    from integration_tests.drills.process.launcher import Launcher

RESTORED = "checkpoint-restored"
"""The name of a checkpoint that is restored to another folder."""


@dataclass(frozen=True, kw_only=True)
class SavepointRuns:
    """Starts the programs that make and restore savepoints.

    Attributes:
        folder: of the scenario run; savepoints are in a folder in it.
        job_names: names of the jobs.
        launcher: starts the programs.
        store: returns an S3 store that can fail.
        seconds: how long that store fails.
        notes: remarks for the reports of all jobs.
        not_hit: by job, why it is not confirmed that an outage of the store hit it.
    """

    folder: Path
    job_names: tuple[str, ...]
    launcher: Launcher
    store: Callable[[], FaultyStore]
    seconds: float
    notes: list[str]
    not_hit: dict[str, str]

    def make(self, action: MakeSavepoint) -> None:
        """Make a savepoint of each job. One that is killed must not be listed."""
        if not action.killed:
            self._in_store(action.store, do="savepoint", name=action.name, killed_at=None)
            return
        location = self.folder / "savepoints"
        self.launcher.run_until_killed(do="savepoint", name=action.name, location=str(location), killed_at="first file")
        for name in self.job_names:
            if savepoints(location / name):
                self.launcher.failed.setdefault(name, "an interrupted savepoint is listed as complete")

    def restore(self, action: Restore) -> None:
        """Restore the savepoint of each job. The programs after it use the checkpoint that was restored."""
        if action.elsewhere:
            self.launcher.set_for_all(checkpoint=RESTORED)
        self._in_store(action.store, do="restore", name=action.name, killed_at=action.killed_at)

    def _in_store(self, store: str, **request: Any) -> None:
        if store == "folder":
            self._save_or_restore(location=str(self.folder / "savepoints"), **request)
            return
        faulty = self.store()
        request |= {"location": f"s3://drill/{self.folder.name}", "endpoint": faulty.endpoint, "own_store": True}
        if "fails" in store:
            self._save_or_restore_in_outage(faulty, **request)
        else:
            faulty.set_mode("slow" if "slow" in store else "works")
            self._save_or_restore(**request)

    def _save_or_restore_in_outage(self, faulty: FaultyStore, **request: Any) -> None:
        """Start a program for each job: in one program only the first job would meet the outage."""
        refused = []
        for name in self.job_names:
            faulty.set_mode("fails", self.seconds)
            self._save_or_restore(job_names=(name,), **request)
            refused.append(faulty.refused)
            if not faulty.refused:
                self.not_hit.setdefault(name, f"the store got no request while it failed, in {request['do']}")
        self.notes.append(f"{request['do']}: the store refused {', '.join(map(str, refused))} requests, job by job")

    def _save_or_restore(self, *, killed_at: str | None, **request: Any) -> None:
        if killed_at is not None:
            self.launcher.run_until_killed(killed_at=killed_at, **request)
        else:
            self.launcher.run(**request)
