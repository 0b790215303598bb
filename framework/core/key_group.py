"""One micro-batch of one key group: steps in, outcome out.

A runner is built from the store for each batch and discarded after it; only the store persists. So a restart is no
special case.

It decides the order of what concerns all ports of an operator: windows in port order, then its state handlers in the
order of their registration, for every method (docs/semantics.md section 7).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace

from panekeeper.framework.core.arrival.batch import ArrivalBatch
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.panes.batch import TimeIntervalBatch
from panekeeper.framework.core.state_handlers import BatchCheckpoint, StateHandlerCalls
from panekeeper.framework.core.steps import BatchEnd, BatchOutcome, EventTimeProgress, Step, Watermark, merge_outcomes
from panekeeper.state.records import HORIZON, HorizonRecord
from panekeeper.state.store import KeyGroupStore, PortStore

_SEGMENT = (HORIZON, 0, 0)


class PortWatermarks:
    """The greatest event times of the ports with panes, stored in one key group."""

    def __init__(self, store: KeyGroupStore, ports: Sequence[int]) -> None:
        self._store = store
        self._ports = ports

    def advance(self, step: EventTimeProgress) -> list[Watermark]:
        """Store the progress. Return the watermark for each port; none until every port has had an event time."""
        before = self._store.find(*_SEGMENT)
        record = HorizonRecord.decode(before)
        for port, us in step.max_event_times:
            record.reached[port] = max(us, record.reached.get(port, us))
        if (now := record.encode()) != before:
            self._store.write(*_SEGMENT, now)
        if not all(port in record.reached for port in self._ports):
            return []
        least = min(record.reached[port] for port in self._ports)
        return [Watermark(least, port) for port in self._ports]


class KeyGroupRunner:
    """Runs batches against the store of one key group.

    >>> from panekeeper.state.store import MemoryStore
    >>> runner = KeyGroupRunner(spec, MemoryStore())  # doctest: +SKIP
    >>> runner.run([Rows(table), Watermark(60_000_000)]).results  # doctest: +SKIP
    """

    def __init__(self, spec: JobSpec, store: KeyGroupStore, checkpoint_info: BatchCheckpoint | None = None) -> None:
        self._spec = spec
        self._store = store
        self._checkpoint_info = checkpoint_info

    def run(self, steps: Iterable[Step]) -> BatchOutcome:
        """Process one batch, in order, and write the state.

        Raises:
            StateError: the stored state cannot be used.
        """
        if not self._spec.handlers:
            return self._run(self._spec, steps, None)
        if self._checkpoint_info is None:
            raise ValueError("a job spec with state handlers needs a BatchCheckpoint")
        # Each key group has instances of its own, for one batch.
        operator, handlers = copy.deepcopy((self._spec.operator, self._spec.handlers))
        spec = replace(self._spec, operator=operator, handlers=handlers)
        with closing(StateHandlerCalls(handlers, self._store, self._checkpoint_info)) as lifecycle:
            return self._run(spec, steps, lifecycle)

    def _run(self, spec: JobSpec, steps: Iterable[Step], lifecycle: StateHandlerCalls | None) -> BatchOutcome:
        windows: list[TimeIntervalBatch | ArrivalBatch] = []
        for port in spec.ports:  # each restored from its part of the store
            store = PortStore(self._store, port.port) if port.port else self._store
            windows.append(TimeIntervalBatch(port, store) if port.has_panes else ArrivalBatch(port, store))
        if lifecycle is not None:
            lifecycle.begin([window.control for window in windows])
        horizon = PortWatermarks(self._store, [port.port for port in spec.ports if port.has_panes])
        for step in steps:
            for own in horizon.advance(step) if isinstance(step, EventTimeProgress) else [step]:
                windows[own.port].process(own)
        for port in spec.ports:
            windows[port.port].process(BatchEnd(port.port))
        if lifecycle is not None:
            lifecycle.drain()
        outcomes = [window.save() for window in windows]
        if lifecycle is not None:
            lifecycle.checkpoint()
        return merge_outcomes(spec, outcomes)
