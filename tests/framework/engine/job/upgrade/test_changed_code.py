"""Whether a start may run an unfinished batch again, by its code and tables, and by what else may still write it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from framework.declarations.errors import CheckpointInUse, CorruptState, IncompatibleCheckpoint
from framework.engine.job.lease import Lease, acquire
from framework.engine.job.upgrade.changed_code import begin_with_code
from state.checkpoint.folder import LocalFolder
from state.checkpoint.job_record import JobRecord, write_tables
from state.checkpoint.layout import CODE_FILE, RUNNING_FILE, UNACCOUNTED_FILE, claim_file
from state.checkpoint.owner import LeaseOwner, read_owner
from state.checkpoint.run_record import read_code, write_code

OLD = {"panekeeper": "0.1.0", "reject": [], "operator Spread": "code:1", "operator Spread.limit": 5}
NEW = OLD | {"reject": [["odd", "value = 1"]], "operator Spread": "code:2"}
RECORD = JobRecord(name="readings", id="0123456789ab", declaration={}, group_ids=(0,), epoch=2, versions={})


class Start:
    """Starts on one checkpoint, with these numbers in Spark's logs and transactions in the tables."""

    def __init__(self, path: Path, *, begun: int | None = 7, committed: int = 6) -> None:
        self.folder = LocalFolder(path)
        self.tables: dict[str, str | None] = {"log": "/log", "view": "/view", "quarantine": None}
        self.transactions = {"/log": 6, "/view": 6}
        for log, last in (("offsets", begun), ("commits", committed)):
            if last is not None:
                self.folder.write_json(f"{log}/{last}", {})

    def __call__(self, code: dict[str, Any], *, has_sink: bool = False, accepted: int | None = None) -> None:
        """Start, and end after no batch."""
        lease = acquire(self.folder, "readings")
        try:
            self.begin(lease, code, has_sink=has_sink, accepted=accepted)
        except BaseException:
            lease.roll_back()
            raise
        lease.release("ended")

    def begin(self, lease: Lease, code: dict[str, Any], *, has_sink: bool = False, accepted: int | None = None) -> None:
        """The part of a start that concerns the code."""
        begin_with_code(
            self.folder,
            RECORD,
            code,
            self.tables,
            lease=lease,
            last_transaction=self.last_transaction,
            has_sink=has_sink,
            accepted=accepted,
        )

    def last_transaction(self, path: str, app: str) -> int:
        """The last batch that a table has of this epoch."""
        return self.transactions[path] if app.endswith("ab#2") else -1


def test_a_batch_that_a_table_has_takes_no_other_code(tmp_path: Path) -> None:
    """The error names the table, each change, and both ways out; what is recorded stays the old code."""
    start = Start(tmp_path)
    start(OLD)
    start.transactions["/log"] = 7
    start(OLD)
    with pytest.raises(IncompatibleCheckpoint) as refused:
        start(NEW)
    assert "batch 7 of job 'readings'" in str(refused.value)
    assert "the log has it already" in str(refused.value)
    assert "\n  reject: [] in the checkpoint, [['odd', 'value = 1']] now\n  operator Spread: changed\n" in str(
        refused.value
    )
    assert 'trigger="available_now"' in str(refused.value)
    assert "accept_changed_code=7" in str(refused.value)
    assert read_code(start.folder) == OLD


def test_one_may_insist_for_one_batch_only(tmp_path: Path) -> None:
    """The number of another batch changes nothing; afterwards the new code is what counts."""
    start = Start(tmp_path)
    start(OLD)
    start.transactions["/view"] = 7
    for other in (6, 8, 0):
        with pytest.raises(IncompatibleCheckpoint, match="the view has it"):
            start(NEW, accepted=other)
    start(NEW, accepted=7)
    with pytest.raises(IncompatibleCheckpoint):
        start(OLD)


def test_other_code_runs_where_no_table_has_the_batch(tmp_path: Path) -> None:
    """A function that raises can be corrected; but it is not known which batches a sink of the user's own has."""
    start = Start(tmp_path)
    start(OLD)
    with pytest.raises(IncompatibleCheckpoint, match="perhaps your own sink has it"):
        start(NEW, has_sink=True)
    start(NEW)
    assert read_code(start.folder) == NEW


