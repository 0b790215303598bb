"""Every log that Spark keeps in a checkpoint is written by the file manager that the library names for its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from panekeeper.framework.engine.session.spark_folder import MANAGER_SETTING, ON_DISK

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings


def test_the_logs_of_a_query_and_of_its_sources_are_written_by_one_manager(readings: Readings) -> None:
    """Sources are made in the query's own thread, a moment after its start: the session still has the setting then."""
    readings.put(("a", "10:00:10", 1))
    job = readings.start(trigger="immediate")
    (running,) = readings.spark.streams.active
    query: Any = running._jsq.streamingQuery()
    sources = [query.sources().apply(number) for number in range(query.sources().length())]
    logs = [query.offsetLog(), query.commitLog(), *map(log_of, sources)]
    assert {log.fileManager().getClass().getName() for log in logs} == {ON_DISK}
    assert len(sources) == 2  # the readings, and the control stream
    assert readings.spark.conf.get(MANAGER_SETTING, None) is None
    job.stop()


def log_of(source: Any) -> Any:
    """Return the log of a source of files, which Spark keeps to itself."""
    field = source.getClass().getDeclaredField("metadataLog")
    field.setAccessible(True)
    return field.get(source)
