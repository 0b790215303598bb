"""What a user sees of a failure: all that Spark and Python said of it, and nothing of Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import JobFailed, TimeInterval, agg, windowed
from panekeeper.recovery.jobs.status import status
from panekeeper.state.checkpoint.folder import LocalFolder

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from panekeeper import TimeInterval, agg, session, windowed

folder = sys.argv[1]
rows = session().readStream.schema("sensor string, at timestamp").parquet(f"{folder}/in")
windows = windowed(rows, name="readings", partition_by="sensor", event_time="at").window(TimeInterval(60))
job = windows.aggregate(n=agg.count()).to_delta(f"{folder}/log").start(checkpoint=f"{folder}/job")
job.await_end()
"""


def test_what_a_function_of_the_user_raised_is_said_with_its_file_and_line(readings: Readings) -> None:
    """In the error, and in the status of the job."""

    def breaks(value: int) -> float:
        return value / 0

    readings.put(("a", "10:00:10", 1))
    rows = readings.stream().withColumn("share", F.udf(breaks, "double")("value"))
    windows = windowed(rows, name="readings", partition_by="sensor", event_time="at", watermark=0).window(
        TimeInterval(60)
    )
    job = windows.aggregate(top=agg.max("share")).to_delta(readings.folder / "log")
    with pytest.raises(JobFailed) as raised:
        job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    said = str(raised.value)
    assert said.startswith("job 'readings' stopped: ZeroDivisionError: division by zero\n")
    assert f'File "{__file__}", line ' in said
    assert "in breaks" in said
    assert said.count(", in ") == 1  # no frame of Spark's worker
    assert "\tat " not in said
    assert raised.value.cause is not None
    assert status(LocalFolder(Path(readings.checkpoint))).error == said


@pytest.mark.extended
def test_a_damaged_input_file_gives_a_handful_of_lines(tmp_path: Path) -> None:
    """What is wrong with it, what to do and where the program has waited; no stack of Java, and no broken pipes."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.parquet").write_bytes(b"no parquet file, though it has a length")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 1
    lines = [line for line in ran.stderr.splitlines() if line]
    lines = [line for line in lines if set(line) - set(" ~^")]  # with which Python 3.13 marks a call
    assert len(lines) <= 5, ran.stderr
    assert "job 'readings' stopped: [FAILED_READ_FILE" in lines[-2]
    assert lines[-1].endswith("is not a Parquet file. Expected magic number at tail, but found [110, 103, 116, 104]")
