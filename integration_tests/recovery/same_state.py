"""Is the state of a checkpoint read without Spark as Spark itself reads it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.state.checkpoint.epochs import epoch_folder, read_pointer
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, LocalFolder, batch_numbers
from panekeeper.state.spark_files.read_state import StoredState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.state.spark_files.unsafe_rows import StoredKey


def by_spark(spark: SparkSession, epoch: str, batch: int) -> dict[StoredKey, bytes]:
    """Return what Spark reads as of a batch."""
    with format_of_state(spark):
        rows = stored_state(spark, epoch, batch).collect()
    return {(row.g, row.kind, row.slot, row.seq): bytes(row.body) for row in rows}


def without_spark(epoch: LocalFolder, batch: int) -> dict[StoredKey, bytes]:
    """Return what the files say as of a batch."""
    stored = StoredState.of(epoch, batch)
    groups = [stored.read(one, most=2**30) for one in stored.versions]
    return {
        (group, *place): body for part in groups for group, segments in part.items() for place, body in segments.items()
    }


def require_same_state(spark: SparkSession, checkpoint: Path) -> int:
    """Compare each committed batch of the current epoch, and return how many they are."""
    root = LocalFolder(checkpoint)
    pointer = read_pointer(root)
    assert pointer is not None
    epoch = epoch_folder(root, pointer.epoch)
    batches = batch_numbers(epoch, COMMITS_FOLDER)
    for batch in batches:
        found = without_spark(epoch, batch)
        assert found == by_spark(spark, epoch.place, batch), f"batch {batch}"
        assert found
    return len(batches)
