"""Plays a vector on the core alone: a key group, a store in memory, no Spark.

The key group is built for every micro-batch, as in a real job. A restart keeps the bytes of the store and nothing else:
the job spec, too, is read back from its pickle.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Step, Tick
from panekeeper.framework.testing.batching import VectorBatch
from panekeeper.framework.testing.recorder import job_spec_for, read_events
from panekeeper.framework.testing.steps import items_to_steps
from panekeeper.framework.testing.vector import CheckpointItem, ResetItem, Vector
from panekeeper.state.store import MemoryStore


class MemoryRun:
    """One vector on the core.

    Attributes:
        vector: the parsed vector.
        spec: its job spec.
        store: the stored state, which a restart would read.
        saved: the stores of named checkpoints.
        counts: rows by what became of them, summed over all batches.
    """

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self.spec = job_spec_for(vector)
        self.store = MemoryStore()
        self.saved: dict[str, MemoryStore] = {}
        self.counts: dict[str, int] = {}

    def play(self, batches: Iterable[VectorBatch]) -> list[dict[str, Any]]:
        """Run the micro-batches and return the events."""
        events = self.clock(self.vector.declared.ready_us)
        for batch in batches:
            match batch.items:
                case (CheckpointItem(name=name, at_us=at),):
                    events += self.clock(at)
                    self.saved[name] = self.store.copy()
                case (ResetItem(name=None, at_us=at),):
                    self.store = MemoryStore()
                    events += self.clock(at)
                case (ResetItem(name=str(name), at_us=at),):
                    self.store = self.saved[name].copy()
                    events += self.clock(at, resume=True)
                case items:
                    events += self.run(items_to_steps(items, self.spec.columns))
            if batch.restart:
                self.spec = pickle.loads(pickle.dumps(self.spec))  # noqa: S301 -- our own bytes
                self.store = self.store.copy()
        return events

    def clock(self, now: int | None, *, resume: bool = False) -> list[dict[str, Any]]:
        """Run a micro-batch with only a tick; none for a time interval, which has no clock."""
        if now is None or self.vector.declared.ready_us is None:
            return []
        return self.run([Tick(now, resume=resume)])

    def run(self, steps: Iterable[Step]) -> list[dict[str, Any]]:
        """Run one micro-batch in a newly built key group and return its events."""
        outcome = KeyGroupRunner(self.spec, self.store).run(steps)
        for name, count in outcome.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        return read_events(outcome.results, outcome.rejected)
