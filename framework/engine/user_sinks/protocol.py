"""What a sink beside the Delta tables of a job must do, and one that calls a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@runtime_checkable
class Sink(Protocol):
    """A user's own sink, which gets the rows of the log table: `to_delta(...).with_sink(sink)`.

    It runs in the driver. Guarantee: after a crash, or an error in any sink or table, a batch is committed again, with
    the same number and the same rows; and a batch is not complete before `commit` has returned. So each row arrives at
    least once. It arrives exactly once if `commit` stores `writer` and `batch` in the same transaction as the rows, and
    skips a batch that is not greater than the one stored for that writer, as the Delta tables do.

    A restore or a reset does not take rows back from this sink, as it does from the Delta tables: batches that are run
    again then come with another `writer`.
    """

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Make ready for rows of this schema. Called at each start, before the query; may be called again.

        Args:
            spark: the session of the job.
            schema: the columns of the results.
        """
        ...

    def commit(self, results: DataFrame, *, writer: str, batch: int) -> None:
        """Store the results of one batch. Called in a thread of the driver, for batches that have results only.

        Args:
            results: the rows that the log gets, in no order. Not to be used after the call.
            writer: names the checkpoint and its epoch; batch numbers rise within one writer.
            batch: number of the micro-batch.

        Raises:
            Exception: any; it fails the job, and the batch is committed again at the next start.
        """
        ...


@dataclass(frozen=True)
class ForeachBatch:
    """A sink that calls a function with the results and the number of each batch.

    Attributes:
        function: called in a thread of the driver; if it raises, the job fails and the batch is run again.
    """

    function: Callable[[DataFrame, int], object]

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Nothing is to be prepared for a function."""

    def commit(self, results: DataFrame, *, writer: str, batch: int) -> None:
        """Call the function. A batch that is run again comes with the same number."""
        self.function(results, batch)
