"""Plays a vector on the core alone: a machine, a store in memory, no Spark.

A new machine is built for every micro-batch, as in a real job. A restart keeps the bytes of the store and nothing else:
even the plan comes back from its pickle.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from framework.core.machine import Machine
from framework.core.plan import EVENT_TIME
from framework.core.steps import Mark, Rows, Step, Tick, Watermark
from framework.testing.cuts import Batch
from framework.testing.recorder import KEY, TUPLE, plan_for, recorded
from framework.testing.vector import Advance, Checkpoint, Item, Punct, Reset, Tuple, Vector
from state.store import MemoryStore


class MemoryRun:
    """One vector on the core. After `play`, `store` is what a restart would find and `counts` what was counted."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self.plan = plan_for(vector)
        self.store = MemoryStore()
        self.saved: dict[str, MemoryStore] = {}
        self.counts: dict[str, int] = {}

    def play(self, batches: Iterable[Batch]) -> list[dict[str, Any]]:
        """Run the micro-batches and return the events."""
        events: list[dict[str, Any]] = []
        for batch in batches:
            match batch.items:
                case (Checkpoint(name=name),):
                    self.saved[name] = self.store.copy()
                case (Reset(name=name),):
                    self.store = MemoryStore() if name is None else self.saved[name].copy()
                case items:
                    events += self.run(steps_of(items, self.plan.columns.names))
            if batch.restart:
                self.plan = pickle.loads(pickle.dumps(self.plan))  # noqa: S301 -- our own bytes
                self.store = self.store.copy()
        return events

    def run(self, steps: Iterable[Step]) -> list[dict[str, Any]]:
        """Run one micro-batch on a new machine and return its events."""
        outcome = Machine(self.plan, self.store).run(steps)
        for name, count in outcome.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        return recorded(outcome.results, outcome.rejected)


def steps_of(items: Iterable[Item], columns: Iterable[str]) -> Iterator[Step]:
    """The steps of one micro-batch: neighbouring tuples in one table of these columns, ticks where an item says when."""
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
