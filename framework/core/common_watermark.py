"""The watermark that the ports of a job have in common, also while some bring no row (docs/semantics.md section 14).

Spark's own watermark is that of one stream, and stands still when nothing comes. So where a job has several ports, or
its watermark is to go on with the wall clock, every key group gets the progress of event time of every port as data,
and computes the watermark from it: all groups the same one, whatever rows are theirs.

A port is idle when it has brought no row for so long by the wall clock. The watermark is the least of the ports that
count, and never goes back:

* a port that is not idle counts once it has come as far as the common watermark: one that wakes up does not hold the
  others back, and what it brings before that is late by the ordinary rules;
* if every port is idle, those count that go on with the wall clock (`when_idle="advance"`): each is as far behind it as
  it was in the batch that brought its last row. If there is none, the watermark stands still.

The time that a job was down is no idle time: its sources may hold rows that it has not read. It is counted from the
start on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from panekeeper.framework.core.job_spec import Idle
from panekeeper.framework.core.steps import EventTimeProgress, Tick, Watermark
from panekeeper.state.records import HORIZON, HorizonRecord
from panekeeper.state.store import KeyGroupStore

_SEGMENT = (HORIZON, 0, 0)


class CommonWatermark:
    """The watermark of the ports with panes, kept in one key group.

    Args:
        store: of the key group.
        ports: the ports -> when they are idle; None: never.
    """

    def __init__(self, store: KeyGroupStore, ports: Mapping[int, Idle | None]) -> None:
        self._store, self._ports = store, ports
        self._may_be_idle = any(ports.values())
        self._stored: bytes | None = None

    @cached_property
    def _record(self) -> HorizonRecord:
        """What is stored. To read it costs a round trip, which most jobs with one port do without."""
        self._stored = self._store.find(*_SEGMENT)
        return HorizonRecord.decode(self._stored)

    def advance(self, step: EventTimeProgress | Tick) -> list[Watermark]:
        """Take the progress of a batch's rows, or the time; return the watermark for each port, if it has moved."""
        if isinstance(step, Tick) and not self._may_be_idle:
            return []
        record = self._record
        if isinstance(step, Tick):
            record.now = max(step.us, record.now)
            if step.resume or not record.since:
                record.since = step.us
        else:
            for port, us in step.max_event_times:
                record.reached[port] = max(us, record.reached.get(port, us))
            for port, us in step.arrived:
                record.seen[port] = max(us, record.seen.get(port, us))
                record.now = max(us, record.now)
        now = self._now()
        if now is None or now <= record.common:
            return []
        record.common = now
        return [Watermark(now, port) for port in self._ports]

    def due_us(self, due_watermark_us: int | None) -> int | None:
        """Return the wall-clock instant at which the watermark may come to an instant without a row; None: never."""
        if due_watermark_us is None or not self._may_be_idle:
            return None
        instants = []
        for port, idle in self._ports.items():
            if idle is None:
                continue
            if not self._is_idle(port):
                instants.append(self._counted_from(port) + idle.after_us)
            elif idle.advances and port in self._record.seen:
                instants.append(due_watermark_us - self._record.reached[port] + self._record.seen[port])
        return min((us for us in instants if us > self._record.now), default=None)

    def save(self) -> None:
        """Store what has changed."""
        if "_record" in vars(self) and (now := self._record.encode()) != self._stored:
            self._store.write(*_SEGMENT, now)

    def _now(self) -> int | None:
        """Return the least watermark of the ports that count; None: none does, or one has had no row yet."""
        record = self._record
        awake = [port for port in self._ports if not self._is_idle(port)]
        if any(port not in record.reached for port in awake):
            return None
        counting = [record.reached[port] for port in awake if record.reached[port] >= record.common]
        if awake:
            return min(counting, default=None)
        later = [
            record.reached[port] + record.now - record.seen[port]
            for port, idle in self._ports.items()
            if idle is not None and idle.advances and port in record.seen
        ]
        return min(later, default=None)

    def _is_idle(self, port: int) -> bool:
        idle, since = self._ports[port], self._counted_from(port)
        return idle is not None and since > 0 and self._record.now - since >= idle.after_us

    def _counted_from(self, port: int) -> int:
        """Return from when on a port may have been idle: its last row, or the start of the run."""
        return max(self._record.seen.get(port, 0), self._record.since)
