"""Commits by the library: once each, beside other writers, into a view, and never after their epoch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch, SinkError
from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.framework.engine.sink.library_table import FENCED, PAUSES_S, REPLACED, LibraryTable, _Snapshot

APP = "readings/log@0123456789ab#0"
TIME = pa.timestamp("us", tz="UTC")
LOG = pa.schema([("sensor", pa.string()), ("total", pa.float64())])
VIEW = pa.schema(
    [
        ("sensor", pa.string()),
        ("pane_start", TIME),
        ("pane_end", TIME),
        ("total", pa.float64()),
        ("refinement", pa.int32()),
    ]
)
PANE = ("sensor", "pane_start", "pane_end")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """An empty log table, with the properties that ours have."""
    return make(tmp_path / "log", LOG)


@pytest.fixture
def view(tmp_path: Path) -> str:
    """An empty view."""
    return make(tmp_path / "view", VIEW)


def make(folder: Path, schema: pa.Schema, **properties: str) -> str:
    """A new table."""
    configuration = {"delta.checkpointInterval": "100"} | {f"delta.{name}": value for name, value in properties.items()}
    DeltaTable.create(folder, schema=schema, configuration=configuration)
    return str(folder)


def log_rows(*sensors: str) -> pa.Table:
    """Rows of the log."""
    return pa.table({"sensor": list(sensors), "total": [1.0] * len(sensors)}, schema=LOG)


def panes(*rows: tuple[str | None, int, float, int | None]) -> pa.Table:
    """Rows of the view: sensor, pane (of a minute), total, refinement."""
    columns: list[list[Any]] = [
        [row[0] for row in rows],
        [row[1] * 60_000_000 for row in rows],
        [(row[1] + 1) * 60_000_000 for row in rows],
        [row[2] for row in rows],
        [row[3] for row in rows],
    ]
    return pa.table(columns, schema=VIEW)


def merge(commits: LibraryTable, rows: pa.Table, version: int, app: str = APP) -> bool:
    """Merge as the sink does for a view with panes."""
    return commits.merge(rows, app, version, keys=PANE, newer_by="refinement", since="pane_start")


def sensors(path: str) -> list[str]:
    """The sensors in the table, sorted."""
    return sorted(DeltaTable(path).to_pyarrow_table().column("sensor").to_pylist())


def view_rows(path: str) -> list[tuple[str | None, int, float, int | None]]:
    """What `panes` was given, as the view has it, by pane and sensor."""
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    found = [
        (row["sensor"], round(row["pane_start"].timestamp()) // 60, row["total"], row["refinement"]) for row in rows
    ]
    return sorted(found, key=lambda row: (row[1], row[0] or ""))


def files(path: str) -> set[str]:
    """The Parquet files in the table's folder."""
    return {file.name for file in Path(path).glob("*.parquet")}


def operations(path: str) -> list[str]:
    """The operations in the table's history, oldest first."""
    return [commit["operation"] for commit in reversed(DeltaTable(path).history())]


def test_a_repeated_version_is_skipped_by_this_process_and_by_the_next(path: str) -> None:
    """Whoever repeats a batch, its rows stand in the table once."""
    commits = LibraryTable(path)
    assert commits.append(log_rows("a"), APP, 0)
    assert not commits.append(log_rows("a"), APP, 0)
    assert commits.append(log_rows("b"), APP, 3)
    assert not LibraryTable(path).append(log_rows("a"), APP, 2)
    assert LibraryTable(path).append(log_rows("c"), "another job", 0)
    assert sensors(path) == ["a", "b", "c"]


def test_a_process_that_repeats_what_another_has_just_committed_skips_it(path: str) -> None:
    """The second of two processes on one checkpoint had read the log before the first committed."""
    waited: list[float] = []
    first, second = LibraryTable(path), LibraryTable(path, sleep=waited.append)
    assert second.append(log_rows("a"), APP, 0)
    assert first.append(log_rows("b"), "another job", 0)  # both have read the log now
    assert first.append(log_rows("c"), APP, 1)
    assert not second.append(log_rows("c"), APP, 1)
    assert waited == [0.05]
    assert second.append(log_rows("d"), APP, 2)
    assert sensors(path) == ["a", "b", "c", "d"]


def test_rows_are_in_the_file_in_their_order(path: str) -> None:
    """Whoever reads the log as a stream gets the firings in their order, however many segments they came in."""
    names = [f"{number:05d}" for number in range(3000)]
    many = pa.concat_tables([log_rows(*names[begin : begin + 300]) for begin in range(0, 3000, 300)])
    LibraryTable(path, {}).append(many, APP, 0)
    (file,) = files(path)
    assert pq.read_table(Path(path) / file).column("sensor").to_pylist() == names


