"""The jobs of a scenario when they are started with other code than that of their unfinished batch.

The code is changed by one more `reject` rule each time, or by another method of the operator. No such start may be
refused. An unfinished batch that is recorded is completed as its old code has computed it; else the new code runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration_tests.drills.expected.history import FileArrived, HistoryEvent, OperatorChanged
from integration_tests.drills.process.operator_file import write_operator

if TYPE_CHECKING:
    from integration_tests.drills.actions import ChangeCode
    from integration_tests.drills.faults.evidence import CheckpointEvidence
    from integration_tests.drills.process.launcher import Launcher


@dataclass(kw_only=True)
class ChangedCode:
    """Starts jobs with other code, and keeps from which file on each change holds.

    Attributes:
        job_names: names of the jobs.
        files: the input.
        launcher: starts the programs.
        evidence: of the checkpoints.
        notes: remarks for the reports of all jobs.
        not_hit: by job, why it is not confirmed that a start had an unfinished batch as it should.
    """

    job_names: tuple[str, ...]
    files: Sequence[FileArrived]
    launcher: Launcher
    evidence: CheckpointEvidence
    notes: list[str]
    not_hit: dict[str, str]
    _values: tuple[int, ...] = ()
    _operator_files: tuple[Path, ...] = ()
    _since: dict[tuple[str, int], int] = field(default_factory=dict)
    _operator_changed: set[tuple[str, int]] = field(default_factory=set)

    def use_operator_files(self, folder: Path) -> None:
        """Let the jobs have an operator whose code is in a file of its own, from their first run on.

        Args:
            folder: a new folder for the file, and for the one with the changed code.
        """
        folder.mkdir()
        self._operator_files = (folder / "positive.py", folder / "negative.py")
        for is_negative, path in enumerate(self._operator_files):
            write_operator(path, is_negative=bool(is_negative))
        self.launcher.set_for_all(**self._code)

    def start(self, action: ChangeCode) -> None:
        """Start the jobs with other code, until they have read the input that is there.

        Raises:
            FaultNotConfirmed: a program failed.
        """
        committed, decided = self.evidence.committed_files(), self.evidence.decided_files()
        new = self._change(action, committed)
        self.launcher.run(do="run", **new)
        for name in self.job_names if action.keeps is not None else ():
            if (decided[name] > committed[name]) != action.keeps:
                what = "was not" if action.keeps else "was"
                self.not_hit.setdefault(name, f"the unfinished batch {what} recorded when the code was changed")
        self._note_change(action, new, decided)
        self.launcher.set_for_all(**new)

    def history_of(self, name: str, history: Sequence[HistoryEvent]) -> tuple[HistoryEvent, ...]:
        """Return the history of a job, with the changes of its operator and without the rows that its rules rejected.

        Args:
            name: of the job.
            history: of all jobs.
        """
        return tuple(
            event
            for one in history
            for event in (self._with_changes(name, one) if isinstance(one, FileArrived) else (one,))
        )

    @property
    def _code(self) -> dict[str, Any]:
        """The code of the jobs, as fields of a request."""
        operator = str(self._operator_files[0]) if self._operator_files else None
        return {"rejected_values": self._values, "operator_file": operator}

    def _change(self, action: ChangeCode, files: dict[str, int]) -> dict[str, Any]:
        if action.what == "operator":
            return self._code | {"operator_file": str(self._operator_files[1])}
        return self._code | {"rejected_values": (*self._values, self._next_value(files))}

    def _note_change(self, action: ChangeCode, new: dict[str, Any], files: dict[str, int]) -> None:
        """Note that the jobs have their new code from these files on."""
        if action.what == "operator":
            self._operator_files = self._operator_files[::-1]
            self._operator_changed ^= {*files.items()}  # two changes before a file undo each other
            self.notes.append("the operator changed")
        else:
            self._values = new["rejected_values"]
            self._since |= {(name, self._values[-1]): first for name, first in files.items()}
            self.notes.append(f"rows with value {self._values[-1]} rejected")

    def _with_changes(self, name: str, arrived: FileArrived) -> tuple[HistoryEvent, ...]:
        number = self.files.index(arrived)
        rejected = {value for value in self._values if self._since[name, value] <= number}
        kept = replace(arrived, rows=tuple(row for row in arrived.rows if row.value not in rejected))
        return (OperatorChanged(), kept) if (name, number) in self._operator_changed else (kept,)

    def _next_value(self, files: dict[str, int]) -> int:
        """Return a value that occurs in the next file of the jobs, that of the unfinished batch, in no rule until now.

        Args:
            files: by job, how many files it has committed.
        """
        following = {row.value for number in files.values() for row in self.files[number].rows}
        return min(following - {*self._values})
