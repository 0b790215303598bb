"""Compares the rows of the tables with the expected rows, as bags of rows. Needs neither Spark nor our own code.

A Delta table is read from its log and its Parquet files: the comparison must not share a reader with what it checks.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from integration_tests.drills.expected.history import DAY

if TYPE_CHECKING:
    import pyarrow as pa

    from integration_tests.drills.expected.arrival_oracle import Rows, Tables

DrillOutcome = Literal["passed", "failed", "unknown", "skipped", "not run"]

_IGNORED_COLUMNS = {"fired_at"}
_EXAMPLES = 3


class TableUnreadable(Exception):
    """The comparison cannot read a table, so its result is unknown."""


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """How a table is compared.

    Attributes:
        columns: the columns to compare, in the order in which the oracle returns them; `pane_start` and `event_time`
            are seconds of the drill's day. `row.id` is the field `id` of the JSON in column `row`, null if it has none.
        identity: how many of the first columns identify a result; the others are its values. 0 if that is not known.
    """

    columns: tuple[str, ...] | None
    identity: int


@dataclass(frozen=True, kw_only=True)
class ComparisonResult:
    """The result of a comparison, in rows.

    Attributes:
        outcome: passed only if every table holds exactly the expected rows.
        lost: expected rows that are missing.
        doubled: expected rows that are there more often than expected.
        wrong: rows that are not expected. If one has the identity of a missing row, that row does not count as lost.
        rows: number of expected rows.
        why: the differences, with examples.
    """

    outcome: DrillOutcome
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    rows: int = 0
    why: str = ""


@dataclass
class _Totals:
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    rows: int = 0
    examples: list[str] = field(default_factory=list)


def compare_tables(folder: Path, expected: Tables, compared: dict[str, TableComparison]) -> ComparisonResult:
    """Compare the tables of a job with the expected rows.

    Args:
        folder: of the job; each table is in a subfolder with the name of its role, the quarantine in `log_quarantine`.
        expected: by role, the rows.
        compared: by role, which columns are compared. Other tables are ignored.

    Returns:
        The result; its outcome is unknown if a table cannot be read, or if no row is expected.
    """
    totals = _Totals()
    try:
        for role, how in compared.items():
            found = delta_rows(folder / ("log_quarantine" if role == "quarantine" else role), how.columns)
            _compare_rows(role, Counter(expected[role]), Counter(found), how.identity, totals)
    except Exception as error:  # noqa: BLE001 -- an error of the comparison says nothing about the job
        return ComparisonResult(outcome="unknown", why=f"the comparison failed: {type(error).__name__}: {error}")
    good = not (totals.lost or totals.doubled or totals.wrong)
    if good and not totals.rows:
        return ComparisonResult(outcome="unknown", why="no row is expected, so the comparison shows nothing")
    return ComparisonResult(
        outcome="passed" if good else "failed",
        lost=totals.lost,
        doubled=totals.doubled,
        wrong=totals.wrong,
        rows=totals.rows,
        why="; ".join(totals.examples[:_EXAMPLES]),
    )


def _compare_rows(
    role: str, expected: Counter[tuple[Any, ...]], found: Counter[tuple[Any, ...]], identity: int, totals: _Totals
) -> None:
    missing, extra = expected - found, found - expected
    doubled = Counter({row: times for row, times in extra.items() if row in expected})
    unexpected = extra - doubled
    replaced = 0
    if identity:
        gone = Counter(row[:identity] for row in missing.elements())
        replaced = (gone & Counter(row[:identity] for row in unexpected.elements())).total()
    totals.rows += expected.total()
    totals.lost += missing.total() - replaced
    totals.doubled += doubled.total()
    totals.wrong += unexpected.total()
    for what, rows in (("missing", missing), ("doubled", doubled), ("not expected", unexpected)):
        totals.examples += [f"{role}: {what} {row}" for row in sorted(rows, key=repr)[:1]]


def delta_rows(table: Path, columns: tuple[str, ...] | None = None) -> Rows:
    """Return the rows of a Delta table.

    Args:
        table: its folder, on this host.
        columns: as in `TableComparison`.

    Raises:
        TableUnreadable: there is no table, or its log has entries that this reader does not support.
    """
    rows: Rows = []
    for name in _live_files(table):
        read = pq.ParquetFile(_file_path(table, name)).read()
        names = columns or tuple(one for one in read.column_names if one not in _IGNORED_COLUMNS)
        values = [[_comparable(value) for value in _values(read, one)] for one in names]
        rows += zip(*values, strict=True)
    return rows


def _values(read: pa.Table, name: str) -> list[Any]:
    column, _, field_name = name.partition(".")
    values = read.column(column).to_pylist()
    return [json.loads(value).get(field_name) for value in values] if field_name else values


def _file_path(table: Path, name: str) -> Path:
    """Return where a file of the log is: in the table's folder or, for a shallow copy, in that of the original."""
    parts = urlsplit(name)
    if parts.scheme not in ("", "file"):
        raise TableUnreadable(f"{table} has files on {parts.scheme}; the comparison reads only files of this host")
    return table / unquote(parts.path)


def _live_files(table: Path) -> list[str]:
    log = table / "_delta_log"
    commits = sorted(path for path in log.glob("*.json") if path.stem.isdigit()) if log.is_dir() else []
    if [int(path.stem) for path in commits] != [*range(len(commits))] or not commits:
        raise TableUnreadable(f"{table} has no Delta log, or one that does not begin with version 0")
    live: dict[str, None] = {}
    for path in commits:
        for line in path.read_text().splitlines():
            action = json.loads(line)
            if (add := action.get("add")) is not None:
                if add.get("deletionVector"):
                    raise TableUnreadable(f"{table} has deletion vectors, which the comparison does not support")
                live[add["path"]] = None
            if (remove := action.get("remove")) is not None:
                live.pop(remove["path"], None)
    return [*live]


def _comparable(value: Any) -> Any:
    """Return a hashable value: a time as seconds of the drill's day, a list or a struct as a tuple."""
    if isinstance(value, datetime):
        seconds = (value if value.tzinfo else value.replace(tzinfo=DAY.tzinfo)).timestamp() - DAY.timestamp()
        return int(seconds) if seconds == int(seconds) else seconds
    if isinstance(value, list):
        return tuple(_comparable(one) for one in value)
    if isinstance(value, dict):
        return tuple(sorted((name, _comparable(one)) for name, one in value.items()))
    return value
