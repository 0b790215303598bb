"""The last batch of a restored checkpoint is recorded as committed, in the epoch that begins.

All tables have it, under transactions of an epoch that has ended. Should Spark's commit of it get lost, it would be run
again, and be there twice; a start that finds the record writes the commit again. And the tables have it under the
transactions of the new epoch, too: should the record be lost as well, a start is refused.
"""

from __future__ import annotations

from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, prepared_file
from panekeeper.state.checkpoint.job_record import JobRecord, is_flushed, last_batches
from panekeeper.state.prepared import PreparedBatch


def record_last_commit(copy: Files, record: JobRecord) -> None:
    """Record it, with Spark's commit and no rows.

    Args:
        copy: the checkpoint that is about to be restored or cloned.
        record: of the job, in its new epoch.
    """
    last = last_batches(copy)[1]
    assert last is not None  # that of the savepoint, or one that a change of the number of partitions has added
    commit = copy.read(f"{COMMITS_FOLDER}/{last}").decode()
    batch = PreparedBatch(
        number=last,
        epoch=record.epoch,
        spark_commit=commit,
        job=record.id,
        is_flush=is_flushed(copy),
    )
    copy.put_bytes(prepared_file(record.epoch, last), batch.to_bytes())
