"""One job at a time on one checkpoint: which start is refused, what the next one reads, and what a lost lease means."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from panekeeper import CheckpointError, CheckpointInUse
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.checkpoint import holding, require_stopped
from panekeeper.state.checkpoint.claims import make_claim
from panekeeper.state.checkpoint.folder import CLAIMS_FOLDER, RUNNING_FILE, STOPPED_FILE, LocalFolder, claim_file
from panekeeper.state.checkpoint.lease_owner import LeaseOwner, is_alive, read_owner, started_at
from panekeeper.state.checkpoint.runs import PreviousRun
from tests.framework.engine.job.lease_fakes import SECOND, Clock, Memory, left_by, watching

ROOT = Path(__file__).resolve().parents[4]

STARTER = """
import sys
from pathlib import Path
from panekeeper import CheckpointInUse
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.framework.engine.job.lease import acquire
print("ready", flush=True)
sys.stdin.readline()
try:
    acquire(LocalFolder(Path(sys.argv[1])), "other")
    print("won", flush=True)
except CheckpointInUse:
    print("refused", flush=True)
sys.stdin.readline()
"""


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
    with pytest.raises(CheckpointError, match="If you are sure that no job runs there"):
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


@pytest.mark.parametrize("ends", [False, True], ids=["runs", "has ended"])
def test_a_start_that_is_suspended_after_its_claim_blames_no_store(tmp_path: Path, *, ends: bool) -> None:
    """Another one takes over and removes the claim, whose name is free then, on any store. It leaves nothing behind."""

    class Suspended(LocalFolder):
        def write_json(self, name: str, value: Any, *, replace: bool = False) -> None:
            if self.exists(claim_file(1)) and not taken:
                taken.append(acquire(LocalFolder(self.path), "second"))
                if ends:
                    taken[0].release("ended")
            super().write_json(name, value, replace=replace)

    taken = list[Lease]()
    with pytest.raises(CheckpointInUse, match=r"another job has run on .* while this one was starting"):
        acquire(Suspended(tmp_path), "first")
    assert LocalFolder(tmp_path).names(CLAIMS_FOLDER) == ([] if ends else [claim_file(2).rpartition("/")[2]])
    if not ends:
        taken[0].require_held()
        taken[0].release("ended")


def test_pods_with_equal_names_and_process_numbers_are_different_owners() -> None:
    """Neither is taken for this process, nor is its process looked up here: it counts as running for a minute."""
    folder, clock = Memory(), Clock(50)
    here = left_by(folder)
    acquire(folder, "second", now=clock).roll_back()
    for elsewhere in ({"boot": "another"}, {"process": "another", "boot": "another"}):
        folder.write_json(RUNNING_FILE, asdict(here) | elsewhere, replace=True)
        with pytest.raises(CheckpointInUse, match=r"may start 1m after its last heartbeat"):
            acquire(folder, "second", now=clock)
    folder.write_json(RUNNING_FILE, asdict(here) | {"process": "another"}, replace=True)
    with pytest.raises(CheckpointInUse, match="job 'first'"):
        acquire(folder, "second", now=Clock(10**15))


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
    with pytest.raises(SavepointRefused, match=r"no heartbeat for 1m 40s: end process 1 if it is that one, else"):
        require_stopped(folder, now=Clock(100 * SECOND))


def test_of_many_starters_in_one_process_one_wins(tmp_path: Path) -> None:
    """Threads that start together: one takes the lease, all others are refused."""
    gate = threading.Barrier(8)

    def start(number: int) -> str | None:
        gate.wait()
        try:
            acquire(LocalFolder(tmp_path), f"job-{number}").set_job(lambda: None)
        except CheckpointInUse:
            return None
        return f"job-{number}"

    with ThreadPoolExecutor(8) as pool:
        winners = [name for name in pool.map(start, range(8)) if name]
    owner = read_owner(LocalFolder(tmp_path))
    assert owner is not None
    assert winners == [owner.name]


@dataclass(frozen=True)
class LetsAnotherStart(LocalFolder):
    """A folder in which another job starts after a start has found the lease free, and before it claims it."""

    reads: list[str] = field(default_factory=list)
    faster: list[Lease] = field(default_factory=list)
    ends: bool = False

    def read_json(self, name: str) -> Any:
        found = super().read_json(name)
        if name == STOPPED_FILE:  # read twice to find the lease free, once for the run before
            self.reads.append(name)
            if len(self.reads) == 3:
                self.faster.append(acquire(LocalFolder(self.path), "faster"))
                self.faster[0].set_job(lambda: None)
                if self.ends:
                    self.faster[0].release("ended")
        return found


def test_a_start_does_not_take_the_lease_of_one_that_came_between(tmp_path: Path) -> None:
    """It claims the number after the claims that it has seen, not after those that were made since."""
    folder = LetsAnotherStart(tmp_path)
    with pytest.raises(CheckpointInUse, match="faster"):
        acquire(folder, "slower")
    (faster,) = folder.faster
    faster.require_held()
    faster.release("ended")


def test_a_start_does_not_go_by_what_was_there_before_another_run(tmp_path: Path) -> None:
    """That one has ended meanwhile, and its number is free again: what it says of the tables is not what was read."""
    folder = LetsAnotherStart(tmp_path, ends=True)
    with pytest.raises(CheckpointInUse, match=r"another job has run on .* while this one was starting"):
        acquire(folder, "slower")
    acquire(LocalFolder(tmp_path), "slower").release("ended")


def test_of_several_processes_one_wins(tmp_path: Path) -> None:
    """The exclusive create of a local disk lets one of them through, however close they come."""
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    starters = [
        subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)
    ]
    streams = [(one.stdin, one.stdout) for one in starters]
    assert [out.readline() for _, out in streams if out] == ["ready\n"] * 3
    for into, _ in streams:
        assert into
        into.write("go\n")
        into.flush()
    results = sorted(out.readline().strip() for _, out in streams if out)
    for one in starters:
        one.communicate("leave\n", timeout=60)
    assert results == ["refused", "refused", "won"]


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
    assert "for 1m 1s (the disk is gone)" in str(ended[0])
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
