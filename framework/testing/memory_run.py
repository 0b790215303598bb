"""Plays a vector on the core alone: a machine, a store in memory, no Spark.

A new machine is built for every micro-batch, as in a real job. A restart keeps the bytes of the store and nothing else:
even the plan comes back from its pickle.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

from framework.core.key_group import KeyGroupRunner
from framework.core.steps import Step, Tick
from framework.testing.batching import Batch
from framework.testing.recorder import job_spec_for, recorded
from framework.testing.steps import steps_of
from framework.testing.vector import Checkpoint, Reset, Vector
from state.store import MemoryStore


class MemoryRun:
    """One vector on the core. After `play`, `store` is what a restart would find and `counts` what was counted."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self.spec = job_spec_for(vector)
        self.store = MemoryStore()
        self.saved: dict[str, MemoryStore] = {}
        self.counts: dict[str, int] = {}

    def play(self, batches: Iterable[Batch]) -> list[dict[str, Any]]:
        """Run the micro-batches and return the events."""
        events = self.clock(self.vector.declared.ready_us)
        for batch in batches:
            match batch.items:
                case (Checkpoint(name=name, at_us=at),):
                    events += self.clock(at)
                    self.saved[name] = self.store.copy()
                case (Reset(name=None, at_us=at),):
                    self.store = MemoryStore()
                    events += self.clock(at)
                case (Reset(name=str(name), at_us=at),):
                    self.store = self.saved[name].copy()
                    events += self.clock(at, resume=True)
                case items:
                    events += self.run(steps_of(items, self.spec.columns))
            if batch.restart:
                self.spec = pickle.loads(pickle.dumps(self.spec))  # noqa: S301 -- our own bytes
                self.store = self.store.copy()
        return events

    def clock(self, now: int | None, *, resume: bool = False) -> list[dict[str, Any]]:
        """Run a micro-batch that only tells the time; a time interval does not ask."""
        if now is None or self.vector.declared.ready_us is None:
            return []
        return self.run([Tick(now, resume=resume)])

    def run(self, steps: Iterable[Step]) -> list[dict[str, Any]]:
        """Run one micro-batch on a new machine and return its events."""
        outcome = KeyGroupRunner(self.spec, self.store).run(steps)
        for name, count in outcome.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        return recorded(outcome.results, outcome.rejected)
