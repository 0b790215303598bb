"""A job that was paused for longer than its lease commits nothing more."""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from framework.engine.job.lease import Lease, acquire
from panekeeper import CheckpointInUse
from state.checkpoint.folder import LocalFolder
from state.checkpoint.layout import RUNNING_FILE
from state.checkpoint.owner import LeaseOwner, read_owner


def started_in(folder: LocalFolder) -> tuple[Lease, LeaseOwner]:
    """A job that has just started: its lease, and what the folder says of it."""
    lease = acquire(folder, "first", now=lambda: 50)
    owner = read_owner(folder)
    assert owner is not None
    return lease, owner


def test_a_job_that_was_taken_over_may_not_commit(tmp_path: Path) -> None:
    """Before the next commit it finds the lease of another job; what that one wrote is not touched."""
    folder = LocalFolder(tmp_path)
    lease, owner = started_in(folder)
    lease.require_held()
    other = replace(owner, name="second", token=owner.token[::-1])
    folder.write_json(RUNNING_FILE, asdict(other), replace=True)
    for _ in range(2):
        with pytest.raises(CheckpointInUse, match=r"job 'first' .*has lost the lease .*This batch is not committed"):
            lease.require_held()
    lease.release("failed")
    assert read_owner(folder) == other


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
    (tmp_path / RUNNING_FILE).unlink()
    (tmp_path / RUNNING_FILE).mkdir()
    with pytest.raises(OSError, match="directory"):
        lease.require_held()
    lease.release("failed")
