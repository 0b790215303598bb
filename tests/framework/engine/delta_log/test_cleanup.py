"""Which files of a log are removed when they are old, and what a kill leaves of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from panekeeper.framework.engine.delta_log.cleanup import clean_up, kept_seconds, old_files
from panekeeper.framework.engine.delta_log.damage import damaged_log
from panekeeper.framework.engine.delta_log.written_files import WrittenFiles
from panekeeper.state.checkpoint.folder import LocalFolder

NOW, DAY = 1_800_000_000, 86_400
RETENTIONS = [(None, 30 * DAY), ("interval 3 days", 3 * DAY), ("interval 7 seconds", 7)]


def make(folder: Path, commits: int, checkpoints: tuple[int, ...]) -> Path:
    """A table with a row a commit; return its log, all of whose files are of now."""
    for number in range(commits):
        write_deltalake(folder, pa.table({"n": [number]}), mode="append")
        if number in checkpoints:
            DeltaTable(folder).create_checkpoint()
    for file in (log := folder / "_delta_log").iterdir():
        os.utime(file, (NOW, NOW))
    return log


def test_commits_are_removed_only_where_it_is_clear_for_how_long_they_are_kept() -> None:
    """The library would take 30 days for what it cannot read."""
    assert kept_seconds({}) == 30 * DAY
    assert kept_seconds({"delta.logRetentionDuration": "interval 365 days"}) == 365 * DAY
    assert kept_seconds({"delta.logRetentionDuration": "interval 2 weeks 3 days"}) is None
    assert kept_seconds({"delta.enableExpiredLogCleanup": "false"}) is None


@pytest.mark.parametrize(("retention", "kept"), RETENTIONS)
def test_what_is_before_the_first_version_that_is_kept_goes_but_for_a_checkpoint_that_it_needs(
    tmp_path: Path, retention: str | None, kept: int
) -> None:
    """In the order of its numbers. What is no commit does not count."""
    properties = {} if retention is None else {"delta.logRetentionDuration": retention}
    log = make(tmp_path, 8, (2, 5))
    (log / "0.json.tmp").touch()
    os.utime(log / "0.json.tmp", (NOW - kept, NOW - kept))
    for number in range(4):
        os.utime(log / f"{number:020d}.json", (NOW - kept, NOW - kept))
    table, later = LocalFolder(tmp_path), (NOW + 1) * 1_000_000
    first_two = (f"{2:020d}", [f"_delta_log/{number:020d}.json" for number in (0, 1)])
    assert old_files(table, properties, NOW * 1_000_000 - 1) == ("", [])
    assert old_files(table, properties, NOW * 1_000_000) == first_two
    os.utime(log / f"{3:020d}.json", (NOW, NOW))  # as a copy may have it
    assert old_files(table, properties, NOW * 1_000_000) == first_two
    for file in log.glob("*.json"):
        os.utime(file, (NOW - kept, NOW - kept))
    (log / f"{4:020d}.crc").write_text("{}")
    assert old_files(table, properties, later)[1] == [
        f"_delta_log/{name}"
        for name in (
            f"{0:020d}.json",
            f"{1:020d}.json",
            f"{2:020d}.checkpoint.parquet",
            f"{2:020d}.json",
            f"{3:020d}.json",
            f"{4:020d}.crc",
            f"{4:020d}.json",
        )
    ]
    assert old_files(table, {"delta.enableExpiredLogCleanup": "false"}, later) == ("", [])


def test_a_table_without_a_checkpoint_or_a_log_keeps_what_it_has(tmp_path: Path) -> None:
    """Nothing stands for its commits."""
    assert old_files(LocalFolder(tmp_path), {}, NOW * 1_000_000) == ("", [])
    make(tmp_path, 3, ())
    assert old_files(LocalFolder(tmp_path), {}, (NOW + 60 * DAY) * 1_000_000) == ("", [])


@pytest.mark.parametrize("newest", [5, 6])
def test_a_cleanup_that_is_killed_leaves_no_damage(tmp_path: Path, newest: int) -> None:
    """Whatever it has removed by then: no commit is left before one that is gone."""
    log = make(tmp_path, newest + 1, (2, 5))
    rows = list(range(newest + 1))
    for name in old_files(LocalFolder(tmp_path), {}, (NOW + 31 * DAY) * 1_000_000)[1]:
        (tmp_path / name).unlink()
        assert damaged_log(str(tmp_path)) is None
        assert sorted(DeltaTable(tmp_path).to_pyarrow_table().column("n").to_pylist()) == rows
    assert min(log.glob("*.json")).name == f"{5:020d}.json"


@pytest.mark.parametrize("is_pointed_to", [True, False])
def test_a_checkpoint_is_on_the_disk_before_what_it_stands_for_is_removed(
    tmp_path: Path, on_fsync: Callable[[Callable[[Path], None]], None], *, is_pointed_to: bool
) -> None:
    """Whoever has written it, also where he was killed before he pointed to it."""
    log, written = make(tmp_path, 6, (5,)), WrittenFiles(LocalFolder(tmp_path))
    if is_pointed_to:
        written.names()  # a look at it, as of another run of this process that has not flushed it
    else:
        (log / "_last_checkpoint").unlink()
    flushed = dict[str, int]()

    def record(file: Path) -> None:
        flushed.setdefault(file.name, len(list(log.glob("*.json"))))

    on_fsync(record)
    clean_up(written, {}, (NOW + 31 * DAY) * 1_000_000)
    assert flushed[f"{5:020d}.checkpoint.parquet"] == 6
    assert [file.name for file in log.glob("*.json")] == [f"{5:020d}.json"]
