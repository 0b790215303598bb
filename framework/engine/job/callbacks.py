"""The callbacks of `on_batch`: each is called with every report once and in order, whichever thread added it.

One that raises fails nothing by default: its error is logged, and it is called with the next report.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.job.status import BatchReport
from panekeeper.state.log import log_fields, logger

OnCallbackError = Literal["log", "fail"]
"""What an error of a callback does: it is logged, or it fails the job."""

_MAX_KEPT_REPORTS = 1000
_log = logger("job")


class ReportCallbacks:
    """The callbacks of one job that get reports, and the newest reports, which one that is added later gets first."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._reports: deque[BatchReport] = deque(maxlen=_MAX_KEPT_REPORTS)
        self._callbacks: list[Callable[[BatchReport], None]] = []
        self._lock = threading.RLock()
        self._calling_thread = 0
        self._batch: object | None = None  # stands for the one that runs
        self._batch_here: ContextVar[object | None] = ContextVar(f"batch of {job}", default=None)

    def add(self, callback: Callable[[BatchReport], None], on_error: OnCallbackError = "log") -> None:
        """Call it with the reports that are there, in this thread, and with each one that follows."""
        if on_error not in get_args(OnCallbackError):
            raise DeclarationError(f"on_error is {on_error!r}; it must be 'log' or 'fail'")
        safe = callback if on_error == "fail" else self._logging(callback)
        with self._in_callback():
            for report in [*self._reports]:
                safe(report)
            self._callbacks.append(safe)

    def notify(self, report: BatchReport) -> None:
        """Call each callback with a new report."""
        _log.info("batch %s: %s rows, %s firings, %.3f s", report.batch, report.rows, report.firings, report.seconds)
        with self._in_callback():
            self._reports.append(report)
            for callback in [*self._callbacks]:
                callback(report)

    def is_calling(self) -> bool:
        """Say whether this is called in a callback, or in a batch, as by a sink: to wait for one there never ends."""
        # A context is copied to threads that commit for the batch; also to those of asyncio, which may go on after it.
        in_batch = self._batch is not None and self._batch_here.get() is self._batch
        return in_batch or threading.get_ident() == self._calling_thread

    def require_outside(self, command: str) -> None:
        """Raise `DeclarationError` if a callback gives a command that waits for a batch."""
        if self.is_calling():
            raise DeclarationError(
                f"{command}() waits for a batch, so a callback of a batch cannot call it; use stop()"
            )

    @contextmanager
    def in_batch(self, number: int) -> Iterator[None]:
        """Note that this thread runs a batch while the block lasts; records that it logs have its number."""
        self._batch = object()
        before = self._batch_here.set(self._batch)
        try:
            with log_fields(job=self._job, batch=number):
                yield
        finally:
            self._batch = None
            self._batch_here.reset(before)

    def _logging(self, callback: Callable[[BatchReport], None]) -> Callable[[BatchReport], None]:
        def call(report: BatchReport) -> None:
            try:
                callback(report)
            except Exception as error:  # noqa: BLE001 -- it is logged, with the frames of the callback
                name, frames = getattr(callback, "__qualname__", repr(callback)), error.__traceback__
                with log_fields(job=self._job, batch=report.batch):
                    _log.error(
                        "the callback %s raised for batch %s; the job goes on",
                        name,
                        report.batch,
                        exc_info=(type(error), error, frames and frames.tb_next),
                    )

        return call

    @contextmanager
    def _in_callback(self) -> Iterator[None]:
        with self._lock:
            before, self._calling_thread = self._calling_thread, threading.get_ident()
            try:
                yield
            finally:
                self._calling_thread = before
