"""The batches of a job once more, in memory: rows as the intake has checked them in, what the log would get out.

Behind the intake all is as in the job: a job in memory (`framework/testing/memory_job.py`) runs them. Nothing is
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN
from panekeeper.framework.testing.memory_job import CheckedBatch, MemoryJob
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from panekeeper.framework.core.steps import BatchOutcome
    from panekeeper.framework.engine.flow.packing import Packer
    from panekeeper.framework.engine.flow.pipeline import Pipeline

COUNTS = ("rows_in", "admitted", "refined_late", "dropped_late", "quarantined")
"""What is counted of a batch, as the metrics table does."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A computation, and what it begins with.

    Attributes:
        pipeline: the computation, with the history of the job if it begins with its state.
        before: the batch with whose state it begins; None: with nothing.
        latest_us: the greatest event time that Spark had seen before, us; None: none, or Spark keeps no watermark.
        watermark_us: the watermark that the stored state has acted on, us; it never goes back.
        changes: how its declaration differs from the recorded one, in words.
        begins: what it begins with, in words.
    """

    pipeline: Pipeline
    before: int | None = None
    latest_us: int | None
    watermark_us: int | None = None
    changes: tuple[str, ...]
    begins: str


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What a rehearsal begins with; without any, as a new job does.

    Attributes:
        stores: what is stored of each key group, by its id.
        latest_us: the greatest event time that Spark had seen before, us; None: none, or Spark keeps no watermark.
        watermark_us: the watermark that the stored state has acted on, us; it never goes back.
    """

    stores: Mapping[int, MemoryStore]
    latest_us: int | None = None
    watermark_us: int | None = None


class Tally:
    """What batches of key groups have done, added up.

    Attributes:
        counts: where rows went, by the names of `COUNTS`.
        acted_us: the greatest watermark that they have acted on, us; None before the first.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.acted_us: int | None = None

    def add(self, outcome: BatchOutcome) -> Iterator[tuple[str, pa.Table]]:
        """Add what a batch did in a key group, and yield the rows of the log by their window, where there are some."""
        self.acted_us = max((us for us in (self.acted_us, outcome.watermark) if us is not None), default=None)
        for name in COUNTS:
            self.counts[name] += outcome.counts[name]
        for window, part in outcome.parts.items():
            if part.results is not None and part.results.num_rows:
                yield window, part.results


class Rehearsal(MemoryJob):
    """A job that is declared by a pipeline, and runs batch after batch.

    Attributes:
        results: window, empty if there is only one -> the rows of its log, with the number of their batch.
        behind: how many rows were behind the watermark of their batch.
    """

    def __init__(self, pipeline: Pipeline, packers: Sequence[Packer], beginning: Beginning) -> None:
        """Begin; `packers` are those of the ports, for the key groups that are stored."""
        stores = {group: store.copy() for group, store in beginning.stores.items()}
        latest_us, least_us = beginning.latest_us, beginning.watermark_us
        super().__init__(pipeline, packers, stores, latest_us=latest_us, least_us=least_us, sleeps=True)
        self._timers, self._tally = pipeline.uses_watermark_timer, Tally()
        self._run = RunRecord(no_batch_committed=all(store.header is None for store in stores.values()))
        self.results: dict[str, list[tuple[int, pa.Table]]] = {window: [] for window in pipeline.spec.parts}
        self.behind = 0

    def rehearse(self, batch: CheckedBatch) -> None:
        """Run a batch. Raises what an operator or an aggregate of the user's raises."""
        ran = self.run([batch], self._run)
        self.behind += sum(_behind(rows, self.reached_us) for rows in batch.tables)
        for outcome in ran.outcomes.values():
            for window, rows in self._tally.add(outcome):
                self.results[window].append((batch.number, rows))

    @property
    def counts(self) -> dict[str, int]:
        """Where rows went, by the names of `COUNTS`, added up."""
        return self._tally.counts

    @property
    def reached_us(self) -> int | None:
        """The watermark that it has come to, be it Spark's or that of the key groups, us; None before the first."""
        return self.watermark_us if self._timers else self._tally.acted_us


def _behind(rows: pa.Table, watermark_us: int | None) -> int:
    """Return how many good rows have an event time before the watermark."""
    if watermark_us is None:
        return 0
    behind: int | None = pc.sum(pc.less(rows.column(EVENT_TIME_COLUMN).cast(pa.int64()), watermark_us)).as_py()
    return behind or 0
