"""What the Python processes do first that Spark starts, and what is loaded in which of them.

With each query Spark starts one on the driver that needs no more of a processor than the names of its state variables,
and that prints its steps to the user's terminal. Loading our processor there would import numpy, Arrow and the code of
all windows first, two thirds of what that process costs, before the first batch can begin: `DeferredProcessor`.

Spark's worker collects all garbage after every task. Looking through everything that pyspark, pandas and Arrow have
imported, again and again, was more than half of what our workers did on small batches: `freeze_gc`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

_pickle: Any = CloudPickleSerializer()  # what Spark itself serializes processors with
_main = getattr(sys.modules.get("__main__"), "__spec__", None)
if _main is not None and _main.name == "pyspark.sql.streaming.transform_with_state_driver_worker":
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- for as long as the process lives


@cache
def freeze_gc() -> None:
    """Leave what is imported by now out of every later collection. Once a process; called where work begins."""
    gc.collect()
    gc.freeze()


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
