"""What a batch builds on is on the disk before it is recorded, each file once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from panekeeper.framework.engine.job.prepared.flush import Flush
from panekeeper.state.checkpoint.folder import LocalFolder


class Disk:
    """What has been written through, since it was looked at last."""

    def __init__(self, root: Path, on_fsync: Callable[[Callable[[Path], None]], None]) -> None:
        self.folders_around = set[Path]()
        self._flushed = set[str]()

        def record(path: Path) -> None:
            if path.is_relative_to(root):
                self._flushed.add(str(path.relative_to(root)))
            self.folders_around.add(path)

        on_fsync(record)

    def flushed(self) -> set[str]:
        """The names of files and folders, below the folder of the test."""
        found, self._flushed = self._flushed, set()
        return found


@pytest.fixture
def disk(tmp_path: Path, on_fsync: Callable[[Callable[[Path], None]], None]) -> Disk:
    """The disk of the checkpoint `cp` and the table `log`."""
    return Disk(tmp_path, on_fsync)


def put(root: Path, *names: str, seconds_ago: int = 0) -> set[str]:
    """Write files, as Spark does; return their names."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (path.stat().st_mtime - seconds_ago,) * 2)
    return set(names)


def test_the_state_of_a_batch_is_flushed_with_the_names_of_its_files(tmp_path: Path, disk: Disk) -> None:
    """Also checksums, which are hidden, and a snapshot that Spark has uploaded meanwhile."""
    flush = Flush(LocalFolder(tmp_path / "cp"))
    first = put(tmp_path, "cp/state/0/0/1_a.changelog", "cp/state/0/0/.1_a.changelog.crc", "cp/state/0/_metadata/v2/0")
    flush.before_record([])
    assert first | {"cp/state/0/0", "cp/state/0/_metadata/v2"} <= disk.flushed()
    second = put(tmp_path, "cp/state/0/0/2_b.changelog", "cp/state/0/0/1_a.zip")
    flush.before_record([])
    assert disk.flushed() == second | {"cp/state/0/0"}
    (tmp_path / "cp/state/0/0/1_a.changelog").unlink()  # as Spark does when nobody needs it
    flush.before_record([])
    assert disk.flushed() == set()


def test_a_run_does_not_flush_the_state_of_long_ago(tmp_path: Path, disk: Disk) -> None:
    """The operating system has written it, and there may be very many files. That of just now is the last run's."""
    old = put(tmp_path, "cp/state/0/0/1_a.changelog", seconds_ago=300)
    new = put(tmp_path, "cp/state/0/0/2_b.changelog", "cp/state/0/0/3_c.changelog", seconds_ago=100)
    newest = put(tmp_path, "cp/state/0/0/4_d.changelog")
    Flush(LocalFolder(tmp_path / "cp")).before_record([])
    flushed = disk.flushed()
    assert new | newest <= flushed
    assert not old & flushed


def test_what_tables_got_before_the_batch_is_flushed(tmp_path: Path, disk: Disk) -> None:
    """Commits and the files that they have added, of whoever has made them; each once. What is in a store is there."""
    table, paths = tmp_path / "log", [str(tmp_path / "log"), "s3a://bucket/view", str(tmp_path / "not yet")]
    flush = Flush(LocalFolder(tmp_path / "cp"))
    flush.before_record(paths)
    disk.flushed()
    write_deltalake(table, pa.table({"n": [0]}))
    checksum = put(tmp_path, f"log/_delta_log/.{0:020d}.json.crc", f"log/_delta_log/{0:020d}.crc")
    flush.before_record(paths)
    assert names_of(tmp_path, "log") | checksum == disk.flushed() - {"."}
    before = names_of(tmp_path, "log")
    for number in (1, 2):
        write_deltalake(table, pa.table({"n": [number]}), mode="append")
    flush.before_record(paths)
    assert names_of(tmp_path, "log") - before == disk.flushed() - {"log", "log/_delta_log"}
    flush.before_record(paths)
    assert disk.flushed() == set()


def test_files_of_changed_rows_are_flushed(tmp_path: Path, disk: Disk) -> None:
    """Spark writes them for a view with a change data feed; whoever reads that is to find them."""
    table = tmp_path / "view"
    flush = Flush(LocalFolder(tmp_path / "cp"))
    write_deltalake(table, pa.table({"n": [0]}))
    flush.before_record([str(table)])
    disk.flushed()
    (table / "_delta_log" / f"{1:020d}.json").write_text('{"cdc": {"path": "_change_data/one.parquet", "size": 1}}')
    put(tmp_path, "view/_change_data/one.parquet")
    flush.before_record([str(table)])
    assert {"view/_change_data", "view/_change_data/one.parquet"} <= disk.flushed()


def test_a_checkpoint_of_the_log_is_flushed_with_the_commits_since(tmp_path: Path, disk: Disk) -> None:
    """A start reads no commit before it."""
    table = tmp_path / "log"
    flush = Flush(LocalFolder(tmp_path / "cp"))
    write_deltalake(table, pa.table({"n": [0]}))
    flush.before_record([str(table)])
    write_deltalake(table, pa.table({"n": [1]}), mode="append")
    DeltaTable(table).create_checkpoint()
    disk.flushed()
    flush.before_record([str(table)])
    assert {f"log/_delta_log/{1:020d}.checkpoint.parquet", "log/_delta_log/_last_checkpoint"} <= disk.flushed()


def test_what_a_table_gets_is_flushed_after_others_have_cleaned_up_its_log(tmp_path: Path, disk: Disk) -> None:
    """A job without rows for a table looks at no commit of other jobs, for longer than the log is kept."""
    table = tmp_path / "log"
    flush = Flush(LocalFolder(tmp_path / "cp"))
    write_deltalake(table, pa.table({"n": [0]}))
    flush.before_record([str(table)])
    for number in (1, 2, 3):
        write_deltalake(table, pa.table({"n": [number]}), mode="append")
    DeltaTable(table).create_checkpoint()
    for number in (0, 1, 2):
        (table / "_delta_log" / f"{number:020d}.json").unlink()
    write_deltalake(table, pa.table({"n": [4]}), mode="append")
    disk.flushed()
    flush.before_record([str(table)])
    assert {f"log/_delta_log/{number:020d}.json" for number in (3, 4)} <= disk.flushed()


def names_of(root: Path, folder: str) -> set[str]:
    """The names of all files and folders of a table."""
    return {folder, *(str(path.relative_to(root)) for path in (root / folder).rglob("*"))}


def test_the_folders_of_a_table_are_flushed_with_what_was_added_in_them(tmp_path: Path, disk: Disk) -> None:
    """Without the name of a partition all that is in it is gone, from however many batches."""
    table = tmp_path / "log"
    flush = Flush(LocalFolder(tmp_path / "cp"))
    write_deltalake(table, pa.table({"n": [0], "a": ["x"], "b": ["y"]}), partition_by=["a", "b"])
    flush.before_record([str(table)])
    assert {"log", "log/a=x", "log/a=x/b=y"} <= disk.flushed()
