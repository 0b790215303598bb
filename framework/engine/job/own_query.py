"""A query of the user's own over `transform()`: its `checkpointLocation` must be the checkpoint of the declaration.

Ticks and the time of the start are written to that checkpoint, and the declaration and what it means for the state are
recorded there. A query with another location would take part of them from the one folder and part from the other.
Spark tells no plan where its checkpoint is. So a listener compares the two when a query starts that reads the control
stream of the checkpoint, which is before its first batch. It lets the control stream say so, and that batch fails.

A session has one listener for all its checkpoints. It takes Java's events as they are: pyspark's own class makes a
Python object of the progress of each batch, whatever a listener does with it, which is some hundred calls into Java.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from panekeeper.state.checkpoint.control_files import end_query_elsewhere
from panekeeper.state.checkpoint.folder import CONTROL_FOLDER, place_of
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

_log = logger("job")
_comparisons: weakref.WeakKeyDictionary[SparkSession, _CheckpointComparison] = weakref.WeakKeyDictionary()


def require_its_checkpoint(files: CheckpointFiles) -> None:
    """Let the first batch of a query fail that reads this checkpoint's control stream and has another checkpoint."""
    if files.spark not in _comparisons:
        _comparisons[files.spark] = comparison = _CheckpointComparison(files.spark)
        comparison.begin()
    _comparisons[files.spark].watched[files.place] = files


class _CheckpointComparison:
    """Compares the checkpoints of a session's queries as they start. Java calls the methods, by Spark's names."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.watched: dict[str, CheckpointFiles] = {}
        """Place -> the checkpoint."""

    def begin(self) -> None:
        """Let Spark tell of each query that starts."""
        from pyspark.java_gateway import ensure_callback_server_started

        gateway: Any = self._spark.sparkContext._gateway  # noqa: SLF001 -- pyspark's own listeners do the same
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        wrapped = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self)
        self._spark.streams._jsqm.addListener(wrapped)  # noqa: SLF001 -- as above

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        try:
            query: Any = self._spark.streams.get(str(event.id().toString()))
            execution = query._jsq.streamingQuery()  # noqa: SLF001 -- where a query has its checkpoint is not public
            plan, location = str(execution.analyzedPlan().toString()), str(execution.resolvedCheckpointRoot())
            for files in list(self.watched.values()):
                if files.path(CONTROL_FOLDER).rstrip("/") in plan and place_of(location) != place_of(files.place):
                    end_query_elsewhere(
                        files,
                        f"the query has its checkpointLocation at {location}, and transform() has the checkpoint "
                        f"{files.root}; give both the same folder",
                    )
        except Exception as error:  # noqa: BLE001 -- a query that cannot be looked at is not hindered
            _log.warning("the checkpoint of a query could not be compared with that of transform(): %s", error)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    class Java:
        """What py4j makes a Java object by."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
