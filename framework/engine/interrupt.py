"""Ctrl-C while waiting for a job: the first one is a request, the second one is the usual interrupt."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any, Self


class Interrupts:
    """Turns the first Ctrl-C into a flag. Spark's own handler would cancel the running batch instead.

    Does nothing outside the main thread, where Python delivers no signals.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None
        self._active = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._active:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stderr.write("\nEnding after this batch; press Ctrl-C again to leave at once.\n")
