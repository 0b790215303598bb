"""Small files of a checkpoint with content that Panekeeper never writes: JSON of other types, pipes, devices."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from panekeeper.recovery.jobs.fleet import list_jobs
from panekeeper.recovery.jobs.status import status
from panekeeper.state.checkpoint.folder import (
    JOB_FILE,
    RUNNING_FILE,
    RUNS_FILE,
    SAVEPOINT_FILE,
    STOPPED_FILE,
    claim_file,
)
from panekeeper.state.checkpoint.job_record import begin_run
from panekeeper.state.checkpoint.lease import newest_claim, previous_run, read_owner
from panekeeper.state.errors import CorruptState, PanekeeperError
from tests.recovery.conftest import FakeCheckpoint

OWNER = {"name": "readings", "host": "other", "pid": 1, "started": 1, "token": "t", "since": 0, "seen": 0}
WHOLE: dict[str, dict[str, Any]] = {
    RUNNING_FILE: OWNER | {"progress": {"at": 1, "watermark": 1}, "open": {"panes": 1}},
    claim_file(1): OWNER | {"claim": 1},
    STOPPED_FILE: OWNER | {"at": 1, "state": "ended", "before": None, "has_run": True},
    SAVEPOINT_FILE: {"name": "one", "location": "/s", "at": 1, "batch": 1},
    JOB_FILE: {},
}
VALUES: list[Any] = [None, "x", [], 10**30, -1, float("inf"), {"a": 1}]


def altered() -> list[tuple[str, bytes]]:
    """Each file, each field with each value, without it, and some that are no objects."""
    whole = [(file, field) for file, fields in WHOLE.items() for field in fields]
    contents = [(file, json.dumps(WHOLE[file] | {field: value}).encode()) for file, field in whole for value in VALUES]
    contents += [(file, json.dumps({k: v for k, v in WHOLE[file].items() if k != one}).encode()) for file, one in whole]
    return contents + [(file, content) for file in WHOLE for content in (b"[" * 100_000, b"[]", b"1", b"{}", b"")]


def test_each_is_an_error_of_ours_or_none_and_hides_no_other_job(tmp_path: Path) -> None:
    """A start reads the same files; one is refused, or knows nothing of the run before."""
    ours = FakeCheckpoint(tmp_path / "ours").run()
    job = FakeCheckpoint(tmp_path / "theirs").run(2)
    for file, content in altered():
        job.put(file, content.decode())
        with suppress(PanekeeperError):
            status(job.top)
        assert [one.checkpoint for one in list_jobs([tmp_path])] == [ours.root, job.root]
        with suppress(PanekeeperError):
            owner = read_owner(job.files)
            previous_run(job.files, owner)
        newest_claim(job.files)
        job.files.remove(file)
        if file == JOB_FILE:
            job.top.clear()
            job = FakeCheckpoint(tmp_path / "theirs").run(2)


@pytest.mark.parametrize("file", [JOB_FILE, RUNNING_FILE, STOPPED_FILE, SAVEPOINT_FILE])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_in_place_of_a_file_does_not_keep_anyone_waiting(
    tmp_path: Path, file: str, kind: str
) -> None:
    """A device gives bytes without end: the other jobs of the folder are listed, and this one is damaged."""
    ours, job = FakeCheckpoint(tmp_path / "ours").run(), FakeCheckpoint(tmp_path / "theirs").run()
    path = Path(job.files.place, file)
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    one, other = list_jobs([tmp_path])
    assert (one.checkpoint, one.state) == (ours.root, "new")
    assert (other.checkpoint, other.state) == (job.root, "damaged")
    assert "it is no file, but a device or the like" in str(other.why)


@pytest.mark.parametrize("file", [JOB_FILE, RUNNING_FILE, STOPPED_FILE, SAVEPOINT_FILE])
def test_a_file_with_a_size_and_no_content_takes_no_memory(tmp_path: Path, file: str) -> None:
    """A terabyte of it takes no room on the disk: the other jobs of the folder are listed."""
    ours, job = FakeCheckpoint(tmp_path / "ours").run(), FakeCheckpoint(tmp_path / "theirs").run()
    path = Path(job.files.place, file)
    path.touch()
    os.truncate(path, 2**40)
    assert [one.checkpoint for one in list_jobs([tmp_path])] == [ours.root, job.root]
    with pytest.raises(OSError, match="it has 1099511627776 bytes"):
        job.files.read(file)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (RUNS_FILE, '{"runs": "x", "begun": null, "attempts": 0}'),
        (RUNS_FILE, '{"runs": 1, "attempts": 0}'),
    ],
)
def test_what_no_version_writes_is_refused_with_the_way_out(job: FakeCheckpoint, file: str, content: str) -> None:
    """It names the file, and advises the savepoint."""
    job.put(file, content)
    with pytest.raises(CorruptState, match=f"{file} .* is damaged.*from a savepoint"):
        begin_run(job.files)


@pytest.mark.parametrize("altered", [{"since_us": "1"}, {"seen_us": None}, {"name": 7}, {"seen_us": 1.5}], ids=str)
def test_a_run_before_with_values_of_other_types_is_none(job: FakeCheckpoint, altered: dict[str, Any]) -> None:
    """The downtime report of a job's first batch computes with its times."""
    before = {"name": "readings", "since_us": 1, "seen_us": 2, "clean": True}
    job.put(STOPPED_FILE, json.dumps({"has_run": False, "before": before}))
    assert previous_run(job.files, None) is not None
    job.put(STOPPED_FILE, json.dumps({"has_run": False, "before": before | altered}))
    assert previous_run(job.files, None) is None
