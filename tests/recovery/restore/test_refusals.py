"""A dry run refuses what the restore refuses, and the command that a refusal prints is not refused."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.jobs.status import status
from panekeeper.recovery.restore.restore import STEPS, restore
from panekeeper.state.checkpoint.epochs import read_begin, write_begin
from panekeeper.state.checkpoint.folder import JOB_FILE
from panekeeper.state.checkpoint.job_record import read_tables
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.restore.test_restore import killed_at
from tests.recovery.restore.test_shared_tables import OTHER, OWN, refuse

if TYPE_CHECKING:
    from tests.recovery.storage.memory_archive import MemoryArchive

COMMAND = re.compile(r"panekeeper (restore .*)$")


class Lost:
    """A job with a log and a quarantine, of which there is savepoint "one"."""

    def __init__(self, job: FakeCheckpoint, folder: Path) -> None:
        self.job, self.folder = job, folder
        self.tables = [folder / name for name in ("log", "quarantine")]
        for table in self.tables:
            refuse(table, OWN.replace("quarantine", table.name), 2)
        job.tables(**{table.name: str(table) for table in self.tables})
        savepoint(job.folder, "one", to=folder / "savepoints")

    @property
    def all_tables(self) -> list[str]:
        return [word for table in self.tables for word in ("--table", str(table))]

    def others_write(self) -> None:
        """Let a job that shares the quarantine write to it, beside this one."""
        refuse(self.tables[1], OWN, 3)
        refuse(self.tables[1], OTHER, 2)

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.job.folder)

    def lose_log(self) -> None:
        shutil.rmtree(self.tables[0])

    def lose_all(self) -> None:
        self.lose_checkpoint()
        self.lose_log()

    def lose_both(self) -> None:
        self.others_write()
        self.lose_checkpoint()


LOSSES: dict[str, tuple[Callable[[Lost], None], Callable[[Lost], list[str]]]] = {
    "the checkpoint": (Lost.lose_checkpoint, lambda _: []),
    "the checkpoint, and its folder is not named": (Lost.lose_checkpoint, lambda lost: lost.all_tables),
    "the checkpoint, and one of its tables is not named": (Lost.lose_checkpoint, lambda lost: lost.all_tables[:2]),
    "the checkpoint, and others write": (Lost.lose_both, lambda _: []),
    "the checkpoint, others write, and one table is not named": (Lost.lose_both, lambda lost: lost.all_tables[:2]),
    "others write": (Lost.others_write, lambda _: []),
    "the log": (Lost.lose_log, lambda _: []),
    "the log and the checkpoint": (Lost.lose_all, lambda _: []),
    "the checkpoint, and the log that may begin anew": (Lost.lose_all, lambda _: ["--begin-anew", "log"]),
    "nothing, to another folder": (lambda _: None, lambda lost: ["--checkpoint", str(lost.folder / "new folder")]),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_the_command_of_a_refusal_is_not_refused(
    loss: str, job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the refused command named; and a dry run of that command was refused with the same line."""
    lost = Lost(job, tmp_path)
    lose, options = LOSSES[loss]
    lose(lost)
    command = ["restore", str(tmp_path / "savepoints"), "one", *options(lost), "--s3-encryption", "AES256"]
    assert main(command) == ExitCode.FAILED
    line = capsys.readouterr().err
    assert main([*command, "--dry-run"]) == ExitCode.FAILED
    assert capsys.readouterr().err == line
    printed = COMMAND.search(line)
    assert printed is not None
    assert main([*shlex.split(printed[1]), "--dry-run"]) == ExitCode.DONE, capsys.readouterr().err
    assert printed[1].endswith("--s3-encryption AES256")
    assert DeltaTable(lost.tables[1]).version() in (0, 2)


