"""Defects of the kinds that were found by hand, or by these laws, put back into the product one at a time.

Each stands for a kind: what a batch forgets, what a restart loses, what one partition does to another, what two ways to
compute one thing disagree about, what is told and not done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from panekeeper.framework.builder.windowed import StreamWithWindow
from panekeeper.framework.core import repeats
from panekeeper.framework.core.aggregates.sums import CountAccumulator
from panekeeper.framework.core.aggregates.tallies import Quantiles
from panekeeper.framework.core.arrival.timers import Timers
from panekeeper.framework.core.event_time_batch import RowCounts, RowFate
from panekeeper.framework.core.outlook import Outlook
from panekeeper.framework.core.panes.window import TimeIntervalWindow
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine
from panekeeper.framework.core.repeats import Repeats
from panekeeper.framework.core.several_windows import SeveralWindowsBatch
from panekeeper.framework.core.steps import Rows
from panekeeper.framework.testing import capsule, memory_job
from panekeeper.framework.testing.memory_intake import MemoryIntake
from panekeeper.state.records import NEVER
from panekeeper.state.store import MemoryStore
from tests.laws.calls import call
from tests.laws.declarations import (
    ARRIVAL,
    BY_ROW,
    COLUMNS,
    PANES,
    SESSION,
    WINDOWS,
    Declaration,
    declarations,
    schema_of,
)


@dataclass(frozen=True)
class Defect:
    """A defect, and what is drawn to find it.

    Attributes:
        name: what is wrong.
        owner: what is patched.
        attribute: its attribute that is.
        make: makes the wrong one of the right one.
        laws: those that can find it.
        kinds: declarations that can show it.
        words: texts that are all in such a declaration.
        declaration: the one that shows it, where that is rare: drawn among sliding windows it took 154 examples.
    """

    name: str
    owner: Any
    attribute: str
    make: Callable[[Any], Any]
    laws: tuple[str, ...]
    kinds: tuple[str, ...] = (PANES,)
    words: tuple[str, ...] = ()
    declaration: Declaration | None = None

    @property
    def declared(self) -> st.SearchStrategy[Declaration]:
        """What is drawn to find it."""
        if self.declaration is not None:
            return st.just(self.declaration)
        return declarations(self.kinds).filter(lambda one: all(word in repr(one.options) for word in self.words))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the defect in the product."""
        right = (
            self.owner.__dict__[self.attribute] if isinstance(self.owner, type) else vars(self.owner)[self.attribute]
        )
        setattr(self.owner, self.attribute, self.make(right))
        try:
            yield
        finally:
            setattr(self.owner, self.attribute, right)


def _without_outside(right: Any) -> Any:
    return lambda self, fates, numbers=None: right(self, fates[fates != RowFate.OUTSIDE], numbers)


def _without_order(right: Any) -> Any:
    def wrong(self: Any, port: Any, *more: Any) -> None:
        right(self, port, *more)
        self._rest = [name for name in self._rest if name not in port.intake.order_by]

    return wrong


def _of_exact_doubles(right: Any) -> Any:
    return lambda self, values: right(self, values if self.is_exact else values.cast(pa.float64()))


def _without_first_slice(right: Any) -> Any:
    return lambda self, state, lo, hi: right(self, state, np.minimum(lo + 1, hi), hi)


def _first_group_alone(right: Any) -> Any:
    return lambda control, group: right(control, group) if group == 0 else []


def _second_gets_what_first_takes(right: Any) -> Any:
    def wrong(self: Any, step: Any) -> None:
        if isinstance(step, Rows) and step.table.num_rows:
            taken = next(iter(self._windows.values())).takes(step.table)
            for name, one in [*self._windows.items()][1:]:
                one.process_rows(self._of(name, step.table.filter(pa.array(taken))))
            first = next(iter(self._windows))
            self._counts.add(self._windows[first].process_rows(self._of(first, step.table)))
            return
        right(self, step)

    return wrong


