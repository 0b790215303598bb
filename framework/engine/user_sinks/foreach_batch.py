"""A function that gets the results of each batch, for `DeltaJob.foreach_batch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


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
