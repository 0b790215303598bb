"""The input files and the wall clock of a scenario run, and what happened to its jobs: the history for the oracles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration_tests.drills.actions import ChangeCode, RandomKills
from integration_tests.drills.expected.history import FileArrived, HistoryEvent, RunStarted, generate, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration_tests.drills.scenario import Scenario

FILES = 6
_HOUR = 3600


def input_files(scenario: Scenario, seed: int) -> tuple[FileArrived, ...]:
    """Return the input files of a scenario: as many as its actions need."""
    kills = next((one.times for one in scenario.actions if isinstance(one, RandomKills)), 0)
    changes = sum(isinstance(one, ChangeCode) for one in scenario.actions)
    return generate(seed, files=max(FILES, kills + 3, changes + 3))


class ScenarioInput:
    """Writes input files when a run needs them.

    Attributes:
        files: all of them.
        history: what happened to all jobs, in order.
        read: how many files are read in the history.
        clock_hours: how far the wall clock is ahead of where it began.
    """

    def __init__(self, folder: Path, files: Sequence[FileArrived], *, uses_wall_clock: bool) -> None:
        self.files = tuple(files)
        self.history: list[HistoryEvent] = []
        self.read = 0
        self.clock_hours = 0.0
        self._folder = folder
        self._written = 0
        self._uses_wall_clock = uses_wall_clock

    def write(self, files: int | None = None) -> None:
        """Write the input of a run that reads `files` files in all, or all there are, and add it to the history."""
        files = len(self.files) if files is None else files
        if self._uses_wall_clock:
            self.history.append(RunStarted(clock=round(self.clock_hours * _HOUR)))
        for number in range(self._written, files):
            write(self._folder, number, self.files[number])
        self.history += self.files[self.read : files]
        self._written, self.read = max(self._written, files), files

    def note_written(self) -> None:
        """Note that a program has written the next file; the history does not have it yet."""
        self._written += 1

    def note_jump(self, hours: float) -> None:
        """Note that the clock of a running process jumped by these hours, and that the next file was read then."""
        self.clock_hours += hours
        self.note_written()
        self.write(self.read + 1)

    def read_again(self) -> None:
        """Take the last file back from the history: the run that should have read it has failed."""
        self.read -= 1
        self.history.pop()

    @property
    def mark(self) -> tuple[int, int]:
        """Where the history is now, for `go_back`."""
        return len(self.history), self.read

    def go_back(self, mark: tuple[int, int]) -> None:
        """Go back to where the history was: the jobs were restored."""
        length, self.read = mark
        del self.history[length:]

    @property
    def clock(self) -> dict[str, Any]:
        """The clock of the next process, as a field of its request."""
        return {"ahead_hours": self.clock_hours} if self._uses_wall_clock else {}
