"""The stack: the flights submitted to a standalone cluster, with checkpoint and tables in an S3 store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.flights.data import Replay, around, file_boundaries, in_replay_order, raw_flights
from examples.flights.oracle import Oracle
from examples.flights.tables import LOG, QUARANTINE, VIEW, read_table
from examples.stack import services
from recovery.savepoint.catalog import verify
from recovery.savepoint.create import savepoint
from recovery.storage.s3_options import S3Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.stack.conftest import Stack

PROGRAM = "examples/flights/cluster_main.py"
DAYS = 1
_RUN_S = 1800  # five minutes on an idle machine


@pytest.mark.extended
def test_flights_submitted_twice_end_with_the_right_tables(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second submission resumes on other executors from the checkpoint in S3; every row is as the oracle expects.

    A savepoint is made in between. The secret key of the store is in no file and in nothing that was
    printed.
    """
    first = stack.submit(PROGRAM, "s3a://flights/demo", "--days", str(DAYS), "--files", "4")
    assert "ended after batch" in first
    assert stack.client().list_objects_v2(Bucket="flights", Prefix="demo/checkpoint/commits/")["KeyCount"] > 0
    for name, value in stack.credentials.items():
        monkeypatch.setenv(name, value)
    store = S3Options(endpoint=stack.endpoint)
    place = "s3://flights/demo/savepoints"
    made = savepoint("s3a://flights/demo/checkpoint", "between", to=place, s3=store, spark=spark)
    assert made.values
    assert {table.path.partition("//")[2].split("/")[0] for table in made.manifest.tables.values()} == {"flights"}
    assert verify(place, "between", s3=store).files == len(made.manifest.files) > 0
    second = stack.submit(PROGRAM, "s3a://flights/demo", "--days", str(DAYS))
    assert "flushed after batch" in second
    kept = stack.download("flights", "demo", tmp_path)
    assert stack.secret not in first + second
    assert not [path for path in kept.rglob("*") if path.is_file() and stack.secret.encode() in path.read_bytes()]
    raw = around(raw_flights(), DAYS)
    oracle = Oracle(raw, file_boundaries(in_replay_order(raw), Replay(days=DAYS)))
    log, view, quarantine = (read_table(kept / table) for table in (LOG, VIEW, QUARANTINE))
    assert log.num_rows > 0
    assert oracle.differences(log=log, view=view, quarantine=quarantine) == []


@pytest.mark.extended
def test_flights_from_kafka_are_right_though_every_service_failed_meanwhile(composed: services.Stack) -> None:
    """What `make stack` runs: Kafka restarted, the store away, a worker and the driver killed, a savepoint restored."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.stack"],
        cwd=services.ROOT,
        text=True,
        capture_output=True,
        check=False,
        timeout=_RUN_S,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed + composed.compose("logs", "--tail", "40")
    assert "the driver is killed" in printed
    assert "every row equals DuckDB's result" in printed
