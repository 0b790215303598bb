"""The example that sends the flights through Kafka, killed and run again: its tables are those of the files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from benchmarks.soak.broker import Broker

pytest.importorskip("duckdb", reason="the oracle of the flights needs the extra panekeeper[demo]")

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]


def begin(broker: Broker, out: Path) -> subprocess.Popen[str]:
    """Start the replay of one day, or resume it."""
    command = [sys.executable, "-m", "examples.flights.kafka_main", broker.bootstrap, "--days", "1", "--out", str(out)]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )


@pytest.mark.release  # Kafka and the flights are tested by themselves, and a job on Kafka that is killed
def test_flights_sent_through_kafka_and_killed_give_the_rows_of_the_files(broker: Broker, tmp_path: Path) -> None:
    """Every row equals DuckDB's result over the published file, whose boundaries of files decided what is late."""
    first = begin(broker, tmp_path)
    assert first.stdout is not None
    for line in first.stdout:
        if line.startswith("file 4 of"):
            break
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = begin(broker, tmp_path)
    printed, _ = second.communicate(timeout=600)
    assert second.returncode == 0, printed
    assert "every row equals DuckDB's result" in printed
    assert "file 1 of" not in printed
