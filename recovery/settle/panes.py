"""Which panes do quarantined rows belong to, what are their results with all rows, and which of these are new?

A settled pane has the result that it would have if its rows had come in time, in the order of their times. It is
computed by the core of the job from all rows of the pane, so nothing depends on which of them were late, nor on what
was settled before: who settles again gets the same results, and there is nothing new (docs/semantics.md section 20).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.group_batch import GroupBatch
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.panes.settleable import against_settling
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.row_json import objects
from panekeeper.framework.core.stable_order import gather_ranges
from panekeeper.framework.core.steps import Flush, Rows
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.recovery.rows_as_json import as_fields
from panekeeper.state.records import IntervalRecord
from panekeeper.state.store import MemoryStore

ROWS = "_rows"
"""Column of quarantined rows: how many there are with this key and time."""
_PANE = ("pane_start", "pane_end")
_Place = tuple[int, int, int]
"""Where a result is found: the code of its partition, and start and end of its pane, us."""


class Outcome(Enum):
    """What becomes of a pane: it has a new result; the same as before; or none yet, for the reason that is named."""

    SETTLED = "settled"
    UNCHANGED = "unchanged"
    OPEN = "open"
    AHEAD = "ahead"
    NO_ROWS = "no rows"


def require_supported(spec: JobSpec) -> TimeInterval:
    """Return the window of a job whose panes can be settled. Raises `DeclarationError` for any other one."""
    what = against_settling(
        spec.window,
        has_several_inputs=bool(spec.other_ports) or spec.join is not None,
        has_aggregates=spec.aggregates is not None and not spec.handlers,
        has_groups=spec.has_groups,
        has_dedupe=spec.dedupe is not None,
    )
    if what is None and isinstance(spec.window, TimeInterval):
        return spec.window
    raise DeclarationError(
        f"the job has {what}, of which late rows cannot be settled. Panes of event time can be whose aggregates show "
        "all their rows; compute others anew by a job with a checkpoint and tables of its own"
    )


@dataclass(frozen=True)
class Pairs:
    """Partitions and panes, each pair once, with the number of quarantined rows of each."""

    codes: np.ndarray
    panes: np.ndarray
    rows: np.ndarray

    def only(self, mask: np.ndarray) -> Pairs:
        """Return some of them."""
        return Pairs(self.codes[mask], self.panes[mask], self.rows[mask])


def pairs_of(geometry: Geometry, keys: PartitionKeys, rows: pa.Table) -> Pairs:
    """Return the partitions and panes of rows: `keys`, `EVENT_TIME` (us), and how many there are of each (`ROWS`)."""
    rows = rows.filter(rows.column(EVENT_TIME).is_valid())
    codes = keys.encode(keys.with_normal_keys(rows))
    slices = geometry.slices(rows.column(EVENT_TIME).to_numpy())
    oldest, newest = geometry.oldest_pane(slices), geometry.newest_pane(slices)
    panes, offsets = gather_ranges(oldest, np.maximum(newest + 1, oldest))
    row_of = np.repeat(np.arange(len(codes)), np.diff(offsets))
    if not len(panes):
        return Pairs(panes, panes, panes)
    place, codes, panes = number_cells(codes[row_of], panes)
    counts = np.bincount(place, rows.column(ROWS).to_numpy()[row_of], len(codes)).astype(np.int64)
    order = np.lexsort((codes, panes))
    return Pairs(codes[order], panes[order], counts[order])


def are_closed(
    geometry: Geometry, panes: np.ndarray, watermark: int | None, records: list[IntervalRecord]
) -> np.ndarray:
    """Return whether no later batch of the job makes each pane fire.

    `watermark` is that of the last batch (us), which key groups without work have not seen; None: each key group keeps
    it. `records` are the headers of all key groups that have state.
    """
    if records and all(record.flushed for record in records):
        return np.full(len(panes), True)
    known = [record.watermark for record in records] if watermark is None else [watermark]
    if not known:
        return np.full(len(panes), False)
    still_open = np.array([pane for record in records for pane in record.panes], dtype=np.int64)
    closed: np.ndarray = (panes <= geometry.last_closed(min(known))) & ~np.isin(panes, still_open)
    return closed


def are_among(pairs: Pairs, others: Pairs) -> np.ndarray:
    """Return whether each pair is one of others."""
    known = {*zip(others.codes.tolist(), others.panes.tolist(), strict=True)}
    among = [pair in known for pair in zip(pairs.codes.tolist(), pairs.panes.tolist(), strict=True)]
    return np.array(among, dtype=np.bool_)


def complete_results(spec: JobSpec, rows: pa.Table) -> pa.Table:
    """Return the result of each pane that rows are of, as if they had come in time, in the order of their times.

    `rows` have the columns of a segment, in any order; those that cannot be computed are left out, as in the job.
    """
    batch = GroupBatch(number=0, group=0, steps=[Rows(_in_order(rows)), Flush()])
    outcome = batch.run(spec, MemoryStore())
    results = spec.results_schema.empty_table() if outcome.results is None else outcome.results
    places = _places(PartitionKeys(spec.keys), results)
    last = {place: row for row, place in enumerate(places)}  # a pane may have fired early, too
    return results.take(pa.array([*last.values()], pa.int64()))


def _in_order(rows: pa.Table) -> pa.Table:
    """Return rows by their times, then by what they are: in one order, wherever they are read again."""
    columns = {name: rows.column(name) for name in rows.column_names if name not in (EVENT_TIME, ARRIVAL_TIME)}
    shown = [
        pa.array(objects({name: column})) if pa.types.is_nested(column.type) else column
        for name, column in columns.items()
    ]
    names = [str(number) for number in range(len(shown) + 1)]
    sortable = pa.table([rows.column(EVENT_TIME), *shown], names=names)
    return rows.take(pc.sort_indices(sortable, [(name, "ascending") for name in names]))


@dataclass(frozen=True, kw_only=True)
class SettledPane:
    """What becomes of one partition in one pane.

    Attributes:
        key: partition column -> value.
        pane_start: the first instant; without a time zone where the event time has none.
        pane_end: the first instant after it.
        rows: how many of the quarantined rows are of it.
        outcome: whether it has a new result, and if not, why.
        before: the last result until now, column -> value; None if there is none.
        after: the result with all rows; None if the pane was not computed.
        refinement: of the new row of the log; None if there is none.
        window: which of several windows the pane is of; empty: of the only one.
    """

    key: Mapping[str, Any]
    pane_start: Any
    pane_end: Any
    rows: int
    outcome: Outcome
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    refinement: int | None = None
    window: str = ""

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields."""
        return {
            **({"window": self.window} if self.window else {}),
            "key": as_fields(self.key),
            **as_fields({name: getattr(self, name) for name in ("pane_start", "pane_end", "rows", "refinement")}),
            "outcome": self.outcome.value,
            "before": None if self.before is None else as_fields(self.before),
            "after": None if self.after is None else as_fields(self.after),
        }

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table, by the heads of that."""
        shown = self.fields()
        first = {name: shown[name] for name in ("window",) if name in shown}
        pane = {"pane": f"{shown['pane_start']}/{shown['pane_end']}", "rows": self.rows, "outcome": shown["outcome"]}
        result = result_text(shown["before"], shown["after"])
        return {**first, **shown["key"], **pane, "refinement": self.refinement, "result": result}


def result_text(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Return what a settlement changes in a result.

    >>> result_text({"n": 1, "worst": 7}, {"n": 2, "worst": 7}), result_text(None, {"n": 1})
    ('n: 1 -> 2', 'n: none -> 1')
    """
    if after is None:
        return "-"
    olds = {name: "none" if before is None else before[name] for name in after}
    return ", ".join(f"{name}: {olds[name]} -> {new}" for name, new in after.items() if olds[name] != new) or "-"


