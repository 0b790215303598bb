"""What a job passes its micro-batches through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame

    from framework.engine.sink.batch_output import BatchOutput
    from framework.engine.sink.downtime import Downtime


class JobSink(Protocol):
    """What a job passes its batches through: `DeltaSink`, or a list in tests."""

    def run_plan(self, packed: DataFrame, number: int) -> BatchOutput:
        """Run the stateful plan of batch `number` once; `packed` is its persisted output."""
        ...

    def commit(
        self,
        packed: DataFrame,
        batch: BatchOutput,
        *,
        open_panes: int | None,
        started_us: int,
        require_lease: Callable[[], None],
        downtime: Downtime | None = None,
    ) -> Collection[str]:
        """Write what the batch did, so that a repetition changes nothing.

        Args:
            packed: the persisted output of the plan.
            batch: what `run_plan` has returned.
            open_panes: how many panes are open after the batch; None if that is not known.
            started_us: when the batch began, us since the epoch.
            require_lease: raises if another job has taken over the checkpoint; called just before each commit.
            downtime: what happened while the job was down, if this is its first batch after that.

        Returns:
            The tables that have the batch in their log now, each by its role.
        """
        ...

    def confirm(self) -> None:
        """See to it that what was committed is still there. Called when a run ends, while the job holds its lease."""
        ...
