"""A stateful processor that is loaded only where rows are processed.

With each query Spark starts a Python process on the driver that needs no more of a processor than the names of its
state variables. Loading ours there would import numpy, Arrow and the code of all windows first, two thirds of what that
process costs, before the first batch can begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.framework.engine.session.python_worker import silence_stdout
from panekeeper.state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

_pickle: Any = CloudPickleSerializer()  # what Spark itself serializes processors with

silence_stdout()


class DeferredProcessor(StatefulProcessor):
    """Travels as the bytes of a processor whose state variables are those of `SparkStore`."""

    def __init__(self, processor: StatefulProcessor) -> None:
        """Serialize the processor.

        Args:
            processor: gets its handle and its rows in tasks alone.

        Raises:
            pickle.PicklingError: it holds something that cannot be serialized.
        """
        self._serialized = _pickle.dumps(processor)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state. Called once a task, and once on the driver before the query starts."""
        if TaskContext.get() is None:
            SparkStore(handle)
            return
        self._processor: Any = _pickle.loads(self._serialized)
        self._processor.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803 -- as in `KeyGroupProcessor`
        """Take what the batch has for one group."""
        rows_out: Iterator[Row] = self._processor.handleInputRows(key, rows, timerValues)
        return rows_out

    def handleExpiredTimer(  # noqa: N802 -- as above
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Act on a watermark that moved, in a batch with no rows for this group."""
        rows_out: Iterator[Row] = self._processor.handleExpiredTimer(key, timerValues, expiredTimerInfo)
        return rows_out

    def close(self) -> None:
        """Nothing to close: the store belongs to Spark."""
