"""A job in memory: batch after batch, through the stages behind the intake. They are those of a job on Spark.

Rows come as an intake has checked them in. Where they are from is no matter here: a script (`run_in_memory.py`), or the
recorded batches of a job that a change is tried on. What persists between micro-batches are the stores of the key
groups, and how far the event times have come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from panekeeper.framework.core.group_batch import BatchRunner, GroupBatch
from panekeeper.framework.core.ordering import PortOrdering
from panekeeper.framework.core.packed_rows import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS, PackedRow
from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN
from panekeeper.framework.engine.flow.spark_watermark import is_reached, watermark_behind
from panekeeper.state.checkpoint.control_files import COMMANDS
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.core.steps import BatchOutcome
    from panekeeper.framework.engine.flow.packing import Packer
    from panekeeper.framework.engine.flow.pipeline import Pipeline


class Control(NamedTuple):
    """A row of the control stream."""

    kind: str
    us: int
    number: int


@dataclass(frozen=True, kw_only=True)
class CheckedBatch:
    """What a micro-batch has read, or a part of one: what comes next in it, after what is before.

    Attributes:
        number: of the micro-batch.
        tables: the rows of each port, as a `Packer` takes them; without rows in any form.
        control: the time and the commands.
        watermark_us: the watermark before the rows, us, where the batches bring it; None: none yet, or it follows the
            rows.
    """

    number: int
    tables: tuple[pa.Table, ...]
    control: tuple[Control, ...] = ()
    watermark_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryBatch:
    """What a micro-batch did, by the ids of the key groups that were run.

    Attributes:
        number: its number.
        groups: what each got.
        outcomes: what each did.
    """

    number: int
    groups: Mapping[int, GroupBatch]
    outcomes: Mapping[int, BatchOutcome]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What every key group runs. Picklable; each batch gets the user's objects anew, as a batch of a job on Spark does.

    Attributes:
        pickled: the windows, and what they compute.
        orderings: by which the rows of each port are put in order.
    """

    pickled: bytes
    orderings: tuple[PortOrdering, ...]

    @classmethod
    def of(cls, pipeline: Pipeline) -> Declared:
        """Return what a computation declares."""
        runner = pipeline.runner()
        return cls(pickled=cloudpickle.dumps(runner.spec), orderings=runner.orderings)  # type: ignore[no-untyped-call]

    @cached_property
    def runner(self) -> BatchRunner:
        """What puts batches in order; its own objects of the user run none."""
        return BatchRunner(spec=self.new_spec(), orderings=self.orderings)

    def new_spec(self) -> JobSpec:
        """Return what the workers need, with newly made objects of the user."""
        spec: JobSpec = cloudpickle.loads(self.pickled)
        return spec


class MemoryGroup:
    """One key group in memory, batch after batch. Others do not matter to it.

    Attributes:
        store: what is stored; batches change it.
    """

    def __init__(self, declared: Declared, group: int, store: MemoryStore) -> None:
        """Begin with what is stored."""
        self.store = store
        self._declared, self._group = declared, group
        self._due: int | None = NO_WATERMARK

    def in_order(
        self, packed: Iterable[PackedRow], *, number: int, watermark_us: int | None, run: RunRecord
    ) -> GroupBatch:
        """Return what came as the batch that it processes; arguments as for `BatchRunner.in_order`."""
        runner = self._declared.runner
        return runner.in_order(packed, number=number, group=self._group, watermark_us=watermark_us, run=run)

    def wakes(self, packed: Sequence[PackedRow], watermark_us: int | None) -> bool:
        """Return whether Spark would run it: something comes for it, or its timer fires at this watermark."""
        return bool(packed) or is_reached(self._due, watermark_us)

    def run(self, batch: GroupBatch) -> BatchOutcome:
        """Process a batch, and write the state."""
        outcome = batch.run(self._declared.new_spec(), self.store)
        self._due = outcome.due_watermark_us
        return outcome


