"""The expected tables of a job that may have been reset to its initial state meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from panekeeper.recovery.drill.expected.arrival_oracle import Oracle, Tables
from panekeeper.recovery.drill.expected.history import History, HistoryEvent, JobReset


def expected_tables(oracle: Callable[[], Oracle], history: History) -> Tables:
    """Return the expected rows. After a reset the rows are read again; of the tables only the view was emptied.

    Args:
        oracle: returns a new oracle.
        history: of the job.
    """
    tables: Tables = {}
    for epoch in _epochs(history):
        for role, rows in oracle()(epoch).items():
            tables[role] = [*([] if role == "view" else tables.get(role, [])), *rows]
    return tables


def _epochs(history: History) -> Iterator[History]:
    """Yield the part of the history before each reset, and the part after the last one."""
    epoch: list[HistoryEvent] = []
    for event in history:
        if isinstance(event, JobReset):
            yield tuple(epoch)
            epoch = []
        else:
            epoch.append(event)
    yield tuple(epoch)
