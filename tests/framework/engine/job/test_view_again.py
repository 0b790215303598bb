"""A view is made again only from a log that tells what it had. Each start notes the logs that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from panekeeper.framework.engine.job.declaration_record import record_upgrade
from panekeeper.framework.engine.job.view_again import make_views_again, with_logs_unlike_views
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.state.checkpoint.epochs import BEGIN_FILE, Begin, make_epoch, read_begin
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord, create_record, read_record

RECORD = JobRecord(name="readings", id="0123456789ab", declaration={}, group_ids=(0,), epoch=1, versions={})
OLD = {"log": "/old/log", "view": "/old/view"}
NEW = OLD | {"log": "/new/log"}
RESET = Begin(kind="reset", tables=OLD)


@pytest.mark.parametrize(
    ("begin", "written", "tables", "batch", "noted"),
    [
        pytest.param(None, OLD, OLD, 7, (), id="nothing happened"),
        pytest.param(Begin(kind="restore", tables=OLD), OLD, OLD, 7, (), id="a restore took the log back"),
        pytest.param(Begin(kind="restore", remade={"view": "/old/view"}), OLD, OLD, 7, (), id="the view is gone"),
        pytest.param(RESET, {}, OLD, -1, ("log",), id="a reset kept the rows"),
        pytest.param(RESET, OLD, OLD, 7, ("log",), id="a reset, and batches since"),
        pytest.param(RESET, {}, NEW, -1, (), id="a reset, and its first start had a new log"),
        pytest.param(RESET, NEW, NEW, 7, (), id="a reset, a new log, and batches since"),
        pytest.param(RESET, NEW, OLD, -1, ("log",), id="a reset, a new log, and back to the old one"),
        pytest.param(Begin(kind="restore", remade={"log": "/old/log"}), {}, OLD, -1, ("log",), id="--begin-anew log"),
        pytest.param(None, OLD, NEW, -1, ("log",), id="another folder"),
        pytest.param(None, OLD, NEW, 7, (), id="the log was moved there with its rows"),
        pytest.param(None, {}, NEW, -1, (), id="another folder before the first batch"),
    ],
)
def test_a_start_notes_a_log_that_does_not_tell_what_its_view_has(
    tmp_path: Path, begin: Begin | None, written: dict[str, str], tables: Any, batch: int, noted: tuple[str, ...]
) -> None:
    """A log with results of before a reset, in which refinements began at 0 again, and one without earlier results."""
    files = LocalFolder(tmp_path)
    if begin is not None:
        files = make_epoch(files, 1, begin)
        assert files.exists(BEGIN_FILE)
    fitting = {role: {"path": path, "id": role, "batch": batch} for role, path in tables.items()}
    assert with_logs_unlike_views(files, RECORD, tables, fitting, written).unlike_views == noted


def test_what_was_noted_of_a_log_is_stored_and_stays(tmp_path: Path) -> None:
    """It is in the record, and so in each savepoint; a record without such a log has no field of it."""
    files: Any = LocalFolder(tmp_path)
    create_record(files, RECORD)
    assert "unlike_views" not in RECORD.to_json()
    fitting = {role: {"path": path, "id": role, "batch": -1} for role, path in NEW.items()}
    record_upgrade(files, with_logs_unlike_views(files, RECORD, NEW, fitting, OLD))
    stored = read_record(files)
    assert stored is not None
    assert stored.unlike_views == ("log",)
    assert with_logs_unlike_views(files, stored, NEW, fitting, NEW) == stored


@pytest.mark.parametrize(
    ("declaration", "unlike", "why"),
    [
        pytest.param({}, ("log",), "its log /old/log has results of before a reset, or began anew", id="noted"),
        pytest.param({"window.results": "discarding"}, (), "has parts of the results", id="discarding"),
        pytest.param({"operator": "Spread"}, (), "several rows of an operator with the same number", id="operator"),
    ],
)
def test_a_view_begins_empty_where_its_log_does_not_tell_what_it_had(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, declaration: Any, unlike: Any, why: str
) -> None:
    """Nothing is read of the log; the start logs why, and no later start tries again."""
    files: Any = make_epoch(LocalFolder(tmp_path), 1, Begin(kind="restore", remade={"view": "/old/view"}))
    record = JobRecord(**{**RECORD.to_json(), "declaration": declaration, "unlike_views": unlike})
    spec: Any = None
    make_views_again(files, record, OLD, spec, DeltaTables(), {}, require_held=lambda: None)
    assert why in caplog.text
    begin = read_begin(files)
    assert begin is not None
    assert begin.remade == {}
