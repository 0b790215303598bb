"""Time: the wall clock, and how long a caller waits. No other module reads a clock of the system."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

LAST_US = 253_402_300_799_000_000
"""The last second that a calendar of four digits has, us since the epoch: what is later cannot be shown."""
_LOCK_POLL_SECONDS = 0.05


def now_us() -> int:
    """Return the wall-clock time of this host, us since the epoch."""
    return time.time_ns() // 1000


def now_utc() -> datetime:
    """Return the wall-clock time of this host, as what is shown to people and written into manifests."""
    return datetime.fromtimestamp(now_us() / 1e6, tz=UTC)


def monotonic_seconds() -> float:
    """Return seconds from any fixed time, which no change of the wall clock concerns."""
    return time.monotonic()


def format_time(us: int) -> str:
    """Return a time in UTC as ISO 8601 writes it, to the second.

    >>> format_time(1_700_000_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    return f"{datetime.fromtimestamp(us / 1e6, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"


class Deadline:
    """A limit on how long a caller waits, from its construction on, which each step of the waiting checks."""

    def __init__(self, seconds: float | None, *, clock: Callable[[], float] = monotonic_seconds) -> None:
        self.seconds = math.inf if seconds is None else seconds
        self._clock = clock  # returns seconds from any fixed time; a test gives its own
        self._at = clock() + self.seconds

    def seconds_left(self) -> float:
        """Return the seconds that are left, 0 or less once it has passed."""
        return self._at - self._clock()

    def has_passed(self) -> bool:
        """Return whether no time is left."""
        return self.seconds_left() <= 0

    def require(self) -> None:
        """Raise `TimeoutError` if it has passed."""
        if self.has_passed():
            raise TimeoutError

    @contextmanager
    def acquire(self, lock: threading.Lock) -> Iterator[None]:
        """Hold the lock for the block. Raises `TimeoutError` if others hold it until the deadline."""
        while not lock.acquire(timeout=_LOCK_POLL_SECONDS):
            self.require()
        try:
            yield
        finally:
            lock.release()
