"""Has a power cut damaged a table of a job? Looked at before Spark reads it, which would not say what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from panekeeper.framework.engine.delta_log.damage import damaged_batch, damaged_log
from panekeeper.state.prepared import PreparedBatch


def require_whole_tables(paths: Iterable[str]) -> None:
    """Raise `SinkError` for a table whose log is damaged, or that lacks a file of those that were added last.

    Args:
        paths: those of the tables; those that are not on a local disk are whole.
    """
    for path in paths:
        if (damage := damaged_log(path)) is not None:
            raise damage


def require_whole_batch(batch: PreparedBatch, looked_at: Collection[str] = ()) -> None:
    """Raise `SinkError` if a table lacks a file with rows of a batch that it has: later the batch is recorded no more.

    Also of a table that is declared no more, which nobody else looks at.

    Args:
        batch: as it is recorded.
        looked_at: paths of tables whose logs were looked at.
    """
    for one in batch.writes:
        damage = None if one.path in looked_at else damaged_log(one.path)
        damage = damage or damaged_batch(one.path, one.transaction, batch.number)
        if damage is not None:
            raise damage
