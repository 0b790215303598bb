"""Offsets that a process wrote which had been paused: no job starts from them, and they can be set aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.lease import holding
from panekeeper.recovery.repair.repair import repair
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.checkpoint.run_record import require_logs_agree
from panekeeper.state.errors import CorruptState
from tests.recovery.conftest import FakeCheckpoint
from tests.recovery.repair.test_repair import actions, delta_log


@pytest.fixture
def stray(tmp_path: Path) -> FakeCheckpoint:
    """A job that has committed batches 0 to 2, and offsets of batch 4 with what a source had found for it."""
    job = FakeCheckpoint(str(tmp_path / "checkpoint")).run(3)
    job.tables(metrics=f"{tmp_path}/metrics")
    delta_log(tmp_path / "metrics", *range(3), role="metrics")
    require_logs_agree(job.files)
    job.put("offsets/4", job.files.read("offsets/2").decode())
    job.put("sources/0/3", job.files.read("sources/0/2").decode())
    return job


def test_a_start_is_refused_until_stray_offsets_are_set_aside(stray: FakeCheckpoint) -> None:
    """The source finds again what it had found, so nothing is read twice, and nothing is lost."""
    with pytest.raises(CorruptState, match=r"batch 4 was begun, and the last committed one is 2.*panekeeper repair"):
        require_logs_agree(stray.files)
    done = repair(stray.folder)
    assert actions(done.findings) == {"offsets/4": "set aside", "sources/0/3": "set aside"}
    assert done.is_complete
    require_logs_agree(stray.files)
    assert repair(stray.folder).findings == ()


def test_the_batch_that_the_job_has_begun_itself_is_no_stray(stray: FakeCheckpoint) -> None:
    """It is run again at the next start."""
    stray.begin()
    assert actions(repair(stray.folder).findings) == {"offsets/4": "set aside"}
    require_logs_agree(stray.files)


@pytest.mark.parametrize("why", ["state", "rows", "tables"])
def test_stray_offsets_with_which_something_was_done_are_kept(stray: FakeCheckpoint, tmp_path: Path, why: str) -> None:
    """Then commits are lost, rather than offsets too many: only a savepoint helps."""
    if why == "state":
        stray.put("state/0/0/5_u4.changelog", "x")
    elif why == "rows":
        delta_log(tmp_path / "metrics", *range(5), role="metrics")
    else:
        stray.tables(metrics=None)
    finding = next(one for one in repair(stray.folder).findings if one.file == "offsets/4")
    assert finding.action == "none"
    assert "restore the job from a savepoint" in finding.why


def test_no_job_starts_while_a_checkpoint_is_repaired(stray: FakeCheckpoint) -> None:
    """Nor is it repaired by two at once."""
    record = read_record(stray.files)
    assert record is not None
    with holding(stray.files, record.name, "the repair of"), pytest.raises(SavepointRefused, match="the repair of"):
        repair(stray.folder)
