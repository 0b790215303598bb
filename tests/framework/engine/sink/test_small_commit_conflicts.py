"""Small commits beside other writers: what they change, remove, and take first."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch, SinkError
from panekeeper.framework.engine.sink.small_commits import PAUSES_S, SmallCommits
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


@pytest.mark.parametrize("is_cleaned_by_us", [True, False])
def test_a_job_goes_on_after_a_cleanup_of_the_log_that_it_has_open(tmp_path: Path, *, is_cleaned_by_us: bool) -> None:
    """The library reads the commits before the last one only when it looks for a transaction: they may be gone by then.

    All of them are old: the newest is another job's, and so may be the checkpoint that stands for all.
    """
    path = make(tmp_path / "log", LOG, checkpointInterval="2", logRetentionDuration="interval 0 seconds")
    SmallCommits(path).append(log_rows("a"), APP, 0)
    ours, theirs = SmallCommits(path, sleep=lambda _: None), SmallCommits(path)
    if is_cleaned_by_us:
        ours.append(log_rows("b"), APP, 1)
        theirs.note({"theirs": 0})
    else:
        for batch in range(4):
            theirs.append(log_rows("theirs"), "theirs", batch)
    assert not ours.append(log_rows("a"), APP, 0)
    assert ours.append(log_rows("c"), APP, 2)
    assert sensors(path) == ["a", *["b"] * is_cleaned_by_us, "c", *["theirs"] * 4 * (not is_cleaned_by_us)]
