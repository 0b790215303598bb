"""What Spark will log as the commit of the batch that it runs: recorded with it, to be logged if Spark no longer can.

Spark writes it when `foreachBatch` has returned: the watermark of the next batch and, in format 2, the ids of the state
that the tasks of the batch have stored. All of it is known once the plan has run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from panekeeper.framework.engine.session.checkpoint_files import FORMAT_SETTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_WITHOUT_IDS = "1"
"""The format of stored state in which a task overwrites what another one has stored of the same batch."""
_STATEFUL = "org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter"


def spark_commit(spark: SparkSession, query: StreamingQuery) -> str:
    """Return the content of the file in Spark's log of commits for the batch that a query runs.

    To be called in the thread of the query, when the plan of the batch has run.

    Args:
        spark: the session of the batch.
        query: the one that runs it.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 -- what a batch commits is nowhere public
    execution = query._jsq.streamingQuery()  # noqa: SLF001 -- as above
    plan = execution.getLatestExecutionContext().executionPlan().executedPlan()
    tracker = execution.watermarkTracker()
    tracker.updateWatermark(plan)  # as Spark does next; a repetition changes nothing
    metadata: dict[str, Any] = {"nextBatchWatermarkMs": tracker.currentWatermark()}
    state_format = spark.conf.get(FORMAT_SETTING) or _WITHOUT_IDS
    if state_format != _WITHOUT_IDS:
        stateful = jvm.java.lang.Class.forName(_STATEFUL)
        writers = [one for one in _operators(plan) if stateful.isInstance(one)]
        metadata["stateUniqueIds"] = {str(one.stateInfo().get().operatorId()): _state_ids(jvm, one) for one in writers}
    return f"v{state_format}\n{json.dumps(metadata, separators=(',', ':'))}"


def _operators(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _operators(children.apply(number))


def _state_ids(jvm: Any, operator: Any) -> list[list[str]]:
    """Return the ids of what each task has stored, in the order of the shuffle partitions; in one call of Java."""
    json4s, no_types = (
        jvm.org.json4s.jackson.Serialization,
        getattr(jvm.org.json4s, "NoTypeHints$").__getattr__("MODULE$"),
    )
    infos = json.loads(json4s.write(operator.getStateStoreCheckpointInfo(), json4s.formats(no_types)))
    return [info.get("stateStoreCkptId") or [] for info in infos]