@pytest.mark.parametrize(("begun", "committed"), [(None, None), (6, 6)])
def test_other_code_runs_after_a_committed_batch(tmp_path: Path, begun: int | None, committed: Any) -> None:
    """Or on a new checkpoint."""
    start = Start(tmp_path, begun=begun, committed=committed)
    start(OLD)
    start.transactions["/log"] = 7
    start(NEW, has_sink=True)
    assert read_code(start.folder) == NEW | {"has a sink of its own": True}


def test_a_checkpoint_without_a_record_of_the_code_takes_any(tmp_path: Path) -> None:
    """As one of an earlier version; a damaged record is an error with the command that repairs it."""
    start = Start(tmp_path)
    start.transactions["/log"] = 7
    start(NEW)
    (tmp_path / CODE_FILE).write_text("{")
    with pytest.raises(CorruptState, match="panekeeper repair"):
        start(NEW)


def test_a_batch_that_a_table_has_goes_to_no_other_table(tmp_path: Path) -> None:
    """It would be in both. Another spelling is the same table, and one that has not got the batch may be left out."""
    start = Start(tmp_path)
    write_tables(start.folder, start.tables)
    start(OLD)
    start.transactions |= {"/log": 7, "/new": -1}
    start.tables["log"] = "file:/log"
    start.transactions["file:/log"] = 7
    start(OLD)
    start.tables["log"] = "/new"
    for code in (OLD, NEW):
        with pytest.raises(IncompatibleCheckpoint, match="the log /log has it already, and this start"):
            start(code)
    start(OLD, accepted=7)
    start.tables |= {"log": "/log", "view": None}
    start(OLD)
    start.folder.write_json("commits/7", {})
    start.tables["log"] = "/new"
    start(NEW)


def test_a_table_that_has_a_batch_is_not_left_out_before_it_is_finished(tmp_path: Path) -> None:
    """By other code it could have a row that is in the quarantine then, and skip the one that comes with its number."""
    start = Start(tmp_path)
    write_tables(start.folder, start.tables)
    start(OLD)
    start.transactions["/view"] = 7
    start.tables["view"] = None
    for code in (OLD, NEW):
        with pytest.raises(IncompatibleCheckpoint, match=r"the view /view has it already, and this start .* or none"):
            start(code)
    start(NEW, accepted=7)


def test_a_sink_that_is_left_out_may_have_the_batch(tmp_path: Path) -> None:
    """As long as it is declared with the same code, it gets the batch again; a sink that is new has none."""
    start = Start(tmp_path)
    start(OLD, has_sink=True)
    start(OLD, has_sink=True)
    with pytest.raises(IncompatibleCheckpoint, match="perhaps your own sink has it already"):
        start(NEW)
    start(OLD)
    start(OLD, has_sink=True)
    start.folder.write_json("commits/7", {})
    start(NEW)


def seem_lost(start: Start, batch: int = 7) -> None:
    """Let the process that holds the lease be one of another host, which has sent no heartbeat for a minute.

    It had begun this batch.
    """
    owner = read_owner(start.folder)
    assert owner is not None
    start.folder.write_json(f"offsets/{batch}", {}, replace=True)
    start.folder.remove(claim_file(owner.claim))  # first: without a claim, no heartbeat writes the other file again
    start.folder.write_json(RUNNING_FILE, asdict(replace(owner, host="elsewhere", seen=0)), replace=True)


def started(start: Start, code: dict[str, Any]) -> Lease:
    """A start that goes on to run batches."""
    lease = acquire(start.folder, "readings")
    start.begin(lease, code)
    return lease


def test_a_start_that_has_lost_its_lease_records_nothing(tmp_path: Path) -> None:
    """It was paused before it recorded its code; the job that has taken over runs with other code."""
    start = Start(tmp_path)
    late = acquire(start.folder, "readings")
    seem_lost(start)
    running = started(start, OLD)
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        start.begin(late, NEW)
    assert read_code(start.folder) == OLD
    running.release("ended")


