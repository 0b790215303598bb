"""Plays a script without Spark, through the stages that the rows of a job pass.

The declaration is made by the builder; rows are checked (`memory_intake.py`), packed and put in order, and a key group
is built for every micro-batch from what is stored. One key group has all partitions: results do not depend on their
number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle

from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import BatchOutcome, Step, Watermark, in_quarantine_of
from panekeeper.framework.engine.flow.control_stream import BEFORE_ALL_PARTITIONS
from panekeeper.framework.engine.flow.ordering import to_steps
from panekeeper.framework.engine.flow.packing import PackedRow, from_segment, input_counts
from panekeeper.framework.testing.memory_intake import MemoryIntake
from panekeeper.framework.testing.results import Results, quarantined
from panekeeper.framework.testing.scripted_job import ScriptBatch, ScriptedJob, followed_watermark
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from panekeeper.framework.core.job_spec import JobSpec

_GROUP = 0


def run_in_memory(script: ScriptedJob) -> Results:
    """Play a script in memory."""
    return MemoryJob(script).play()


class MemoryJob:
    """A job of one key group. What persists between micro-batches is `store`, and what the progress of rows is.

    Attributes:
        spec: what is computed.
        store: what is stored.
    """

    def __init__(self, script: ScriptedJob) -> None:
        self._script = script
        computation = script.computation([ScriptedStream(port.columns) for port in script.ports])
        pipeline = computation._pipeline  # noqa: SLF001 -- the kit is part of the framework
        self.spec = pipeline.spec
        self._declared = cloudpickle.dumps(pipeline.spec)  # type: ignore[no-untyped-call]
        self._ports = pipeline.ports
        self._intakes = [
            MemoryIntake(port.intake, port.carried_columns, declared.arrow_columns)
            for port, declared in zip(self._ports, script.ports, strict=True)
        ]
        packers = [
            port.packer((_GROUP,), None, has_rest=intake.has_rest)
            for port, intake in zip(self._ports, self._intakes, strict=True)
        ]
        if script.has_watermarks:  # the rows make no progress of their own
            packers = [replace(packer, watermark_delay_us=None) for packer in packers]
        self._packers = packers
        self._orderings = tuple(port.ordering() for port in self._ports)
        self.store = MemoryStore()
        self._run, self._no_batch_committed = 0, True
        self._latest_us: int | None = None

    def play(self) -> Results:
        """Run all micro-batches."""
        results, packed, steps, watermark = Results(self.spec.windows), list[PackedRow](), list[Step](), None
        for batch in self._script.batches:
            if batch.is_start:
                self._run, self._no_batch_committed = self._run + 1, batch.number == 0
                self.store = self.store.copy()
            if self._script.has_watermarks or not steps:  # one that follows the rows moves between micro-batches
                watermark = self._watermark(batch)
            part = [*self._control(batch)]
            for place, rows in enumerate(batch.tables):
                part += self._pack(place, rows, batch.now_us, watermark)
            packed += part
            steps += [*self._watermark_steps(watermark), *to_steps(part, self._orderings)]
            if not batch.is_continued:
                self._add(results, batch.number, packed, self._outcome(batch.number, steps))
                packed, steps = [], []
        return results

    def _control(self, batch: ScriptBatch) -> Iterator[PackedRow]:
        """Yield the row of the control stream of a micro-batch that begins a run, or for which the clock has moved."""
        kind = "resume" if batch.is_start else "clock"
        if batch.is_start or batch.is_tick:
            yield PackedRow(_GROUP, 0, kind, None, BEFORE_ALL_PARTITIONS, batch.number, batch.now_us, None)

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

    def _outcome(self, number: int, steps: list[Step]) -> BatchOutcome:
        """Run a micro-batch with newly made objects of the user, as each batch of a job has them."""
        spec: JobSpec = cloudpickle.loads(self._declared)
        checkpoint = BatchCheckpoint(
            checkpoint=number, group=_GROUP, run=self._run, no_batch_committed=self._no_batch_committed
        )
        return self.run_group(spec, checkpoint, steps)

    def run_group(self, spec: JobSpec, checkpoint: BatchCheckpoint, steps: list[Step]) -> BatchOutcome:
        """Run a micro-batch, and write the state."""
        return KeyGroupRunner(spec, self.store, checkpoint).run(steps)

    def _add(self, results: Results, number: int, packed: list[Any], outcome: BatchOutcome) -> None:
        for window, one in outcome.parts.items():
            results.add(one.results, number, window)
        for row in packed:
            if row.kind == "rejected":
                table = from_segment(row.body)
                results.quarantine += quarantined(in_quarantine_of(self.spec, table, row.port), number)
        results.quarantine += quarantined(outcome.rejected, number)
        counts = (
            outcome.counts
            | input_counts(packed)
            | {
                "firings": outcome.firings,
                "missed_panes": outcome.missed_panes,
            }
        )
        for name in results.counts:
            results.counts[name] += counts[name]
