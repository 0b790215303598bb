"""The stack: the flights submitted to a standalone cluster, with checkpoint and tables in an S3 store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.flights.tables import LOG, METRICS, read_table
from examples.stack import services
from panekeeper.recovery.savepoint.catalog import verify
from panekeeper.recovery.savepoint.create import savepoint
from panekeeper.recovery.storage.s3 import S3Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.stack.conftest import Stack

PROGRAM = "examples/flights/cluster_main.py"
DAYS, FILES = 1, 4
_RUN_S = 1800  # five minutes on an idle machine; less than faulthandler_timeout, so that it says what was printed


@pytest.mark.extended
def test_a_submitted_job_is_saved_from_outside_its_cluster(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoint, tables and savepoint are in S3; the secret key is in none of them, and not in what was printed."""
    printed = stack.submit(PROGRAM, "s3a://flights/demo", "--days", str(DAYS), "--files", str(FILES))
    assert "ended after batch" in printed
    assert (
        stack.client().list_objects_v2(Bucket="flights", Prefix="demo/checkpoint/epochs/0000/commits/")["KeyCount"] > 0
    )
    for name, value in stack.credentials.items():
        monkeypatch.setenv(name, value)
    store = S3Options(endpoint=stack.endpoint)
    place = "s3://flights/demo/savepoints"
    made = savepoint("s3a://flights/demo/checkpoint", "between", to=place, s3=store, spark=spark)
    assert made.values
    assert {table.path.partition("//")[2].split("/")[0] for table in made.manifest.tables.values()} == {"flights"}
    assert verify(place, "between", s3=store).files == len(made.manifest.files) > 0
    kept = stack.download("flights", "demo", tmp_path)
    assert stack.secret not in printed
    assert not [path for path in kept.rglob("*") if path.is_file() and stack.secret.encode() in path.read_bytes()]
    metrics = read_table(kept / METRICS)
    assert sum(metrics["firings"].to_pylist()) == read_table(kept / LOG).num_rows > 0


@pytest.mark.release  # minutes of two cores; the program is tested on Kafka, killed as well, and the cluster above
def test_flights_from_kafka_are_right_though_every_service_failed_meanwhile(composed: services.Stack) -> None:
    """What `make stack` runs: Kafka restarted, the store away, a worker and the driver killed, a savepoint restored."""
    run = subprocess.Popen(
        [sys.executable, "-u", "-m", "examples.stack"],
        cwd=services.ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        printed, _ = run.communicate(timeout=_RUN_S)
    except subprocess.TimeoutExpired:
        run.kill()
        printed, _ = run.communicate()
    assert run.returncode == 0, printed + composed.compose("logs", "--tail", "40")
    assert "the driver is killed" in printed
    assert "every row equals DuckDB's result" in printed
