"""One batch of an interval join: new rows meet the kept ones of the other port, and are kept for those to come.

A row is late once the watermark has passed it by more than the discard age, as is its last possible partner then: a row
without a match is given up, and goes out with nulls, once that is so. So no result is ever taken back
(docs/semantics.md section 16).
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.event_time_batch import RowCounts, RowFate, lateness_text
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.joins.kept_rows import KeptRows
from panekeeper.framework.core.joins.matching import UNEQUAL, equal_codes, matches
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine
from panekeeper.framework.core.steps import BatchOutcome, Flush, PortStep, Rows, Watermark, of_all_ports
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.joins import Within
from panekeeper.state.codec import of_type
from panekeeper.state.records import NEVER, NO_WATERMARK, JoinRecord
from panekeeper.state.store import KeyGroupStore, PortStore, StoredHeader

_BEFORE_ALL = -(2**63)


class WithinBatch:
    """An interval join for one batch: loaded when it is made, stored by `save`."""

    def __init__(self, spec: JobSpec, store: KeyGroupStore) -> None:
        assert isinstance(spec.window, Within)
        assert spec.join is not None
        self._spec, self._window, self._join = spec, spec.window, spec.join
        self._header = StoredHeader(store)
        self._record = JoinRecord.decode(self._header.value)
        self._equal = spec.join.equal
        self._keys = [
            PartitionKeys(pa.schema([port.columns.field(name) for name in names]))
            for port, names in zip(spec.ports, self._equal, strict=True)
        ]
        self._types = {field.name: field.type for field in (*spec.keys, *spec.output)}
        self._kept = [
            KeptRows(
                port.columns,
                record,
                PortStore(store, port.port) if port.port else store,
                spec.history,
                reach=spec.window.before_us + spec.window.after_us,
                age=spec.window.age_us,
                goes_out_alone=spec.join.goes_out_alone(port.port),
            )
            for port, record in zip(spec.ports, self._record.ports, strict=True)
        ]
        self._quarantines = [Quarantine(port, PartitionKeys(port.keys)) for port in spec.ports]
        self._counts = RowCounts()
        self._results: list[pa.Table] = []

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        return self._record.watermark

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row is not too late."""
        times = table.column(EVENT_TIME).to_numpy()
        if self._record.watermark == NO_WATERMARK or self._record.flushed:
            return np.full(len(times), not self._record.flushed)
        taken: np.ndarray = times >= self._record.watermark - self._window.age_us
        return taken

    def process(self, step: PortStep) -> None:
        """Process one step; the wall clock and marks do not concern a join."""
        match step:
            case Rows(table, port):
                if table.num_rows:
                    self._on_rows(self._without_late(table, port), port)
            case Watermark(us):
                self._on_watermark(us)
            case Flush():
                self._on_flush()

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        record = self._record
        for kept in self._kept:
            kept.save()
        self._header.write(record.encode())
        rejected = [quarantine.table for quarantine in self._quarantines]
        return BatchOutcome(
            results=pa.concat_tables(self._results) if self._results else None,
            rejected=of_all_ports(self._spec.rejected_schema, rejected, keys=[]),
            counts=asdict(self._counts),
            due_watermark_us=self._due(),
            watermark=None if record.watermark == NO_WATERMARK else record.watermark,
            kept_rows=sum(kept.number for kept in self._kept),
        )

    # -- rows ------------------------------------------------------------------------------------------------

    def _without_late(self, table: pa.Table, port: int) -> pa.Table:
        late = ~self.takes(table)
        self._counts.add(np.where(late, RowFate.DROPPED_LATE, RowFate.ADMITTED))
        if not late.any():
            return table
        self._quarantines[port].add_late(table.filter(pa.array(late)), self._lateness_text)
        return table.filter(pa.array(~late))

    def _on_rows(self, table: pa.Table, port: int) -> None:
        mine, theirs = self._kept[port], self._kept[1 - port]
        table = self._keys[port].with_normal_keys(table)
        if not self._join.goes_out_alone(port):  # what can match nothing is of no use
            for name in self._equal[port]:
                if table.column(name).null_count:
                    table = table.filter(pc.is_valid(table.column(name)))
        if not table.num_rows:
            return
        times = table.column(EVENT_TIME).to_numpy()
        before, after = self._window.reach(port)
        theirs.read_between(times - before, times + after)
        codes, their_codes = equal_codes(
            [table.column(name) for name in self._equal[port]],
            [theirs.rows.column(name) for name in self._equal[1 - port]],
        )
        known = np.flatnonzero(their_codes != UNEQUAL)
        own_at, at = matches(codes, times - before, times + after, their_codes[known], theirs.times[known])
        their_at = known[at]
        mine.add(table)
        if not len(own_at):
            return
        own, their = table.take(pa.array(own_at)), theirs.rows.take(pa.array(their_at))
        self._emit([their, own] if port else [own, their], Reason.MATCH)
        if self._join.goes_out_alone(1 - port):
            theirs.mark_matched(their_at)
        if self._join.goes_out_alone(port):
            mine.mark_matched(mine.rows.num_rows - table.num_rows + own_at)  # the new ones are the last

    # -- watermark -------------------------------------------------------------------------------------------

    def _on_watermark(self, watermark: int) -> None:
        """Give up rows whose last possible partner would be late by now."""
        if watermark <= self._record.watermark or self._record.flushed:
            return
        previous, self._record.watermark = self._record.watermark, watermark
        for port, kept in enumerate(self._kept):
            hold = self._window.hold_us(port)
            start = _BEFORE_ALL if previous == NO_WATERMARK else previous - hold
            self._give_up(port, start, watermark - hold, Reason.NO_MATCH)
            kept.drop_before(watermark - hold)

    def _on_flush(self) -> None:
        """Give up all rows; none is taken any more."""
        if self._record.flushed:
            return
        for port, kept in enumerate(self._kept):
            watermark = self._record.watermark
            start = _BEFORE_ALL if watermark == NO_WATERMARK else watermark - self._window.hold_us(port)
            self._give_up(port, start, NEVER, Reason.FLUSH)
            kept.drop_before(NEVER)
        self._record.flushed = True

    def _give_up(self, port: int, start: int, end: int, reason: Reason) -> None:
        if not self._join.goes_out_alone(port):
            return
        kept = self._kept[port]
        at = kept.give_up(start, end)
        if len(at):
            rows = kept.rows.take(pa.array(at))
            self._emit([None, rows] if port else [rows, None], reason)

    def _due(self) -> int | None:
        """Return a watermark before which no row is given up; None if none is kept."""
        firsts = [(kept.first_time(), self._window.hold_us(port)) for port, kept in enumerate(self._kept)]
        due = [time + hold + 1 for time, hold in firsts if time is not None]
        return max(min(due), self._record.watermark + 1) if due else None

    # -- results ---------------------------------------------------------------------------------------------

    def _emit(self, rows: list[pa.Table | None], reason: Reason) -> None:
        """Add result rows, of the rows of each port, None for one that has no match.

        Their columns are those that are equal, then those of port 0, then those of port 1.
        """
        port, table = next((port, of_port) for port, of_port in enumerate(rows) if of_port is not None)
        equal = zip(self._equal[port], self._equal[0], strict=True)
        columns = [of_type(table.column(own), self._types[name]) for own, name in equal]
        for own_rows, own_columns in zip(rows, self._join.columns, strict=True):
            for own, name in own_columns.items():
                column = pa.nulls(table.num_rows) if own_rows is None else own_rows.column(own)
                columns.append(of_type(column, self._types[name]))
        columns.append(pa.array([reason.value] * table.num_rows))
        self._results.append(pa.table(columns, schema=self._spec.results_schema))

    def _lateness_text(self, time: int | None) -> str:
        return lateness_text(time, self._record, "older than the discard age", noun="joins")
