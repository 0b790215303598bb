"""A job looked after from another process: `panekeeper status` and `drain`, on folders as jobs leave them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from panekeeper import CheckpointError, DrainTimeout, ForeignCheckpoint, JobFailed, JobNotRunning
from panekeeper.cli.main import main
from panekeeper.framework.engine.job.ending import RunEnd
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.recovery.jobs.drain import drain
from panekeeper.recovery.jobs.status import JobStatus, status
from panekeeper.state.checkpoint.control_files import write_control_file
from panekeeper.state.checkpoint.epochs import Pointer, create_pointer
from panekeeper.state.checkpoint.folder import JOB_FILE, RUNNING_FILE, STOPPED_FILE, LocalFolder
from panekeeper.state.checkpoint.lease_owner import read_owner
from panekeeper.state.errors import CorruptState
from tests.recovery.jobs.conftest import log_file, whole

ROOT = Path(__file__).resolve().parents[3]
LEFT = {"open": {"panes": 2, "tuples": 40, "next_due": 86_400_000_000}, "batch": 2}


class Clock:
    """A clock that moves only while the caller waits; `meanwhile` is what the job does at the n-th wait."""

    def __init__(self, *meanwhile: Callable[[], None]) -> None:
        self.us = 0
        self.meanwhile = list(meanwhile)

    def now(self) -> int:
        return self.us

    def sleep(self, seconds: float) -> None:
        self.us += round(seconds * 1e6)
        if self.meanwhile:
            self.meanwhile.pop(0)()


def pulse(folder: LocalFolder) -> list[str]:
    """The kinds of the control files in the folder, by number."""
    return [folder.read_json(f"pulse/{name}")["kind"] for name in folder.names("pulse")]


def vanish(lease: Lease, folder: LocalFolder) -> None:
    """Let the owner of the lease be a process that exited without releasing it."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    gone = asdict(lease._owner) | {"pid": process.pid}
    lease.release("ended")
    folder.remove(STOPPED_FILE)
    folder.write_json(RUNNING_FILE, gone, replace=True)


def test_status_distinguishes_running_ended_failed_and_crashed_jobs(checkpoint: LocalFolder) -> None:
    """By its lease while there is one, else by its end record; numbers of half-written files do not count."""
    assert status(whole(checkpoint)).state == "new"
    lease = acquire(checkpoint, "readings", now=lambda: 5)
    result = status(whole(checkpoint), now=lambda: 7_000_005)
    owner = read_owner(checkpoint)
    assert owner is not None
    assert result == JobStatus(
        checkpoint=checkpoint.root,
        job="readings",
        state="running",
        health="healthy",
        why="it runs",
        running=True,
        host=owner.host,
        pid=owner.pid,
        since="1970-01-01T00:00:00Z",
        run_age=7.0,
        seen="1970-01-01T00:00:00Z",
        heartbeat_age=7.0,
        last_offset=2,
        last_commit=1,
        resumable=True,
        why_not=None,
    )

    lease.release("failed")
    result = status(whole(checkpoint))
    assert (result.state, result.running, result.pid, result.health) == ("failed", False, None, "down")
    assert result.stopped == "1970-01-01T00:00:00Z"
    again = acquire(checkpoint, "readings", now=lambda: 7)
    vanish(again, checkpoint)
    result = status(whole(checkpoint))
    assert (result.state, result.running, result.health, result.resumable) == ("lost", False, "down", True)


def test_a_folder_without_a_checkpoint_of_panekeeper_is_refused(tmp_path: Path) -> None:
    """The error says which folder to give; a damaged record is not taken for none."""
    folder = LocalFolder(tmp_path)
    for command in (status, drain):
        with pytest.raises(ForeignCheckpoint, match="the folder that start"):
            command(folder)
    folder.write(JOB_FILE, b"{")
    with pytest.raises(CheckpointError, match="older layout"):
        status(folder)
    create_pointer(folder, Pointer(name="readings", id="7f", epoch=0))
    with pytest.raises(CorruptState, match=r"epochs/0000 is gone"):
        status(folder)
    folder.part("epochs/0000").write(JOB_FILE, b"{")
    with pytest.raises(CorruptState, match="damaged"):
        status(folder)


def test_a_drain_waits_until_the_job_has_ended(checkpoint: LocalFolder) -> None:
    """It returns once the lease is released and the logs agree, with the open work of the job."""
    lease = acquire(checkpoint, "readings")
    write_control_file(checkpoint, "resume")

    def end() -> None:
        assert pulse(checkpoint) == ["resume", "drain"]
        lease.set_report(lambda: LEFT)
        lease.release("ended")

    clock = Clock(lambda: None, end, lambda: log_file(checkpoint, "commits", "2"))
    result = drain(whole(checkpoint), now=clock.now, sleep=clock.sleep)
    assert result.fields() == {
        "checkpoint": checkpoint.root,
        "job": "readings",
        "state": "ended",
        "last_offset": 2,
        "last_commit": 2,
        "resumable": True,
        "seconds": 0.6,
        "batch": 2,
        "open": {"panes": 2, "rows": 40, "next_due": "1970-01-02T00:00:00Z", "next_watermark": None},
    }


def test_a_drain_that_is_given_while_the_job_starts_ends_it(checkpoint: LocalFolder) -> None:
    """Its lease is there, and the control file of its start is not; a drain before that was for an earlier run."""
    earlier = write_control_file(checkpoint, "drain")
    lease = acquire(checkpoint, "readings")
    end = RunEnd(lease.last_control_file)
    given = write_control_file(checkpoint, "drain")
    write_control_file(checkpoint, "resume")
    assert not end.note(is_flush=False, drain_file=earlier)
    assert end.note(is_flush=False, drain_file=given)
    lease.release("ended")


