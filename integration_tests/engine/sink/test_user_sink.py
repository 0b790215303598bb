"""A sink of the user's own, beside the Delta tables of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.conftest import shown
from integration_tests.engine.readings import FILES, LOG
from panekeeper import DeclarationError, JobFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from integration_tests.engine.conftest import Readings


class CollectingSink:
    """Keeps the rows of each batch once, by its writer and number."""

    def __init__(self) -> None:
        self.columns: list[list[str]] = []
        self.calls: list[int] = []
        self.rows: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        assert spark.version
        self.columns.append(schema.names)

    def commit(self, results: DataFrame, *, writer: str, batch: int) -> None:
        self.calls.append(batch)
        self.rows.setdefault((writer, batch), [row.asDict() for row in results.collect()])


def test_a_sink_of_ones_own_gets_each_row_of_the_log_once_by_batch_number(
    readings: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """A batch that fails after all commits is committed again with the same number, and its rows are kept once."""
    for rows in FILES:
        readings.put(*rows)
    sink = CollectingSink()
    job = readings.declare().with_sink(sink)
    fail_at("after-delta-commit", 2)
    with pytest.raises(JobFailed):
        job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)

    assert shown(row for rows in sink.rows.values() for row in rows) == readings.log() == LOG
    assert sink.calls.count(2) == 2
    assert len({writer for writer, _ in sink.rows}) == 1
    assert sink.columns == [readings.spark.read.format("delta").load(str(readings.folder / "log")).columns] * 2


def test_what_is_no_sink_is_refused(readings: Readings) -> None:
    """An object without the methods, a class, and a second sink: the message names it."""
    job = readings.declare()
    with pytest.raises(DeclarationError, match="takes an object with the methods prepare and commit, not 5"):
        job.with_sink(5)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="takes an object with the methods prepare and commit, not <class"):
        job.with_sink(CollectingSink)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match=r"has the sink .* already"):
        job.with_sink(CollectingSink()).with_sink(CollectingSink())