def test_code_that_a_lost_start_has_recorded_is_not_taken_for_that_of_the_last_run(tmp_path: Path) -> None:
    """It was paused between the look at its lease and the write: whoever starts next does not know the code."""
    start = Start(tmp_path)
    start(OLD)
    late = acquire(start.folder, "readings")
    seem_lost(start, batch=6)
    running = started(start, OLD)
    write_code(start.folder, NEW, late.token)
    start.transactions["/log"] = 7
    running.release("failed")
    for code in (OLD, NEW):
        with pytest.raises(IncompatibleCheckpoint, match="a start that had lost its lease") as refused:
            start(code)
        assert "the log has it already" in str(refused.value)
        assert "Start the program that ran last with" in str(refused.value)
    start(OLD, accepted=7)
    start(OLD)
    with pytest.raises(IncompatibleCheckpoint, match="operator Spread: changed"):
        start(NEW)


def test_the_code_is_known_after_a_start_that_was_killed_before_it_recorded_its_own(tmp_path: Path) -> None:
    """Both that one and the run before it were on other hosts, and are not known to have ended."""
    start = Start(tmp_path)
    started(start, OLD)
    start.transactions["/log"] = 7
    for _ in range(3):
        seem_lost(start)
        acquire(start.folder, "readings")
    seem_lost(start)
    start(OLD)
    with pytest.raises(IncompatibleCheckpoint, match="operator Spread: changed"):
        start(NEW)


def test_other_code_does_not_run_a_batch_that_a_paused_process_may_still_commit(tmp_path: Path) -> None:
    """No table has it yet; once it continues, a table would get it by the old code that skips it by the new one."""
    start = Start(tmp_path)
    started(start, OLD)
    seem_lost(start)
    with pytest.raises(IncompatibleCheckpoint) as refused:
        start(NEW)
    assert "operator Spread: changed" in str(refused.value)
    assert "job 'readings' (host elsewhere, process" in str(refused.value)
    assert "whose end is not known" in str(refused.value)
    assert 'Start the program as it was with trigger="available_now"' in str(refused.value)
    assert "accept_changed_code=7" in str(refused.value)
    start(OLD)
    with pytest.raises(IncompatibleCheckpoint, match="whose end is not known"):
        start(NEW)
    start(NEW, accepted=7)


def test_nor_does_it_run_to_other_tables(tmp_path: Path) -> None:
    """The row would be in both; a table more is none that the paused process writes to."""
    start = Start(tmp_path)
    write_tables(start.folder, start.tables)
    started(start, OLD)
    seem_lost(start)
    start.transactions |= {"/new": -1, "/downtime": -1}
    changes: list[tuple[dict[str, str | None], str]] = [
        ({"log": "/new"}, "log: /log in the checkpoint, /new now"),
        ({"view": None}, "view: /view in"),
    ]
    for changed, line in changes:
        before, start.tables = start.tables, start.tables | changed
        with pytest.raises(IncompatibleCheckpoint, match=f"{line}[^!]*whose end is not known"):
            start(OLD)
        start.tables = before
    start.tables["downtime"] = "/downtime"
    start(OLD)


def test_other_code_runs_where_the_process_has_ended_or_had_not_begun_the_batch(tmp_path: Path) -> None:
    """One of this host is looked up. One that was lost before the batch finds its number taken."""
    start = Start(tmp_path)
    start(OLD)
    acquire(start.folder, "readings")
    seem_lost(start, batch=6)
    (tmp_path / "offsets/7").unlink()
    second = started(start, OLD)
    start.folder.write_json("offsets/7", {})
    second.release("failed")
    start(NEW)
    lost = start.folder.read_json(UNACCOUNTED_FILE)["processes"][0]
    here = asdict(replace(LeaseOwner.of_this_process("readings"), pid=2**22))
    start.folder.write_json(UNACCOUNTED_FILE, {"processes": [lost, here | {"batch": 7}]}, replace=True)
    start(OLD)
