"""The batches of a job once more, in memory: rows as the intake has checked them in, what the log would get out.

The stages behind the intake are those of the job: packing, order, key groups. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from panekeeper.framework.testing.scripted_job import followed_watermark
from panekeeper.state.checkpoint.control_files import CHECKPOINT_COMMANDS
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from panekeeper.framework.engine.flow.ordering import PortOrdering
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


class GroupRehearsal:
    """One key group, batch after batch. Others do not matter to it."""

    def __init__(self, rehearsed: Rehearsed, group: int, store: MemoryStore) -> None:
        """Begin with what is stored, which is changed."""
        self._rehearsed, self._group, self.store = rehearsed, group, store
        self._due: int | None = NO_WATERMARK
        self.counts = dict.fromkeys(COUNTS, 0)
        self.acted_us: int | None = None

    def run(self, number: int, watermark_us: int | None, packed: Sequence[PackedRow]) -> Iterator[tuple[str, pa.Table]]:
        """Run a batch; yield the rows of the log, by their window, if there are any.

        `watermark_us` is Spark's; None: it keeps none, or has none yet.
        """
        due = self._due is not None and watermark_us is not None and ceil_ms(self._due) * 1000 <= watermark_us
        if not (packed or due):  # no timer of Spark's runs it
            return
        spec = cloudpickle.loads(self._rehearsed.declared)
        is_new = self._rehearsed.is_new
        checkpoint = BatchCheckpoint(checkpoint=number, group=self._group, run=1, no_batch_committed=is_new)
        moved = [] if watermark_us is None else watermark_step(watermark_us // 1000)
        steps = [*moved, *to_steps(packed, self._rehearsed.orderings)]
        outcome = KeyGroupRunner(spec, self.store, checkpoint if spec.handlers else None).run(steps)
        self._due = outcome.due_watermark_us
        self.acted_us = max((us for us in (self.acted_us, outcome.watermark) if us is not None), default=None)
        counts = outcome.counts | input_counts(packed)
        for name in COUNTS:
            self.counts[name] += counts[name]
        for window, one in outcome.parts.items():
            if one.results is not None and one.results.num_rows:
                yield window, one.results


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """What is run by each key group. Picklable; sent to the workers, where it runs on Spark.

    Attributes:
        declared: the windows and what they compute, pickled: each batch gets them anew, as a batch of the job does.
        orderings: by which the rows of each port are put in order.
        is_new: whether nothing is stored yet.
    """

    declared: bytes
    orderings: tuple[PortOrdering, ...]
    is_new: bool

    @classmethod
    def of(cls, pipeline: Pipeline, *, is_new: bool) -> Rehearsed:
        """Return that of a computation."""
        declared = cloudpickle.dumps(pipeline.spec)  # type: ignore[no-untyped-call]
        return cls(declared=declared, orderings=tuple(port.ordering() for port in pipeline.ports), is_new=is_new)


class Rehearsal:
    """A job that is declared by a pipeline, and runs batch after batch.

    Attributes:
        results: window, empty if there is only one -> the rows of its log, with the number of their batch.
        watermark_us: Spark's watermark of the last batch, us; None before the first.
        latest_us: the greatest event time that Spark has seen, us; None: none.
        behind: how many rows were behind the watermark of their batch.
    """

    def __init__(self, pipeline: Pipeline, packers: tuple[Packer, ...], beginning: Beginning) -> None:
        """Begin; `packers` are those of the ports, for the key groups that are stored."""
        is_new = all(store.header is None for store in beginning.stores.values())
        rehearsed = Rehearsed.of(pipeline, is_new=is_new)
        self._pipeline, self._packers = pipeline, packers
        self._ports, self._timers = pipeline.ports, pipeline.uses_watermark_timer
        self._groups = {one: GroupRehearsal(rehearsed, one, store.copy()) for one, store in beginning.stores.items()}
        self.latest_us, self._floor_us = beginning.latest_us, beginning.watermark_us
        self.watermark_us: int | None = None
        self.results: dict[str, list[tuple[int, pa.Table]]] = {window: [] for window in pipeline.spec.parts}
        self.behind = 0

    def run(self, batch: CheckedBatch) -> None:
        """Run a batch. Raises what an operator or an aggregate of the user's raises."""
        if self._timers:
            self.watermark_us = watermark_behind(self._pipeline, self.latest_us, self._floor_us)
        self.behind += sum(_behind(rows, self.reached_us) for rows in batch.tables)
        packed: dict[int, list[PackedRow]] = {group: control_of(batch.control, group) for group in self._groups}
        for row in chain.from_iterable(self._pack(*one) for one in enumerate(batch.tables)):
            packed[row.g].append(row)
        for number, group in self._groups.items():
            for window, rows in group.run(batch.number, self.watermark_us, packed[number]):
                self.results[window].append((batch.number, rows))
        if self._timers and (latest := latest_of(batch.tables[0])) is not None:
            self.latest_us = max(latest, self.latest_us or latest)

    @property
    def counts(self) -> dict[str, int]:
        """Where rows went, by the names of `COUNTS`, added up."""
        return {name: sum(one.counts[name] for one in self._groups.values()) for name in COUNTS}

    @property
    def stores(self) -> dict[int, MemoryStore]:
        """What is stored of each key group, by its id."""
        return {number: group.store for number, group in self._groups.items()}

    @property
    def reached_us(self) -> int | None:
        """The watermark that it has come to, be it Spark's or that of the key groups, us; None before the first."""
        acted = (one.acted_us for one in self._groups.values() if one.acted_us is not None)
        return self.watermark_us if self._timers else max(acted, default=None)

    def _pack(self, port: int, rows: pa.Table) -> Iterator[PackedRow]:
        before = NO_WATERMARK if self.watermark_us is None else self.watermark_us
        known = before if self._ports[port].uses_watermark_timer else None
        for batch in self._packers[port].packed(rows.to_batches(), part=0, watermark=known):
            yield from PackedRow.each(batch)


def watermark_behind(pipeline: Pipeline, latest_us: int | None, floor_us: int | None) -> int | None:
    """Return the watermark that Spark has behind rows up to an event time, us; `floor_us` is one that it has had."""
    found = followed_watermark(latest_us, pipeline.intake.watermark_us)
    return max((us for us in (found, floor_us) if us is not None), default=None)


def control_of(control: Iterable[Control], group: int) -> list[PackedRow]:
    """Return the control rows of a batch as a key group gets them."""
    found = []
    for kind, us, number in control:
        is_command = kind in (*CHECKPOINT_COMMANDS, "flush")
        part = AFTER_ALL_PARTITIONS if is_command else BEFORE_ALL_PARTITIONS
        found.append(PackedRow(group, 0, kind, None, part, number, us, None))
    return found


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
