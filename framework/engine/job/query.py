"""Spark's streaming query: how it is triggered, ended between two batches, and what it reports and will commit.

`StreamingQuery.stop()` interrupts the thread that runs the batch. If that thread is inside a Python `foreachBatch`
(nearly always, with a busy stream), Spark 4.2 throws a StackOverflowError, and the batch is left uncommitted.
So the state of the query is set to TERMINATED instead, which Spark checks before it begins the next batch. Spark checks
it once more when a batch is planned and before it runs, and interrupts itself there. So there are two safe places to
set it, and no other: inside `foreachBatch`, where the running batch has passed both checks, and while the query's
thread is idle between batches.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from panekeeper.framework.declarations.durations import Duration, to_seconds, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.job.status import JobState
from panekeeper.framework.engine.sources.streams import nodes
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
_COMMIT_VERSION = "v2\n"
_STATEFUL = "org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter"


def has_ended(query: StreamingQuery, seconds: float) -> bool:
    """Wait so long for the query to end and say whether it has. Raises its error, if it ended with one."""
    thread = _thread(query)
    thread.join(max(1, int(seconds * 1000)))
    if thread.isAlive():  # as `is_running`
        return False
    query.awaitTermination(0.001)  # type: ignore[arg-type]  # waits for nothing any more, and raises the error
    return True


def wait_for_first_batch(query: StreamingQuery, started: threading.Event) -> None:
    """Wait until the query's first batch has set `started`, or the query has ended. Raises its error."""
    while not started.wait(0.05) and not has_ended(query, 0.01):
        pass


def has_stopped(spark: SparkSession) -> bool:
    """Return whether the program has stopped its session by `spark.stop()`: its queries' threads may still live."""
    java: Any = spark.sparkContext._jsc  # noqa: SLF001 -- whether a context has stopped is not in its public interface
    return java is None or bool(java.sc().isStopped())


def end_without_spark(query: StreamingQuery, spark: SparkSession) -> None:
    """End a query whose session has stopped. Its own `stop()` would ask the session to cancel its Spark jobs."""
    _set_state(query, spark, "TERMINATED")
    _thread(query).interrupt()


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


def spark_commit(spark: SparkSession, query: StreamingQuery, before: str | None = None) -> str:
    """Return what Spark will write to its log of commits for the batch that a query runs, once its plan has run.

    That is known then: the watermark of the next batch, and the ids of the state that the tasks of the
    batch have stored. To be called in the thread of the query. `before` is the commit of an earlier batch of the
    checkpoint, if there is one: all of them are of the same operators with state.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 -- what a batch commits is nowhere public
    execution = query._jsq.streamingQuery()  # noqa: SLF001 -- as above
    plan = execution.getLatestExecutionContext().executionPlan().executedPlan()
    tracker = execution.watermarkTracker()
    tracker.updateWatermark(plan)  # as Spark does next; a repetition changes nothing
    known = None if before is None else len(json.loads(before.removeprefix(_COMMIT_VERSION))["stateUniqueIds"])
    writers = _state_writers(jvm, plan, known)
    metadata = {
        "nextBatchWatermarkMs": tracker.currentWatermark(),
        "stateUniqueIds": {str(writer.stateInfo().get().operatorId()): _state_ids(jvm, writer) for writer in writers},
    }
    return f"{_COMMIT_VERSION}{json.dumps(metadata, separators=(',', ':'))}"


def _state_writers(jvm: Any, plan: Any, known: int | None) -> list[Any]:
    """Return the operators of a plan that write state; if it is known how many there are, only so much is searched.

    Each node costs four calls of Java, and of some twenty nodes most are behind these operators.
    """
    kind = getattr(jvm, "java.lang.Class").forName(_STATEFUL)  # by its whole name, which is one call
    return list(islice((node for node in nodes(plan) if kind.isInstance(node)), known))


def _state_ids(jvm: Any, operator: Any) -> list[list[str]]:
    """Return the ids of what each task has stored, in the order of the shuffle partitions; in one call of Java."""
    json4s = getattr(jvm, "org.json4s.jackson.Serialization")
    no_types = getattr(getattr(jvm, "org.json4s.NoTypeHints$"), "MODULE$")
    infos = json.loads(json4s.write(operator.getStateStoreCheckpointInfo(), json4s.formats(no_types)))
    return [info.get("stateStoreCkptId") or [] for info in infos]


@dataclass(frozen=True, kw_only=True)
class QueryProgress:
    """What Spark reports of the last batch of a query.

    `rows_behind` are those that the sources held and the query had not read; None where no source counts them, as Kafka
    does. `state_bytes` is the size of the state on disk; None before the first batch.
    """

    rows_behind: int | None = None
    state_bytes: int | None = None


def query_progress(query: StreamingQuery) -> QueryProgress:
    """Return the progress of a query; empty before its first batch has ended."""
    last = query._jsq.lastProgress()  # noqa: SLF001 -- one call; the public form makes one for each field
    return QueryProgress() if last is None else read_progress(json.loads(last.json()))


def read_progress(fields: Mapping[str, Any]) -> QueryProgress:
    """Return what a progress of Spark's, as it writes it in JSON, says.

    >>> read_progress({"sources": [{"endOffset": {"t": {"0": 7}}, "latestOffset": {"t": {"0": 9}}}]}).rows_behind
    2
    """
    behind = [rows for source in fields.get("sources", ()) if (rows := _rows_behind(source)) is not None]
    sizes = [
        operator.get("customMetrics", {}).get("rocksdbSstFileSize") for operator in fields.get("stateOperators", ())
    ]
    known = [size for size in sizes if size is not None]
    return QueryProgress(rows_behind=sum(behind) if behind else None, state_bytes=sum(known) if known else None)


def _rows_behind(source: Mapping[str, Any]) -> int | None:
    """Return the rows that a source held and a batch had not read, from offsets by topic and Kafka partition."""
    with suppress(AttributeError, TypeError, ValueError):
        latest, end = (_offsets(source[name]) for name in ("latestOffset", "endOffset") if source.get(name))
        return sum(max(0, offset - end.get(place, offset)) for place, offset in latest.items())
    return None


def _offsets(value: Any) -> dict[tuple[str, str], int]:
    topics = json.loads(value) if isinstance(value, str) else value
    return {
        (topic, partition): int(offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
