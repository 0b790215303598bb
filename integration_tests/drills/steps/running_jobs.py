"""The jobs of a scenario while they run continuously: their disk is filled, or the clock of their process jumps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration_tests.drills.expected.compare import TableUnreadable, delta_rows
from integration_tests.drills.expected.history import FileArrived, write
from integration_tests.drills.faults.volumes import CHECKPOINT
from integration_tests.drills.jobs import drill_job

if TYPE_CHECKING:
    from integration_tests.drills.actions import FillWhileIdle
    from integration_tests.drills.process.launcher import Launcher


@dataclass(frozen=True, kw_only=True)
class RunningJobs:
    """Starts the programs that do something to jobs which run.

    Attributes:
        folder: of the scenario run.
        job_names: names of the jobs.
        files: the input.
        launcher: starts the programs.
    """

    folder: Path
    job_names: tuple[str, ...]
    files: Sequence[FileArrived]
    launcher: Launcher

    def fill_disk(self, action: FillWhileIdle, **clock: Any) -> None:
        """Run the jobs until they are idle, and fill their disk while one more file arrives.

        Args:
            action: how many files are in the input, and what the errors of the jobs say.
            clock: of the process.
        """
        held = self._hold(action.files, 1)
        errors = self.launcher.run_for_errors(do="fill", held_files=held, **clock)
        self.launcher.require_errors(errors, action.messages)

    def jump_clock(self, read: int, jumps: tuple[float, ...], *, fills_disk: bool, **clock: Any) -> dict[str, str]:
        """Run the jobs until they are idle; let the clock jump and one file arrive, again for each jump.

        Args:
            read: how many files are in the input.
            jumps: how many hours it is ahead after each jump.
            fills_disk: whether the disk is full meanwhile.
            clock: of the process at its start.

        Returns:
            By job of the wall clock, why it is not confirmed that each jump has hit it.
        """
        before = self._reports()
        restarted = {name for name in before if (self.folder / "jobs" / name / CHECKPOINT).exists()}
        held = self._hold(read, len(jumps))
        self.launcher.run(do="jump", held_files=held, jumps=jumps, fills_disk=fills_disk, **clock)
        found = {name: number - before[name] - (name in restarted) for name, number in self._reports().items()}
        return {
            name: f"{number} of {len(jumps)} jumps of the clock are in the downtime table"
            for name, number in found.items()
            if number < len(jumps)
        }

    def _hold(self, first: int, number: int) -> str:
        """Write files to a folder from which the program moves them to the input."""
        held = self.folder / f"held-{first}"
        held.mkdir()
        for place in range(first, first + number):
            write(held, place, self.files[place])
        return str(held)

    def _reports(self) -> dict[str, int]:
        names = (name for name in self.job_names if drill_job(name).uses_wall_clock)
        return {name: _rows(self.folder / "jobs" / name / "log_downtime") for name in names}


def _rows(table: Path) -> int:
    """Return how many outages a job has reported; 0 if it has no table for them yet."""
    try:
        return len(delta_rows(table, ("seconds",)))
    except TableUnreadable:
        return 0
