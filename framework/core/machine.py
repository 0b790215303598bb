"""The machine of one key group: one micro-batch in, what follows from it out.

A machine is built anew for every batch from what the store holds and is thrown away after it; nothing else lasts.
That is why a restart is nothing special.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from framework.core.lifecycle import Cut, Lifecycle
from framework.core.plan import Plan
from framework.core.steps import Step
from framework.windows import TimeInterval
from state.store import GroupStore


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one batch did in one key group.

    Attributes:
        results: rows of the result log, or None.
        rejected: rows that join no window (`framework.core.plan.REJECTED`), or None.
        counts: where the rows went: rows_in is the sum of admitted, refined_late, dropped_late and outside.
        due: the watermark (us) at which this group next has something to do; None if nothing is open.
        due_at: the wall-clock instant (us) at which something happens by itself; None if nothing will.
        late_us: how long after its instant the most overdue wall-clock work of this batch was done; None if none was.
        open_panes: panes that still take rows; live partitions, for a window in arrival order.
        watermark: the watermark acted on (us), None before the first.
        tuples: how many tuples are kept; None where only partial results are.
        outage: what the first tick after the process was down did (`sequence.tally`); None in a batch without one.
    """

    results: pa.Table | None
    rejected: pa.Table | None
    counts: dict[str, int]
    due: int | None = None
    due_at: int | None = None
    late_us: int | None = None
    open_panes: int = 0
    watermark: int | None = None
    tuples: int | None = None
    outage: dict[str, int] | None = None


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
        if isinstance(self._plan.window, TimeInterval):
            from framework.core.interval_batch import run_interval as run
        else:
            from framework.core.sequence.batch import run_sequence as run
        if not self._plan.handlers:
            return run(self._plan, self._store, steps)
        if self._cut is None:
            raise ValueError("a plan with state handlers needs to know which checkpoint this is")
        # Each group has instances of its own, and none of them outlives the batch.
        operator, handlers = copy.deepcopy((self._plan.operator, self._plan.handlers))
        plan = replace(self._plan, operator=operator, handlers=handlers)
        lifecycle = Lifecycle(handlers, self._store, self._cut)
        with closing(lifecycle):
            return run(plan, self._store, steps, lifecycle)
