"""A job ends by Spark's own means, `query.stop()` and `spark.stop()`: an end like any other, and resumable."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from panekeeper.framework.engine.job.status import JobState

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from integration_tests.engine.conftest import Readings

STOPPED_SESSION = """
import sys
from pathlib import Path
from panekeeper import JobFailed, TimeInterval, agg, session, windowed

folder = Path(sys.argv[1])
spark = session("stopped")
rows = spark.readStream.schema("sensor string, at timestamp, value bigint").json(str(folder / "in"))

def start(name):
    window = windowed(rows, name=name, partition_by="sensor", event_time="at").window(TimeInterval(60))
    return window.aggregate(n=agg.count()).to_delta(folder / f"log_{name}").start(checkpoint=folder / name)

job = start("stopped")
job.process_available()

def fail(report):
    raise ValueError("of the user")

broken = start("broken")
try:
    broken.on_batch(fail, on_error="fail")
    broken.process_available()
except JobFailed:
    pass
while broken.running:
    pass
spark.stop()
assert job.await_end(timeout=60)
print(job.status().state.value)
try:
    broken.await_end(timeout=60)
except JobFailed as error:
    print(broken.status().state.value, str(error).partition("\\n")[0])
"""


def test_a_query_that_is_stopped_amid_a_batch_has_not_failed(readings: Readings) -> None:
    """The batch is recorded by then or not; either way the next start goes on with it, and each row counts once."""
    reached = threading.Event()

    def stop(_: DataFrame, __: int) -> None:
        if not reached.is_set():
            reached.set()
            (query,) = (one for one in readings.spark.streams.active if one.name == "readings")
            threading.Thread(target=query.stop, daemon=True).start()
            while query.isActive:  # stop() has taken effect; its batch is interrupted
                pass

    readings.put(("a", "10:00:10", 1), ("a", "10:05:00", 2))
    job = readings.declare().foreach_batch(stop).start(checkpoint=readings.checkpoint)
    readings.jobs.append(job)
    assert job.await_end(timeout=60)
    assert reached.is_set()
    assert job.status().state is JobState.ENDED
    assert json.loads((readings.epoch / "panekeeper/stopped.json").read_text())["state"] == "ended"
    readings.run().flush()
    assert [(sensor, minute, total) for sensor, minute, total, *_ in readings.log()] == [
        ("a", "10:00", 1),
        ("a", "10:05", 2),
    ]


def test_a_job_ends_with_its_session(tmp_path: Path) -> None:
    """An idle query does not notice that: the job ends and gives its checkpoint back. A failed one remains failed."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text('{"sensor": "a", "at": "2026-01-01T10:00:00Z", "value": 1}\n')
    given = [sys.executable, "-c", STOPPED_SESSION, str(tmp_path)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=300, check=True)
    ended, failed = done.stdout.splitlines()
    assert ended == "ended"
    assert failed == "failed job 'broken' stopped: ValueError: of the user"
    (stopped,) = (tmp_path / "stopped").glob("epochs/*/panekeeper/stopped.json")
    assert json.loads(stopped.read_text())["state"] == "ended"
    assert not [*(tmp_path / "stopped").glob("epochs/*/panekeeper/running.json")]
