"""May a batch that was begun be run again by the code, and to the tables, of this start?

A batch is several commits, one a table. A crash between two of them leaves a batch that some tables have and others do
not; it is run again, and the tables that have it skip it. With other code it would be computed otherwise: a row that
was a result may be refused now, and would be in the log and in the quarantine, or in neither. So such a start is
refused. While no table has the batch, it is run again with whatever code there is: a function that raises can be
corrected. A batch that a table has and the checkpoint has not begun is refused with any code (`table_record.py`). Nor
may a start leave out a table that has the batch, or declare another one in its place: both would have it. Of a sink of
the user's own nobody knows whether it has the batch, so it counts as one that has it, also once it is left out.

No table may have the batch yet, and get it still: from the process that has begun it, if that is paused just before a
commit. The table skips what comes second, but only if it gets the batch from both: a row may be a result for one and
refused by the other. So as long as such a process is not known to have ended, other code is refused, too.

A start that was paused until another process took over has lost its lease, and may yet record its code if it was
paused at that very moment. So the code is recorded with the start that it is of. If that is a lost one, and not the
one that ran last, it is not known by which code the batch was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import IncompatibleCheckpoint
from framework.engine.sources.plan import STARTING
from state.checkpoint.claims import read_unaccounted, unaccounted_after
from state.checkpoint.clock import now_us
from state.checkpoint.fingerprint import Difference, compare
from state.checkpoint.folder import place_of
from state.checkpoint.job_record import read_tables
from state.checkpoint.layout import CODE_FILE
from state.checkpoint.run_record import last_batches, read_code, read_coder, write_code
from state.code_digest import PREFIX
from state.log import logger
from state.spark_logs.lines import LogFolder
from state.spark_logs.offsets import NO_OFFSET, offset_lines

if TYPE_CHECKING:
    from framework.engine.job.lease import Lease
    from state.checkpoint.folder import CheckpointFolder
    from state.checkpoint.job_record import JobRecord
    from state.checkpoint.owner import LeaseOwner

_log = logger("job")
_SINK = "has a sink of its own"
"""Recorded with the code where that is so."""


def begin_with_code(
    folder: LogFolder,
    record: JobRecord,
    code: Mapping[str, Any],
    tables: Mapping[str, str | None],
    *,
    lease: Lease,
    last_transaction: Callable[[str, str], int],
    has_sink: bool,
    accepted: int | None,
) -> None:
    """Record the code of a run before its first batch, unless an unfinished batch needs the code of the last run.

    Args:
        folder: the job's checkpoint.
        record: what the checkpoint says of the job.
        code: what decides the fate of a row, by field.
        tables: role -> path of the job's tables.
        lease: of this start.
        last_transaction: returns the last version that a table has of a transaction id; -1 for none.
        has_sink: the job has a sink of the user's own now.
        accepted: number of the batch that the user wants to be run again with changed code.

    Raises:
        IncompatibleCheckpoint: the code or a table is another one, and a table has a batch that is not finished, or may
            get it yet.
        CheckpointInUse: the lease is lost; nothing is recorded.
    """
    lease.require_held()  # what a job that has taken over does is no concern of this start
    begun, committed = last_batches(folder)
    had_sink = False
    if begun is not None and begun != committed:
        stored, is_known = read_code(folder), _is_known(folder, lease.coders)
        # Of the lost start that has recorded its code last nobody knows whether the one that ran had a sink.
        had_sink = stored is not None and (bool(stored.pop(_SINK, False)) or not is_known)
        lines = _changes(folder, begun, stored or code, code) if is_known or stored is None else [_UNKNOWN]
        batch = _Unfinished(folder=folder, record=record, number=begun, lines=lines, is_known=is_known)
        batch.require_fit(tables, last_transaction, has_sink=has_sink or had_sink, is_accepted=accepted == begun)
    lease.require_held()
    write_code(folder, {**code, _SINK: True} if has_sink or had_sink else code, lease.token)
    lease.note_code()


_UNKNOWN = (
    f"the code of the last run is not known: a start that had lost its lease, and was paused, has written {CODE_FILE}"
)


def _is_known(folder: CheckpointFolder, coders: Collection[str]) -> bool:
    """Return whether the recorded code is that of the last run, and not of a start which had lost its lease."""
    coder = read_coder(folder)
    return coder is None or coder in coders or coder not in [one["token"] for one in read_unaccounted(folder)]


@dataclass(frozen=True, kw_only=True)
class _Unfinished:
    """A batch that is not finished.

    Attributes:
        folder: the checkpoint.
        record: what it says of the job.
        number: of the batch.
        lines: what has changed in the code since, for messages.
        is_known: whether the code is known by which it was computed.
    """

    folder: CheckpointFolder
    record: JobRecord
    number: int
    lines: list[str]
    is_known: bool

    def require_fit(
        self,
        tables: Mapping[str, str | None],
        last_transaction: Callable[[str, str], int],
        *,
        has_sink: bool,
        is_accepted: bool,
    ) -> None:
        """Raise `IncompatibleCheckpoint` if code or tables are other ones, and what there is of the batch may not fit.

        Args:
            tables: of this start.
            last_transaction: as for `begin_with_code`.
            has_sink: a sink of the user's own may have the batch.
            is_accepted: the user wants it to be run again in any case.
        """

        def has_it(role: str, path: str) -> bool:
            return last_transaction(path, self.record.transaction(role)) >= self.number

        now = {role: path for role, path in tables.items() if path is not None}
        places = {role: place_of(path) for role, path in now.items()}
        left = {role: path for role, path in read_tables(self.folder).items() if places.get(role) != place_of(path)}
        if not is_accepted:
            self._require_no_table([f"the {role} {left[role]}" for role in sorted(left) if has_it(role, left[role])])
        having = [f"the {role}" for role, path in now.items() if has_it(role, path)] if self.lines else []
        if self.lines and not having and has_sink:
            having = ["perhaps your own sink"]
        if having and not is_accepted:
            raise self._refusal(having)
        if having:
            what = "; ".join(self.lines)
            _log.warning("batch %d of job %s is run again with changed code: %s", self.number, self.record.name, what)
        moved = [f"{role}: {path} in the checkpoint, {now.get(role, 'none')} now" for role, path in left.items()]
        if (self.lines or moved) and not is_accepted:
            self._require_no_writer([*self.lines, *moved])

    def _require_no_table(self, having: list[str]) -> None:
        if having:
            raise IncompatibleCheckpoint(
                f"{self} is not finished, but {', '.join(having)} has it already, and this start declares another "
                "one, or none: rows would be in both; or, by other code, twice or nowhere. Start the program as it was "
                'with trigger="available_now", which finishes the batch; then start this one. If that cannot be, '
                f"start(..., accept_changed_code={self.number}) writes the batch to the tables of now, too"
            )

    def _require_no_writer(self, lines: list[str]) -> None:
        """Refuse if a process that has begun the batch may only be paused, and commit it after all."""
        lost = [one for one in unaccounted_after(self.folder, self.number) if not _has_ended(one)]
        if lost:
            raise IncompatibleCheckpoint(
                f"{self} is not finished, and code or tables have changed since:\n{_listed(lines)}\n"
                f"It was begun when {'; '.join(map(str, lost))} ran here, whose end is not known: if that process is "
                "only paused, and continues, it still writes the batch as it was then to tables that do not have it, "
                f"and rows could be missing, or be there twice. {self._advice()} If that process has ended for "
                f"certain, start(..., accept_changed_code={self.number}) runs the batch with what is declared now"
            )

    def _refusal(self, having: list[str]) -> IncompatibleCheckpoint:
        have, others = ", ".join(having), f"start(..., accept_changed_code={self.number})"
        what = "the code has changed since" if self.is_known else "its code may have changed since"
        return IncompatibleCheckpoint(
            f"{self} is not finished, but {have} has it already, and {what}:\n{_listed(self.lines)}\n"
            f"Computed by other code, the rest of the batch would not fit: rows could be missing, or be there twice. "
            f"{self._advice()} If the old program is gone, {others} finishes the batch with the code as it is: what "
            f"{have} has of it stays, and rows whose fate has changed are missing or doubled"
        )

    def _advice(self) -> str:
        program, how = "the program as it was", 'trigger="available_now"'
        if not self.is_known:
            program, how = "the program that ran last", f"{how} and accept_changed_code={self.number}"
        return f"Start {program} with {how}, which finishes the batch; then start this one."

    def __str__(self) -> str:
        return f"batch {self.number} of job {self.record.name!r} in {self.folder.root}"


def _has_ended(owner: LeaseOwner) -> bool:
    return owner.is_on_this_machine and not owner.is_alive(now_us())


def _listed(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def _changes(folder: LogFolder, batch: int, stored: Mapping[str, Any], code: Mapping[str, Any]) -> list[str]:
    return [_line(one) for one in compare(stored, code) if _counts(one, folder, batch)]


def _counts(difference: Difference, folder: LogFolder, batch: int) -> bool:
    """Return whether a difference may change the rows of a batch: where a source begins only counts until it has."""
    if not difference.field.endswith(STARTING):
        return True
    return batch == 0 or NO_OFFSET in offset_lines(folder, batch - 1)


def _line(difference: Difference) -> str:
    values = (difference.old, difference.new)
    if all(isinstance(one, str) and one.startswith(PREFIX) for one in values):
        return f"{difference.field}: changed"
    return str(difference)