def test_a_merge_into_a_shallow_clone_is_left_to_spark(path: str, tmp_path: Path) -> None:
    """Its files lie in the folder of another table; the library cannot remove them. It can append, and does."""
    LibraryTable(path, {}).append(log_rows("a"), APP, 0)
    (file,) = files(path)
    clone = make(tmp_path / "clone", LOG)
    add = {"path": (Path(path) / file).as_uri(), "partitionValues": {}, "size": 1, "modificationTime": 0}
    line = json.dumps({"add": add | {"dataChange": True}})
    (tmp_path / "clone" / "_delta_log" / f"{1:020d}.json").write_text(line)
    commits = LibraryTable(clone, {})
    assert commits.append(log_rows("b"), APP, 0)
    with pytest.raises(UnsupportedTable, match="files in the folders of other tables"):
        commits.merge(log_rows("b"), APP, 1, keys=["sensor"], newer_by="total")


def test_writers_that_do_not_touch_our_rows_are_no_conflict(path: str) -> None:
    """Other appends, and a compaction of all files, happen between two commits of an open table."""
    commits = LibraryTable(path)
    commits.append(log_rows("a"), APP, 0)
    write_deltalake(path, log_rows("b"), mode="append")
    assert commits.append(log_rows("c"), APP, 1)
    DeltaTable(path).optimize.compact()
    assert commits.append(log_rows("d"), APP, 2)
    assert sensors(path) == ["a", "b", "c", "d"]


def test_a_process_of_an_earlier_epoch_commits_nothing_any_more(path: str, view: str) -> None:
    """It was paused with the tables open; it ends with an error, whether it appends, merges or begins again."""
    old, old_view = LibraryTable(path, sleep=lambda _: None), LibraryTable(view, sleep=lambda _: None)
    old.append(log_rows("a"), APP, 0)
    merge(old_view, panes(("a", 1, 1.0, 0)), 0)
    for table in (path, view):
        now = LibraryTable(table)
        assert now.note({APP: FENCED, "readings/log@0123456789ab#1": FENCED})
        assert not now.note({APP: FENCED})
        assert DeltaTable(table).transaction_version("readings/log@0123456789ab#1") == FENCED
    acts: list[Callable[[], bool]] = [
        lambda: old.append(log_rows("b"), APP, 1),
        lambda: LibraryTable(path).append(log_rows("b"), APP, 1),
        lambda: merge(old_view, panes(("a", 2, 1.0, 0)), 1),
    ]
    for act in acts:
        with pytest.raises(SinkError, match="a later epoch of the job has begun"):
            act()
    assert LibraryTable(path).append(log_rows("c"), "readings/log@0123456789ab#2", 0)
    assert sensors(path) == ["a", "c"]
    assert view_rows(view) == [("a", 1, 1.0, 0)]


def test_a_file_whose_commit_failed_is_in_no_version_and_the_batch_can_be_repeated(path: str) -> None:
    """As after a kill between the two: the rows come once, and the file is left over for VACUUM."""
    late, commits = LibraryTable(path), LibraryTable(path)
    late._snapshot().version_of(APP)
    commits.note({APP: FENCED})
    with pytest.raises(SinkError):
        late.append(log_rows("lost"), APP, 0)
    assert len(files(path)) == 1
    assert sensors(path) == []
    assert commits.append(log_rows("a"), "next epoch", 0)
    assert sensors(path) == ["a"]
    leftover = DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, full=True)
    assert {Path(file).name for file in leftover} == files(path) - {Path(f).name for f in DeltaTable(path).file_uris()}


def test_the_view_takes_new_panes_and_rows_that_are_not_older(view: str) -> None:
    """What is older changes nothing; rows of other panes and partitions stay."""
    commits = LibraryTable(view)
    assert merge(commits, panes(("a", 1, 1.0, 0), ("b", 1, 1.0, 1)), 0)
    assert merge(commits, panes(("a", 1, 2.0, 1), ("b", 1, 9.0, 0), ("a", 2, 1.0, 0)), 1)
    assert not merge(commits, panes(("a", 1, 9.0, 9)), 1)
    assert merge(commits, panes(("a", 1, 9.0, 0), ("a", 2, 3.0, 0)), 2)
    assert view_rows(view) == [("a", 1, 2.0, 1), ("b", 1, 1.0, 1), ("a", 2, 3.0, 0)]