class MemoryJob:
    """A job in memory.

    Attributes:
        groups: the key groups, by their ids.
        latest_us: the greatest event time of a good row until now, us; None: none, or Spark keeps no watermark.
        watermark_us: Spark's watermark of the last batch, us; None before the first.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        packers: Sequence[Packer],
        stores: Mapping[int, MemoryStore],
        *,
        latest_us: int | None = None,
        least_us: int | None = None,
        follows_rows: bool = True,
        sleeps: bool = False,
    ) -> None:
        """Begin.

        Args:
            pipeline: the declared job.
            packers: those of the ports, for the key groups.
            stores: what is stored of each key group, by its id.
            latest_us: as the attribute.
            least_us: the watermark that the stored state has acted on, us; it never goes back.
            follows_rows: whether Spark's watermark follows the rows, if it keeps one; else batches bring it.
            sleeps: whether a key group is run only if something comes for it or is due, as on Spark; else in each
                batch.
        """
        self._pipeline, self._packers, self._ports = pipeline, packers, pipeline.ports
        self._follows = follows_rows and pipeline.uses_watermark_timer
        self._declared = Declared.of(pipeline)
        self.groups = {group: MemoryGroup(self._declared, group, store) for group, store in stores.items()}
        self.latest_us, self._least_us, self._sleeps = latest_us, least_us, sleeps
        self.watermark_us: int | None = None

    @property
    def stores(self) -> dict[int, MemoryStore]:
        """What is stored of each key group, by its id."""
        return {number: group.store for number, group in self.groups.items()}

    def run(self, parts: Iterable[CheckedBatch], run: RunRecord) -> MemoryBatch:
        """Run a micro-batch that has come in one part or several. Raises what code of the user's raises.

        `run` is the run of the job, for state handlers.
        """
        if self._follows:
            self.watermark_us = followed_watermark(self._pipeline, self.latest_us, self._least_us)
        groups, number = dict[int, GroupBatch](), 0
        for part in parts:
            number, watermark = part.number, self.watermark_us if self._follows else part.watermark_us
            packed = {group: control_of(part.control, group) for group in self.groups}
            for port, rows in enumerate(part.tables):
                for row in self._pack(port, rows, watermark) if rows.num_rows else ():
                    packed[row.g].append(row)
            for group, own in packed.items():
                if self._sleeps and not self.groups[group].wakes(own, watermark):
                    continue
                came = self.groups[group].in_order(own, number=number, watermark_us=watermark, run=run)
                groups[group] = groups[group].followed_by(came) if group in groups else came
            self._note_latest(part.tables[0])
        outcomes = {group: self.run_group(group, batch) for group, batch in groups.items()}
        return MemoryBatch(number=number, groups=groups, outcomes=outcomes)

    def run_group(self, group: int, batch: GroupBatch) -> BatchOutcome:
        """Run a micro-batch of one key group, and write its state."""
        return self.groups[group].run(batch)

    def new_spec(self) -> JobSpec:
        """Return what the workers need, with newly made objects of the user."""
        return self._declared.new_spec()

    def _note_latest(self, rows: pa.Table) -> None:
        """Note how far the event times of the only port have come."""
        if self._follows and rows.num_rows and (latest := latest_of(rows)) is not None:
            self.latest_us = max(latest, self.latest_us or latest)

    def _pack(self, port: int, rows: pa.Table, watermark: int | None) -> Iterator[PackedRow]:
        """Yield the rows of a port as packed rows."""
        before = NO_WATERMARK if watermark is None else watermark
        known = before if self._ports[port].uses_watermark_timer else None
        for batch in self._packers[port].packed(rows.to_batches(), part=0, watermark=known):
            yield from PackedRow.each(batch)


def followed_watermark(pipeline: Pipeline, latest_us: int | None, least_us: int | None) -> int | None:
    """Return the watermark that Spark has behind rows up to an event time, us; `least_us` is one that it has had."""
    watermark_us = watermark_behind(latest_us, pipeline.intake.watermark_us)
    return max((us for us in (watermark_us, least_us) if us is not None), default=None)


def control_of(control: Iterable[Control], group: int) -> list[PackedRow]:
    """Return the control rows of a batch as a key group gets them."""
    rows = []
    for kind, us, number in control:
        part = AFTER_ALL_PARTITIONS if kind in COMMANDS else BEFORE_ALL_PARTITIONS
        rows.append(PackedRow(group, 0, kind, None, part, number, us, None))
    return rows


def latest_of(rows: pa.Table) -> int | None:
    """Return the greatest event time of the good rows, us; None without one."""
    latest: int | None = pc.max(rows.column(EVENT_TIME_COLUMN).cast(pa.int64())).as_py()
    return latest
