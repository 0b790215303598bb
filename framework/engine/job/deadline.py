"""Until when somebody waits: given once, and asked at each step on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STEP_SECONDS = 0.05


class Deadline:
    """So many seconds from now; None: for as long as it takes."""

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds

    def require(self) -> None:
        """Raise `TimeoutError` if it has passed."""
        if self._at is not None and time.monotonic() >= self._at:
            raise TimeoutError

    @contextmanager
    def turn(self, lock: threading.Lock) -> Iterator[None]:
        """Hold the lock for the block. Raises `TimeoutError` if others hold it until the deadline."""
        while not lock.acquire(timeout=_STEP_SECONDS):
            self.require()
        try:
            yield
        finally:
            lock.release()
