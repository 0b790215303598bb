"""What a script gives: the rows of the log and the quarantine as Python has them, and where rows went."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from html import escape
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.job_spec import TIMESTAMP
from panekeeper.framework.core.quarantine import USER_ERROR
from panekeeper.framework.declarations.arrow_types import python_values
from panekeeper.framework.declarations.durations import to_datetime_if_any
from panekeeper.framework.testing.script import time_us

_ROWS = ("rows_in", "admitted", "refined_late", "dropped_late", "outside", "quarantined", "repeated")
COUNTS = (*_ROWS, "firings", "missed_panes")
"""What `Results.counts` has, by the names of the metrics table."""


_SHOWN_ROWS, _SHOWN_WIDTH = 20, 300


class Results(list[dict[str, Any]]):
    """The rows of the log, in order: a dict each, with the number of its micro-batch as `batch`.

    Times are datetimes in UTC, and without a zone where the column has none.

    Attributes:
        quarantine: the rows of the quarantine, with `batch`; `row`, what was refused, is a dict.
        counts: where rows went, by the names of the metrics table (`rows_in`, `admitted`, `dropped_late`, ...), added
            up over all micro-batches.
        watermark: the event time that the watermark had reached in the last micro-batch; None before the first one, and
            for windows in arrival order.
        windows: of several windows, the rows of the log of each, by its name; the list itself has them all, of one
            micro-batch in the order of the windows.
    """

    def __init__(self, windows: Iterable[str] = ()) -> None:
        super().__init__()
        self.windows: dict[str, list[dict[str, Any]]] = {name: [] for name in windows}
        self.quarantine: list[dict[str, Any]] = []
        self.counts = dict.fromkeys(COUNTS, 0)
        self.watermark: datetime | None = None

    def add(self, table: pa.Table | None, batch: int, window: str = "") -> None:
        """Add rows of a log; `window` names one of several windows."""
        rows = as_dicts(table, batch)
        self += rows
        if window:
            self.windows[window] += rows

    def require_no_user_error(self) -> None:
        """Raise `AssertionError` if a function of the user's raised, with what is known of the first time."""
        details = [row["detail"] for row in self.quarantine if row["reason"] == USER_ERROR]
        if details:
            times = "once" if len(details) == 1 else f"{len(details)} times"
            raise AssertionError(
                f"a function of yours raised, {times}; if the test expects that, give allow_errors=True and look at "
                f"the quarantine. The first time: {details[0]}"
            )

    def __repr__(self) -> str:
        """Return the first rows, a line each."""
        refused = f", {len(self.quarantine)} in the quarantine" if self.quarantine else ""
        lines = [", ".join(f"{name}={_shown(value)}" for name, value in row.items()) for row in self[:_SHOWN_ROWS]]
        lines += ["..."] * (len(self) > _SHOWN_ROWS)
        rows = "row" if len(self) == 1 else "rows"
        return "\n".join([f"{len(self)} {rows}{refused}", *(f"  {line[:_SHOWN_WIDTH]}" for line in lines)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    @property
    def in_seconds(self) -> list[dict[str, Any]]:
        """The same rows with times as seconds since the epoch, as a script may give them."""
        return [{name: _in_seconds(value) for name, value in row.items()} for row in self]


def as_dicts(table: pa.Table | None, batch: int) -> list[dict[str, Any]]:
    """Return rows of a table with the number of their micro-batch."""
    if table is None or not table.num_rows:
        return []
    names = [*table.column_names, "batch"]
    columns = [_values(table.column(name)) for name in table.column_names]
    columns.append([batch] * table.num_rows)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return values as Python has them. Of times Arrow makes zones of its own, one at a time, which takes longer."""
    if column.type != TIMESTAMP:
        return python_values(column)
    return [None if us is None else to_datetime_if_any(us) for us in column.cast(pa.int64()).to_pylist()]


def quarantined(table: pa.Table | None, batch: int) -> list[dict[str, Any]]:
    """Return rows of the quarantine, with what was refused as a dict."""
    return [row | {"row": json.loads(row["row"])} for row in as_dicts(table, batch)]


def _shown(value: Any) -> str:
    return value.isoformat(" ") if isinstance(value, datetime) else repr(value)


def _in_seconds(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_seconds(member) for member in value]
    if isinstance(value, dict):
        return {name: _in_seconds(member) for name, member in value.items()}
    if not isinstance(value, datetime):
        return value
    us = time_us(value, "time")
    return us // 1_000_000 if us % 1_000_000 == 0 else us / 1_000_000