def test_a_row_without_a_refinement_replaces_and_is_replaced(view: str) -> None:
    """What an operator emits at the insertion of a row, or as a pane closes, comes in the order of the batches."""
    commits = LibraryTable(view)
    for batch, refinement in enumerate([None, None, 0, None]):
        merge(commits, panes(("a", 1, float(batch), refinement), ("a", batch + 2, 0.0, 0)), batch)
        assert view_rows(view)[0] == ("a", 1, float(batch), refinement)


def test_null_is_a_key_of_the_view_like_any_other(view: str) -> None:
    """The pane of a null sensor is refined, and not shown twice."""
    commits = LibraryTable(view)
    merge(commits, panes((None, 1, 1.0, 0), ("a", 1, 1.0, 0)), 0)
    merge(commits, panes((None, 1, 2.0, 1)), 1)
    assert view_rows(view) == [(None, 1, 2.0, 1), ("a", 1, 1.0, 0)]


def test_panes_after_all_in_the_view_are_appended_and_all_others_merged(view: str) -> None:
    """The table's own statistics say which panes can be in it; what a refinement number says is not relied on."""
    commits = LibraryTable(view)
    merge(commits, panes(("a", 1, 1.0, 0), ("a", 2, 1.0, 0)), 0)
    merge(commits, panes(("a", 3, 1.0, 0)), 1)
    merge(LibraryTable(view), panes(("a", 4, 1.0, 0)), 2)
    assert operations(view)[1:] == ["WRITE", "WRITE", "WRITE"]
    merge(commits, panes(("b", 3, 1.0, 0), ("a", 5, 1.0, 0)), 3)
    merge(LibraryTable(view), panes(("a", 5, 7.0, 0), ("b", 5, 1.0, 0)), 4)
    assert operations(view)[4:] == ["MERGE", "MERGE"]
    assert view_rows(view) == [
        ("a", 1, 1.0, 0), ("a", 2, 1.0, 0), ("a", 3, 1.0, 0), ("b", 3, 1.0, 0), ("a", 4, 1.0, 0), ("a", 5, 7.0, 0),
        ("b", 5, 1.0, 0),
    ]  # fmt: skip


def test_rows_without_a_pane_are_merged(view: str) -> None:
    """An operator may emit a row for a late tuple, which is in no pane: the limit by pane does not apply."""
    commits = LibraryTable(view)
    nowhere = panes(("a", 1, 1.0, 0)).set_column(1, "pane_start", pa.array([None], TIME))
    merge(commits, nowhere, 0)
    newer = nowhere.set_column(4, "refinement", pa.array([1], pa.int32()))
    merge(commits, pa.concat_tables([newer, panes(("a", 7, 1.0, 0))]), 1)
    merge(commits, panes(("a", 8, 1.0, 0)), 2)
    merge(commits, newer.set_column(4, "refinement", pa.array([2], pa.int32())), 3)
    assert sorted(DeltaTable(view).to_pyarrow_table().column("refinement").to_pylist()) == [0, 0, 2]
    assert operations(view)[1:] == ["MERGE", "MERGE", "WRITE", "MERGE"]


def test_rows_that_another_writer_put_into_the_view_are_found(view: str) -> None:
    """An open table has the statistics of its own commits; after those of another writer it reads them again."""
    commits = LibraryTable(view)
    merge(commits, panes(("a", 1, 1.0, 0)), 0)
    write_deltalake(view, panes(("a", 9, 5.0, 5)), mode="append")
    merge(commits, panes(("a", 2, 1.0, 0)), 1)
    merge(commits, panes(("a", 9, 1.0, 0)), 2)
    assert view_rows(view) == [("a", 1, 1.0, 0), ("a", 2, 1.0, 0), ("a", 9, 5.0, 5)]


def test_a_view_without_panes_has_one_row_for_each_partition(tmp_path: Path) -> None:
    """The number of the firing says which is newer; without partitions there is one row."""
    schema = pa.schema([("sensor", pa.string()), ("total", pa.float64()), ("firing", pa.int64())])
    path = make(tmp_path / "view", schema)

    def rows(*given: tuple[str, float, int]) -> pa.Table:
        return pa.table([list(column) for column in zip(*given, strict=True)], schema=schema)

    commits = LibraryTable(path)
    for version, batch in enumerate([rows(("a", 1.0, 0), ("b", 1.0, 1)), rows(("a", 2.0, 2)), rows(("b", 9.0, 0))]):
        commits.merge(batch, APP, version, keys=["sensor"], newer_by="firing")
    assert sorted(DeltaTable(path).to_pyarrow_table().column("total").to_pylist()) == [1.0, 2.0]
    single = make(tmp_path / "single", schema)
    for version, batch in enumerate([rows(("a", 1.0, 0)), rows(("b", 2.0, 1))]):
        LibraryTable(single).merge(batch, APP, version, keys=[], newer_by="firing")
    assert DeltaTable(single).to_pyarrow_table().column("sensor").to_pylist() == ["b"]


