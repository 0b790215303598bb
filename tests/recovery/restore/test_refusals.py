"""A dry run refuses what the restore refuses, and the command that a refusal prints is not refused."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from panekeeper.recovery.cli.command import ExitCode
from panekeeper.recovery.cli.main import main
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.restore.test_shared_tables import OTHER, OWN, refuse

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
    assert DeltaTable(lost.tables[0]).version() == 0


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
