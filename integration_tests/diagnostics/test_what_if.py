"""Another declaration over what a real job has read: the same without a change, and what a change would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.conftest import Readings
from integration_tests.engine.readings import FILES
from panekeeper import (
    DeclarationError,
    ForeignCheckpoint,
    Session,
    TimeInterval,
    advise,
    agg,
    ports,
    savepoint,
    try_job,
    windowed,
)
from panekeeper.recovery.errors import RowsGone

if TYPE_CHECKING:
    from pathlib import Path

    from panekeeper.framework.builder.outputs import DeltaJob


def contents(folder: Path) -> dict[str, int]:
    """All files below a folder with their sizes."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_a_delay_that_covers_all_rows_is_advised_and_tried_and_nothing_of_the_job_is_changed(
    readings: Readings, tmp_path: Path
) -> None:
    """From the beginning, from the state before a batch, and of a savepoint; what cannot be tried is refused."""
    for rows in FILES:
        readings.put(*rows)
    readings.run()
    savepoint(readings.checkpoint, "one", to=tmp_path / "savepoints", decode=False, spark=readings.spark)
    before, job, place = contents(readings.folder), readings.declare(), readings.checkpoint

    same = try_job(place, job)
    assert (same.first, same.last, same.begins, same.changes) == (0, 4, "the beginning", ())
    assert same.recorded == same.tried
    assert (same.is_same, same.recorded.late, same.results.same) == (True, 2, 5)

    longer = try_job(place, job, watermark="3 minutes")
    assert longer.changes == ("watermark: 0s at the last start, 3m now",)
    assert (longer.tried.late, longer.tried.refinements, longer.results.same) == (0, 0, 5)
    assert longer.is_same

    younger = try_job(place, readings.declare(window=TimeInterval(60)), batches=3)
    assert younger.begins == "the state after batch 1"
    lost = [(one.place["sensor"], one.before, one.after) for one in younger.results.first]
    assert lost == [("a", {"total": 17, "n": 2}, {"total": 1, "n": 1}), ("b", {"total": 128, "n": 1}, None)]
    assert (younger.tried.dropped_late, younger.is_same) == (2, False)

    small = try_job(tmp_path / "savepoints", job, batches=2, savepoint="one")
    assert (small.first, small.is_same, small.recorded) == (3, True, small.tried)

    advice = advise(place, job)
    now, *delays = advice.delays
    assert (advice.rows, now.delay_us, now.late) == (7, 0, 2)
    assert {(one.delay_us, one.late, one.behind) for one in delays} == {(159_000_000, 0, 0)}

    with pytest.raises(ForeignCheckpoint, match="this is the checkpoint of job 'readings', not of 'other'; give the"):
        try_job(place, readings.declare(name="other"))
    with pytest.raises(DeclarationError, match="batches is 0; it must be 1 or more"):
        try_job(place, job, batches=0)
    with pytest.raises(DeclarationError, match=r"the scratch folder .* is there and not empty; name a new one"):
        try_job(place, job, scratch=readings.folder)
    assert contents(readings.folder) == before
    (readings.folder / "in" / "0003.json").unlink()
    with pytest.raises(RowsGone, match=r"1 of the 1 files .* are gone"):
        try_job(place, job)


@pytest.mark.release  # CI rehearses several streams in memory
def test_a_join_is_tried_over_both_of_its_streams(readings: Readings, tmp_path: Path) -> None:
    """The key groups keep its watermark: the least of both streams, with their delay. A second start goes on."""
    (readings.folder / "second").mkdir()
    second = Readings(readings.spark, readings.folder / "second")

    def declared() -> DeltaJob:
        by_sensor: dict[str, Any] = {"partition_by": "sensor", "event_time": "at", "key_groups": 2}
        window = TimeInterval("1 minute", discard_age="1 hour")
        first, other = (windowed(one.stream(), name="joined", **by_sensor).window(window) for one in (readings, second))
        return ports(first, other).join(how="left").to_delta(readings.folder / "log")

    for rows in (("a", "10:00:00", 1), ("b", "10:00:30", 2)), (("a", "10:05:00", 3), ("b", "10:00:20", 4)):
        readings.put(*rows)
        second.put(("a", "10:00:10", 10 + rows[0][2]), ("b", "10:04:00", 20))
        job = declared().start(checkpoint=readings.checkpoint, trigger="available_now")
        assert job.await_end(300)
    same = try_job(readings.checkpoint, declared())
    assert (same.is_same, same.recorded) == (True, same.tried)
    assert same.recorded.results > 0
    later = try_job(readings.checkpoint, declared(), watermark="10 minutes", batches=1)
    assert later.tried.results < later.recorded.results
    assert (later.is_same, later.results.open_after) == (True, later.recorded.results)
    assert try_job(readings.checkpoint, declared(), watermark="10 minutes", batches=1, scratch=tmp_path / "s") == later


@pytest.mark.release  # CI tries one window
def test_each_of_several_windows_is_tried(readings: Readings, tmp_path: Path) -> None:
    """It has its own figures and differences, in memory and on Spark; one delay is advised for all of them."""
    windows = {"minute": TimeInterval(60, discard_age=120), "burst": Session("2 minutes", discard_age="1 minute")}

    def declared(**changed: Any) -> DeltaJob:
        stream = windowed(readings.stream(), name="several", partition_by="sensor", event_time="at", key_groups=3)
        computed = stream.windows(**(windows | changed)).aggregate(total=agg.sum("value"), n=agg.count())
        return computed.to_delta(readings.folder / "log")

    for rows in FILES:
        readings.put(*rows)
    job = declared().start(checkpoint=readings.checkpoint, trigger="available_now")
    assert job.await_end(300)
    same = try_job(readings.checkpoint, declared(), batches=3)
    assert (same.is_same, same.begins, same.recorded) == (True, "the state after batch 1", same.tried)
    assert {name: one.results.differs for name, one in same.windows.items()} == {"minute": False, "burst": False}
    assert same.results.same == sum(one.results.same for one in same.windows.values()) > 0

    changed = declared(minute=TimeInterval(60))
    found = try_job(readings.checkpoint, changed, batches=3)
    minute, burst = found.windows["minute"].results, found.windows["burst"].results
    assert (minute.changed, minute.only_before, burst.differs, found.is_same) == (1, 1, False, False)
    assert [one.place["sensor"] for one in minute.first] == ["a", "b"]
    scratch = tmp_path / "scratch"
    assert try_job(readings.checkpoint, changed, batches=3, scratch=scratch) == found
    whole = try_job(readings.checkpoint, declared(), watermark="3 minutes", scratch=scratch)
    assert (whole.begins, whole.tried.late, whole.is_same) == ("the beginning", 0, True)
    assert not scratch.exists()

    advice = advise(readings.checkpoint, declared())
    assert {(one.delay_us, one.late, one.behind) for one in advice.delays[1:]} == {(159_000_000, 0, 0)}
