"""Which panes do quarantined rows belong to, what are their results with all rows, and which of these are new?

A settled pane has the result that it would have if its rows had come in time, in the order of their times. It is
computed by the core of the job from all rows of the pane, so nothing depends on which of them were late, nor on what
was settled before: who settles again gets the same results, and there is nothing new (docs/semantics.md section 20).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.pane_index import number_cells
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


class Outcome(Enum):
    """What becomes of a pane: it has a new result; the same as before; or none yet, for the reason that is named."""

    SETTLED = "settled"
    UNCHANGED = "unchanged"
    OPEN = "open"
    AHEAD = "ahead"
    NO_ROWS = "no rows"


def require_supported(spec: JobSpec) -> TimeInterval:
    """Return the window of a job whose panes can be settled. Raises `DeclarationError` for any other one."""
    window, what = spec.window, None
    if spec.other_ports or spec.join is not None:
        what = "several inputs"
    elif not isinstance(window, TimeInterval):
        what = f"a window of the kind {type(window).__name__}"
    elif spec.aggregates is None or spec.handlers:
        what = "an operator, or handlers with state"
    elif spec.has_groups:
        what = "a row for each group in a firing"
    elif spec.dedupe is not None:
        what = "dedupe=, by which rows of other panes decide what counts"
    elif window.results != "accumulating":
        what = f"results={window.results!r}"
    else:
        given = {name: getattr(window, name) for name in ("fires_when", "then", "fill")}
        what = next((f"{name}={value!r}" for name, value in given.items() if value is not None), None)
    if what is None and isinstance(window, TimeInterval):
        return window
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
    if records and all(one.flushed for one in records):
        return np.full(len(panes), True)
    known = [one.watermark for one in records] if watermark is None else [watermark]
    if not known:
        return np.full(len(panes), False)
    still_open = np.array([pane for one in records for pane in one.panes], dtype=np.int64)
    closed: np.ndarray = (panes <= geometry.last_closed(min(known))) & ~np.isin(panes, still_open)
    return closed


def are_among(pairs: Pairs, others: Pairs) -> np.ndarray:
    """Return whether each pair is one of others."""
    known = {*zip(others.codes.tolist(), others.panes.tolist(), strict=True)}
    found = [one in known for one in zip(pairs.codes.tolist(), pairs.panes.tolist(), strict=True)]
    return np.array(found, dtype=np.bool_)


def complete_results(spec: JobSpec, rows: pa.Table) -> pa.Table:
    """Return the result of each pane that rows are of, as if they had come in time, in the order of their times.

    `rows` have the columns of a segment, in any order; those that cannot be computed are left out, as in the job.
    """
    outcome = KeyGroupRunner(spec, MemoryStore()).run([Rows(_in_order(rows)), Flush()])
    found = spec.results_schema.empty_table() if outcome.results is None else outcome.results
    places = _places(PartitionKeys(spec.keys), found)
    last = {place: row for row, place in enumerate(places)}  # a pane may have fired early, too
    return found.take(pa.array([*last.values()], pa.int64()))


def _in_order(rows: pa.Table) -> pa.Table:
    """Return rows by their times, then by what they are: in one order, wherever they are read again."""
    by = {name: rows.column(name) for name in rows.column_names if name not in (EVENT_TIME, ARRIVAL_TIME)}
    shown = [pa.array(objects({name: one})) if pa.types.is_nested(one.type) else one for name, one in by.items()]
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
    after: pa.Table,
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
        after: the results of these panes, and maybe of others, with all rows.

    Raises `DeclarationError` if the log alone does not say what the last result of a pane is.
    """
    geometry = Geometry.of(require_supported(spec), spec.history)
    bounds = [*zip(geometry.starts(pairs.panes).tolist(), geometry.ends(pairs.panes).tolist(), strict=True)]
    logged, shown = _Last.of(spec, keys, log), None if view is None else _Last.of(spec, keys, view)
    last = logged if shown is None else shown
    now = {place: row for row, place in enumerate(_places(keys, after))}
    results = after.select(spec.output.names)
    texts = _texts(results)
    parts = keys.take(pairs.codes).to_pylist() if len(keys.schema) else [{}] * len(pairs.codes)
    edges = [pa.array(edge(pairs.panes), pa.int64()).cast(spec.pane_time) for edge in (geometry.starts, geometry.ends)]
    panes, taken, numbers, ahead = list[SettledPane](), list[int](), list[int](), list[int]()
    starts, ends = (edge.to_pylist() for edge in edges)
    for number, (code, pane_bounds) in enumerate(zip(pairs.codes.tolist(), bounds, strict=True)):
        place = (code, *pane_bounds)
        old, new = last.rows.get(place), now.get(place)
        outcome, refinement = waiting.get(number), None
        if old is None and new is None and outcome is None:
            continue  # rows of another job that shares the quarantine
        if outcome is None and new is None:
            outcome = Outcome.NO_ROWS
        elif outcome is None and new is not None:
            if shown is None and place in logged.twice:
                raise DeclarationError(
                    f"the log has two results of the pane that starts at {starts[number]} with the same refinement, as "
                    "after a reset, so the last one is not known. Panes of a job with a view can be settled"
                )
            outcome = Outcome.UNCHANGED
            if old is None or last.texts[old] != texts[new]:
                outcome, in_log = Outcome.SETTLED, logged.rows.get(place)
                shown_by = -1 if old is None else last.refinements[old]
                logged_by = -1 if in_log is None else logged.refinements[in_log]
                if in_log is not None and logged_by > shown_by and logged.texts[in_log] == texts[new]:
                    ahead.append(in_log)  # a settlement was killed before the view had it
                    refinement = logged_by
                else:
                    refinement = 1 + max(shown_by, logged_by)
                    taken.append(new)
                    numbers.append(refinement)
        assert outcome is not None
        panes.append(
            SettledPane(
                key=parts[number],
                pane_start=starts[number],
                pane_end=ends[number],
                rows=int(pairs.rows[number]),
                outcome=outcome,
                before=None if old is None else last.results.slice(old, 1).to_pylist()[0],
                after=None if new is None or number in waiting else results.slice(new, 1).to_pylist()[0],
                refinement=refinement,
            )
        )
    new_rows = _as_settled(after.take(pa.array(taken, pa.int64())), numbers)
    found = NewRows(log=new_rows, view=pa.concat_tables([log.take(pa.array(ahead, pa.int64())), new_rows]))
    return panes, found


