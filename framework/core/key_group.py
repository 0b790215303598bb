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
from typing import Protocol

from panekeeper.framework.core.arrival.batch import ArrivalBatch
from panekeeper.framework.core.by_row.batch import SlidingByRowBatch
from panekeeper.framework.core.common_watermark import CommonWatermark
from panekeeper.framework.core.event_time_batch import EventTimeBatch
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.joins.panes import JoinedPanesBatch
from panekeeper.framework.core.joins.within import WithinBatch
from panekeeper.framework.core.panes.batch import TimeIntervalBatch
from panekeeper.framework.core.repeats import Repeats
from panekeeper.framework.core.sessions.batch import SessionBatch
from panekeeper.framework.core.several_windows import SeveralWindowsBatch
from panekeeper.framework.core.state_handlers import BatchCheckpoint, StateHandlerCalls
from panekeeper.framework.core.steps import (
    BatchEnd,
    BatchOutcome,
    EventTimeProgress,
    PortStep,
    Step,
    Tick,
    merge_outcomes,
)
from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.declarations.windows import Session, SlidingByRow
from panekeeper.state.store import KeyGroupStore, PortStore


class WindowBatch(Protocol):
    """A window of one port, or the join of two, for one batch: loaded when it is made, stored by `save`."""

    def process(self, step: PortStep) -> None:
        """Process one step; one that does not concern this kind of window changes nothing."""
        ...

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        ...


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
        join = None if spec.join is None else _join_of(spec, self._store)
        # Each restored from its part of the store.
        windows = [_batch_of(port, self._part(port)) for port in spec.ports] if join is None else []
        if lifecycle is not None:
            lifecycle.begin([window.control for window in windows])
        common = CommonWatermark(self._store, {port.port: port.idle for port in spec.ports if port.uses_event_time})
        repeats = {
            port.port: Repeats(port, self._part(port), window)
            for port in spec.ports
            if port.dedupe is not None and not isinstance(window := join or windows[port.port], ArrivalBatch)
        }
        for step in steps:
            if not isinstance(step, EventTimeProgress):
                ids = repeats.get(step.port)
                (join or windows[step.port]).process(step if ids is None else ids.without(step))
            if isinstance(step, EventTimeProgress | Tick):
                for watermark in common.advance(step):
                    (join or windows[watermark.port]).process(watermark)
        for port in spec.ports:
            (join or windows[port.port]).process(BatchEnd(port.port))
        if lifecycle is not None:
            lifecycle.drain()
        every: Sequence[WindowBatch] = windows if join is None else [join]
        outcomes = [window.save() for window in every]
        repeated = sum(ids.save() for ids in repeats.values())
        common.save()
        if lifecycle is not None:
            lifecycle.checkpoint()
        outcome = merge_outcomes(spec, outcomes)
        due = [us for us in (outcome.due_us, common.due_us(outcome.due_watermark_us)) if us is not None]
        rows_in = outcome.counts["rows_in"] + repeated
        counts = outcome.counts | {"rows_in": rows_in, "repeated": repeated}
        return replace(outcome, counts=counts, due_us=min(due, default=None))

    def _part(self, port: JobSpec) -> KeyGroupStore:
        return PortStore(self._store, port.port) if port.port else self._store


def _batch_of(port: JobSpec, store: KeyGroupStore) -> EventTimeBatch | SeveralWindowsBatch | ArrivalBatch:
    if port.windows:
        return SeveralWindowsBatch(port, store, _event_time_batch_of)
    return _event_time_batch_of(port, store) if port.has_panes else ArrivalBatch(port, store)


def _event_time_batch_of(spec: JobSpec, store: KeyGroupStore) -> EventTimeBatch:
    if isinstance(spec.window, SlidingByRow):
        return SlidingByRowBatch(spec, store)
    return SessionBatch(spec, store) if isinstance(spec.window, Session) else TimeIntervalBatch(spec, store)


def _join_of(spec: JobSpec, store: KeyGroupStore) -> WithinBatch | JoinedPanesBatch:
    return WithinBatch(spec, store) if isinstance(spec.window, Within) else JoinedPanesBatch(spec, store)
