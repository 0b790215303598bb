"""A job that was paused for longer than its lease commits nothing more."""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from panekeeper import CheckpointInUse
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.state.checkpoint.folder import CLAIMS_FOLDER, RUNNING_FILE, STOPPED_FILE, LocalFolder, claim_file
from panekeeper.state.checkpoint.lease import LeaseOwner, make_claim, read_owner
from tests.framework.engine.job.lease_fakes import watching


def started_in(folder: LocalFolder) -> tuple[Lease, LeaseOwner]:
    """A job that has just started: its lease, and what the folder says of it."""
    lease = acquire(folder, "first", now=lambda: 50)
    owner = read_owner(folder)
    assert owner is not None
    return lease, owner


def take_over(folder: LocalFolder, owner: LeaseOwner, name: str = "second") -> Lease:
    """Another job starts, for which this one has crashed on another host."""
    folder.write_json(RUNNING_FILE, asdict(replace(owner, host="elsewhere", seen=0)), replace=True)
    return acquire(folder, name, watch=watching())


def test_a_job_that_was_taken_over_may_not_commit(tmp_path: Path) -> None:
    """Before the next commit it finds the lease of another job; what that one wrote is not touched."""
    folder = LocalFolder(tmp_path)
    lease, owner = started_in(folder)
    lease.require_held()
    second = take_over(folder, owner)
    now = read_owner(folder)
    for _ in range(2):
        with pytest.raises(CheckpointInUse, match=r"job 'first' .*has lost the lease .*This batch is not committed"):
            lease.require_held()
    lease.release("failed")
    assert read_owner(folder) == now
    second.require_held()
    second.release("ended")


def test_a_heartbeat_that_was_held_up_takes_nothing_back(tmp_path: Path) -> None:
    """A process that was paused just before it wrote its heartbeat does so after another job has taken over."""
    folder = LocalFolder(tmp_path)
    lease, owner = started_in(folder)
    second = take_over(folder, owner)
    folder.write_json(RUNNING_FILE, asdict(owner), replace=True)
    second.require_held()
    with pytest.raises(CheckpointInUse, match="lost the lease"):
        lease.require_held()
    second.renew()
    held = read_owner(folder)
    assert held is not None
    assert held.name == "second"
    second.release("ended")


def test_a_start_that_was_held_up_gets_nothing_back(tmp_path: Path) -> None:
    """A start that was paused before it claimed the lease is refused, even if the number of its claim is free again."""
    folder = LocalFolder(tmp_path)
    _, owner = started_in(folder)
    third = take_over(folder, owner, "third")
    late = LeaseOwner.of_this_process("second")
    with pytest.raises(FileExistsError):
        make_claim(folder, late, after=0)
    third.require_held()
    third.release("ended")
    assert folder.names(CLAIMS_FOLDER) == []


def test_a_job_that_was_taken_over_ends_at_its_next_heartbeat(tmp_path: Path) -> None:
    """Also if it is idle, so that no batch finds it out."""
    folder, ended = LocalFolder(tmp_path), list[CheckpointInUse]()
    lease, owner = started_in(folder)
    lease.set_job(lambda: None, ended.append)
    lease.renew()
    assert not ended
    second = take_over(folder, owner)
    for _ in range(2):
        lease.renew()
    assert [str(one)[:11] for one in ended] == ["job 'first'"]
    second.release("ended")


def test_a_job_that_cannot_renew_its_lease_ends_before_another_may_take_over(tmp_path: Path) -> None:
    """One missed heartbeat is a warning; a minute of them ends the job, with the cause and what to do."""
    folder, clock, ended = LocalFolder(tmp_path), [0], list[CheckpointInUse]()
    lease = acquire(folder, "first", now=lambda: clock[0])
    lease.set_job(lambda: None, ended.append)
    for seconds in (5, 60, 61, 66):
        lease.require_held()
        clock[0] = seconds * 1_000_000
        lease.expire_after(OSError("the disk is gone"))
        if ended:
            break
    assert seconds == 61
    assert "could not renew its lease" in str(ended[0])
    assert "for 61 s (the disk is gone)" in str(ended[0])
    with pytest.raises(CheckpointInUse, match="start it again"):
        lease.require_held()
    lease.release("failed")
    assert folder.read_json(STOPPED_FILE)["state"] == "failed"
    acquire(folder, "first").release("ended")


def test_a_job_whose_checkpoint_was_replaced_may_not_commit(tmp_path: Path) -> None:
    """A restore puts another folder in place, in which no job holds a lease."""
    folder = LocalFolder(tmp_path / "checkpoint")
    lease, _ = started_in(folder)
    shutil.rmtree(folder.path)
    with pytest.raises(CheckpointInUse, match="another job or a restore has taken over"):
        lease.require_held()


def test_a_job_that_cannot_read_its_lease_may_not_commit(tmp_path: Path) -> None:
    """While the folder cannot be read, it is not known whether another job has taken over."""
    folder = LocalFolder(tmp_path)
    lease, _ = started_in(folder)
    (tmp_path / claim_file(1)).unlink()
    (tmp_path / claim_file(1)).mkdir()
    with pytest.raises(OSError, match="directory"):
        lease.require_held()
    lease.release("failed")


def test_a_claim_whose_response_the_store_has_lost_is_this_starts_own(tmp_path: Path) -> None:
    """The request was repeated, and the name was taken by then: the start refused itself, and said to stop itself."""

    class Repeating(LocalFolder):
        def write_json(self, name: str, value: Any, *, replace: bool = False) -> None:
            super().write_json(name, value, replace=replace)
            if name == claim_file(1) and not replace:
                raise FileExistsError(name)

    lease = acquire(Repeating(tmp_path), "first")
    lease.require_held()
    with pytest.raises(CheckpointInUse):
        acquire(LocalFolder(tmp_path), "second")
    lease.release("ended")