@dataclass(frozen=True)
class _Last:
    """The last result that a table has of each partition and pane: that of the greatest refinement.

    `texts` are its results as they are compared; `twice` are the places of which two rows have the same refinement.
    """

    results: pa.Table
    texts: list[str]
    refinements: list[int]
    rows: dict[tuple[int, int, int], int]
    twice: set[tuple[int, int, int]]

    @classmethod
    def of(cls, spec: JobSpec, keys: PartitionKeys, table: pa.Table) -> _Last:
        """Find them."""
        refinements, rows = table.column("refinement").to_pylist(), dict[tuple[int, int, int], int]()
        twice = set[tuple[int, int, int]]()
        seen = set[tuple[tuple[int, int, int], int]]()
        for row, place in enumerate(_places(keys, table)):
            if (place, refinements[row]) in seen:
                twice.add(place)
            seen.add((place, refinements[row]))
            if place not in rows or refinements[rows[place]] < refinements[row]:
                rows[place] = row
        results = table.select(spec.output.names)
        return cls(results, _texts(results), refinements, rows, twice)


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


def _places(keys: PartitionKeys, results: pa.Table) -> list[tuple[int, int, int]]:
    """Return of each result the code of its partition, and start and end of its pane, us."""
    edges = [results.column(name).cast(pa.int64()).to_pylist() for name in _PANE]
    return [*zip(keys.encode(keys.with_normal_keys(results)).tolist(), *edges, strict=True)]
