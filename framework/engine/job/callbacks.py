"""Who wants to hear of each batch: callbacks, called with every report once and in order, from whatever thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from framework.engine.job.run_totals import BatchReport

_KEPT_REPORTS = 1000


class Hearing:
    """The callbacks of one job, and the reports that one which comes later is still to hear."""

    def __init__(self) -> None:
        self._reports: deque[BatchReport] = deque(maxlen=_KEPT_REPORTS)
        self._callbacks: list[Callable[[BatchReport], None]] = []
        self._lock = threading.RLock()
        self._caller = 0

    def add(self, callback: Callable[[BatchReport], None]) -> None:
        """Call it with the reports that are there, in this thread, and with each one that follows."""
        with self._calling():
            for report in [*self._reports]:
                callback(report)
            self._callbacks.append(callback)

    def tell(self, report: BatchReport) -> None:
        """Call each callback with a new report."""
        with self._calling():
            self._reports.append(report)
            for callback in [*self._callbacks]:
                callback(report)

    def is_calling(self) -> bool:
        """Say whether this thread is in a callback. One that waited there for a batch would wait for ever."""
        return self._caller == threading.get_ident()

    @contextmanager
    def _calling(self) -> Iterator[None]:
        with self._lock:
            before, self._caller = self._caller, threading.get_ident()
            try:
                yield
            finally:
                self._caller = before
