"""Requests to end a waiting program: the first Ctrl-C or SIGTERM is a request, the second one works as usual."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from panekeeper.framework.declarations.errors import JobNotRunning
from panekeeper.state.checkpoint.clock import Deadline
from panekeeper.state.log import logger

_log = logger("job")
_MESSAGES = {
    signal.SIGINT: "Ending after this batch; press Ctrl-C again to leave at once.",
    signal.SIGTERM: "Draining; a second SIGTERM ends at once.",
}


class SignalRequests:
    """Notes which signal came first. Spark's own handler would cancel the running batch instead.

    Does nothing outside the main thread, where Python delivers no signals.
    """

    def __init__(self) -> None:
        self.requested: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._active = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._active:
            self._before = {number: signal.signal(number, self._on_signal) for number in _MESSAGES}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = signal.Signals(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _log.warning(_MESSAGES[self.requested])


def await_end(
    is_over: Callable[[float], bool], deadline: Deadline, *, drain: Callable[[], object], stop: Callable[[], object]
) -> bool:
    """Wait until a job ends, and end it if a signal comes that wants that.

    Args:
        is_over: waits for so many seconds for the end, and returns whether the job has ended.
        deadline: until when to wait at most.
        drain: drains the job.
        stop: stops it.

    Returns:
        Whether it has ended.

    Raises:
        KeyboardInterrupt: Ctrl-C has ended it.
    """
    with SignalRequests() as signals:
        while not is_over(0.2):
            if signals.requested is signal.SIGTERM:
                with suppress(JobNotRunning):
                    drain()
                return True
            if signals.requested is signal.SIGINT:
                stop()
                raise KeyboardInterrupt
            if deadline.has_passed():
                return False
    return True
