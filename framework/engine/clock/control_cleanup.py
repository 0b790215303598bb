"""Keeps the control stream small: what committed batches have processed is removed, so a job of years costs no more.

Three things grow with each tick: the folder of control files; Spark's log of them
(`state/checkpoint/control_files.py`); and the map of the files that Spark has seen, in the memory of the driver. Spark
itself bounds the map by the age of the files only: with a clock that goes back it would take new files for old ones.

All of it happens in the query's thread, at the beginning of a batch: there Spark neither lists files nor writes to its
log. A clean-up that fails is logged and repeated; the job goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from panekeeper.state.checkpoint.control_files import prune_control_log, remove_processed
from panekeeper.state.checkpoint.folder import CONTROL_FOLDER, control_file
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

_EVERY = 100
"""The logs are pruned after so many control files: it costs a listing."""
_KEPT = 1000
"""So many control files stay in Spark's log: a savepoint that is being made looks up the batch that has read one."""

_KEPT_FILES = 100
"""So many processed control files stay in the folder: a batch can be replayed while its state is kept."""

_log = logger("job")


class ControlCleanup:
    """Removes processed control files and what Spark has recorded of them."""

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._next = 0

    def remove_processed(self, last: int, query: StreamingQuery | None) -> None:
        """Remove what the committed batches have processed: all but the last control files that one has read.

        To be called between the planning of two batches. `query` is None if none runs, or if it has listed the control
        files once and for all, as one of what is available: it would read those again that its map has no more.
        """
        try:
            present = remove_processed(self._files, last - _KEPT_FILES)
            if last >= self._next:
                prune_control_log(self._files, before=last - _KEPT, present=present)
                if query is not None:
                    _prune_seen_files(query, self._files, last, present)
                self._next = last + _EVERY
        except Exception as error:  # noqa: BLE001 -- a full disk, or a store that is away: nothing depends on it yet
            _log.warning("processed control files are still there: %s; they are removed later", error)


def _prune_seen_files(query: StreamingQuery, files: CheckpointFiles, last: int, present: Collection[int]) -> None:
    """Remove from Spark's map of seen files what is no longer in the folder."""
    for seen in _seen_files(query):
        if seen.containsKey(files.uri(control_file(last))):  # it is the map of the control stream, spelled as here
            seen.keySet().retainAll([files.uri(control_file(number)) for number in present])


def _seen_files(query: StreamingQuery) -> list[Any]:
    """Return the maps of seen files of the query's file sources."""
    sources = query._jsq.streamingQuery().sources()  # noqa: SLF001 -- no public way leads to the map
    maps = []
    for at in range(sources.size()):
        source = sources.apply(at)
        if source.getClass().getSimpleName() == "FileStreamSource" and CONTROL_FOLDER in source.toString():
            seen = source.seenFiles()
            field = seen.getClass().getDeclaredField("map")
            field.setAccessible(True)
            maps.append(field.get(seen))
    return maps