def test_a_drain_reports_no_open_work_that_the_job_did_not_record(checkpoint: LocalFolder) -> None:
    """Nor what an earlier job has recorded."""
    earlier = acquire(checkpoint, "readings")
    earlier.set_report(lambda: LEFT)
    earlier.release("ended")
    lease = acquire(checkpoint, "readings")
    log_file(checkpoint, "commits", "2")
    clock = Clock(lambda: lease.release("ended"))
    result = drain(whole(checkpoint), now=clock.now, sleep=clock.sleep)
    assert not {"open", "batch"} & set(result.fields())


def test_a_drain_takes_the_next_number_if_another_took_its_own(checkpoint: LocalFolder) -> None:
    """If the job writes a control file at the same time, neither file is lost."""
    lease = acquire(checkpoint, "readings")
    log_file(checkpoint, "commits", "2")

    class Raced(LocalFolder):
        def names(self, folder: str) -> list[str]:
            found = super().names(folder)
            if folder == "pulse" and not found:
                write_control_file(LocalFolder(self.path), "tick")  # after we have looked
            return found

    def end() -> None:
        assert pulse(checkpoint) == ["tick", "drain"]
        lease.release("ended")

    clock = Clock(end)
    drain(Raced(Path(checkpoint.root)), now=clock.now, sleep=clock.sleep)


def test_no_drain_is_written_where_no_job_runs(checkpoint: LocalFolder) -> None:
    """Never started, ended, or crashed: the error says which, and no command is left for the next start."""
    with pytest.raises(JobNotRunning, match="none has ended there before"):
        drain(whole(checkpoint))
    acquire(checkpoint, "readings", now=lambda: 0).release("ended")
    with pytest.raises(JobNotRunning, match="the last one ended 1970-01-01T00:00:00Z"):
        drain(whole(checkpoint))
    vanish(acquire(checkpoint, "readings", now=lambda: 0), checkpoint)
    with pytest.raises(JobNotRunning, match="exited without releasing its lease, last heartbeat 1970"):
        drain(whole(checkpoint))
    assert pulse(checkpoint) == []


def test_a_drain_that_takes_too_long_continues_after_the_timeout(checkpoint: LocalFolder) -> None:
    """The error says so, after exactly the timeout."""
    lease = acquire(checkpoint, "readings")
    clock = Clock()
    with pytest.raises(DrainTimeout, match=r"within 3s. It continues to drain and stays resumable"):
        drain(whole(checkpoint), timeout=3, now=clock.now, sleep=clock.sleep)
    assert clock.us == 3_000_000
    assert lease.release_if_ended()
    lease.release("ended")


@pytest.mark.parametrize("how", ["failed", "vanished"])
def test_a_job_that_ends_before_it_drained_is_an_error(checkpoint: LocalFolder, how: str) -> None:
    """One that failed has recorded it; one that crashed is detected by its process."""
    lease = acquire(checkpoint, "readings")
    clock = Clock(lambda: lease.release("failed") if how == "failed" else vanish(lease, checkpoint))
    expected, message = {
        "failed": (JobFailed, "failed before it had drained"),
        "vanished": (JobNotRunning, "exited without releasing its lease"),
    }[how]
    with pytest.raises(expected, match=message):
        drain(whole(checkpoint), now=clock.now, sleep=clock.sleep)


def test_the_command_drains_a_job_of_another_thread(
    checkpoint: LocalFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line to the printed lines, on the real clock."""
    lease = acquire(checkpoint, "readings")
    stopping = threading.Event()

    def job() -> None:
        while not checkpoint.names("pulse"):
            stopping.wait(0.01)
        log_file(checkpoint, "commits", "2")
        lease.set_report(lambda: LEFT)
        lease.release("ended")

    running = threading.Thread(target=job)
    running.start()
    assert main(["drain", checkpoint.root, "--timeout", "60"]) == 0
    running.join()
    text = capsys.readouterr().out
    assert "last batch begun: 2, committed: 2; the next start resumes there" in text
    assert "still open: panes 2, rows 40\nnext due: 1970-01-02T00:00:00Z" in text


def test_exit_codes_and_json(checkpoint: LocalFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """0 with the fields on stdout; 1 with the error named, in JSON too; 2 for a wrong command line."""
    assert main(["status", f"file://{checkpoint.root}", "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (result["job"], result["last_offset"], result["last_commit"], result["running"]) == ("readings", 2, 1, False)

    assert main(["status", checkpoint.root]) == 0
    text = capsys.readouterr().out
    assert "not running; new\nhealth: stopped, it was never started\n" in text
    assert text.endswith(
        "last batch begun: 2, committed: 1\nbatch 2 had begun: the next start completes it\nresumable: yes\n"
    )

    assert main(["drain", checkpoint.root, "--json"]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["kind"] == "JobNotRunning"
    assert output.err.startswith("panekeeper drain: no job runs on")

    for timeout, reason in (("0", "not a duration greater than 0"), ("soon", "'soon', which is not a duration")):
        with pytest.raises(SystemExit) as raised:
            main(["drain", checkpoint.root, "--timeout", timeout])
        assert raised.value.code == 2
        assert reason in capsys.readouterr().err


def test_a_local_checkpoint_is_read_without_spark(checkpoint: LocalFolder) -> None:
    """Not even pyspark is imported."""
    program = (
        "import sys; sys.modules.update(pyspark=None, delta=None, py4j=None); "
        "from panekeeper.cli.main import main; "
        f"sys.exit(main(['status', {checkpoint.root!r}]))"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
