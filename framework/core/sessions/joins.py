"""Which session a row joins, and which sessions become one (docs/semantics.md section 15).

A row at t with a gap g stands for the closed interval [t, t + g], a session for [first row, greatest end of its rows].
What touches is one session. Of rows that are not too late by themselves the order of arrival does not matter: the
sessions are the connected parts of all intervals, for many partitions at once. It matters where a row is too late by
itself, and where `max_duration` cuts: such parts are joined row by row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from panekeeper.framework.core.stable_order import ranked, stable_order

_MOST = 2**62


def connected(codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the number of the connected part that each closed interval belongs to; parts are of one partition.

    Parts are numbered by partition, then by time.

    >>> connected(np.array([0, 0, 0, 1]), np.array([5, 0, 20, 6]), np.array([9, 5, 30, 7]))
    array([0, 0, 1, 2])
    """
    if not len(codes):
        return np.empty(0, dtype=np.int64)
    base, span = int(starts.min()), int(ends.max()) - int(starts.min()) + 1
    if int(codes.max()) * span < _MOST:
        own = codes * span - base
        low, high = own + starts, own + ends
    else:  # by their order, which is as good
        _, place = ranked(np.concatenate([starts, ends]))
        own = codes * (2 * len(codes))
        low, high = own + place[: len(codes)], own + place[len(codes) :]
    order = stable_order(starts, codes)
    low, high = low[order], high[order]
    begins = np.ones(len(codes), dtype=np.bool_)
    begins[1:] = low[1:] > np.maximum.accumulate(high)[:-1]
    parts = np.empty(len(codes), dtype=np.int64)
    parts[order] = np.cumsum(begins) - 1
    return parts


@dataclass(slots=True)
class Joined:
    """A session while rows join it one by one; `end` is the greatest end of its rows, before any cut."""

    first: int
    last: int
    end: int
    label: int


@dataclass(frozen=True, slots=True)
class Join:
    """What became of one row.

    Attributes:
        row: its number.
        session: the session that it is in now; None: it is too late.
        merged: the sessions, as they were, that became one by it, in the order of their times; empty if it joined
            one, or began one.
    """

    row: int
    session: Joined | None
    merged: tuple[Joined, ...] = ()


@dataclass
class JoinsInOrder:
    """Joins rows one by one, in arrival order, each to the sessions of its owner: a partition, or a part of one.

    Attributes:
        max_duration: no session has rows that are so far apart, us; None: no limit.
        sessions: owner -> its sessions, in the order of their times.
        labels: label of a session -> label of the one that it is part of now.
    """

    max_duration: int | None
    sessions: dict[int, list[Joined]] = field(default_factory=dict)
    labels: list[int] = field(default_factory=list)

    def add_sessions(self, owners: np.ndarray, firsts: np.ndarray, lasts: np.ndarray, ends: np.ndarray) -> None:
        """Add sessions that are open before the rows; their labels are 0, 1, 2, ..."""
        self.labels = list(range(len(owners)))
        order = stable_order(firsts).tolist()
        own, first, last, end = (column.tolist() for column in (owners, firsts, lasts, ends))
        for at in order:
            self.sessions.setdefault(own[at], []).append(Joined(first[at], last[at], end[at], at))

    def join(self, rows: Iterable[tuple[int, int, int, int, bool]]) -> Iterator[Join]:
        """Join rows `(number, owner, time, end, is too late by itself)`, and yield what became of each.

        A row within a session, or that an earlier session takes, joins that; else it joins the next one.
        """
        for number, owner, time, end, late in rows:
            yield self._join(number, self.sessions.setdefault(owner, []), time, end, late=late)

    def label_of(self, label: int) -> int:
        """Return the label of the session that a session is part of in the end."""
        while self.labels[label] != label:
            label = self.labels[label]
        return label

    def _join(self, row: int, beside: list[Joined], time: int, end: int, *, late: bool) -> Join:
        at = bisect_right(beside, time, key=lambda session: session.first) - 1
        if at < 0 or time > beside[at].end or not self._fits(beside[at].first, max(time, beside[at].last)):
            at += 1
            taken = at < len(beside) and beside[at].first <= end and self._fits(time, beside[at].last)
            if not taken and late:
                return Join(row, None)
            if not taken:
                self.labels.append(len(self.labels))
                beside.insert(at, Joined(time, time, end, self.labels[-1]))
        session, merged = beside[at], list[Joined]()
        before = Joined(session.first, session.last, session.end, session.label)
        session.first, session.last = min(session.first, time), max(session.last, time)
        session.end = max(session.end, end)
        while (
            at + 1 < len(beside)
            and (following := beside[at + 1]).first <= session.end
            and self._fits(session.first, following.last)
        ):
            merged.append(beside.pop(at + 1))
            session.last, session.end = max(session.last, following.last), max(session.end, following.end)
            self.labels[following.label] = session.label
        return Join(row, session, (before, *merged) if merged else ())

    def _fits(self, first: int, last: int) -> bool:
        return self.max_duration is None or last - first < self.max_duration
