"""Whose lease is it: a job's of this process, of this host, of another one, of an older version?"""

from __future__ import annotations

import os
from dataclasses import asdict

import pytest

from panekeeper import CheckpointInUse
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.lease import holding, require_stopped
from panekeeper.state.checkpoint.folder import RUNNING_FILE, claim_file
from panekeeper.state.checkpoint.lease import started_at
from tests.framework.engine.job.lease_fakes import SECOND, Clock, Memory, left_by


def test_pods_with_equal_names_and_process_numbers_are_different_owners() -> None:
    """Neither is taken for this process, nor is its process looked up here: it counts as running for a minute."""
    folder, clock = Memory(), Clock(50)
    here = left_by(folder)
    acquire(folder, "second", now=clock).roll_back()
    for elsewhere in ({"boot": "another"}, {"process": "another", "boot": "another"}):
        folder.write_json(RUNNING_FILE, asdict(here) | elsewhere, replace=True)
        with pytest.raises(CheckpointInUse, match=r"may start 60 s after its last heartbeat"):
            acquire(folder, "second", now=clock)
    folder.write_json(RUNNING_FILE, asdict(here) | {"process": "another"}, replace=True)
    with pytest.raises(CheckpointInUse, match="job 'first'"):
        acquire(folder, "second", now=Clock(10**15))


def test_a_heartbeat_in_the_future_names_the_way_out() -> None:
    """The clock of one of the two hosts is wrong, and no waiting helps: the message says what to remove, and when."""
    folder = Memory()
    left_by(folder, host="elsewhere", seen=86_400 * SECOND)
    with pytest.raises(CheckpointInUse) as raised:
        acquire(folder, "second", now=Clock(SECOND))
    assert "is of 1970-01-02T00:00:00Z, which is in the future" in str(raised.value)
    assert "If that process is gone, remove panekeeper/running.json and panekeeper/claims in memory" in str(
        raised.value
    )
    folder.remove(RUNNING_FILE)
    acquire(folder, "second", now=Clock(SECOND)).release("ended")


def test_a_claim_in_the_future_has_the_same_way_out() -> None:
    """Without the other file it says that a job is being started, which would keep others out for ever."""
    folder, way_out = Memory(), r"remove panekeeper/running\.json and panekeeper/claims in memory"
    lost = acquire(folder, "first", now=Clock(86_400 * SECOND))
    for file in (RUNNING_FILE, claim_file(1)):
        folder.write_json(file, folder.read_json(file) | {"host": "elsewhere"}, replace=True)
    with pytest.raises(SavepointRefused, match=way_out):
        require_stopped(folder, now=Clock(SECOND))
    with pytest.raises(CheckpointInUse, match=way_out):
        acquire(folder, "second", now=Clock(SECOND))
    folder.remove(RUNNING_FILE)
    with pytest.raises(CheckpointInUse, match=way_out):
        acquire(folder, "second", now=Clock(SECOND))
    folder.remove(claim_file(1))
    acquire(folder, "second", now=Clock(SECOND)).release("ended")
    lost.release("failed")


def test_where_only_the_number_of_a_process_is_known_the_way_out_is_named() -> None:
    """As on macOS: after a reboot any other process may have it, for as long as it runs."""
    folder = Memory()
    owner = left_by(folder, started=None, boot=None, process="another", pid=os.getppid())
    with pytest.raises(CheckpointInUse) as raised:
        acquire(folder, "second", now=Clock(10**15))
    assert f"If process {owner.pid} is another one now, as after a reboot, remove panekeeper/running.json and" in str(
        raised.value
    )
    left_by(folder, boot=None, process="another", pid=os.getppid(), started=started_at(os.getppid()))
    with pytest.raises(CheckpointInUse, match=r"a folder of its own\.$"):
        acquire(folder, "second", now=Clock(60))


def test_what_this_process_could_not_release_it_may_take_again() -> None:
    """A store that was away when a command ended has its lease still; the same command, run again, was refused."""
    folder = Memory()
    with holding(folder, "first", "the restore of job"):
        folder.broken = True
    folder.broken = False
    assert folder.read_json(RUNNING_FILE)["what"] == "the restore of job"
    with holding(folder, "first", "the restore of job") as lease:
        lease.require_held()
        with pytest.raises(SavepointRefused, match="is in use"):
            require_stopped(folder)


def test_a_process_of_this_machine_that_is_silent_has_a_way_out() -> None:
    """It lives, and may have lost the store when it released its lease: whether it goes on is not known here."""
    folder = Memory()
    init = {"pid": 1, "started": started_at(1), "process": "another"}
    left_by(folder, what="the restore of job", seen=0, **init)
    with pytest.raises(SavepointRefused, match=r"no heartbeat for 100 s: if process 1 is stopped.*end that process"):
        require_stopped(folder, now=Clock(100 * SECOND))
