"""Sessions, row by row and with all rows kept: a second implementation of docs/semantics.md section 15."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NEVER = -(2**63)


@dataclass
class NaiveRow:
    """One row: its time, its gap, and what else it has."""

    time: int
    gap: int
    value: Any


@dataclass
class NaiveSession:
    """An open session with its rows in arrival order."""

    rows: list[NaiveRow] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    fired: int = 0
    new: int = 1
    arrived: int = 0
    due: int | None = None
    complete: bool = False
    full: bool = False
    fresh: list[int] = field(default_factory=list)
    """The numbers of the rows that no firing had."""
    standing: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Start -> the result of that start which no later one has replaced."""

    @property
    def first(self) -> int:
        return min(row.time for row in self.rows)

    @property
    def last(self) -> int:
        return max(row.time for row in self.rows)

    @property
    def reach(self) -> int:
        return max(row.time + row.gap for row in self.rows)


@dataclass
class NaiveSessions:
    """The sessions of all keys. What happens is in `firings`, `dropped`, `without` and `events`."""

    age: int
    most: int | None = None
    emit: str = "on_complete"
    early: tuple[str, int] | None = None
    refire: tuple[str, int] | None = None
    results: str = "accumulating"
    now: int = 0
    watermark: int = NEVER
    flushed: bool = False
    count: int = 0
    open: dict[Any, list[NaiveSession]] = field(default_factory=dict)
    firings: list[dict[str, Any]] = field(default_factory=list)
    view: list[dict[str, Any]] = field(default_factory=list)
    """The firings, each with all rows of its session."""
    dropped: list[tuple[Any, int]] = field(default_factory=list)
    without: list[tuple[Any, int]] = field(default_factory=list)
    events: list[tuple[Any, ...]] = field(default_factory=list)

    def row(self, key: Any, time: int, gap: int | None, value: Any) -> None:
        """Take one row."""
        if gap is None or gap <= 0:
            self.without.append((key, time))
            return
        self._fire_due(key)
        row, sessions = NaiveRow(time, gap, value), self.open.setdefault(key, [])
        sessions.sort(key=lambda one: one.first)
        joined = [one for one in sessions if one.first <= time <= one.last] or [
            one for one in sessions if self._touch(one, row) and self._fits([one], row)
        ]
        if self.flushed or (not joined and time + gap + self.age <= self.watermark):
            self.dropped.append((key, time))
            return
        parts = joined[:1]
        both = NaiveSession([*(parts[0].rows if parts else []), row])
        for other in sessions:
            if (
                parts
                and other.first > parts[0].first
                and other.first <= both.reach
                and self._fits([*parts, other], row)
            ):
                parts.append(other)
                both.rows += other.rows
        if len(parts) > 1:
            old = sorted(
                (pair for one in parts for pair in zip(one.numbers, one.rows, strict=True)), key=lambda pair: pair[0]
            )
            keys = [(one.first, self._end(one)) for one in parts]
            self.events.append(("merge", key, both.first, self._end(both), keys, [pair[1].value for pair in old]))
        pairs = [pair for one in parts for pair in zip(one.numbers, one.rows, strict=True)] + [(self.count, row)]
        pairs.sort(key=lambda pair: pair[0])
        made = NaiveSession([pair[1] for pair in pairs], [pair[0] for pair in pairs])
        made.fired = max((one.fired for one in parts), default=0)
        made.full = any(one.full for one in parts)
        made.complete = any(one.complete for one in parts) and self._end(made) <= self.watermark
        made.new = sum(one.new for one in parts) + 1
        made.fresh = sorted([*(number for one in parts for number in one.fresh), self.count])
        made.arrived = min([self.now, *(one.arrived for one in parts)])
        if period := self._fires_by("clock", made):
            made.due = made.arrived + ((self.now - made.arrived) // period + 1) * period
        made.standing = {start: shown for one in parts for start, shown in one.standing.items()}
        self.open[key] = [one for one in sessions if one not in parts] + [made]
        self.count += 1
        self.events.append(("insertion", key, made.first, self._end(made), value))
        if self._fires_by("rows", made) and made.new >= self._fires_by("rows", made):
            self._fire_by_rule(key, made)

    def advance(self, watermark: int) -> None:
        """Take a watermark."""
        if watermark <= self.watermark or self.flushed:
            return
        before, self.watermark = self.watermark, watermark
        period = self.early[1] if self.early is not None and self.early[0] == "event_time" else 0
        passes = period and before != NEVER and watermark // period > before // period
        for key, end, session in self._by_end():
            ready = end + self.age if self.emit == "on_close" else end
            waits = session.complete and self.refire is not None and end + self.age > watermark
            if (session.new or not session.complete) and ready <= watermark and not waits:
                reason = "WATERMARK" if ready > before or self.emit == "on_close" else "LATE"
                self._fire(key, session, reason, is_final=end + self.age <= watermark)
            if end + self.age <= watermark:
                self._close(key, session)
        for key, _, session in self._by_end() if passes else ():
            if session.new and not session.complete:
                self._fire_by_rule(key, session)

    def tick(self, now: int) -> None:
        """The wall clock moves."""
        self.now = max(now, self.now)
        if not self.flushed:
            for key in list(self.open):
                self._fire_due(key)

    def flush(self) -> None:
        """End."""
        for key, _, session in self._by_end():
            if session.new or not session.complete:
                self._fire(key, session, "FLUSH", is_final=True)
            self._close(key, session)
        self.flushed = True

    def batch_end(self) -> None:
        """A micro-batch ends."""
        for key, _, session in self._by_end() if self.emit == "on_update" else ():
            if session.new:
                self._fire_by_rule(key, session)

    def _is_over(self, session: NaiveSession) -> bool:
        return self._end(session) <= self.watermark

    def _fires_by(self, what: str, session: NaiveSession) -> int:
        """By how many rows, or after how long, a session fires as it is now; 0 if not by that."""
        if self._is_over(session) and not session.complete:
            return 0
        rule = self.refire if self._is_over(session) else self.early
        return rule[1] if rule is not None and rule[0] == what else 0

    def _fire_by_rule(self, key: Any, session: NaiveSession) -> None:
        """Fire early, or late where the watermark has reached the end; it is complete then."""
        is_over = self._is_over(session)
        self._fire(key, session, "LATE" if is_over else "EARLY", is_final=False, early=not is_over)

    def _fire_due(self, key: Any) -> None:
        for session in sorted(self.open.get(key, ()), key=lambda one: (self._end(one), one.first)):
            if session.due is not None and session.due <= self.now:
                self._fire_by_rule(key, session)

    def _touch(self, session: NaiveSession, row: NaiveRow) -> bool:
        return session.first <= row.time + row.gap and row.time <= session.reach

    def _fits(self, sessions: list[NaiveSession], row: NaiveRow) -> bool:
        times = [one.time for session in sessions for one in session.rows] + [row.time]
        return self.most is None or max(times) - min(times) < self.most

    def _end(self, session: NaiveSession) -> int:
        return session.reach if self.most is None else min(session.reach, session.first + self.most)

    def _by_end(self) -> list[tuple[Any, int, NaiveSession]]:
        every = [(key, self._end(one), one) for key, sessions in self.open.items() for one in sessions]
        return sorted(every, key=lambda one: (one[1], one[2].first))

    def _fire(self, key: Any, session: NaiveSession, reason: str, *, is_final: bool, early: bool = False) -> None:
        values = [row.value for row in session.rows]
        fresh = [
            row.value for number, row in zip(session.numbers, session.rows, strict=True) if number in session.fresh
        ]
        firing = {
            "key": key,
            "start": session.first,
            "end": self._end(session),
            "last": session.last,
            "values": fresh if self.results == "discarding" else values,
            "replaces": sorted({*session.standing} - {session.first}),
            "refinement": session.fired,
            "is_final": is_final,
            "reason": reason,
        }
        if self.results == "retracting":
            again = {"replaces": [], "is_final": False, "reason": reason, "op": -1}
            self.firings += [shown | again for _, shown in sorted(session.standing.items())]
            firing["op"] = 1
        self.firings.append(firing)
        self.view.append(firing | {"values": values})
        if not session.full and not early:
            self.events.append(("initial_full", key, session.first, self._end(session), values))
        self.events.append(("trigger", key, session.first, self._end(session), values, session.fired))
        session.fired, session.new, session.standing = session.fired + 1, 0, {session.first: firing}
        session.due, session.fresh = None, []
        session.complete, session.full = session.complete or not early, session.full or not early

    def _close(self, key: Any, session: NaiveSession) -> None:
        values = [row.value for row in session.rows]
        self.events.append(("close", key, session.first, self._end(session), values))
        self.open[key].remove(session)
