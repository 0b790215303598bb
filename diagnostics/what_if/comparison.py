"""Which results of two runs over the same batches differ? Without Spark.

A reader of results sees the newest one of each pane and partition, so these are compared; how often each was refined,
and when it came, is counted beside them. Of what was compared in parts, by partition, the parts are added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.groups import RANK
from panekeeper.framework.core.job_spec import PORT
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.windows import SlidingByRow
from panekeeper.framework.testing.script import time_us

if TYPE_CHECKING:
    from panekeeper.framework.core.job_spec import JobSpec

Written = Sequence[tuple[int, pa.Table]]
"""Rows of a log, in order, with the number of their batch."""

KINDS = ("same", "changed", "only_before", "only_after", "open_before", "open_after")
"""What is counted by a comparison."""

_OF_THE_RUN = frozenset({"refinement", "is_final", "reason", "fired_at", "op", "replaces", "firing", "window_mark"})
"""Columns of the log that say how a result came, and not what it is."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """By what a row of the log is known.

    Attributes:
        keys: the columns that name its partition and pane; none: rows belong to no pane, and are counted.
        end: the column with the end of its pane; None without panes.
        waits_us: how long after the end of a pane its first result comes, by the watermark, us.
    """

    keys: tuple[str, ...] = ()
    end: str | None = None
    waits_us: int = 0

    @classmethod
    def of(cls, spec: JobSpec) -> Shape:
        """Return that of a job."""
        if not spec.has_panes or spec.mixes_window_kinds:
            return cls()
        if spec.join is not None:  # a pane has a row for each match
            return cls(end="pane_end")
        place = ("session_start",) if spec.has_sessions else ("pane_start", "pane_end")
        port = (PORT,) if spec.other_ports and spec.join is None else ()
        several = ("refinement",) if spec.discards else ()
        rank = (RANK,) if spec.has_groups else ()
        window = spec.window
        waits = getattr(window, "age_us", 0) if getattr(window, "emit", None) == "on_close" else 0
        if isinstance(window, SlidingByRow):  # its end belongs to it, so the watermark must be past that
            waits += 1
        end = "session_end" if spec.has_sessions else "pane_end"
        return cls(keys=(*spec.keys.names, *port, *place, *rank, *several), end=end, waits_us=waits)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A result that differs: its partition and pane, and column -> value before and after; None where there is none."""

    place: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def key(self) -> tuple[Any, ...]:
        """By what it is listed."""
        return tuple(_plain(value) for value in self.place.values())


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The newest result of each partition and pane, in two runs.

    Attributes:
        same: how many are the same.
        changed: how many have other values.
        only_before: how many the second run never has, though its watermark has passed them.
        only_after: how many only that has.
        open_before: how many the first run has not yet: its watermark has not come so far.
        open_after: how many the second run has not yet.
        first: the first ones that are changed, or that only one has.
        columns_before: result columns that only the first run has; they are not compared.
        columns_after: those that only the second one has.
    """

    same: int = 0
    changed: int = 0
    only_before: int = 0
    only_after: int = 0
    open_before: int = 0
    open_after: int = 0
    first: tuple[Difference, ...] = ()
    columns_before: tuple[str, ...] = ()
    columns_after: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether a result differs that both runs must have by now."""
        return bool(self.changed or self.only_before or self.only_after)

    def counts(self) -> dict[str, int]:
        """Return how many results there are of each kind."""
        return {name: getattr(self, name) for name in KINDS}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run has written, and how far it is.

    Attributes:
        written: the rows of its log.
        watermark_us: its last watermark, us; None: it has none.
        is_flushed: whether it has closed all panes.
    """

    written: Written = field(repr=False)
    watermark_us: int | None = None
    is_flushed: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Produced:
    """What a run has written.

    Attributes:
        results: rows of the log.
        refinements: those of them that replace an earlier one.
        delays_us: by how far event time was past the end of each pane when its first result on completion came, us.
    """

    results: int
    refinements: int
    delays_us: np.ndarray

    @classmethod
    def of(cls, run: Run, latest: Mapping[int, int | None], shape: Shape) -> Produced:
        """Return that of a run; `latest` as `delays_us` takes it."""
        rows = sum(table.num_rows for _, table in run.written)
        return cls(results=rows, refinements=refinements(run), delays_us=delays_us(run, latest, shape))

    @classmethod
    def together(cls, parts: Sequence[Produced]) -> Produced:
        """Return that of several parts."""
        return cls(
            results=sum(part.results for part in parts),
            refinements=sum(part.refinements for part in parts),
            delays_us=np.concatenate([np.empty(0, dtype=np.int64), *(part.delays_us for part in parts)]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """Two runs over the same batches, of one window: what each has written, and how that compares."""

    before: Produced
    after: Produced
    results: Comparison

    @classmethod
    def of(
        cls, before: Run, after: Run, shape: Shape, latest: Mapping[int, int | None], *, limit: int = 10
    ) -> Compared:
        """Compare two runs; arguments as for `compare` and `delays_us`."""
        return cls(
            before=Produced.of(before, latest, shape),
            after=Produced.of(after, latest, shape),
            results=compare(before, after, shape, limit=limit),
        )

    @classmethod
    def together(cls, parts: Sequence[Compared], *, limit: int = 10) -> Compared:
        """Return what was compared in parts, each of other partitions."""
        first = sorted(
            (difference for part in parts for difference in part.results.first),
            key=lambda difference: _order(difference.key),
        )
        fields: dict[str, Any] = {kind: sum(getattr(part.results, kind) for part in parts) for kind in KINDS}
        for name in ("columns_before", "columns_after"):
            fields[name] = tuple(dict.fromkeys(column for part in parts for column in getattr(part.results, name)))
        return cls(
            before=Produced.together([part.before for part in parts]),
            after=Produced.together([part.after for part in parts]),
            results=Comparison(**fields, first=tuple(first[:limit])),
        )


def compare(before: Run, after: Run, shape: Shape, *, limit: int = 10) -> Comparison:
    """Compare the results of two runs over the same batches; `limit` is how many differences are named."""
    old, new = _columns(before.written), _columns(after.written)
    compared = tuple(name for name in old or new if name in (new or old) and name not in _OF_THE_RUN)
    if not shape.keys or not {*shape.keys} <= {*compared}:
        comparison = _compare_counted(before, after, shape, compared, limit)
    else:
        comparison = _compare_newest(before, after, shape, compared, limit)
    gone = tuple(name for name in old if new and name not in new)
    added = tuple(name for name in new if old and name not in old)
    return replace(comparison, columns_before=gone, columns_after=added)


def delays_us(run: Run, latest: Mapping[int, int | None], shape: Shape) -> np.ndarray:
    """Return how far event time was past the end of each pane when its first result on completion came, us.

    `latest` has batch -> the greatest event time of the batches before it, us.
    """
    if shape.end is None:
        return np.empty(0, dtype=np.int64)
    delays: list[np.ndarray] = []
    for batch, table in run.written:
        reached = latest.get(batch)
        if reached is None:
            continue
        rows = zip(*(table.column(name).to_pylist() for name in ("reason", "refinement")), strict=True)
        first = pa.array([reason == Reason.WATERMARK.value for reason, _ in rows])
        delays.append(reached - table.column(shape.end).filter(first).cast(pa.int64()).to_numpy())
    return np.concatenate(delays) if delays else np.empty(0, dtype=np.int64)


def refinements(run: Run) -> int:
    """Return how many results have replaced an earlier one of their pane."""
    return sum(
        int(np.count_nonzero(table.column("refinement").to_numpy() > 0))
        for _, table in run.written
        if "refinement" in table.column_names
    )


def _columns(written: Written) -> tuple[str, ...]:
    """Return the columns of a log, in order; none of one without rows."""
    return tuple(dict.fromkeys(name for _, table in written for name in table.column_names))


def _compare_newest(before: Run, after: Run, shape: Shape, compared: Sequence[str], limit: int) -> Comparison:
    values = [name for name in compared if name not in shape.keys]
    old, new = _newest(before.written, shape), _newest(after.written, shape)
    counts, first = Counter[str](), list[Difference]()
    for key in sorted(old.keys() | new.keys(), key=_order):
        was, now = old.get(key), new.get(key)
        kind = _kind(was, now, before, after, shape, values)
        counts[kind] += 1
        if kind in ("changed", "only_before", "only_after") and len(first) < limit:
            shown = [name for name in values if was is None or now is None or _plain(was[name]) != _plain(now[name])]
            first.append(
                Difference(
                    place={name: (was or now or {})[name] for name in shape.keys},
                    before=None if was is None else {name: was[name] for name in shown},
                    after=None if now is None else {name: now[name] for name in shown},
                )
            )
    fields: dict[str, Any] = {kind: counts[kind] for kind in KINDS}
    return Comparison(**fields, first=tuple(first))


def _newest(written: Written, shape: Shape) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return partition and pane -> the newest row, without those that another one has taken back."""
    newest = dict[tuple[Any, ...], dict[str, Any]]()
    for row in _rows(written):
        if row.get("op") == -1:
            continue
        key = tuple(_plain(row[name]) for name in shape.keys)
        for start in row.get("replaces") or ():
            place = shape.keys.index("session_start")
            newest.pop((*key[:place], start, *key[place + 1 :]), None)
        newest[key] = row
    return newest


