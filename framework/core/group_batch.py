"""One micro-batch of one key group, from packed rows to its outcome. Whatever runs a key group goes this way.

A worker of Spark's, a job in memory, a rehearsal and a replay differ in where packed rows and the store come from, and
in what they do with the outcome. Between them a `BatchRunner` puts the packed rows in order, and the `GroupBatch` that
it makes is run by the windows and state handlers of the key group (`key_group.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.ordering import PortOrdering, to_steps
from panekeeper.framework.core.packed_rows import REFUSED_KIND, from_segment, input_counts, is_control
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import BatchOutcome, Step, Watermark, in_quarantine_of
from panekeeper.state.checkpoint.control_files import CHECKPOINT_COMMANDS
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.handler import CheckpointReason
from panekeeper.state.store import KeyGroupStore

_REASONS = {
    "flush": CheckpointReason.FINAL,
    "savepoint": CheckpointReason.SAVEPOINT,
    "drain": CheckpointReason.DRAIN,
}
"""Why a batch with such a command is a checkpoint, the first one first."""


@dataclass(frozen=True, kw_only=True)
class GroupBatch:
    """What a key group gets in one micro-batch, in the order in which it is processed.

    Attributes:
        number: of the micro-batch.
        group: id of the key group.
        steps: rows, time and commands.
        checkpoint: which checkpoint the batch is for the state handlers; None without such.
        refused: the packed rows that the intake has refused: they only pass through to the quarantine.
        control: the packed rows of the control stream.
        counts: how many rows came, and how many of them the intake has refused (`input_counts`).
    """

    number: int
    group: int
    steps: Sequence[Step] = field(repr=False)
    checkpoint: BatchCheckpoint | None = None
    refused: Sequence[Any] = field(default=(), repr=False)
    control: Sequence[Any] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def run(self, spec: JobSpec, store: KeyGroupStore) -> BatchOutcome:
        """Process it on the state that is stored, and write the state. Raises as `KeyGroupRunner.run`."""
        return self.run_by(KeyGroupRunner(spec, store, self.checkpoint))

    def run_by(self, runner: KeyGroupRunner) -> BatchOutcome:
        """Process it by a runner that was made for its checkpoint."""
        outcome = runner.run(self.steps)
        return replace(outcome, counts={**outcome.counts, **self.counts})

    def refused_rows(self, spec: JobSpec) -> Iterator[pa.Table]:
        """Yield the rows that the intake has refused, as the quarantine of the job has them."""
        for row in self.refused:
            yield in_quarantine_of(spec, from_segment(bytes(row.body)), row.port)

    def followed_by(self, more: GroupBatch) -> GroupBatch:
        """Return it with what comes later in the same micro-batch; a command that makes it a checkpoint comes last."""
        return replace(
            more,
            steps=[*self.steps, *more.steps],
            refused=[*self.refused, *more.refused],
            control=[*self.control, *more.control],
            counts={name: self.counts[name] + count for name, count in more.counts.items()},
        )


@dataclass(frozen=True, kw_only=True)
class BatchRunner:
    """Runs the micro-batches of key groups. Picklable; sent to the workers.

    Attributes:
        spec: the windows, and what they compute.
        orderings: by which the rows of each port are put in order.
    """

    spec: JobSpec
    orderings: tuple[PortOrdering, ...]

    def in_order(
        self,
        packed: Iterable[Any],
        *,
        number: int,
        group: int,
        watermark_us: int | None = None,
        attempt: int = 1,
        run: RunRecord | None = None,
    ) -> GroupBatch:
        """Return what came for a key group as the batch that it processes.

        Args:
            packed: its packed rows, in any order: the shuffle mixes them.
            number: of the micro-batch.
            group: id of the key group.
            watermark_us: the watermark before the rows; None: there is none, or the key group keeps it.
            attempt: how often this batch has been begun, from 1; only for state handlers.
            run: the run of the job; only for state handlers, the first one if it is not given.
        """
        rows = [*packed]
        checkpoint = None
        if self.spec.handlers:
            checkpoint = self._checkpoint(rows, number, group, attempt, run or RunRecord())
        moved = [] if watermark_us is None else self._watermarks(watermark_us)
        return GroupBatch(
            number=number,
            group=group,
            steps=[*moved, *to_steps(rows, self.orderings)],
            checkpoint=checkpoint,
            refused=[row for row in rows if row.kind == REFUSED_KIND],
            control=[row for row in rows if is_control(row)],
            counts=input_counts(rows),
        )

    def _watermarks(self, us: int) -> list[Step]:
        return [Watermark(us, port.port) for port in self.spec.ports if port.uses_event_time]

    def _checkpoint(
        self, packed: Sequence[Any], number: int, group: int, attempt: int, run: RunRecord
    ) -> BatchCheckpoint:
        """Return the checkpoint that a batch is for the state handlers of a key group, by the commands in it."""
        kinds = {row.kind for row in packed}
        commands = [row.n for row in packed if row.kind in CHECKPOINT_COMMANDS]
        follows_wall_clock = not all(port.has_stream_clock for port in self.orderings)
        return BatchCheckpoint(
            checkpoint=number,
            group=group,
            reason=next((why for kind, why in _REASONS.items() if kind in kinds), CheckpointReason.BATCH),
            attempt=attempt,
            run=run.number,
            no_batch_committed=run.no_batch_committed,
            now_us=max(commands, default=None) if follows_wall_clock else None,
        )
