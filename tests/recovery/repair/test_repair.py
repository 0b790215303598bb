"""Small files cut short: each is repaired if that is certainly right, else the command says why not and what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from panekeeper.recovery.cli.main import main
from panekeeper.recovery.cli.subcommand import ExitCode
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.repair.finding import Finding
from panekeeper.recovery.repair.repair import repair
from panekeeper.recovery.savepoint.checkpoint_reader import read_checkpoint
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.state.checkpoint.layout import (
    FLUSHED_FILE,
    JOB_FILE,
    RESET_FILE,
    RUNNING_FILE,
    RUNS_FILE,
    STOPPED_FILE,
    SUPERSEDED_FILE,
    TABLES_FILE,
    UNACCOUNTED_FOLDER,
)
from panekeeper.state.checkpoint.reset_intent import read_reset_intent
from panekeeper.state.checkpoint.restore_markers import superseded_by
from panekeeper.state.checkpoint.run_record import begin_run
from panekeeper.state.errors import CorruptState
from tests.recovery.conftest import FakeCheckpoint

LEASE = json.dumps(
    {"name": "readings", "host": "elsewhere", "pid": 1, "started": None, "token": "t", "since": 0, "seen": 0}
)
UNACCOUNTED = f"{UNACCOUNTED_FOLDER}/0123456789abcdef.json"
CONTENTS = {
    STOPPED_FILE: '{"at": 1, "state": "ended", "name": "readings", "since": 0, "token": "t"}',
    RUNS_FILE: '{"runs": 3, "begun": null, "attempts": 0}',
    TABLES_FILE: '{"log": null}',
    UNACCOUNTED: LEASE.replace("}", ', "batch": 1}'),
    FLUSHED_FILE: '{"batch": 2}',
    RESET_FILE: '{"epoch": 1, "view": null}',
    SUPERSEDED_FILE: '{"to": "/elsewhere"}',
    RUNNING_FILE: LEASE,
}
REPAIRED = [STOPPED_FILE, RUNS_FILE, TABLES_FILE, UNACCOUNTED, "metadata", "commits/2"]
NOT_SAFE = {
    JOB_FILE: "key groups",
    FLUSHED_FILE: "finished",
    RESET_FILE: "a reset was begun",
    SUPERSEDED_FILE: "was restored to another folder",
    "offsets/2": "was committed",
    "offsets/1": "compares the newest offsets with them",
    "state/0/_metadata/v2/0": "does not find the stored values",
    "state/0/_stateSchema/default/0_x": "does not find the stored values",
    "sources/0/2": "which files the source has read",
    "sources/1/0": "which files the source has read",
}


FIRST_FILES = ("offsets/0", "sources/0/0", "pulse/000000000001.json")


def truncate(job: FakeCheckpoint, file: str, kept: int = 0) -> None:
    """Cut a file short; it is made first, if the job has none."""
    if not job.files.exists(file):
        job.put(file, CONTENTS[file])
    job.put(file, job.files.read(file).decode()[:kept])


def actions(findings: tuple[Finding, ...]) -> dict[str, str]:
    """File -> what is done with it."""
    return {one.file: one.action for one in findings}


TABLE: list[dict[str, Any]] = [{"protocol": {"minReaderVersion": 1}}, {"metaData": {"id": "one"}}]
"""What the first commit of a table has."""


def delta_log(table: Path, *batches: int, role: str) -> None:
    """Write the log of a table with a commit for each batch."""
    for version, batch in enumerate(batches):
        lines = [
            {"commitInfo": {"timestamp": batch * 1000}},
            {"txn": {"appId": f"readings/{role}@0123456789ab#0", "version": batch}},
        ]
        text = "\n".join(map(json.dumps, lines if version else [*TABLE, *lines]))
        LocalFiles(table).put_bytes(f"_delta_log/{version:020d}.json", text.encode())


def test_an_intact_checkpoint_needs_no_repair(stored_job: FakeCheckpoint) -> None:
    """Also with a batch that was begun and not committed."""
    stored_job.begin()
    before = stored_job.contents()
    assert repair(stored_job.root).findings == ()
    assert stored_job.contents() == before


@pytest.mark.parametrize("kept", [0, 1, 4])
@pytest.mark.parametrize("file", REPAIRED)
def test_a_file_that_a_start_does_not_need_is_set_aside(stored_job: FakeCheckpoint, file: str, kept: int) -> None:
    """First it is said what would be done; nothing is removed, and afterwards the checkpoint is read."""
    truncate(stored_job, file, kept)
    before = stored_job.contents()
    if file == "commits/2" and kept == 4:  # Spark reads a commit of its version only
        stored_job.put(file, 'v2\n{"')
        before = stored_job.contents()
    planned = repair(stored_job.root, dry_run=True)
    assert stored_job.contents() == before
    assert actions(planned.findings) == {file: "replace" if file == "metadata" else "set aside"}
    assert repair(stored_job.root) == planned
    assert planned.is_complete
    assert stored_job.files.parent().child("checkpoint.damaged").read(file).decode() == before[file]
    assert repair(stored_job.root).findings == ()
    assert read_checkpoint(stored_job.files).batch == (1 if file == "commits/2" else 2)


@pytest.mark.parametrize(
    ("cut", "kept", "aside"),
    [
        (FIRST_FILES, 1, FIRST_FILES),
        (("sources/0/0",), 4, ("offsets/0", "sources/0/0")),  # without the entry that its offsets name
    ],
    ids=["each file", "an entry"],
)
def test_the_first_batch_of_all_is_planned_again_too(
    tmp_path: Path, cut: tuple[str, ...], kept: int, aside: tuple[str, ...]
) -> None:
    """There is no savepoint of a job to go back to. What its sources had found is found again."""
    job = FakeCheckpoint(tmp_path / "checkpoint")
    job.tables(metrics=f"{tmp_path}/metrics")
    first = "\n".join(map(json.dumps, TABLE))
    LocalFiles(tmp_path / "metrics").put_bytes(f"_delta_log/{0:020d}.json", first.encode())
    job.begin()
    for file in cut:
        truncate(job, file, kept)
    found = {**actions(repair(job.folder, no_sink=True).findings), **actions(repair(job.folder).findings)}
    assert found == dict.fromkeys(aside, "set aside")
    assert repair(job.folder).findings == ()


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("file", NOT_SAFE)
def test_a_file_with_what_is_nowhere_else_is_left_alone(stored_job: FakeCheckpoint, file: str, kept: int) -> None:
    """The finding says why, and names the way by a savepoint."""
    truncate(stored_job, file, kept)
    before = stored_job.contents()
    done = repair(stored_job.root)
    [finding] = [one for one in done.findings if one.file == file]
    assert finding.action == "none"
    assert NOT_SAFE[file] in finding.why
    assert f"panekeeper restore LOCATION NAME --checkpoint {stored_job.files.root}" in finding.why
    assert not done.is_complete
    assert stored_job.contents() == before


def test_with_a_damaged_lease_nothing_is_repaired(job: FakeCheckpoint) -> None:
    """A job may run."""
    truncate(job, RUNNING_FILE)
    truncate(job, STOPPED_FILE)
    before = job.contents()
    assert set(actions(repair(job.folder).findings).values()) == {"none"}
    assert job.contents() == before


def test_a_commit_is_needed_once_the_next_batch_was_begun(job: FakeCheckpoint) -> None:
    """Then the batch was committed for certain, and is not run again; nor is one that was a flush."""
    job.begin()
    truncate(job, "commits/2")
    assert actions(repair(job.folder).findings) == {"commits/2": "none"}
    flushed = FakeCheckpoint(f"{job.root}-flushed").run(2)
    flushed.put(FLUSHED_FILE, CONTENTS[FLUSHED_FILE])
    truncate(flushed, "commits/1")
    assert actions(repair(flushed.folder).findings) == {"commits/1": "none"}


@pytest.mark.parametrize("why_not", ["", "rows", "sink", "no tables"])
def test_offsets_are_planned_again_only_if_nothing_was_done_with_them(
    job: FakeCheckpoint, tmp_path: Path, why_not: str
) -> None:
    """No rows in a table, and no sink: other rows under the same number would be skipped as done before.

    What its tasks have stored of their state is stored anew, as by any batch that is run again.
    """
    if why_not != "no tables":
        job.tables(log=f"{tmp_path}/log", metrics=f"{tmp_path}/metrics")
    delta_log(tmp_path / "log", *range(4 if why_not == "rows" else 3), role="log")
    delta_log(tmp_path / "metrics", *range(3), role="metrics")
    job.begin()
    truncate(job, "offsets/3")
    done = repair(job.folder, no_sink=why_not != "sink")
    expected = "none" if why_not else "set aside"
    assert actions(done.findings)["offsets/3"] == expected
    if not why_not:
        assert actions(done.findings) == {"offsets/3": "set aside"}
        assert read_checkpoint(job.files).unfinished is None


@pytest.mark.parametrize("content", [None, "{"])
@pytest.mark.parametrize("has_rows", [False, True])
def test_a_batch_that_has_lost_a_control_file_is_planned_again_if_no_table_has_it(
    job: FakeCheckpoint,
    tmp_path: Path,
    has_rows: bool,  # noqa: FBT001
    content: str | None,
) -> None:
    """As without its offsets; what is left of the file is set aside, too, for the next plan would find it."""
    job.tables(metrics=f"{tmp_path}/metrics")
    delta_log(tmp_path / "metrics", *range(4 if has_rows else 3), role="metrics")
    job.write_control_file(2)
    job.begin()
    lost = "pulse/000000000002.json"
    job.files.remove(lost)
    if content is not None:
        job.put(lost, content)
    done = repair(job.folder, no_sink=True)
    assert f"it was begun with {lost}, which is gone or cut short" in done.findings[0].why
    if has_rows:
        assert actions(done.findings) == {"offsets/3": "none"}
    else:
        assert actions(done.findings) == {"offsets/3": "set aside"} | ({lost: "set aside"} if content else {})
        assert repair(job.folder, no_sink=True).findings == ()


def test_an_entry_of_a_source_that_no_batch_has_read_is_set_aside(job: FakeCheckpoint) -> None:
    """The source finds its files again."""
    job.put("sources/0/3", "v1\n{")
    assert actions(repair(job.folder).findings) == {"sources/0/3": "set aside"}
    job.put("sources/0/9.compact", "")
    assert actions(repair(job.folder).findings) == {"sources/0/9.compact": "set aside"}
    job.put("sources/0/9.compact", "")
    job.files.remove("sources/0/1")  # Spark removes what a compact one has, later
    assert actions(repair(job.folder, dry_run=True).findings)["sources/0/9.compact"] == "none"


def test_a_control_file_that_no_batch_has_read_is_set_aside(job: FakeCheckpoint) -> None:
    """One that was read is not needed any more."""
    job.put("pulse/000000000001.json", "")
    job.put("pulse/000000000002.json", '{"kind"')
    done = repair(job.folder)
    assert actions(done.findings) == {"pulse/000000000002.json": "set aside"}
    assert "give it again" in done.findings[0].why


def test_a_second_file_of_one_name_does_not_replace_the_first(job: FakeCheckpoint, tmp_path: Path) -> None:
    """Nothing is removed."""
    for kept in (1, 2):
        truncate(job, STOPPED_FILE)
        job.put(STOPPED_FILE, "{" * kept)
        repair(job.folder)
    names = {path.name: path.read_text() for path in (tmp_path / "checkpoint.damaged/panekeeper").iterdir()}
    assert names == {"stopped.json": "{", "stopped.json.earlier": "{{"}


def test_a_running_job_or_a_restore_is_not_touched(job: FakeCheckpoint, tmp_path: Path) -> None:
    """And a folder of something else."""
    job.lease(pid=os.getpid())
    with pytest.raises(SavepointRefused, match="is in use"):
        repair(job.folder)
    job.files.remove(RUNNING_FILE)
    truncate(job, STOPPED_FILE)
    (tmp_path / "checkpoint.restoring.json").write_text("{")
    findings = repair(job.folder).findings
    assert actions(findings) == {"../checkpoint.restoring.json": "none", STOPPED_FILE: "none"}
    with pytest.raises(SavepointError, match="holds no checkpoint of Panekeeper"):
        repair(tmp_path / "nothing")


@pytest.mark.parametrize("content", ["", "{", "[1]", '"x"'])
def test_an_unreadable_small_file_is_one_line_with_the_command(job: FakeCheckpoint, content: str) -> None:
    """Whoever reads it."""
    reads = {RUNS_FILE: begin_run, RESET_FILE: read_reset_intent, SUPERSEDED_FILE: superseded_by}
    for file, read in reads.items():
        job.put(file, content)
        with pytest.raises(
            CorruptState, match=rf"^{file} in {job.folder} is damaged: .*panekeeper repair {job.folder}"
        ):
            read(job.files)


def test_the_command_says_what_it_would_do(job: FakeCheckpoint, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0 only if every damaged file is repaired."""
    truncate(job, "commits/2")
    assert main(["repair", job.root, "--dry-run"]) == 0
    assert "commits/2 is damaged and would be moved to" in capsys.readouterr().out
    assert main(["repair", job.root]) == 0
    assert "commits/2 is damaged and was moved to" in capsys.readouterr().out
    assert main(["repair", job.root]) == 0
    assert "nothing to repair" in capsys.readouterr().out
    truncate(job, JOB_FILE)
    assert main(["repair", job.root]) == ExitCode.FAILED
    assert "panekeeper/job.json is damaged and cannot be repaired" in capsys.readouterr().out
