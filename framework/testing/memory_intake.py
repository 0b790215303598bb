"""The intake of a script without Spark: rows are checked and timed as `engine/flow/checked_rows.py` does it by Spark.

The rules are those of `engine/flow/row_checks.py`, in their order. Text that is not UTF-8 cannot be in a script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.row_json import objects
from panekeeper.framework.declarations.arrow_types import python_rows
from panekeeper.framework.engine.flow import packing, row_checks
from panekeeper.framework.engine.flow.pipeline import InputPort
from panekeeper.framework.testing.sql import holds
from panekeeper.state.duration_text import us_text

_US_UTC = pa.timestamp("us", tz="UTC")


class MemoryIntake:
    """The intake of one port: what the stream declares, the columns that travel, and how many key groups there are."""

    def __init__(self, port: InputPort, columns: pa.Schema, groups: int = 1) -> None:
        self._intake, self._carried, self._groups = port.intake, port.carried_columns, groups
        self._rest = [name for name in columns.names if name not in port.spec.columns.names]
        rules = {packing.MARK_AFTER_ROW: port.intake.punctuation, "window": port.intake.marks}
        self._marks = {kind: rule for kind, rule in rules.items() if rule is not None}

    @property
    def has_rest(self) -> bool:
        """Whether rows have columns that the job does not read."""
        return bool(self._rest)

    def check(self, rows: pa.Table, now_us: int) -> pa.Table:
        """Return rows that arrive at this time as a `Packer` takes them, bad ones with the reason."""
        intake, size = self._intake, rows.num_rows
        kinds = self._mark_kinds(rows)
        is_row = np.array([kind != "window" for kind in kinds], dtype=bool)
        event, arrival = _times(rows, intake.event_time), _times(rows, intake.arrival_time)
        arrived = pa.array(np.full(size, now_us)) if arrival is None else pc.fill_null(arrival, now_us)
        is_good, reasons = is_row.copy(), dict[int, str]()
        for is_bad, reason in self._rules(rows, event, arrival, arrived, now_us):
            reasons |= dict.fromkeys(np.flatnonzero(is_bad & is_good).tolist(), reason)
            is_good &= ~is_bad
        times = pa.nulls(size, pa.int64()) if event is None else pc.if_else(pa.array(is_good), event, None)
        columns: dict[str, Any] = {
            packing.KEY_GROUP_COLUMN: pa.array(self._group_of_each(rows)),
            packing.EVENT_TIME_COLUMN: pc.cast(times, _US_UTC),
            packing.ARRIVAL_TIME_COLUMN: arrived if intake.idle is None else pa.array(np.full(size, now_us)),
            packing.REJECT_COLUMN: self._rejections(rows, reasons, (event, arrival, arrived), now_us),
            **{name: self._column(name, rows, is_good) for name in self._carried},
        }
        if self._rest:
            rest = rows.select(self._rest).combine_chunks()
            arrays = [rest.column(name).combine_chunks() for name in self._rest]
            columns[packing.REST_COLUMN] = pa.StructArray.from_arrays(arrays, fields=list(rest.schema))
        if intake.has_marks:
            columns[packing.MARK] = pa.array(kinds, pa.string())
            columns[packing.MARK_VALUE] = pa.nulls(size, pa.int64())
            columns[packing.MARK_TEXT] = pa.nulls(size, pa.string())
        return pa.table(columns)

    def _group_of_each(self, rows: pa.Table) -> np.ndarray:
        """Return the key group of each row: by a hash of its partition, which is another one than Spark's."""
        groups = np.zeros(rows.num_rows, dtype=np.int32)
        if self._groups > 1:
            for place, key in enumerate(python_rows(rows.select([*self._intake.partition_by]))):
                same = [part + 0.0 if isinstance(part, float) else part for part in key.values()]  # -0.0 becomes 0.0
                groups[place] = crc32(repr(same).encode()) % self._groups
        return groups

    def _column(self, name: str, rows: pa.Table, is_good: np.ndarray) -> Any:
        """Return a column that travels; a condition is tried on good rows only."""
        if (rule := self._intake.conditions.get(name)) is None:
            return rows.column(name)
        held = np.zeros(rows.num_rows, dtype=bool)
        held[is_good] = _mask(holds(rule, rows.filter(pa.array(is_good))))
        return pa.array(held)

    def _mark_kinds(self, rows: pa.Table) -> list[str | None]:
        """Return which mark each row is or has behind it; a row that is one itself is no other."""
        kinds: list[str | None] = [None] * rows.num_rows
        for kind, rule in self._marks.items():
            marked = holds(rule, rows, "marks").to_pylist()
            kinds = [kind if is_mark else before for is_mark, before in zip(marked, kinds, strict=True)]
        return kinds

    def _rules(
        self, rows: pa.Table, event: pa.Array | None, arrival: pa.Array | None, arrived: pa.Array, now_us: int
    ) -> Iterator[tuple[np.ndarray, str]]:
        """Yield for which rows a rule holds, and the reason, in the order of the rules."""
        intake = self._intake
        for reason, rule in intake.reject.items():
            yield _mask(holds(rule, rows, f"reject rule {reason!r}")), reason
        if event is not None:
            yield _mask(pc.is_null(event)), row_checks.NULL_EVENT_TIME
            yield _is_out_of_range(event), row_checks.EVENT_TIME_OUT_OF_RANGE
        is_clock_set, most = now_us >= row_checks.NEVER_BEFORE_US, intake.max_ahead_us
        if arrival is not None:
            yield _mask(pc.is_null(arrival)), row_checks.NULL_ARRIVAL_TIME
            yield _is_out_of_range(arrival), row_checks.ARRIVAL_TIME_OUT_OF_RANGE
            if most is not None and is_clock_set:
                yield _mask(pc.greater(arrival, now_us + most)), row_checks.FUTURE_ARRIVAL_TIME
        if event is not None and most is not None and (is_clock_set or arrival is not None):
            yield _mask(pc.greater(event, pc.add(arrived, most))), row_checks.FUTURE_EVENT_TIME
        for name in intake.partition_by:
            if pa.types.is_timestamp(rows.schema.field(name).type):
                yield _is_out_of_range(pc.cast(rows.column(name), pa.int64())), row_checks.KEY_OUT_OF_RANGE
        for name in intake.numeric_columns:
            yield _mask(pc.is_null(rows.column(name))), row_checks.NULL_ATTRIBUTE
            if pa.types.is_floating(rows.schema.field(name).type):
                yield _mask(pc.is_nan(rows.column(name))), row_checks.NAN_ATTRIBUTE

    def _rejections(self, rows: pa.Table, reasons: Mapping[int, str], times: Sequence[Any], now_us: int) -> pa.Array:
        """Return the rejected rows as `packing.REJECT_COLUMN` has them, null for good ones.

        `times` are those of the events, as declared and as counted for the arrival, us.
        """
        rejections: list[str | None] = [None] * rows.num_rows
        bad = pa.array(sorted(reasons), pa.int64())
        picked = rows.take(bad)
        texts = objects({name: picked.column(name) for name in picked.column_names})
        nothing = [None] * len(bad)
        of_rows = zip(*(nothing if column is None else column.take(bad).to_pylist() for column in times), strict=True)
        for place, text, (event, arrival, arrived) in zip(sorted(reasons), texts, of_rows, strict=True):
            reason = reasons[place]
            what, us, after = ("event time", event, f"its arrival at {_time_text(arrived)}")
            if "ARRIVAL" in reason:
                what, us, after = ("arrival time", arrival, f"its batch at {_time_text(now_us)}")
            detail = None
            if reason in (row_checks.EVENT_TIME_OUT_OF_RANGE, row_checks.ARRIVAL_TIME_OUT_OF_RANGE):
                detail = f"{what} {_time_text(us)} is outside of the years 1 to 9999"
            if reason in (row_checks.FUTURE_EVENT_TIME, row_checks.FUTURE_ARRIVAL_TIME):
                limit = us_text(self._intake.max_ahead_us or 0)
                detail = f"{what} {_time_text(us)} is more than {limit} ahead of {after}"
            is_readable = event is not None and row_checks.FIRST_US <= event < row_checks.END_US
            readable = event if is_readable else None
            rejected = {"reason": reason, "detail": detail, "event_time": readable, "row": text}
            rejections[place] = json.dumps({name: value for name, value in rejected.items() if value is not None})
        return pa.array(rejections, pa.string())


def _times(rows: pa.Table, name: str | None) -> pa.ChunkedArray | None:
    """Return a column of times in us since the epoch; one without a zone counts as in UTC."""
    return None if name is None else rows.column(name).cast(pa.int64())


def _mask(held: Any) -> np.ndarray:
    return np.asarray(pc.fill_null(held, False).to_numpy(zero_copy_only=False), dtype=bool)


def _is_out_of_range(us: Any) -> np.ndarray:
    return _mask(pc.or_(pc.less(us, row_checks.FIRST_US), pc.greater_equal(us, row_checks.END_US)))


def _time_text(us: int) -> str:
    """Return a time in UTC as Spark writes it."""
    text = str(pa.scalar(us).cast(pa.timestamp("us")).cast(pa.string()))
    return text.rstrip("0").removesuffix(".")
