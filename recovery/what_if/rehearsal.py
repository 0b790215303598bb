"""The batches of a job once more, in memory: rows as the intake has checked them in, what the log would get out.

The stages behind the intake are those of the job: packing, order, key groups. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.engine.flow.control_stream import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS
from panekeeper.framework.engine.flow.ordering import to_steps, watermark_step
from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN, PackedRow, input_counts
from panekeeper.framework.engine.flow.processor import ceil_ms
from panekeeper.state.checkpoint.control_files import CHECKPOINT_COMMANDS
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from panekeeper.framework.engine.flow.packing import Packer
    from panekeeper.framework.engine.flow.pipeline import Pipeline

COUNTS = ("rows_in", "admitted", "refined_late", "dropped_late", "quarantined")
"""What is counted of a batch, as the metrics table does."""


class Control(NamedTuple):
    """A row of the control stream."""

    kind: str
    us: int
    number: int


@dataclass(frozen=True, kw_only=True)
class CheckedBatch:
    """What a batch has read.

    Attributes:
        number: of the batch.
        tables: the rows of each port, as a `Packer` takes them.
        control: the time and the commands.
    """

    number: int
    tables: tuple[pa.Table, ...]
    control: tuple[Control, ...] = ()


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


class Rehearsal:
    """A job that is declared by a pipeline, and runs batch after batch.

    Attributes:
        results: the rows of the log, with the number of their batch.
        counts: where rows went, by the names of `COUNTS`, added up.
        watermark_us: Spark's watermark of the last batch, us; None before the first.
        latest_us: the greatest event time that Spark has seen, us; None: none.
        stores: what is stored of each key group, by its id.
        behind: how many rows were behind the watermark of their batch.
    """

    def __init__(self, pipeline: Pipeline, packers: tuple[Packer, ...], beginning: Beginning) -> None:
        """Begin; `packers` are those of the ports, for the key groups that are stored."""
        self._spec = pipeline.spec
        self._declared = cloudpickle.dumps(pipeline.spec)  # type: ignore[no-untyped-call]
        self._ports = pipeline.ports
        self._packers = packers
        self._orderings = tuple(port.ordering() for port in self._ports)
        self._timers = pipeline.uses_watermark_timer
        self._delay_ms = -(-pipeline.intake.watermark_us // 1000)
        self.stores = {group: store.copy() for group, store in beginning.stores.items()}
        self._due: dict[int, int | None] = dict.fromkeys(self.stores, NO_WATERMARK)
        self.latest_us, self._floor_us = beginning.latest_us, beginning.watermark_us
        self._is_new = all(store.header is None for store in self.stores.values())
        self.watermark_us: int | None = None
        self._acted_us: int | None = None
        self.results: list[tuple[int, pa.Table]] = []
        self.counts = dict.fromkeys(COUNTS, 0)
        self.behind = 0

    def run(self, batch: CheckedBatch) -> None:
        """Run a batch. Raises what an operator or an aggregate of the user's raises."""
        self.watermark_us = self._watermark() if self._timers else None
        self.behind += sum(_behind(rows, self.reached_us) for rows in batch.tables)
        packed: dict[int, list[PackedRow]] = {}
        for row in chain(self._control(batch), *(self._pack(*one) for one in enumerate(batch.tables))):
            packed.setdefault(row.g, []).append(row)
        for group in self.stores:
            if group in packed or self._is_due(group):
                self._run_group(batch.number, group, packed.get(group, []))
        if self._timers and (latest := latest_of(batch.tables[0])) is not None:
            self.latest_us = max(latest, self.latest_us or latest)

    @property
    def reached_us(self) -> int | None:
        """The watermark that it has come to, be it Spark's or that of the key groups, us; None before the first."""
        return self.watermark_us if self._timers else self._acted_us

    def _watermark(self) -> int | None:
        """Return the watermark that Spark has behind the rows so far, with the declared delay."""
        found = None
        if self.latest_us is not None and (ms := self.latest_us // 1000 - self._delay_ms) > 0:
            found = ms * 1000
        return max((us for us in (found, self._floor_us) if us is not None), default=None)

    def _control(self, batch: CheckedBatch) -> Iterator[PackedRow]:
        for kind, us, number in batch.control:
            is_command = kind in (*CHECKPOINT_COMMANDS, "flush")
            part = AFTER_ALL_PARTITIONS if is_command else BEFORE_ALL_PARTITIONS
            yield from (PackedRow(group, 0, kind, None, part, number, us, None) for group in self.stores)

    def _pack(self, port: int, rows: pa.Table) -> Iterator[PackedRow]:
        before = NO_WATERMARK if self.watermark_us is None else self.watermark_us
        known = before if self._ports[port].uses_watermark_timer else None
        for batch in self._packers[port].packed(rows.to_batches(), part=0, watermark=known):
            yield from PackedRow.each(batch)

    def _is_due(self, group: int) -> bool:
        """Return whether a timer of Spark's runs a group that has no rows."""
        due = self._due[group]
        return due is not None and self.watermark_us is not None and ceil_ms(due) * 1000 <= self.watermark_us

    def _run_group(self, number: int, group: int, packed: list[PackedRow]) -> None:
        spec = cloudpickle.loads(self._declared)
        checkpoint = BatchCheckpoint(checkpoint=number, group=group, run=1, no_batch_committed=self._is_new)
        moved = [] if self.watermark_us is None else watermark_step(self.watermark_us // 1000)
        steps = [*moved, *to_steps(packed, self._orderings)]
        outcome = KeyGroupRunner(spec, self.stores[group], checkpoint if spec.handlers else None).run(steps)
        self._due[group] = outcome.due_watermark_us
        if outcome.watermark is not None:
            self._acted_us = max(outcome.watermark, self._acted_us or outcome.watermark)
        counts = outcome.counts | input_counts(packed)
        for name in COUNTS:
            self.counts[name] += counts[name]
        if outcome.results is not None and outcome.results.num_rows:
            self.results.append((number, outcome.results))


def latest_of(rows: pa.Table) -> int | None:
    """Return the greatest event time of the good rows, us; None without one."""
    latest: int | None = pc.max(rows.column(EVENT_TIME_COLUMN).cast(pa.int64())).as_py()
    return latest


def _behind(rows: pa.Table, watermark_us: int | None) -> int:
    """Return how many good rows have an event time before the watermark."""
    if watermark_us is None:
        return 0
    found: int | None = pc.sum(pc.less(rows.column(EVENT_TIME_COLUMN).cast(pa.int64()), watermark_us)).as_py()
    return found or 0
