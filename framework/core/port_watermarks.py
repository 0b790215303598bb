"""The watermark of several ports: the least of how far event time has come on each [semantics 6.5].

Every key group is told how far each port has come, in all groups together, and remembers it. So a restart changes
nothing; Spark would forget how far each of several streams had come, and wait until all have spoken again.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.core.steps import EventTimeProgress, Watermark
from state.records import HORIZON, HorizonRecord
from state.store import KeyGroupStore

_SEGMENT = (HORIZON, 0, 0)


class PortWatermarks:
    """How far the ports with panes have come, as one key group knows it."""

    def __init__(self, store: KeyGroupStore, ports: Sequence[int]) -> None:
        self._store = store
        self._ports = ports

    def advance(self, step: EventTimeProgress) -> list[Watermark]:
        """Remember the progress; return the watermark for each port, none before all of them have told a time."""
        before = self._store.find(*_SEGMENT)
        record = HorizonRecord.decode(before)
        for port, us in step.max_event_times:
            record.reached[port] = max(us, record.reached.get(port, us))
        if (now := record.encode()) != before:
            self._store.write(*_SEGMENT, now)
        if not all(port in record.reached for port in self._ports):
            return []
        least = min(record.reached[port] for port in self._ports)
        return [Watermark(least, port) for port in self._ports]
