"""Plays a script without Spark, through the stages that the rows of a job pass.

The declaration is made by the builder; rows are checked (`memory_intake.py`), packed and put in order, and each key
group is built for every micro-batch from what is stored. There are as many as `key_groups=` says; one, if it does not:
results do not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import cloudpickle

from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import BatchOutcome, Step, Watermark, in_quarantine_of
from panekeeper.framework.declarations.durations import to_datetime_if_any
from panekeeper.framework.engine.flow.control_stream import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS
from panekeeper.framework.engine.flow.ordering import to_steps
from panekeeper.framework.engine.flow.packing import PackedRow, from_segment, input_counts
from panekeeper.framework.testing.memory_intake import MemoryIntake
from panekeeper.framework.testing.results import Results, quarantined
from panekeeper.framework.testing.scripted_job import ScriptBatch, ScriptedJob, followed_watermark
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.handler import CheckpointReason
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from panekeeper.framework.core.job_spec import JobSpec


def run_in_memory(script: ScriptedJob) -> Results:
    """Play a script in memory."""
    return MemoryJob(script).play()


@dataclass(frozen=True, kw_only=True)
class MemoryBatch:
    """What a micro-batch did.

    Attributes:
        number: its number.
        packed: the rows, time and commands that came, as all key groups get them.
        steps: the same as the steps of each key group.
        checkpoint: which checkpoint it is for the state handlers of the first key group; None without such.
        outcomes: what each key group did.
    """

    number: int
    packed: Sequence[PackedRow]
    steps: Sequence[Sequence[Step]]
    checkpoint: BatchCheckpoint | None
    outcomes: Sequence[BatchOutcome]


class MemoryJob:
    """A job in memory. What persists between micro-batches is `stores`, and what the progress of rows is.

    Attributes:
        pipeline: the declared job.
        spec: what its workers need.
        stores: what is stored, by key group.
    """

    def __init__(self, script: ScriptedJob) -> None:
        """Declare the job. Raises `DeclarationError` for what a job would refuse."""
        self._script = script
        computation = script.computation([ScriptedStream(port.columns) for port in script.ports])
        self.pipeline = pipeline = computation._pipeline  # noqa: SLF001 -- the kit is part of the framework
        self.spec: JobSpec = pipeline.spec
        self._declared = cloudpickle.dumps(pipeline.spec)  # type: ignore[no-untyped-call]
        self._ports = pipeline.ports
        self._groups = range(pipeline.intake.key_groups or 1)
        self._intakes = [
            MemoryIntake(port, declared.arrow_columns, len(self._groups))
            for port, declared in zip(self._ports, script.ports, strict=True)
        ]
        packers = [
            port.packer(tuple(self._groups), None, has_rest=intake.has_rest)
            for port, intake in zip(self._ports, self._intakes, strict=True)
        ]
        if script.has_watermarks:  # the rows make no progress of their own
            packers = [replace(packer, watermark_delay_us=None) for packer in packers]
        self._packers = packers
        self._orderings = tuple(port.ordering() for port in self._ports)
        self.stores = [MemoryStore() for _ in self._groups]
        self._run, self._no_batch_committed = 0, True
        self._latest_us: int | None = None

    def play(self) -> Results:
        """Run all micro-batches."""
        results = Results(self.spec.windows)
        for batch in self.batches():
            self.add(results, batch)
        return results

    def batches(self) -> Iterator[MemoryBatch]:
        """Run the micro-batches, each when it is asked for."""
        packed, steps, watermark = list[PackedRow](), list[list[Step]]([] for _ in self._groups), None
        for batch in self._script.batches:
            if batch.is_start:
                self._run, self._no_batch_committed = self._run + 1, batch.number == 0
                self.stores = [store.copy() for store in self.stores]
            if self._script.has_watermarks or not steps[0]:  # one that follows the rows moves between micro-batches
                watermark = self._watermark(batch)
            part = [*self._control(batch)]
            for place, rows in enumerate(batch.tables):
                part += self._pack(place, rows, batch.now_us, watermark)
            packed += part
            for group, own in enumerate(steps):
                of_group = [row for row in part if row.g == group]
                own += [*self._watermark_steps(watermark), *to_steps(of_group, self._orderings)]
            if not batch.is_continued:
                outcomes = [self._outcome(group, batch, own) for group, own in enumerate(steps)]
                yield MemoryBatch(
                    number=batch.number,
                    packed=packed,
                    steps=steps,
                    checkpoint=self._checkpoint(0, batch) if self.spec.handlers else None,
                    outcomes=outcomes,
                )
                packed, steps = [], [[] for _ in self._groups]

    def _control(self, batch: ScriptBatch) -> Iterator[PackedRow]:
        """Yield the rows of the control stream for each key group: a start of the job, the clock, a flush."""
        found = [("resume" if batch.is_start else "clock", BEFORE_ALL_PARTITIONS)] * (batch.is_start or batch.is_tick)
        found += [("flush", AFTER_ALL_PARTITIONS)] * batch.is_flush
        for (kind, part), group in product(found, self._groups):
            yield PackedRow(group, 0, kind, None, part, batch.number, batch.now_us, None)

    def _watermark(self, batch: ScriptBatch) -> int | None:
        """Return the watermark before the rows of a micro-batch, us; None before the first."""
        if self._script.has_watermarks:
            return batch.watermark_us
        port = self._ports[0]
        if not port.uses_watermark_timer:
            return None
        return followed_watermark(self._latest_us, port.intake.watermark_us)

    def _watermark_steps(self, watermark: int | None) -> list[Step]:
        return (
            []
            if watermark is None
            else [Watermark(watermark, port.spec.port) for port in self._ports if port.spec.uses_event_time]
        )

    def _pack(self, place: int, rows: pa.Table, now_us: int, watermark: int | None) -> Iterator[PackedRow]:
        """Yield the rows of a port as packed rows."""
        if not rows.num_rows:
            return
        checked = self._intakes[place].check(rows, now_us)
        if checked.latest_us is not None and self._ports[place].uses_watermark_timer:
            self._latest_us = max(checked.latest_us, self._latest_us or checked.latest_us)
        before = NO_WATERMARK if watermark is None else watermark
        known = before if self._ports[place].uses_watermark_timer else None
        for batch in self._packers[place].packed(checked.table.to_batches(), part=0, watermark=known):
            yield from PackedRow.each(batch)

    def _outcome(self, group: int, batch: ScriptBatch, steps: list[Step]) -> BatchOutcome:
        """Run a micro-batch with newly made objects of the user, as each batch of a job has them."""
        return self.run_group(self.new_spec(), self._checkpoint(group, batch), steps)

    def run_group(self, spec: JobSpec, checkpoint: BatchCheckpoint, steps: list[Step]) -> BatchOutcome:
        """Run a micro-batch of the key group that the checkpoint names, and write its state."""
        return KeyGroupRunner(spec, self.stores[checkpoint.group], checkpoint).run(steps)

    def new_spec(self) -> JobSpec:
        """Return what the workers need, with newly made objects of the user."""
        found: JobSpec = cloudpickle.loads(self._declared)
        return found

    def _checkpoint(self, group: int, batch: ScriptBatch) -> BatchCheckpoint:
        """Return which checkpoint a micro-batch is for the state handlers of a key group."""
        return BatchCheckpoint(
            checkpoint=batch.number,
            group=group,
            reason=CheckpointReason.FINAL if batch.is_flush else CheckpointReason.BATCH,
            run=self._run,
            no_batch_committed=self._no_batch_committed,
        )

    def add(self, results: Results, batch: MemoryBatch) -> None:
        """Add what a micro-batch did to the results of a script."""
        reached = (one.watermark for one in batch.outcomes if one.watermark is not None)
        results.watermark = to_datetime_if_any(max(reached, default=None))
        for outcome in batch.outcomes:
            for window, one in outcome.parts.items():
                results.add(one.results, batch.number, window)
        for row in batch.packed:
            if row.kind == "rejected":
                table = from_segment(row.body or b"")
                results.quarantine += quarantined(in_quarantine_of(self.spec, table, row.port), batch.number)
        came = input_counts(batch.packed)
        for outcome in batch.outcomes:
            results.quarantine += quarantined(outcome.rejected, batch.number)
            counts = outcome.counts | dict.fromkeys(came, 0)
            counts |= {"firings": outcome.firings, "missed_panes": outcome.missed_panes}
            for name in results.counts:
                results.counts[name] += counts[name]
        for name, number in came.items():
            results.counts[name] += number