@pytest.mark.parametrize("damage", ["a file of the state", "the record of the job"])
def test_a_dry_run_reads_the_savepoint_whole(
    damage: str, job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refuses one of which a file is damaged, as the restore does, and leaves nothing on the disk."""
    made = savepoint(job.folder, "one", to=tmp_path / "savepoints")
    prefix = {"a file of the state": "state/0/0/", "the record of the job": "panekeeper/job.json"}[damage]
    blob = next(file.blob for file in made.manifest.files if file.path.startswith(prefix))
    (tmp_path / "savepoints" / blob).write_bytes(b"?")
    before = sorted(tmp_path.rglob("*"))
    command = ["restore", str(tmp_path / "savepoints"), "one"]
    assert main([*command, "--dry-run"]) == ExitCode.FAILED
    line = capsys.readouterr().err
    assert f"blobs/{blob[6:]}" in line
    assert sorted(tmp_path.rglob("*")) == before
    assert main(command) == ExitCode.FAILED
    assert capsys.readouterr().err == line


def test_a_dry_run_says_what_becomes_of_tables_that_are_gone(
    job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A view is made from its log, metrics and downtime begin empty; no option is needed for them, or taken."""
    roles = ("log", "view", "metrics", "downtime")
    for role in roles:
        refuse(tmp_path / role, OWN.replace("quarantine", role), 2)
    job.tables(**{role: str(tmp_path / role) for role in roles})
    savepoint(job.folder, "one", to=tmp_path / "savepoints")
    for role in roles[1:]:
        shutil.rmtree(tmp_path / role)
    command = ["restore", str(tmp_path / "savepoints"), "one", "--dry-run"]
    assert main(command) == ExitCode.DONE
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"table log: {tmp_path}/log from version 0 to 0",
        f"table view: {tmp_path}/view is gone; the next start makes it from the log",
        f"table metrics: {tmp_path}/metrics is gone; the next start makes it empty",
        f"table downtime: {tmp_path}/downtime is gone; the next start makes it empty",
    ]
    assert main([*command, "--begin-anew", "log"]) == ExitCode.FAILED
    assert "has no table log that is gone" in capsys.readouterr().err
    assert main(["clone", *command[1:3], "--into", str(tmp_path / "clone")]) == ExitCode.FAILED
    printed = COMMAND.search(capsys.readouterr().err)
    assert printed is not None
    assert main(shlex.split(printed[1])) == ExitCode.DONE


