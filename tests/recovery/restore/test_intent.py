"""The intent of a restore, a file beside the checkpoint: what it cannot be is refused, what it may be is completed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from panekeeper.recovery.errors import SavepointRefused, TableVersionLost
from panekeeper.recovery.restore.intent import RestoreIntent, read_intent, write_intent
from panekeeper.recovery.restore.restore import _require_no_interrupted, restore
from panekeeper.recovery.restore.superseded import mark_superseded
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.delta_log import SavedTable
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.state.errors import CorruptState
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.restore.test_restore import killed_at
from tests.recovery.restore.test_restore_again import DELTA, job_with_versions
from tests.recovery.storage.memory_archive import MemoryArchive


@pytest.mark.parametrize(
    "changed",
    [
        {"superseded": ["/../theirs"], "done": "in place"},
        {"epoch": "1/../../theirs"},
        {"epoch": -1},
        {"epoch": True},
        {"files": None},
        {"replaces": "no"},
        {"done": "all of it"},
        {"done": ["tables"]},
        {"name": 1},
        {"location": None},
        {"tables": [None]},
    ],
    ids=str,
)
def test_an_intent_that_no_restore_writes_is_refused(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, changed: dict[str, Any]
) -> None:
    """Its epochs name folders that are removed, so one that is no number could lead anywhere."""
    theirs = FakeCheckpoint(tmp_path / "theirs").run()
    (tmp_path / "checkpoint.replaced-").mkdir()
    savepoint(job.folder, "one", to=archive)
    killed_at("intended", archive)
    intent = tmp_path / "checkpoint.restoring.json"
    intent.write_text(json.dumps(json.loads(intent.read_text()) | changed))
    before = theirs.contents()
    with pytest.raises(CorruptState, match=r"restoring.json is damaged .*; remove it and run the restore again"):
        restore(archive, "one")
    assert theirs.contents() == before
    intent.unlink()
    restore(archive, "one")


RESTORED = {"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": "0"}}}
OWNED = {"txn": {"appId": "owner", "version": 1}}
ROWS = {"add": {"path": "a.parquet"}}


@pytest.mark.parametrize(
    ("commits", "is_back"),
    [
        ([[RESTORED, ROWS]], True),
        ([[RESTORED, ROWS], [{"commitInfo": {}}, OWNED]], True),
        ([[RESTORED, ROWS], [ROWS]], False),
        ([[OWNED]], False),
    ],
    ids=["restored", "and taken over", "and written to", "not restored"],
)
def test_a_table_that_was_restored_before_the_kill_needs_its_version_no_more(
    job: FakeCheckpoint, archive: MemoryArchive, commits: list[list[dict[str, Any]]], *, is_back: bool
) -> None:
    """With the commit of a restore Spark may clean up the log, and that version with it."""
    table = job_with_versions(job, archive)
    for number, commit in enumerate(commits, start=2):
        table.put_bytes(f"_delta_log/{number:020d}.json", "\n".join(map(json.dumps, commit)).encode())
    table.put_bytes(f"_delta_log/{2:020d}.checkpoint.parquet", b"")
    for number in (0, 1):
        table.remove(f"_delta_log/{number:020d}.json")
    if is_back:
        assert restore(archive, "one", dry_run=True, spark=DELTA).epoch == 1
    else:
        with pytest.raises(TableVersionLost):
            restore(archive, "one", dry_run=True, spark=DELTA)


@pytest.mark.parametrize("step", ["intended", "tables", "aside", "in place"])
def test_tables_do_not_go_back_with_another_checkpoint_while_a_restore_is_interrupted(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, step: str
) -> None:
    """Completed after that, it would not take them back again, and neither checkpoint would fit them."""
    savepoint(job.root, "one", to=archive)
    killed_at(step, archive)
    with pytest.raises(SavepointRefused, match=f"'one' to {re.escape(job.root)} was interrupted, .*Complete it first"):
        restore(archive, "one", checkpoint=tmp_path / "elsewhere")
    restore(archive, "one")
    restore(archive, "one", checkpoint=tmp_path / "elsewhere")


def test_tables_do_not_go_back_beside_an_interrupted_restore_to_a_folder_that_is_not_there_yet(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """It is known from the checkpoint whose place that one takes; a job would run on one, and the other be named."""
    manifest = savepoint(job.folder, "one", to=archive).manifest
    manifest = replace(manifest, tables={"log": SavedTable(path=str(tmp_path / "log"), version=1)})
    first, second = (RestorePaths(checkpoint=LocalFiles(tmp_path / name)) for name in ("first", "second"))
    mark_superseded(manifest, first.checkpoint, None)
    _require_no_interrupted(second, manifest, None)
    write_intent(first, RestoreIntent(location="x", name="one", epoch=1, replaces=False, files=1, done="tables"))
    with pytest.raises(SavepointRefused, match=rf"to {re.escape(first.checkpoint.root)} was interrupted, .*Complete"):
        _require_no_interrupted(second, manifest, None)
    _require_no_interrupted(first, manifest, None)


@pytest.mark.parametrize("step", ["intended", "tables", "aside", "in place"])
def test_an_intent_that_is_written_late_is_no_restore_to_begin_again(
    job: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """By one that was paused until another one had completed it and the job had run: the batches since stay."""
    savepoint(job.root, "one", to=archive)
    job.run(2)
    paths = RestorePaths(checkpoint=job.files)
    late: list[RestoreIntent] = []

    def note(at: str) -> None:
        if at == step:
            late.extend(filter(None, [read_intent(paths)]))

    restore(archive, "one", on_step=note)
    job.batch = 2
    after = job.run(3).contents()
    write_intent(paths, late[0])
    restore(archive, "one")
    assert job.contents() == after
    assert job.siblings() == ["checkpoint"]
    job.batch = 3
    restore(archive, "one")
    assert job.contents() != after
