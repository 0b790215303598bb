"""Is what was recorded of the last batch damaged, and does anything need it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from panekeeper.recovery.repair.finding import Finding, unrepairable
from panekeeper.recovery.repair.logs import NO_SINK
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.folder import batch_numbers
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, OFFSETS_FOLDER, prepared_file
from panekeeper.state.errors import CorruptState, StateError
from panekeeper.state.prepared import PreparedBatch, has_other_offsets, prepared_numbers, read_prepared

_COMMITTED = "the batch is committed, so it is not needed"
_RUN_AGAIN = (
    "the batch is run again, as after a crash before it was recorded. If a table has it, a start is refused, and "
    "says how it may go on"
)
_OTHER_OFFSETS = (
    "it is not what the batch was begun with, but an older copy, or of another batch; put the right one back"
)
_NOT_BEGUN = "it is gone, while it is recorded what the batch writes, and tables may have it"


def prepared_findings(folder: Files, *, no_sink: bool) -> Iterator[Finding]:
    """Yield the records of batches that are damaged, or lack rows.

    Args:
        folder: the checkpoint of a stopped job.
        no_sink: the caller says that the job writes to no sink but its tables.
    """
    try:
        record = read_record(folder)
    except StateError:
        return  # another finding names it
    if record is None:
        return
    committed = max(batch_numbers(folder, COMMITS_FOLDER), default=-1)
    begun = max(batch_numbers(folder, OFFSETS_FOLDER), default=-1)
    for number in prepared_numbers(folder, record.epoch):
        file = prepared_file(record.epoch, number)
        if number > begun:
            yield unrepairable(folder.root, f"{OFFSETS_FOLDER}/{number}", _NOT_BEGUN)
            continue
        if has_other_offsets(folder, record, number):
            yield unrepairable(folder.root, f"{OFFSETS_FOLDER}/{number}", _OTHER_OFFSETS)
        if not _is_damaged(folder, record, number):
            continue
        if number <= committed:
            yield Finding(file=file, action="set aside", why=_COMMITTED)
        elif no_sink:
            yield Finding(file=file, action="set aside", why=_RUN_AGAIN)
        else:
            yield Finding(file=file, action="none", why=NO_SINK)


def _is_damaged(folder: Files, record: JobRecord, number: int) -> bool:
    try:
        batch = read_prepared(folder, record.epoch, number, job=record.id)
        return batch is not None and bool(batch.lost_files(folder) or _lacks_rows(folder, batch))
    except (CorruptState, OSError, pa.ArrowInvalid):
        return True


def _lacks_rows(folder: Files, batch: PreparedBatch) -> bool:
    """Return whether the files beside a record have other rows than it says."""
    found: Counter[str] = Counter()
    for name in batch.large_files:
        if name.endswith(".parquet"):
            with folder.local_copy(name) as path:
                rows = pq.read_table(path, columns=["tag", "n"])
            for tag, number in zip(*(rows.column(one).to_pylist() for one in rows.column_names), strict=True):
                found[tag] += number
    return any(found[name] != rows for name, rows in batch.large_counts.items())
