"""The stack: the flights submitted to a standalone cluster, with checkpoint and tables in an S3 store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.flights.data import Replay, around, file_boundaries, in_replay_order, raw_flights
from examples.flights.oracle import Oracle
from examples.flights.tables import LOG, QUARANTINE, VIEW, read_table
from recovery.savepoint.catalog import verify
from recovery.savepoint.create import savepoint
from recovery.storage.s3_options import S3Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.stack.conftest import Stack

PROGRAM = "examples/flights/cluster_main.py"
DAYS = 1


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
