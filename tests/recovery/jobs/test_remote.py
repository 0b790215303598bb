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

from framework.engine.job.lease import Lease, acquire
from panekeeper import CheckpointError, DrainTimeout, ForeignCheckpoint, JobFailed, JobNotRunning
from recovery.cli.main import main
from recovery.jobs.remote import drain, status
from state.checkpoint.control_files import write_control_file
from state.checkpoint.folder import LocalFolder
from state.checkpoint.layout import FLUSHED_FILE, JOB_FILE, RUNNING_FILE, STOPPED_FILE
from state.checkpoint.owner import read_owner

ROOT = Path(__file__).resolve().parents[3]
LEFT = {"open": {"panes": 2, "tuples": 40, "next_due": 86_400_000_000}, "batch": 2}


class Clock:
    """A clock that moves only while somebody waits; `meanwhile` is what the job does at the n-th wait."""

    def __init__(self, *meanwhile: Callable[[], None]) -> None:
        self.us = 0
        self.meanwhile = list(meanwhile)

    def now(self) -> int:
        return self.us

    def sleep(self, seconds: float) -> None:
        self.us += round(seconds * 1e6)
        if self.meanwhile:
            self.meanwhile.pop(0)()


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFolder:
    """The checkpoint of a job that has finished batch 1 and begun batch 2."""
    folder = LocalFolder(tmp_path)
    folder.write_json(JOB_FILE, {"name": "readings"})
    for log, batches in (("offsets", (0, 1, 2)), ("commits", (0, 1))):
        for batch in batches:
            log_file(folder, log, str(batch))
    log_file(folder, "offsets", ".99.crc")
    log_file(folder, "offsets", ".98.5e0c.tmp")
    log_file(folder, "commits", "97.tmp")
    return folder


def log_file(folder: LocalFolder, log: str, name: str) -> None:
    """Put a file into one of Spark's logs."""
    (folder.path / log).mkdir(exist_ok=True)
    (folder.path / log / name).write_text("v1")


def pulse(folder: LocalFolder) -> list[str]:
    """The kinds of the beats in the folder, by number."""
    return [folder.read_json(f"pulse/{name}")["kind"] for name in folder.names("pulse")]


def vanish(lease: Lease, folder: LocalFolder) -> None:
    """Let the process that holds the lease be one that has ended without a word."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    gone = asdict(lease._owner) | {"pid": process.pid}
    lease.release("ended")
    folder.remove(STOPPED_FILE)
    folder.write_json(RUNNING_FILE, gone, replace=True)


def test_status_tells_a_running_job_from_one_that_ended_failed_or_vanished(checkpoint: LocalFolder) -> None:
    """By its lease while there is one, else by the last word of the job; numbers of half-written files do not count."""
    assert status(checkpoint)["state"] == "new"
    lease = acquire(checkpoint, "readings", now=lambda: 5)
    told = status(checkpoint)
    holder = read_owner(checkpoint)
    assert holder is not None
    assert told == {
        "checkpoint": checkpoint.root,
        "job": "readings",
        "state": "running",
        "running": True,
        "host": holder.host,
        "pid": holder.pid,
        "since_us": 5,
        "seen_us": 5,
        "stopped_us": None,
        "last_offset": 2,
        "last_commit": 1,
        "resumable": True,
        "why_not": None,
    }

    lease.release("failed")
    told = status(checkpoint)
    assert (told["state"], told["running"], told["pid"], told["stopped_us"]) == ("failed", False, None, 5)
    again = acquire(checkpoint, "readings", now=lambda: 7)
    vanish(again, checkpoint)
    told = status(checkpoint)
    assert (told["state"], told["running"], told["seen_us"], told["resumable"]) == ("lost", False, 7, True)


def test_status_says_why_a_job_cannot_go_on(checkpoint: LocalFolder) -> None:
    """After a flush, and where Spark's logs were mixed up; a batch begun and not finished is no reason."""
    log_file(checkpoint, "commits", "5")
    assert "do not belong together" in status(checkpoint)["why_not"]
    checkpoint.write_json(FLUSHED_FILE, {"batch": 2})
    told = status(checkpoint)
    assert (told["state"], told["resumable"]) == ("flushed", False)
    assert "closed for good" in told["why_not"]


def test_a_folder_without_a_checkpoint_of_ours_is_refused(tmp_path: Path) -> None:
    """It is said which folder is wanted; a damaged record is not taken for none."""
    folder = LocalFolder(tmp_path)
    for command in (status, drain):
        with pytest.raises(ForeignCheckpoint, match="the folder that start"):
            command(folder)
    (tmp_path / "panekeeper").mkdir()
    (tmp_path / JOB_FILE).write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        status(folder)


def test_a_drain_is_heard_and_waited_for(checkpoint: LocalFolder) -> None:
    """It returns once the lease is given back and the logs agree, with what the job left."""
    lease = acquire(checkpoint, "readings")
    write_control_file(checkpoint, "resume")

    def end() -> None:
        assert pulse(checkpoint) == ["resume", "drain"]
        lease.add_end_fields(**LEFT)
        lease.release("ended")

    clock = Clock(lambda: None, end, lambda: log_file(checkpoint, "commits", "2"))
    told = drain(checkpoint, now=clock.now, sleep=clock.sleep)
    assert told == {
        "checkpoint": checkpoint.root,
        "job": "readings",
        "state": "ended",
        "last_offset": 2,
        "last_commit": 2,
        "resumable": True,
        "seconds": 0.6,
        **LEFT,
    }