@dataclass(frozen=True, kw_only=True)
class NewRows:
    """The rows that the tables are to get: `log` those that it lacks, `view` those that it has otherwise."""

    log: pa.Table
    view: pa.Table


def settled(
    spec: JobSpec,
    keys: PartitionKeys,
    pairs: Pairs,
    waiting: Mapping[int, Outcome],
    log: pa.Table,
    view: pa.Table | None,
    complete: pa.Table,
) -> tuple[list[SettledPane], NewRows]:
    """Return what becomes of each pair, and the rows that the tables are to get.

    The view says what the result of a pane is, where there is one: the log may be ahead of it, after a kill, and has
    the results from before a reset.

    Args:
        spec: of the job.
        keys: the partitions of the pairs.
        pairs: those with quarantined rows.
        waiting: place of a pair that is not settled now -> why.
        log: the rows of the log for these panes.
        view: those of the view; None if there is none.
        complete: the results of these panes, and maybe of others, with all rows.

    Raises `DeclarationError` if the log alone does not say what the last result of a pane is.
    """
    # 1  What each table has of each pane, and what it has with all rows.
    logged, computed = _PaneResults.of(spec, keys, log), _PaneResults.of(spec, keys, complete)
    counting = logged if view is None else _PaneResults.of(spec, keys, view)

    # 2  What becomes of each pane, by these three.
    panes, decisions = list[SettledPane](), list[_Decision]()
    for number, pane in enumerate(_named(spec, keys, pairs)):
        last, result = counting.last.get(pane.place), computed.last.get(pane.place)
        if number in waiting:
            decision, result = _Decision(waiting[number]), None
        elif last is None and result is None:
            continue  # rows of another job that shares the quarantine
        else:
            if result is not None and view is None and pane.place in logged.twice:
                raise DeclarationError(
                    f"the log has two results of the pane that starts at {pane.start} with the same refinement, as "
                    "after a reset, so the last one is not known. Panes of a job with a view can be settled"
                )
            decision = _decide(last, logged.last.get(pane.place), result)
        decisions.append(decision)
        panes.append(
            SettledPane(
                key=pane.key,
                pane_start=pane.start,
                pane_end=pane.end,
                rows=pane.rows,
                outcome=decision.outcome,
                before=None if last is None else counting.values(last),
                after=None if result is None else computed.values(result),
                refinement=decision.refinement,
            )
        )

    # 3  The log gets the results that are new, the view those, too, and first the ones that only the log has.
    new = [decision.new for decision in decisions if decision.new is not None]
    ahead = [decision.ahead.row for decision in decisions if decision.ahead is not None]
    rows = complete.take(pa.array([result.row for result in new], pa.int64()))
    rows = _as_settled(rows, [result.refinement for result in new])
    return panes, NewRows(log=rows, view=pa.concat_tables([log.take(pa.array(ahead, pa.int64())), rows]))


