"""The jobs under some folders, on a disk and on S3: which are found, what is said of them, and how healthy they are."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main, watch
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.recovery.jobs.fleet import list_jobs
from panekeeper.recovery.jobs.status import JobStatus, Limits, with_health
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.epochs import Begin, write_begin
from panekeeper.state.checkpoint.folder import FLUSHED_FILE, JOB_FILE, RUNNING_FILE, RUNS_FILE
from tests.fake_checkpoint import FakeCheckpoint, savepoint

if TYPE_CHECKING:
    from panekeeper.recovery.jobs.status import NewestSavepoint

PROGRESS = {"at": 60_000_000, "watermark": 50_000_000, "rows": 90, "rows_per_second": 1.5}
REPORT = {"batch": 2, "open": {"panes": 4}, "progress": {**PROGRESS, "rows_behind": 7, "state_bytes": 1000}}


def test_the_jobs_under_a_folder_are_found_wherever_their_checkpoints_are(storage: str) -> None:
    """Two levels below as well as beside each other, with what each has reported last."""
    first = FakeCheckpoint(f"{storage}/a/first", job="first").run(3)
    FakeCheckpoint(f"{storage}/b/c/second", job="second").run(1)
    lease = acquire(first.files, "first")
    lease.set_report(lambda: REPORT)
    lease.renew()
    one, two = list_jobs([storage], now=now_us)
    lease.release("ended")
    assert (one.job, one.state, one.last_commit, one.pid) == ("first", "running", 2, os.getpid())
    assert (one.watermark, one.rows_per_second, one.rows_behind, one.open_panes, one.state_bytes) == (
        "1970-01-01T00:00:50Z",
        1.5,
        7,
        4,
        1000,
    )
    assert (two.job, two.state, two.last_commit, two.watermark) == ("second", "new", 0, None)


def test_a_root_may_be_a_checkpoint_and_each_job_is_listed_once(storage: str) -> None:
    """Roots may overlap; depth counts from each."""
    job = FakeCheckpoint(f"{storage}/a/first").run(1)
    assert [one.checkpoint for one in list_jobs([job.root, storage, f"{storage}/a/"])] == [job.files.root]
    assert list_jobs([storage], depth=1) == []


def test_what_a_stopped_job_had_done_is_known_from_its_end(storage: str) -> None:
    """No rate: it reads nothing now. Ages count on."""
    job = FakeCheckpoint(f"{storage}/one").run(3)
    lease = acquire(job.files, "readings", now=lambda: 60_000_000)
    lease.set_report(lambda: REPORT)
    lease.release("ended")
    (one,) = list_jobs([storage], now=lambda: 90_000_000)
    assert (one.state, one.stopped, one.last_batch_age, one.watermark_lag) == (
        "ended",
        "1970-01-01T00:01:00Z",
        30.0,
        40.0,
    )
    assert one.rows_per_second is None


def test_the_newest_savepoint_is_known_and_is_in_no_savepoint_itself(storage: str) -> None:
    """`panekeeper savepoint` notes it in the checkpoint."""
    job = FakeCheckpoint(f"{storage}/one").run(3)
    location = f"{storage}/savepoints"

    def newest() -> NewestSavepoint | None:
        return list_jobs([f"{storage}/one"])[0].last_savepoint

    assert newest() is None
    savepoint(job.root, "first", to=location)
    made = savepoint(job.run().root, "second", to=location)
    found = newest()
    assert found is not None
    assert (found.name, found.batch, found.location) == ("second", 3, made.location)
    assert found.age < 3600
    assert not [file for file in made.manifest.files if "savepoint" in file.path]


def break_record(job: FakeCheckpoint) -> None:
    """Cut the job's record short."""
    job.put(JOB_FILE, "{")


def break_lease(job: FakeCheckpoint) -> None:
    """Replace the lease."""
    job.put(RUNNING_FILE, "[]")


def lose_record(job: FakeCheckpoint) -> None:
    """Remove the job's record, and nothing else."""
    job.put(RUNS_FILE, "{}")
    job.files.remove(JOB_FILE)


