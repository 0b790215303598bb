"""The watermark that the sources of a job have in common, also while some are silent (docs/semantics.md section 14).

Spark's own watermark is that of one stream, and stands still when nothing comes. So where a job has several ports, or
partitions with an event time of their own, or its watermark is to go on with the wall clock, every key group gets the
progress of event time of every source as data, and computes the watermark from it: all groups the same one, whatever
rows are theirs.

A source is idle when it has brought no row for so long by the wall clock. The watermark is the least of the sources
that count, and never goes back:

* a source that is not idle counts once it has come as far as the common watermark: one that wakes up does not hold the
  others back, and what it brings before that is late by the ordinary rules;
* if every source is idle, those count that go on with the wall clock (`when_idle="advance"`): each is as far behind it
  as it was in the batch that brought its last row. If there is none, the watermark stands still.

A port is one source; by partitions it is as many as have brought a row.

The time that a job was down is no idle time: its sources may hold rows that it has not read. It is counted from the
start on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from panekeeper.framework.core.job_spec import Idle
from panekeeper.framework.core.steps import EventTimeProgress, Tick, Watermark
from panekeeper.state.records import HORIZON, NO_WATERMARK, HorizonRecord, Source
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
        """Take the progress of a batch's rows, or the time; return the watermark for each port if it has moved."""
        if isinstance(step, Tick) and not self._may_be_idle:
            return []
        record = self._record
        at = step.us if isinstance(step, Tick) else step.at_us
        if at is not None:
            begins = record.now == NO_WATERMARK or (isinstance(step, Tick) and step.resume)
            record.now = max(at, record.now)
            record.since = record.now if begins else record.since
        for source, us in step.reached if isinstance(step, EventTimeProgress) else ():
            record.reached[source] = max(us, record.reached.get(source, us))
            if self._ports[source[0]] is not None:
                record.seen[source] = record.now
        now = self._now()
        if now is None or now <= record.common:
            return []
        record.common = now
        return [Watermark(now, port) for port in self._ports]

    def due_us(self, due_watermark_us: int | None) -> int | None:
        """Return the wall-clock instant at which the watermark may come to an instant without a row; None: never."""
        if due_watermark_us is None or not self._may_be_idle:
            return None
        record, instants = self._record, []
        for source, idle in self._sources():
            if idle is None:
                continue
            if not self._is_idle(source, idle):
                instants.append(self._counted_from(source) + idle.after_us)
            elif idle.advances and source in record.seen:
                instants.append(due_watermark_us - record.reached[source] + record.seen[source])
        return min((us for us in instants if us > record.now), default=None)

    def save(self) -> None:
        """Store what has changed."""
        if "_record" in vars(self) and (now := self._record.encode()) != self._stored:
            self._store.write(*_SEGMENT, now)

    def _sources(self) -> list[tuple[Source, Idle | None]]:
        """Return what is read, and when it is idle: a port that has brought no row yet is one source, without one."""
        known = self._record.reached
        silent = {(port, "") for port in self._ports} - {(port, "") for port, _ in known}
        return [(source, self._ports[source[0]]) for source in sorted({*known, *silent}) if source[0] in self._ports]

    def _now(self) -> int | None:
        """Return the least watermark of the sources that count; None: none does, or one has had no row yet."""
        record, sources = self._record, self._sources()
        awake = [source for source, idle in sources if not self._is_idle(source, idle)]
        if any(source not in record.reached for source in awake):
            return None
        if awake:
            return min((us for source in awake if (us := record.reached[source]) >= record.common), default=None)
        later = [
            record.reached[source] + record.now - record.seen[source]
            for source, idle in sources
            if idle is not None and idle.advances and source in record.seen
        ]
        return min(later, default=None)

    def _is_idle(self, source: Source, idle: Idle | None) -> bool:
        return idle is not None and self._record.now - self._counted_from(source) >= idle.after_us

    def _counted_from(self, source: Source) -> int:
        """Return from when on a source may have been idle: its last row, or the start of the run."""
        return max(self._record.seen.get(source, 0), self._record.since)
