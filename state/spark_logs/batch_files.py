"""Which files of Spark's logs was a batch begun with?

Spark leaves it to the operating system when they are on the disk. A power cut before then could take the last lines of
an entry of a source, and nothing says that whole lines are missing: the files in them would be found again, and read
twice. So they are flushed before the plan of the batch runs.
"""

from __future__ import annotations

from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, METADATA_FILE, OFFSETS_FOLDER, SOURCES_FOLDER
from panekeeper.state.spark_logs.lines import LogFolder
from panekeeper.state.spark_logs.offsets import source_ends


def begun_with(folder: LogFolder, batch: int, *, is_first: bool) -> set[str]:
    """Return what a batch was begun with: names of Spark's files, of which not all need be there.

    Args:
        folder: the checkpoint.
        batch: its offsets are logged.
        is_first: of its run; what Spark has logged once for the query belongs to that.
    """
    found = {f"{COMMITS_FOLDER}/{batch - 1}", f"{OFFSETS_FOLDER}/{batch}"}
    if is_first:
        found.add(METADATA_FILE)
    try:
        ends = source_ends(folder, batch)
    except FileNotFoundError:  # the next start says so
        return found
    for source, end in enumerate(ends):
        log = f"{SOURCES_FOLDER}/{source}"
        if end is not None:
            found |= {f"{log}/{end}", f"{log}/{end}.compact"}
        elif is_first:
            found.add(f"{log}/0")  # where the topics of Kafka began
    return found