def test_a_savepoint_is_made_without_tables_that_a_restore_makes_again(
    job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the status says of a job without any savepoint. Where one is there again, it has no version of it."""
    for role in ("log", "view", "metrics"):
        refuse(tmp_path / role, OWN.replace("quarantine", role), 2)
    job.tables(**{role: str(tmp_path / role) for role in ("log", "view", "metrics")})
    for role in ("view", "metrics"):
        (tmp_path / role).rename(tmp_path / f"{role}_away")
    why = status(job.top).why
    printed = re.search(r"`panekeeper (savepoint .*) NAME --to LOCATION`", why)
    assert printed is not None
    made = [*shlex.split(printed[1]), "one", "--to", str(tmp_path / "savepoints"), "--no-decode"]
    assert main(made) == ExitCode.DONE
    assert f"table view: {tmp_path}/view is gone, so the start after a restore" in capsys.readouterr().out
    command = ["restore", str(tmp_path / "savepoints"), "one", "--dry-run"]
    assert main(command) == ExitCode.DONE
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"table log: {tmp_path}/log from version 0 to 0",
        f"table view: {tmp_path}/view is gone; the next start makes it from the log",
        f"table metrics: {tmp_path}/metrics is gone; the next start makes it empty",
    ]
    assert main(["clone", *command[1:3], "--into", str(tmp_path / "clone")]) == ExitCode.FAILED
    assert "clone a later savepoint" in capsys.readouterr().err
    (tmp_path / "view_away").rename(tmp_path / "view")
    assert main(command) == ExitCode.FAILED
    assert f"{tmp_path}/view was gone when savepoint 'one' was made" in capsys.readouterr().err


@pytest.mark.parametrize("lost", ["log", "view"])
def test_no_savepoint_is_made_without_a_table_that_is_lost(lost: str, job: FakeCheckpoint, tmp_path: Path) -> None:
    """A log, and a view that its log does not tell: neither the refusal nor the status offers one."""
    job.put(JOB_FILE, json.dumps({**json.loads(job.files.read(JOB_FILE)), "unlike_views": ["log"]}))
    for role in {"log", "view"} - {lost}:
        refuse(tmp_path / role, OWN.replace("quarantine", role), 2)
    job.tables(log=str(tmp_path / "log"), view=str(tmp_path / "view"))
    with pytest.raises(SavepointError, match=rf"^the table \S+/{lost} is gone") as refused:
        savepoint(job.folder, "one", to=tmp_path / "savepoints")
    assert str(refused.value) == status(job.top).why
    assert "made now" not in status(job.top).why


UNLIKE: dict[str, tuple[dict[str, object], str]] = {
    "a reset, or a log begun anew": ({"unlike_views": ["log"]}, "has results of before a reset, or began anew"),
    "discarding": ({"declaration": {"window.results": "discarding"}}, "has parts of the results"),
    "an operator": (
        {"declaration": {"operator": "Spread"}},
        "may have several rows of an operator with the same number",
    ),
}
"""What the record of a savepoint says, and why the log does not tell what the view had."""


@pytest.mark.parametrize("unlike", UNLIKE)
def test_a_view_that_its_log_does_not_tell_is_refused_until_it_may_begin_empty(
    unlike: str, job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says why, the dry run, too; its command lets the view begin empty, and says so."""
    fields, why = UNLIKE[unlike]
    stored = json.loads(job.files.read(JOB_FILE))
    job.put(JOB_FILE, json.dumps({**stored, **fields}))
    for role in ("log", "view"):
        refuse(tmp_path / role, OWN.replace("quarantine", role), 2)
    job.tables(log=str(tmp_path / "log"), view=str(tmp_path / "view"))
    savepoint(job.folder, "one", to=tmp_path / "savepoints")
    shutil.rmtree(tmp_path / "view")
    command = ["restore", str(tmp_path / "savepoints"), "one"]
    assert main(command) == ExitCode.FAILED
    line = capsys.readouterr().err
    assert main([*command, "--dry-run"]) == ExitCode.FAILED
    assert capsys.readouterr().err == line
    assert f"the view {tmp_path}/view is gone, " in line
    assert f"; and the view cannot be made from its log, which {why}. Nothing was changed; " in line
    printed = COMMAND.search(line)
    assert printed is not None
    assert printed[1].endswith(" --begin-anew view")
    assert main([*shlex.split(printed[1]), "--dry-run"]) == ExitCode.DONE
    assert f"table view: {tmp_path}/view is gone; the next start makes it empty" in capsys.readouterr().out


@pytest.mark.parametrize("step", STEPS)
def test_a_restore_without_a_table_that_is_killed_is_completed_by_the_same_call(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, step: str
) -> None:
    """The checkpoint does not name the table, so that a start makes it; what was gone is noted until then."""
    refuse(tmp_path / "log", OWN.replace("quarantine", "log"), 2)
    job.tables(log=str(tmp_path / "log"))
    savepoint(job.folder, "one", to=archive)
    shutil.rmtree(tmp_path / "log")
    killed_at(step, archive, begin_anew=["log"])
    preview = restore(archive, "one", begin_anew=["log"])
    assert (preview.remade, preview.filled, preview.tables) == ({"log": str(tmp_path / "log")}, (), {})
    begin = read_begin(job.files)
    assert begin is not None
    assert (begin.remade, begin.is_done) == (preview.remade, True)
    assert read_tables(job.files) == {}
    with pytest.raises(SavepointRefused, match="was restored without the log, which the next start makes"):
        savepoint(job.folder, "two", to=archive)


def test_a_killed_restore_whose_table_goes_meanwhile_begins_again(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """The start, and the status, name the same restore; that says how it does without the table."""
    savepoint(job.folder, "one", to=archive)
    killed_at("current", archive)
    log = str(tmp_path / "log")
    begin = read_begin(job.files)
    assert begin is not None
    write_begin(job.files, replace(begin, tables={"log": log}, versions={"log": 0}))
    job.tables(log=log)
    why = status(job.top).why
    assert f"the restore of the job of {job.root} is not complete, and the table {log} is gone" in why
    assert re.search(r"restore the savepoint again, which .* it \(`panekeeper restore \S+ one --checkpoint ", why)
    epochs = job.epochs
    restore(archive, "one")
    assert job.epochs == [*epochs, epochs[-1] + 1]


def test_a_table_whose_log_is_damaged_is_refused_before_anything_is_changed(
    job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the damage came after the version; what the line advises is taken: without the folder it goes on."""
    lost = Lost(job, tmp_path)
    (lost.tables[0] / "_delta_log" / f"{1:020d}.json").write_text('{"add": {')
    command = ["restore", str(tmp_path / "savepoints"), "one"]
    assert main([*command, "--dry-run"]) == ExitCode.FAILED
    line = capsys.readouterr().err
    assert re.search(
        r"the log \S+log cannot be taken back to version 0: .* is not a Delta commit .* move the folder", line
    )
    assert main(command) == ExitCode.FAILED
    assert capsys.readouterr().err == line
    assert job.epochs == [0]
    lost.tables[0].rename(tmp_path / "away")
    assert main([*command, "--dry-run"]) == ExitCode.FAILED
    printed = COMMAND.search(capsys.readouterr().err)
    assert printed is not None
    assert main([*shlex.split(printed[1]), "--dry-run"]) == ExitCode.DONE
