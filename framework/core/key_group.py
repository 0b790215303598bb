"""The machine of one key group: one micro-batch in, what follows from it out.

A machine is built anew for every batch from what the store holds and is thrown away after it; nothing else lasts.
That is why a restart is nothing special.

It decides the order of what concerns all ports of an operator: windows in port order, then its state handlers in the
order of their registration, for every method [S3].
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace

from framework.core.arrival.batch import SequenceBatch
from framework.core.job_spec import Plan
from framework.core.outcome import Outcome, joined
from framework.core.panes.batch import IntervalBatch
from framework.core.port_watermarks import Horizon
from framework.core.state_handlers import Cut, Lifecycle
from framework.core.steps import Progress, Step
from state.store import GroupStore, PortStore


class Machine:
    """Runs batches against the store of one key group.

    >>> from state.store import MemoryStore
    >>> machine = Machine(plan, MemoryStore())  # doctest: +SKIP
    >>> machine.run([Rows(table), Watermark(60_000_000)]).results  # doctest: +SKIP
    """

    def __init__(self, plan: Plan, store: GroupStore, cut: Cut | None = None) -> None:
        self._plan = plan
        self._store = store
        self._cut = cut

    def run(self, steps: Iterable[Step]) -> Outcome:
        """Do one batch, in order, and write the state. Raises `StateError` if what is stored cannot be used."""
        if not self._plan.handlers:
            return self._run(self._plan, steps, None)
        if self._cut is None:
            raise ValueError("a plan with state handlers needs to know which checkpoint this is")
        # Each group has instances of its own, and none of them outlives the batch.
        operator, handlers = copy.deepcopy((self._plan.operator, self._plan.handlers))
        plan = replace(self._plan, operator=operator, handlers=handlers)
        with closing(Lifecycle(handlers, self._store, self._cut)) as lifecycle:
            return self._run(plan, steps, lifecycle)

    def _run(self, plan: Plan, steps: Iterable[Step], lifecycle: Lifecycle | None) -> Outcome:
        windows = [_window(port, self._store) for port in plan.ports]
        if lifecycle is not None:
            lifecycle.begin([window.control for window in windows])
        horizon = Horizon(self._store, [port.port for port in plan.ports if port.paned])
        for step in steps:
            for own in horizon.advance(step) if isinstance(step, Progress) else [step]:
                windows[own.port].take(own)
        if lifecycle is not None:
            lifecycle.drain()
        outcomes = [window.save() for window in windows]
        if lifecycle is not None:
            lifecycle.checkpoint()
        return joined(plan, outcomes)


def _window(plan: Plan, store: GroupStore) -> IntervalBatch | SequenceBatch:
    """Return the window of one port, restored from its part of the store."""
    own = PortStore(store, plan.port) if plan.port else store
    return IntervalBatch(plan, own) if plan.paned else SequenceBatch(plan, own)