def _keeps_the_count(right: Any) -> Any:
    def wrong(self: Any, now: int, some: np.ndarray) -> None:
        since = self._partitions.since.copy()
        right(self, now, some)
        self._partitions.since[:] = since

    return wrong


def _a_second_late(right: Any) -> Any:
    def wrong(*given: Any) -> Outlook:
        told: Outlook = right(*given)
        return replace(told, fires_at=np.where(told.fires_at == NEVER, NEVER, told.fires_at + 1_000_000))

    return wrong


def _without_firings(right: Any) -> Any:
    def wrong(self: MemoryStore) -> MemoryStore:
        copied: MemoryStore = right(self)
        for place in [place for place in copied.entries if place[0].endswith(("fired", "firings"))]:
            copied.remove(*place)
        return copied

    return wrong


def _of_all_partitions(_: Any) -> Any:
    keys = {"k", "j", "f", "day", "b"}

    def wrong(ids: pa.Schema) -> PartitionKeys:
        own = [field for field in ids if field.name not in keys]
        return PartitionKeys(pa.schema(own or list(ids)))

    return wrong


def _options_last(right: Any) -> Any:
    @wraps(right)
    def wrong(self: Any, *unnamed: Any, **named: Any) -> Any:
        return right(self, *unnamed, **dict(sorted(named.items(), key=lambda one: one[0] in ("top", "by"))))

    return wrong


DEFECTS = (
    Defect(
        "rows in gaps are counted nowhere", RowCounts, "add", _without_outside, ("rows",), words=("creation_period",)
    ),
    Defect("late rows get lost", Quarantine, "add_late", lambda _: lambda *_, **__: None, ("rows",)),
    Defect("late rows lose the columns that order them", MemoryIntake, "__init__", _without_order, ("rows",)),
    Defect(
        "a capsule has two of one object",
        capsule,
        "_joined",
        lambda _: lambda spec: spec,
        ("stored",),
        words=("Lasting",),
    ),
    Defect(
        "large integers end the job", Quantiles, "entries_of", _of_exact_doubles, ("cuts",), words=("agg.quantiles",)
    ),
    Defect("a slice is left out", CountAccumulator, "merge_ranges", _without_first_slice, ("operators",)),
    Defect("the clock reaches one key group", memory_job, "control_of", _first_group_alone, ("cuts",), (ARRIVAL,)),
    Defect(
        "ids are forgotten with the batch",
        Repeats,
        "save",
        lambda _: lambda self: self._count,
        ("cuts",),
        (PANES, SESSION, BY_ROW),
        ("dedupe",),
    ),
    Defect(
        "an id counts for all partitions",
        repeats,
        "PartitionKeys",
        _of_all_partitions,
        ("partitions",),
        (PANES, SESSION, BY_ROW),
        ("dedupe",),
    ),
    Defect(
        "a window gets what another one takes",
        SeveralWindowsBatch,
        "process",
        _second_gets_what_first_takes,
        ("windows",),
        (WINDOWS,),
    ),
    Defect(
        "an empty firing keeps the count",
        Timers,
        "pass_idle",
        _keeps_the_count,
        ("ticks", "cuts"),
        declaration=Declaration(
            ARRIVAL,
            {
                "window": call(
                    "Sliding", evict=call("Time", 0.5), trigger=call("AnyOf", call("Count", 2), call("Time", 3))
                ),
                "aggregates": {"n": call("agg.count")},
                "schema": schema_of(COLUMNS, "timestamp"),
            },
        ),
    ),
    Defect("what fires is told too late", TimeIntervalWindow, "outlook", _a_second_late, ("stored",)),
    Defect(  # the law of columns is looked at wherever that of rows is
        "results with the names of options come last",
        StreamWithWindow,
        "aggregate",
        _options_last,
        ("rows",),
        words=("'top'", "'a1'"),
    ),
    Defect("a restart loses firings", MemoryStore, "copy", _without_firings, ("cuts",), (PANES,), ("discard_age",)),
)

BY_NAME: Mapping[str, Defect] = {one.name: one for one in DEFECTS}
