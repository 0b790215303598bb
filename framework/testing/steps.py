"""Converts input items into steps of a key group; both engines get their input from here, so it is the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.steps import EvictPartitions, Mark, Rows, Step, Tick, Watermark
from panekeeper.framework.testing.recorder import KEY, TUPLE
from panekeeper.framework.testing.vector import ClockItem, EvictItem, Item, MarkItem, RowItem, WatermarkItem
from panekeeper.framework.testing.window_fields import column_of


def items_to_steps(items: Iterable[Item], columns: pa.Schema) -> Iterator[Step]:
    """Return the steps of one micro-batch: neighbouring rows of one instant in one table, a tick for each new time."""
    waiting: list[RowItem] = []
    clock: int | None = None
    for item in items:
        at_us = None if isinstance(item, WatermarkItem | ClockItem) else item.at_us
        step = _step(item)
        if waiting and (step is not None or at_us not in (None, clock)):
            yield Rows(_table(waiting, columns))
            waiting = []
        if at_us is not None and at_us != clock:
            yield Tick(at_us)
            clock = at_us
        if isinstance(item, RowItem):
            waiting.append(item)
        elif step is not None:
            yield step
    if waiting:
        yield Rows(_table(waiting, columns))


def _step(item: Item) -> Step | None:
    match item:
        case WatermarkItem(watermark_us=us):
            return Watermark(us)
        case ClockItem(at_us=us):
            return Tick(us, is_last_at_instant=True)
        case MarkItem(kind=kind):
            return Mark(kind)
        case EvictItem(key=key):
            return EvictPartitions(pa.table({KEY: pa.array([key], pa.string())}))
    return None


def _table(tuples: list[RowItem], columns: pa.Schema) -> pa.Table:
    """Return the rows as a table of these columns, with the event time if they have one."""
    values: dict[str, list[Any]] = {KEY: [item.key for item in tuples], TUPLE: [item.text for item in tuples]}
    for name in tuples[0].measures:
        values[column_of(name)] = [item.measures[name] for item in tuples]
    table = pa.table([pa.array(values[f.name], f.type) for f in columns], schema=columns)
    if tuples[0].time_us is None:
        return table
    return table.append_column(EVENT_TIME, pa.array([item.time_us for item in tuples], pa.int64()))
