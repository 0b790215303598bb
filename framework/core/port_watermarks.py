"""The watermark of several ports: the least of their event times (docs/semantics.md section 6.5).

Every key group receives the greatest event time of each port, over all groups, and stores it. So a restart changes
nothing. Spark would lose the event time of each of several streams, and wait until every one has rows again.
"""

from __future__ import annotations

from collections.abc import Sequence

from panekeeper.framework.core.steps import EventTimeProgress, Watermark
from panekeeper.state.records import HORIZON, HorizonRecord
from panekeeper.state.store import KeyGroupStore

_SEGMENT = (HORIZON, 0, 0)


class PortWatermarks:
    """The greatest event times of the ports with panes, stored in one key group."""

    def __init__(self, store: KeyGroupStore, ports: Sequence[int]) -> None:
        self._store = store
        self._ports = ports

    def advance(self, step: EventTimeProgress) -> list[Watermark]:
        """Store the progress. Return the watermark for each port; none until every port has had an event time."""
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
