"""When old commits of a table are removed from its log, and what a kill leaves of them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from framework.engine.delta_log.cleanup import has_commits_to_remove
from framework.engine.delta_log.damage import damaged_log

NOW, DAY = 1_800_000_000, 86_400
NOW_US = NOW * 1_000_000


def test_commits_are_removed_from_the_log_only_where_it_is_clear_for_how_long_they_are_kept() -> None:
    """The library would take 30 days for what it cannot read."""
    assert has_commits_to_remove({}, None, NOW_US)
    assert has_commits_to_remove({"delta.logRetentionDuration": "interval 365 days"}, None, NOW_US)
    assert not has_commits_to_remove({"delta.logRetentionDuration": "interval 2 weeks 3 days"}, None, NOW_US)
    assert not has_commits_to_remove({"delta.enableExpiredLogCleanup": "false"}, None, NOW_US)


@pytest.mark.parametrize(
    ("age", "retention"), [(30 * DAY, None), (3 * DAY, "interval 3 days"), (7, "interval 7 seconds")]
)
def test_the_first_commit_says_whether_any_is_to_be_removed(tmp_path: Path, age: int, retention: str | None) -> None:
    """All others are younger. What is no commit does not count."""
    properties = {} if retention is None else {"delta.logRetentionDuration": retention}
    log = tmp_path / "_delta_log"
    log.mkdir()
    assert not has_commits_to_remove(properties, str(tmp_path), NOW_US)
    for name, seconds in (("0.json.tmp", age), (f"{4:020d}.json", age - 1), (f"{5:020d}.json", 0)):
        (log / name).touch()
        os.utime(log / name, (NOW - seconds, NOW - seconds))
    assert not has_commits_to_remove(properties, str(tmp_path), NOW_US)
    assert has_commits_to_remove(properties, str(tmp_path), NOW_US + 1_000_000)


@pytest.mark.parametrize("retention", ["interval 30 days", "interval 1 hour"])
@pytest.mark.parametrize("is_due", [True, False])
@pytest.mark.parametrize("left", [(), (0,), (1,), (0, 2)])
def test_commits_that_a_cleanup_has_left_as_it_was_killed_are_no_damage(
    tmp_path: Path, left: tuple[int, ...], *, is_due: bool, retention: str
) -> None:
    """The library removes them in any order. Those that were not due cannot have been removed by it."""
    for number in range(5):
        properties = {"delta.logRetentionDuration": retention}
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append", configuration=properties)
    DeltaTable(tmp_path).create_checkpoint()
    log, age = tmp_path / "_delta_log", 3600 if retention == "interval 1 hour" else 30 * DAY
    written = (log / f"{4:020d}.json").stat().st_mtime - (age + 1 if is_due else age - 600)
    for number in range(4):
        file = log / f"{number:020d}.json"
        os.utime(file, (written, written)) if number in left else file.unlink()
    damage = damaged_log(str(tmp_path))
    assert damage is None if is_due or not left else "is missing" in str(damage)
    (newest := log / f"{5:020d}.json").write_bytes(b'{"add":')  # then the library does not open the table
    assert f"{5 if is_due or not left else left[-1] + 1:020d}.json" in str(damaged_log(str(tmp_path)))
    newest.unlink()
    (log / f"{4:020d}.checkpoint.parquet").unlink()
    (log / "_last_checkpoint").unlink()
    if left:
        assert "is missing" in str(damaged_log(str(tmp_path)))
