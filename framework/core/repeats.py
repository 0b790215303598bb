"""Rows that repeat the id of one before them are left out, in front of the window of their port.

The first row of an id to arrive counts. A row of an equal id at most so much event time before or after one that
counts is a repeat, and a row further away counts anew. So what counts depends on the order of arrival alone, wherever a
batch ends (docs/semantics.md section 17).

A row that is too late for its window does not count: it goes to the quarantine, and a later one of its id may still
count. An id is forgotten once every row that could repeat it would be too late.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.joins.kept_rows import KeptRows
from panekeeper.framework.core.joins.matching import matches
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.steps import Flush, PortStep, Rows
from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.declarations.windows import EventTimeWindow
from panekeeper.state.records import NEVER, NO_WATERMARK, KeptRowsRecord
from panekeeper.state.store import KeyGroupStore, PartStore, StoredHeader

_PART = "ids"


class Follower(Protocol):
    """What gets the rows that are no repeats: the window of a port, or a join."""

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        ...

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row, by itself, is not too late."""
        ...


class Repeats:
    """The ids of one port in one batch: those that new rows may repeat, and the new ones."""

    def __init__(self, spec: JobSpec, store: KeyGroupStore, follower: Follower) -> None:
        """Read nothing yet but the header; `follower` gets what is left."""
        assert spec.dedupe is not None
        assert isinstance(spec.window, EventTimeWindow | Within)
        self._follower = follower
        self._count = 0
        self._within = spec.dedupe.within_us
        self._hold = self._within + spec.reach_us
        names = dict.fromkeys([*spec.keys.names, *spec.dedupe.columns])
        self._ids = pa.schema([spec.columns.field(name) for name in names])
        store = PartStore(store, _PART)
        self._header = StoredHeader(store)
        self._record = KeptRowsRecord.decode(self._header.value)
        self._kept = KeptRows(self._ids, self._record, store, spec.history, reach=2 * self._within, age=spec.reach_us)

    def without(self, step: PortStep) -> PortStep:
        """Return a step, which the follower takes next, without the rows that are repeats."""
        if isinstance(step, Flush):
            self._kept.drop_before(NEVER)
        if not isinstance(step, Rows) or not step.table.num_rows:
            return step
        keys = PartitionKeys(self._ids)
        table = keys.with_normal_keys(step.table)
        repeats, counts = self._compared(keys, table)
        self._count += int(repeats.sum())
        if counts.any():
            self._kept.add(table.filter(pa.array(counts)))
        return replace(step, table=step.table.filter(pa.array(~repeats))) if repeats.any() else step

    def save(self) -> int:
        """Forget what can be repeated no more, write what is new, and return how many rows were left out."""
        if self._follower.watermark != NO_WATERMARK:
            self._kept.drop_before(self._follower.watermark - self._hold)
        self._kept.save()
        self._header.write(self._record.encode())
        return self._count

    def _compared(self, keys: PartitionKeys, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are repeats, and which are those that others repeat."""
        times, codes = table.column(EVENT_TIME).to_numpy(), keys.encode(table)
        earliest, latest = times - self._within, times + self._within
        self._kept.read_between(earliest, latest)
        held = self._known(table)
        of_held, held_times = keys.encode(held), held.column(EVENT_TIME).to_numpy()
        repeats = np.zeros(len(times), dtype=np.bool_)
        repeats[matches(codes, earliest, latest, of_held, held_times)[0]] = True
        takes = self._follower.takes(table)
        left = np.flatnonzero(~repeats)
        counts = np.zeros(len(times), dtype=np.bool_)
        # The first one that is left of each id counts; what it leaves of those after it is for the next round.
        while len(able := left[takes[left]]):
            first = np.full(keys.count, len(times))
            np.minimum.at(first, codes[able], able)
            counts[first[codes[able]]] = True
            first_of_each = first[codes[left]]
            is_after = first_of_each < left
            at = times[np.minimum(first_of_each, len(times) - 1)]
            repeated = is_after & (np.abs(times[left] - at) <= self._within)
            repeats[left[repeated]] = True
            left = left[~repeated & (first_of_each != left)]
        return repeats, counts

    def _known(self, table: pa.Table) -> pa.Table:
        """Return what new rows may repeat. Most that is kept has another id: what is cheap to compare is looked up."""
        rows, watermark = self._kept.rows, self._follower.watermark
        if watermark != NO_WATERMARK:
            rows = rows.filter(pa.array(self._kept.times >= watermark - self._hold))
        for field in reversed(list(self._ids)):
            if pa.types.is_integer(field.type) or pa.types.is_string(field.type):
                rows = rows.filter(pc.is_in(rows.column(field.name), value_set=pc.unique(table.column(field.name))))
        return rows
