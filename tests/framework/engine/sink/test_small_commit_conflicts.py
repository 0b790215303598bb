"""Small commits beside other writers: what they change, remove, and take first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch, SinkError
from panekeeper.framework.engine.sink.small_commits import PAUSES_S, SmallCommits
from panekeeper.framework.engine.sink.small_tables import SmallTables
from tests.framework.engine.sink.test_small_commits import (
    APP,
    LOG,
    files,
    log_rows,
    make,
    merge,
    panes,
    path,
    sensors,
    view,
    view_rows,
)
from tests.framework.engine.sink.test_small_tables import NO_SPARK

__all__ = ["path", "view"]


def test_a_job_goes_on_after_a_compaction_whose_old_files_are_vacuumed_away(view: str) -> None:
    """The open table names files that are gone; the log has a newer version, so it is read again."""
    commits = SmallCommits(view, sleep=lambda _: None)
    for pane in range(3):
        merge(commits, panes(("a", pane, 1.0, 0), ("b", pane, 1.0, 0)), pane)
    DeltaTable(view).optimize.compact()
    DeltaTable(view).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert merge(commits, panes(("a", 1, 2.0, 1)), 3)
    assert not merge(commits, panes(("a", 1, 9.0, 9)), 3)
    assert view_rows(view)[2:4] == [("a", 1, 2.0, 1), ("b", 1, 1.0, 0)]


def test_a_file_that_is_gone_while_nobody_has_committed_is_an_error(view: str) -> None:
    """Repeating would not help; the batch is not committed, and the message names the table and the way out."""
    waited: list[float] = []
    commits = SmallCommits(view, sleep=waited.append)
    merge(commits, panes(("a", 1, 1.0, 0)), 0)
    (file,) = files(view)
    (Path(view) / file).unlink()
    with pytest.raises(OutputNotWritable, match=rf"{view} cannot be written: .*resumes with batch 1"):
        merge(commits, panes(("a", 1, 2.0, 1)), 1)
    assert waited == []
    assert DeltaTable(view).transaction_version(APP) == 0


def test_a_column_that_was_added_while_the_job_ran_is_null(path: str) -> None:
    """As rows that were recorded before a start has added it. The next start says what to do with it."""
    commits = SmallCommits(path, sleep=lambda _: None)
    commits.append(log_rows("a"), APP, 0)
    DeltaTable(path).alter.add_columns([Field("more", PrimitiveType("string"))])
    commits.append(log_rows("b"), APP, 1)
    assert sensors(path) == ["a", "b"]
    assert DeltaTable(path).to_pyarrow_table().column("more").to_pylist() == [None, None]


def test_a_merge_leaves_a_column_that_was_added_as_it_is(view: str) -> None:
    """It is null in new rows, and keeps what somebody has written to it."""
    commits = SmallCommits(view, sleep=lambda _: None)
    merge(commits, panes(("a", 1, 1.0, 0)), 0)
    DeltaTable(view).alter.add_columns([Field("more", PrimitiveType("string"))])
    DeltaTable(view).update(new_values={"more": "kept"})
    merge(commits, panes(("a", 1, 2.0, 1), ("b", 1, 5.0, 0)), 1)
    rows = DeltaTable(view).to_pyarrow_table().to_pylist()
    assert sorted((row["sensor"], row["more"]) for row in rows) == [("a", "kept"), ("b", None)]


def test_a_column_that_was_removed_while_the_job_ran_is_an_error(path: str) -> None:
    """What it was to get would be lost."""
    commits = SmallCommits(path, sleep=lambda _: None)
    commits.append(log_rows("a"), APP, 0)
    write_deltalake(path, log_rows("a").select(["sensor"]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaMismatch, match=r"other columns now \(sensor\)"):
        commits.append(log_rows("b"), APP, 1)
    assert sensors(path) == ["a"]


def test_a_commit_whose_name_is_taken_at_each_attempt_leaves_files_and_no_row(path: str) -> None:
    """As a kill between the file and its commit: the next job repeats the batch, and VACUUM removes the files."""
    waited: list[float] = []
    commits = SmallCommits(path, sleep=waited.append)
    commits.append(log_rows("a"), APP, 0)
    taken = Path(path) / "_delta_log" / f"{DeltaTable(path).version() + 1:020d}.json"
    taken.mkdir()
    with pytest.raises(SinkError, match=rf"{path}: batch 1 is not committed, because other writers came first"):
        commits.append(log_rows("b"), APP, 1)
    taken.rmdir()
    assert len(waited) == len(PAUSES_S)
    assert len(files(path)) == 1 + 6
    assert sensors(path) == ["a"]
    assert SmallCommits(path).append(log_rows("b"), APP, 1)
    assert sensors(path) == ["a", "b"]
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, full=True, dry_run=False)
    assert len(files(path)) == 2
    assert sensors(path) == ["a", "b"]


def replace_newest_commit(path: str, rows: pa.Table) -> None:
    """Let the append of another process take the place of the newest commit, as a rename does that has looked before.

    It renames when the commit that it has not seen is there.
    """
    before = Path(f"{path}-before")
    newest = f"{DeltaTable(path).version():020d}.json"
    shutil.copytree(path, before)
    (before / "_delta_log" / newest).unlink()
    write_deltalake(str(before), rows, mode="append")
    for file in files(str(before)) - files(path):
        shutil.move(before / file, path)
    shutil.move(before / "_delta_log" / newest, Path(path) / "_delta_log" / newest)
    shutil.rmtree(before)


def test_a_batch_whose_commit_was_replaced_is_committed_again_before_the_next(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows of both are in the table, once; so are those of the batch that follows."""
    commits = SmallCommits(path)
    commits.append(log_rows("a"), APP, 0)
    commits.append(log_rows("b"), APP, 1)
    replace_newest_commit(path, log_rows("theirs"))
    assert sensors(path) == ["a", "theirs"]
    assert commits.append(log_rows("c"), APP, 2)
    assert sensors(path) == ["a", "b", "c", "theirs"]
    assert f"batch 1 was lost: another process has replaced {path}/" in caplog.text
    assert SmallCommits(path).last_transaction(APP) == 2


