"""A job on YARN with everything on HDFS: what is killed comes back, and the results are those of a quiet run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from framework.engine.session.session import SHORT_LIVED
from integration_tests.engine.conftest import Readings, shown
from integration_tests.engine.readings import FILES, LOG
from integration_tests.yarn.hadoop import Hadoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "integration_tests" / "engine" / "readings_program.py"
SPARK_SETTINGS = {
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent / 'jars'}/*",  # else they are copied to HDFS, 400 MB
    "spark.yarn.am.memory": "400m",
    "spark.executor.instances": 1,
    "spark.executor.cores": 2,
    "spark.executor.memory": "700m",
    "spark.executor.memoryOverhead": "700m",  # for Python workers and RocksDB
}


@pytest.fixture
def hadoop(tmp_path: Path) -> Iterator[Hadoop]:
    """A cluster with the settings of Spark's that fit it."""
    made = Hadoop(tmp_path / "hadoop")
    lines = "\n".join(f"{name} {value}" for name, value in SPARK_SETTINGS.items())
    (made.configuration / "spark-defaults.conf").write_text(lines)
    yield made
    made.close()


@pytest.mark.release
def test_what_is_killed_on_yarn_comes_back(hadoop: Hadoop, spark: SparkSession, tmp_path: Path) -> None:
    """The driver is killed in one batch and the executor in another. Paths without a scheme are on HDFS."""
    (tmp_path / "readings").mkdir()
    readings = Readings(spark, tmp_path / "readings")
    for rows in FILES:
        readings.put(*rows)
    hadoop.put(readings.folder, "/readings")
    assert run(hadoop, "between-delta:2") == -signal.SIGKILL
    assert run(hadoop, "executors:3") == 0
    hadoop.get("/readings", tmp_path / "copy")
    copied: list[dict[str, Any]] = [
        row.asDict() for row in spark.read.format("delta").load(str(tmp_path / "copy" / "log")).collect()
    ]
    assert shown(copied) == LOG
    record = json.loads((tmp_path / "copy/checkpoint/panekeeper/stopped.json").read_text())
    assert record["state"] == "ended"
    assert not (tmp_path / "readings" / "log").exists()


def run(hadoop: Hadoop, how: str) -> int:
    """Run the program in client mode and return how it ended."""
    environment = {
        "READINGS_MASTER": "yarn",
        "HADOOP_CONF_DIR": str(hadoop.configuration),
        "SPARK_CONF_DIR": str(hadoop.configuration),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),  # not the view that local sessions have
        "SPARK_SUBMIT_OPTS": SHORT_LIVED,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(PROGRAM), "/readings", how]
    return subprocess.run(command, env=os.environ | environment, check=False, timeout=300).returncode
