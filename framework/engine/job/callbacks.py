"""The callbacks of `on_batch`: each is called with every report once and in order, whichever thread added it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from framework.engine.job.run_totals import BatchReport

_MAX_KEPT_REPORTS = 1000


class BatchCallbacks:
    """The callbacks of one job, and the newest reports, which a callback that is added later gets first."""

    def __init__(self) -> None:
        self._reports: deque[BatchReport] = deque(maxlen=_MAX_KEPT_REPORTS)
        self._callbacks: list[Callable[[BatchReport], None]] = []
        self._lock = threading.RLock()
        self._calling_thread = 0

    def add(self, callback: Callable[[BatchReport], None]) -> None:
        """Call it with the reports that are there, in this thread, and with each one that follows."""
        with self._in_callback():
            for report in [*self._reports]:
                callback(report)
            self._callbacks.append(callback)

    def notify(self, report: BatchReport) -> None:
        """Call each callback with a new report."""
        with self._in_callback():
            self._reports.append(report)
            for callback in [*self._callbacks]:
                callback(report)

    def is_calling(self) -> bool:
        """Say whether this thread is in a callback. One that waited there for a batch would wait for ever."""
        return self._calling_thread == threading.get_ident()

    @contextmanager
    def _in_callback(self) -> Iterator[None]:
        with self._lock:
            before, self._calling_thread = self._calling_thread, threading.get_ident()
            try:
                yield
            finally:
                self._calling_thread = before
