"""Is what was recorded of the last batch damaged, and does anything need it?"""

from __future__ import annotations

from collections.abc import Iterator

from recovery.repair.finding import Finding
from recovery.repair.logs import NO_SINK
from recovery.storage.files import Files
from state.checkpoint.folder import batch_numbers
from state.checkpoint.job_record import read_record
from state.checkpoint.layout import COMMITS_FOLDER, prepared_file
from state.errors import CorruptState, StateError
from state.prepared import prepared_numbers, read_prepared

_COMMITTED = "the batch is committed, so it is not needed"
_RUN_AGAIN = (
    "the batch is run again, as after a crash before it was recorded. If a table has it, a start is refused, and "
    "says how it may go on"
)


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
    for number in prepared_numbers(folder, record.epoch):
        file = prepared_file(record.epoch, number)
        if not _is_damaged(folder, record.epoch, number):
            continue
        if number <= committed:
            yield Finding(file=file, action="set aside", why=_COMMITTED)
        elif no_sink:
            yield Finding(file=file, action="set aside", why=_RUN_AGAIN)
        else:
            yield Finding(file=file, action="none", why=NO_SINK)


def _is_damaged(folder: Files, epoch: int, number: int) -> bool:
    try:
        batch = read_prepared(folder, epoch, number)
    except CorruptState:
        return True
    return batch is not None and bool(batch.lost_files(folder))