def test_a_drain_says_nothing_of_what_the_job_did_not_say(checkpoint: LocalFolder) -> None:
    """Least of all what an earlier job said."""
    earlier = acquire(checkpoint, "readings")
    earlier.add_end_fields(**LEFT)
    earlier.release("ended")
    lease = acquire(checkpoint, "readings")
    log_file(checkpoint, "commits", "2")
    clock = Clock(lambda: lease.release("ended"))
    told = drain(checkpoint, now=clock.now, sleep=clock.sleep)
    assert not {"open", "batch"} & set(told)


def test_a_drain_takes_the_next_number_and_is_written_again_if_another_took_its_file(checkpoint: LocalFolder) -> None:
    """A beat of the job at the same instant costs neither of them its beat."""
    lease = acquire(checkpoint, "readings")
    log_file(checkpoint, "commits", "2")

    class Raced(LocalFolder):
        def names(self, folder: str) -> list[str]:
            found = super().names(folder)
            if folder == "pulse" and not found:
                write_control_file(LocalFolder(self.path), "tick")  # after we have looked
            return found

    def overwrite() -> None:
        assert pulse(checkpoint) == ["tick", "drain"]
        checkpoint.write_json("pulse/000000000002.json", {"kind": "tick", "us": 1, "number": 2}, replace=True)

    def end() -> None:
        assert pulse(checkpoint) == ["tick", "tick", "drain"]
        lease.release("ended")

    clock = Clock(overwrite, end)
    drain(Raced(checkpoint.path), now=clock.now, sleep=clock.sleep)


def test_nobody_is_asked_where_no_job_runs(checkpoint: LocalFolder) -> None:
    """Never started, ended, or vanished: each is told, and no drain is left behind for the next start."""
    with pytest.raises(JobNotRunning, match="none ever ended there"):
        drain(checkpoint)
    acquire(checkpoint, "readings", now=lambda: 0).release("ended")
    with pytest.raises(JobNotRunning, match="the last one ended 1970-01-01 00:00:00 UTC"):
        drain(checkpoint)
    vanish(acquire(checkpoint, "readings", now=lambda: 0), checkpoint)
    with pytest.raises(JobNotRunning, match="is gone without a word, last seen 1970"):
        drain(checkpoint)
    assert pulse(checkpoint) == []


def test_a_drain_that_takes_too_long_goes_on_without_us(checkpoint: LocalFolder) -> None:
    """The error says so, after exactly the time that was given."""
    lease = acquire(checkpoint, "readings")
    clock = Clock()
    with pytest.raises(DrainTimeout, match=r"within 3 s. It goes on draining and stays resumable"):
        drain(checkpoint, timeout=3, now=clock.now, sleep=clock.sleep)
    assert clock.us == 3_000_000
    assert lease.release_if_ended()
    lease.release("ended")


@pytest.mark.parametrize("how", ["failed", "vanished"])
def test_a_job_that_does_not_live_to_drain_is_no_success(checkpoint: LocalFolder, how: str) -> None:
    """One that failed has left word of it; one that vanished is found out by its process."""
    lease = acquire(checkpoint, "readings")
    clock = Clock(lambda: lease.release("failed") if how == "failed" else vanish(lease, checkpoint))
    expected, message = {
        "failed": (JobFailed, "failed before it had drained"),
        "vanished": (JobNotRunning, "gone without a word"),
    }[how]
    with pytest.raises(expected, match=message):
        drain(checkpoint, now=clock.now, sleep=clock.sleep)


def test_the_command_drains_a_job_of_another_thread(
    checkpoint: LocalFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line to the words of the answer, on the real clock."""
    lease = acquire(checkpoint, "readings")
    heard = threading.Event()

    def job() -> None:
        while not checkpoint.names("pulse"):
            heard.wait(0.01)
        log_file(checkpoint, "commits", "2")
        lease.add_end_fields(**LEFT)
        lease.release("ended")

    running = threading.Thread(target=job)
    running.start()
    assert main(["drain", checkpoint.root, "--timeout", "60"]) == 0
    running.join()
    text = capsys.readouterr().out
    assert "last batch begun: 2, committed: 2; the next start resumes there" in text
    assert "still open: panes 2, rows 40\nnext due: 1970-01-02 00:00:00 UTC" in text


def test_exit_codes_and_json(checkpoint: LocalFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """0 with the fields on stdout; 1 with the error named, in JSON too; 2 for a wrong command line."""
    assert main(["status", f"file://{checkpoint.root}", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["job"], told["last_offset"], told["last_commit"], told["running"]) == ("readings", 2, 1, False)

    assert main(["status", checkpoint.root]) == 0
    text = capsys.readouterr().out
    assert "not running; new\nlast batch begun: 2, committed: 1\nresumable: yes" in text

    assert main(["drain", checkpoint.root, "--json"]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["kind"] == "JobNotRunning"
    assert output.err.startswith("panekeeper drain: no job runs on")

    for timeout, reason in (("0", "not a time above 0"), ("soon", "'soon', which is not a duration")):
        with pytest.raises(SystemExit) as raised:
            main(["drain", checkpoint.root, "--timeout", timeout])
        assert raised.value.code == 2
        assert reason in capsys.readouterr().err


def test_a_local_checkpoint_is_looked_at_without_spark(checkpoint: LocalFolder) -> None:
    """Not even pyspark is loaded, so the answer is there at once."""
    program = (
        "import sys; sys.modules.update(pyspark=None, delta=None, py4j=None); from recovery.cli.main import main; "
        f"sys.exit(main(['status', {checkpoint.root!r}]))"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
