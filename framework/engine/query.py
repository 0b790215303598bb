"""How a streaming query is triggered, and how it is ended at the boundary between two batches.

`StreamingQuery.stop()` interrupts the thread that runs the batch. If that thread is inside a Python `foreachBatch`
(nearly always, with a busy stream), Spark 4.2 answers with a StackOverflowError, and the batch is left half done.
So the query is *asked* to end instead: its state is set to TERMINATED, which Spark looks at before it begins the
next batch. The running one is finished and committed, and then the query's thread leaves its loop.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from pyspark.errors import StreamingQueryException

from framework.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Trigger = Literal["available_now", "continuous"] | timedelta
"""Run what is there and end; run for ever, a batch as soon as there is something; or a batch every so often."""

_LEAVING_MS = 10_000  # a failed query closes its sources before its thread ends
_ONE_TRIGGER = "MicroBatchExecution.executeOneBatch"
_TERMINATED = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED$"


def has_ended(query: StreamingQuery, seconds: float) -> bool:
    """Wait so long for the query to end and say whether it has. Raises its error, if it ended with one.

    Not `query.isActive`, and not the answer of `awaitTermination` either, which is the same: both call a query ended
    that was asked to end and still finishes its batch. Ended is it once its thread is.
    """
    try:
        if not query.awaitTermination(seconds):  # type: ignore[arg-type]  # takes fractions of a second
            return False
    except StreamingQueryException:
        _thread(query).join(_LEAVING_MS)  # until then Spark refuses to start a query of this name
        raise
    _thread(query).join(max(1, int(seconds * 1000)))
    return not _thread(query).isAlive()


def end_after_batch(query: StreamingQuery, spark: SparkSession, *, wait: bool = True) -> None:
    """Ask the query to end after the batch it is running; `wait` until it has. Raises the error of that batch."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- the state of a query has no public setter
    terminated = jvm.java.lang.Class.forName(_TERMINATED).getField("MODULE$").get(None)
    query._jsq.streamingQuery().state().set(terminated)  # noqa: SLF001 -- as above
    while wait and not has_ended(query, 0.05):
        # No batch can begin any more; a query that sleeps until its next trigger may be woken by an interrupt.
        if not _in_trigger(query):
            query.stop()


def _in_trigger(query: StreamingQuery) -> bool:
    """Whether the query's thread is anywhere between looking at its state and committing the batch.

    Not `query.status["isTriggerActive"]`: that becomes true only some time after Spark has looked at the state.
    """
    frames = _thread(query).getStackTrace()
    return any(_ONE_TRIGGER in frames[at].toString() for at in reversed(range(len(frames))))  # it is an outer one


def _thread(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery().queryExecutionThread()  # noqa: SLF001 -- as above


def trigger_options(trigger: Trigger) -> dict[str, Any]:
    """Return the trigger as Spark names it. Raises `DeclarationError` for anything else."""
    if trigger == "available_now":
        return {"availableNow": True}
    if trigger == "continuous":
        return {"processingTime": "0 seconds"}
    if isinstance(trigger, timedelta):
        ms = trigger // timedelta(milliseconds=1)
        if ms > 0:
            return {"processingTime": f"{ms} milliseconds"}
    raise DeclarationError(
        f"trigger is {trigger!r}; it must be 'available_now', 'continuous' or a timedelta of a millisecond or more"
    )
