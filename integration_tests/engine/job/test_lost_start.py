"""A start, or a reset, that was paused until another process took over writes nothing when it goes on."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.test_lease import take_over
from panekeeper import CheckpointInUse
from panekeeper.framework.engine.job import roll_forward
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.framework.engine.job.query import trigger_options
from panekeeper.framework.engine.job.start import Start, start_on_epoch
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.sink.spark_table import delete_all
from panekeeper.state.checkpoint.epochs import epoch_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration_tests.engine.conftest import Readings


def contents(readings: Readings) -> dict[str, str]:
    """Path -> digest of each file of the checkpoint and the tables, but for the heartbeats."""
    return {
        str(path.relative_to(readings.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in readings.folder.rglob("*")
        if path.is_file() and path.name not in ("running.json", ".running.json.crc")
    }


def held(readings: Readings) -> tuple[Any, CheckpointFiles]:
    """The lease of a start, and its checkpoint."""
    files = epoch_folder(CheckpointFiles(readings.spark, str(readings.checkpoint)), 0)
    return acquire(files, "readings"), files


def start_on(files: CheckpointFiles, lease: Any, readings: Readings) -> None:
    """Start the job with a lease that it has already."""
    job = readings.declare()
    how = {"layout": None, "sink": None, "trigger": trigger_options("available_now")}
    start = Start(pipeline=job.pipeline, tables=job.tables, make_tables=lambda *_: job.tables, **how)  # type: ignore[arg-type]
    start_on_epoch(files, lease, start)


class TakenOver:
    """A sink of the user's own during whose preparation the start is paused, and another host takes over."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.other: Any = None
        self.before: dict[str, str] = {}

    def prepare(self, spark: Any, schema: Any) -> None:
        self.other = take_over(self.readings)
        self.before = contents(self.readings)

    def commit(self, results: Any, *, writer: str, batch: int) -> None:
        raise AssertionError("no batch is run")


def test_a_start_that_has_lost_its_lease_writes_nothing(readings: Readings) -> None:
    """Neither to the checkpoint nor to a table, whether it is paused at its begin or just before its query."""
    readings.put(("a", "10:00:10", 1))
    readings.run()
    late, files = held(readings)
    other = take_over(readings)
    before = contents(readings)
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        start_on(files, late, readings)
    assert contents(readings) == before
    other.release("ended")
    sink = TakenOver(readings)
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        readings.declare().with_sink(sink).start(checkpoint=readings.checkpoint, trigger="available_now")
    assert contents(readings) == sink.before
    sink.other.release("ended")


@pytest.mark.parametrize(
    "before", [("a", "10:05:00", 2), pytest.param(("a", "10:00:20", 2), marks=pytest.mark.release)], ids=str
)
def test_a_reset_that_is_paused_before_it_empties_the_view_removes_no_row_of_the_next_epoch(
    readings: Readings, before: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has completed it, and a job has written to the view, which may have had no row before that."""
    readings.put(("a", "10:00:10", 1), before)
    readings.run()
    job = readings.declare()
    emptied: list[Callable[[], None]] = []

    def note_and_empty(*given: Any) -> None:
        emptied.append(partial(delete_all, *given))
        delete_all(*given)

    monkeypatch.setattr(roll_forward, "delete_all", note_and_empty)
    job.reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    assert readings.rows("view") == []
    readings.put(("a", "10:10:00", 4))
    readings.run()
    rows = readings.rows("view")
    assert rows
    emptied[0]()
    assert readings.rows("view") == rows
