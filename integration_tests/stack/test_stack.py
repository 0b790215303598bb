"""The stack: the flights submitted to a standalone cluster, with checkpoint and tables in an S3 store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.flights.data import Replay, around, cuts_of, in_replay_order, raw_flights
from examples.flights.oracle import Oracle
from examples.flights.tables import LOG, QUARANTINE, VIEW, read_table

if TYPE_CHECKING:
    from integration_tests.stack.conftest import Stack

PROGRAM = "examples/flights/submitted.py"
DAYS = 1


@pytest.mark.slow
def test_flights_submitted_twice_end_with_the_right_tables(stack: Stack, tmp_path: Path) -> None:
    """The second submission goes on, on other executors, from the checkpoint in S3; the judge finds every row right."""
    first = stack.submit(PROGRAM, "s3a://flights/demo", "--days", str(DAYS), "--files", "4")
    assert "ended after batch" in first
    assert stack.client().list_objects_v2(Bucket="flights", Prefix="demo/checkpoint/commits/")["KeyCount"] > 0
    second = stack.submit(PROGRAM, "s3a://flights/demo", "--days", str(DAYS))
    assert "flushed after batch" in second
    raw = around(raw_flights(), DAYS)
    oracle = Oracle(raw, cuts_of(in_replay_order(raw), Replay(days=DAYS)))
    log, view, quarantine = (
        read_table(stack.download("flights", f"demo/{table}", tmp_path)) for table in (LOG, VIEW, QUARANTINE)
    )
    assert log.num_rows > 0
    assert oracle.differences(log=log, view=view, quarantine=quarantine) == []