def test_a_floating_point_key_is_left_to_spark(tmp_path: Path) -> None:
    """Of 0.0 and NaN there are several, equal to Spark and not to the library."""
    schema = pa.schema([("level", pa.float64()), ("firing", pa.int64())])
    commits = LibraryTable(make(tmp_path / "view", schema))
    rows = pa.table({"level": [0.0], "firing": [0]}, schema=schema)
    with pytest.raises(UnsupportedTable, match="'level' is a floating-point number"):
        commits.merge(rows, APP, 0, keys=["level"], newer_by="firing")


def test_a_merge_of_rows_that_are_all_older_is_in_the_log_of_the_view(view: str) -> None:
    """It changes no row; but a start looks there for the last batch."""
    commits = LibraryTable(view)
    for batch, refinement in ((0, 3), (1, 2), (2, 4)):
        merge(commits, panes(("a", 1, 1.0, refinement)), batch)
        assert commits.last_transaction(APP) == LibraryTable(view).last_transaction(APP) == batch


def test_a_job_goes_on_after_a_compaction_whose_old_files_are_vacuumed_away(view: str) -> None:
    """The open table names files that are gone; the log has a newer version, so it is read again."""
    commits = LibraryTable(view, sleep=lambda _: None)
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
    commits = LibraryTable(view, sleep=waited.append)
    merge(commits, panes(("a", 1, 1.0, 0)), 0)
    (file,) = files(view)
    (Path(view) / file).unlink()
    with pytest.raises(OutputNotWritable, match=rf"{view} cannot be written, and lacks batch 1: .*it resumes"):
        merge(commits, panes(("a", 1, 2.0, 1)), 1)
    assert waited == []
    assert DeltaTable(view).transaction_version(APP) == 0


def test_rows_are_written_by_the_names_of_their_columns(path: str, view: str) -> None:
    """A table keeps the order in which it was made, whatever the order of the results is now."""
    commits = LibraryTable(path)
    assert commits.append(log_rows("a").select(["total", "sensor"]), APP, 0)
    assert DeltaTable(path).to_pyarrow_table().to_pylist() == [{"sensor": "a", "total": 1.0}]
    merged = LibraryTable(view)
    other = ["sensor", "refinement", "total", "pane_start", "pane_end"]
    for version, rows in enumerate((panes(("a", 1, 1.0, 0)), panes(("a", 1, 2.0, 1), ("b", 0, 3.0, 0)))):
        assert merge(merged, rows.select(other), version)
    assert view_rows(view) == [("b", 0, 3.0, 0), ("a", 1, 2.0, 1)]
    assert DeltaTable(view).to_pyarrow_table().column_names == VIEW.names


def test_a_column_that_was_added_while_the_job_ran_is_null(path: str) -> None:
    """As rows that were recorded before a start has added it. The next start says what to do with it."""
    commits = LibraryTable(path, sleep=lambda _: None)
    commits.append(log_rows("a"), APP, 0)
    DeltaTable(path).alter.add_columns([Field("more", PrimitiveType("string"))])
    commits.append(log_rows("b"), APP, 1)
    assert sensors(path) == ["a", "b"]
    assert DeltaTable(path).to_pyarrow_table().column("more").to_pylist() == [None, None]


def test_a_merge_leaves_a_column_that_was_added_as_it_is(view: str) -> None:
    """It is null in new rows, and keeps what somebody has written to it."""
    commits = LibraryTable(view, sleep=lambda _: None)
    merge(commits, panes(("a", 1, 1.0, 0)), 0)
    DeltaTable(view).alter.add_columns([Field("more", PrimitiveType("string"))])
    DeltaTable(view).update(new_values={"more": "kept"})
    merge(commits, panes(("a", 1, 2.0, 1), ("b", 1, 5.0, 0)), 1)
    rows = DeltaTable(view).to_pyarrow_table().to_pylist()
    assert sorted((row["sensor"], row["more"]) for row in rows) == [("a", "kept"), ("b", None)]


