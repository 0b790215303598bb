"""Nobody takes a checkpoint over from a process that is about to change it, however long it is paused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from panekeeper import CheckpointInUse
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.state.checkpoint.claims import ChangeLock
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.layout import CLAIMS_FOLDER, LOCK_FILE, RUNNING_FILE
from panekeeper.state.checkpoint.owner import read_owner

KEEPS_LOCK = """
import sys
from pathlib import Path
from panekeeper.state.checkpoint.claims import ChangeLock
from panekeeper.state.checkpoint.folder import LocalFolder
lock = ChangeLock(LocalFolder(Path(sys.argv[1])))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


def silent_for_a_minute(folder: LocalFolder) -> None:
    """Let the owner of the lease be of another machine, and send no heartbeat: it may be taken over."""
    owner = read_owner(folder)
    assert owner is not None
    folder.write_json(RUNNING_FILE, asdict(replace(owner, host="elsewhere", seen=0)), replace=True)


def acquire_again(folder: LocalFolder) -> Lease:
    """The lease of another start."""
    return acquire(folder, "second")


def test_a_start_that_is_paused_is_not_taken_over(tmp_path: Path) -> None:
    """It may be about to remove what no batch has read. The message says what to do about it."""
    folder = LocalFolder(tmp_path)
    lease = acquire(folder, "first")
    silent_for_a_minute(folder)
    with pytest.raises(
        CheckpointInUse, match=r"job 'first' .*is just starting .*end that process.*claims/\.lock"
    ) as no:
        acquire_again(folder)
    assert str(tmp_path) in str(no.value)
    lease.require_held()
    lease.roll_back()
    assert (tmp_path / CLAIMS_FOLDER).is_dir()
    assert [*(tmp_path / CLAIMS_FOLDER).iterdir()] == []
    acquire_again(folder).release("ended")


def test_a_job_whose_query_has_begun_is_taken_over(tmp_path: Path) -> None:
    """Its batches find out before each commit; and it does not start another query."""
    folder = LocalFolder(tmp_path)
    lease = acquire(folder, "first")
    with lease.starting():
        silent_for_a_minute(folder)
        with pytest.raises(CheckpointInUse, match="is just starting"):
            acquire_again(folder)
    second = acquire_again(folder)
    with pytest.raises(CheckpointInUse, match="has lost the lease"), lease.starting():
        raise AssertionError
    second.release("ended")


def test_a_job_starts_no_query_while_it_is_taken_over(tmp_path: Path) -> None:
    """The other one has the lock, and has not claimed the lease yet."""
    folder = LocalFolder(tmp_path)
    lease, other = acquire(folder, "first"), ChangeLock(folder)
    with lease.starting():
        pass
    assert other.acquire()
    with pytest.raises(CheckpointInUse, match="is just starting"), lease.starting():
        raise AssertionError
    lease.release("ended")  # which would write over what that one finds
    assert folder.exists(RUNNING_FILE)
    other.release()


def test_a_process_that_was_killed_locks_nothing(tmp_path: Path) -> None:
    """However it ended. One that is stopped does."""
    folder = LocalFolder(tmp_path)
    command = [sys.executable, "-c", KEEPS_LOCK, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        process.send_signal(signal.SIGSTOP)
        lock = ChangeLock(folder)
        assert not lock.acquire()
        process.kill()
    assert folder.exists(LOCK_FILE)
    assert lock.acquire()
    lock.release()
    assert not folder.exists(LOCK_FILE)


def test_a_lock_whose_file_was_removed_is_another_one(tmp_path: Path) -> None:
    """As when the folder was replaced: it removes no file but its own."""
    folder = LocalFolder(tmp_path)
    first, second, third = (ChangeLock(folder) for _ in range(3))
    assert first.acquire()
    assert first.acquire()
    folder.remove(LOCK_FILE)
    assert second.acquire()
    first.release()
    assert not third.acquire()
    second.release()
    assert third.acquire()
    third.release()


def test_where_a_file_system_has_no_locks_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job starts there as well; its lease is all there is."""

    def refuse(*_: object) -> None:
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr("fcntl.flock", refuse)
    locks = [ChangeLock(LocalFolder(tmp_path)) for _ in range(2)]
    assert [lock.acquire() for lock in locks] == [True, True]
    for lock in locks:
        lock.release()