def mix_logs(job: FakeCheckpoint) -> None:
    """Commit a batch that was never begun."""
    job.put("commits/9", "v2\n{}")


def lose_pointer(job: FakeCheckpoint) -> None:
    """Remove the file that says which epoch is current."""
    job.top.remove("job.json")


def lose_epoch(job: FakeCheckpoint) -> None:
    """Remove the folder of the current epoch."""
    job.files.clear()
    job.top.put_bytes("epochs/0007/begin.json", b"{}")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (break_record, "job.json in .* is damaged"),
        (break_lease, "running.json in .* is damaged"),
        (lose_record, "holds no checkpoint of Panekeeper .* `panekeeper restore LOCATION NAME`"),
        (lose_pointer, "job.json is missing: restore the job from a savepoint"),
        (lose_epoch, "points to epoch 0, and epochs/0000 is gone"),
        (mix_logs, "do not belong together"),
    ],
)
def test_a_damaged_job_is_listed_with_its_reason_beside_the_others(
    storage: str, damage: Any, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a traceback, and never instead of the others."""
    bad, good = FakeCheckpoint(f"{storage}/bad").run(2), FakeCheckpoint(f"{storage}/good").run(2)
    damage(bad)
    assert main(["jobs", storage, "--check"]) == ExitCode.UNUSABLE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["job", "state", "health"]
    assert [line.split()[-1] for line in lines[1:3]] == [bad.top.root, good.top.root]
    (note,) = [line for line in lines[3:] if line.startswith(f"{bad.top.root}: ")]
    assert re.search(reason, note)


def test_a_folder_that_cannot_be_listed_is_named_and_the_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of another user."""
    FakeCheckpoint(tmp_path / "good").run(1)
    (tmp_path / "secret").mkdir()
    scan = os.scandir

    def refuse(path: Path) -> Any:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("os.scandir", refuse)
    good, secret = list_jobs([tmp_path])
    assert (good.state, secret.state) == ("new", "damaged")
    assert "Permission denied" in secret.why


def test_folders_of_other_kinds_are_not_jobs(storage: str) -> None:
    """Not a Delta table, nor savepoints, nor a folder that has only the name of our own."""
    job = FakeCheckpoint(f"{storage}/deep/one").run(1)
    for name in ("table/_delta_log/x", "savepoints/blobs/x", "savepoints/savepoints/x", "code/panekeeper/x.py"):
        checkpoint_at(f"{storage}/deep").put_bytes(name, b"")
    FakeCheckpoint(f"{storage}/deep/table/inner").run(1)
    FakeCheckpoint(f"{storage}/deep/savepoints/inner").run(1)
    assert [one.checkpoint for one in list_jobs([storage])] == [job.files.root]


RUNS = JobStatus(
    checkpoint="c", state="running", resumable=True, why_not=None, running=True, run_age=90, heartbeat_age=3
)


@pytest.mark.parametrize(
    ("status", "limits", "health", "why"),
    [
        (RUNS, Limits(), "healthy", "it runs"),
        (replace(RUNS, heartbeat_age=61), Limits(), "behind", "no heartbeat for 1m 1s"),
        (replace(RUNS, watermark_lag=61), Limits(lag=60), "behind", "1m 1s behind the present, and 1m are allowed"),
        (replace(RUNS, watermark_lag=60), Limits(lag=60), "healthy", ""),
        (replace(RUNS, rows_behind=11), Limits(rows=10), "behind", "holds 11 rows"),
        (
            replace(RUNS, errors={"A": 2, "B": 1}),
            Limits(errors=2),
            "behind",
            "3 rows, results and firings could not be",
        ),
        (replace(RUNS, errors={"A": 2}), Limits(errors=2), "healthy", ""),
        (replace(RUNS, rows_behind=None, watermark_lag=None), Limits(lag=1, rows=1), "healthy", ""),
        (
            replace(RUNS, no_tick_since="now", tick_error="disk full"),
            Limits(),
            "behind",
            "be written since now: disk full",
        ),
        (replace(RUNS, last_batch_age=31), Limits(age=30), "behind", "no batch has ended for 31s"),
        (RUNS, Limits(age=60), "behind", "no batch has ended for 1m 30s"),
        (replace(RUNS, last_batch_age=999, run_age=5), Limits(age=60), "healthy", ""),
        (replace(RUNS, state="ended", running=False), Limits(age=60), "stopped", "as it should"),
        (replace(RUNS, state="failed", running=False), Limits(), "down", "its own log has the cause"),
        (replace(RUNS, state="lost", running=False), Limits(), "down", "without releasing its lease"),
        (replace(RUNS, state="flushed", running=False, resumable=False, why_not="x"), Limits(), "healthy", "finished"),
        (replace(RUNS, heartbeat_age=-3600.0), Limits(), "behind", "in the future"),
        (replace(RUNS, resumable=False, why_not="mixed up"), Limits(), "unusable", "mixed up"),
    ],
)
def test_health_is_one_word_and_its_reason(status: JobStatus, limits: Limits, health: str, why: str) -> None:
    """Limits are exceeded, not reached; what is not known exceeds none."""
    found = with_health(status, limits)
    assert found.health == health
    assert why in found.why


def test_a_job_whose_state_the_next_start_discards_cannot_be_resumed(tmp_path: Path) -> None:
    """A reset to its initial state was killed: whatever batches are committed, a start completes it."""
    job = FakeCheckpoint(tmp_path / "a").run(2)
    write_begin(job.files, Begin(kind="reset"))
    (found,) = list_jobs([tmp_path])
    assert (found.resumable, found.health) == (False, "unusable")
    assert "a reset of it to the initial state is not complete" in found.why


def test_check_exits_by_health_and_a_list_by_the_worst(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --check the code is 0: the status could be read."""
    good, ended, crashed = (FakeCheckpoint(tmp_path / name).run(1) for name in ("good", "ended", "crashed"))
    good.put(FLUSHED_FILE, '{"batch": 0}')
    acquire(ended.files, "readings").release("ended")
    crashed.lease(pid=4_000_000)
    assert main(["status", good.root, "--check"]) == ExitCode.DONE
    assert main(["status", ended.root, "--check"]) == ExitCode.STOPPED
    assert main(["status", crashed.root, "--check"]) == ExitCode.DOWN
    assert main(["jobs", good.root, ended.root, "--check"]) == ExitCode.STOPPED
    assert main(["jobs", str(tmp_path), "--check"]) == ExitCode.DOWN
    assert main(["jobs", str(tmp_path)]) == ExitCode.DONE
    capsys.readouterr()
    assert main(["jobs", str(tmp_path), "--json", "--max-lag", "5m"]) == ExitCode.DONE
    listed = json.loads(capsys.readouterr().out)["jobs"]
    assert {one["checkpoint"].rpartition("/")[2]: one["health"] for one in listed} == {
        "good": "healthy",
        "ended": "stopped",
        "crashed": "down",
    }


def test_no_jobs_is_no_error_and_a_missing_folder_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One is a result, the other a misspelled name."""
    assert main(["jobs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no jobs\n"
    assert main(["jobs", str(tmp_path / "none")]) == ExitCode.FAILED
    assert "is not there" in capsys.readouterr().err


def test_a_watch_looks_until_ctrl_c_and_ends_with_the_last_code(capsys: pytest.CaptureFixture[str]) -> None:
    """Also if one look failed."""
    codes = [ExitCode.DONE, ExitCode.FAILED, ExitCode.BEHIND]
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    def look() -> ExitCode:
        sys.stdout.write(f"look {len(waits)}\n")
        return codes[len(waits)]

    assert watch(look, every=2, sleep=sleep) == ExitCode.BEHIND
    assert waits == [2, 2, 2]
    assert capsys.readouterr().out == "look 0\nlook 1\nlook 2\n"
