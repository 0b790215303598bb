"""Which declaration the state is of, where a process was paused and another start has changed the declaration (A2, A9).

Host A runs the declaration `OLD`. It is paused after the look at its lease, in the write of the record of batch 8. Host
B takes over with `NEW`, which has one more aggregate, and records that as of batch 7. A's record comes after that, on a
store that is not asked whether its name is free in one step with the write; else B has taken the name.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.framework.engine.job import declaration_record
from panekeeper.framework.engine.job.batch_journal import BatchJournal
from panekeeper.framework.engine.job.declaration_record import record_as_computed, record_upgrade
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.state.checkpoint.folder import prepared_file
from panekeeper.state.checkpoint.job_record import JobRecord, last_batches, read_record, write_record
from panekeeper.state.history import History, declared_part, in_force
from panekeeper.state.prepared import PreparedBatch, prepare
from tests.framework.engine.job.test_declaration_record import Checkpoint, declared

OLD, NEW = declared(n="count"), declared(n="count", total="sum")


class TakenOver(Checkpoint):
    """The checkpoint when B has recorded its declaration; `declaration` is that with which A has begun."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, declaration: dict[str, Any] = OLD) -> None:
        super().__init__(path, declaration, begun=8)
        self.paused = self.known
        # Pane b has rows after batch b: where an aggregate begins follows from that.
        monkeypatch.setattr(declaration_record, "_last_pane", lambda *arguments: arguments[-1])
        self.taken_over = self.start(NEW)
        record_upgrade(self.files, self.taken_over)

    def record(self, batch: int, by: JobRecord, *, is_committed: bool = False) -> None:
        """Let a process record a batch, and Spark, too, if it is committed."""
        if not self.files.exists(f"offsets/{batch}"):
            self.files.write(f"offsets/{batch}", self.files.read("offsets/8"))
        prepare(self.files, PreparedBatch(number=batch, epoch=0, spark_commit="", declaration=by.declaration))
        if is_committed:
            self.commit(batch)

    def commit(self, batch: int) -> None:
        """Log the commit of a batch."""
        self.files.write_json(f"commits/{batch}", {})

    def restart(self) -> JobRecord:
        """Read the job as a start does; return its record."""
        known = read_record(self.files)
        assert known is not None
        self.known = record_as_computed(self.files, known)
        return self.known

    def after(self) -> History:
        """What a start with `NEW` records when the last batch is complete."""
        return History.of(self.start(NEW).declaration)


def test_a_batch_that_is_recorded_late_was_computed_by_the_declaration_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start that completes it takes the state for that of OLD: pane 8 has no partial results of the new aggregate.

    Had it begun at pane 8, as the start before has recorded it, a total would lack what came before.
    """
    job = TakenOver(tmp_path, monkeypatch)
    assert History.of(job.taken_over.declaration).begins == {"total": 8 * 60_000_000}
    job.record(8, by=job.paused)
    for _ in range(2):  # a start that is killed, and the next one
        found = job.restart()
        assert read_record(job.files) == found
        assert declared_part(found.declaration) == NEW
        assert in_force(found.declaration, 8) == in_force(found.declaration, 7) == OLD
    job.commit(8)
    assert job.after().begins == {"total": 9 * 60_000_000}
    assert in_force(job.restart().declaration, 8) == OLD  # also if a start is killed right after that


def test_a_start_that_has_taken_over_runs_the_batch_and_the_paused_process_is_the_one_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the name of the record before it records its declaration; killed then, the next start takes it over."""
    job = TakenOver(tmp_path, monkeypatch)
    write_record(job.files, job.paused)
    writer: Any = None
    starts = list[str]()
    for _ in range(2):
        lease = acquire(job.files, "readings")
        starts.append(lease.start)
        start = BatchJournal(files=job.files, record=job.restart(), writer=writer, lease=lease, declared={})
        assert start.complete() is None
        with pytest.raises(FileExistsError):
            job.record(8, by=job.paused)
        lease.roll_back()
    assert job.restart() == job.paused
    write_record(job.files, job.taken_over)
    batch = PreparedBatch(number=8, epoch=0, spark_commit="", declaration=job.taken_over.declaration)
    with pytest.raises(FileExistsError):
        prepare(job.files, batch, starts[0])
    prepare(job.files, batch, starts[1])
    assert job.restart() == job.taken_over
    assert in_force(job.known.declaration, 8) is job.known.declaration


def test_the_old_program_completes_it_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had been, but for the column that tables may have got."""
    job = TakenOver(tmp_path, monkeypatch)
    job.record(8, by=job.paused)
    job.restart()
    job.commit(8)
    history = History.of(job.start(OLD).declaration)
    assert history == replace(History.of(OLD), retired={"total": "int64"})


def test_a_declaration_that_is_written_late_is_not_that_of_the_batches_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start with NEW was paused in that write; the old program took over, and has run batches."""
    job = TakenOver(tmp_path, monkeypatch)
    write_record(job.files, job.paused)
    for batch in (8, 9):
        job.record(batch, by=job.paused, is_committed=True)
    write_record(job.files, job.taken_over)
    assert in_force(job.restart().declaration, 9) == OLD
    assert job.after().begins == {"total": 10 * 60_000_000}


def test_a_batch_of_the_recorded_declaration_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that took over has recorded it: the state is that of NEW from there on."""
    job = TakenOver(tmp_path, monkeypatch)
    job.record(8, by=job.taken_over)
    assert job.restart() == job.taken_over
    assert in_force(job.known.declaration, 8) is job.known.declaration
    job.commit(8)
    assert job.start(NEW) is job.known


def test_a_run_does_not_complete_what_another_declaration_has_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go on with state that is not its own. It ends and says what to do: a start completes the batch."""
    job = TakenOver(tmp_path, monkeypatch)
    lease = acquire(job.files, "readings")
    writer: Any = None
    run = BatchJournal(files=job.files, record=job.taken_over, writer=writer, lease=lease, declared={})
    job.record(8, by=job.paused)
    with pytest.raises(CheckpointInUse, match=r"batch 8 of .* was recorded by another process first: .* start the job"):
        run.complete()
    assert last_batches(job.files) == (8, 7)
    assert job.files.exists(prepared_file(0, 8))
    lease.release("failed")
