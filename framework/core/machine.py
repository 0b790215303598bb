"""The machine of one key group: one micro-batch in, what follows from it out.

A machine is built anew for every batch from what the store holds and is thrown away after it; nothing else lasts.
That is why a restart is nothing special.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pyarrow as pa

from framework.core.answers import Aggregated, ContentSource, Outputs
from framework.core.geometry import Geometry
from framework.core.interval import Answer, Contents, IntervalWindow
from framework.core.keys import Keys
from framework.core.operating import Operating
from framework.core.pending import Firings
from framework.core.plan import Plan
from framework.core.rowlog import RowLog
from framework.core.slices import Slices
from framework.core.steps import Flush, Mark, Rows, Step, Tick, Watermark
from state.records import NO_WATERMARK, IntervalRecord
from state.store import GroupStore


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one batch did in one key group.

    Attributes:
        results: rows of the result log, or None.
        rejected: rows that join no window (`framework.core.plan.REJECTED`), or None.
        counts: where the rows went, by the fields of `framework.core.interval.Counts`.
        due: the watermark (us) at which this group next has something to do; None if nothing is open.
        open_panes: panes that still take rows.
        watermark: the watermark acted on (us), None before the first.
    """

    results: pa.Table | None
    rejected: pa.Table | None
    counts: dict[str, int]
    due: int | None
    open_panes: int
    watermark: int | None


class Machine:
    """Runs batches against the store of one key group.

    >>> from state.store import MemoryStore
    >>> machine = Machine(plan, MemoryStore())  # doctest: +SKIP
    >>> machine.run([Rows(table), Watermark(60_000_000)]).results  # doctest: +SKIP
    """

    def __init__(self, plan: Plan, store: GroupStore) -> None:
        self._plan = plan
        self._store = store

    def run(self, steps: Iterable[Step]) -> Outcome:
        """Do one batch, in order, and write the state. Raises `StateError` if what is stored cannot be used."""
        before = self._store.read_header()
        record = IntervalRecord.decode(before)
        keys, geometry = Keys(self._plan.keys), Geometry.of(self._plan.window)
        outputs = Outputs(self._plan, keys, geometry)
        contents, answer = self._parts(record, keys, geometry, outputs)
        firings = Firings(self._store, keys)
        window = IntervalWindow(self._plan.window, record, keys, contents, answer, firings)
        for step in steps:
            _take(window, step)
        header = window.save().encode()
        if header != before:
            self._store.write_header(header)
        return Outcome(
            results=outputs.results,
            rejected=outputs.rejected,
            counts=asdict(window.counts),
            due=window.due(),
            open_panes=len(record.panes),
            watermark=None if record.watermark == NO_WATERMARK else record.watermark,
        )

    def _parts(
        self, record: IntervalRecord, keys: Keys, geometry: Geometry, outputs: Outputs
    ) -> tuple[Contents, Answer]:
        plan = self._plan
        if plan.aggregates is None:
            if plan.operator is None:
                raise ValueError("a plan needs aggregates or an operator")
            log = RowLog(keys, geometry, self._store, record)
            return log, Operating(plan.operator, plan.output, log, keys, geometry, outputs)
        accumulators = [aggregate.bind(plan.columns) for aggregate in plan.aggregates.values()]
        if any(aggregate.needs_content for aggregate in plan.aggregates.values()):
            log = RowLog(keys, geometry, self._store, record)
            return log, Aggregated(ContentSource(log, accumulators), outputs)
        slices = Slices(accumulators, keys, geometry, self._store, record)
        return slices, Aggregated(slices, outputs)


def _take(window: IntervalWindow, step: Step) -> None:
    match step:
        case Rows(table):
            if table.num_rows:
                window.on_rows(table)
        case Watermark(us):
            window.on_watermark(us)
        case Flush():
            window.on_flush()
        case Tick() | Mark():
            pass  # a time interval knows neither the wall clock nor punctuation [semantics 6.3]
