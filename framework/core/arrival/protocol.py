"""What a window in arrival order is made of: what it keeps between batches, and what events become.

`window.py` makes rounds of the steps of a batch, and leaves these two duties to others. Which ones is chosen once, in
`batch.py`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from panekeeper.framework.core.arrival.event_table import EventTable
from panekeeper.framework.core.arrival.round import Round
from panekeeper.framework.declarations.events import EventType


class ArrivalContents(Protocol):
    """Keeps the rows of a window, or partial results in their place. Instants are us since the epoch."""

    @property
    def fires_when_empty(self) -> bool:
        """Whether the timer of a partition without rows leads to an event that is needed, or to a result."""
        ...

    def needs_events(self, kind: EventType) -> bool:
        """Return whether events of this type have to be made at all."""
        ...

    def add_round(self, round_: Round) -> None:
        """Add the rows of a round, evaluate the policies and emit what follows."""
        ...

    def on_mark(self, codes: np.ndarray, at: np.ndarray) -> None:
        """Handle a window mark, which concerns these partitions, each at its instant."""
        ...

    def on_flush(self, codes: np.ndarray, at: np.ndarray) -> None:
        """Fire what no firing has shown yet, each partition at its instant; called once, at the end of the window."""
        ...

    def emit_contents(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        """Emit an event of this type with the whole content of each partition, each at its instant."""
        ...

    def on_partition_created(self, events: list[EventTable]) -> None:
        """Emit the events of partitions that are created without a row."""
        ...

    def remove_partitions(self, codes: np.ndarray) -> None:
        """Remove all that is kept of these partitions."""
        ...

    def cap_arrival_times(self, now: int) -> None:
        """Set arrival times that are later than `now` to `now`."""
        ...

    def next_eviction(self) -> int:
        """Return when the next row is evicted by the clock, if an event of it is needed; else `NEVER`."""
        ...


class ArrivalOutput(Protocol):
    """Receives the events of a round while its rows are in memory."""

    def needs_events(self, kind: EventType) -> bool:
        """Return whether events of this type have to be made at all."""
        ...

    def needs_empty(self, kind: EventType) -> bool:
        """Return whether firings of this type without rows have to be made."""
        ...

    def emit(self, tables: list[EventTable], offsets: np.ndarray) -> None:
        """Make result rows of the events; `offsets` say where the rows of each partition begin in the row buffer."""
        ...
