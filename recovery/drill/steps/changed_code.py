"""The jobs of a scenario when they are started with other code than that of their unfinished batch.

The code is changed by one more `reject` rule each time, or by another method of the operator. A start with it is
allowed as long as no table has the unfinished batch; else it must be refused with an error that names two ways out, and
one of them is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recovery.drill.expected.history import FileArrived, HistoryEvent, OperatorChanged
from recovery.drill.faults.transactions import tables_with_batch
from recovery.drill.process.operator_file import write_operator

if TYPE_CHECKING:
    from recovery.drill.actions import ChangeCode
    from recovery.drill.faults.evidence import CheckpointEvidence
    from recovery.drill.process.launcher import Launcher

_OLD_PROGRAM = 'Start the program as it was with trigger="available_now"'


@dataclass(kw_only=True)
class ChangedCode:
    """Starts jobs with other code, and keeps from which file on each change holds.

    Attributes:
        jobs: has a folder for each job.
        job_names: names of the jobs.
        files: the input.
        launcher: starts the programs.
        evidence: of the checkpoints.
        notes: remarks for the reports of all jobs.
        not_hit: by job, why it is not confirmed that a start had an unfinished batch as it should.
    """

    jobs: Path
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
        begun, files = self.evidence.unfinished_batches(), self.evidence.committed_files()
        held = {name for name, batch in begun.items() if tables_with_batch(self.jobs / name / "checkpoint", batch)}
        old, new = self._code, self._change(action, files)
        errors = self.launcher.run_for_errors(do="run", **new)
        for name in self.job_names:
            self._check(name, errors.get(name), begun.get(name), is_held=name in held)
            if (name in held) != (action.way is not None):
                had = "had" if name in held else "had not"
                self.not_hit.setdefault(name, f"a table {had} the unfinished batch when the code was changed")
        refused = tuple(name for name in self.job_names if name in errors)
        if refused and action.way == "old program":
            self.launcher.run(do="run", job_names=refused, **old)
        elif refused and action.way == "accept":
            accepted = {name: begun[name] for name in refused if name in begun}
            self.launcher.run(do="run", job_names=refused, accepted_batches=accepted, **new)
        if refused and (action.way == "old program" or action.what == "operator"):  # the tables had the batch
            files |= {name: done for name, done in self.evidence.committed_files().items() if name in refused}
        self._note_change(action, new, files)
        self.launcher.set_for_all(**new)
        self.notes.append(f"{len(refused)} of {len(self.job_names)} starts refused")

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
        value = self._next_value(files, occurs=action.way != "accept")
        return self._code | {"rejected_values": (*self._values, value)}

    def _note_change(self, action: ChangeCode, new: dict[str, Any], files: dict[str, int]) -> None:
        """Note that the jobs have their new code from these files on."""
        if action.what == "operator":
            self._operator_files = self._operator_files[::-1]
            self._operator_changed |= {*files.items()}
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

    def _next_value(self, files: dict[str, int], *, occurs: bool) -> int:
        """Return a value that occurs in the next file of the jobs, or that does not, in no rule until now."""
        following = {row.value for number in files.values() for row in self.files[number].rows}
        later = {row.value for arrived in self.files[max(files.values()) :] for row in arrived.rows}
        return min((following if occurs else later - following) - {*self._values})

    def _check(self, name: str, error: str | None, batch: int | None, *, is_held: bool) -> None:
        wrong = None
        if error is None:
            wrong = f"batch {batch}, which a table has, was run again by other code" if is_held else None
        elif not is_held:
            wrong = f"changed code was refused, although no table has an unfinished batch: {error}"
        elif _OLD_PROGRAM not in error or f"accept_changed_code={batch}" not in error:
            wrong = f"the error does not name the ways out: {error}"
        if wrong is not None:
            self.launcher.failed.setdefault(name, wrong)
