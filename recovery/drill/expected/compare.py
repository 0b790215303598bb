"""Compares what the tables hold with what they should hold, as bags of rows. Needs neither Spark nor the product.

A Delta table is read by hand, from its log and its Parquet files: the judge must not share a reader with the judged.
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

from recovery.drill.expected.history import DAY

if TYPE_CHECKING:
    from recovery.drill.expected.arrival_oracle import Rows, Tables
    from recovery.drill.jobs import Compared

Outcome = Literal["passed", "failed", "unknown", "skipped", "not run"]

_WHEN_DONE = {"fired_at"}
_EXAMPLES = 3


class Unreadable(Exception):
    """A table cannot be read by the judge; then it does not know."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the judge found.

    Attributes:
        outcome: passed only if every table holds exactly what it should.
        lost: rows that are not there.
        doubled: rows that are there more often than they should be.
        wrong: rows that should not be there at all; one that stands in for another is not lost as well.
        rows: how many rows should be there.
        why: in words, with examples.
    """

    outcome: Outcome
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    rows: int = 0
    why: str = ""


@dataclass
class _Sums:
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    rows: int = 0
    examples: list[str] = field(default_factory=list)


def judge(folder: Path, expected: Tables, compared: dict[str, Compared]) -> Verdict:
    """Compare the tables of a job; `compared` says which and how. What the judge cannot read is unknown."""
    sums = _Sums()
    try:
        for role, how in compared.items():
            found = delta_rows(folder / ("log_quarantine" if role == "quarantine" else role), how.columns)
            _compare(role, Counter(expected[role]), Counter(found), how.identity, sums)
    except Exception as error:  # noqa: BLE001 -- whatever stops the judge, it is no verdict on the job
        return Verdict(outcome="unknown", why=f"the judge could not tell: {type(error).__name__}: {error}")
    good = not (sums.lost or sums.doubled or sums.wrong)
    if good and not sums.rows:
        return Verdict(outcome="unknown", why="there was nothing to compare: this drill shows nothing")
    return Verdict(
        outcome="passed" if good else "failed",
        lost=sums.lost,
        doubled=sums.doubled,
        wrong=sums.wrong,
        rows=sums.rows,
        why="; ".join(sums.examples[:_EXAMPLES]),
    )


def _compare(
    role: str, expected: Counter[tuple[Any, ...]], found: Counter[tuple[Any, ...]], identity: int, sums: _Sums
) -> None:
    missing, extra = expected - found, found - expected
    doubled = Counter({row: times for row, times in extra.items() if row in expected})
    strange = extra - doubled
    replaced = 0
    if identity:
        gone = Counter(row[:identity] for row in missing.elements())
        replaced = (gone & Counter(row[:identity] for row in strange.elements())).total()
    sums.rows += expected.total()
    sums.lost += missing.total() - replaced
    sums.doubled += doubled.total()
    sums.wrong += strange.total()
    for what, rows in (("missing", missing), ("doubled", doubled), ("not expected", strange)):
        sums.examples += [f"{role}: {what} {row}" for row in sorted(rows, key=repr)[:1]]


def delta_rows(table: Path, columns: tuple[str, ...] | None = None) -> Rows:
    """Return the rows of a Delta table on this disk; `columns` as in `Compared`.

    Raises:
        Unreadable: there is no table, or one whose log this reader does not understand.
    """
    rows: Rows = []
    for name in _live_files(table):
        read = pq.ParquetFile(_place(table, name)).read()
        names = columns or tuple(one for one in read.column_names if one not in _WHEN_DONE)
        values = [[_plain(value) for value in read.column(one).to_pylist()] for one in names]
        rows += zip(*values, strict=True)
    return rows


def _place(table: Path, name: str) -> Path:
    """Where a file is: in the table's folder, or, if this is a shallow copy, where the original has it."""
    parts = urlsplit(name)
    if parts.scheme not in ("", "file"):
        raise Unreadable(f"{table} has files on {parts.scheme}, and the judge reads only what is on this machine")
    return table / unquote(parts.path)


def _live_files(table: Path) -> list[str]:
    log = table / "_delta_log"
    commits = sorted(path for path in log.glob("*.json") if path.stem.isdigit()) if log.is_dir() else []
    if [int(path.stem) for path in commits] != [*range(len(commits))] or not commits:
        raise Unreadable(f"{table} has no Delta log, or one that does not begin with version 0")
    live: dict[str, None] = {}
    for path in commits:
        for line in path.read_text().splitlines():
            action = json.loads(line)
            if (add := action.get("add")) is not None:
                if add.get("deletionVector"):
                    raise Unreadable(f"{table} has deletion vectors, which the judge does not read")
                live[add["path"]] = None
            if (remove := action.get("remove")) is not None:
                live.pop(remove["path"], None)
    return [*live]


def _plain(value: Any) -> Any:
    """A value that can be compared: instants are seconds of the drill's day, lists are tuples."""
    if isinstance(value, datetime):
        seconds = (value if value.tzinfo else value.replace(tzinfo=DAY.tzinfo)).timestamp() - DAY.timestamp()
        return int(seconds) if seconds == int(seconds) else seconds
    if isinstance(value, list):
        return tuple(_plain(one) for one in value)
    if isinstance(value, dict):
        return tuple(sorted((name, _plain(one)) for name, one in value.items()))
    return value
