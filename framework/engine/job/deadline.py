"""Until when somebody waits: given once, and asked at each step on the way."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from framework.declarations.durations import Duration, to_seconds

_STEP_SECONDS = 0.05


class Deadline:
    """A duration from now; None for as long as it takes. Raises `DeclarationError` for what is no duration."""

    def __init__(self, timeout: Duration | None) -> None:
        self.seconds = math.inf if timeout is None else to_seconds(timeout, "timeout")
        self._at = time.monotonic() + self.seconds

    @property
    def passed(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self._at

    def require(self) -> None:
        """Raise `TimeoutError` if it has passed."""
        if self.passed:
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
