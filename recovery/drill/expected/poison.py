"""Poison rows: rows that a job must refuse, odd keys, sums that are too large, and what the tables hold then.

A file of JSON cannot have most of them. So a row has the name of its kind as its sensor, and the stream of the job
makes the value from that name (`COLUMNS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from panekeeper.recovery.drill.expected.arrival_oracle import Rows, Tables
from panekeeper.recovery.drill.expected.history import FileArrived, HistoryEvent, Row

POISONED_FILES = (2, 4)
"""The files that have one row of each kind."""
KEY = ("sensor", "share")
"""The partition columns: a sensor has one share, be it NaN, or 0.0 in some rows and -0.0 in others."""

_FIRST_ID = 1_000_000
_LARGEST = 2**63 - 1
_OVERFLOW = "overflow"


@dataclass(frozen=True)
class Poison:
    """One kind of row.

    Attributes:
        kind: its name, and the sensor of its rows in the input files.
        column: that has the bad value. A job that does not use the column takes the row.
        value: in SQL.
        reason: why the row is refused.
    """

    kind: str
    column: str
    value: str
    reason: str


_TOO_LATE, _TOO_EARLY, _FAR = (
    "TIMESTAMP'9999-12-31 23:00:00-05:00'",  # the year 10000 in UTC
    "timestamp_micros(-62135596800000000)",  # the first instant of the year 1, which some zones have in the year 0
    "TIMESTAMP'2200-01-01 00:00:00Z'",
)
KINDS = (
    Poison("no UTF-8", "sensor", "CAST(X'FFFE' AS STRING)", "INVALID_UTF8"),
    Poison("no arrival time", "at", "NULL", "NULL_ARRIVAL_TIME"),
    Poison("arrived in the year 10000", "at", _TOO_LATE, "ARRIVAL_TIME_OUT_OF_RANGE"),
    Poison("arrived in the year 0", "at", _TOO_EARLY, "ARRIVAL_TIME_OUT_OF_RANGE"),
    Poison("arrived in the future", "at", _FAR, "FUTURE_ARRIVAL_TIME"),
    Poison("no event time", "seen", "NULL", "NULL_EVENT_TIME"),
    Poison("seen in the year 10000", "seen", _TOO_LATE, "EVENT_TIME_OUT_OF_RANGE"),
    Poison("seen in the year 0", "seen", _TOO_EARLY, "EVENT_TIME_OUT_OF_RANGE"),
    Poison("seen in the future", "seen", _FAR, "FUTURE_EVENT_TIME"),
    Poison("no value", "value", "NULL", "NULL_ATTRIBUTE"),
)
_REASONS = {one.kind: (one.column, one.reason) for one in KINDS}


def _column(name: str) -> str:
    cases = "".join(f" WHEN '{one.kind}' THEN {one.value}" for one in KINDS if one.column == name)
    return f"CASE sensor{cases} ELSE {name} END AS {name}"


COLUMNS = (
    "id",
    *map(_column, ("sensor", "at", "seen", "value")),
    "CASE WHEN sensor = 'a' THEN DOUBLE('NaN') WHEN id % 2 = 0 THEN 0.0D ELSE -0.0D END AS share",
)
"""The columns of the stream, in SQL, of those of the files."""


def poisoned(files: Sequence[FileArrived]) -> tuple[FileArrived, ...]:
    """Return the input with poison rows at the end of some files."""
    return tuple(_poisoned(number, one) if number in POISONED_FILES else one for number, one in enumerate(files))


def _poisoned(number: int, arrived: FileArrived) -> FileArrived:
    last = arrived.rows[-1]
    first = _FIRST_ID * number
    bad = [replace(last, id=first + place, sensor=one.kind, seen=last.at) for place, one in enumerate(KINDS)]
    large = replace(last, id=2**62, sensor=_OVERFLOW, seen=last.at)
    return FileArrived(rows=(*arrived.rows, *bad, large, large))


def without_poison(history: Iterable[HistoryEvent], used: Iterable[str]) -> tuple[HistoryEvent, ...]:
    """Return the history of a job without the rows that it must refuse.

    Args:
        history: of all jobs.
        used: the columns of which the job needs good values.
    """
    columns = frozenset(used)

    def good(row: Row) -> bool:
        return _reason(row, columns) is None

    return tuple(
        FileArrived(rows=tuple(filter(good, one.rows))) if isinstance(one, FileArrived) else one for one in history
    )


def with_poison(tables: Tables, total: int, history: Iterable[HistoryEvent], used: Iterable[str]) -> Tables:
    """Return the expected tables: a sum beyond 64 bits is null, and the quarantine has the reason and the id of a row.

    Args:
        tables: what the oracle returned for the history without the poison rows.
        total: the place of the sum in the rows of log and view.
        history: with the poison rows.
        used: as in `without_poison`.
    """
    columns = frozenset(used)
    rows = [row for one in history if isinstance(one, FileArrived) for row in one.rows]
    refused: Rows = [(reason, row.id) for row in rows if (reason := _reason(row, columns)) is not None]
    beyond: Rows = [("SUM_OVERFLOW", None) for row in tables["log"] if row[total] > _LARGEST]
    others: Rows = [(row[0], row[-1]) for row in tables.get("quarantine", ())]
    sums = {role: [_with_sum(row, total) for row in tables[role]] for role in ("log", "view") if role in tables}
    return sums | {"quarantine": [*others, *refused, *beyond]}


def _with_sum(row: tuple[object, ...], place: int) -> tuple[object, ...]:
    total = row[place]
    assert isinstance(total, int)
    return (*row[:place], total if total <= _LARGEST else None, *row[place + 1 :])


def _reason(row: Row, used: frozenset[str]) -> str | None:
    column, reason = _REASONS.get(row.sensor, ("", ""))
    return reason if column in used else None
