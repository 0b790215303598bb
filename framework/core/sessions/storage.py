"""How open sessions are read and written: leaves and archives, as far as a batch touches them (`leaves.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.sessions.leaves import Leaves, no_sessions
from panekeeper.framework.core.sessions.open_table import OpenSessions
from panekeeper.framework.core.sessions.protocol import SessionContents
from panekeeper.framework.core.stable_order import distinct, stable_order
from panekeeper.state.codec import decode_header, encode_header
from panekeeper.state.records import ARCHIVES, CLOCK, DUE, NEVER, SESSIONS, SESSIONS_KIND, SessionRecord
from panekeeper.state.store import KeyGroupStore

_SESSIONS_TABLE, _CONTENTS_TABLE = "sessions", "contents"


def stored_sessions(record: SessionRecord, store: KeyGroupStore) -> list[pa.Table]:
    """Return all open sessions of a key group as they are stored, without what they hold."""
    leaves = [leaf for leaf, kept in record.leaves.items() if kept[SESSIONS]]
    leaves += [ARCHIVES + number for number in record.archives]
    return [decode_header(store.read(SESSIONS_KIND, leaf, 0))[1][_SESSIONS_TABLE] for leaf in leaves]


class SessionStorage:
    """What of the open sessions is in memory, and what of that has changed. Loads nothing by itself."""

    def __init__(
        self, store: KeyGroupStore, leaves: Leaves, open_sessions: OpenSessions, contents: SessionContents
    ) -> None:
        self._store = store
        self._leaves = leaves
        self._open = open_sessions
        self._contents = contents
        self._loaded: set[int] = set()
        self._changed = np.empty(0, dtype=np.bool_)
        """Of each partition, whether sessions of it have changed."""

    def load_around(self, codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Load whatever may touch these intervals of partitions."""
        self._load(self._leaves.of(codes))
        self._load_archives(self._leaves.archives_touched(codes, low, high))

    def load_due(self, watermark: int) -> None:
        """Load the sessions that have something to do at a watermark."""
        self._load(np.array([leaf for leaf, kept in self._leaves.records.items() if kept[DUE] <= watermark], np.int64))
        self._load_archives([number for number, kept in self._leaves.archives.items() if kept[DUE] <= watermark])

    def load_due_by_clock(self, us: int) -> None:
        """Load the sessions that fire by the wall clock until then."""
        self._load(np.array([leaf for leaf, kept in self._leaves.records.items() if 0 <= kept[CLOCK] <= us], np.int64))

    def note_changed(self, codes: np.ndarray) -> None:
        """Take note that sessions of these partitions have changed."""
        self._know(codes)
        self._changed[codes] = True

    def _know(self, codes: np.ndarray) -> None:
        new = int(codes.max(initial=-1)) + 1 - len(self._changed)
        self._changed = np.append(self._changed, np.zeros(max(new, 0), dtype=np.bool_))

    def _changed_leaves(self) -> dict[int, int]:
        """Return the leaves with changed sessions, and of how many partitions; leaves stay as they are until `save`."""
        leaves, numbers = np.unique(self._leaves.of(np.flatnonzero(self._changed)), return_counts=True)
        return dict(zip(leaves.tolist(), numbers.tolist(), strict=True))

    def save(self, due: np.ndarray) -> None:
        """Write the changed leaves; `due` says when each session in memory has something to do."""
        changed, records = sorted(self._fit_leaves()), self._leaves.records
        at, bounds = self._leaves.places(self._open.columns.codes, changed)
        due = due[at]
        for leaf, begin, end in zip(changed, bounds, bounds[1:], strict=False):
            records[leaf][SESSIONS] = end - begin
            if end > begin:
                records[leaf][DUE] = int(due[begin:end].min())
                clock = int(self._open.columns.due[at[begin:end]].min())
                records[leaf][CLOCK] = -1 if clock == NEVER else clock
            else:
                self._absorb(leaf)
        self._write(changed, at, bounds, self._contents.save(changed, self._open.columns.take(at), bounds))
        if not self._leaves.sessions:
            records.clear()

    def _load(self, leaves: np.ndarray) -> None:
        """Load the sessions of these leaves, unless they are in memory."""
        new = sorted(set(leaves.tolist()) - self._loaded)
        self._loaded.update(new)
        stored = [leaf for leaf in new if leaf in self._leaves.records and self._leaves.records[leaf][SESSIONS]]
        self._read(stored)

    def _read(self, leaves: list[int]) -> None:
        """Read the sessions of leaves, with what they hold, as far as it is stored with them."""
        if leaves:
            values = [decode_header(self._store.read(SESSIONS_KIND, leaf, 0))[1] for leaf in leaves]
            self._open.add_stored([value[_SESSIONS_TABLE] for value in values])
            if parts := [value[_CONTENTS_TABLE] for value in values if _CONTENTS_TABLE in value]:
                self._contents.load(parts)

    def _write(self, leaves: list[int], at: np.ndarray, bounds: list[int], parts: list[pa.Table | None]) -> None:
        """Write the sessions at these positions; those of the n-th leaf are `at[bounds[n]:bounds[n + 1]]`."""
        table = self._open.stored(at)
        for leaf, begin, end, part in zip(leaves, bounds, bounds[1:], parts, strict=False):
            if end > begin:
                tables = {_SESSIONS_TABLE: table.slice(begin, end - begin)}
                tables |= {} if part is None else {_CONTENTS_TABLE: part}
                self._store.write(SESSIONS_KIND, leaf, 0, encode_header({}, tables))

    def _load_archives(self, numbers: list[int]) -> None:
        """Move the sessions of archives back to the leaves of their partitions."""
        if not numbers:
            return
        before, leaves = len(self._open), [ARCHIVES + number for number in numbers]
        self._read(leaves)
        for number, leaf in zip(numbers, leaves, strict=True):
            self._absorb(leaf)
            del self._leaves.archives[number]
        own = self._leaves.of(self._open.columns.codes[before:])
        self._load(own)
        self.note_changed(self._open.columns.codes[before:])

    def archive(self, at: np.ndarray, due: np.ndarray) -> None:
        """Store the sessions at these positions apart, where a changed leaf has many; `due` is of all in memory."""
        if not len(at):
            return
        at = at[stable_order(self._open.columns.first[at])]
        least, most = self._leaves.capacity, self._leaves.archive_capacity
        changed = sorted(self._changed_leaves())
        places, bounds = self._leaves.places(self._open.columns.codes[at], changed)
        at, next_number = at[places], max(self._leaves.archives, default=-1) + 1
        parts = [
            (leaf, *part)
            for leaf, begin, end in zip(changed, bounds, bounds[1:], strict=False)
            for part in (_even_parts(begin, end, most) if end - begin >= least else ())
        ]
        some = np.concatenate([at[:0], *(at[low:end] for _, low, end in parts)])
        if not parts:
            return
        ends = [0, *np.cumsum([end - low for _, low, end in parts]).tolist()]
        own, numbers = self._open.columns.take(some), range(next_number, next_number + len(parts))
        leaves = [ARCHIVES + number for number in numbers]
        contents = self._contents.archive(leaves, own, ends)
        self._write(leaves, some, ends, contents)
        for number, (leaf, _, _), part, begin, end in zip(numbers, parts, contents, ends, ends[1:], strict=False):
            bounds_of = int(own.first[begin:end].min()), int(own.end[begin:end].max())
            least = int(due[some[begin:end]].min())
            self._leaves.archives[number] = [end - begin, least, int(part is None), -1, leaf, *bounds_of]
        gone = np.zeros(len(self._open), dtype=np.bool_)
        gone[some] = True
        self._open.remove(gone)

    def _absorb(self, leaf: int) -> None:
        """Remove what is stored of a leaf: it is in memory."""
        self._store.remove(SESSIONS_KIND, leaf, 0)
        self._contents.absorb(leaf)

    def _fit_leaves(self) -> set[int]:
        """Split leaves that have grown too large, join those that are small; return those that are to be written."""
        changed, records, codes = self._changed_leaves(), self._leaves.records, self._open.columns.codes
        self._know(codes)
        for leaf in changed:
            records.setdefault(leaf, no_sessions())
        for leaf, record in records.items():
            if leaf in self._loaded:
                record[SESSIONS] = 0
        leaves, numbers = np.unique(self._leaves.of(codes), return_counts=True)
        for leaf, sessions in zip(leaves.tolist(), numbers.tolist(), strict=True):
            records[leaf][SESSIONS] = sessions
        self._split(changed)
        self._join(changed)
        return set(changed)

    def _split(self, changed: dict[int, int]) -> None:
        """Split the changed leaves that are too large; `changed` is kept up to date: leaf -> changed partitions."""
        codes, leaves, is_large = self._open.columns.codes, sorted(changed), self._leaves.is_large
        at, bounds = self._leaves.places(codes, leaves)
        waiting = [(leaf, codes[at[low:end]]) for leaf, low, end in zip(leaves, bounds, bounds[1:], strict=False)]
        while waiting:
            leaf, own = waiting.pop()
            if not is_large(len(own), changed[leaf]) or not self._leaves.can_split(leaf, own):
                continue
            self._absorb(leaf)
            parts = self._leaves.split(leaf)
            self._loaded.update(parts)
            del changed[leaf]
            leaf_of_own = self._leaves.of(own)
            for part in parts:
                some = own[leaf_of_own == part]
                self._leaves.records[part][SESSIONS] = len(some)
                changed[part] = len(distinct(some[self._changed[some]]))
                waiting.append((part, some))

    def _join(self, changed: dict[int, int]) -> None:
        """Join the changed leaves that are small with their siblings; `changed` is kept up to date."""
        small = sorted(changed)
        while small:
            pair = self._leaves.small_pair(small.pop(), self._loaded, changed)
            if pair is not None:
                for leaf in pair:
                    self._absorb(leaf)
                joined = self._leaves.join(*pair)
                self._loaded.add(joined)
                changed[joined] = sum(changed.pop(leaf, 0) for leaf in pair)
                small.append(joined)


def _even_parts(begin: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Return the bounds of as few parts of a range as there can be of at most so many, none much shorter."""
    parts = -(-(end - begin) // most)
    return pairwise([begin + (end - begin) * number // parts for number in range(parts + 1)])
