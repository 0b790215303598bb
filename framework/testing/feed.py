"""Turns input items into the steps that a key group takes. Both engines are fed from here, so they are fed alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from framework.core.plan import EVENT_TIME
from framework.core.steps import Mark, Rows, Step, Tick, Watermark
from framework.testing.recorder import KEY, TUPLE
from framework.testing.vector import Advance, Item, Punct, Tuple


def steps_of(items: Iterable[Item], columns: Iterable[str]) -> Iterator[Step]:
    """The steps of one micro-batch: neighbouring tuples in one table of these columns, ticks where told."""
    names = [*columns, EVENT_TIME]
    waiting: list[Tuple] = []
    clock: int | None = None
    for item in items:
        told = None if isinstance(item, Advance) else item.at_us
        step = _step(item)
        if waiting and (step is not None or told not in (None, clock)):
            yield Rows(_table(waiting).select(names))
            waiting = []
        if told is not None and told != clock:
            yield Tick(told)
            clock = told
        if isinstance(item, Tuple):
            waiting.append(item)
        elif step is not None:
            yield step
    if waiting:
        yield Rows(_table(waiting).select(names))


def _step(item: Item) -> Step | None:
    if isinstance(item, Advance):
        return Watermark(item.watermark_us)
    if isinstance(item, Punct):
        return Mark(item.kind)
    return None


def _table(tuples: list[Tuple]) -> pa.Table:
    times = pa.array([item.time_us for item in tuples], pa.int64())
    keys = pa.array([item.key for item in tuples], pa.string())
    texts = pa.array([item.text for item in tuples], pa.string())
    return pa.table({KEY: keys, TUPLE: texts, EVENT_TIME: times})
