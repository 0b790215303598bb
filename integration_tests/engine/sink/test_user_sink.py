"""A sink of the user's own, beside the Delta tables of a job: the one that the guide prints."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.readings import FILES, LOG
from panekeeper import DeclarationError, JobFailed, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from integration_tests.engine.conftest import Readings

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "add-a-sink.md"


def sink_of_the_guide(database: Path) -> Sink:
    """The sink that the guide prints, on this database."""
    names: dict[str, Any] = {"__name__": "guide"}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)  # noqa: S102 -- our own page
    sink: Sink = names["SqliteSink"](database)
    return sink


class CountedSink:
    """Passes each call on, and counts the commits."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.columns: list[list[str]] = []
        self.commits: list[tuple[str, int]] = []

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        self.columns.append(schema.names)
        self.sink.prepare(spark, schema)

    def commit(self, results: DataFrame, *, writer: str, batch: int) -> None:
        self.commits.append((writer, batch))
        self.sink.commit(results, writer=writer, batch=batch)


def test_a_sink_of_ones_own_gets_each_row_of_the_log_and_stores_it_once(
    readings: Readings, fail_at: Callable[[str, int], None], tmp_path: Path
) -> None:
    """A batch that fails after all commits is committed again with the same number, and its rows are stored once.

    It is prepared at each start, and before that where the start has to complete a batch.
    """
    for rows in FILES:
        readings.put(*rows)
    sink = CountedSink(sink_of_the_guide(tmp_path / "results.db"))
    job = readings.declare().with_sink(sink)
    fail_at("after-delta-commit", 2)
    with pytest.raises(JobFailed):
        job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)

    with closing(sqlite3.connect(tmp_path / "results.db")) as database:
        stored = database.execute("SELECT sensor, pane_start, total, n, refinement, reason FROM results").fetchall()
    found = sorted((s, start[11:16], int(total), int(n), int(r), reason) for s, start, total, n, r, reason in stored)
    assert found == readings.log() == LOG
    assert [batch for _, batch in sink.commits].count(2) == 2
    assert len({writer for writer, _ in sink.commits}) == 1
    assert sink.columns == [readings.frame("log").columns] * 3


@pytest.mark.extended
def test_a_sink_may_stop_its_job(readings: Readings) -> None:
    """The call returns at once, and the job ends after the batch that the sink is in."""
    readings.put(*FILES[0])
    readings.put(*FILES[1])
    started = threading.Event()

    def stop(_rows: DataFrame, _batch: int) -> None:
        assert started.wait(60)
        job.stop()

    job = readings.declare().foreach_batch(stop).start(checkpoint=readings.checkpoint)
    started.set()
    for rows in FILES[2:]:
        readings.put(*rows)
    assert job.await_end(timeout=120)
    assert readings.numbers("commits") == readings.numbers("offsets")


def test_what_is_no_sink_is_refused(readings: Readings, tmp_path: Path) -> None:
    """An object without the methods, a class, and a second sink: the message names it."""
    job = readings.declare()
    with pytest.raises(DeclarationError, match="takes an object with the methods prepare and commit, not 5"):
        job.with_sink(5)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="takes an object with the methods prepare and commit, not <class"):
        job.with_sink(CountedSink)  # type: ignore[arg-type]
    sink = sink_of_the_guide(tmp_path / "results.db")
    with pytest.raises(DeclarationError, match=r"has the sink .* already"):
        job.with_sink(sink).with_sink(sink)
