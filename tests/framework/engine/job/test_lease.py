"""One job at a time on one checkpoint: which start is refused, and what the next job reads of the last one."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

from panekeeper import CheckpointError, CheckpointInUse
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.state.checkpoint.folder import CLAIMS_FOLDER, RUNNING_FILE, STOPPED_FILE, claim_file
from panekeeper.state.checkpoint.lease import PreviousRun, is_alive, read_owner, started_at
from tests.framework.engine.job.lease_fakes import SECOND, Clock, Memory, left_by, watching


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Another process, which lives until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def test_a_process_is_distinguished_from_a_later_one_with_its_number(process: subprocess.Popen[bytes]) -> None:
    """Alive with its own start time or with none known; not with another one, and not once it has ended."""
    started = started_at(process.pid)
    assert is_alive(process.pid, started)
    assert is_alive(process.pid, None)
    if started is not None:
        assert not is_alive(process.pid, started - 1)
    process.kill()
    process.wait()
    assert not is_alive(process.pid, started)
    assert not is_alive(process.pid, None)


def test_a_start_is_refused_while_the_process_of_the_owner_runs(process: subprocess.Popen[bytes]) -> None:
    """The refusal names the job, the machine, the process and since when, and says what to do; nothing is changed."""
    folder = Memory()
    first = left_by(folder, pid=process.pid, started=started_at(process.pid), since=86_400 * SECOND)
    files = dict(folder.files)
    with pytest.raises(CheckpointInUse) as raised:
        acquire(folder, "second", now=Clock(10**15))
    text = str(raised.value)
    assert f"job 'first' (host {first.host}, process {process.pid}, since 1970-01-02T00:00:00Z) runs on" in text
    assert "panekeeper drain memory" in text
    assert folder.files == files


def test_a_crashed_process_is_followed_and_its_last_heartbeat_is_reported(process: subprocess.Popen[bytes]) -> None:
    """A crash leaves its lease; the next job takes it over at once and reads the time of its last heartbeat."""
    folder = Memory()
    left_by(folder, pid=process.pid, started=started_at(process.pid), since=3, seen=9)
    process.kill()
    process.wait()
    lease = acquire(folder, "second", now=Clock(20))
    assert lease.previous == PreviousRun(name="first", since_us=3, seen_us=9, clean=False)
    owner = read_owner(folder)
    assert owner is not None
    assert (owner.name, owner.since, owner.seen) == ("second", 20, 20)
    lease.release("ended")


@pytest.mark.parametrize("elsewhere", [{"host": "elsewhere"}, {"space": "pid:[1]"}], ids=["machine", "container"])
@pytest.mark.parametrize(("silent", "refused"), [(60, True), (61, False)])
def test_a_job_on_another_host_counts_as_crashed_after_a_minute_without_heartbeat(
    silent: int,
    refused: bool,  # noqa: FBT001
    elsewhere: dict[str, str],
) -> None:
    """Its process cannot be looked up from this host; a running job writes a heartbeat every few seconds."""
    folder = Memory()
    left_by(folder, seen=5 * SECOND, **elsewhere)
    clock = Clock((5 + silent) * SECOND)
    if refused:
        with pytest.raises(CheckpointInUse, match="job 'first'"):
            acquire(folder, "second", now=clock, watch=watching())
    else:
        acquire(folder, "second", now=clock, watch=watching()).release("ended")


@pytest.mark.parametrize("ends", [False, True], ids=["lives", "ends"])
def test_a_start_whose_clock_is_ahead_takes_over_no_job_that_lives(*, ends: bool) -> None:
    """By this clock the last heartbeat is old, but another one comes while the start watches; or the job ends."""
    folder = Memory()
    owner = left_by(folder, host="elsewhere", seen=5 * SECOND)

    def beat(second: int) -> None:
        if second == 5 and ends:
            folder.remove(RUNNING_FILE)
        elif second == 5:
            folder.write_json(RUNNING_FILE, asdict(replace(owner, seen=10 * SECOND)), replace=True)

    with pytest.raises(CheckpointInUse, match="job 'first'"):
        acquire(folder, "second", now=Clock(3600 * SECOND), watch=watching(beat))
    if ends:
        acquire(folder, "second", now=Clock(3600 * SECOND), watch=watching()).release("ended")


def test_in_one_process_the_job_itself_says_whether_it_has_ended() -> None:
    """While it runs the second start is refused; once it has ended, even unnoticed, the next one starts."""
    folder, clock, state = Memory(), Clock(7), ["running"]
    first = acquire(folder, "first", now=clock)
    first.set_job(lambda: None if state == ["running"] else state[0])
    with pytest.raises(CheckpointInUse, match="job 'first'"):
        acquire(folder, "second", now=clock)

    first.set_previous(None)
    state[0], clock.us = "failed", 8
    second = acquire(folder, "second", now=clock)
    assert second.previous == PreviousRun(name="first", since_us=7, seen_us=8, clean=False)
    assert folder.read_json(STOPPED_FILE)["state"] == "failed"
    second.release("ended")


def test_an_end_records_when_and_how_and_what_was_left_open() -> None:
    """The lease is gone, `stopped.json` is there, and the next job reads that the end was clean."""
    folder, clock = Memory(), Clock(1)
    first = acquire(folder, "first", now=clock)
    assert first.previous is None
    first.set_previous(None)
    first.set_report(lambda: {"batch": 4, "open": {"panes": 2}})
    clock.us = 5
    first.release("flushed")
    first.release("ended")

    assert not folder.exists(RUNNING_FILE)
    assert folder.names(CLAIMS_FOLDER) == []
    stopped = folder.read_json(STOPPED_FILE)
    assert stopped.pop("token")
    assert stopped == {
        "at": 5,
        "state": "flushed",
        "name": "first",
        "since": 1,
        "has_run": True,
        "before": None,
        "batch": 4,
        "open": {"panes": 2},
    }
    second = acquire(folder, "second", now=clock)
    assert second.previous == PreviousRun(name="first", since_us=1, seen_us=5, clean=True)
    second.release("ended")


def test_a_job_that_has_ended_may_take_its_lease_again_and_crash_with_it() -> None:
    """A flush starts an ended job once more; a clean end before does not hide the crash after it."""
    folder, clock = Memory(), Clock(1)
    lease = acquire(folder, "first", now=clock)
    lease.set_previous(None)
    lease.release("ended")
    clock.us = 10
    lease.acquire()
    lease.acquire()
    crashed = folder.files[RUNNING_FILE]
    lease.roll_back()
    folder.files[RUNNING_FILE] = crashed

    second = acquire(folder, "second", now=clock)
    assert second.previous == PreviousRun(name="first", since_us=10, seen_us=10, clean=False)
    second.release("ended")


def test_a_start_that_fails_leaves_what_was_there() -> None:
    """The last heartbeat of a crashed job outlives a start with a wrong declaration."""
    folder = Memory()
    left_by(folder, host="elsewhere", seen=9)
    files = dict(folder.files)
    lease = acquire(folder, "second", now=Clock(100 * SECOND), watch=watching())
    lease.roll_back()
    assert folder.files == files

    empty = Memory()
    acquire(empty, "first").roll_back()
    assert empty.files == {}


def test_the_heartbeat_is_renewed_until_the_job_has_ended() -> None:
    """Each one moves `seen`; the one that finds the job ended releases the lease; the thread ends with it."""
    folder, clock, state = Memory(), Clock(1), ["running"]
    before = set(threading.enumerate())
    lease = acquire(folder, "first", now=clock)
    (renewing,) = set(threading.enumerate()) - before
    lease.set_job(lambda: None if state == ["running"] else state[0])
    clock.us = 6
    lease.renew()
    owner = read_owner(folder)
    assert owner is not None
    assert (owner.since, owner.seen) == (1, 6)

    state[0] = "ended"
    lease.renew()
    assert not folder.exists(RUNNING_FILE)
    renewing.join(timeout=30)
    assert renewing.daemon
    assert not renewing.is_alive()


def test_a_disk_that_is_gone_fails_neither_the_job_nor_its_end() -> None:
    """Releasing a lease never raises: it must not hide how the job has ended."""
    folder = Memory()
    lease = acquire(folder, "first")
    folder.broken = True
    lease.release("ended")
    folder.broken = False
    acquire(folder, "second").roll_back()


def test_a_folder_that_cannot_be_written_is_named() -> None:
    """Before anything else is done with it."""
    folder = Memory()
    folder.broken = True
    with pytest.raises(CheckpointError, match="memory cannot be written: the disk is gone"):
        acquire(folder, "first")


def test_a_damaged_lease_refuses_the_start() -> None:
    """It may be the lease of a running job; the message says when the file may be removed."""
    folder = Memory()
    folder.files[RUNNING_FILE] = '{"name": "first"}'
    with pytest.raises(CheckpointError, match="if you are sure that no job runs there"):
        acquire(folder, "second")


def test_a_start_that_crashed_blocks_no_later_one() -> None:
    """The claim of a start that got no further is left behind: it counts until it is as old as a lease may be."""
    folder = Memory()
    starter = left_by(folder, host="elsewhere", seen=0)
    folder.files[claim_file(4)] = folder.files.pop(RUNNING_FILE)
    with pytest.raises(CheckpointInUse, match=f"job '{starter.name}' .* is being started"):
        acquire(folder, "second", now=Clock(SECOND))
    folder.files[claim_file(5)] = ""
    acquire(folder, "second", now=Clock(61 * SECOND)).release("ended")
    acquire(folder, "second", now=Clock(61 * SECOND)).release("ended")


def test_a_store_that_overwrites_what_must_be_new_is_refused() -> None:
    """There, two jobs that start at the same time would both get the lease. The refused start leaves nothing."""

    class Overwriting(Memory):
        def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
            super().write(name, content, replace=True)

    folder = Overwriting()
    with pytest.raises(CheckpointError, match="Use a store with conditional writes"):
        acquire(folder, "first")
    assert folder.files == {}
