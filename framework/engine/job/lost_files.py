"""Are the files of a batch that is run again still there?

Spark has logged which files it reads. One that is gone meanwhile it leaves out, without an error, and its rows would be
in no table. So that is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.sources.streams import is_there, options_of, sources_of
from panekeeper.state.checkpoint.folder import OFFSETS_FOLDER, CheckpointFolder, batch_numbers
from panekeeper.state.checkpoint.job_record import last_batches
from panekeeper.state.spark_logs import files_between, source_ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles


def require_files_of_unfinished_batch(files: CheckpointFiles, accepted: int | None) -> None:
    """Check that the files of a batch that is run again are still there.

    Args:
        files: the job's checkpoint.
        accepted: number of the batch that the user wants to be run again with what there is.

    Raises:
        CheckpointError: some are gone.
    """
    begun = _run_again(files, accepted)
    if begun is None:
        return
    batch = files_of_batch(files.without_java(), begun)
    gone = [url for _, url in batch if not is_there(files.spark, url)]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise CheckpointError(
            f"batch {begun} of {files.root} is not finished, and files that it reads are gone: {gone[0]}{more}. "
            "Without them their rows would be in no table. Put them back, under the same names and with their times "
            "(cp -p), as Spark may read a new file of an old name once more; if they are lost, "
            f"start(..., accept_batch={begun}) runs it without them"
        )


def require_unfiltered_files(files: CheckpointFiles, streams: Iterable[DataFrame], accepted: int | None) -> None:
    """Check that the streams do not leave out files of a batch that is run again (`pathGlobFilter`).

    Spark has logged them as read, and would apply the filter once more.

    Args:
        files: the job's checkpoint.
        streams: those of the job.
        accepted: as for `require_files_of_unfinished_batch`.

    Raises:
        CheckpointError: they do.
    """
    begun = _run_again(files, accepted)
    if begun is None:
        return
    given = [options_of(leaf).get("pathglobfilter") for _, leaf in sources_of(streams)]
    jvm: Any = files.spark._jvm  # noqa: SLF001 -- only Hadoop knows its patterns
    filters = {number: jvm.org.apache.hadoop.fs.GlobFilter(one) for number, one in enumerate(given) if one is not None}
    for source, url in files_of_batch(files.without_java(), begun) if filters else ():
        if source in filters and not filters[source].accept(jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))):
            raise CheckpointError(
                f"batch {begun} of {files.root} is not finished, and the option pathGlobFilter={given[source]} leaves "
                f"out a file that it reads, {url}: its rows would be in no table. Start once with the filter of before "
                f'and trigger="available_now"; or start(..., accept_batch={begun}) runs it without such files'
            )


def _run_again(files: CheckpointFiles, accepted: int | None) -> int | None:
    """Return the batch that is run again, with what its sources have logged; None if there is none."""
    begun, committed = last_batches(files)
    return None if begun in (committed, accepted) else begun


def files_of_batch(folder: CheckpointFolder, batch: int) -> Iterator[tuple[int, str]]:
    """Yield source and URL of each file that a batch reads; but for those of the control stream, its last source."""
    if batch and batch - 1 not in batch_numbers(folder, OFFSETS_FOLDER):
        return  # where it begins is not known
    ends, before = source_ends(folder, batch), source_ends(folder, batch - 1) if batch else []
    for source, end in enumerate(ends[:-1]):
        if end is not None:
            after = before[source] if source < len(before) else None
            yield from ((source, url) for url in files_between(folder, source, -1 if after is None else after, end))
