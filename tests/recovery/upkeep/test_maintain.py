"""Tables are compacted and vacuumed beside their job, and each savepoint can still be restored."""

from __future__ import annotations

import json
import os
import threading
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from panekeeper.framework.engine.sink.library_table import LibraryTable
from panekeeper.recovery.errors import NoSuchSavepoint, SavepointRefused
from panekeeper.recovery.savepoint.catalog import prune
from panekeeper.recovery.upkeep.maintain import TableUpkeep, maintain
from panekeeper.state.checkpoint.epochs import Begin, write_begin
from panekeeper.state.checkpoint.job_record import OWNER
from tests.recovery.upkeep.conftest import JobWithTable


def of_log(job: JobWithTable, **options: Any) -> TableUpkeep:
    """Vacuum the log, and return what was done with it."""
    (done,) = maintain(job.root, **({"optimize": False} | options)).tables
    assert done.problem is None
    return done


def test_a_table_without_small_files_starts_no_spark(tabled: JobWithTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file is not compacted with itself; a dry run only counts."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert of_log(tabled, optimize=True).compacted == 0
    tabled.append(1)
    assert of_log(tabled, optimize=True).compacted == 0
    tabled.append(1)
    assert of_log(tabled, optimize=True, dry_run=True).compacted == 2


@pytest.mark.parametrize("expired", [False, True], ids=["in the log", "dropped from the log"])
def test_files_of_a_savepoint_are_kept_and_others_removed(tabled: JobWithTable, *, expired: bool) -> None:
    """Compacted long ago; whether the log still has the record of that or only the age of the files counts.

    version   1 2 3 (savepoint)   4: one file for three   5 6   7: one for three
    needed    ^ ^ ^                                                ^
    """
    tabled.append(3)
    tabled.save("one")
    tabled.compact()
    tabled.append(2)
    tabled.compact()
    tabled.age(60)
    if expired:
        DeltaTable(tabled.table).create_checkpoint()
    assert len(tabled.files()) == 7
    done = of_log(tabled)
    assert (done.removed, done.kept, done.retained_hours) == (3, 3, 168)
    assert len(tabled.files()) == 4
    assert tabled.rows(3) == [0, 1, 2]
    assert tabled.rows() == [0, 1, 2, 3, 4]
    tabled.save("two")
    prune(tabled.location, keep=1)
    assert of_log(tabled).removed == 3
    assert tabled.rows() == [0, 1, 2, 3, 4]


def test_versions_within_the_retention_stay_readable(tabled: JobWithTable) -> None:
    """A reader may be at one of them; the property of the table counts if it is longer than what is wanted."""
    tabled.append(2)
    tabled.compact()
    tabled.age(6)
    assert of_log(tabled).removed == 0
    tabled.age(4)
    DeltaTable(tabled.table).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 20 days"})
    done = of_log(tabled)
    assert (done.removed, done.retained_hours) == (0, 480)
    assert "kept for interval 20 days" in done.notes[0]
    tabled.age(20)
    assert of_log(tabled).removed == 2


def test_a_dry_run_writes_nothing_and_says_what_a_run_does(tabled: JobWithTable) -> None:
    """Of both statements."""
    tabled.append(3)
    tabled.compact()
    tabled.append(2)
    tabled.age(30)
    before = tabled.contents()
    would = of_log(tabled, dry_run=True)
    assert tabled.contents() == before
    done = of_log(tabled)
    assert (would.removed, would.bytes) == (3, done.bytes) == (done.removed, would.bytes)
    assert would.bytes == sum(len(content) for path, content in before.items() if _was_removed(path))


def _was_removed(path: str) -> bool:
    return path.endswith(".parquet") and not Path(path).exists()


def test_commits_beside_it_are_all_there_once(tabled: JobWithTable) -> None:
    """A job commits, and its table is compacted by others, while files are removed again and again."""

    def commit() -> None:
        for _ in range(20):
            tabled.append()
            tabled.compact()

    tabled.append()
    tabled.age(30)
    job = threading.Thread(target=commit)
    job.start()
    while job.is_alive():
        of_log(tabled)
    job.join()
    assert tabled.rows() == [*range(21)]


def test_files_without_a_commit_are_removed_when_they_are_old(tabled: JobWithTable) -> None:
    """A commit of a young one may be under way. What is no data file of this table is left alone."""
    tabled.append(1)
    (tabled.table / "part-old.parquet").write_bytes(b"of a process that was killed")
    (tabled.table / "notes.txt").write_text("of a user")
    (tabled.table / "other").mkdir()
    (tabled.table / "other/part-0.parquet").write_bytes(b"of another table")
    large = tabled.table / uuid.uuid4().hex  # of many rows, which Spark writes and the library is to commit
    large.mkdir()
    (large / "part-0.parquet").write_bytes(b"of a process that was killed")
    for path in tabled.table.rglob("*"):
        os.utime(path, (0, 0))
    (tabled.table / "part-new.parquet").write_bytes(b"not committed yet")
    assert of_log(tabled).removed == 2
    assert not (tabled.table / "part-old.parquet").exists()
    assert not (large / "part-0.parquet").exists()
    assert all((tabled.table / name).exists() for name in ("part-new.parquet", "notes.txt", "other/part-0.parquet"))
    assert tabled.rows() == [0]


def test_files_of_a_savepoint_are_kept_by_whatever_name_the_table_has_now(tabled: JobWithTable, tmp_path: Path) -> None:
    """The job was started with the folder itself after it had been given by a link, or the other way round."""
    link = tmp_path / "link"
    link.symlink_to(tabled.table)
    tabled.append(2)
    tabled.checkpoint.tables(log=str(link))
    tabled.save("by-the-link")
    tabled.checkpoint.tables(log=str(tabled.table))
    version = DeltaTable(tabled.table).version()
    tabled.compact()
    tabled.age(60)
    assert of_log(tabled).kept == 2
    assert tabled.rows(version) == [0, 1]


def test_the_version_before_an_interrupted_batch_is_kept(tabled: JobWithTable) -> None:
    """A savepoint of a job that crashed amid its commits has that version, however long ago that was."""
    tabled.append(3)
    tabled.checkpoint.begin()
    tabled.compact()
    table = DeltaTable(tabled.table)
    tabled.append(1, to_the_table_only=True)
    tabled.compact()
    tabled.age(60)
    assert of_log(tabled).kept == 1
    version = tabled.save("late").tables["log"].version
    assert version == table.version()
    assert tabled.rows(version) == [0, 1, 2]


def test_only_tables_of_the_checkpoint_are_touched(tabled: JobWithTable, tmp_path: Path) -> None:
    """By role or path; one that another checkpoint has taken since is refused, too."""
    other = JobWithTable(tmp_path / "other")
    other.append(2)
    tabled.append(2)
    with pytest.raises(SavepointRefused, match=r"other/log is no table of the checkpoint .*log \("):
        maintain(tabled.root, tables=[str(other.table)])
    assert of_log(tabled, tables=["log"]).role == "log"
    assert of_log(tabled, tables=[f"file://{tabled.table}"]).role == "log"
    LibraryTable(str(other.table)).own(OWNER, 7, take=True)
    tabled.checkpoint.tables(log=str(other.table))
    before = other.contents()
    with pytest.raises(SavepointRefused, match="belongs to another checkpoint"):
        maintain(tabled.root)
    assert other.contents() == before


def test_a_short_retention_needs_a_word_and_a_stopped_job(tabled: JobWithTable) -> None:
    """Then versions of a moment ago are removed, but for those of savepoints."""
    tabled.append(2)
    tabled.save("one")
    tabled.append(1)
    tabled.compact()
    with pytest.raises(SavepointRefused, match="--allow-short-retention"):
        maintain(tabled.root, retain="6 days")
    short: dict[str, Any] = {"retain": timedelta(), "allow_short_retention": True}
    tabled.checkpoint.lease(pid=os.getpid())
    with pytest.raises(SavepointRefused, match="drain it first"):
        maintain(tabled.root, **short)
    tabled.checkpoint.lease(pid=2**22 + 1)
    (under_way := tabled.table / "part-of-another-job.parquet").write_bytes(b"which commits it now")
    done = of_log(tabled, **short)
    assert (done.removed, done.kept) == (1, 2)
    assert (tabled.rows(2), under_way.exists()) == ([0, 1], True)


def test_savepoints_are_found_where_the_newest_was_made_and_where_a_user_says(
    tabled: JobWithTable, tmp_path: Path
) -> None:
    """A location that is gone, or holds what cannot be read, ends it before anything is removed."""
    tabled.append(2)
    tabled.save("one")
    tabled.location.rename(tmp_path / "moved")
    tabled.compact()
    tabled.age(60)
    before = tabled.contents()
    with pytest.raises(SavepointRefused, match=r"which holds no savepoints now.*--no-recorded"):
        maintain(tabled.root)
    with pytest.raises(NoSuchSavepoint, match="holds no savepoints"):
        maintain(tabled.root, savepoints=[tmp_path / "mistyped"])
    assert of_log(tabled, savepoints=[tmp_path / "moved"], recorded=False).kept == 2
    (tmp_path / "moved/savepoints/bad.json").write_text("{")
    with pytest.raises(SavepointRefused, match=r"savepoint 'bad' in .* is not known"):
        maintain(tabled.root, savepoints=[tmp_path / "moved"], recorded=False)
    assert tabled.contents() == before
    assert of_log(tabled, recorded=False).removed == 2


def test_a_savepoint_whose_version_is_gone_is_reported(tabled: JobWithTable) -> None:
    """The log was cleaned up: the others are kept all the same."""
    tabled.append(2)
    tabled.save("one")
    DeltaTable(tabled.table).create_checkpoint()
    tabled.append(1)
    DeltaTable(tabled.table).create_checkpoint()
    for version in range(3):
        (tabled.table / f"_delta_log/{version:020d}.json").unlink()
    (tabled.table / f"_delta_log/{2:020d}.checkpoint.parquet").unlink()
    assert of_log(tabled).notes == ("version 2 is gone, and with it savepoint one",)


def test_an_incomplete_reset_is_completed_first(tabled: JobWithTable) -> None:
    """What the tables should hold is not certain before."""
    tabled.append(2)
    write_begin(tabled.checkpoint.files, Begin(kind="reset"))
    with pytest.raises(SavepointRefused, match="Start the job once"):
        maintain(tabled.root)
    assert len(tabled.files()) == 2


def test_a_table_that_only_spark_can_read_keeps_its_files(
    tabled: JobWithTable, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its VACUUM knows no savepoints."""
    tabled.append(2)
    tabled.save("one")
    tabled.append(1)
    log = tabled.table / f"_delta_log/{4:020d}.json"
    changed: dict[str, Any] = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    changed |= {"schemaString": DeltaTable(tabled.table).schema().to_json(), "createdTime": 0}
    changed["configuration"] = {"delta.enableChangeDataFeed": "true"}
    log.write_text(json.dumps({"metaData": changed}))
    before = tabled.contents()
    command = ["maintain", tabled.root, "--no-optimize"]
    assert main(command) == ExitCode.FAILED
    printed = capsys.readouterr().out
    assert "nothing removed, as only Spark can: its property delta.enableChangeDataFeed is 'true'" in printed
    assert tabled.contents().keys() == before.keys()


def test_a_table_that_the_library_takes_for_another_one_keeps_its_files(tabled: JobWithTable, tmp_path: Path) -> None:
    """Of `a%20b` it reads the log in `a b`: by that one, no file in `a%20b` would be needed."""
    (tmp_path / "other").mkdir()
    other = JobWithTable(tmp_path / "other")
    for job, folder in ((tabled, "a%20b"), (other, "a b")):
        job.append(3)
        job.age(9)
        job.table = job.table.rename(tmp_path / folder)
    tabled.checkpoint.tables(log=str(tabled.table))
    before = tabled.files()
    (done,) = maintain(tabled.root, optimize=False).tables
    assert "as only Spark can: the library does not reach a folder with '%' in its name" in str(done.problem)
    assert tabled.files() == before


def test_the_result_printed_as_lines(tabled: JobWithTable, capsys: pytest.CaptureFixture[str]) -> None:
    """One for the job, one for each table."""
    tabled.append(2)
    tabled.save("one")
    assert main(["maintain", tabled.root, "--dry-run"]) == 0
    assert "log: 2 small files would be compacted, 0 unused files would be removed (0 B)" in capsys.readouterr().out
    tabled.compact()
    tabled.age(9)
    assert main(["maintain", tabled.root]) == 0
    printed = capsys.readouterr().out
    assert "1 savepoints have them" in printed
    assert "0 unused files were removed (0 B), 2 are kept for savepoints" in printed