def test_a_column_that_was_removed_while_the_job_ran_is_an_error(path: str) -> None:
    """What it was to get would be lost."""
    commits = LibraryTable(path, sleep=lambda _: None)
    commits.append(log_rows("a"), APP, 0)
    write_deltalake(path, log_rows("a").select(["sensor"]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaMismatch, match=r"other columns now \(sensor\)"):
        commits.append(log_rows("b"), APP, 1)
    assert sensors(path) == ["a"]


def test_a_commit_whose_name_is_taken_at_each_attempt_leaves_files_and_no_row(path: str) -> None:
    """As a kill between the file and its commit: the next job repeats the batch, and VACUUM removes the files."""
    waited: list[float] = []
    commits = LibraryTable(path, sleep=waited.append)
    commits.append(log_rows("a"), APP, 0)
    taken = Path(path) / "_delta_log" / f"{DeltaTable(path).version() + 1:020d}.json"
    taken.mkdir()
    with pytest.raises(SinkError, match=rf"{path}: batch 1 is not committed, because other writers came first"):
        commits.append(log_rows("b"), APP, 1)
    taken.rmdir()
    assert len(waited) == len(PAUSES_S)
    assert len(files(path)) == 1 + 6
    assert sensors(path) == ["a"]
    assert LibraryTable(path).append(log_rows("b"), APP, 1)
    assert sensors(path) == ["a", "b"]
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, full=True, dry_run=False)
    assert len(files(path)) == 2
    assert sensors(path) == ["a", "b"]


def test_what_the_table_itself_refuses_is_no_conflict(tmp_path: Path) -> None:
    """Nobody waits for others to end; Spark makes the commit, and says by which rule of the table it is refused."""
    path, waited = make(tmp_path / "view", VIEW, appendOnly="true"), list[float]()
    commits = LibraryTable(path, sleep=waited.append)
    merge(commits, panes(("a", 0, 1.0, 0)), 0)
    with pytest.raises(UnsupportedTable, match=r"it refuses the commit: .* append-only"):
        merge(commits, panes(("a", 0, 2.0, 1)), 1)
    assert waited == []


def test_the_name_of_a_table_is_not_taken_for_what_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk is full below a folder that is called so: that is no word of the table, and Spark could do no more."""
    path = make(tmp_path / "append-only", LOG)

    def full(*_: object, **__: object) -> None:
        raise OSError(f"No space left on device: {path}/part-0.parquet")

    monkeypatch.setattr(_Snapshot, "append", full)
    with pytest.raises(SinkError, match=r"No space left on device: .*append-only"):
        LibraryTable(path, sleep=lambda _: None).append(log_rows("a"), APP, 0)


@pytest.mark.parametrize("is_cleaned_by_us", [True, False])
def test_a_job_goes_on_after_a_cleanup_of_the_log_that_it_has_open(tmp_path: Path, *, is_cleaned_by_us: bool) -> None:
    """The library reads the commits before the last one only when it looks for a transaction: they may be gone by then.

    All of them are old: the newest is another job's, and so may be the checkpoint that stands for all.
    """
    path = make(tmp_path / "log", LOG, checkpointInterval="2", logRetentionDuration="interval 0 seconds")
    LibraryTable(path).append(log_rows("a"), APP, 0)
    ours, theirs = LibraryTable(path, sleep=lambda _: None), LibraryTable(path)
    if is_cleaned_by_us:
        ours.append(log_rows("b"), APP, 1)
        theirs.note({"theirs": 0})
    else:
        for batch in range(4):
            theirs.append(log_rows("theirs"), "theirs", batch)
    assert not ours.append(log_rows("a"), APP, 0)
    assert ours.append(log_rows("c"), APP, 2)
    assert sensors(path) == ["a", *["b"] * is_cleaned_by_us, "c", *["theirs"] * 4 * (not is_cleaned_by_us)]


def test_a_merge_removes_the_rows_that_are_replaced(view: str) -> None:
    """In the commit that brings what replaces them; of a row that the table does not have, nothing comes."""
    commits = LibraryTable(view)
    merge(commits, panes(("a", 1, 1.0, 0), ("a", 3, 2.0, 0), ("b", 3, 9.0, 0)), 0)
    rows = panes(("a", 3, 0.0, 1), ("a", 2, 0.0, 1), ("a", 1, 3.0, 1))
    merge(commits, rows.append_column(REPLACED, pa.array([True, True, False])), 1)
    assert view_rows(view) == [("a", 1, 3.0, 1), ("b", 3, 9.0, 0)]
    assert DeltaTable(view).version() == 2
    later = panes(("a", 7, 0.0, 1), ("a", 6, 5.0, 1))
    merge(commits, later.append_column(REPLACED, pa.array([True, False])), 2)
    assert view_rows(view) == [("a", 1, 3.0, 1), ("b", 3, 9.0, 0), ("a", 6, 5.0, 1)]
