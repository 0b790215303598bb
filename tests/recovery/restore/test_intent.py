"""The intent of a restore is a file beside the checkpoint: what it cannot be is refused, before anything is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.restore.restore import restore
from state.errors import CorruptState
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.restore.test_restore import killed_at
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
