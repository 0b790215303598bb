"""Windows by row: which there are in one key group (docs/semantics.md section 18).

A window is given by its partition and its last instant. There is one that ends at each row, and one that begins right
after each row, if rows lie in it. They follow from the rows that are kept, so only these are stored; beside them, which
rows came behind the watermark since it last moved, and how often windows have fired where that is not the usual number.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.by_row.firing_numbers import FiringNumbers
from panekeeper.framework.core.by_row.protocol import ByRowOutput, Windows
from panekeeper.framework.core.by_row.rows import OrderedRows
from panekeeper.framework.core.by_row.times import ByRowTimes
from panekeeper.framework.core.event_time_batch import RowCounts, fates_of, lateness_text
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.joins.kept_rows import KeptRows
from panekeeper.framework.core.outlook import NONE, Outlook
from panekeeper.framework.core.panes.open_runs import Runs
from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.past_firings import SOME, PastFirings
from panekeeper.framework.core.stable_order import bounds, changes, stable_order
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.windows import SlidingByRow
from panekeeper.state.records import NEVER, NO_WATERMARK, ByRowRecord

FIRST, LAST = -(2**62), 2**62
"""Before and after all windows, us."""


@dataclass
class SlidingByRowWindow:
    """The windows of one key group for one micro-batch. What persists is in `record` and `kept`."""

    window: SlidingByRow
    record: ByRowRecord
    keys: PartitionKeys
    kept: KeptRows
    output: ByRowOutput
    counts: RowCounts = field(default_factory=RowCounts)
    missed_panes: int = 0
    """How many rows that are kept came when the window that ends at them was closed."""

    def __post_init__(self) -> None:
        self.times = ByRowTimes(self.window)
        self.fired = FiringNumbers(self.record.fired, self.keys)
        self._known = self.record.kept.next_number
        """The arrival number of the first row of this batch."""
        self._since = self._known
        """That of the first row since the watermark last moved in this batch, or since it began."""
        self._new: list[tuple[np.ndarray, np.ndarray]] = []
        """Arrival numbers and times of the rows of this batch, where windows fire at its end."""

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        return self.record.watermark

    @property
    def open_count(self) -> int:
        """How many rows are kept: each ends a window."""
        return self.kept.number

    @property
    def open_runs(self) -> Runs:
        """Return none: what is open is of one partition, and has no number."""
        return ()

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row is not too late: the newest window that it may be in is open."""
        times = table.column(EVENT_TIME).to_numpy()
        if self.record.flushed or self.record.watermark == NO_WATERMARK:
            return np.full(len(times), not self.record.flushed)
        taken: np.ndarray = times + self.window.reach_us > self.record.watermark
        return taken

    def on_rows(self, table: pa.Table) -> np.ndarray:
        """Keep rows, and note those that change windows that are complete."""
        table, takes = self.keys.with_normal_keys(table), self.takes(table)
        fates = fates_of(takes, self._refines(table))
        if not takes.all():
            self.output.on_drop(table.filter(pa.array(~takes)), self._lateness_text)
            table = table.filter(pa.array(takes))
        if not table.num_rows:
            return fates
        times, first = table.column(EVENT_TIME).to_numpy(), self.record.kept.next_number
        if self.record.watermark != NO_WATERMARK:
            self.missed_panes += int(np.count_nonzero(self._closed(times)))
        self.kept.add(table)
        if self.window.emit == "on_update":
            self._new.append((first + np.arange(len(times)), times))
        elif self.window.emit == "on_complete":
            refines = self._refines(table)
            pairs = zip((np.flatnonzero(refines) + first).tolist(), times[refines].tolist(), strict=True)
            self.record.pending += [[number, time] for number, time in pairs]
        return fates

    def _refines(self, table: pa.Table) -> np.ndarray:
        """Return whether each row, if it is not too late, changes windows that are complete."""
        refines: np.ndarray = (table.column(EVENT_TIME).to_numpy() < self.record.watermark) & (self.window.age_us > 0)
        return refines

    def on_partial_rows(self, table: pa.Table) -> None:
        """Raise `TypeError`: a row may be in windows in which its neighbour is not."""
        raise TypeError("rows of windows by row are not folded")

    def on_watermark(self, watermark: int) -> None:
        """Complete, fire and close windows. A watermark (us) that is not greater is ignored."""
        if watermark <= self.record.watermark or self.record.flushed:
            return
        previous, self.record.watermark = self.record.watermark, watermark
        self._refire(previous)
        self._complete(previous, watermark - 1 - self.times.waits_us, Reason.WATERMARK)
        self._since = self.record.kept.next_number
        self.kept.drop_before(watermark - self.window.reach_us)
        self.fired.keep(~self._closed(self.fired.lasts))

    def on_tick(self, us: int) -> None:
        """Do nothing: nothing is due by the wall clock."""

    def on_batch_end(self) -> None:
        """Fire the windows that the batch changed, or made, by `emit="on_update"`: those that have not fired since."""
        if not self._new or self.record.flushed:
            return
        now = self.record.watermark
        late, every = self._came_since(self._since), self._came_since(self._known)
        self._new = []
        self._fire_changed(*late, now - self.window.age_us, now - 1, Reason.LATE)
        self._fire_changed(*every, now, LAST, Reason.EARLY)

    def on_flush(self) -> None:
        """Fire what has new rows, with reason FLUSH, and close all for good."""
        if self.record.flushed:
            return
        previous, self.record.flushed = self.record.watermark, True
        self._refire(previous, Reason.FLUSH)
        self._complete(previous, LAST, Reason.FLUSH)
        self.kept.drop_before(LAST)
        self.fired.keep(np.zeros(len(self.fired.lasts), dtype=np.bool_))

    def due(self) -> int | None:
        """Return a watermark (us) before which nothing happens; None: no row is kept."""
        after = self.record.watermark + 1
        if self.record.pending:
            return after
        due = [
            max(first + offset, after)
            for first, last in self.kept.spans()
            for offset in (
                1 + self.times.waits_us,
                self.window.difference_us + 2 + self.times.waits_us,
                self.window.reach_us + 1,
            )
            if last + offset >= after
        ]
        return min(due, default=None)

    def due_by_clock(self) -> int | None:
        """Return None: nothing is due by the wall clock."""
        return None

    def save(self) -> ByRowRecord:
        """Write the rows and return the record to be written as the header."""
        self.kept.save()
        self.record.fired = self.fired.stored(self.keys)
        return self.record

    def past(self, codes: np.ndarray, lasts: np.ndarray, existed: np.ndarray | None = None) -> PastFirings:
        """Return what windows have fired; `existed`: whether there was each before this batch, all if None.

        It tells nothing of new rows: these are the ones of this batch, and those that `record` has as pending.
        """
        fired = self.fired.of(codes, lasts, self.usual(lasts, existed)).astype(np.int32)
        return PastFirings(
            codes=codes,
            fired=fired,
            complete=(self.times.ready(lasts) <= self.record.watermark) & (fired > 0),
            new=np.zeros(len(codes), dtype=np.int64),
            due_us=np.full(len(codes), NEVER),
        )

    @property
    def kept_rows(self) -> OrderedRows:
        """All rows that may still be in an open window."""
        self.kept.read_from_to(FIRST, LAST)
        of_use = pa.array(self.kept.times >= self.record.watermark - self.window.reach_us)
        return OrderedRows(self.kept.rows.filter(of_use), self.keys)

    def outlook(self) -> Outlook:
        """Return what each open window waits for."""
        now, rows = self.record.watermark, self.kept_rows
        codes, lasts, low, high = self.windows(rows, FIRST, LAST)
        is_open = self.times.closing(lasts) > now
        codes, lasts, low, high = codes[is_open], lasts[is_open], low[is_open], high[is_open]
        past, new = self.past(codes, lasts), np.zeros(len(codes), dtype=np.int64)
        again = self._changed_by(*self._pending, now - self.window.age_us, now - 1)
        if again is not None:
            both = np.concatenate([codes, again.codes]), np.concatenate([lasts, again.lasts])
            places = number_cells(*both)[0][len(codes) :]
            past.fired[places], new[places] = again.fired, SOME
            past = replace(past, complete=past.complete & (past.fired > 0), new=new)
        return Outlook(
            past=past,
            start=lasts - self.window.difference_us,
            end=lasts,
            fires_at=np.where(past.waits, np.maximum(self.times.ready(lasts), now + 1), NEVER),
            closes_at=self.times.closing(lasts),
            next_rows=np.full(len(codes), NONE),
            rows=high - low,
        )

    def usual(self, lasts: np.ndarray, existed: np.ndarray | None = None) -> np.ndarray:
        """Return how often windows have fired that need no note of it; `existed`: since before this batch, all if None.

        Such a one has fired at the end of the batch that made it, where windows do, and as it was complete.
        """
        has_fired = self.times.ready(lasts) <= self.record.watermark
        usual: np.ndarray = has_fired + int(self.window.emit == "on_update")
        return usual if existed is None else np.where(existed, usual, 0)

    # -- which windows ---------------------------------------------------------------------------------------

    def _complete(self, previous: int, last: int, reason: Reason) -> None:
        """Fire the windows that are complete from this watermark on, until `last`, or close, where they fire then."""
        first = FIRST if previous == NO_WATERMARK else previous - self.times.waits_us
        self.kept.read_from_to(first - 1 - self.window.difference_us, last + 1)
        rows = OrderedRows(self.kept.rows, self.keys)
        codes, lasts, low, high = self.windows(rows, first, last)
        fired = np.zeros(len(codes), dtype=np.int64)
        if self.window.emit == "on_update":
            early = self._existed(rows, rows.numbers >= self._known, codes, lasts, low, high).astype(np.int64)
            fired = self.fired.of(codes, lasts, early)
        self._fire(Windows(rows, codes, lasts, low, high, fired, self._closed(lasts)), reason)

    def _refire(self, previous: int, reason: Reason = Reason.LATE) -> None:
        """Fire the windows that were complete at this watermark, and that rows since then have changed or made."""
        numbers, times = self._pending
        self.record.pending = []
        if self._new:
            numbers, times = self._came_since(self._since)
        self._fire_changed(numbers, times, previous - self.window.age_us, previous - 1, reason)

    @property
    def _pending(self) -> tuple[np.ndarray, np.ndarray]:
        """Arrival numbers and times of the rows that came behind the watermark since it last moved."""
        numbers, times = np.array(self.record.pending, dtype=np.int64).reshape(-1, 2).T
        return numbers, times

    def _came_since(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return arrival numbers and times of the rows of this batch from that number on."""
        numbers, times = map(np.concatenate, zip(*self._new, strict=True))
        return numbers[numbers >= number], times[numbers >= number]

    def _fire_changed(self, numbers: np.ndarray, times: np.ndarray, first: int, last: int, reason: Reason) -> None:
        """Fire the windows that end in `[first, last]`, and that rows with these numbers and times changed, or made."""
        changed = self._changed_by(numbers, times, first, last)
        if changed is not None:
            self._fire(changed, reason)

    def _changed_by(self, numbers: np.ndarray, times: np.ndarray, first: int, last: int) -> Windows | None:
        """Return those windows; None if there are none."""
        span = self.window.difference_us + 1
        if not len(times) or int(times.min()) > last:
            return None
        self.kept.read_between(times - span, times + span)
        rows = OrderedRows(self.kept.rows, self.keys)
        first, last = max(int(times.min()), first), min(int(times.max()) + span, last)
        codes, lasts, low, high = self.windows(rows, first, last)
        is_new = np.isin(rows.numbers, numbers)
        existed, new = self._existed(rows, is_new, codes, lasts, low, high), bounds(is_new)
        fires = ~existed | (new[high] > new[low])
        codes, lasts, low, high, existed = (column[fires] for column in (codes, lasts, low, high, existed))
        fired = self.past(codes, lasts, existed).fired
        return Windows(rows, codes, lasts, low, high, fired, self._closed(lasts))

    def _existed(
        self,
        rows: OrderedRows,
        is_new: np.ndarray,
        codes: np.ndarray,
        lasts: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> np.ndarray:
        """Return whether there was each window before some of the rows came."""
        old, span = bounds(~is_new), self.window.difference_us + 1

        def has_old(low: np.ndarray, high: np.ndarray) -> np.ndarray:
            has: np.ndarray = old[high] > old[low]
            return has

        existed = has_old(*rows.between(codes, lasts, lasts + 1))
        if self.window.right:
            existed |= has_old(*rows.between(codes, lasts - span, lasts - span + 1)) & has_old(low, high)
        return existed

    def windows(
        self, rows: OrderedRows, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return partition, last instant, and rows of the windows that end in `[first, last]`, by their ends."""
        codes, lasts = rows.codes, rows.times
        if self.window.right:
            codes = np.concatenate([codes, codes])
            lasts = np.concatenate([lasts, lasts + self.window.difference_us + 1])
        some = (lasts >= first) & (lasts <= last)
        codes, lasts = codes[some], lasts[some]
        order = stable_order(codes, lasts)
        codes, lasts = codes[order], lasts[order]
        distinct = changes(codes, lasts)
        codes, lasts = codes[distinct], lasts[distinct]
        low, high = rows.between(codes, lasts - self.window.difference_us, lasts + 1)
        filled = low < high
        return codes[filled], lasts[filled], low[filled], high[filled]

    def _fire(self, windows: Windows, reason: Reason) -> None:
        if len(windows.codes):
            self.fired.put(windows.codes, windows.lasts, windows.fired + 1, self.usual(windows.lasts))
            self.output.on_transitions(windows, reason)

    def _closed(self, lasts: np.ndarray) -> np.ndarray:
        """Return whether the windows with these last instants are closed."""
        return (self.times.closing(lasts) <= self.record.watermark) | self.record.flushed

    def _lateness_text(self, time: int | None) -> str:
        return lateness_text(time, self.record, "every window it may be in is closed")
