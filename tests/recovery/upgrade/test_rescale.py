"""What is refused before a job is rescaled, and how a copy gets to know its folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recovery.cli.upgrade import RESCALE
from recovery.errors import SavepointRefused
from recovery.savepoint.checkpoint_copy import rewrite_paths
from recovery.upgrade.rescale import rescale
from state.checkpoint.layout import RESTORING_SUFFIX
from tests.recovery.conftest import FakeCheckpoint
from tests.recovery.storage.memory_archive import MemoryArchive

SPARK: Any = object()


def test_rescaling_is_refused_before_anything_is_saved(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """A number that cannot be, the number that is, a restore that was interrupted, a job that runs."""

    def refuse(partitions: int, message: str) -> None:
        with pytest.raises(SavepointRefused, match=message):
            rescale(job.folder, partitions, to=archive, spark=SPARK)

    refuse(0, "partitions is 0; it must be 1 or more")
    refuse(2, "has 2 shuffle partitions already")
    intent = job.folder.with_name(job.folder.name + RESTORING_SUFFIX)
    intent.write_text(json.dumps({"location": "/s", "name": "one", "epoch": 1, "replaces": True, "files": 9}))
    refuse(4, rf"complete it first: panekeeper restore /s one --checkpoint {job.folder}")
    intent.unlink()
    job.lease(pid=os.getpid())
    refuse(4, "drain it first")
    assert not archive.files


def test_a_copy_is_told_where_it_will_be(job: FakeCheckpoint) -> None:
    """Full names are written anew, and the checksum of what stood there goes; other files are left alone."""
    new = Path("/some/where/else")
    job.put("state/0/_metadata/v2/.0.crc", "sum")
    job.put("state/0/0/.1.changelog.crc", "sum")
    job.put("state/0/0/text", f"file:{job.folder}/x")
    rewrite_paths(job.files, old=job.place, new=str(new))
    found = job.contents()
    assert f'"file:{new}/state/0/_stateSchema/default/0_x"' in found["state/0/_metadata/v2/0"]
    assert f"file://{new}/pulse/" in found["sources/1/0"]
    assert found["state/0/0/text"] == f"file:{job.folder}/x"
    assert "state/0/_metadata/v2/.0.crc" not in found
    assert "state/0/0/.1.changelog.crc" in found


def test_the_command_tells_the_way_back_and_how_groups_are_spread() -> None:
    """So that a number that helps nobody is seen at once."""
    fields = {"checkpoint": "/cp", "savepoint": "one", "location": "/s", "old": 4, "new": 9, "values": 70}
    text = RESCALE.format({**fields, "busiest": 3, "idle": 2})
    assert text.splitlines() == [
        "/cp has 9 shuffle partitions now (before: 4; 70 stored values were compared and are the same)",
        "to undo it: panekeeper restore /s one",
        "at most 3 key groups share a shuffle partition",
        "2 shuffle partitions have no key group and do nothing",
    ]