def test_a_batch_whose_commit_was_replaced_is_in_no_checkpoint_of_the_log(tmp_path: Path) -> None:
    """It was written at once, and had the transaction of the batch, which was taken for committed then."""
    path = make(tmp_path / "log", LOG, checkpointInterval="2")
    commits = SmallCommits(path)
    commits.append(log_rows("a"), APP, 0)
    commits.append(log_rows("b"), APP, 1)
    replace_newest_commit(path, log_rows("theirs"))
    assert commits.append(log_rows("c"), APP, 2)
    DeltaTable(path).create_checkpoint()  # of the other process, which was slow
    assert sensors(path) == ["a", "b", "c", "theirs"]
    commits.append(log_rows("d"), APP, 3)
    commits.confirm()
    assert sensors(path) == ["a", "b", "c", "d", "theirs"]
    assert DeltaTable(path).version() == 5
    assert json.loads((Path(path) / "_delta_log" / "_last_checkpoint").read_text())["version"] == 4


def test_a_merge_that_was_replaced_is_merged_again_at_the_end_of_a_run(view: str) -> None:
    """The last batch has no next one; the rows of both are there then, once."""
    tables = SmallTables()
    tables.commit(NO_SPARK, view, lambda to: merge(to, panes(("a", 1, 1.0, 0), ("b", 1, 1.0, 0)), 0))
    tables.commit(NO_SPARK, view, lambda to: merge(to, panes(("a", 1, 2.0, 1), ("c", 2, 1.0, 0)), 1))
    replace_newest_commit(view, panes(("d", 3, 1.0, 0)))
    assert view_rows(view) == [("a", 1, 1.0, 0), ("b", 1, 1.0, 0), ("d", 3, 1.0, 0)]
    tables.confirm()
    tables.confirm()
    assert view_rows(view) == [("a", 1, 2.0, 1), ("b", 1, 1.0, 0), ("c", 2, 1.0, 0), ("d", 3, 1.0, 0)]


def test_a_commit_that_was_cleaned_up_or_repeated_by_another_process_was_not_lost(path: str) -> None:
    """A file that is gone says nothing, and a batch that the table has again is left alone."""
    commits = SmallCommits(path)
    commits.append(log_rows("a"), APP, 0)
    replace_newest_commit(path, log_rows("theirs"))
    SmallCommits(path).append(log_rows("a"), APP, 0)
    commits.confirm()
    assert commits.append(log_rows("b"), APP, 1)
    DeltaTable(path).create_checkpoint()
    (Path(path) / "_delta_log" / f"{DeltaTable(path).version():020d}.json").unlink()
    commits.confirm()
    assert sensors(path) == ["a", "b", "theirs"]


@pytest.mark.parametrize("is_cleaned_by_us", [True, False])
def test_a_job_goes_on_after_a_cleanup_of_the_log_that_it_has_open(tmp_path: Path, *, is_cleaned_by_us: bool) -> None:
    """The library reads the commits before the last one only when it looks for a transaction: they may be gone by then.

    All of them are old: the newest is another job's, and so may be the checkpoint that stands for all.
    """
    path = make(tmp_path / "log", LOG, checkpointInterval="2", logRetentionDuration="interval 0 seconds")
    SmallCommits(path).append(log_rows("a"), APP, 0)
    ours, theirs = SmallCommits(path, sleep=lambda _: None), SmallCommits(path)
    if is_cleaned_by_us:
        ours.append(log_rows("b"), APP, 1)  # the checkpoint of it is written before the next commit
        theirs.note({"theirs": 0})
    else:
        for batch in range(4):
            theirs.append(log_rows("theirs"), "theirs", batch)
    ours.confirm()
    assert not ours.append(log_rows("a"), APP, 0)
    assert ours.append(log_rows("c"), APP, 2)
    assert sensors(path) == ["a", *["b"] * is_cleaned_by_us, "c", *["theirs"] * 4 * (not is_cleaned_by_us)]


def test_a_replaced_batch_that_only_spark_could_commit_again_ends_the_job(path: str) -> None:
    """Nothing is committed after it: with a later batch in the table, no start would see that this one is missing."""
    commits = SmallCommits(path)
    commits.append(log_rows("a"), APP, 0)
    replace_newest_commit(path, log_rows("theirs"))
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})  # protocol 1/4
    for _ in range(2):
        with pytest.raises(SinkError, match=rf"batch 0 was lost: .* replaced {path}/.*json, and the batch cannot be"):
            commits.append(log_rows("b"), APP, 1)
    assert sensors(path) == ["theirs"]
