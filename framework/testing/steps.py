"""Turns input items into the steps that a key group takes. Both engines are fed from here, so they are fed alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from framework.core.job_spec import EVENT_TIME
from framework.core.steps import EvictPartitions, Mark, Rows, Step, Tick, Watermark
from framework.testing.recorder import KEY, TUPLE
from framework.testing.vector import Advance, Clock, Item, Punct, Release, Tuple
from framework.testing.window_fields import column_of


def steps_of(items: Iterable[Item], columns: pa.Schema) -> Iterator[Step]:
    """The steps of one micro-batch: neighbouring tuples of one instant in one table, ticks where told."""
    waiting: list[Tuple] = []
    clock: int | None = None
    for item in items:
        told = None if isinstance(item, Advance | Clock) else item.at_us
        step = _step(item)
        if waiting and (step is not None or told not in (None, clock)):
            yield Rows(_table(waiting, columns))
            waiting = []
        if told is not None and told != clock:
            yield Tick(told)
            clock = told
        if isinstance(item, Tuple):
            waiting.append(item)
        elif step is not None:
            yield step
    if waiting:
        yield Rows(_table(waiting, columns))


def _step(item: Item) -> Step | None:
    match item:
        case Advance(watermark_us=us):
            return Watermark(us)
        case Clock(at_us=us):
            return Tick(us, is_last_at_instant=True)
        case Punct(kind=kind):
            return Mark(kind)
        case Release(key=key):
            return EvictPartitions(pa.table({KEY: pa.array([key], pa.string())}))
    return None


def _table(tuples: list[Tuple], columns: pa.Schema) -> pa.Table:
    """The tuples as rows: the columns asked for, and their event time if they have one."""
    values: dict[str, list[Any]] = {KEY: [item.key for item in tuples], TUPLE: [item.text for item in tuples]}
    for name in tuples[0].measures:
        values[column_of(name)] = [item.measures[name] for item in tuples]
    table = pa.table([pa.array(values[f.name], f.type) for f in columns], schema=columns)
    if tuples[0].time_us is None:
        return table
    return table.append_column(EVENT_TIME, pa.array([item.time_us for item in tuples], pa.int64()))