@dataclass(frozen=True, kw_only=True)
class _NamedPane:
    """A partition in a pane as people name it, how many quarantined rows it has, and where its results are found."""

    key: Mapping[str, Any]
    start: Any
    end: Any
    rows: int
    place: _Place


def _named(spec: JobSpec, keys: PartitionKeys, pairs: Pairs) -> Iterator[_NamedPane]:
    geometry = Geometry.of(require_supported(spec), spec.history)
    starts, ends = geometry.starts(pairs.panes), geometry.ends(pairs.panes)
    key_of = keys.take(pairs.codes).to_pylist() if len(keys.schema) else [{}] * len(pairs.codes)
    shown = (pa.array(edges, pa.int64()).cast(spec.pane_time).to_pylist() for edges in (starts, ends))
    places = zip(pairs.codes.tolist(), starts.tolist(), ends.tolist(), strict=True)
    for key, start, end, rows, place in zip(key_of, *shown, pairs.rows.tolist(), places, strict=True):
        yield _NamedPane(key=key, start=start, end=end, rows=rows, place=place)


@dataclass(frozen=True)
class _Result:
    """A result of a pane: its row in its table, its columns as they are compared, and its refinement."""

    row: int
    text: str
    refinement: int


@dataclass(frozen=True)
class _Decision:
    """What becomes of a pane. A settled one has one of two results, with the number of its refinement in the log.

    `new` is one that no table has; `ahead` one that the log has, as a settlement was killed before the view had it.
    """

    outcome: Outcome
    new: _Result | None = None
    ahead: _Result | None = None

    @property
    def refinement(self) -> int | None:
        result = self.new or self.ahead
        return None if result is None else result.refinement


def _decide(last: _Result | None, logged: _Result | None, complete: _Result | None) -> _Decision:
    """Return what becomes of a pane, by its last result, that in the log, and that with all rows; None: it has none."""
    if complete is None:
        return _Decision(Outcome.NO_ROWS)
    if last is not None and last.text == complete.text:
        return _Decision(Outcome.UNCHANGED)
    newest = max((result.refinement for result in (last, logged) if result is not None), default=-1)
    is_ahead = logged is not None and (last is None or logged.refinement > last.refinement)
    if logged is not None and is_ahead and logged.text == complete.text:
        return _Decision(Outcome.SETTLED, ahead=logged)
    return _Decision(Outcome.SETTLED, new=replace(complete, refinement=newest + 1))


@dataclass(frozen=True)
class _PaneResults:
    """The last result that a table has of each partition in a pane: that of the greatest refinement.

    `twice` are the places of which two rows have the same refinement.
    """

    table: pa.Table
    last: dict[_Place, _Result]
    twice: set[_Place]

    @classmethod
    def of(cls, spec: JobSpec, keys: PartitionKeys, rows: pa.Table) -> _PaneResults:
        """Find them among rows of a table of results."""
        table = rows.select(spec.output.names)
        last, seen, twice = dict[_Place, _Result](), set[tuple[_Place, int]](), set[_Place]()
        results = map(_Result, range(rows.num_rows), _texts(table), rows.column("refinement").to_pylist())
        for place, result in zip(_places(keys, rows), results, strict=True):
            if (place, result.refinement) in seen:
                twice.add(place)
            seen.add((place, result.refinement))
            if place not in last or last[place].refinement < result.refinement:
                last[place] = result
        return cls(table, last, twice)

    def values(self, result: _Result) -> Mapping[str, Any]:
        """Return the columns of one of these results."""
        columns: Mapping[str, Any] = self.table.slice(result.row, 1).to_pylist()[0]
        return columns


def _texts(results: pa.Table) -> list[str]:
    return objects(dict(zip(results.column_names, results.columns, strict=True)))


def _as_settled(rows: pa.Table, refinements: list[int]) -> pa.Table:
    """Return results as the log gets them: a reader of final rows has one a pane, the firing with which it closed."""
    size = rows.num_rows
    columns = {"refinement": refinements, "is_final": [False] * size, "reason": [Reason.SETTLED.value] * size}
    for name, values in columns.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))
    return rows


def _places(keys: PartitionKeys, results: pa.Table) -> list[_Place]:
    """Return of each result the code of its partition, and start and end of its pane, us."""
    edges = [results.column(name).cast(pa.int64()).to_pylist() for name in _PANE]
    return [*zip(keys.encode(keys.with_normal_keys(results)).tolist(), *edges, strict=True)]
