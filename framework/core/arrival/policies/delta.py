"""`Delta`: a difference in an attribute (docs/semantics.md sections 2.2 and 3.4)."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from itertools import pairwise

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase, row_events
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import (
    AllRows,
    NewValues,
    RoundEviction,
    RowEviction,
    RunningPolicy,
    Tumbles,
    make_tumbles,
)
from panekeeper.framework.core.arrival.round import RoundRows, count_new_rows
from panekeeper.framework.declarations.events import EventType, Reason
from panekeeper.framework.declarations.policies import Delta


class DeltaPolicy(RunningPolicy):
    """Tumble before a row that exceeds the first of the window; keep rows near the newest; fire when values rise."""

    def __init__(self, declared: Delta) -> None:
        self._declared = declared

    def tumbles(self, round_rows: RoundRows, values: NewValues, partitions: Partitions) -> Tumbles:
        """Tumble before a row that exceeds the first row of the window, not the smallest, by more than the size."""
        new, size = self._subtractable(values(self._declared.attribute))
        tumbled: list[int] = []
        listed, starts = new.tolist(), round_rows.first_of_code.tolist()
        own = round_rows.code
        falling = set(own[1:][(own[1:] == own[:-1]) & ~(new[1:] >= new[:-1])].tolist())
        for partition in np.unique(own).tolist():
            find = _tumbles_by_scan if partition in falling else _tumbles_by_search
            partitions.oldest[partition] = find(
                listed, starts[partition], starts[partition + 1], partitions.oldest[partition], size, tumbled
            )
        rows = np.array(tumbled, dtype=np.int64)
        code, position, at = round_rows.rows
        high = position[rows]
        return make_tumbles(
            code[rows], high, at[rows], high, cause=Cause.ROW, phase=Phase.EVICTION, reason=Reason.DELTA
        )

    def eviction(self, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> RoundEviction:
        """Keep the rows that differ from the newest by no more than the size."""
        values, size = self._subtractable(rows.column(self._declared.attribute))
        return DeltaEviction(size, round_rows, rows.offsets, values, partitions.full)

    def firings(
        self, round_rows: RoundRows, values: NewValues, eviction: RoundEviction, partitions: Partitions
    ) -> list[EventTable]:
        """Fire when a value exceeds the last one that fired by more than the size; the first value only sets the base.

        The content is that before the row, from which the row has evicted nothing yet.
        """
        new, size = self._subtractable(values(self._declared.attribute))
        exact = new.dtype.kind == "i"  # of integers the difference counts: the sum of a base and a size may be rounded
        fired: list[int] = []
        last: dict[int, int] = {}
        for row, (code, value) in enumerate(zip(round_rows.code.tolist(), new.tolist(), strict=True)):
            base = partitions.base[code]
            if base is None:
                partitions.base[code] = value
            elif value - base > size if exact else value > base + size:
                partitions.base[code] = value
                fired.append(row)
                last[code] = row
        rows = np.array(fired, dtype=np.int64)
        code, position, at = round_rows.rows
        count_new_rows(round_rows, partitions)
        for own, row in last.items():
            # The row that fired came after the firing: it is the first row of the next content.
            partitions.since[own] = round_rows.sizes[own] - position[row]
        events = row_events(
            EventType.TRIGGER,
            Phase.TRIGGER_BEFORE,
            (code[rows], position[rows], at[rows]),
            eviction.begin_before[rows],
            position[rows],
            reason=Reason.DELTA,
            content=eviction.sparse_rows(code[rows], position[rows]),
        )
        return [events]

    def _subtractable(self, values: np.ndarray) -> tuple[np.ndarray, float]:
        """Return values that can be subtracted exactly, and the size in their unit: of times, microseconds."""
        declared = self._declared
        if values.dtype.kind == "M":
            is_date = np.datetime_data(values.dtype)[0] == "D"
            return values.astype("datetime64[us]").astype(np.int64), declared.date_us if is_date else declared.us
        if values.dtype == object:  # decimals of one scale
            scale: int = -values[0].as_tuple().exponent if len(values) else 0
            unscaled = [int(value.scaleb(scale)) for value in values.tolist()]
            return np.array(unscaled, dtype=np.int64), declared.in_units(Decimal(10) ** -scale)
        return (values.astype(np.int64) if values.dtype.kind in "iu" else values.astype(np.float64)), (
            self._declared.number
        )


def _tumbles_by_scan(
    values: list[float], row: int, end: int, first: float | None, size: float, tumbles: list[int]
) -> float | None:
    """Append to `tumbles` the rows from `row` to `end` that exceed the first of their window; return the last first."""
    for at in range(row, end):
        value = values[at]
        if first is None:
            first = value
        elif value - first > size:
            first = value
            tumbles.append(at)
    return first


def _tumbles_by_search(
    values: list[float], row: int, end: int, first: float | None, size: float, tumbles: list[int]
) -> float | None:
    """Do the same for values that never fall: look for the next tumble instead of passing every row."""
    if first is None:
        first = values[row]
    while row < end:
        begin = row
        row = bisect_right(values, first + size, begin, end)
        # The sum may be rounded, and what counts is the difference.
        while row > begin and values[row - 1] - first > size:
            row -= 1
        while row < end and not values[row] - first > size:
            row += 1
        if row < end:
            first = values[row]
            tumbles.append(row)
            row += 1
    return first


class DeltaEviction(RowEviction):
    """The rows that differ from the newest by no more than d: every older row that differs by more is evicted.

    While values do not fall, these rows are the first of the content, and a begin is enough. Once they do, all rows of
    the content must be compared, and what is evicted or stays is listed row by row (docs/semantics.md section 3.4).
    """

    def __init__(
        self, size: float, round_rows: RoundRows, offsets: np.ndarray, values: np.ndarray, full: np.ndarray
    ) -> None:
        super().__init__(round_rows, full)
        self._size = size
        for code in np.unique(round_rows.code).tolist():
            own = values[offsets[code] : offsets[code + 1]].tolist()
            self._scan_rising(code, int(round_rows.old_counts[code]), own)

    def _scan_rising(self, code: int, old_count: int, values: list[float]) -> None:
        """Go through the new rows of one partition while values rise, then through the others."""
        begin, begins, size = 0, [0], self._size
        scanned = old_count
        if all(a <= b for a, b in pairwise(values[:old_count])):
            last = values[old_count - 1] if old_count else values[0]
            for newest in values[old_count:]:
                if newest < last:
                    break
                while newest - values[begin] > size:
                    begin += 1
                begins.append(begin)
                last = newest
                scanned += 1
        row = int(self.first_of_code[code])
        new = scanned - old_count
        self.begin_before[row : row + new] = begins[:-1]
        self.begin_after[row : row + new] = begins[1:]
        if scanned < len(values):
            self._scan_all(code, list(range(begin, scanned)), values, row + new)

    def _scan_all(self, code: int, content: list[int], values: list[float], row: int) -> None:
        """Continue from the first value that fell; each new row is compared with the whole content."""
        for position in range(len(values) - (int(self.first_of_code[code + 1]) - row), len(values)):
            newest = values[position]
            self.begin_before[row] = content[0] if content else position
            evicted = [n for n in content if newest - values[n] > self._size]
            if evicted:
                self.listed_evictions[row], self.listed_contents[row] = evicted, content
                dropped = set(evicted)
                content = [n for n in content if n not in dropped]
            content = [*content, position]
            self.begin_after[row] = content[0]
            if position + 1 - content[0] != len(content):
                self.listed_sparse[code, position + 1] = content
            row += 1
