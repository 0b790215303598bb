"""What differs between two tables of what is open, and what do new results change? As `diff.py` has Spark say it.

For what one process reads: rows are compared one by one, and a null, or NaN, is equal to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

BEFORE = "{}_before"
"""How the value before is called; no column of ours is called so."""
NOT_VALUES = frozenset({"is_final", "op", "replaces", "refinement", "reason"})
"""Columns of the log that say how a result came, and not what it is."""

_Key = tuple[Any, ...]


def changes_of_open(old: pa.Table, new: pa.Table, names: Sequence[str], values: Sequence[str]) -> pa.Table:
    """Return what came, went or changed, of rows that are told apart by `names`, each of which is in a table once."""
    before, after = _places(old, names), _places(new, names)
    both = [*after, *(key for key in before if key not in after)]
    in_old, in_new = (pa.array([places.get(key) for key in both], pa.int64()) for places in (before, after))
    came, went = in_old.is_null(), in_new.is_null()
    columns = {name: pc.coalesce(new.column(name).take(in_new), old.column(name).take(in_old)) for name in names}
    pairs, differs = dict[str, pa.ChunkedArray](), pa.array([False] * len(both), pa.bool_())
    for name in values:
        now, then = new.column(name).take(in_new), old.column(name).take(in_old)
        pairs |= {name: now, BEFORE.format(name): then}
        differs = pc.or_(differs, pc.invert(_same(now, then)))
    change = pc.if_else(
        came, "came", pc.if_else(went, "went", pc.if_else(differs, "changed", pa.scalar(None, pa.string())))
    )
    changes = pa.table({**columns, "change": change, **pairs})
    return changes.filter(pc.is_valid(changes.column("change")))


def _same(column: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    is_nothing = pc.and_(pc.is_null(column, nan_is_null=True), pc.is_null(other, nan_is_null=True))
    is_alike = pc.equal(pc.is_null(column), pc.is_null(other))  # NULL is not NaN
    return pc.or_(pc.fill_null(pc.equal(column, other), False), pc.and_(is_nothing, is_alike))


def _places(table: pa.Table, names: Sequence[str]) -> dict[_Key, int]:
    return {key: place for place, key in enumerate(keys_of(table, names))}


def keys_of(table: pa.Table, names: Sequence[str]) -> list[_Key]:
    """Return the values of some columns in each row, such that equal ones are equal in Python."""
    columns = [[_comparable(value) for value in table.column(name).to_pylist()] for name in names]
    return [*zip(*columns, strict=True)] if columns else [()] * table.num_rows


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and value != value:  # noqa: PLR0124 -- NaN
        return "NaN"
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    return (
        tuple(sorted((name, _comparable(field)) for name, field in value.items())) if isinstance(value, dict) else value
    )


@dataclass(frozen=True)
class LogColumns:
    """What the columns of a log stand for.

    Attributes:
        keys: the partition, the pane, and what else tells results apart.
        values: the result.
        batch: the column with the batch of a row.
    """

    keys: Sequence[str]
    values: Sequence[str]
    batch: str


@dataclass(frozen=True)
class _Result:
    """A result that has come, or that a merged session has taken back.

    Attributes:
        key: of which partition and pane.
        row: the row that has it; one of the same partition if it is gone.
        first: the number of its first firing in the rows.
        batch: the last batch that wrote it.
        is_gone: whether it was taken back.
        start: of a result that is in no row, when its session began.
    """

    key: _Key
    row: int
    first: int
    batch: int
    is_gone: bool = False
    start: Any = None


def changes_of_results(
    rows: pa.Table, log: pa.Table | None, log_columns: LogColumns, *, has_refinements: bool
) -> pa.Table:
    """Return what rows of a log change in it.

    Args:
        rows: the rows of the batches between.
        log: all rows, where a result replaces the one before it; None: none does.
        log_columns: the columns.
        has_refinements: whether a firing replaces the ones before it, by its refinement.
    """
    batches = rows.column(log_columns.batch).to_pylist()
    results = [_Result(key, place, 0, batches[place]) for place, key in enumerate(keys_of(rows, log_columns.keys))]
    before = None
    if has_refinements:
        numbers = rows.column("refinement").to_pylist()
        results = _newest(results, numbers)
        if log is not None:
            if "replaces" in rows.column_names:
                results = _with_replaced(rows, log_columns, results, numbers)
            before = _last_before(
                log, log_columns, {result.key: result.first for result in results if result.first > 0}
            )
    if before is not None:
        results = [result for result in results if not result.is_gone or result.key in before]
    return _as_table(rows, log, log_columns, results, before)


def _newest(results: Sequence[_Result], numbers: Sequence[int | None]) -> list[_Result]:
    """Return the rows of the newest firing of each partition and pane, with the number of the first one."""
    fired = dict[_Key, list[int]]()
    for result in results:
        if (number := numbers[result.row]) is not None:
            fired.setdefault(result.key, []).append(number)
    least, most = ({key: way(own) for key, own in fired.items()} for way in (min, max))
    return [
        replace(result, first=least.get(result.key, 0))
        for result in results
        if numbers[result.row] is None or numbers[result.row] == most[result.key]
    ]


def _with_replaced(
    rows: pa.Table, log_columns: LogColumns, newest: Sequence[_Result], numbers: Sequence[int | None]
) -> list[_Result]:
    """Return the newest results, of which those are gone that a merged session has taken back, and others as these."""
    keys, batches = keys_of(rows, log_columns.keys), rows.column(log_columns.batch).to_pylist()
    place, taken = [*log_columns.keys].index("session_start"), dict[_Key, _Result]()
    for row, starts in enumerate(rows.column("replaces").to_pylist()):
        for start in starts or ():
            if (by := numbers[row]) is not None:
                key = (*keys[row][:place], start, *keys[row][place + 1 :])
                known = taken.get(key, _Result(key, row, by, batches[row], is_gone=True, start=start))
                taken[key] = replace(known, first=max(by, known.first), batch=max(batches[row], known.batch))
    results = []
    for result in newest:
        by_other, number = taken.get(result.key), numbers[result.row]
        is_gone = by_other is not None and (number is None or by_other.first > number)
        results.append(
            replace(result, is_gone=True, batch=by_other.batch) if is_gone and by_other is not None else result
        )
    there = {result.key for result in newest}
    return [*results, *(gone for key, gone in taken.items() if key not in there)]


def _last_before(log: pa.Table, log_columns: LogColumns, firsts: Mapping[_Key, int]) -> dict[_Key, int] | None:
    """Return key -> the row of the log with the last result before its first new one; None if none can have any."""
    if not firsts:
        return None
    numbers, last_rows = log.column("refinement").to_pylist(), dict[_Key, int]()
    for row, key in enumerate(keys_of(log, log_columns.keys)):
        number, known = numbers[row], last_rows.get(key)
        if key in firsts and number is not None and number < firsts[key] and (known is None or numbers[known] < number):
            last_rows[key] = row
    return last_rows


def _as_table(
    rows: pa.Table,
    log: pa.Table | None,
    log_columns: LogColumns,
    results: Sequence[_Result],
    before: Mapping[_Key, int] | None,
) -> pa.Table:
    sources = pa.array([result.row for result in results], pa.int64())
    own = pa.array([None if result.is_gone else result.row for result in results], pa.int64())
    names = [*log_columns.keys, "change", "batch"]
    columns = [rows.column(name).take(sources) for name in log_columns.keys]
    if "session_start" in log_columns.keys:
        place = [*log_columns.keys].index("session_start")
        columns[place] = pc.coalesce(
            pa.array([result.start for result in results], columns[place].type), columns[place]
        )
    changed = ["went" if result.is_gone else "changed" if result.first > 0 else "came" for result in results]
    columns += [pa.array(changed, pa.string()), pa.array([result.batch for result in results], pa.int64())]
    how = [name for name in ("refinement", "reason") if name in rows.column_names and name not in log_columns.keys]
    last = None if before is None else pa.array([before.get(result.key) for result in results], pa.int64())
    for name in (*how, *log_columns.values):
        names.append(name)
        columns.append(rows.column(name).take(own))
        if last is not None and log is not None and name in log_columns.values:
            names.append(BEFORE.format(name))
            columns.append(log.column(name).take(last))
    return pa.table(columns, names=names)
