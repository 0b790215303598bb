"""Files of rows that a table lacks, of those that a batch has added."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from framework.engine.delta_log.damage import damaged_batch, damaged_log
from framework.engine.sink.small_commits import SmallCommits

JOB = "j/log@0123456789ab#0"


@pytest.mark.parametrize("left", [100, None])
def test_a_file_of_a_batch_is_looked_for_also_before_a_checkpoint_of_the_log(tmp_path: Path, left: int | None) -> None:
    """A commit of somebody else may have brought the checkpoint. What stands for the commits has no file of its own."""
    write_deltalake(tmp_path, pa.table({"n": [0]}))
    for number in (6, 7):
        assert SmallCommits(str(tmp_path)).append(pa.table({"n": [number]}), JOB, number)
    write_deltalake(tmp_path, pa.table({"n": [8]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    added = DeltaTable(tmp_path, version=2).file_uris()
    newest = max(map(Path, added), key=lambda path: path.stat().st_mtime_ns)
    assert damaged_batch(str(tmp_path), JOB, 7) is None
    newest.unlink() if left is None else newest.write_bytes(newest.read_bytes()[:left])
    assert damaged_log(str(tmp_path)) is None
    said = str(damaged_batch(str(tmp_path), JOB, 7))
    assert f"{newest.name} in {tmp_path} was cut short" in said
    assert "all files in _delta_log whose number is 2 or greater" in said
    assert damaged_batch(str(tmp_path), JOB, 9) is None  # it has no such batch
    assert damaged_batch("s3a://bucket/log", JOB, 7) is None
