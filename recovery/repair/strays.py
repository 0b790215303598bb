"""Which files of Spark in a checkpoint did another process write, which was paused until a job had taken over?

Spark logs the offsets of a batch only after it has logged the commit of the one before. If offsets are more than one
ahead, another process has written them: it continued after the checkpoint had gone back by a restore. It has run
nothing, because a batch begins by a check of the lease. It may have logged what its sources had found for that batch;
a job would read these files twice if it had read them under another entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from panekeeper.recovery.repair.finding import Finding, unrepairable
from panekeeper.recovery.savepoint.checkpoint_reader import has_state_of
from panekeeper.recovery.storage.files import Files
from panekeeper.state.spark_logs.offsets import source_ends

_NOT_BEGUN = (
    "no run can have begun this batch, because the one before it is not committed: another process wrote this, which "
    "was paused until a job had taken over. No table has a row of it"
)
MAY_HAVE_ROWS = "a table may have rows of the batch"
_UNREAD = "no batch has read what it names, and another process may have written it; the source finds these files again"


def stray_offsets(offsets: Sequence[int], committed: int) -> list[int]:
    """Return the batches that nobody can have begun, after the last committed one.

    >>> stray_offsets([4, 5, 6, 9], 5)
    [9]
    """
    return [batch for batch in offsets if batch > committed + 1]


def stray_findings(folder: Files, strays: Sequence[int], newest: int, *, why_not: str | None) -> Iterator[Finding]:
    """Yield what can be done about stray offsets, and about what was found for them.

    Args:
        folder: the checkpoint.
        strays: their batches.
        newest: the last batch that the job has begun.
        why_not: why it is not certain that no table has anything of a later batch than that; None: it is.
    """
    kept = [batch for batch in strays if has_state_of(folder, batch) or why_not is not None]
    if kept:  # rather a commit is lost
        yield from (unrepairable(folder.root, f"offsets/{one}", why_not or MAY_HAVE_ROWS) for one in kept)
        return
    yield from (Finding(file=f"offsets/{batch}", action="set aside", why=_NOT_BEGUN) for batch in strays)
    for source, end in enumerate(source_ends(folder, newest)):
        for log in folder.names(f"sources/{source}"):
            if end is not None and log.partition(".")[0].isdecimal() and int(log.partition(".")[0]) > end:
                file = f"sources/{source}/{log}"
                if log.isdecimal():
                    yield Finding(file=file, action="set aside", why=_UNREAD)
                else:
                    yield unrepairable(folder.root, file, "it has the entries of earlier batches, too")