def _rows(written: Written) -> Iterator[dict[str, Any]]:
    for _, table in written:
        yield from table.to_pylist()


def _kind(
    was: Mapping[str, Any] | None,
    now: Mapping[str, Any] | None,
    before: Run,
    after: Run,
    shape: Shape,
    values: Sequence[str],
) -> str:
    """Return what is counted for a result that one of the runs has, or both."""
    if was is not None and now is not None:
        return "same" if all(_plain(was[name]) == _plain(now[name]) for name in values) else "changed"
    if now is not None:
        return "open_before" if _is_open(now, before, shape) else "only_after"
    assert was is not None
    return "open_after" if _is_open(was, after, shape) else "only_before"


def _is_open(row: Mapping[str, Any], run: Run, shape: Shape) -> bool:
    """Return whether a run that lacks a result may still write it."""
    if run.is_flushed or shape.end is None:
        return False
    return run.watermark_us is None or time_us(row[shape.end], "end") + shape.waits_us > run.watermark_us


def _plain(value: Any) -> Any:
    """Return a value that can be compared and counted: a NaN does not equal itself, and a list has no hash."""
    return repr(value) if isinstance(value, float | list | dict) else value


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return by what results are listed: by their panes, then by their partitions."""
    times = [time_us(value, "time") for value in key if isinstance(value, datetime)]
    return *times[-2:], repr(key)


def _compare_counted(before: Run, after: Run, shape: Shape, compared: Sequence[str], limit: int) -> Comparison:
    """Compare rows of which a pane has several, or that belong to none: how often each is there."""
    shown: dict[str, dict[str, Any]] = {}

    def counted(run: Run) -> Counter[str]:
        counts = Counter[str]()
        for row in _rows(run.written):
            own = {name: row[name] for name in compared}
            text = repr(own)
            shown[text] = own
            counts[text] += 1
        return counts

    def lacking(rows: Counter[str], other: Run) -> tuple[list[dict[str, Any]], int]:
        """Return the rows that the other run never has, and how many it has not yet."""
        missing = [shown[text] for text in rows.elements()]
        never = [row for row in missing if shape.end not in row or not _is_open(row, other, shape)]
        return never, len(missing) - len(never)

    old, new = counted(before), counted(after)
    (gone, open_after), (came, open_before) = lacking(old - new, after), lacking(new - old, before)
    first = [Difference(place={}, before=row, after=None) for row in gone]
    first += [Difference(place={}, before=None, after=row) for row in came]
    return Comparison(
        same=(old & new).total(),
        only_before=len(gone),
        only_after=len(came),
        open_before=open_before,
        open_after=open_after,
        first=tuple(first[:limit]),
    )
