"""A batch of a real job that is run again in memory: equal to what is recorded, and different where it was changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import FILES
from panekeeper import CheckpointError, TimeInterval, agg, capsule, replay, why, windowed
from panekeeper.testing import run_capsule

if TYPE_CHECKING:
    from pathlib import Path

    from integration_tests.engine.conftest import Readings
    from panekeeper.framework.builder.outputs import DeltaJob


@pytest.mark.extended
def test_each_batch_run_again_is_equal_and_with_other_code_or_rows_it_differs(
    readings: Readings, tmp_path: Path
) -> None:
    """Through a restart; a capsule of it runs without Spark; a late row, a refinement and an empty batch among them."""
    spark, place = readings.spark, readings.checkpoint
    for rows in FILES[:2]:
        readings.put(*rows)
    readings.run()
    for rows in FILES[2:]:
        readings.put(*rows)
    readings.run()
    job = readings.declare()
    last = max(readings.numbers("commits"))
    found = [replay(place, batch, job=job, spark=spark) for batch in range(last + 1)]
    assert [one.differences for one in found] == [()] * (last + 1)
    assert {one.compared for one in found} == {("state", "log", "quarantine", "metrics")}
    assert sum(one.counts["rows_in"] for one in found) == sum(map(len, FILES))
    firings = [one.counts["firings"] for one in found]
    late = firings.index(1)
    of_key = replay(place, late, job=job, key={"sensor": "a"}, spark=spark)
    assert of_key.is_equal
    assert of_key.results is not None
    assert of_key.results.column("refinement").to_pylist() == [1]
    assert [result["total"] for step in of_key.steps() for result in step.results] == [17]
    made = capsule(place, late, {"sensor": "a"}, job=job, mask=["sensor"], spark=spark)
    (tmp_path / "case.json").write_text(json.dumps(made.to_json()))
    assert run_capsule(tmp_path / "case.json").is_equal
    assert '"a"' not in (tmp_path / "case.json").read_text()
    answer = str(why(place, {"sensor": "a"}, "2024-05-01T10:00", job=job, spark=spark))
    assert "the row of batch 1 that has moved it: event time 2024-05-01T10:02:30Z in file:" in answer
    assert "0001.json (sensor=b); less the delay of 0s that is 2024-05-01T10:02:30Z" in answer

    changed = replay(place, late, job=readings.declare(total="max"), spark=spark)
    assert [one.partition(":")[0] for one in changed.differences] == ["state", "log"]
    assert "total=17" in changed.differences[1]
    (readings.folder / "in" / "0000.json").write_text('{"sensor": "a", "at": "2024-05-01T10:00:10Z", "value": 3}')
    tampered = replay(place, 0, job=job, spark=spark)
    assert [one.partition(":")[0] for one in tampered.differences] == ["state", "quarantine", "metrics"]
    assert "differs" in str(tampered)
    for path in (readings.epoch / "pulse").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match=r"the control file pulse/.* of batch 0 .* is no longer kept"):
        replay(place, 0, job=job, spark=spark)


@pytest.mark.release  # CI runs one from files again
def test_a_batch_from_a_delta_table_is_run_again(readings: Readings) -> None:
    """Of the version that the job began with, and of later ones, through a restart; `why` names the row."""
    spark, source = readings.spark, str(readings.folder / "source")

    def put(*rows: tuple[str, str, int]) -> None:
        given = [(sensor, f"2024-05-01 {at}", value) for sensor, at, value in rows]
        frame = spark.createDataFrame(given, "sensor string, at string, value bigint").coalesce(1)
        frame.withColumn("at", frame["at"].cast("timestamp")).write.format("delta").mode("append").save(source)

    def declare() -> DeltaJob:
        stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
        panes = windowed(stream, name="from-delta", event_time="at", partition_by="sensor", key_groups=2)
        computed = panes.window(TimeInterval(60, discard_age=120)).aggregate(total=agg.sum("value"))
        return computed.to_delta(readings.folder / "log")

    put(("a", "10:00:10", 1), ("b", "10:00:20", 2))
    put(("a", "10:01:30", 4), ("b", "10:02:30", 8))
    for late in (16, 32):
        job = declare().start(checkpoint=readings.checkpoint, trigger="available_now")
        readings.jobs.append(job)
        assert job.await_end(timeout=300)
        put(("a", "10:00:40", late), ("a", "10:04:00", late))
    numbers = readings.numbers("commits")
    found = [replay(readings.checkpoint, number, job=declare()) for number in numbers]
    assert [one.differences for one in found] == [()] * len(numbers)
    assert sum(one.counts["rows_in"] for one in found) == 6
    assert sum(one.counts["refined_late"] for one in found) == 1
    fired = next(number for number, one in enumerate(found) if one.counts["firings"])
    assert run_capsule(capsule(readings.checkpoint, fired, {"sensor": "a"}, job=declare()).to_json()).is_equal
    answer = str(why(readings.checkpoint, {"sensor": "b"}, "2024-05-01T10:00", job=declare()))
    assert "that has moved it: event time 2024-05-01T10:02:30Z (sensor=b); less the delay of 0s" in answer
