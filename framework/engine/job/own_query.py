"""A query of the user's own over `transform()`: its `checkpointLocation` must be the checkpoint of the declaration.

Ticks and the time of the start are written to that checkpoint, and the declaration and what it means for the state are
recorded there. A query with another location would take part of them from the one folder and part from the other.
Spark tells no plan where its checkpoint is. So a listener compares the two when a query starts that reads the control
stream of the checkpoint, which is before its first batch. It lets the control stream say so, and that batch fails.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from panekeeper.state.checkpoint.control_files import end_query_elsewhere
from panekeeper.state.checkpoint.folder import CONTROL_FOLDER, place_of
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import QueryStartedEvent

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

_log = logger("job")
_watched: weakref.WeakKeyDictionary[SparkSession, set[str]] = weakref.WeakKeyDictionary()
"""Session -> the checkpoints whose queries are compared."""


def require_its_checkpoint(files: CheckpointFiles) -> None:
    """Let the first batch of a query fail that reads this checkpoint's control stream and has another checkpoint."""
    watched = _watched.setdefault(files.spark, set())
    if files.place not in watched:
        watched.add(files.place)
        files.spark.streams.addListener(_CheckpointComparison(files))


class _CheckpointComparison(StreamingQueryListener):
    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 -- Spark calls it by this name
        try:
            query: Any = self._files.spark.streams.get(str(event.id))
            execution = query._jsq.streamingQuery()  # noqa: SLF001 -- where a query has its checkpoint is not public
            if self._files.path(CONTROL_FOLDER).rstrip("/") not in execution.analyzedPlan().toString():
                return
            location = str(execution.resolvedCheckpointRoot())
            if place_of(location) != place_of(self._files.place):
                end_query_elsewhere(
                    self._files,
                    f"the query has its checkpointLocation at {location}, and transform() has the checkpoint "
                    f"{self._files.root}; give both the same folder",
                )
        except Exception as error:  # noqa: BLE001 -- a query that cannot be looked at is not hindered
            _log.warning("the checkpoint of a query could not be compared with %s: %s", self._files.root, error)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 -- as above
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 -- as above
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 -- as above
        pass
