"""How a streaming query is triggered, and how it is ended at the boundary between two batches.

`StreamingQuery.stop()` interrupts the thread that runs the batch. If that thread is inside a Python `foreachBatch`
(nearly always, with a busy stream), Spark 4.2 throws a StackOverflowError, and the batch is left uncommitted.
So the state of the query is set to TERMINATED instead, which Spark checks before it begins the next batch. Spark checks
it once more when a batch is planned and before it runs, and interrupts itself there. So there are two safe places to
set it, and no other: inside `foreachBatch`, where the running batch has passed both checks, and while the query's
thread is idle between batches.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal

from panekeeper.framework.declarations.durations import Duration, to_seconds, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.job.status import JobState
from panekeeper.state.checkpoint.clock import Deadline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QueryTrigger = Literal["available_now", "immediate"] | Duration
"""Process what is there and end; run until stopped, a batch as soon as there are rows; or a batch at this period."""

MAX_ATTEMPTS = 3
"""Starts of a query whose Python worker was too slow to come up."""

_STATES = "org.apache.spark.sql.execution.streaming.runtime"
_IDLE_FRAMES = ("MicroBatchExecution.executeOneBatch", "util.SystemClock.waitTillTime")  # the callers of Thread.sleep
_FRAMES_TO_CHECK = 6  # frames; the JVM's own part of a sleep is one to three of them


def has_ended(query: StreamingQuery, seconds: float) -> bool:
    """Wait so long for the query to end and say whether it has. Raises its error, if it ended with one."""
    _thread(query).join(max(1, int(seconds * 1000)))
    if is_running(query):
        return False
    query.awaitTermination(0.001)  # type: ignore[arg-type]  # waits for nothing any more, and raises the error
    return True


def wait_for_first_batch(query: StreamingQuery, started: threading.Event) -> None:
    """Wait until the query's first batch has set `started`, or the query has ended. Raises its error."""
    while not started.wait(0.05) and not has_ended(query, 0.01):
        pass


def is_running(query: StreamingQuery) -> bool:
    """Whether the query's thread lives.

    Not `query.isActive`, and not the result of `awaitTermination` either, which is the same: both call a query ended
    whose state was set to TERMINATED while its batch still runs; and running, one that ended before it was set back.
    """
    return bool(_thread(query).isAlive())


def state_of(query: StreamingQuery, failure: BaseException | None) -> JobState:
    """Return whether a query runs, has ended or has failed; `failure` is the error of its job, if there was one."""
    if is_running(query):
        return JobState.RUNNING
    return JobState.FAILED if failure is not None or query.exception() is not None else JobState.ENDED


def end_after_batch(query: StreamingQuery, spark: SparkSession) -> None:
    """Let the query end after the batch it is running. To be called inside the `foreachBatch` of that batch."""
    _set_state(query, spark, "TERMINATED")


def end_between_batches(query: StreamingQuery, spark: SparkSession) -> bool:
    """End the query if its thread is idle: without rows, or until its next trigger. Return whether it was.

    Spark constructs a batch under a lock. With that lock held here, a thread that was idle before and after its state
    was set has not looked at it in between: it will, and begins nothing. One that woke up may have seen the old state
    and is waiting for the lock; it gets the old state back and goes on. Or it has seen the new one, and is ending.
    """
    lock = query._jsq.streamingQuery().awaitProgressLock()  # noqa: SLF001 -- a query has no public lock
    lock.lock()
    try:
        if not _is_idle(query):
            return False
        _set_state(query, spark, "TERMINATED")
        if not _is_idle(query):
            _set_state(query, spark, "ACTIVE")
            return False
    finally:
        lock.unlock()
    query.stop()  # interrupts the idle thread, which might wait for hours
    return True


def _set_state(query: StreamingQuery, spark: SparkSession, name: str) -> None:
    jvm: Any = spark._jvm  # noqa: SLF001 -- the state of a query has no public setter
    state = jvm.java.lang.Class.forName(f"{_STATES}.{name}$").getField("MODULE$").get(None)
    query._jsq.streamingQuery().state().set(state)  # noqa: SLF001 -- as above


def _is_idle(query: StreamingQuery) -> bool:
    """Return whether the query's thread is idle between two batches: in its loop, or until its next trigger."""
    frames = _thread(query).getStackTrace()
    names = [frames[at].toString() for at in range(min(len(frames), _FRAMES_TO_CHECK))]
    callers = [name for name in names if "java.lang.Thread" not in name]
    return len(callers) < len(names) and bool(callers) and any(place in callers[0] for place in _IDLE_FRAMES)


def _thread(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery().queryExecutionThread()  # noqa: SLF001 -- as above


def trigger_options(trigger: QueryTrigger) -> dict[str, Any]:
    """Return the trigger as Spark names it. Raises `DeclarationError` for anything else."""
    if trigger == "available_now":
        return {"availableNow": True}
    if trigger == "immediate":
        return {"processingTime": "0 seconds"}
    if trigger == "continuous":
        raise DeclarationError(
            "trigger is 'continuous', which is Spark's continuous processing, an engine without micro-batches; use "
            "trigger='immediate': a batch starts as soon as the one before has ended and there are rows"
        )
    try:
        ms = to_us(trigger, "trigger") // 1000
    except DeclarationError:
        ms = 0
    if ms <= 0:
        raise DeclarationError(
            f"trigger is {trigger!r}; it must be 'available_now', 'immediate' or a duration of a millisecond or more, "
            'such as "10 seconds"'
        )
    return {"processingTime": f"{ms} milliseconds"}


def to_deadline(timeout: Duration | None) -> Deadline:
    """Return the deadline that ends a timeout; None: no limit. Raises `DeclarationError` for what is no duration."""
    return Deadline(None if timeout is None else to_seconds(timeout, "timeout"))
