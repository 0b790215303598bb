"""With another number of shuffle partitions, a job has the results that it would have had without."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.readings import FILES, LOG
from integration_tests.recovery.same_state import require_same_state
from panekeeper import JobFailed, TimeInterval, agg, windowed
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.savepoint.checkpoint_snapshot import read_checkpoint
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.recovery.upgrade.rescale import PARTITIONS, rescale

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from integration_tests.engine.conftest import Readings


class Killed(Exception):
    """The process ends here."""


def by_command(readings: Readings, partitions: int) -> dict[str, Any]:
    """Rescale as an operator does: in a new process, whose session has run nothing yet."""
    place = ["--partitions", str(partitions), "--to", str(readings.folder / "savepoints")]
    done = subprocess.run(
        [sys.executable, "-m", "panekeeper.cli.main", "rescale", str(readings.checkpoint), *place, "--json"],
        stdout=subprocess.PIPE,
        timeout=300,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_a_rescaled_job_resumes_with_the_same_results(readings: Readings) -> None:
    """With half as many shuffle partitions it goes on where it was."""
    for rows in FILES[:2]:
        readings.put(*rows)
    readings.run(key_groups=4)
    done = rescale(readings.checkpoint, 2, to=readings.folder / "savepoints", spark=readings.spark)
    assert (done.old, done.new) == (4, 2)
    for rows in FILES[2:]:
        readings.put(*rows)
    readings.run(key_groups=4)
    assert require_same_state(readings.spark, readings.checkpoint) > 1
    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]


@pytest.mark.release
@pytest.mark.parametrize("before", ["dropDuplicates", "join"])
def test_the_state_of_operators_before_the_window_is_distributed_again_too(readings: Readings, before: str) -> None:
    """Rows that were there before the change are still known after it."""

    def stream() -> DataFrame:
        rows = readings.stream().where("at is not null")
        if before == "dropDuplicates":
            return rows.dropDuplicates()
        names = readings.spark.readStream.schema("sensor string, name string").json(str(readings.folder / "names"))
        return rows.join(names, "sensor").drop("name")

    def run() -> None:
        stream_of_rows = windowed(stream(), name="readings", partition_by="sensor", event_time="at", key_groups=4)
        job = stream_of_rows.window(TimeInterval(60, discard_age=120)).aggregate(total=agg.sum("value"), n=agg.count())
        tables = job.to_delta(readings.folder / "log", view=readings.folder / "view")
        assert tables.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)

    (readings.folder / "names").mkdir()
    (readings.folder / "names" / "0.json").write_text('{"sensor": "a", "name": "A"}')
    readings.put(("a", "10:00:10", 1), ("b", "10:00:20", 2))
    readings.put(("a", "10:00:30", 4))
    run()
    rescale(readings.checkpoint, 2, to=readings.folder / "savepoints", spark=readings.spark)
    (readings.folder / "names" / "1.json").write_text('{"sensor": "b", "name": "B"}')
    readings.put(("a", "10:00:10", 1), ("a", "10:00:50", 8))
    readings.put(("a", "10:09:00", 0), ("b", "10:09:00", 0))
    run()
    twice = 0 if before == "dropDuplicates" else 1
    found = {row[0]: row[2:4] for row in readings.log("view") if row[1] == "10:00"}
    assert found == {"a": (13 + twice, 3 + twice), "b": (2, 1)}


@pytest.mark.release  # CI rescales, and kills a start that upgrades
def test_a_rescale_that_is_killed_is_completed(readings: Readings, fail_at: Callable[[str, int], None]) -> None:
    """Fewer after a batch that failed before it was recorded; then more, killed on the way and completed."""

    def killed(partitions: int, after: str) -> None:
        def reached(step: str) -> None:
            if step == after:
                raise Killed

        place = readings.folder / "savepoints"
        with pytest.raises(Killed):
            rescale(readings.checkpoint, partitions, to=place, spark=readings.spark, on_step=reached)

    for rows in FILES[:3]:
        readings.put(*rows)
    fail_at("before-prepare", 2)
    with pytest.raises(JobFailed):
        readings.run(key_groups=4)
    killed(2, "copied")
    fewer = by_command(readings, 2)
    assert [fewer[name] for name in ("old", "new", "busiest", "idle")] == [4, 2, 2, 0]
    assert fewer["values"] >= 4  # a header for each key group
    readings.run(key_groups=4)

    killed(8, "current")
    with pytest.raises(SavepointRefused, match=r"a restore of the job of .* is not complete"):
        rescale(readings.checkpoint, 8, to=readings.folder / "savepoints", spark=readings.spark)
    readings.put(*FILES[3])
    readings.run(key_groups=4)
    assert read_checkpoint(current_folder(checkpoint_at(readings.checkpoint))).settings[PARTITIONS] == "8"

    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]
    metrics = readings.rows("log_metrics")
    assert sum(row["rows_in"] for row in metrics) == 8
    assert len({row["batch"] for row in metrics}) == len(metrics)
