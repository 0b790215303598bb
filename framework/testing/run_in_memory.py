"""Plays a script without Spark, through the stages that the rows of a job pass.

The declaration is made by the builder; rows are checked (`memory_intake.py`), and run by a job in memory
(`memory_job.py`), whose key groups are built for every micro-batch from what is stored. There are as many as
`key_groups=` says; one, if it does not: results do not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from panekeeper.framework.declarations.durations import to_datetime_if_any
from panekeeper.framework.testing.memory_intake import MemoryIntake
from panekeeper.framework.testing.memory_job import CheckedBatch, Control, MemoryBatch, MemoryJob
from panekeeper.framework.testing.results import Results, quarantined
from panekeeper.framework.testing.scripted_job import ScriptBatch, ScriptedJob
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from panekeeper.framework.core.job_spec import JobSpec


def run_in_memory(script: ScriptedJob) -> Results:
    """Play a script in memory."""
    return JobOfScript(script).play()


class JobOfScript(MemoryJob):
    """The job of a script, in memory.

    Attributes:
        pipeline: the declared job.
        spec: what its workers need.
    """

    def __init__(self, script: ScriptedJob) -> None:
        """Declare the job. Raises `DeclarationError` for what a job would refuse."""
        self._script = script
        computation = script.computation([ScriptedStream(port.columns) for port in script.ports])
        self.pipeline = pipeline = computation._pipeline  # noqa: SLF001 -- the kit is part of the framework
        self.spec: JobSpec = pipeline.spec
        ids = tuple(range(pipeline.intake.key_groups or 1))
        self._intakes = [
            MemoryIntake(port, declared.arrow_columns, len(ids))
            for port, declared in zip(pipeline.ports, script.ports, strict=True)
        ]
        packers = [
            port.packer(ids, None, has_rest=intake.has_rest)
            for port, intake in zip(pipeline.ports, self._intakes, strict=True)
        ]
        if script.has_watermarks:  # the rows make no progress of their own
            packers = [replace(packer, watermark_delay_us=None) for packer in packers]
        stores = {group: MemoryStore() for group in ids}
        super().__init__(pipeline, packers, stores, follows_rows=not script.has_watermarks)

    def play(self) -> Results:
        """Run all micro-batches."""
        results = Results(self.spec.windows)
        for batch in self.batches():
            self.add(results, batch)
        return results

    def batches(self) -> Iterator[MemoryBatch]:
        """Run the micro-batches, each when it is asked for."""
        parts, run = list[CheckedBatch](), RunRecord(number=0)
        for batch in self._script.batches:
            if batch.is_start:
                run = RunRecord(number=run.number + 1, no_batch_committed=batch.number == 0)
                for group in self.groups.values():
                    group.store = group.store.copy()
            parts.append(self._checked(batch))
            if not batch.is_continued:
                yield self.run(parts, run)
                parts = []

    def _checked(self, batch: ScriptBatch) -> CheckedBatch:
        """Return a micro-batch with its rows as the intake of a job has them."""
        control = [Control("resume" if batch.is_start else "clock", batch.now_us, batch.number)]
        control = control * (batch.is_start or batch.is_tick)
        control += [Control("flush", batch.now_us, batch.number)] * batch.is_flush
        return CheckedBatch(
            number=batch.number,
            tables=tuple(
                self._check(port, rows, batch.now_us) if rows.num_rows else rows
                for port, rows in enumerate(batch.tables)
            ),
            control=tuple(control),
            watermark_us=batch.watermark_us,
        )

    def _check(self, port: int, rows: pa.Table, now_us: int) -> pa.Table:
        """Return rows of a port as a `Packer` takes them."""
        return self._intakes[port].check(rows, now_us)

    def add(self, results: Results, batch: MemoryBatch) -> None:
        """Add what a micro-batch did to the results of a script."""
        reached = (
            group_outcome.watermark for group_outcome in batch.outcomes.values() if group_outcome.watermark is not None
        )
        results.watermark = to_datetime_if_any(max(reached, default=None))
        for outcome in batch.outcomes.values():
            for window, window_outcome in outcome.parts.items():
                results.add(window_outcome.results, batch.number, window)
        for group in batch.groups.values():
            for table in group.refused_rows(self.spec):
                results.quarantine += quarantined(table, batch.number)
        for outcome in batch.outcomes.values():
            results.quarantine += quarantined(outcome.rejected, batch.number)
            counts = {**outcome.counts, "firings": outcome.firings, "missed_panes": outcome.missed_panes}
            for name in results.counts:
                results.counts[name] += counts[name]
