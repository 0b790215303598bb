"""Are the files of a batch that is run again still there?

Spark has logged which files it reads. One that is gone meanwhile it leaves out, without an error, and its rows would be
in no table. So that is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from framework.declarations.errors import CheckpointError
from framework.engine.sources.streams import is_there
from state.checkpoint.folder import batch_numbers
from state.checkpoint.layout import OFFSETS_FOLDER
from state.checkpoint.run_record import last_batches
from state.spark_logs.lines import LogFolder
from state.spark_logs.offsets import source_ends
from state.spark_logs.source_logs import files_between

if TYPE_CHECKING:
    from framework.engine.session.checkpoint_files import CheckpointFiles


def require_files_of_unfinished_batch(files: CheckpointFiles, accepted: int | None) -> None:
    """Check that the files of a batch that is run again are still there.

    Args:
        files: the job's checkpoint.
        accepted: number of the batch that the user wants to be run again with what there is.

    Raises:
        CheckpointError: some are gone.
    """
    begun, committed = last_batches(files)
    if begun is None or begun in (committed, accepted):
        return
    gone = [url for url in files_of_batch(files.without_java(), begun) if not is_there(files.spark, url)]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise CheckpointError(
            f"batch {begun} of {files.root} is not finished, and files that it reads are gone: {gone[0]}{more}. "
            "Without them their rows would be in no table. Put them back, under the same names; if they are lost, "
            f"start(..., accept_batch={begun}) runs it without them"
        )


def files_of_batch(folder: LogFolder, batch: int) -> Iterator[str]:
    """Yield the URL of each file that a batch reads; but for those of the control stream, its last source."""
    if batch and batch - 1 not in batch_numbers(folder, OFFSETS_FOLDER):
        return  # where it begins is not known
    ends, before = source_ends(folder, batch), source_ends(folder, batch - 1) if batch else []
    for source, end in enumerate(ends[:-1]):
        if end is not None:
            after = before[source] if source < len(before) else None
            yield from files_between(folder, source, -1 if after is None else after, end)
