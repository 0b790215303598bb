"""What a job passes its micro-batches through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.engine.sink.batch.downtime import Downtime
    from panekeeper.framework.engine.sink.batch.output import BatchOutput
    from panekeeper.state.prepared import PreparedBatch


class BatchWriter(Protocol):
    """What writes a prepared batch, now or at a later start."""

    def write(
        self, spark: SparkSession, batch: PreparedBatch, packed: DataFrame | None, require_lease: Callable[[], None]
    ) -> Collection[str]:
        """Write what is recorded of a batch, so that a repetition changes nothing.

        Args:
            spark: the session that reaches the tables.
            batch: what is recorded of it.
            packed: its packed rows, as far as they are large.
            require_lease: raises if another job has taken over the checkpoint; called just before each commit.

        Returns:
            The tables that have the batch in their log now, each by its role.
        """
        ...

    def prepare_user_sink(self, spark: SparkSession, results: pa.Schema) -> None:
        """Let a sink of the user's own make ready for results with these columns. Before it gets any, at each start."""
        ...

    def last_transaction(self, spark: SparkSession, path: str, transaction: str) -> int:
        """Return the last version that a table has of a transaction id; -1 if there is none."""
        ...


@dataclass(frozen=True, kw_only=True)
class BatchContext:
    """What a job knows of a batch that its output does not have, for the tables of metrics and downtime.

    Attributes:
        started_us: when the batch began, us since the epoch.
        open_panes: how many panes are open after it; None if that is not known.
        downtime: what happened while the job was down, if this is its first batch after that.
    """

    started_us: int
    open_panes: int | None
    downtime: Downtime | None = None


class JobSink(Protocol):
    """What a job passes its batches through: `DeltaSink`, or a list in tests."""

    def run_plan(self, packed: DataFrame, number: int) -> BatchOutput:
        """Run the stateful plan of batch `number` once; `packed` is its persisted output."""
        ...

    def prepared(
        self,
        batch: BatchOutput,
        *,
        spark_commit: str,
        large: Mapping[str, str],
        known: Mapping[str, Mapping[str, Any]],
        context: BatchContext,
    ) -> PreparedBatch:
        """Return what the batch writes, as it is recorded before anything has it.

        Args:
            batch: what `run_plan` has returned.
            spark_commit: what Spark will log as its commit.
            large: name of an output -> folder with its rows, if they are too many for the driver.
            known: role -> what is known of the table.
            context: what the job knows of it.
        """
        ...
